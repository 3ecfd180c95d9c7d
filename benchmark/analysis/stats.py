"""Statistics of the suite: targets are fixed, seeds are random.

Two methods share batches and initial weights for the same seed, so a comparison is the per-seed difference averaged
over the targets, with Student's t interval over the seeds. Rank tests over many blocks (Wilcoxon, Friedman, Nemenyi)
are refused where there are too few independent blocks: seeds of one target are repetitions, not blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import pandas as pd
from scipy import special

from benchmark.errors import UserError

LEVEL = 0.95
MIN_SEEDS = 3  # below, an interval over seeds says nothing: t with one degree of freedom is 12.7 standard errors wide
MIN_BLOCKS = 10


@dataclass(frozen=True)
class Interval:
    """A mean over n repetitions with its t interval; `low`, `high` and `p` (two-sided, mean = 0) are NaN when n < 2."""

    mean: float
    low: float
    high: float
    sd: float
    n: int
    p: float

    @property
    def enough(self) -> bool:
        """True if a conclusion may rest on it."""
        return self.n >= MIN_SEEDS

    def above(self, bound: float) -> bool:
        """The whole interval lies above `bound`, and there are seeds enough to say so."""
        return self.enough and self.low > bound

    def below(self, bound: float) -> bool:
        """The whole interval lies below `bound`, and there are seeds enough to say so."""
        return self.enough and self.high < bound

    def words(self, unit: str = " points", digits: int = 2) -> str:
        """`+4.49 points [3.80, 5.18], n = 5`."""
        if self.n == 0:
            return "not measured"
        span = f" [{self.low:.{digits}f}, {self.high:.{digits}f}]" if self.n > 1 else ""
        return f"{self.mean:+.{digits}f}{unit}{span}, n = {self.n}".replace("-", "−")


def t_interval(values: Sequence[float] | np.ndarray, level: float = LEVEL) -> Interval:
    """mean ± t_{(1+level)/2, n−1} · s / √n over independent values (n,); NaN values are an error of the caller."""
    x = np.asarray(values, dtype=float)
    if np.isnan(x).any():
        raise ValueError("a t interval over values that are not there")
    n, nan = x.size, float("nan")
    if n == 0:
        return Interval(nan, nan, nan, nan, 0, nan)
    mean = float(x.mean())
    if n == 1:
        return Interval(mean, nan, nan, nan, 1, nan)
    sd = float(x.std(ddof=1))
    if sd == 0.0:
        # identical repetitions: the interval has no width; p is 0 or 1 by the limit
        return Interval(mean, mean, mean, 0.0, n, 1.0 if mean == 0.0 else 0.0)
    half = float(special.stdtrit(n - 1, (1 + level) / 2)) * sd / sqrt(n)  # quantile of Student's t
    p = float(2 * special.stdtr(n - 1, -abs(mean) / (sd / sqrt(n))))
    return Interval(mean, mean - half, mean + half, sd, n, p)


def paired(ours: pd.Series, theirs: pd.Series, level: float = LEVEL) -> Interval:
    """ours − theirs over the seeds that both have; each series is indexed by seed."""
    both = ours.dropna().index.intersection(theirs.dropna().index)
    return t_interval((ours.loc[both] - theirs.loc[both]).to_numpy(dtype=float), level)


def seed_averages(scores: pd.DataFrame, targets: Sequence[str]) -> pd.Series:
    """Mean over the targets for each seed; seeds that miss a target are left out, never averaged over fewer.

    scores: rows of one configuration with the columns `seed`, `target`, `score`.
    """
    by_seed: dict[int, dict[str, float]] = {}
    columns = (scores[name].tolist() for name in ("seed", "target", "score"))
    for seed, target, score in zip(*columns, strict=True):
        by_seed.setdefault(seed, {})[target] = score
    whole = {seed: [found[t] for t in targets] for seed, found in by_seed.items() if all(t in found for t in targets)}
    seeds = sorted(whole)
    means = np.mean([whole[seed] for seed in seeds], axis=1) if seeds else []
    return pd.Series(means, index=seeds, dtype=float)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: p̃_(i) = max_{j ≤ i} min(1, (m − j + 1) · p_(j)), in the order given."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    factors = np.arange(p.size, 0, -1)
    adjusted = np.minimum(1.0, np.maximum.accumulate(factors * p[order]))
    result = np.empty_like(adjusted)
    result[order] = adjusted
    return [float(v) for v in result]


@dataclass(frozen=True)
class RankTest:
    """Friedman over blocks × methods with Nemenyi's critical difference; rank 1 is the highest score."""

    methods: tuple[str, ...]
    blocks: int
    ranks: tuple[float, ...]
    statistic: float
    p: float
    critical_difference: float
    pairwise: pd.DataFrame  # Nemenyi p-values, methods × methods


def blocks_by_methods(scores: pd.DataFrame) -> pd.DataFrame:
    """(suite, target) × method matrix: seeds averaged first, since they repeat a block and are not blocks.

    scores: the columns suite, target, label, score. Blocks that miss a method are left out.
    """
    wide = scores.pivot_table(index=["suite", "target"], columns="label", values="score", aggfunc="mean", sort=False)
    return wide.dropna()


def require_blocks(matrix: pd.DataFrame, test: str) -> None:
    """Refuse, with the reason, a rank test over fewer than ten independent blocks."""
    if len(matrix) < MIN_BLOCKS:
        names = ", ".join("→".join(map(str, i)) if isinstance(i, tuple) else str(i) for i in matrix.index)
        raise UserError(
            f"{test} is refused: it needs at least {MIN_BLOCKS} independent blocks on which every method was measured, "
            f"and there are {len(matrix)}{f' ({names})' if names else ''}. A block is one target of one suite; seeds "
            "of a target are repetitions, not blocks. The paired intervals over seeds are what these records can carry."
        )


def friedman(matrix: pd.DataFrame, alpha: float = 0.05) -> RankTest:
    """Friedman's χ² with Nemenyi's test, over blocks (rows) × methods (columns) of scores, higher is better."""
    require_blocks(matrix, "The Friedman test")
    k = matrix.shape[1]
    if k < 3:
        raise UserError(f"The Friedman test compares three or more methods; there are {k}. Wilcoxon compares two.")
    import scikit_posthocs  # here: it and scipy.stats take seconds to load, and tables need neither
    from scipy import stats

    values = matrix.to_numpy(dtype=float)
    ranks = stats.rankdata(-values, axis=1).mean(axis=0)
    statistic, p = stats.friedmanchisquare(*values.T)
    pairwise = scikit_posthocs.posthoc_nemenyi_friedman(values)
    pairwise = pd.DataFrame(pairwise.to_numpy(), index=matrix.columns, columns=matrix.columns)
    cd = nemenyi_difference(k, len(matrix), alpha)
    names = tuple(str(c) for c in matrix.columns)
    return RankTest(names, len(matrix), tuple(map(float, ranks)), float(statistic), float(p), cd, pairwise)


def nemenyi_difference(k: int, blocks: int, alpha: float = 0.05) -> float:
    """CD = q_α · √(k (k + 1) / (6 N)), q_α the Studentised range for infinite degrees of freedom over √2."""
    from scipy import stats

    q = float(stats.studentized_range.ppf(1 - alpha, k, np.inf)) / sqrt(2)
    return q * sqrt(k * (k + 1) / (6 * blocks))


def wilcoxon(matrix: pd.DataFrame) -> tuple[float, float]:
    """Signed-rank statistic and two-sided p of two methods (columns) over blocks (rows)."""
    require_blocks(matrix, "The Wilcoxon test")
    if matrix.shape[1] != 2:
        raise UserError(f"The Wilcoxon test compares two methods; there are {matrix.shape[1]}.")
    a, b = matrix.to_numpy(dtype=float).T
    if np.array_equal(a, b):
        return 0.0, 1.0
    from scipy import stats

    result = stats.wilcoxon(a, b)
    return float(result.statistic), float(result.pvalue)
