"""Joint MMD, and JAN."""

import numpy as np
import pytest
import torch

from methods.dan import mk_mmd
from methods.jan import jmmd
from tests.methods.small import batches, build
from tests.methods.test_dan import slow_bandwidth

FACTORS = (0.25, 0.5, 1, 2, 4)


def slow_jmmd(x: list[np.ndarray], y: list[np.ndarray], estimator: str) -> float:
    """Pair by pair: the kernel of the joint is the product of five Gaussians' sum and one Gaussian."""
    b = slow_bandwidth(x[0], y[0])

    def k(u: list[np.ndarray], v: list[np.ndarray]) -> float:
        first = sum(np.exp(-((u[0] - v[0]) ** 2).sum() / (a * b)) for a in FACTORS)
        return first * np.exp(-((u[1] - v[1]) ** 2).sum() / 1.68)

    xs, ys = list(zip(*x, strict=True)), list(zip(*y, strict=True))
    if estimator == "linear":
        n, m = len(xs), len(ys)
        quads = [(xs[i % n], xs[(i + 1) % n], ys[i % m], ys[(i + 1) % m]) for i in range(0, max(n, m) - 1, 2)]
        return float(np.mean([k(a, b) + k(c, d) - k(a, d) - k(b, c) for a, b, c, d in quads]))
    same = estimator == "biased"
    within = [
        np.mean([k(u, v) for i, u in enumerate(zs) for j, v in enumerate(zs) if same or i != j]) for zs in (xs, ys)
    ]
    return float(within[0] + within[1] - 2 * np.mean([k(u, v) for u in xs for v in ys]))


def layers(n: int, f: int, c: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, f)) + seed, rng.dirichlet(np.ones(c), size=n)]


@pytest.mark.parametrize("estimator", ["biased", "unbiased", "linear"])
@pytest.mark.parametrize("n, m, f, c", [(4, 4, 3, 2), (9, 5, 2, 4), (3, 8, 6, 3)])
def test_jmmd_equals_the_sums_of_its_definition(n: int, m: int, f: int, c: int, estimator: str) -> None:
    x, y = layers(n, f, c, 0), layers(m, f, c, 1)
    fast = jmmd([torch.tensor(z) for z in x], [torch.tensor(z) for z in y], estimator=estimator)
    assert fast.item() == pytest.approx(slow_jmmd(x, y, estimator), rel=1e-9, abs=1e-12)


def test_jmmd_is_zero_on_equal_inputs_and_mk_mmd_when_predictions_are_constant() -> None:
    x, y = ([torch.tensor(z) for z in layers(7, 3, 4, s)] for s in (0, 1))
    assert jmmd(x, x).item() == 0
    assert jmmd(x, y).item() > 0
    flat = [torch.full((7, 4), 0.25, dtype=torch.float64)] * 2
    torch.testing.assert_close(jmmd([x[0], flat[0]], [y[0], flat[1]]), mk_mmd(x[0], y[0]))


def test_jmmd_sees_a_wrong_coupling_that_each_layer_alone_does_not() -> None:
    """Equal marginals, features and predictions paired differently: the reason for the joint kernel."""
    features = torch.tensor([[0.0], [0.0], [5.0], [5.0]])
    right = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    wrong = right.flip(0)
    assert mk_mmd(features, features).item() == 0
    assert mk_mmd(right, wrong).item() == pytest.approx(0, abs=1e-6)
    assert jmmd([features, right], [features, wrong]).item() > 0.5


@pytest.mark.parametrize("preset", ["", "unbiased", "linear"])
def test_jan_brings_the_joint_distributions_together(preset: str) -> None:
    sources, target = batches(seed=1, size=24)

    def distance(trade_off: float) -> float:
        method = build("jan", preset, trade_off=trade_off)
        torch.manual_seed(0)
        return np.mean([method.update(sources, target, 0.0)["jmmd"].item() for _ in range(40)][-10:])

    assert distance(10.0) < 0.7 * distance(0.0)
