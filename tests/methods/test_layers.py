"""Gradient reversal, discriminators, entropy, ramps, kept statistics."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from methods.layers import discriminator, domain_loss, entropy, ramp, reverse_gradient, statistics_kept


@pytest.mark.parametrize("coefficient", [0.0, 0.3, 1.0])
def test_reversal_is_the_identity_forwards_and_minus_the_coefficient_backwards(coefficient: float) -> None:
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, dtype=torch.float64, requires_grad=True)
    out = reverse_gradient(x, coefficient)
    assert torch.equal(out, x)
    (out @ weight).square().sum().backward()
    plain = x.detach().clone().requires_grad_()
    (plain @ weight.detach()).square().sum().backward()
    torch.testing.assert_close(x.grad, -coefficient * plain.grad)
    assert weight.grad is not None  # what follows the reversal learns at its full rate
    assert weight.grad.abs().sum() > 0


def test_reversal_agrees_with_a_finite_difference_of_the_negated_loss() -> None:
    x = torch.tensor([0.7, -0.2], dtype=torch.float64)

    def loss(v: torch.Tensor) -> torch.Tensor:
        return (v**3).sum()

    given = x.clone().requires_grad_()
    loss(reverse_gradient(given, 0.5)).backward()
    step = 1e-6
    units = torch.eye(2, dtype=torch.float64) * step
    numeric = torch.stack([-0.5 * (loss(x + e) - loss(x - e)) / (2 * step) for e in units])
    torch.testing.assert_close(given.grad, numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("hidden, shapes", [(7, [(7, 5), (2, 7)]), ((7, 3), [(7, 5), (3, 7), (2, 3)]), ((), [(2, 5)])])
def test_discriminator_has_the_widths_that_were_asked_for(hidden: int | tuple[int, ...], shapes: list) -> None:
    net = discriminator(5, hidden, 2)
    assert [tuple(m.weight.shape) for m in net if isinstance(m, nn.Linear)] == shapes
    assert isinstance(net[-1], nn.Linear)  # scores, not probabilities
    assert net(torch.randn(11, 5)).shape == (11, 2)


def test_leaky_discriminator_lets_negative_units_through() -> None:
    net = discriminator(1, 1, 1, slope=0.1)
    with torch.no_grad():
        for layer in (net[0], net[2]):
            layer.weight.fill_(1.0)
            layer.bias.zero_()
    assert net(torch.tensor([[-2.0]])).item() == pytest.approx(-0.2)


@pytest.mark.parametrize("n, m", [(5, 5), (12, 3)])
def test_domain_loss_is_the_mean_of_two_cross_entropies_whatever_the_sizes(n: int, m: int) -> None:
    rng = np.random.default_rng(0)
    s, t = rng.normal(size=n), rng.normal(size=m)
    sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    slow = 0.5 * (np.mean(-np.log(sigmoid(s))) + np.mean(-np.log(1 - sigmoid(t))))
    assert domain_loss(torch.tensor(s), torch.tensor(t)).item() == pytest.approx(slow, rel=1e-12)
    assert domain_loss(torch.zeros(n), torch.zeros(m)).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("shape", [(3,), (5, 4), (2, 3, 7)])
def test_entropy_is_the_textbook_sum(shape: tuple[int, ...]) -> None:
    p = np.random.default_rng(1).dirichlet(np.ones(shape[-1]), size=shape[:-1] or None)
    np.testing.assert_allclose(entropy(torch.tensor(p)).numpy(), -(p * np.log(p)).sum(-1), rtol=1e-12)


def test_entropy_is_finite_with_its_gradient_where_a_probability_is_zero() -> None:
    logits = torch.tensor([[200.0, -200.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    p = logits.softmax(1)
    assert (p == 0).any()
    h = entropy(p)
    h.sum().backward()
    torch.testing.assert_close(h.detach(), torch.tensor([0.0, math.log(3)]))
    assert torch.isfinite(logits.grad).all()


def test_ramp_starts_at_zero_rises_and_ends_just_below_one() -> None:
    values = [ramp(p / 10) for p in range(11)]
    assert values[0] == 0
    assert values == sorted(values)
    assert values[5] == pytest.approx(math.tanh(2.5))  # the same curve by another name: tanh(10 p / 2)
    assert values[-1] == pytest.approx(0.9999, abs=1e-4)


def test_kept_statistics_normalise_by_the_batch_and_stay() -> None:
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2), nn.BatchNorm1d(2))
    net(torch.randn(9, 3))
    before = [net[0].running_mean.clone(), net[2].running_var.clone()]
    with statistics_kept(net):
        out = net(5 + 3 * torch.randn(9, 3))
    torch.testing.assert_close(out.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    assert torch.equal(net[0].running_mean, before[0])
    assert torch.equal(net[2].running_var, before[1])
    net(torch.randn(9, 3))  # and afterwards they move again
    assert not torch.equal(net[0].running_mean, before[0])
