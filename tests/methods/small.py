"""A small task and small batches for tests of single methods: 3 sources, 4 classes, 5 numbers an example."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from benchmark.run.check.toy import Toy
from benchmark.run.networks import BatchNorm1d, Extractor
from benchmark.run.task import Task
from methods.contract import FullPass, LabeledBatch, Method, UnlabeledBatch, Views, build_hparams, load_method

INPUTS, CLASSES, FEATURES = 5, 4, 6


def network() -> Extractor:
    """(N, 5) → (N, 6), with the batch normalisation and the dropout that real extractors have."""
    trunk = nn.Sequential(nn.Linear(INPUTS, 8), BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2))
    return Extractor(trunk, nn.Sequential(nn.Linear(8, FEATURES), BatchNorm1d(FEATURES), nn.ReLU()), 8, FEATURES)


TOY = Toy(extractor=network, shape=(INPUTS,), classes=CLASSES)


def task(sources: int = 3, seed: int = 0) -> Task:
    return TOY.task(sources, seed, budget=20, stage_budget="shared")


def build(name: str, preset: str = "", sources: int = 3, **changes: Any) -> Method:
    cls = load_method(name)
    return cls(task(sources), build_hparams(cls, cls.presets[preset] if preset else {}, changes))


def batches(sources: int = 3, seed: int = 0, size: int = 8) -> tuple[list[LabeledBatch], UnlabeledBatch]:
    return TOY.batches(sources, seed, size)


NO_VIEWS = Views([], FullPass())


def moved(method: Method, run: Any) -> set[str]:
    """Names of the parameters and buffers that `run()` changes."""
    before = {name: value.clone() for name, value in nn.Module.state_dict(method).items()}
    run()
    return {name for name, value in nn.Module.state_dict(method).items() if not torch.equal(value, before[name])}
