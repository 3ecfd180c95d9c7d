"""ImageNet weights as Hugging Face keeps them (safetensors) → the file that networks read, `weights/<network>.pth`."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from benchmark.data.cache import replacing
from benchmark.errors import UserError


def convert(root: Path) -> dict[str, str]:
    """Every `weights/*.safetensors` that has no .pth yet: {name: what it was made from}. Numbers stay bit for bit."""
    made = {}
    for file in sorted((root / "weights").glob("*.safetensors")):
        target = file.with_suffix(".pth")
        if target.exists():
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
