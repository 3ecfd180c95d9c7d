"""The audit: at which λ and η the auxiliary tensor A must be zero, in bounds, in shrinkage, and in training."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from methods.errors import MethodError
from tests.tsvdnet.small import build, equal, train
from tsvdnet import auxiliary as aux
from tsvdnet.prototypes import gaussian_similarity, stack
from tsvdnet.tensor import rotate, singular_values, tensor_rank

# classes, domains, λ, η_max, feature dimension: Table 5 of the paper
DIGITS, PACS, DOMAINNET = (10, 5, 1000.0, 1.0, 2048), (7, 4, 1000.0, 0.1, 512), (345, 6, 100.0, 1.0, 2048)


def similarities(classes: int, domains: int, width: int, reduction: str = "mean", noise: float = 0.3) -> torch.Tensor:
    """G of generated prototypes: class directions that the domains share, non-negative, of norm at most one."""
    g = torch.Generator().manual_seed(0)
    shared = torch.randn(classes, width, generator=g)
    own = [shared + noise * torch.randn(classes, width, generator=g) for _ in range(domains)]
    f = torch.stack([F.normalize(x.relu(), dim=1) for x in own])
    return stack(gaussian_similarity(f, 0.05, reduction))


# -- thresholds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["paper", "code", "exact"])
@pytest.mark.parametrize("lam, eta", [(1000.0, 1.0), (100.0, 0.03), (1.0, 1e-5)])
def test_the_smallest_survivor_is_where_the_threshold_equals_the_value(rule, lam, eta):
    sigma = aux.smallest_survivor(rule, lam, eta, 10)
    t = aux.threshold(rule, lam, eta, 10)
    assert (t(torch.tensor(sigma, dtype=torch.float64)).item() if callable(t) else t) == pytest.approx(sigma)
    assert aux.lam_for_survivor(rule, sigma, eta, 10) == pytest.approx(lam)
    assert aux.eta_for_survivor(rule, sigma, lam, 10) == pytest.approx(eta)


def test_the_rules_are_the_papers_the_codes_and_the_exact_one():
    assert aux.threshold("paper", 1000.0, 0.5, 10) == 2000.0
    assert aux.threshold("exact", 1000.0, 0.5, 10) == 20000.0
    rule = aux.threshold("code", 1000.0, 0.5, 10)
    assert rule(torch.tensor(100.0)).item() == pytest.approx(2000.0 * 10 / (100 + 1e-5))
    assert aux.threshold("zero", 1000.0, 0.5, 10) == math.inf
    with pytest.raises(MethodError, match="paper"):
        aux.threshold("papers", 1.0, 1.0, 1)


# -- the bound, and what follows from it ---------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["paper", "code", "exact"])
@pytest.mark.parametrize("classes, domains, lam, eta_max, _", [DIGITS, PACS])
def test_a_must_be_zero_on_digits_and_pacs_at_every_eta_of_the_schedule(rule, classes, domains, lam, eta_max, _):
    shape = aux.slice_shape(classes, domains)
    for step in range(200):
        assert aux.must_be_zero(rule, lam, min(1e-5 * 1.1**step, eta_max), shape)


@pytest.mark.parametrize(
    "rule, case, escape", [("paper", DIGITS, 14.1), ("paper", PACS, 27.0), ("code", DIGITS, 2.0), ("code", PACS, 5.1)]
)
def test_the_eta_max_that_would_let_a_escape_zero_is_the_protocols(rule, case, escape):
    classes, domains, lam, _, _ = case
    shape = aux.slice_shape(classes, domains)
    eta = aux.eta_for_survivor(rule, aux.largest_sigma(shape), lam, shape[2])
    assert eta == pytest.approx(escape, rel=0.01)
    ones = torch.ones(classes, classes, domains, dtype=torch.float64)
    assert aux.must_be_zero(rule, lam, eta, shape)
    assert (aux.proximal(ones, rule, lam, 1.001 * eta) != 0).any()
    assert (aux.proximal(ones, rule, lam, 0.999 * eta).abs() < 1e-9).all()


def test_on_domainnet_a_may_escape_early_in_the_schedule():
    shape = aux.slice_shape(345, 6)
    assert aux.largest_sigma(shape) == pytest.approx(15697, abs=1)
    assert aux.eta_for_survivor("paper", aux.largest_sigma(shape), 100.0, 345) == pytest.approx(6.4e-3, rel=0.01)
    assert aux.eta_for_survivor("code", aux.largest_sigma(shape), 100.0, 345) == pytest.approx(1.4e-4, rel=0.01)
    assert aux.smallest_survivor("code", 100.0, 1.0, 345) == pytest.approx(185.7, abs=0.1)


@pytest.mark.parametrize("rule", ["paper", "code"])
def test_on_345_classes_and_6_domains_a_is_not_zero_with_the_codes_kernel_and_is_the_zero_frequency_only(rule):
    classes, domains, lam, eta, width = DOMAINNET
    g = similarities(classes, domains, width)
    a = aux.proximal(g, rule, lam, eta)
    rank = tensor_rank(rotate(a), tol=1e-3)
    assert rank[0] == 1
    assert rank[1:].sum() == 0
    # so A is constant along the transformed class axis, and almost all of G
    assert (a - a.mean(0, keepdim=True)).abs().max() < 1e-5
    assert (g - a).square().sum() < 1e-3 * g.square().sum()
    sigma = singular_values(rotate(g))
    assert sigma[0, 0] > 10_000
    assert sigma[1:].max() < 10


@pytest.mark.parametrize("rule", ["paper", "code"])
def test_on_345_classes_and_6_domains_a_is_zero_with_the_printed_kernel(rule):
    """G ≈ I: σ_1 = √(345·6) = 45.5 < 100."""
    classes, domains, lam, eta, width = DOMAINNET
    g = similarities(classes, domains, width, reduction="sum")
    assert singular_values(rotate(g)).max().item() == pytest.approx(math.sqrt(345 * 6), rel=1e-2)
    assert torch.equal(aux.proximal(g, rule, lam, eta), torch.zeros_like(g))


# -- training ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["", "paper", "code"])
@pytest.mark.parametrize("classes, domains, lam, eta_max, _", [DIGITS, PACS])
def test_published_settings_train_like_prox_zero_bit_for_bit(preset, classes, domains, lam, eta_max, _, monkeypatch):
    """With the real SVD at every A-step: the short cut of the audit is switched off on one side."""
    size = {"classes": classes, "sources": domains - 1, "lam": lam, "eta_max": eta_max}
    zero = build(preset, prox="zero", **size)
    train(zero, 18)
    short = build(preset, **size)
    train(short, 18)
    shrunk = []
    real = aux.proximal
    monkeypatch.setattr(aux, "proximal", lambda *a, **k: shrunk.append(real(*a, **k)) or shrunk[-1])
    monkeypatch.setattr(aux, "must_be_zero", lambda *a: False)
    full = build(preset, **size)
    train(full, 18)
    assert len(shrunk) == (2 if preset == "code" else 18)
    assert all((a == 0).all() for a in shrunk)
    assert equal(full, zero)
    assert equal(short, zero)
    assert full.diagnostics()["a_zero_whole_run"]
    assert full.diagnostics()["share_a_nonzero"] == 0


def test_a_much_smaller_lambda_trains_differently_from_prox_zero():
    """The control of the test above: it can fail."""
    small, zero = build(lam=0.1), build(lam=0.1, prox="zero")
    train(small), train(zero)
    assert not equal(small, zero)
    assert not small.diagnostics()["a_zero_whole_run"]


def test_with_a_at_zero_the_tensor_term_pushes_prototypes_apart_within_each_domain():
    """(η/2)Σ‖G_d‖²: its gradient in one domain's prototypes does not know the other domains."""
    f = torch.rand(3, 5, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    stack(gaussian_similarity(f, 1.0)).square().sum().backward()
    alone = f.detach().clone().requires_grad_()
    stack(gaussian_similarity(alone[:1], 1.0)).square().sum().backward()
    torch.testing.assert_close(f.grad[0], alone.grad[0])
    step = f.detach() - 0.1 * f.grad
    assert torch.pdist(step[0]).mean() > torch.pdist(f.detach()[0]).mean()


# -- η and λ -------------------------------------------------------------------------------------------------------


def test_eta_by_progress_is_geometric_up_to_its_share_of_the_budget():
    eta = [aux.ramp(p, 1e-5, 1.0, 0.15) for p in (0.0, 0.075, 0.15, 0.5, 1.0)]
    assert eta == pytest.approx([1e-5, 1e-5 * math.sqrt(1e5), 1.0, 1.0, 1.0])
    assert aux.ramp(0.0, 1e-5, 0.1, 0.0) == 0.1


def test_eta_by_progress_on_the_released_budget_follows_the_released_schedule():
    """Fifteen A-steps an epoch of 233 iterations, a budget of 12,349: within 15 % of ×1.1 at each of them."""
    for steps in (15, 60, 110):
        iteration = steps / 15 * 233
        assert aux.ramp(iteration / 12349, 1e-5, 1.0, 0.15) == pytest.approx(1e-5 * 1.1**steps, rel=0.15)


@pytest.mark.parametrize("case", [DIGITS, PACS, DOMAINNET], ids=["digits", "pacs", "domainnet"])
@pytest.mark.parametrize("rule", ["paper", "code"])
def test_the_active_lambda_leaves_something_at_every_frequency(case, rule):
    classes, domains, lam, eta_max, width = case
    floor = gaussian_similarity(torch.eye(2, width, dtype=torch.float64), 0.05, "mean")[0, 1].item()
    active = aux.active_lam(rule, classes, domains, eta_max, floor)
    assert active < lam
    survivor = aux.smallest_survivor(rule, active, eta_max, classes)
    assert survivor <= 0.01 * aux.largest_sigma(aux.slice_shape(classes, domains)) * (1 + 1e-9)
    orthogonal = gaussian_similarity(
        torch.eye(classes, width, dtype=torch.float64).expand(domains, -1, -1), 0.05, "mean"
    )
    rank = tensor_rank(rotate(aux.proximal(stack(orthogonal), rule, active, eta_max)), tol=1e-9)
    assert (rank >= 1).all()


# -- the part ------------------------------------------------------------------------------------------------------


def test_the_part_is_the_term_with_the_old_a_and_then_the_a_step_with_the_same_eta():
    low_rank = aux.Auxiliary(10, 5, lam=0.1, schedule=aux.Growth(eta0=0.5, eta_max=2.0, rho=1.5))
    g, old = similarities(10, 5, 32), low_rank.A
    assert old.min() >= 0
    assert old.max() > 0.9
    assert low_rank(g).item() == pytest.approx(0.25 * (old - g).square().sum().item(), rel=1e-6)
    low_rank.step(g)
    torch.testing.assert_close(low_rank.A, aux.proximal(g, "paper", 0.1, 0.5))
    assert low_rank.eta == 0.75
    for eta in (1.125, 1.6875, 2.0, 2.0):
        low_rank.step(g)
        assert low_rank.eta == eta
    assert low_rank.describe(g)["share_eta_max"] == pytest.approx(1 / 5)


def test_the_gradient_of_the_term_is_eta_times_the_distance_and_none_of_it_is_for_a():
    low_rank, g = aux.Auxiliary(3, 2, lam=1.0, seed=None), torch.rand(3, 3, 2, requires_grad=True)
    low_rank.follow(0.9)
    low_rank(g).backward()
    torch.testing.assert_close(g.grad, 1e-5 * g.detach())  # A is zero at the start, η = η0
    low_rank.step(g)
    assert not low_rank.A.requires_grad


def test_eta_by_progress_is_moved_by_the_budget_and_eta_by_growth_by_the_steps():
    ramp, growth = (aux.Auxiliary(3, 2, lam=1.0, schedule=s) for s in (aux.Ramp(share=0.5), aux.Growth()))
    for part in (ramp, growth):
        part.follow(0.5)
        part.step(torch.ones(3, 3, 2))
    assert ramp.eta == 1.0
    assert growth.eta == pytest.approx(1.1e-5)


def test_steps_come_every_so_many_calls_and_the_count_restarts():
    low_rank, g, taken = aux.Auxiliary(3, 2, lam=1.0, every=4, restart=5), torch.ones(3, 3, 2), []
    for call in range(9):
        before = low_rank.A
        low_rank.step(g)
        if low_rank.A is not before:
            taken.append(call)
    assert taken == [0, 4, 5]


def test_the_whole_state_of_the_part_is_in_its_state_dict(tmp_path):
    """A, η and the counts: a restored part goes on as the first one does."""
    one, two = (aux.Auxiliary(10, 5, lam=1e-3, schedule=aux.Growth(eta0=0.1), every=2, seed=s) for s in (0, 1))
    g = similarities(10, 5, 32)
    for _ in range(3):
        one.step(g)
    torch.save(one.state_dict(), tmp_path / "state.pt")
    two.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for part in (one, two):
        part.step(g), part.step(0.9 * g)
    assert torch.equal(one.A, two.A)
    assert one.describe(g) == two.describe(g)
    assert not one.describe(g)["a_zero_whole_run"]


def test_the_nuclear_norm_is_a_penalty_that_needs_no_a():
    g = similarities(5, 3, 16)
    assert aux.NuclearNorm(0.5)(g).item() == pytest.approx(0.5 * singular_values(rotate(g)).sum().item(), rel=1e-5)
    assert aux.NuclearNorm(0.5, rotation=False)(g).item() == pytest.approx(
        0.5 * singular_values(g).sum().item(), rel=1e-5
    )
