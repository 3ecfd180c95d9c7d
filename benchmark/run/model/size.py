"""What kept models will take on the disk, before anything has run: counted on tensors without memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from benchmark.records import models
from benchmark.records.selection import STATISTICS, VALIDATORS
from benchmark.run.count import Guess, without_memory
from benchmark.run.task import make_task
from benchmark.spec import RunSpec, resolve
from methods.contract import Method

HEADER, NAMED = 4096, 400  # bytes, about, of the words in a file, and of the names of each tensor


def disk(specs: Sequence[RunSpec], choice: str) -> tuple[list[int], list[int]]:
    """(bytes that stay of each run, bytes of candidates while it is under way), both at the most; 0 where nobody can say.

    A user's own method may not let itself be built without memory: that is no reason not to run it.
    """
    known: dict[str, tuple[int, int]] = {}
    stay, beside = list[int](), list[int]()
    for spec in specs:
        resolved = resolve(spec)
        key = repr(
            (spec.method, len(spec.sources), spec.standard, spec.suite, resolved.hparams, resolved.settings.network)
        )
        if key not in known:
            try:
                known[key] = _bytes(spec)
            except Exception:
                known[key] = (0, 0)
        weights, statistics = known[key]
        if not weights:
            stay.append(0)
            beside.append(0)
            continue
        whole = weights + statistics + HEADER
        # rules may choose two updates each, one for each kind of statistics: then a file holds both whole
        both = 2 * weights + HEADER
        stay.append(
            whole if choice == "last" else whole + (len(models.RULES) - 1) * both if choice == "selected" else 0
        )
        points = min(len(VALIDATORS) * len(STATISTICS), resolved.settings.eval_points)
        beside.append(whole * points if choice == "selected" else 0)
    return stay, beside


def _bytes(spec: RunSpec) -> tuple[int, int]:
    """(of all weights and buffers of the method, of its batch-norm statistics)."""
    resolved = resolve(spec)
    network = resolved.settings.network.model_copy(update={"weights": ""})
    settings = resolved.settings.model_copy(update={"network": network, "compile": False})
    with without_memory(), Guess():
        task = make_task(dataclasses.replace(resolved, settings=settings), len(resolved.suite.classes), "cpu")
        method: Method = resolved.method(task, resolved.hparams)
        weights = [x for x in method.state_dict()["modules"].values() if isinstance(x, Tensor)]
        norms = [b for m in method.modules() if isinstance(m, _BatchNorm) for b in m.buffers(recurse=False)]
        return _total(weights) + NAMED * len(weights), _total(norms)


def _total(tensors: Sequence[Tensor]) -> int:
    return sum(x.numel() * x.element_size() for x in tensors)
