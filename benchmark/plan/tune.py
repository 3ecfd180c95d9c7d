"""Equal tuning: the same number of seeded trials for every method, chosen by a rule that never sees a target label.

Trial 0 is a method's defaults; trial t > 0 draws each hyper-parameter from the range declared beside it. The draw is a
pure function of (seed, hyper-parameter, t), so all methods try the same learning-rate scales. Every trial is an
ordinary run on one development target; the choice is a file that `run --tuned FILE` reads.

Rows of one method that are asked for together (`tsvdnet:e`, `tsvdnet:et`, `tsvdnet`: an ablation) are one family: each
trial is given to all of them, but for what a preset sets itself, and there is one choice for all.

The choice, with s(t, k) the score of trial t under seed k, the mean over the rows of its family:
1. Every trial is run with the first seed; the challenger c is the one with the highest s(t, k₁), t > 0, of equals the earliest.
2. The defaults and the challenger are run with the next seed too.
3. The challenger is chosen if mean_k s(c, k) − mean_k s(0, k) > max(|s(c, k₁) − s(c, k₂)|, |s(0, k₁) − s(0, k₂)|): if it
   beats the defaults by more than the score moves from seed to seed. Otherwise the defaults stay, and the file says so.
A trial of which a run failed has no score: a challenger without one of its two scores loses, defaults without one lose to
a challenger that has both. A family without any score of either is left out.

The score is that of a validator at the last evaluation point, with the batch-norm statistics of the target (default) or
of the loop. `unsup` (default) is H(mean p) − mean H(p) on the target's training images: it looks at the target, so it can
tell adapted from not, and only ever compares trials of one method, so methods that sharpen their predictions gain
nothing over methods that do not. `snd` and `bnm` look at the same images; `dev` weighs errors on held-out source images
by their likeness to the target. `source-val`, accuracy on held-out source images, is safer against confident nonsense but
blind to the target: it cannot prefer a setting that adapts. The table `validators` shows how well each orders runs.
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
from benchmark.records.selection import STATISTICS, VALIDATORS, normalise, scores
from benchmark.spec import RunSpec, load_suite, method_class, resolve
from benchmark.spec.seeds import seed_of
from methods.contract import BUILT_IN, Method, Range
from methods.groups import GROUPS, trained

LABEL_FREE = ("update", "progress", "stage", "losses", *VALIDATORS)  # all that a rule is given of a curve
HEAD = """\
# Chosen by `python -m benchmark tune` without target labels. Use: python -m benchmark run --tuned FILE
# Trial 0 is the defaults. Every trial is run with the first seed; the challenger is the best of the others. It and the
# defaults are run with the second seed too, and it is chosen if its mean score over the two seeds beats the defaults' by
# more than the larger of their two spreads (the difference between the seeds). Otherwise the defaults stay: kept = true.
# A method's rows are tuned together: a trial's score is the mean over them. nan: a run failed, or it has no such score."""


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
    statistics: str = "target"  # of batch norm, with which a trial is scored

    def __post_init__(self) -> None:
        """Fill the defaults (the suite's tier, all built-in methods) and refuse what cannot be."""
        suite = load_suite(self.suite)
        put = object.__setattr__
        put(self, "tier", self.tier or suite.default_tier.value)
        put(self, "rule", normalise(self.rule))
        put(self, "methods", _rows(self.methods or ("all",)))
        suite.tier(self.tier)
        suite.domain(self.target)
        if self.rule not in VALIDATORS:
            raise unknown(
                "tuning rule",
                self.rule,
                [v.replace("_", "-") for v in VALIDATORS],
                "Rules that read target labels are no rules.",
            )
        if self.statistics not in STATISTICS:
            raise unknown("kind of statistics at test", self.statistics, STATISTICS)
        for setting in self.settings:
            if not setting.startswith("run."):
                raise UserError(
                    f"--set {setting}: tuning draws the methods' own values; set those of the harness, as in run.updates=60"
                )
        if self.trials < 1:
            raise UserError(f"--trials takes a number of at least 1, not {self.trials}; trial 0 is the defaults.")

    @property
    def families(self) -> dict[str, list[str]]:
        """The rows of each method, in order: what gets one choice."""
        found: dict[str, list[str]] = {}
        for name in self.methods:
            found.setdefault(planning.split_name(name)[0], []).append(name)
        return found

    @property
    def seeds(self) -> tuple[int, int]:
        """Of all trials, and of the second look at the defaults and the challenger."""
        return self.seed, self.seed + 1


def _rows(words: Sequence[str]) -> tuple[str, ...]:
    """The rows to tune; of a group each method once, for presets beside it would have a say in its choice."""
    found: list[str] = []
    for word in words:
        found += [name for name, _, _ in BUILT_IN] if word == "all" else GROUPS.get(word, [trained(word)])
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Trial:
    """One setting of one row under one seed, and the run that tries it."""

    row: str
    number: int
    seed: int
    values: Mapping[str, Any]
    spec: RunSpec


@dataclass(frozen=True)
class Choice:
    """What was chosen for the rows of one method, and why. A score is None where a run failed or has no such score."""

    method: str
    number: int  # of the chosen trial; 0: the defaults stay
    values: Mapping[str, Mapping[str, Any]]  # by row
    scores: tuple[float | None, ...]  # by trial, first seed
    challenger: int | None
    again: tuple[float | None, float | None]  # second seed: the defaults, the challenger

    @property
    def kept(self) -> bool:
        """The defaults stay."""
        return self.number == 0

    @property
    def margin(self) -> float | None:
        """mean_k s(c, k) − mean_k s(0, k); None when a score is missing."""
        pairs = _pairs(self.scores, self.challenger, self.again)
        return None if pairs is None else _margin(*pairs)

    @property
    def spread(self) -> float | None:
        """The larger of the differences between the two seeds; None when a score is missing."""
        pairs = _pairs(self.scores, self.challenger, self.again)
        return None if pairs is None else _spread(*pairs)


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
    """The first round: all trials of all rows, bound to their data; every mistake is an error before anything runs."""
    rows = [row for family in study.families.values() for row in family]
    return [_trial(study, row, number, study.seed, data_root) for row in rows for number in range(study.trials)]


def finals(study: Study, tried: Sequence[Trial], results: Path, data_root: Path | None = None) -> list[Trial]:
    """The second round: the defaults and the challenger of each family once more, with the next seed."""
    found = []
    for family in study.families.values():
        best = challenger(_scores(study, family, tried, results))
        numbers = [] if best is None else [0, best]
        found += [_trial(study, row, number, study.seeds[1], data_root) for row in family for number in numbers]
    return found


def _trial(study: Study, row: str, number: int, seed: int, data_root: Path | None) -> Trial:
    method, preset = planning.split_name(row)
    cls = method_class(method)
    defaults = dataclasses.asdict(
        resolve(RunSpec(study.suite, study.tier, method, preset, target=study.target, split=study.split)).hparams
    )
    own = cls.presets[preset] if preset else {}
    drawn = settings(cls, defaults, study.seed, number)
    values = {key: value for key, value in drawn.items() if key not in own}  # a preset keeps what it sets itself
    request = planning.Request(
        suite=study.suite, tier=study.tier, split=study.split, methods=[row], targets=[study.target], seeds=[seed],
        settings=[*study.settings, *(f"{row}.{key}={value}" for key, value in values.items())], threads=study.threads,
    )  # fmt: skip
    (spec,) = planning.make(request, data_root).specs
    return Trial(row, number, seed, values, spec)


# -- the choice -------------------------------------------------------------------------------------------------------


def label_free(curve: Iterable[Mapping[str, Any]], statistics: str) -> list[dict[str, Any]]:
    """A curve, scored with `statistics`, without the columns that target labels went into."""
    rows = [{**row, **scores(row, statistics)} for row in curve]
    return [{key: row[key] for key in LABEL_FREE if key in row} for row in rows]


def score(curve: Sequence[Mapping[str, Any]], rule: str) -> float | None:
    """The rule's value at the last evaluation point of a label-free curve; None for a method that has no such score."""
    value = curve[-1][rule]
    return None if value is None else float(value)


def challenger(first: Sequence[float | None]) -> int | None:
    """The trial t > 0 with the highest score under the first seed, of equals the earliest; None when none has one."""
    scored = [(value, -number) for number, value in enumerate(first) if number and value is not None]
    return -max(scored)[1] if scored else None


def decide(first: Sequence[float | None], best: int | None, again: tuple[float | None, float | None]) -> int | None:
    """The number of the chosen trial by the rule of this module; None when neither defaults nor challenger have scores."""
    pairs = _pairs(first, best, again)
    if pairs is not None:
        return best if _margin(*pairs) > _spread(*pairs) else 0
    if best is not None and None not in (first[best], again[1]):
        return best  # the defaults failed
    return None if first[0] is None and again[0] is None else 0


def choose(study: Study, tried: Sequence[Trial], again: Sequence[Trial], results: Path) -> list[Choice]:
    """The choice of each family, from the trials of both rounds; families without a score are left out."""
    choices = []
    for method, family in study.families.items():
        first = _scores(study, family, tried, results)
        best = challenger(first)
        second = _scores(study, family, again, results)
        pair = (None, None) if best is None else (second[0], second[best])
        number = decide(first, best, pair)
        if number is not None:
            values = {t.row: t.values for t in tried if t.row in family and t.number == number}
            choices.append(Choice(method, number, values, first, best, pair))
    return choices


def _scores(study: Study, family: Sequence[str], tried: Sequence[Trial], results: Path) -> tuple[float | None, ...]:
    """By trial, the mean over the rows of a family; None unless every row has a score."""
    found = []
    for number in range(study.trials):
        own = [t for t in tried if t.row in family and t.number == number]
        values = [_score_of(study, trial, results) for trial in own]
        known = [value for value in values if value is not None]
        found.append(sum(known) / len(known) if known and len(known) == len(values) else None)
    return tuple(found)


def _score_of(study: Study, trial: Trial, results: Path) -> float | None:
    record = records.read(records.run_directory(results, trial.spec, trial.spec.run_id))
    return None if record is None else score(label_free(record.curve, study.statistics), study.rule)


Pair = tuple[float, float]


def _pairs(
    first: Sequence[float | None], best: int | None, again: tuple[float | None, float | None]
) -> tuple[Pair, Pair] | None:
    """(s(0, k₁), s(0, k₂)) and (s(c, k₁), s(c, k₂)), if there are all four."""
    found = [] if best is None else [first[0], again[0], first[best], again[1]]
    known = [value for value in found if value is not None]
    return ((known[0], known[1]), (known[2], known[3])) if len(known) == 4 else None


def _margin(defaults: Pair, other: Pair) -> float:
    return sum(other) / 2 - sum(defaults) / 2


def _spread(defaults: Pair, other: Pair) -> float:
    return max(abs(defaults[0] - defaults[1]), abs(other[0] - other[1]))


# -- the file ---------------------------------------------------------------------------------------------------------


def write(path: Path, study: Study, choices: Sequence[Choice], data: str) -> None:
    """The choice as TOML: what `run --tuned` reads, with the scores that led to it. The same study writes the same bytes."""
    suite = load_suite(study.suite)
    head: dict[str, Any] = {
        "format": 1, "suite": suite.name, "tier": study.tier, "target": study.target,
        "split": study.split or suite.default_split, "trials": study.trials, "rule": study.rule,
        "statistics": study.statistics, "seeds": list(study.seeds), "data": data,
    }  # fmt: skip
    if study.settings:
        head["settings"] = list(study.settings)
    lines = [HEAD, *(f"{key} = {_toml(value)}" for key, value in head.items())]
    for choice in choices:
        for row, values in choice.values.items():
            lines += ["", f"[methods.{_toml(row)}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    for choice in choices:
        lines += ["", f"[chosen.{_toml(choice.method)}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in reasons(choice).items()]
    write_text(path, "\n".join(lines) + "\n")


def reasons(choice: Choice) -> dict[str, Any]:
    """A choice with its numbers, for the file and for programs; absent where nothing was compared."""
    found: dict[str, Any] = {"rows": list(choice.values), "trial": choice.number, "kept": choice.kept}
    found["scores"] = list(choice.scores)  # by trial, first seed
    if choice.challenger is not None:
        c = choice.challenger
        found |= {"challenger": c, "defaults_by_seed": [choice.scores[0], choice.again[0]]}
        found |= {"challenger_by_seed": [choice.scores[c], choice.again[1]]}
        found |= {"margin": choice.margin, "spread": choice.spread}
    return found


def _toml(value: Any) -> str:
    if value is None:
        return "nan"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value) if isinstance(value, int | float) else json.dumps(str(value), ensure_ascii=False)
