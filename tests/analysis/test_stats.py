"""The statistics agree with scipy, scikit-posthocs and textbook examples, and refuse what they cannot carry."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scikit_posthocs
from scipy import stats as scipy_stats

from benchmark.analysis import stats
from benchmark.errors import UserError

# Student's sleep data (Biometrika 1908): extra hours of sleep of ten patients under two drugs.
DRUG_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DRUG_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]

# Demšar (JMLR 2006), Table 6: C4.5 with m, cf, both or none tuned, by its ranks of AUC on 14 data sets (1 is best).
RANKS = pd.DataFrame(
    [
        (4, 3, 2, 1),
        (1, 2, 3, 4),
        (4, 1, 2, 3),
        (4, 1, 3, 2),
        (4, 2, 3, 1),
        (1, 2.5, 4, 2.5),
        (3, 2, 4, 1),
        (2.5, 2.5, 4, 1),
        (4, 3, 2, 1),
        (2.5, 2.5, 2.5, 2.5),
        (4, 2.5, 1, 2.5),
        (3, 2, 4, 1),
        (4, 1, 2, 3),
        (3, 1, 4, 2),
    ],
    columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"],
)
SCORES = -RANKS  # our tests take scores, higher is better
# The same table's AUC of C4.5 and C4.5+m, for the Wilcoxon example of his Table 2.
AUC = pd.DataFrame(
    {
        "C4.5": [0.763, 0.599, 0.954, 0.628, 0.882, 0.936, 0.661, 0.583, 0.775, 1.0, 0.940, 0.619, 0.972, 0.957],
        "C4.5+m": [0.768, 0.591, 0.971, 0.661, 0.888, 0.931, 0.668, 0.583, 0.838, 1.0, 0.962, 0.666, 0.981, 0.978],
    }
)


def series(values: list[float]) -> pd.Series:
    return pd.Series(values, index=range(len(values)))


def test_paired_interval_is_students_sleep_example():
    result = stats.paired(series(DRUG_2), series(DRUG_1))
    assert result.mean == pytest.approx(1.58)
    assert (result.low, result.high) == pytest.approx((0.7001142, 2.4598858), abs=1e-6)
    assert result.p == pytest.approx(0.002833, abs=1e-6)


@pytest.mark.parametrize("n", [2, 3, 5, 30])
def test_interval_agrees_with_scipy(n: int):
    x = np.random.default_rng(n).normal(3, 2, n)
    ours, theirs = stats.t_interval(x), scipy_stats.ttest_1samp(x, 0)
    low, high = theirs.confidence_interval(0.95)
    assert (ours.low, ours.high, ours.p) == pytest.approx((low, high, theirs.pvalue))
    assert ours.sd == pytest.approx(np.std(x, ddof=1))


def test_pairing_uses_only_common_seeds_and_matches_them_by_seed():
    ours = pd.Series([1.0, 2.0, 3.0, 9.0], index=[0, 1, 2, 7])
    theirs = pd.Series([3.0, 1.0, 0.0], index=[2, 1, 0])
    result = stats.paired(ours, theirs)
    assert result.n == 3
    assert result.mean == pytest.approx((1 + 1 + 0) / 3)


def test_too_few_seeds_decide_nothing():
    assert not stats.t_interval([5.0, 5.1]).above(0)
    assert stats.t_interval([5.0, 5.1, 5.2]).above(0)
    assert not stats.t_interval([]).enough
    assert stats.t_interval([4.0]).words() == "+4.00 points, n = 1"
    assert stats.t_interval([-5.0, -5.0, -5.0]).below(0)


def test_equal_repetitions_give_an_interval_without_width():
    result = stats.t_interval([0.0, 0.0, 0.0])
    assert (result.low, result.high, result.p) == (0.0, 0.0, 1.0)
    assert not result.above(0)
    assert not result.below(0)


def test_a_missing_value_is_never_averaged_away():
    with pytest.raises(ValueError, match="not there"):
        stats.t_interval([1.0, float("nan")])


def test_seed_averages_drop_seeds_that_miss_a_target():
    scores = pd.DataFrame([(0, "mm", 50.0), (0, "sv", 70.0), (1, "mm", 10.0)], columns=["seed", "target", "score"])
    assert stats.seed_averages(scores, ["mm", "sv"]).to_dict() == {0: 60.0}
    assert stats.seed_averages(scores, ["mm"]).to_dict() == {0: 50.0, 1: 10.0}
    assert stats.seed_averages(scores, ["mm", "sv", "up"]).empty


def test_holm_textbook_example_and_statsmodels():
    from statsmodels.stats.multitest import multipletests

    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    p = np.random.default_rng(0).uniform(size=20).tolist()
    assert stats.holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert stats.holm([]) == []


def test_friedman_and_nemenyi_are_demsars_example():
    result = stats.friedman(SCORES)
    assert result.ranks == pytest.approx((3.143, 2.000, 2.893, 1.964), abs=1e-3)
    # Demšar's χ²_F = 9.28 is without the correction for ties that scipy (and we) apply
    n, k, ranks = 14, 4, np.array(result.ranks)
    assert 12 * n / (k * (k + 1)) * (np.sum(ranks**2) - k * (k + 1) ** 2 / 4) == pytest.approx(9.28, abs=0.02)
    assert result.critical_difference == pytest.approx(1.25, abs=0.005)
    assert result.statistic == pytest.approx(scipy_stats.friedmanchisquare(*SCORES.to_numpy().T).statistic)


@pytest.mark.parametrize("k, q", [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (8, 3.031), (10, 3.164)])
def test_nemenyi_difference_uses_demsars_critical_values(k: int, q: float):
    assert stats.nemenyi_difference(k, 6) == pytest.approx(q * np.sqrt(k * (k + 1) / 36), abs=2e-3)


def test_nemenyi_agrees_with_scikit_posthocs():
    theirs = scikit_posthocs.posthoc_nemenyi_friedman(SCORES.to_numpy()).to_numpy()
    assert stats.friedman(SCORES).pairwise.to_numpy() == pytest.approx(theirs)
    assert list(stats.friedman(SCORES).pairwise.columns) == list(SCORES.columns)


def test_wilcoxon_is_demsars_example():
    statistic, p = stats.wilcoxon(AUC)
    expected = scipy_stats.wilcoxon(AUC["C4.5"], AUC["C4.5+m"])
    assert (statistic, p) == pytest.approx((expected.statistic, expected.pvalue))
    assert statistic <= 12  # Demšar: T = min(93, 12) = 12 with the ties at zero shared, scipy leaves them out
    assert p < 0.05


def test_rank_tests_refuse_few_blocks_and_say_why():
    with pytest.raises(UserError, match=r"at least 10 independent blocks.*there are 5.*seeds of a target"):
        stats.friedman(SCORES.head(5))
    with pytest.raises(UserError, match="needs at least 10"):
        stats.wilcoxon(AUC.head(9))
    with pytest.raises(UserError, match="compares two"):
        stats.wilcoxon(SCORES)
    with pytest.raises(UserError, match="three or more"):
        stats.friedman(AUC)


def test_seeds_are_not_blocks():
    rows = [("digits", t, m, s + i) for t in ("mm", "sv") for m in ("a", "b", "c") for i, s in enumerate((50.0, 60.0))]
    matrix = stats.blocks_by_methods(pd.DataFrame(rows, columns=["suite", "target", "label", "score"]))
    assert matrix.shape == (2, 3)
    assert matrix.loc[("digits", "mm"), "a"] == pytest.approx(55.5)
