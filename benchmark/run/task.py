"""What a method is given: networks by role, optimisers, the fused forward pass, the budget. The same for all methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from benchmark.run import networks
from benchmark.run.speed import needs_compiler
from benchmark.run.stages import divide
from benchmark.spec.network import weights_file

if TYPE_CHECKING:
    from benchmark.spec import Resolved

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class NetworkSpec:
    """Which extractor, how wide, which weights (a path, or empty for a random start), for images of which side."""

    name: str = "conv3fc2"
    width: float = 1.0
    weights: str = ""
    image_size: int = 32


@dataclass(frozen=True)
class OptimiserSpec:
    """The suite's optimiser: one for all methods. `lr` by group; a group that is not named takes the classifier's."""

    name: str = "adam"
    lr: dict[str, float] = field(default_factory=lambda: {"extractor": 5e-4, "classifier": 5e-4})
    weight_decay: float = 5e-4
    momentum: float = 0.9


class Task:
    """Everything that methods share. One instance serves one run."""

    def __init__(
        self,
        *,
        num_classes: int,
        num_sources: int,
        network: NetworkSpec,
        optimiser: OptimiserSpec,
        budget: int,
        stage_budget: str = "shared",
        seed: int,
        batch_size: int = 32,
        device: str | torch.device = "cpu",
        lr_scale: float = 1.0,
        batch_norm: str = "per-domain",
        compile: bool = False,
        precision: str = "fp32",
        extractor_factory: Callable[[], networks.Extractor] | None = None,
    ) -> None:
        self.num_classes, self.num_sources = num_classes, num_sources
        self.network, self.optimiser_spec = network, optimiser
        self.budget, self.stage_budget, self.seed, self.batch_size = budget, stage_budget, seed, batch_size
        self.device = torch.device(device)
        self.lr_scale, self.batch_norm, self.compile, self.precision = lr_scale, batch_norm, compile, precision
        if compile:
            needs_compiler(self.device.type)
            torch.compiler.reset()  # nothing of an earlier run in this process
        # On a GPU all domains pass a batch-norm layer in one kernel each way; a CPU is fastest with one domain in its cache.
        self.interleaved = self.device.type != "cpu" and batch_norm == "per-domain"
        self.images_forwarded = 0  # through any extractor, in training: the "passes" of the cost table
        named = network.name, network.width, network.image_size
        self._factory = extractor_factory or (lambda: networks.build(*named))
        self._extractors: dict[tuple[str, int], nn.Module] = {}
        if extractor_factory is None:
            self.feature_dim, self.cut_dim = networks.shape(*named)
        else:
            with torch.device("meta"):
                shape = extractor_factory()
            self.feature_dim, self.cut_dim = shape.feature_dim, shape.cut_dim

    # -- modules ------------------------------------------------------------------------------------------------

    def extractor(self, role: str = "main", cut: int = 0) -> nn.Module:
        """images → (N, feature_dim). The same role gives the same module. `cut=1` leaves out the last block
        (features of size `cut_dim`), which `classifier(cut=1)` then holds: MCD's official split."""
        key = (role, cut)
        if key not in self._extractors:
            self._extractors[key] = self._new_extractor(role, cut)
        return self._extractors[key]

    def _new_extractor(self, role: str, cut: int) -> nn.Module:
        module = self._network(role)
        if cut:
            module.last = nn.Identity()
        module.compiled, module.bf16 = self.compile, self.precision == "bf16"
        module.register_forward_pre_hook(self._count)
        if self.interleaved:
            return module.to(self.device)
        # channels-last weights pull the maps after them: pooling and narrow convolutions are several times faster
        return module.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def _network(self, role: str) -> networks.Extractor:
        """As it starts: drawn from (seed, role), or from the file of weights."""
        module = networks.drawn(self._factory, self.seed, role)
        if self.network.weights:
            networks.load_weights(module, self.network.name, Path(self.network.weights))
        return module

    def _count(self, module: nn.Module, args: tuple[Tensor, ...]) -> None:
        if module.training:
            self.images_forwarded += args[0].shape[0]

    def classifier(self, role: str = "main", cut: int = 0) -> nn.Module:
        """features → logits: one linear layer; with `cut=1` the extractor's last block comes first. A new module each call."""
        linear = self.build(f"classifier/{role}", lambda: nn.Linear(self.feature_dim, self.num_classes))
        if not cut:
            return linear
        return nn.Sequential(self._network(role).last, linear).to(self.device)

    def build(self, role: str, factory: Callable[[], M]) -> M:
        """Any module of a method's own, with weights drawn from (seed, role)."""
        return networks.drawn(factory, self.seed, role).to(self.device)

    # -- training -----------------------------------------------------------------------------------------------

    def updates(self, stages: list[tuple[str, float]], name: str) -> int:
        """How many updates the stage `name` of a method's `stages` has: what a rate or a schedule counts."""
        return next(s.stop - s.start for s in divide(stages, self.budget, self.stage_budget) if s.name == name)

    def optimiser(
        self, params: nn.Module | Iterable[Any], group: str = "extractor", **changes: Any
    ) -> torch.optim.Optimizer:
        """The suite's optimiser over a module, or parameters, at the learning rate of `group`.

        `changes` override it where a method's own paper asks for it (kind="sgd", lr=…, betas=…, weight_decay=…).
        """
        spec = self.optimiser_spec
        kind = changes.pop("kind", spec.name)
        lr = changes.pop("lr", spec.lr.get(group, spec.lr["classifier"])) * self.lr_scale
        decay = changes.pop("weight_decay", spec.weight_decay)
        wanted = params.parameters() if isinstance(params, nn.Module) else params
        chosen = [p for p in wanted if not isinstance(p, Tensor) or p.requires_grad]
        if kind == "sgd":
            momentum = changes.pop("momentum", spec.momentum)
            return torch.optim.SGD(chosen, lr=lr, weight_decay=decay, momentum=momentum, fused=True, **changes)
        return torch.optim.Adam(chosen, lr=lr, weight_decay=decay, fused=True, **changes)

    def forward_domains(self, batches: Sequence[Tensor], extractor: nn.Module | None = None) -> list[Tensor]:
        """Features of each batch from one fused pass; batch-norm statistics per domain, running ones in this order.

        [x_1 (B_1, …), …] → [f_1 (B_1, F), …]. `batch_norm="pooled"` takes the statistics of the whole instead.
        """
        module = self.extractor() if extractor is None else extractor
        sizes = [len(b) for b in batches]
        if self.batch_norm == "pooled" or len(batches) == 1:
            fused = batches[0] if len(batches) == 1 else torch.cat(list(batches))
            return list(module(fused).split(sizes))
        interleaved = self.interleaved and len(set(sizes)) == 1
        with networks.per_domain(module, sizes, interleaved):
            if interleaved:
                return list(module(networks.interleave(batches)).unflatten(0, (sizes[0], -1)).unbind(1))
            return list(module(torch.cat(list(batches))).split(sizes))


def make_task(resolved: Resolved, num_classes: int, device: str, data_root: Path | None = None) -> Task:
    """The task of a resolved spec: what every method of this suite and tier is given."""
    s = resolved.settings
    weights = weights_file(s.network, data_root) or ""
    return Task(
        num_classes=num_classes,
        num_sources=1 if resolved.spec.standard == "combined" else len(resolved.spec.sources),
        network=NetworkSpec(s.network.name, s.network.width, str(weights), s.network.image_size),
        optimiser=OptimiserSpec(
            s.optimiser.name,
            {"extractor": s.optimiser.lr_extractor, "classifier": s.optimiser.lr_classifier},
            s.optimiser.weight_decay,
            s.optimiser.momentum,
        ),
        budget=s.updates,
        stage_budget=s.stage_budget,
        seed=resolved.spec.seed,
        batch_size=s.batch,
        device=device,
        lr_scale=resolved.hparams.lr_scale,
        batch_norm=s.batch_norm,
        compile=s.compile,
        precision=s.precision,
    )
