"""Which trackers there are: built-in ones, a user's own class by `path/file.py:Class`, what installed packages offer."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmark.errors import UserError, unknown
from methods import installed

TRACKERS = "msda_benchmark.trackers"  # entry points
EXTRA = "Type: pip install 'msda-benchmark[track]'"
# name: (package it needs, module, class)
BUILT_IN = {
    "tensorboard": ("tensorboard", "benchmark.records.track.tensorboard", "TensorBoard"),
    "wandb": ("wandb", "benchmark.records.track.wandb", "WeightsAndBiases"),
    "mlflow": ("mlflow", "benchmark.records.track.mlflow", "MLflow"),
    "trackio": ("trackio", "benchmark.records.track.trackio", "Trackio"),
}


def known() -> list[str]:
    """Every name that is no file."""
    return [*BUILT_IN, *installed.offered(TRACKERS)]


def check(names: Sequence[str]) -> list[str]:
    """The names as any process can take them (files by their absolute path), each once; an unknown one is a sentence."""
    found = list(dict.fromkeys(_checked(name) for name in names))
    twice = [called for called, n in Counter(map(label, found)).items() if n > 1]
    if twice:  # they would share a folder, and one would overtake the other
        raise UserError(f"Two trackers of --track are called {twice[0]}. Give one of the classes another name.")
    return found


def _checked(name: str) -> str:
    if ".py:" not in name:
        if name not in known():
            raise unknown("tracker", name, known(), "A class of your own is path/file.py:Class.")
        return name
    file, _, cls = name.rpartition(":")
    path = Path(file).expanduser().absolute()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"The file {file} of --track {name} cannot be read: {why}.") from None
    if not re.search(rf"^(class|from|import)\b.*\b{re.escape(cls)}\b", text, flags=re.MULTILINE):
        raise UserError(f"{file} has no class {cls!r}, which --track {name} asks for.")
    return f"{path}:{cls}"


def missing(names: Sequence[str]) -> dict[str, str]:
    """{name: what to type} of the built-in trackers whose package is not installed here."""
    wanted = {name: BUILT_IN[name][0] for name in names if name in BUILT_IN}
    return {name: not_installed(package) for name, package in wanted.items() if not _installed(package)}


def not_installed(package: str) -> str:
    """The sentence for a package that is not there."""
    return f"{package} is not installed. {EXTRA}"


def _installed(package: str) -> bool:
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None  # a mere folder `wandb` in the working directory is none


def label(name: str) -> str:
    """A tracker's short name: of its folder, and in warnings."""
    return name.rpartition(":")[2] if ".py:" in name else name


def load(name: str) -> Any:
    """The class of a tracker; brings its package."""
    if ".py:" in name:
        file, _, cls = name.rpartition(":")
        spec = importlib.util.spec_from_file_location("user_tracker", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, cls)
    if name in BUILT_IN:
        _, module_name, cls = BUILT_IN[name]
        return getattr(importlib.import_module(module_name), cls)
    return installed.load(TRACKERS, name)
