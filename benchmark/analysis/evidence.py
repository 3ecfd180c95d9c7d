"""The tests behind the verdicts: each takes the evidence and a claim, and gives a finding with its reasons in words.

A finding says where the interval lies, not what that is worth; `verdict` gives it the words that its tier can carry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from math import sqrt
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from benchmark.analysis import rows as s
from benchmark.analysis import stats
from benchmark.analysis.condition import Condition
from benchmark.analysis.family import family
from benchmark.analysis.notes import remarked
from benchmark.paper import answers
from benchmark.paper import printed as reported
from benchmark.paper.claims import Claim
from benchmark.paper.folders import DEFAULT, RIVALS
from benchmark.records import artifacts
from benchmark.records.study import read_json

# held: the whole interval is on the claim's side of its bound. short: wholly below the bound, but not turned round.
# opposite: wholly on the other side of zero. open: the interval holds the bound, or too few seeds.
Finding = Literal["held", "short", "opposite", "open", "unmeasured"]
Result = tuple[Finding, str]
ALPHA = 0.05


@dataclass(frozen=True)
class Evidence:
    """What a measured test may look at: the rows of one suite and tier, and their condition."""

    rows: list[s.Entry]
    condition: Condition

    def row(self, name: str) -> s.Entry | None:
        """The multi-source row `method:preset`, tuned if there is a tuned one."""
        found = [e for e in self.rows if e.name == name and e.standard == "multi-source" and e.plain]
        found.sort(key=lambda e: (not e.tuned, e.own != "{}", _newest(e.revision)))
        return found[0] if found else None

    def per_seed(self, entry: s.Entry, target: str | None = None) -> pd.Series:
        """Accuracy by seed: on one target, or averaged over all."""
        targets = [target] if target else self.condition.targets
        return stats.seed_averages(entry.scores(self.condition.selection), targets)


def _newest(revision: str) -> int:
    return -int(revision) if revision.isdigit() else 0


def decide(found: stats.Interval, bound: float = 0.0) -> Finding:
    """Where the interval lies: above `bound`, below zero (the effect is turned round), below `bound` only, or across it."""
    if not found.n:
        return "unmeasured"
    if found.above(bound):
        return "held"
    return "opposite" if found.below(min(bound, 0.0)) else "short" if found.below(bound) else "open"


def _rivals(evidence: Evidence, ours: s.Entry, standards: tuple[str, ...], folder: Path = DEFAULT) -> list[s.Entry]:
    """Rows of the other systems of the paper's tables on the same split, tuned like ours: the claims are about those.

    A row without a finished run is none: a tree that holds its failed runs says what the study made of it says. Nor is a
    preset that was tried on fewer targets than its method.
    """
    systems = answers.systems(folder) - {ours.method}
    whole = s.methods_as_they_come(evidence.rows)
    same = [e for e in whole if e.standard in standards and e.method in systems and len(e.done)]
    return [e for e in same if e.split == ours.split and bool(e.tuned) == bool(ours.tuned)]


ALL = ("single-best", "combined", "multi-source")


def _against_all(evidence: Evidence, ours: s.Entry, rivals: list[s.Entry], target: str | None) -> Result:
    """Ours against every rival, Holm-adjusted: better than all (held), worse than one (opposite), or neither (open)."""
    found = [(e, stats.paired(evidence.per_seed(ours, target), evidence.per_seed(e, target))) for e in rivals]
    found = [(e, d) for e, d in found if d.n]
    if not found:
        return "unmeasured", "no rival measured on common seeds"
    measured, differences = [e for e, _ in found], [d for _, d in found]
    tested = family([ours] * len(measured), measured, differences, evidence.condition)
    closest, least = min(found, key=lambda pair: pair[1].mean)
    worse = [i for i, p in tested.p.items() if differences[i].mean < 0 and p < ALPHA]
    better = [i for i, p in tested.p.items() if differences[i].mean > 0 and p < ALPHA]
    said = f"closest of {len(measured)} rivals: {closest.label} ({closest.standard}), {least.words()}"
    said += f"; Holm over {tested.size} comparison{'' if tested.size == 1 else 's'} with a rival"
    if len(measured) < len(rivals):
        lacking = len(rivals) - len(measured)
        said += f"; {lacking} more rival{' lacks' if lacking == 1 else 's lack'} runs"
    if worse:
        return "opposite", said
    return ("held" if len(better) == len(rivals) else "open"), said  # a rival that lacks runs is not beaten


def _without_absent(answer: Finding, said: str, ours: s.Entry, rivals: list[s.Entry], claim: Claim) -> Result:
    """To beat every method is open while a system of the printed table has no runs; to be beaten by one is not."""
    absent = answers.systems(claim.folder, claim.suite) - {ours.method} - {e.method for e in rivals}
    if absent and answer != "unmeasured":
        said += f"; no runs of {', '.join(sorted(absent))}"
    answer = "open" if absent and answer == "held" else answer
    return answer, said + ("" if ours.tuned else "; all rows untuned, so a win is not a finding about the methods")


def best(evidence: Evidence, claim: Claim) -> Result:
    """The method beats every rival on average."""
    ours = evidence.row(claim["method"])
    if ours is None:
        return "unmeasured", f"not measured: no runs of {claim['method']}"
    rivals = _rivals(evidence, ours, ALL, claim.folder)
    answer, said = _against_all(evidence, ours, rivals, None)
    return _without_absent(answer, said, ours, rivals, claim)


def best_targets(evidence: Evidence, claim: Claim) -> Result:
    """The method beats every rival on at least `least` targets."""
    ours = evidence.row(claim["method"])
    if ours is None:
        return "unmeasured", f"not measured: no runs of {claim['method']}"
    rivals = _rivals(evidence, ours, ALL, claim.folder)
    answers = {t: _against_all(evidence, ours, rivals, t)[0] for t in evidence.condition.targets}
    if set(answers.values()) == {"unmeasured"}:
        return "unmeasured", "no rival measured on common seeds"
    won = [t for t, a in answers.items() if a == "held"]
    lost = [t for t, a in answers.items() if a == "opposite"]
    said = f"best on {len(won)} of {len(answers)} targets ({', '.join(won) or 'none'}), beaten on {', '.join(lost) or 'none'}"
    said += "; Holm over the rivals of each target"
    lacking = [e.label for e in rivals if any(evidence.per_seed(e, t).empty for t in answers)]
    said += f"; on some targets no runs of {', '.join(lacking)}" if lacking else ""
    least = int(claim["least"])
    answer: Finding = "held" if len(won) >= least else "opposite" if len(answers) - len(lost) < least else "open"
    return _without_absent(answer, said, ours, rivals, claim)


def beats_single_best(evidence: Evidence, claim: Claim) -> Result:
    """On one target, the method is above the best single source of every method."""
    ours = evidence.row(claim["method"])
    if ours is None:
        return "unmeasured", f"not measured: no runs of {claim['method']}"
    return _against_all(evidence, ours, _rivals(evidence, ours, ("single-best",), claim.folder), claim["target"])


def _lacking(claim: Claim, ours: s.Entry | None, base: s.Entry | None) -> str:
    lacking = [claim[key] for key, entry in (("ours", ours), ("base", base)) if entry is None]
    return f"not measured: no runs of {' and '.join(lacking)}"


def gain(evidence: Evidence, claim: Claim) -> Result:
    """ours − base, averaged over the targets (or on one), above a bound."""
    ours, base = evidence.row(claim["ours"]), evidence.row(claim["base"])
    if ours is None or base is None:
        return "unmeasured", _lacking(claim, ours, base)
    target = claim.options.get("target")
    found = stats.paired(evidence.per_seed(ours, target), evidence.per_seed(base, target))
    return decide(found, float(claim["above"])), f"{found.words()}; the claim is more than {claim['above']:g}"


def probe_lower(evidence: Evidence, claim: Claim) -> Result:
    """A probe at the end of training is lower in `ours` than in `base`, on one target, paired by seed."""
    ours, base = evidence.row(claim["ours"]), evidence.row(claim["base"])
    if ours is None or base is None:
        return "unmeasured", _lacking(claim, ours, base)
    values = [_last_probe(e, claim["target"], claim["probe"]) for e in (ours, base)]
    found = stats.paired(values[1], values[0])
    means = f"{values[0].mean():.2f} with, {values[1].mean():.2f} without" if found.n else "no probe in the records"
    return decide(found), f"{means}; without − with: {found.words(unit='')}"


def _last_probe(entry: s.Entry, target: str, probe: str) -> pd.Series:
    values = {}
    for seed, path in _finished(entry, target):
        document = read_json(path / "record.json")
        value = document.get("probes", {}).get(probe) if isinstance(document, dict) else None
        if isinstance(value, int | float):
            values[seed] = float(value)
    return pd.Series(values, dtype=float)


def _finished(entry: s.Entry, target: str) -> list[tuple[int, Path]]:
    done = entry.runs[(entry.runs["status"] == "done") & (entry.runs["target"] == target)]
    return [(int(seed), Path(str(path))) for seed, path in zip(done["seed"], done["path"], strict=True)]


def active(evidence: Evidence, claim: Claim) -> Result:
    """What the method remarked in the records: was A ever different from zero?"""
    ours = evidence.row(claim["method"])
    said, known = (remarked(ours), len(ours.done)) if ours is not None else ({}, 0)
    if not known:
        return "unmeasured", "not measured: no run says whether A was zero"
    zero = sum(n for sentence, n in said.items() if sentence.startswith(claim["remark"]))
    words = f"A was zero for the whole run in {zero} of {known} runs"
    return ("opposite" if zero == known else "held" if zero == 0 else "open"), words


def _spread(values: np.ndarray) -> float:
    """Interquartile range: a spread that a few far images do not make."""
    low, high = np.quantile(values.astype(float), [0.25, 0.75])
    return float(high - low)


def _artifact_spreads(entry: s.Entry, target: str, keys: list[str]) -> pd.DataFrame:
    """Spread of each stored σ array, a row a seed."""
    rows = {}
    for seed, path in _finished(entry, target):
        stored = artifacts.read(path)
        if all(key in stored for key in keys):
            rows[seed] = {key: _spread(stored[key]) for key in keys}
    return pd.DataFrame.from_dict(rows, orient="index", columns=keys)


def sigma_spread(evidence: Evidence, claim: Claim) -> Result:
    """σ of the domain `wide` has a larger interquartile range than σ of `narrow`."""
    ours = evidence.row(claim["method"])
    keys = [f"sigma_{claim['wide']}", f"sigma_{claim['narrow']}"]
    spreads = _artifact_spreads(ours, claim["target"], keys) if ours is not None else pd.DataFrame(columns=keys)
    found = stats.paired(spreads[keys[0]], spreads[keys[1]])
    if not found.n:
        return "unmeasured", "not measured: no stored uncertainty"
    wide, narrow = (f"{spreads[key].mean():.4f} ({key.removeprefix('sigma_')})" for key in keys)
    return decide(found), f"interquartile range of σ {wide}, {narrow}; difference {found.words(unit='', digits=4)}"


def sigma_noise(evidence: Evidence, claim: Claim) -> Result:
    """The interquartile range of σ grows when noise is added, for each of the `noisy` intensities."""
    ours = evidence.row(claim["method"])
    keys = [f"sigma_noise_{r}" for r in (claim["clean"], *claim["noisy"])]
    spreads = _artifact_spreads(ours, claim["target"], keys) if ours is not None else pd.DataFrame(columns=keys)
    found = [stats.paired(spreads[key], spreads[keys[0]]) for key in keys[1:]]
    if not found[0].n:
        return "unmeasured", "not measured: no stored uncertainty under noise"
    answers = [decide(f) for f in found]
    widths = [f"r = {key.rpartition('_')[2]}: {spreads[key].mean():.4f}" for key in keys]
    grown = [f"{width} ({f.words(unit='', digits=4)})" for width, f in zip(widths[1:], found, strict=True)]
    said = ", ".join([widths[0], *grown])
    answer: Finding = "open"
    if all(a == "held" for a in answers):
        answer = "held"
    elif any(a == "opposite" for a in answers):
        answer = "opposite"
    return answer, f"interquartile range of σ, {said}"


# -- algebra, arithmetic, print: no records ---------------------------------------------------------------------------------


def _setup(claim: Claim) -> tuple[int, int, float, float]:
    """Classes, domains, λ, η_max of Table 5 (its column μ_max, read as η_max)."""
    rows = reported.setups(claim.folder)
    values = rows[rows["suite"] == claim.suite].set_index("column")["value"]
    return int(values["classes"]), int(values["domains"]), float(values["lambda"]), float(values["mu_max"])


def tnn_bound(claim: Claim) -> Result:
    """A unit-diagonal G has TNN ≥ C√(C·D) rotated and ≥ C·D unrotated: a smaller value is not the defined norm."""
    classes, domains, _, _ = _setup(claim)
    rotated, unrotated = classes * sqrt(classes * domains), float(classes * domains)
    said = f"with {classes} classes and {domains} domains it is at least {rotated:.1f} (rotated), {unrotated:g} (unrotated)"
    return ("opposite" if float(claim["value"]) < min(rotated, unrotated) else "open"), said


def zero_bound(claim: Claim) -> Result:
    """σ_1 of every Fourier slice ≤ C√(C·D): a threshold above that leaves nothing of A."""
    classes, domains, lam, eta = _setup(claim)
    largest, threshold = classes * sqrt(classes * domains), lam / eta
    rule = {"paper's rule": threshold >= largest, "code's rule": threshold * classes >= largest**2}
    said = f"no singular value exceeds {largest:.1f}; the threshold λ/η_max is {threshold:g}"
    if all(rule.values()):
        return "opposite", f"{said}: A is zero at every update, under the paper's rule and the code's"
    return "open", f"{said}: the bound does not force A to zero; the runs must show it"


def averages(claim: Claim) -> Result:
    """Every printed average is the mean of its row, rounded."""
    wrong, every = reported.wrong_averages(claim.folder), reported.averages(claim.folder)
    if not wrong:
        return "held", f"all {len(every)} are right"
    worst = max(wrong, key=lambda w: abs(w.difference))
    where = f"Table {worst.table}, {worst.block}, {worst.row}: {worst.printed} printed, {worst.mean:.2f} the mean"
    return "opposite", f"{len(wrong)} of {len(every)} differ, most of all {where}; the table averages lists them"


def quoted(claim: Claim) -> Result:
    """Each quoted difference equals the difference of the two printed numbers."""
    numbers = reported.accuracies(folder=claim.folder).set_index(["table", "row", "column"])["printed"]
    numbers = numbers[
        ~numbers.index.duplicated(keep="last")
    ]  # MDDA stands in one block only; Source-Only is not quoted
    wrong = []
    for table, row, rival, column, said in claim["quoted"]:
        difference = Decimal(numbers[table, row, column]) - Decimal(numbers[table, rival, column])
        if difference != Decimal(said):
            wrong.append(f"Table {table}, {row} − {rival}, {column}: {difference}, quoted {said}")
    total = len(claim["quoted"])
    return ("opposite", "; ".join(wrong)) if wrong else ("held", f"all {total} quoted differences are right")


def printed_gain(claim: Claim) -> Result:
    """Printed ours − what others print for the same baseline: beyond the rounding of both, or not."""
    numbers = reported.accuracies(claim.suite, claim.folder).set_index(["table", "block", "row", "column"])["printed"]
    column = claim["column"]
    ours, base = (numbers[*claim[key], column] for key in ("ours", "base"))
    origin, row, standard = claim["other"]
    beside = reported.rivals(claim.suite).set_index(["origin", "row", "standard", "column"])["printed"]
    other = beside[origin, row, standard, column]
    whose = reported.origins(RIVALS).set_index("origin")["title"][origin]
    difference, rounding = Decimal(ours) - Decimal(other), reported.half_digit(ours) + reported.half_digit(other)
    said = (
        f"{ours} printed, {Decimal(ours) - Decimal(base)} above the paper's own {claim['base'][2]} ({base}); {whose} prints "
        f"{other} for {row}: a difference of {difference}, rounding {rounding.normalize()}; another pipeline, one number, no "
        "run of ours"
    )
    return ("held" if difference > rounding else "opposite" if difference < -rounding else "open"), said


MEASURED: dict[str, Callable[[Evidence, Claim], Result]] = {
    "best": best,
    "best-targets": best_targets,
    "beats-single-best": beats_single_best,
    "gain": gain,
    "probe-lower": probe_lower,
    "active": active,
    "sigma-spread": sigma_spread,
    "sigma-noise": sigma_noise,
}
COMPARES = ("best", "best-targets", "beats-single-best", "gain")  # these compare accuracies of our rows
ARITHMETIC: dict[str, tuple[Literal["algebra", "arithmetic", "printed"], Callable[[Claim], Result]]] = {
    "tnn-bound": ("algebra", tnn_bound),
    "zero-bound": ("algebra", zero_bound),
    "averages": ("arithmetic", averages),
    "quoted": ("arithmetic", quoted),
    "printed-gain": ("printed", printed_gain),
}
