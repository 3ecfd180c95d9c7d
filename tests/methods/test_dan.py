"""MK-MMD in its three estimators, and DAN."""

import numpy as np
import pytest
import torch

from methods.coral import coral_distance
from methods.dan import mk_mmd
from methods.errors import MethodError
from methods.kernels import mean_bandwidth, squared_distances
from methods.rtn import fused_mmd
from tests.methods.small import batches, build

SHAPES = [(4, 4, 3), (7, 5, 1), (12, 4, 9), (2, 3, 2)]
FACTORS = (0.25, 0.5, 1, 2, 4)


def samples(n: int, m: int, f: int, shift: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n + 10 * m + 100 * f)
    return rng.normal(size=(n, f)), rng.normal(size=(m, f)) * 1.5 + shift


def slow_bandwidth(x: np.ndarray, y: np.ndarray) -> float:
    z = np.concatenate([x, y])
    return float(np.mean([((z[i] - z[j]) ** 2).sum() for i in range(len(z)) for j in range(len(z)) if i != j]))


def slow_mmd(x: np.ndarray, y: np.ndarray, estimator: str) -> float:
    """Straight from the definitions, one pair at a time."""
    b = slow_bandwidth(x, y)
    k = lambda u, v: sum(np.exp(-((u - v) ** 2).sum() / (a * b)) for a in FACTORS)  # noqa: E731
    n, m = len(x), len(y)
    if estimator == "linear":
        total, count = 0.0, 0
        for i in range(0, max(n, m) - 1, 2):
            x1, x2, y1, y2 = x[i % n], x[(i + 1) % n], y[i % m], y[(i + 1) % m]
            total += k(x1, x2) + k(y1, y2) - k(x1, y2) - k(x2, y1)
            count += 1
        return total / count
    same = estimator == "biased"
    xx = np.mean([k(x[i], x[j]) for i in range(n) for j in range(n) if same or i != j])
    yy = np.mean([k(y[i], y[j]) for i in range(m) for j in range(m) if same or i != j])
    return float(xx + yy - 2 * np.mean([k(u, v) for u in x for v in y]))


@pytest.mark.parametrize("estimator", ["biased", "unbiased", "linear"])
@pytest.mark.parametrize("n, m, f", SHAPES)
def test_mk_mmd_equals_the_sums_of_its_definition(n: int, m: int, f: int, estimator: str) -> None:
    x, y = samples(n, m, f)
    fast = mk_mmd(torch.tensor(x), torch.tensor(y), estimator=estimator)
    assert fast.shape == ()
    assert fast.item() == pytest.approx(slow_mmd(x, y, estimator), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("n, m, f", SHAPES)
def test_bandwidth_is_the_mean_distance_of_the_joint_batch_without_gradient(n: int, m: int, f: int) -> None:
    x, y = samples(n, m, f)
    joint = torch.tensor(np.concatenate([x, y]), requires_grad=True)
    width = mean_bandwidth(joint)
    assert width.item() == pytest.approx(slow_bandwidth(x, y))
    assert not width.requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_biased_is_zero_on_equal_inputs_never_below_zero_symmetric_and_blind_to_a_common_shift(dtype) -> None:
    g = torch.Generator().manual_seed(0)
    for n, f in [(3, 2), (16, 8), (40, 64)]:
        x, y = torch.randn(n, f, generator=g, dtype=dtype), torch.randn(n + 1, f, generator=g, dtype=dtype)
        assert mk_mmd(x, x).item() == 0
        assert mk_mmd(x, x[torch.randperm(n, generator=g)]).item() == pytest.approx(0, abs=1e-5)
        assert mk_mmd(x, y).item() >= 0
        torch.testing.assert_close(mk_mmd(x, y), mk_mmd(y, x))
        torch.testing.assert_close(mk_mmd(x + 3, y + 3), mk_mmd(x, y), rtol=1e-4, atol=1e-5)
        assert mk_mmd(x, y + 2) > mk_mmd(x, y)


def test_constant_batches_give_a_finite_value_and_gradient() -> None:
    x = torch.ones(4, 3, requires_grad=True)
    value = mk_mmd(x, torch.ones(5, 3))
    value.backward()
    assert value.item() == 0
    assert torch.isfinite(x.grad).all()


def test_unbiased_and_linear_are_right_on_average_and_biased_is_above() -> None:
    """Two samples of one distribution, many times: the mean of an unbiased estimator is 0."""
    g = torch.Generator().manual_seed(0)
    draws = [(torch.randn(8, 2, generator=g), torch.randn(8, 2, generator=g)) for _ in range(100)]
    for estimator in ("unbiased", "linear"):
        values = torch.stack([mk_mmd(x, y, bandwidth=4.0, estimator=estimator) for x, y in draws])
        assert abs(values.mean()) < 3 * values.std() / 10
        assert (values < 0).any()
    assert torch.stack([mk_mmd(x, y, bandwidth=4.0) for x, y in draws]).mean() > 0.2


def test_distances_keep_their_digits_under_a_large_offset() -> None:
    x = torch.randn(6, 4)
    exact = squared_distances(x.double() + 1000, x.double() + 1000)
    torch.testing.assert_close(squared_distances(x + 1000, x + 1000).double(), exact, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("distance", [mk_mmd, coral_distance, lambda x, y: fused_mmd([x, x], [y, y])])
def test_autocast_takes_no_digits_from_a_distance(distance) -> None:
    x, y = torch.randn(16, 8) + 5, torch.randn(16, 8) + 5
    with torch.autocast("cpu", torch.bfloat16):
        inside = distance(x, y)
    assert inside.dtype == torch.float32
    torch.testing.assert_close(inside, distance(x, y))


def test_unknown_estimator_is_a_sentence() -> None:
    with pytest.raises(MethodError, match=r"no MMD estimator 'quadratic'.*biased"):
        mk_mmd(torch.randn(3, 2), torch.randn(3, 2), estimator="quadratic")


@pytest.mark.parametrize("preset", ["", "unbiased", "linear"])
def test_dan_brings_the_domains_together(preset: str) -> None:
    sources, target = batches(seed=1, size=24)

    def distance(trade_off: float) -> float:
        method = build("dan", preset, trade_off=trade_off)
        torch.manual_seed(0)
        return np.mean([method.update(sources, target, 0.0)["mmd"].item() for _ in range(40)][-10:])

    assert distance(10.0) < 0.7 * distance(0.0)


def test_dan_takes_one_concatenated_source_as_well_as_several() -> None:
    for count in (1, 3):
        out = build("dan", sources=count).update(*batches(count), 0.0)
        assert set(out) == {"source", "mmd"}
        assert all(torch.isfinite(v) for v in out.values())
