"""The CORAL distance, and CORAL."""

import numpy as np
import pytest
import torch

from methods.coral import coral_distance, mean_distance
from tests.methods.small import batches, build


@pytest.mark.parametrize("n, m, d", [(5, 5, 3), (12, 4, 7), (3, 9, 1)])
def test_distance_is_the_frobenius_norm_of_numpys_covariances(n: int, m: int, d: int) -> None:
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d)) * 2 + 1
    difference = np.atleast_2d(np.cov(x, rowvar=False)) - np.atleast_2d(np.cov(y, rowvar=False))
    slow = sum(difference[i, j] ** 2 for i in range(d) for j in range(d)) / (4 * d * d)
    assert coral_distance(torch.tensor(x), torch.tensor(y)).item() == pytest.approx(slow, rel=1e-10)
    slow_mean = np.mean([(x[:, i].mean() - y[:, i].mean()) ** 2 for i in range(d)])
    assert mean_distance(torch.tensor(x), torch.tensor(y)).item() == pytest.approx(slow_mean, rel=1e-10)


def test_distance_sees_covariances_only() -> None:
    x = torch.randn(20, 4, dtype=torch.float64)
    y = torch.randn(15, 4, dtype=torch.float64)
    assert coral_distance(x, x).item() == 0
    assert coral_distance(x, x + 5).item() == pytest.approx(0, abs=1e-24)  # a shift has no covariance
    assert coral_distance(x, -x).item() == pytest.approx(0, abs=1e-24)
    torch.testing.assert_close(coral_distance(x, y), coral_distance(y, x))
    torch.testing.assert_close(coral_distance(3 * x, 3 * y), 81 * coral_distance(x, y))  # of the fourth degree
    q = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))[0]
    torch.testing.assert_close(coral_distance(x @ q, y @ q), coral_distance(x, y))


@pytest.mark.parametrize("preset", ["", "feature"])
def test_training_brings_the_covariances_together(preset: str) -> None:
    sources, target = batches(size=24)

    def distance(trade_off: float) -> float:
        method = build("coral", preset, trade_off=trade_off)
        torch.manual_seed(0)
        return np.mean([method.update(sources, target, 0.0)["coral"].item() for _ in range(40)][-10:])

    assert distance(30.0) < 0.7 * distance(0.0)


def test_default_measures_the_logits_and_the_preset_the_features() -> None:
    sources, target = batches(size=24)
    for preset in ("", "feature"):
        method = build("coral", preset)
        torch.manual_seed(0)
        features, f_t = method.forward_all(sources, target)
        f_s = torch.cat(features)
        expected = coral_distance(method.classifier(f_s), method.classifier(f_t))
        if preset:
            expected = 4 * coral_distance(f_s, f_t) + mean_distance(f_s, f_t)
        torch.manual_seed(0)
        torch.testing.assert_close(method.update(sources, target, 0.0)["coral"], expected.detach())
