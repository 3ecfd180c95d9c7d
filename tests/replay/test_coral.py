"""Deep CORAL: min CE + ‖C_S − C_T‖_F² / 4d² of the logits; `feature`: mean (ΔC)² + mean (Δμ)² of the features."""

from __future__ import annotations

import pytest
from torch import Tensor

from tests.replay.plain import HEAD_RATE, RATE, UPDATES, agree, batches, cross_entropy, mean, pair


def moments(x: Tensor) -> tuple[list[Tensor], list[list[Tensor]]]:
    """Means, and covariances with N − 1, entry by entry."""
    n, d = x.shape
    means = [mean(x[:, a]) for a in range(d)]
    deviations = [[x[i, a] - means[a] for i in range(n)] for a in range(d)]
    covariances = [
        [mean(deviations[a][i] * deviations[b][i] for i in range(n)) * n / (n - 1) for b in range(d)] for a in range(d)
    ]
    return means, covariances


@pytest.mark.parametrize("preset", ["", "feature"])
def test_coral_is_its_algorithm(preset: str) -> None:
    method, plain = pair("coral", preset)
    for t in range(UPDATES):
        (source,), target = batches(t, (9,), 6)
        method.update([source], target, t / UPDATES)

        f_s, f_t = plain.extract("extractor", source.images), plain.extract("extractor", target.images)
        z_s, z_t = plain.linear("classifier", f_s), plain.linear("classifier", f_t)
        loss = cross_entropy(z_s, source.labels)
        (mean_s, cov_s), (mean_t, cov_t) = map(moments, (f_s, f_t) if preset else (z_s, z_t))
        d = len(mean_s)
        squares = mean((cov_s[a][b] - cov_t[a][b]) ** 2 for a in range(d) for b in range(d))  # ‖·‖_F² / d²
        shift = mean((p - q) ** 2 for p, q in zip(mean_s, mean_t, strict=True))
        loss = loss + (squares + shift if preset else squares / 4)
        plain.step(("extractor", loss, RATE), ("classifier", loss, HEAD_RATE))
    agree(method, plain, f"coral:{preset}", ["extractor", "classifier"])
