"""The networks of the built-in suites: 3Conv-2FC, ResNet-18, ResNet-101, narrow versions, the end of EfficientNet-Lite0."""

from __future__ import annotations

from collections.abc import Callable

import torchvision
from torch import nn
from torchvision.models.resnet import BasicBlock

from benchmark.data import frozen
from benchmark.errors import UserError
from benchmark.run.networks.extractor import Extractor
from benchmark.run.networks.norms import BatchNorm1d, BatchNorm2d, NormPoolReLU, per_domain_norms


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
