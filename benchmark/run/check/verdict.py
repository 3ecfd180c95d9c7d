"""Every claim of the contract on one method, in order, each with what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from benchmark.errors import RunFailed
from benchmark.run.check import runs, training
from benchmark.run.check.toy import Toy
from benchmark.run.start import quiet_torch
from benchmark.spec import NetworkSettings, check_preset, method_class
from methods.contract import Method, build_hparams

CLAIMS = {
    "declarations": "What it declares is sound: standards, presets, tuning ranges, stages.",
    "updates": "Every update gives finite 0-d terms and leaves its batches as they were.",
    "bits": "The same seed gives the same bits.",
    "state": "All that it remembers is in its state.",
    "optimisers": "Every optimiser that steps stands in `optimisers`.",
    "resume": "Resumed after any update, it goes on bit for bit.",
    "waits": "Nothing in `update` waits for the device.",
    "predictions": "Its predictions are probabilities: none is negative, and they sum to one.",
    "batches": "A prediction does not depend on the images beside it.",
    "sources": "It works with 2 and with 5 sources.",
    "standards": "It works in each standard that it names.",
    "labels": "Labels of the target cannot matter.",
}


@dataclass(frozen=True)
class Finding:
    """A claim about one row, and what is wrong with it; `open` says why it could not be decided."""

    claim: str
    wrong: tuple[str, ...] = ()
    open: str = ""

    @property
    def holds(self) -> bool:
        """Tried, and nothing was found."""
        return not self.wrong and not self.open


def check(
    name: str,
    preset: str = "",
    *,
    toy: Toy | None = None,
    network: NetworkSettings | None = None,
    changes: Mapping[str, Any] | None = None,
    in_the_loop: bool = True,
) -> Iterator[Finding]:
    """Every claim on the method `name` (built-in, installed, or path/file.py:Class), as it is decided.

    On a narrow digit network, or on `network`. `changes` are hyper-parameters for the check; without `in_the_loop` the claims
    that take whole runs are left out.
    """
    cls = method_class(name)
    check_preset(cls, name, preset)
    with torch.random.fork_rng(devices=[]), quiet_torch(1, "cpu"):
        stages = yield from _on_the_toy(cls, preset, toy or (Toy.of(network) if network else Toy()), changes or {})
        if in_the_loop:
            updates = 12 if stages is None else max(12, 3 * stages)
            yield from _in_the_loop(cls, name, preset, updates, changes or {}, network)


def _on_the_toy(cls: type[Method], preset: str, toy: Toy, changes: Mapping[str, Any]) -> Any:
    """The claims of `training`; returns the number of stages, None when it does not train."""
    several = "multi-source" in cls.standards
    wrong = [*training.declared(cls)]
    if wrong:
        yield Finding("declarations", tuple(wrong))
        return None
    hparams = build_hparams(cls, cls.presets.get(preset, {}), changes)
    course = training.Course(partial(_build, cls, hparams), toy, 3 if several else 1)
    try:
        method = course.trainer().method
        yield Finding("declarations", tuple(training.staged(method)))
        course.run()
    except Exception as error:  # whatever it is, it is said in a sentence
        yield Finding("updates", (f"It does not train: {training.failure(error)}.",))
        return None
    yield Finding("updates", tuple(course.unsound))
    bits = _tried("bits", training.same_bits(course))
    yield bits
    yield _tried("state", training.whole_state(course))
    yield _tried("optimisers", training.optimisers_known(course))
    yield (
        _tried("resume", training.resumes(course)) if bits.holds else Finding("resume", open="not the same bits twice")
    )
    yield _tried("waits", training.waits_for_nothing(course))
    yield _tried("predictions", training.predicts(course))
    yield _tried("batches", training.alone_or_not(course))
    if several:
        yield _tried("sources", training.takes_sources(course))
    return len(method.stages())


def _build(cls: type[Method], hparams: Any, task: Any) -> Method:
    return cls(task, hparams)


def _in_the_loop(
    cls: type[Method],
    name: str,
    preset: str,
    updates: int,
    changes: Mapping[str, Any],
    network: NetworkSettings | None,
) -> Iterator[Finding]:
    """The claims of `runs`."""
    named = runs.NARROW
    if network:
        named = f'{{ name = "{network.name}", width = {network.width}, image_size = {network.image_size} }}'
    fields = {"overrides": tuple(changes.items())}
    with runs.worlds(updates, named) as made:
        first = cls.standards[0]
        standards = _tried("standards", runs.runs_in(made, name, preset, tuple(cls.standards), **fields))
        yield standards
        try:
            yield _tried("labels", runs.labels_cannot_matter(made, name, preset, first, **fields))
        except RunFailed as error:  # what the standards have said is not said again
            wrong = () if standards.wrong else (f"In a process of its own its run fails: {error}.",)
            yield Finding("labels", wrong, open="its run fails" if standards.wrong else "")


def _tried(claim: str, sentences: Iterable[str]) -> Finding:
    """The claim with its sentences; what breaks while it is tried is one of them."""
    try:
        return Finding(claim, tuple(sentences))
    except RunFailed:
        raise
    except Exception as error:  # whatever it is, it is said in a sentence
        return Finding(claim, (f"It fails: {training.failure(error)}.",))
