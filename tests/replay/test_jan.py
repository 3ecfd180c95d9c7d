"""JAN: min CE + JMMD² of (features, softmax): the kernel of a pair is the product of both layers' kernels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

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
    softmax,
    squared_distance,
)

SOFTMAX_BANDWIDTH = 1.68  # the authors' PyTorch release


@pytest.mark.parametrize("preset", ["", "unbiased", "linear"])
def test_jan_is_its_algorithm(preset: str) -> None:
    method, plain = pair("jan", preset)
    for t in range(UPDATES):
        (source,), target = batches(t, (9,), 6)
        torch.manual_seed(t)
        method.update([source], target, t / UPDATES)

        f_s, f_t = plain.extract("extractor", source.images), plain.extract("extractor", target.images)
        z_s, z_t = plain.linear("classifier", f_s), plain.linear("classifier", f_t)
        b = mean_squared_distance([*f_s, *f_t])

        def kernel(u: tuple[Tensor, Tensor], v: tuple[Tensor, Tensor], b: Tensor = b) -> Tensor:
            predictions = (-squared_distance(u[1], v[1]) / SOFTMAX_BANDWIDTH).exp()
            return five_gaussians(u[0], v[0], b) * predictions

        torch.manual_seed(t)  # the order of rows, which the linear estimator alone can see
        s, u = torch.randperm(len(f_s)), torch.randperm(len(f_t))
        x = list(zip(f_s[s], softmax(z_s)[s], strict=True))
        y = list(zip(f_t[u], softmax(z_t)[u], strict=True))
        loss = cross_entropy(z_s, source.labels) + mmd(x, y, kernel, preset or "biased")
        plain.step(("extractor", loss, RATE), ("classifier", loss, HEAD_RATE))
    agree(method, plain, f"jan:{preset}", ["extractor", "classifier"])
