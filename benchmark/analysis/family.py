"""Families of comparisons for Holm's correction: which rows are in, which cannot be, and the sentence that says so.

A row that gives the same bits as the one it is held against cannot differ from it, and two rows of the same bits are one
comparison: neither may make the correction harder for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmark.analysis import stats
from benchmark.analysis.condition import Condition
from benchmark.analysis.rows import Entry


@dataclass(frozen=True)
class Family:
    """Comparisons of rows with their bases, by their place in the list; `p` is adjusted and holds the repeats too."""

    size: int
    p: dict[int, float]
    same: tuple[int, ...]  # rows with the bits of their base
    repeats: dict[int, int]  # row: the earlier row with its bits, whose comparison it shares
    few: tuple[int, ...]  # rows with too few seeds

    def sentence(self, what: str) -> str:
        """Which comparisons make the family, how many they are, and what is not in it; `what` is `each choice with …`."""
        out = []
        if self.same:
            out.append(f"{len(self.same)} that give the same bits on every shared target and seed and cannot differ")
        if self.repeats:
            out.append(f"{len(self.repeats)} that repeat another row bit for bit and share its p")
        if self.few:
            out.append(f"{len(self.few)} with fewer than {stats.MIN_SEEDS} common seeds")
        made = f"{what}: {self.size} comparison{'' if self.size == 1 else 's'}"
        return f"Holm's correction over one family, {made}" + (f"; not in it: {', '.join(out)}." if out else ".")


def family(
    bases: Sequence[Entry], others: Sequence[Entry], effects: Sequence[stats.Interval], condition: Condition
) -> Family:
    """The family of `others`, each against its base, with Holm's adjusted p of each effect that may be tested."""
    same = tuple(i for i, pair in enumerate(zip(others, bases, strict=True)) if same_bits(*pair, condition))
    few = tuple(i for i, effect in enumerate(effects) if i not in same and not effect.enough)
    members: list[int] = []
    repeats: dict[int, int] = {}
    for i in range(len(others)):
        if i in same or i in few:
            continue
        alike = (j for j in members if bases[i] is bases[j] and effects[i] == effects[j])
        # the same bits on the same targets and seeds: a row that has more of them is a comparison of its own
        twin = next((j for j in alike if same_bits(others[i], others[j], condition)), i)
        if twin == i:
            members.append(i)
        else:
            repeats[i] = twin
    p = dict(zip(members, stats.holm([effects[i].p for i in members]), strict=True))
    return Family(len(members), p | {i: p[j] for i, j in repeats.items()}, same, repeats, few)


def same_bits(a: Entry, b: Entry, condition: Condition) -> bool:
    """True if both have the same weights and scores wherever both have a finished run, and there is such a run.

    Weights alone do not tell: a reading that changes only the prediction leaves them as they are.
    """
    ours, theirs = _bits(a, condition), _bits(b, condition)
    shared = ours.keys() & theirs.keys()
    return bool(shared) and all(ours[k] == theirs[k] and ours[k][0] for k in shared)


def _bits(entry: Entry, condition: Condition) -> dict[tuple[str, ...], tuple[str, float]]:
    """Hash of the weights (empty in records that lack it) and score, by target, seed and sources."""
    scores = entry.scores(condition.selection)
    place = zip(*(scores[c].astype(str).tolist() for c in ("target", "seed", "sources")), strict=True)
    weights = entry.done.loc[scores.index, "weights"]  # a rule may have no choice in some run
    bits = zip(weights.fillna("").astype(str).tolist(), scores["score"].tolist(), strict=True)
    return dict(zip(place, bits, strict=True))
