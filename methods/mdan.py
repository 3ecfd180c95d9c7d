"""MDAN: descend a bound on the target error, one domain discriminator a source (Zhao et al., NeurIPS 2018).

The bound is the worst source's (error + distance to the target); with CE_m for the error and −D_m for the distance,
D_m the loss of the best discriminator between source m and the target:

    soft (default)   (1/γ) log Σ_m exp γ(CE_m − μ D_m)         a smooth maximum over the sources
    hard             max_m CE_m − μ min_m D_m                  only the worst source and the best discriminator learn

Every update first lets the discriminators descend D_m on fixed features, then extractor and classifier descend the
bound: the minimax itself, where the official code reverses gradients within one step. `code` keeps that code's
objective (1/γ) log Σ_m exp γ(CE_m + 2 μ D_m) behind a gradient reversal, μ = 0.01: 2 D_m, as it adds the losses of the
two domains where D_m is their mean. There a source weighs MORE the less it is told apart from the target, against the
bound, and μ scales the discriminators' own gradient too.

Held against the official PyTorch code, that of the Amazon reviews: `code` is its soft objective at the same μ. Nothing
public was run against `soft` and `hard`: the official digit code (TensorFlow) was read only; its D_m is a mean, as here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.contract import HParams, LabeledBatch, Method, Range, UnlabeledBatch
from methods.errors import unknown
from methods.layers import discriminator, domain_loss, ramp, reverse_gradient

if TYPE_CHECKING:
    from benchmark.run.task import Task

FORMS = ("soft", "hard", "code")


@dataclass(frozen=True)
class MDANHParams(HParams):
    """Hyper-parameters of MDAN."""

    form: str = "soft"  # soft | hard | code, see above
    gamma: float = 10.0  # official code: sharpness of the smooth maximum
    mu: float = 1.0  # weight of the distance; official digit code: 1, grown by λ_p = ramp(progress), as here


def soft_maximum(values: Tensor, gamma: float) -> Tensor:
    """(1/γ) log Σ_m exp(γ v_m): (M,) → 0-d, between max v and max v + log(M)/γ; its gradient is softmax(γ v)."""
    return torch.logsumexp(gamma * values, 0) / gamma


class MDAN(Method):
    """Multi-source domain adversarial network."""

    name = "mdan"
    title = "MDAN"
    revision = 2
    HParams = MDANHParams
    presets = {"hard": {"form": "hard"}, "code": {"form": "code", "mu": 0.01}}
    standards = ("multi-source",)
    ranges = {"lr_scale": Range(0.3, 3.0, log=True), "mu": Range(0.03, 3.0, log=True)}
    relative_cost = 1.8

    hparams: MDANHParams

    def __init__(self, task: Task, hparams: MDANHParams) -> None:
        super().__init__(task, hparams)
        if hparams.form not in FORMS:
            raise unknown("form of mdan", hparams.form, FORMS)
        self.extractor, self.classifier = task.extractor(), task.classifier()
        width = min(1024, task.feature_dim)  # as DANN's, ours; the official one branches off at the third convolution
        self.discriminators = nn.ModuleList(
            task.build(f"discriminator-{m}", lambda: discriminator(task.feature_dim, (width, width)))
            for m in range(task.num_sources)
        )
        self.optimisers["extractor"] = task.optimiser(self.extractor, "extractor")
        self.optimisers["classifier"] = task.optimiser(self.classifier, "classifier")
        self.optimisers["discriminators"] = task.optimiser(self.discriminators, "classifier")

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        features = self.task.forward_domains([*(batch.images for batch in sources), target.images], self.extractor)
        errors = self._errors(features, sources)
        if self.hparams.form == "code":
            domains = self._domain_losses([reverse_gradient(f) for f in features])
            bound = soft_maximum(errors + 2 * self.hparams.mu * domains, self.hparams.gamma)
            self.descend(bound)
            return _report(errors, domains, bound)

        # min over the discriminators, then one step down the bound
        self.descend(self._domain_losses([f.detach() for f in features]).sum(), "discriminators")
        domains = self._domain_losses(features)
        mu = self.hparams.mu * ramp(progress)
        if self.hparams.form == "hard":
            bound = errors.max() - mu * domains.min()
        else:
            bound = soft_maximum(errors - mu * domains, self.hparams.gamma)
        self.descend(bound, "extractor", "classifier")
        return _report(errors, domains, bound)

    def _errors(self, features: Sequence[Tensor], sources: Sequence[LabeledBatch]) -> Tensor:
        """CE_m of each source: (M,)."""
        pairs = zip(features[:-1], sources, strict=True)
        return torch.stack([F.cross_entropy(self.classifier(x), batch.labels) for x, batch in pairs])

    def _domain_losses(self, features: Sequence[Tensor]) -> Tensor:
        """D_m of each source against the target, which is last: (M,)."""
        *sources, target = features
        pairs = zip(self.discriminators, sources, strict=True)
        return torch.stack([domain_loss(judge(x), judge(target)) for judge, x in pairs])

    def probabilities(self, images: Tensor) -> Tensor:
        return self.classifier(self.extractor(images)).softmax(1)

    def embed(self, images: Tensor) -> Tensor:
        return self.extractor(images)


def _report(errors: Tensor, domains: Tensor, bound: Tensor) -> dict[str, Tensor]:
    return {"source": errors.mean().detach(), "domain": domains.mean().detach(), "bound": bound.detach()}
