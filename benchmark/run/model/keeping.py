"""Keeping models while a run trains: what `--keep-model` asks of it. No bit of the run depends on it.

`last` writes one model at the end. `selected` also keeps the model of every label-free rule, which nobody knows before
the end: a model that a rule would choose now is written beside the checkpoint as a candidate. Which of them are still
wanted follows from two curves, the one so far and the one of the last checkpoint, to which a killed run goes back; when
it does, candidates of points that are to come again go, as those points of the curve do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmark.data.base import Dataset
from benchmark.records import models
from benchmark.records.selection import STATISTICS, VALIDATORS, selected
from benchmark.run.failure import can_wait
from benchmark.run.model import kept
from benchmark.run.model.kept import NotKept, Part
from benchmark.run.score.statistics import target_statistics
from benchmark.spec import Resolved
from methods.contract import Method

Curve = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Keeping:
    """The models of one run: which are wanted, where they go, what is written into each."""

    choice: str = "none"
    directory: Path = field(default_factory=Path)
    facts: Mapping[str, Any] = field(default_factory=dict)
    batches: Callable[[], Iterable[Tensor]] = tuple  # of target training images, for the statistics at test

    def begin(self, curve: Curve) -> None:
        """The run begins, or goes on from a checkpoint with this curve: whatever it does not speak of goes."""
        known = {row["update"] for row in curve} if self.choice == "selected" else set()
        for path in (
            *models.kept(self.directory).values(),
            *(path for update, path in models.candidates(self.directory).items() if update not in known),
        ):
            path.unlink(missing_ok=True)

    def point(self, method: Method, curve: Curve, saved: int | None, told: list[str]) -> None:
        """An evaluation point, the last of `curve`: keep the model if a rule chooses it now; `saved` is the checkpoint's.

        A disk that is full costs the run nothing: a model that could not be written is missing at the end.
        """
        if self.choice != "selected":
            return
        update, wanted = int(curve[-1]["update"]), _chosen(curve)
        if update in wanted:
            with can_wait("a candidate for --keep-model", told):
                try:
                    parts = self._parts(method, update)
                except NotKept:  # `finish` says so, once
                    return
                kept.write(self.directory / models.candidate_file(update), parts, self.facts)
        wanted |= _chosen([row for row in curve if saved is not None and row["update"] <= saved])
        for candidate, path in models.candidates(self.directory).items():
            if candidate not in wanted:
                path.unlink(missing_ok=True)

    def finish(self, method: Method, curve: Curve, told: list[str]) -> dict[str, Any]:
        """Write the models that were asked for; gives `models` of the record, and adds to `told` what could not be kept."""
        if self.choice == "none":
            return {}
        last = int(curve[-1]["update"])
        try:
            now = self._parts(method, last)
        except NotKept as reason:
            told.append(f"its model was not kept: {reason}")
            return {}
        found: dict[str, Any] = {}
        for rule in models.RULES if self.choice == "selected" else ("last",):
            updates = {kind: selected(curve, kind).get(rule) for kind in STATISTICS}
            if None in updates.values():  # a rule without a score: no features, for example
                continue
            try:
                parts = {kind: now[kind] if u == last else self._candidate(u)[kind] for kind, u in updates.items()}
            except NotKept as reason:
                told.append(f"the model of the rule {rule} was not kept: {reason}")
                continue
            path = self.directory / models.model_file(rule)
            kept.write(path, parts, {**self.facts, "rule": rule})
            weights = {kind: {"update": part.update, "weights": part.weights} for kind, part in parts.items()}
            found[rule] = {"sha256": models.digest(path), **weights}
        return {"models": found} if found else {}

    def _parts(self, method: Method, update: int) -> dict[str, Part]:
        """The method as it stands, and with the statistics of the target that its scores were taken with."""
        running = kept.part_of(method, update)
        with target_statistics(method, self.batches()):
            return {"running": running, "target": kept.part_of(method, update)}

    def _candidate(self, update: int | None) -> dict[str, Part]:
        path = self.directory / models.candidate_file(update or 0)
        if not path.exists():
            raise NotKept(
                f"that of update {update} was not written: the run had begun without it, or the disk was full"
            )
        return kept.read(path)[1]


def _chosen(curve: Curve) -> set[int]:
    """The updates that the label-free rules choose from a curve."""
    if not curve:
        return set()
    return {u for kind in STATISTICS for rule, u in selected(curve, kind).items() if rule in VALIDATORS}


def facts(resolved: Resolved, dataset: Dataset, classes: Sequence[str]) -> dict[str, Any]:
    """What a user of the model must know: whose it is, its classes, and the way from a picture to its input."""
    spec = resolved.spec
    stored = dataset.domains[spec.target].test.take(torch.tensor([0]))
    side = stored.shape[-1] if stored.dtype == torch.uint8 else resolved.settings.network.image_size
    preprocess = {
        **dataclasses.asdict(dataset.preprocess),
        "reader": resolved.suite.reader,
        "pixels": str(stored.dtype).removeprefix("torch."),  # uint8 pixels, or float16 activations of a frozen trunk
        "side": side,
        "shape": list(stored.shape[1:]),
    }
    return {
        "run_id": spec.run_id,
        "suite": resolved.suite.name,
        "tier": str(spec.tier),
        "method": spec.method,
        "preset": spec.preset,
        "target": spec.target,
        "classes": list(classes),
        "preprocess": preprocess,
    }
