"""The residual, the fused MMD, and RTN."""

import numpy as np
import pytest
import torch

from methods.dan import mk_mmd
from methods.layers import ramp
from methods.rtn import Residual, fused_distances, fused_mmd, pooled_fusion
from tests.methods.small import batches, build

SHAPES = [(4, 4, 3, 2), (6, 9, 5, 4), (5, 3, 1, 7)]


def sample(n: int, f: int, c: int, seed: int) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    return [torch.tensor(rng.normal(size=(n, f)) + seed), torch.tensor(rng.normal(size=(n, c)))]


def fused(s: list[torch.Tensor]) -> torch.Tensor:
    """The outer products themselves, by numpy."""
    return torch.tensor(np.stack([np.outer(a, z).ravel() for a, z in zip(s[0].numpy(), s[1].numpy(), strict=True)]))


@pytest.mark.parametrize("n, m, f, c", SHAPES)
def test_fused_distances_are_those_of_the_outer_products(n: int, m: int, f: int, c: int) -> None:
    x, y = sample(n, f, c, 0), sample(m, f, c, 1)
    slow = [[((u - v) ** 2).sum().item() for v in fused(y)] for u in fused(x)]
    np.testing.assert_allclose(fused_distances(x, y).numpy(), slow, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n, m, f, c", SHAPES)
def test_fused_mmd_is_mk_mmd_of_the_outer_products(n: int, m: int, f: int, c: int) -> None:
    x, y = sample(n, f, c, 0), sample(m, f, c, 1)
    torch.testing.assert_close(fused_mmd(x, y), mk_mmd(fused(x), fused(y)))
    assert fused_mmd(x, x).item() == 0


def test_pooling_takes_the_maximum_of_two_by_two_products() -> None:
    a, z = sample(3, 6, 4, 0)
    slow = np.zeros((3, 3, 2))
    for i in range(3):
        product = np.outer(a[i].numpy(), z[i].numpy())
        for r in range(3):
            for s in range(2):
                slow[i, r, s] = product[2 * r : 2 * r + 2, 2 * s : 2 * s + 2].max()
    np.testing.assert_allclose(pooled_fusion(a, z).numpy(), slow.reshape(3, -1))


def test_source_classifier_is_the_target_classifier_plus_two_layers() -> None:
    residual = Residual(4).double()
    z = torch.randn(5, 4, dtype=torch.float64)
    w1, b1, w2, b2 = (p.detach().numpy() for p in residual.parameters())
    slow = z.numpy() + np.maximum(z.numpy() @ w1.T + b1, 0) @ w2.T + b2
    np.testing.assert_allclose(residual(z).detach().numpy(), slow)


def test_target_is_classified_without_the_residual() -> None:
    method = build("rtn")
    _, target = batches()
    before = method.predict(target.images)
    with torch.no_grad():
        for weight in method.residual.parameters():
            weight.add_(1.0)
    assert torch.equal(method.predict(target.images), before)


@pytest.mark.parametrize("preset", ["", "code"])
def test_target_terms_do_what_they_say(preset: str) -> None:
    sources, target = batches(size=24)

    def final(**changes: float) -> dict[str, float]:
        method = build("rtn", preset, **changes)
        torch.manual_seed(0)
        for _ in range(40):
            out = method.update(sources, target, 1.0)
        return {name: value.item() for name, value in out.items()}

    neither = final(trade_off=0.0, entropy=0.0)
    assert final(trade_off=0.0, entropy=1.0)["entropy"] < 0.7 * neither["entropy"]
    assert final(trade_off=10.0, entropy=0.0)["mmd"] < 0.7 * neither["mmd"]


def test_entropy_weight_starts_at_zero() -> None:
    assert ramp(0.0) == 0
    sources, target = batches()
    losses = []
    for weight in (0.0, 5.0):
        method = build("rtn", entropy=weight)
        torch.manual_seed(0)
        method.update(sources, target, 0.0)
        losses.append(method.predict(target.images))
    assert torch.equal(*losses)
