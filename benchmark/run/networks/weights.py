"""Weights from a local file into an extractor: safetensors or a state dict, in the naming of the network's library."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmark.data.get.sources import with_weights
from benchmark.errors import UserError
from benchmark.run.networks.extractor import Extractor
from benchmark.spec.network import split_name

WRAPPERS = ("state_dict", "model")  # under which training scripts keep the weights beside other things


def check_file(network: str, weights: Path) -> None:
    """A sentence that says where weights are to be had, when they are not where they are looked for."""
    if not weights.is_file():
        raise UserError(f"The weights of {network} are not at {weights}. {_whence(network)} and put the file there.")


def load_weights(extractor: Extractor, network: str, weights: Path) -> None:
    """Every weight of the extractor from the file, those of the head left out; nothing is unpickled but tensors."""
    check_file(network, weights)
    try:
        state = _suited(_read(weights), extractor)
        ours = {name: state.pop(theirs) for name, theirs in _names(extractor).items() if theirs in state}
        beyond = {f"trunk.{name}": value for name, value in state.items() if not name.startswith(extractor.head)}
        extractor.load_state_dict({**ours, **beyond})  # strictly: what is beyond is named by torch
    except Exception as error:
        words = " ".join(" ".join(str(error).splitlines()[:2]).split())[:300]
        raise UserError(f"{weights} does not hold the weights of {network}: {words or type(error).__name__}") from None


def _whence(network: str) -> str:
    if network.startswith("timm:"):
        return "Get timm's weights of it (model.safetensors) on a machine with internet"
    suites = with_weights(split_name(network)[1])
    known = f" (python -m benchmark data fetch --suite {suites[0]} --only weights)" if suites else ""
    return f"Download torchvision's {network} weights on a machine with internet{known}"


def _read(weights: Path) -> dict[str, Tensor]:
    if weights.suffix == ".safetensors":
        return load_file(weights)
    state: Any = torch.load(weights, map_location="cpu", weights_only=True)
    for key in WRAPPERS:
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError("it is no dictionary of tensors by name")
    return dict(state)


def _suited(state: dict[str, Tensor], extractor: Extractor) -> dict[str, Tensor]:
    """As timm itself suits a file to a network: older names, embeddings of positions for another size of images."""
    module = sys.modules[type(extractor.trunk).__module__]
    suit = getattr(module, "checkpoint_filter_fn", None) if module.__name__.startswith("timm.") else None
    return dict(suit(state, extractor.trunk)) if suit else state


def _names(extractor: Extractor) -> dict[str, str]:
    """{name of a weight here: its name in a file}."""
    return {
        name: origin + name.removeprefix(part)
        for part, origin in extractor.origin.items()
        for name in extractor.state_dict()
        if name.startswith(part)
    }
