"""Equal tuning: the same number of seeded trials for every method, chosen by a rule that never sees a target label.

Trial 0 is a method's defaults; trial t > 0 draws each hyper-parameter from the range declared beside it. The draw is a
pure function of (seed, hyper-parameter, t), so all methods try the same learning-rate scales. Every trial is an
ordinary run on one development target; the choice is a file that `run --tuned FILE` reads.

The rule reads the last evaluation point, as the tables do by default. `unsup` (default) is H(mean p) − mean H(p) on the
target's training images: it looks at the target, so it can tell adapted from not, and only ever compares trials of one
method, so methods that sharpen their predictions gain nothing over methods that do not. `source-val`, accuracy on held-out
source images, is safer against confident nonsense but blind to the target: it cannot prefer a setting that adapts.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmark import plan as planning
from benchmark import records
from benchmark.errors import UserError, unknown
from benchmark.files import write_text
from benchmark.networks import seed_of
from benchmark.selection import normalise
from benchmark.spec import RunSpec, load_suite, method_class, resolve
from methods.contract import BUILT_IN, Method, Range

RULES = ("unsup", "source_val")
LABEL_FREE = ("update", "progress", "stage", "source_val", "unsup", "losses")  # all that a rule is given of a curve


@dataclass(frozen=True)
class Study:
    """What is tuned: rows of the table (`method[:preset]`), on one development target, with so many trials each."""

    suite: str
    tier: str
    target: str
    trials: int
    methods: tuple[str, ...] = ()
    split: str = ""
    seed: int = 0
    rule: str = "unsup"
    threads: int = 1
    settings: tuple[str, ...] = ()  # `run.KEY=VALUE`: of the harness, the same for all trials

    def __post_init__(self) -> None:
        """Fill the defaults (the suite's tier, all built-in methods) and refuse what cannot be."""
        suite = load_suite(self.suite)
        put = object.__setattr__
        put(self, "tier", self.tier or suite.default_tier.value)
        put(self, "rule", normalise(self.rule))
        names = tuple(dict.fromkeys(self.methods))
        put(self, "methods", tuple(name for name, _, _ in BUILT_IN) if names in ((), ("all",)) else names)
        suite.tier(self.tier)
        suite.domain(self.target)
        if self.rule not in RULES:
            raise unknown(
                "tuning rule",
                self.rule,
                [r.replace("_", "-") for r in RULES],
                "Rules that read target labels are no rules.",
            )
        for setting in self.settings:
            if not setting.startswith("run."):
                raise UserError(
                    f"--set {setting}: tuning draws the methods' own values; set those of the harness, as in run.updates=60"
                )
        if self.trials < 1:
            raise UserError(f"--trials takes a number of at least 1, not {self.trials}; trial 0 is the defaults.")


@dataclass(frozen=True)
class Trial:
    """One setting of one row, and the run that tries it."""

    method: str
    number: int
    values: Mapping[str, Any]
    spec: RunSpec


@dataclass(frozen=True)
class Choice:
    """What the rule picked for one row. `scores` has a place for each trial, None for one that failed."""

    method: str
    trial: Trial
    scores: tuple[float | None, ...]


def draw(range_: Range, *key: object) -> Any:
    """A value of the range: uniform, log-uniform or one of the choices; three significant digits; the same for the same key."""
    u = torch.rand((), generator=torch.Generator().manual_seed(seed_of("tune", *key)), dtype=torch.float64).item()
    if range_.choices:
        return range_.choices[int(u * len(range_.choices))]
    value = range_.low * (range_.high / range_.low) ** u if range_.log else range_.low + (range_.high - range_.low) * u
    return float(f"{value:.3g}")


def settings(cls: type[Method], defaults: Mapping[str, Any], seed: int, number: int) -> dict[str, Any]:
    """Hyper-parameters of trial `number`: the defaults for 0, a draw from every range for the others."""
    if number == 0:
        return {key: defaults[key] for key in cls.ranges}
    kinds = {key: type(defaults[key]) for key in cls.ranges}
    return {key: kinds[key](draw(range_, seed, key, number)) for key, range_ in cls.ranges.items()}


def trials(study: Study, data_root: Path | None = None) -> list[Trial]:
    """All trials of a study, bound to their data; every mistake is an error before anything runs."""
    found = []
    for name in study.methods:
        method, preset = planning.split_name(name)
        cls = method_class(method)
        spec = RunSpec(study.suite, study.tier, method, preset, target=study.target, split=study.split)
        defaults = dataclasses.asdict(resolve(spec).hparams)
        for number in range(study.trials):
            values = settings(cls, defaults, study.seed, number)
            own = [f"{name}.{key}={value}" for key, value in values.items()]
            request = planning.Request(
                suite=study.suite, tier=study.tier, split=study.split, methods=[name], targets=[study.target],
                seeds=[study.seed], settings=[*study.settings, *own], threads=study.threads,
            )  # fmt: skip
            (bound,) = planning.make(request, data_root).specs
            found.append(Trial(name, number, values, bound))
    return found


# -- the choice -------------------------------------------------------------------------------------------------------


def label_free(curve: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A curve without the columns that target labels went into."""
    return [{key: row[key] for key in LABEL_FREE if key in row} for row in curve]


def score(curve: Sequence[Mapping[str, Any]], rule: str) -> float:
    """The rule's value at the last evaluation point of a label-free curve."""
    return float(curve[-1][rule])


def choose(study: Study, tried: Sequence[Trial], results: Path) -> list[Choice]:
    """For each row the trial with the highest score, of equals the earliest; rows of which no trial ended are left out."""
    choices = []
    for name in study.methods:
        own = [trial for trial in tried if trial.method == name]
        scores = tuple(_score_of(trial, study.rule, results) for trial in own)
        ended = [(value, trial) for value, trial in zip(scores, own, strict=True) if value is not None]
        if ended:
            best = max(ended, key=lambda pair: (pair[0], -pair[1].number))[1]
            choices.append(Choice(name, best, scores))
    return choices


def _score_of(trial: Trial, rule: str, results: Path) -> float | None:
    record = records.read(records.run_directory(results, trial.spec, trial.spec.run_id))
    return None if record is None else score(label_free(record.curve), rule)


# -- the file ---------------------------------------------------------------------------------------------------------


def write(path: Path, study: Study, choices: Sequence[Choice]) -> None:
    """The choice as TOML: what `run --tuned` reads, with the scores that led to it. The same study writes the same bytes."""
    head: dict[str, Any] = {
        "format": 1, "suite": load_suite(study.suite).name, "tier": study.tier, "target": study.target,
        "split": choices[0].trial.spec.split, "trials": study.trials, "rule": study.rule, "seed": study.seed,
        "data": choices[0].trial.spec.data,
    }  # fmt: skip
    if study.settings:
        head["settings"] = list(study.settings)
    lines = ["# Chosen by `python -m benchmark tune` without target labels. Use: python -m benchmark run --tuned FILE"]
    lines += [f"{key} = {_toml(value)}" for key, value in head.items()]
    for choice in choices:
        lines += ["", f"[methods.{_toml(choice.method)}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in choice.trial.values.items()]
    for choice in choices:
        lines += ["", f"[chosen.{_toml(choice.method)}]", f"trial = {choice.trial.number}"]
        lines += [
            f"scores = {_toml([float('nan') if s is None else s for s in choice.scores])}  # by trial; nan: failed"
        ]
    write_text(path, "\n".join(lines) + "\n")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value) if isinstance(value, int | float) else json.dumps(str(value), ensure_ascii=False)
