"""The target's share in the batch-norm statistics that a method is tested with, measured on its own training loop.

The method runs on a toy task with all learning rates at zero. Source images are zeros and target images ones, and the
first layer is linear, so the running mean of the layer behind it says which part of it came from the target: the order
of the passes, their number and the momentum decide it, whatever the data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from benchmark.run.networks import BatchNorm1d, Extractor
from benchmark.run.stages import divide
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task
from benchmark.spec import Resolved
from methods.contract import FullPass, LabeledBatch, Method, UnlabeledBatch, Views

BATCH, SIDE, CLASSES = 4, 2, 3
UPDATES = 120  # of a stage at the most: 0.9^120 = 3e-6 with one pass an update
SETTLED = 1e-6


def target_share(resolved: Resolved) -> float | None:
    """In [0, 1], rounded to four digits; None for a method that does not run on the toy task."""
    spec, settings = resolved.spec, resolved.settings
    sources = 1 if spec.standard == "combined" else len(spec.sources)
    own = spec.standard == "upper-bound"  # its labelled images are the target's
    values = tuple(dataclasses.asdict(resolved.hparams).items())
    try:
        return _share(resolved.method, values, sources, own, settings.batch_norm)  # type: ignore[arg-type]  # classes hash
    except Exception:  # a user's method may want real pictures; a run must not fail over a footnote
        return None


@lru_cache(maxsize=256)
def _share(cls: type[Method], values: tuple[tuple[str, Any], ...], sources: int, own: bool, batch_norm: str) -> float:
    with torch.random.fork_rng():
        return round(_measure(cls, cls.HParams(**dict(values)), sources, float(own), batch_norm), 4)


def _measure(cls: type[Method], hparams: Any, sources: int, mark: float, batch_norm: str) -> float:
    method = cls(_task(sources, batch_norm), hparams)
    for optimiser in method.optimisers.values():
        for group in optimiser.param_groups:
            group["lr"] = 0.0
    labels = torch.arange(BATCH) % CLASSES
    labelled = [LabeledBatch(_images(mark), labels) for _ in range(sources)]
    target = UnlabeledBatch(_images(1.0))
    views = Views([_Pass(batch) for batch in labelled], _Pass(target))
    share = 0.0
    method.train()
    for stage in divide(method.stages(), UPDATES, "full"):
        method.enter(stage.name, views)
        for update in range(UPDATES):
            method.update(labelled, target, update / UPDATES)
            if update % 10 == 9:
                before, share = share, _target_part(method)
                if abs(share - before) < SETTLED:
                    break
    return _target_part(method)


def _task(sources: int, batch_norm: str) -> Task:
    return Task(
        num_classes=CLASSES,
        num_sources=sources,
        network=NetworkSpec(),
        optimiser=OptimiserSpec(),
        budget=UPDATES,
        seed=0,
        batch_size=BATCH,
        batch_norm=batch_norm,
        extractor_factory=_network,
    )


def _network() -> Extractor:
    width, pixels = 8, 3 * SIDE * SIDE
    trunk = nn.Sequential(nn.Flatten(), nn.Linear(pixels, width, bias=False), BatchNorm1d(width), nn.ReLU())
    return Extractor(trunk, nn.Sequential(nn.Linear(width, width), BatchNorm1d(width), nn.ReLU()), width, width)


def _images(value: float) -> Tensor:
    return torch.full((BATCH, 3, SIDE, SIDE), value)


def _target_part(method: Method) -> float:
    """running mean / (what images of ones give), over the first norms of the networks that a prediction passes."""
    parts: list[float] = []

    def read(trunk: nn.Module, args: Any, output: Any) -> None:
        linear, norm = trunk[1], trunk[2]  # type: ignore[index]
        assert isinstance(norm, _BatchNorm)
        assert norm.running_mean is not None
        ones = linear.weight.sum(1)
        parts.append(float((norm.running_mean @ ones) / (ones @ ones)))

    hooks = [m.trunk.register_forward_hook(read) for m in method.modules() if isinstance(m, Extractor)]
    try:
        method.predict(_images(1.0))
    finally:
        for hook in hooks:
            hook.remove()
    return sum(parts) / len(parts)


class _Pass(FullPass):
    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __iter__(self) -> Iterator[Any]:
        yield self._batch

    def __len__(self) -> int:
        return BATCH
