"""RTN: min CE(f_S) + γ λ_p H(f_T on the target) + MMD²(feature ⊗ logits); `code` pools the outer product 2×2."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.replay.plain import (
    CLASSES,
    FEATURES,
    HEAD_RATE,
    RATE,
    UPDATES,
    agree,
    batches,
    cross_entropy,
    five_gaussians,
    mean,
    mean_squared_distance,
    mmd,
    pair,
    ramp,
    relu,
    softmax,
)


def outer(feature: Tensor, logits: Tensor, pool: bool) -> Tensor:
    """All products of a feature and a logit; pooled: the largest of each 2×2 of them."""
    products = [[feature[a] * logits[c] for c in range(CLASSES)] for a in range(FEATURES)]
    if not pool:
        return torch.stack([value for row in products for value in row])
    corners = [(a, c) for a in range(0, FEATURES, 2) for c in range(0, CLASSES, 2)]
    windows = [[products[a][c], products[a][c + 1], products[a + 1][c], products[a + 1][c + 1]] for a, c in corners]
    return torch.stack([torch.stack(window).max(0).values for window in windows])


@pytest.mark.parametrize("preset", ["", "code"])
def test_rtn_is_its_algorithm(preset: str) -> None:
    method, plain = pair("rtn", preset)
    for t in range(UPDATES):
        (source,), target = batches(t, (9,), 6)
        method.update([source], target, t / UPDATES)

        f_s, f_t = plain.extract("extractor", source.images), plain.extract("extractor", target.images)
        z_s, z_t = plain.linear("classifier", f_s), plain.linear("classifier", f_t)
        delta = plain.linear("residual.delta.2", relu(plain.linear("residual.delta.0", z_s)))
        error = cross_entropy(z_s + delta, source.labels)
        p = softmax(z_t)
        entropy = mean(-(row * row.log()).sum() for row in p)

        x = [outer(f, z, bool(preset)) for f, z in zip(f_s, z_s, strict=True)]
        y = [outer(f, z, bool(preset)) for f, z in zip(f_t, z_t, strict=True)]
        b = mean_squared_distance([*x, *y])
        loss = error + 0.1 * ramp(t / UPDATES) * entropy + mmd(x, y, lambda u, v, b=b: five_gaussians(u, v, b))
        plain.step(("extractor", loss, RATE), ("classifier", loss, HEAD_RATE), ("residual", loss, HEAD_RATE))
    agree(method, plain, f"rtn:{preset}", ["extractor", "classifier", "residual"])
