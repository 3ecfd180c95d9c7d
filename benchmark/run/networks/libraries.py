"""Networks of torchvision and timm as extractors: the features that their heads are given, batch norms per domain.

`torchvision:NAME`, or the name alone, is a classification network of torchvision, `timm:NAME` one of timm. `last` is the
hidden layer of a head that has one (VGG, AlexNet, MobileNetV3, MaxViT of torchvision), as in the papers' digit network;
of all others it is empty, as of the ResNets, and an early split is the same network as a late one. Nothing is fetched.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, NamedTuple

import torch
import torchvision
from torch import Tensor, nn

from benchmark.errors import UserError
from benchmark.run.networks.extractor import Extractor
from benchmark.run.networks.norms import per_domain_norms
from benchmark.run.networks.ours import NETWORKS
from benchmark.spec.network import Description, describe, split_name

CLASSES = 1000  # of the heads that are taken off
OTHER = "Name another network."
AUXILIARY = ("googlenet", "inception_v3")  # have further heads in training, which nobody here asks


class Shape(NamedTuple):
    """Sizes of what an extractor gives: with all of it, and without `last`."""

    feature_dim: int
    cut_dim: int


def build(name: str, width: float = 1.0, image_size: int = 0) -> Extractor:
    """The extractor of this name, for images of this side. Its weights mean nothing yet: `drawn` and `load_weights`."""
    if name in NETWORKS:
        return NETWORKS[name](width)
    sizes = shape(name, width, image_size)
    trunk, last, head = _parts(name, image_size or describe(name).image_size)
    extractor = Extractor(trunk, last, sizes.cut_dim, sizes.feature_dim)
    extractor.head = tuple(f"{part}." for part in head)
    extractor.origin["last."] = "".join(head[0].rpartition(".")[:2]) if head else ""
    return extractor


def shape(name: str, width: float = 1.0, image_size: int = 0) -> Shape:
    """What the extractor of this name would give, without memory for its weights where its library allows that."""
    if name in NETWORKS:
        with torch.device("meta"):
            network = NETWORKS[name](width)
        return Shape(network.feature_dim, network.cut_dim)
    if width != 1.0:
        raise UserError(
            f"{name} has no narrow version, and the width {width:g} is asked for. Type: --set run.network.width=1.0, or "
            "name another network: conv3fc2 and resnet18 can be narrow."
        )
    return _measured(name, image_size or describe(name).image_size)


@functools.lru_cache(maxsize=64)
def _measured(name: str, side: int) -> Shape:
    """Two images, passed through. Some constructors want real numbers: a second try gives them memory."""
    try:
        try:
            with torch.device("meta"):
                return _passed(name, side)
        except (RuntimeError, NotImplementedError):
            with torch.random.fork_rng(devices=[]), torch.device("cpu"):
                return _passed(name, side)
    except UserError:
        raise
    except Exception as error:  # whatever a library says of a size that does not suit its network
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(
            f"The network {name} does not work on images of {side} × {side} pixels: {words}. Another size: "
            "--set run.network.image_size=SIDE, or image_size in the suite file; without it the network's own is taken."
        ) from None


@torch.no_grad()
def _passed(name: str, side: int) -> Shape:
    trunk, last, _ = _parts(name, side)
    cut = trunk.eval()(torch.zeros(2, 3, side, side))
    features = last.eval()(cut) if isinstance(cut, Tensor) else cut
    if not isinstance(features, Tensor) or features.dim() != 2:
        raise UserError(f"The network {name} gives no features, one vector an image, before its head. {OTHER}")
    return Shape(features.shape[1], cut.shape[1])


def _parts(name: str, side: int) -> tuple[nn.Module, nn.Module, tuple[str, ...]]:
    """Trunk and last block, batch norms exchanged, and the names that weights of the head have in a file."""
    library, own = split_name(name)
    trunk, last, head = (_of_timm if library == "timm" else _of_torchvision)(own, side, describe(name))
    for part in (trunk, last):
        per_domain_norms(part)
    return trunk, last, head


def _of_timm(own: str, side: int, description: Description) -> tuple[nn.Module, nn.Module, tuple[str, ...]]:
    size = {"img_size": side} if description.fixed and side != description.image_size else {}
    network = importlib.import_module("timm").create_model(own, pretrained=False, num_classes=0, **size)
    return network, nn.Identity(), description.head


def _of_torchvision(own: str, side: int, description: Description) -> tuple[nn.Module, nn.Module, tuple[str, ...]]:
    options: dict[str, Any] = {"aux_logits": False, "init_weights": False} if own in AUXILIARY else {}
    if description.fixed:
        options["image_size"] = side
    network = torchvision.models.get_model(own, weights=None, **options)
    linear = [name for name, layer in network.named_modules() if getattr(layer, "out_features", 0) == CLASSES]
    if not linear:
        raise UserError(
            f"The network {own} has no linear layer as its head, so there are no features before it. {OTHER}"
        )
    place, _, own_name = linear[-1].rpartition(".")
    parent = network.get_submodule(place)
    setattr(parent, own_name, nn.Identity())
    return network, _hidden(parent), (linear[-1],)


def _hidden(head: nn.Module) -> nn.Module:
    """The last hidden linear layer of a head and what follows it, taken out of the head."""
    layers = list(head.named_children()) if isinstance(head, nn.Sequential) else []
    linear = [i for i, (_, layer) in enumerate(layers) if isinstance(layer, nn.Linear)]
    if not linear:
        return nn.Identity()
    last = nn.Sequential()
    for name, layer in layers[linear[-1] : -1]:
        last.add_module(name, layer)
        setattr(head, name, nn.Identity())
    return last
