"""ImageNet weights of our own ResNets as Hugging Face keeps them (safetensors) → `weights/<network>.pth`.

Other files of weights stay as they are: networks read safetensors too, and what a file holds is part of a run's identity,
so a copy in another form would be another run.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from benchmark.data.cache import replacing
from benchmark.errors import UserError

OURS = ("resnet18", "resnet101")  # whose ImageNet weights are known by that word, in whatever file they lie


def convert(root: Path) -> dict[str, str]:
    """Those of `OURS` that have no .pth yet: {name: what it was made from}. Numbers stay bit for bit."""
    made = {}
    for name in OURS:
        file = root / "weights" / f"{name}.safetensors"
        target = file.with_suffix(".pth")
        if target.exists() or not file.is_file():
            continue
        try:
            state = load_file(file)
        except (SafetensorError, OSError) as error:
            raise UserError(f"{file} cannot be read as safetensors: {error}. Remove it and fetch it again.") from None
        if not {"conv1.weight", "layer1.0.conv1.weight", "fc.weight"} <= state.keys():
            raise UserError(f"{file} is not a ResNet in torchvision's naming; it has: {', '.join(list(state)[:3])} ….")
        with replacing(target) as temporary:
            torch.save(state, temporary)
        made[target.name] = f"{file.name}: {len(state)} tensors"
    return made
