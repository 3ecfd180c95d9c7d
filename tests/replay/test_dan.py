"""DAN: min CE + MK-MMD²(features) + MK-MMD²(logits), kernels pair by pair; the presets change the estimator only."""

from __future__ import annotations

import pytest
import torch

from tests.replay.plain import (
    HEAD_RATE,
    RATE,
    UPDATES,
    agree,
    batches,
    cross_entropy,
    five_gaussians,
    mean_squared_distance,
    mmd,
    pair,
)


@pytest.mark.parametrize("preset", ["", "unbiased", "linear"])
def test_dan_is_its_algorithm(preset: str) -> None:
    method, plain = pair("dan", preset)
    for t in range(UPDATES):
        (source,), target = batches(t, (9,), 6)
        torch.manual_seed(t)
        method.update([source], target, t / UPDATES)

        f_s, f_t = plain.extract("extractor", source.images), plain.extract("extractor", target.images)
        z_s, z_t = plain.linear("classifier", f_s), plain.linear("classifier", f_t)
        loss = cross_entropy(z_s, source.labels)
        torch.manual_seed(t)  # the order of rows, which the linear estimator alone can see
        s, u = torch.randperm(len(f_s)), torch.randperm(len(f_t))
        for x, y in ((f_s[s], f_t[u]), (z_s[s], z_t[u])):
            b = mean_squared_distance([*x, *y])
            loss = loss + mmd(list(x), list(y), lambda p, q, b=b: five_gaussians(p, q, b), preset or "biased")
        plain.step(("extractor", loss, RATE), ("classifier", loss, HEAD_RATE))
    agree(method, plain, f"dan:{preset}", ["extractor", "classifier"])
