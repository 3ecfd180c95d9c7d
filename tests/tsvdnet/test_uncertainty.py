"""Eq. 13 in its readings: which lines are equal, which are bounded, and which weight samples."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from methods.errors import MethodError
from tsvdnet import uncertainty as U


def batch(n: int = 6, classes: int = 5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(n, classes, generator=g, dtype=torch.float64)
    return logits, torch.randint(classes, (n,), generator=g), torch.randn(n, generator=g, dtype=torch.float64)


def test_the_first_two_lines_of_eq_13_are_equal():
    h, y, s = batch()
    v = U.variance(s)
    middle = F.cross_entropy(h, y, reduction="none") / v + (h / v[:, None]).logsumexp(1) - h.logsumexp(1) / v
    torch.testing.assert_close(U.exact(h, y, v), middle.mean())


def test_the_last_line_equals_the_middle_line_at_sigma_one_only():
    h, y, _ = batch()
    one = torch.ones(len(y), dtype=h.dtype)
    torch.testing.assert_close(U.approximate(h, y, one), U.exact(h, y, one))
    torch.testing.assert_close(U.exact(h, y, one), F.cross_entropy(h, y))
    assert abs(U.approximate(h, y, 2 * one) - U.exact(h, y, 2 * one)) > 1e-2


@pytest.mark.parametrize("ce", [1e-2, 1e-5, 1e-9])
def test_the_last_line_is_unbounded_below_without_a_floor_and_bounded_with_one(ce):
    """D22: the minimum over σ² is at 2·CE and equals ½ + ½·log(2·CE)."""
    h = torch.tensor([[0.0, math.log(math.expm1(ce))]], dtype=torch.float64)  # cross-entropy exactly `ce` on class 0
    y = torch.tensor([0])
    best = U.approximate(h, y, torch.tensor([2 * ce], dtype=torch.float64)).item()
    assert best == pytest.approx(0.5 + 0.5 * math.log(2 * ce), rel=1e-6)
    for factor in (0.5, 2.0):
        assert U.approximate(h, y, torch.tensor([2 * ce * factor], dtype=torch.float64)) > best
    floored = U.weighted_loss(h, y, torch.tensor([-50.0], dtype=torch.float64), "approximate", "exp", floor=1e-2)
    assert floored >= 0.5 * math.log(1e-2) - 1e-9


def test_the_printed_likelihood_leaves_out_the_true_class_and_falls_below_zero():
    """D19: a loss that a certain sample makes as negative as it likes is no negative log likelihood."""
    one = torch.ones(1, dtype=torch.float64)
    h, y = torch.tensor([[9.0, 1.0, 2.0]], dtype=torch.float64), torch.tensor([0])
    expected = math.log(math.exp(1) + math.exp(2)) - 9
    assert U.printed(h, y, one).item() == pytest.approx(expected)
    assert U.printed(h, y, one) < 0 < U.exact(h, y, one)
    assert torch.isfinite(torch.autograd.functional.jacobian(lambda x: U.printed(x, y, one), h)).all()


def test_samples_with_larger_sigma_weigh_less():
    h, y, _ = batch(2)
    h = h.requires_grad_()
    U.approximate(h, y, torch.tensor([1.0, 4.0], dtype=torch.float64)).backward()
    plain = torch.autograd.grad(F.cross_entropy(h, y), h)[0]
    torch.testing.assert_close(h.grad, plain / torch.tensor([[1.0], [4.0]]))


def test_the_released_comment_as_it_stands_does_not_weight_samples():
    """A.4: the broadcast of (B, 1) against (B,) is mean(w)·mean(CE) + penalty: every sample gets the mean weight."""
    h, y, s = batch()
    h = h.requires_grad_()
    ce, w = F.cross_entropy(h, y, reduction="none"), 1 / (s**2 + 0.1)
    penalty = 0.5 * torch.log1p(s**2).mean()
    torch.testing.assert_close(U.weighted_loss(h, y, s, "broadcast"), w.mean() * ce.mean() + penalty)
    (got,) = torch.autograd.grad(U.weighted_loss(h, y, s, "broadcast"), h)
    (plain,) = torch.autograd.grad(ce.mean(), h, retain_graph=True)
    torch.testing.assert_close(got, plain * w.mean())
    torch.testing.assert_close(U.weighted_loss(h, y, s, "commented"), (w * ce).mean() + penalty)
    (per_sample,) = torch.autograd.grad(U.weighted_loss(h, y, s, "commented"), h)
    torch.testing.assert_close(per_sample, plain * w[:, None])


@pytest.mark.parametrize(
    "link, expected",
    [("softplus", lambda s: math.log1p(math.exp(s))), ("exp", math.exp), ("raw", lambda s: s * s)],
)
def test_links_give_a_positive_variance_above_the_floor(link, expected):
    s = torch.tensor([-3.0, 0.0, 2.0], dtype=torch.float64)
    v = U.variance(s, link, floor=0.05)
    assert v.tolist() == pytest.approx([expected(x) + 0.05 for x in s.tolist()])
    torch.testing.assert_close(U.deviation(s, "approximate", link, 0.05), v.sqrt())


def test_the_deviation_of_the_commented_form_is_its_own():
    s = torch.tensor([2.0])
    assert U.deviation(s, "commented", "exp", 5.0).item() == pytest.approx(math.sqrt(4.1))


def test_unknown_forms_and_links_are_refused_with_the_allowed_ones():
    h, y, s = batch()
    with pytest.raises(MethodError, match="approximate"):
        U.weighted_loss(h, y, s, "aproximate")
    with pytest.raises(MethodError, match="softplus"):
        U.variance(s, "softmax")


@pytest.mark.parametrize("form", ["approximate", "exact", "commented"])
def test_training_gives_samples_with_random_labels_a_larger_sigma(form):
    """What +U is for: the head learns from the loss alone which samples are noise."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(200) % 4
    noisy = torch.arange(200) % 2 == 1
    x = torch.cat([F.one_hot(y, 4).float(), noisy[:, None].float()], 1)  # the classes, and a mark on the noise
    labels = torch.where(noisy, torch.randint(4, (200,), generator=g), y)
    classifier, head = torch.nn.Linear(5, 4), torch.nn.Linear(5, 1)
    torch.nn.init.zeros_(classifier.weight)
    torch.nn.init.constant_(head.weight, 0.1)
    optimiser = torch.optim.Adam([*classifier.parameters(), *head.parameters()], lr=0.05)
    for _ in range(150):
        optimiser.zero_grad()
        U.weighted_loss(classifier(x), labels, head(x)[:, 0], form).backward()
        optimiser.step()
    sigma = U.deviation(head(x)[:, 0], form, "softplus", 0.1)
    assert sigma[noisy].mean() > 1.5 * sigma[~noisy].mean()


@pytest.mark.parametrize("form", U.FORMS)
def test_the_head_carries_its_own_loss_and_sigma(form):
    head = U.Uncertainty(4, form, "exp", floor=0.2)
    x, (h, y, _) = torch.randn(6, 4, generator=torch.Generator().manual_seed(1)), batch()
    s = head(x)
    assert s.shape == (6,)
    torch.testing.assert_close(s, torch.nn.functional.linear(x, head.weight, head.bias)[:, 0])
    torch.testing.assert_close(head.loss(h.float(), y, s), U.weighted_loss(h.float(), y, s, form, "exp", 0.2))
    torch.testing.assert_close(head.sigma(s), U.deviation(s, form, "exp", 0.2))
    assert set(head.state_dict()) == {"weight", "bias"}
