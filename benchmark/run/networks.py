"""The networks of the suites: 3Conv-2FC, ResNet-18, ResNet-101, narrow versions, and per-domain batch normalisation.

Every network is an `Extractor`: images → features, in two parts, `trunk` and `last`. The cut between them is where
methods that split the network earlier (MCD's official digit network) put the border between extractor and classifier.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock

from benchmark.data import frozen
from benchmark.errors import UserError
from benchmark.spec.seeds import seed_of


class _PerDomain:
    """Mixin: in training, normalise each domain of a fused batch by its own statistics.

    `sizes` holds the number of images of each domain while `per_domain` is active; running statistics are updated
    once for each domain, in order, exactly as separate forward passes would.
    """

    sizes: Sequence[int] | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.sizes is None or not self.training:  # type: ignore[attr-defined]
            return self.one(x)
        return torch.cat([self.one(part) for part in x.split(list(self.sizes))])

    def one(self, x: Tensor) -> Tensor:
        """The images of one domain."""
        return super().forward(x)  # type: ignore[misc]


class BatchNorm1d(_PerDomain, nn.BatchNorm1d):
    """Batch normalisation of vectors, statistics per domain."""


class BatchNorm2d(_PerDomain, nn.BatchNorm2d):
    """Batch normalisation of maps, statistics per domain."""


class NormPoolReLU(BatchNorm2d):
    """Batch normalisation, 3×3 pooling by two and ReLU, domain by domain: a domain's maps are still in the cache when they
    are pooled, and only the pooled ones are put together.

    The papers' code rectifies before it pools; the maximum of the rectified is the rectified maximum, bit for bit, at a
    quarter of the work.
    """

    def one(self, x: Tensor) -> Tensor:
        return F.relu(F.max_pool2d(super().one(x), 3, 2, 1))


@contextlib.contextmanager
def per_domain(module: nn.Module, sizes: Sequence[int]) -> Iterator[None]:
    """Within: one forward pass over the concatenation of domains of these sizes, statistics per domain."""
    norms = [m for m in module.modules() if isinstance(m, _PerDomain)]
    for norm in norms:
        norm.sizes = sizes
    try:
        yield
    finally:
        for norm in norms:
            norm.sizes = None


class Extractor(nn.Module):
    """images (N, 3, H, W) → features (N, feature_dim); `last` is the block that an early split gives to the classifier."""

    def __init__(self, trunk: nn.Module, last: nn.Module, cut_dim: int, feature_dim: int) -> None:
        super().__init__()
        self.trunk, self.last = trunk, last
        self.cut_dim, self.feature_dim = cut_dim, feature_dim
        self.compiled = False  # training passes through `torch.compile`

    def forward(self, x: Tensor) -> Tensor:
        # evaluation comes in many batch sizes, each a compilation of its own, and is a small part of a run
        through = _compiled() if self.compiled and self.training else _through
        return through(self, x)


def _through(extractor: Extractor, x: Tensor) -> Tensor:
    return extractor.last(extractor.trunk(x))


@functools.lru_cache(maxsize=1)
def _compiled() -> Callable[[Extractor, Tensor], Tensor]:
    """`_through`, compiled. One graph for each shape, so that the code that runs does not depend on what ran before it
    (a resumed run is the same run); dropout drawn as without compilation; what cannot be compiled is an error."""
    return torch.compile(_through, dynamic=False, fullgraph=True, options={"fallback_random": True})


def conv3fc2(width: float = 1.0) -> Extractor:
    """The digit network of M3SDA and T-SVDNet ("3Conv-2FC"), input 3×32×32, feature 2048·width."""
    c, d, h, f = (max(1, round(n * width)) for n in (64, 128, 3072, 2048))
    trunk = nn.Sequential()
    # the numbers are those of the papers' layers: normalisation, ReLU and pooling are three of them
    for number, layer in {
        0: nn.Conv2d(3, c, 5, padding=2), 1: NormPoolReLU(c),
        4: nn.Conv2d(c, c, 5, padding=2), 5: NormPoolReLU(c),
        8: nn.Conv2d(c, d, 5, padding=2), 9: BatchNorm2d(d), 10: nn.ReLU(), 11: nn.Flatten(),
        12: nn.Linear(64 * d, h), 13: BatchNorm1d(h), 14: nn.ReLU(), 15: nn.Dropout(0.5),
    }.items():  # fmt: skip
        trunk.add_module(str(number), layer)
    last = nn.Sequential(nn.Linear(h, f), BatchNorm1d(f), nn.ReLU())
    return Extractor(trunk, last, h, f)


def resnet18(width: float = 1.0) -> Extractor:
    """ResNet-18 up to its global average pool; width 1 has torchvision's layers, names and feature size 512."""
    c = max(1, round(64 * width))
    trunk = nn.Sequential()
    trunk.add_module("conv1", nn.Conv2d(3, c, 7, stride=2, padding=3, bias=False))
    trunk.add_module("bn1", BatchNorm2d(c))
    trunk.add_module("relu", nn.ReLU(inplace=True))
    trunk.add_module("maxpool", nn.MaxPool2d(3, 2, 1))
    planes = c
    for number in range(1, 5):
        out, stride = c * 2 ** (number - 1), 1 if number == 1 else 2
        down = None
        if stride != 1:
            down = nn.Sequential(nn.Conv2d(planes, out, 1, stride=stride, bias=False), BatchNorm2d(out))
        first = BasicBlock(planes, out, stride, down, norm_layer=BatchNorm2d)
        trunk.add_module(f"layer{number}", nn.Sequential(first, BasicBlock(out, out, norm_layer=BatchNorm2d)))
        planes = out
    trunk.add_module("pool", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    return Extractor(trunk, nn.Identity(), planes, planes)


def resnet101(width: float = 1.0) -> Extractor:
    """torchvision's ResNet-101 up to its global average pool, feature size 2048."""
    if width != 1.0:
        raise UserError('ResNet-101 has no narrow version; use network = "resnet18" for a narrow one.')
    net = torchvision.models.resnet101(weights=None, norm_layer=BatchNorm2d)
    trunk = nn.Sequential()
    for name, child in list(net.named_children())[:-2]:
        trunk.add_module(name, child)
    trunk.add_module("pool", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    return Extractor(trunk, nn.Identity(), 2048, 2048)


class Tail(Extractor):
    """Blocks 14 and 15, head convolution, average pool: activations (N, 192, h, w) → features (N, 1280)."""

    def __init__(self, network: nn.Module) -> None:
        layers: list[nn.Module] = [
            *frozen.parts(network, "_blocks")[frozen.CUT :],
            *frozen.parts(network, "_conv_head", "_bn1", "_swish"),
        ]
        trunk = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        per_domain_norms(trunk)
        super().__init__(trunk, nn.Identity(), 1280, 1280)

    def restore_pretrained(self) -> None:
        """ImageNet's weights back in place, after the harness drew random ones for every layer."""
        fresh = Tail(frozen.pretrained())
        self.load_state_dict(fresh.state_dict())


def per_domain_norms(module: nn.Module) -> None:
    """Put the suite's batch normalisation (statistics per domain) in the place of torch's, weights and ε kept.

    The momentum becomes 0.1, as in every network of the suites, so that running statistics mean the same everywhere.
    """
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.BatchNorm2d:
                norm = BatchNorm2d(child.num_features, eps=child.eps, device=child.weight.device)
                norm.load_state_dict(child.state_dict())
                setattr(parent, name, norm)


def effnet_lite0_tail(width: float = 1.0) -> Extractor:
    """The trainable end of EfficientNet-Lite0. There is no narrow version: ImageNet's weights have one width."""
    if width != 1.0:
        raise UserError("effnet-lite0-tail has no narrow version: its ImageNet weights have width 1.")
    return Tail(frozen.empty())


NETWORKS: dict[str, Callable[[float], Extractor]] = {
    "conv3fc2": conv3fc2,
    "resnet18": resnet18,
    "resnet101": resnet101,
    "effnet-lite0-tail": effnet_lite0_tail,
}


def initialise(module: nn.Module, seed: int, role: str) -> None:
    """Draw the initial weights of every layer from (seed, role, the layer's name): equal for all methods."""
    with torch.random.fork_rng(devices=[]):
        for name, layer in module.named_modules():
            reset = getattr(layer, "reset_parameters", None)
            if callable(reset):
                torch.manual_seed(seed_of("init", seed, role, name))
                reset()
    restore = getattr(module, "restore_pretrained", None)  # a network that starts from weights of its own
    if callable(restore):
        restore()


def load_imagenet(extractor: Extractor, network: str, weights: Path) -> None:
    """ImageNet weights from a local file in torchvision's naming; nothing is unpickled but tensors."""
    if not weights.is_file():
        raise UserError(
            f"The ImageNet weights of {network} are not at {weights}. Download torchvision's {network} weights on a "
            f"machine with internet (python -m benchmark data fetch --suite pacs) and put the file there."
        )
    try:
        state = torch.load(weights, map_location="cpu", weights_only=True)
        state = {k: v for k, v in state.items() if not k.startswith("fc.")}
        extractor.trunk.load_state_dict(state)
    except Exception as error:
        raise UserError(f"{weights} does not hold the weights of {network}: {str(error).splitlines()[0]}") from None
