"""Pseudo labels, class means, moving averages, the Gaussian kernel in its readings, Ψ."""

from __future__ import annotations

import math

import pytest
import torch

from methods.errors import MethodError
from tsvdnet import prototypes as P
from tsvdnet.tensor import rotate, singular_values, tensor_nuclear_norm


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def unit_features(n: int, f: int, seed: int = 0) -> torch.Tensor:
    """Non-negative unit vectors, as normalised ReLU features are."""
    x = torch.randn(n, f, generator=generator(seed), dtype=torch.float64).relu()
    return torch.nn.functional.normalize(x, dim=1)


# -- pseudo labels -------------------------------------------------------------------------------------------------


def test_pseudo_labels_name_the_top_class_of_confident_samples_only():
    p = torch.tensor([[0.95, 0.03, 0.02], [0.02, 0.9, 0.08], [0.4, 0.3, 0.3], [0.0, 0.0, 1.0]])
    assert P.pseudo_labels(p, "probability", 0.9).tolist() == [0, -1, -1, 2]  # strictly above τ, as printed
    assert P.pseudo_labels(p, "entropy", 0.7).tolist() == [0, 1, -1, 2]


def test_the_two_rules_for_pseudo_labels_disagree_in_both_directions():
    """D6: H < 0.7 takes a two-way split at p = 0.6 that τ = 0.9 refuses, and refuses a long tail above any small τ."""
    split = torch.tensor([[0.6, 0.4] + [0.0] * 8])
    tail = torch.tensor([[0.8] + [0.2 / 9] * 9])
    assert (P.pseudo_labels(split, "entropy", 0.7), P.pseudo_labels(split, "probability", 0.7)) == (0, -1)
    assert (P.pseudo_labels(tail, "entropy", 0.7), P.pseudo_labels(tail, "probability", 0.7)) == (-1, 0)


def test_entropy_of_certainty_is_zero_and_of_ignorance_log_c():
    h = P.entropy(torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.25] * 4]))
    assert h.tolist() == pytest.approx([0.0, math.log(4)])


def test_an_unknown_rule_is_refused_with_the_allowed_ones():
    with pytest.raises(MethodError, match="'entropy'"):
        P.pseudo_labels(torch.ones(1, 2), "entropie")


# -- means and their moving average --------------------------------------------------------------------------------


def test_class_means_are_means_over_members_and_absent_classes_are_told():
    f = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [100.0, 100.0]])
    means, present = P.class_means(f, torch.tensor([0, 0, 2, -1]), 4)
    assert means.tolist() == [[2.0, 3.0], [0.0, 0.0], [5.0, 6.0], [0.0, 0.0]]
    assert present.tolist() == [True, False, True, False]


def test_moving_average_weights_the_new_mean_by_alpha_and_leaves_absent_classes():
    old, new = torch.tensor([[4.0], [8.0]]), torch.tensor([[0.0], [0.0]])
    out = P.moving_average(old, new, torch.tensor([True, False]), alpha=0.25)
    assert out.tolist() == [[3.0], [8.0]]


def test_alpha_on_the_old_value_differs_unless_it_is_one_half():
    """D14: the paper's α weights the new mean, the released code's the old one; at 0.5 nobody can tell."""
    old, new, present = torch.tensor([[4.0]]), torch.tensor([[1.0]]), torch.tensor([True])
    assert P.moving_average(old, new, present, 0.5) == P.moving_average(new, old, present, 0.5)
    assert P.moving_average(old, new, present, 0.3) != P.moving_average(new, old, present, 0.3)


def test_the_gradient_flows_through_the_new_mean_only_and_scaled_by_alpha():
    f = torch.randn(4, 3, generator=generator(), requires_grad=True)
    old = torch.zeros(2, 3, requires_grad=True)
    means, present = P.class_means(f, torch.tensor([0, 0, 0, -1]), 2)
    P.moving_average(old, means, present, 0.5).sum().backward()
    assert old.grad is None
    torch.testing.assert_close(f.grad, torch.tensor([[0.5 / 3] * 3] * 3 + [[0.0] * 3]))


# -- the kernel ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction, divisor", [("sum", 1), ("mean", 7)])
def test_gaussian_similarity_equals_its_formula(reduction, divisor):
    f = 0.1 * torch.randn(5, 7, generator=generator(), dtype=torch.float64)
    g = P.gaussian_similarity(f, 0.3, reduction)
    for i in range(5):
        for j in range(5):
            d = (f[i] - f[j]).square().sum().item() / divisor
            assert g[i, j].item() == pytest.approx(math.exp(-d / (2 * 0.3**2)), rel=1e-12)


def test_similarity_has_unit_diagonal_is_symmetric_and_never_above_one_in_float32():
    """The bound on σ_1 rests on entries in [0, 1]; rounding must not break it, nor equal prototypes."""
    f = unit_features(6, 64).float().repeat(2, 1)
    g = P.gaussian_similarity(f, 0.05)
    assert (g.diagonal() == 1).all()
    assert g.max() <= 1
    assert g.min() >= 0
    torch.testing.assert_close(g, g.T)
    assert g[0, 6] > 0.999


def test_similarity_of_a_stack_of_domains_equals_one_domain_at_a_time():
    f = unit_features(12, 9).view(3, 4, 9)
    torch.testing.assert_close(P.gaussian_similarity(f, 0.4), torch.stack([P.gaussian_similarity(x, 0.4) for x in f]))


def test_similarity_gradient_equals_finite_differences():
    f = unit_features(4, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: P.gaussian_similarity(x, 0.8), f)


@pytest.mark.parametrize("width", [2048, 512, 256])
def test_width_scaling_gives_every_width_the_floor_of_2048_features(width):
    """Orthogonal unit prototypes: exp(−2/(2048·2·0.05²)) = .82258 at the paper's width, .21 at 256 without the scale."""
    f = torch.eye(10, width, dtype=torch.float64)
    scaled = P.gaussian_similarity(f, 0.05, "mean", scale=width / 2048)
    assert scaled[0, 1].item() == pytest.approx(0.82258, abs=1e-5)
    assert P.gaussian_similarity(f, 0.05, "mean")[0, 1].item() == pytest.approx(math.exp(-400 / width))


def test_the_floors_of_the_audit_come_out_for_digits_and_pacs():
    """Σ_d ‖G_d‖² of orthogonal prototypes: 354.49 (10 classes, 5 domains, F = 2048), 63.21 (7, 4, 512)."""
    for classes, domains, width, floor, total in ((10, 5, 2048, 0.82258, 354.49), (7, 4, 512, 0.45783, 63.21)):
        g = P.gaussian_similarity(torch.eye(classes, width, dtype=torch.float64), 0.05, "mean")
        assert g[0, 1].item() == pytest.approx(floor, abs=1e-5)
        assert domains * g.square().sum().item() == pytest.approx(total, abs=0.01)


def test_the_printed_kernel_makes_g_the_unit_matrix():
    """D5: with the sum over raw features G = I to machine precision; over unit features off-diagonals are tiny still."""
    raw = torch.randn(10, 2048, generator=generator(), dtype=torch.float64).relu()
    assert torch.equal(P.gaussian_similarity(raw, 0.05, "sum"), torch.eye(10, dtype=torch.float64))
    unit = P.gaussian_similarity(unit_features(10, 2048), 0.05, "sum")
    assert 0 < (unit - torch.eye(10)).max() < 1e-4


def test_an_unknown_reduction_is_refused_with_the_allowed_ones():
    with pytest.raises(MethodError, match="Allowed: mean, sum"):
        P.gaussian_similarity(torch.ones(2, 2), 0.05, "max")


# -- Ψ and the bounds of the audit ---------------------------------------------------------------------------------


def test_stack_puts_domains_on_the_third_axis():
    a, b = torch.zeros(3, 3), torch.ones(3, 3)
    g = P.stack([a, b])
    assert g.shape == (3, 3, 2)
    assert torch.equal(g[:, :, 1], b)
    assert torch.equal(P.stack(torch.stack([a, b])), g)


@pytest.mark.parametrize("seed", range(8))
def test_nuclear_norms_of_unit_diagonal_similarities_have_the_bounds_that_figure_6_falls_below(seed):
    """Rotated ≥ C√(C·D) = 70.7, unrotated ≥ C·D = 50 on Digits; the paper plots 46. Tight at I and at all ones."""
    spread = 10.0 ** (seed - 4)
    f = torch.randn(5, 10, 16, generator=generator(seed), dtype=torch.float64) * spread
    g = P.stack(P.gaussian_similarity(f, 1.0))
    assert tensor_nuclear_norm(rotate(g)) >= 10 * math.sqrt(50) - 1e-9
    assert tensor_nuclear_norm(g) >= 50 - 1e-9
    for same in (torch.eye(10, dtype=torch.float64), torch.ones(10, 10, dtype=torch.float64)):
        assert tensor_nuclear_norm(rotate(P.stack([same] * 5))).item() == pytest.approx(10 * math.sqrt(50))


@pytest.mark.parametrize("classes, domains, bound", [(10, 5, 70.71), (7, 4, 37.04), (345, 6, 15697)])
def test_no_singular_value_exceeds_c_root_cd_and_all_ones_reach_it(classes, domains, bound):
    assert singular_values(rotate(torch.ones(classes, classes, domains))).max().item() == pytest.approx(bound, rel=1e-4)
    g = torch.rand(classes, classes, domains, generator=generator())
    assert singular_values(rotate(g)).max() <= bound


def test_both_rotations_of_symmetric_matrices_have_the_same_norm_and_of_others_not():
    """D25: "horizontally (or vertically)" is one thing only because G is symmetric."""
    x = torch.rand(6, 6, 4, generator=generator(), dtype=torch.float64)
    vertical = lambda g: g.permute(0, 2, 1)  # noqa: E731
    symmetric = x + x.transpose(0, 1)
    assert tensor_nuclear_norm(rotate(symmetric)).item() == pytest.approx(
        tensor_nuclear_norm(vertical(symmetric)).item()
    )
    assert tensor_nuclear_norm(rotate(x)).item() != pytest.approx(tensor_nuclear_norm(vertical(x)).item(), rel=1e-3)


# -- the part ------------------------------------------------------------------------------------------------------


def test_prototypes_are_means_then_moving_averages_then_similarities():
    part = P.Prototypes(classes=3, domains=2, features=4, alpha=0.25, gamma=0.5, kernel_dim=0)
    f = [torch.rand(6, 4, generator=generator(seed)) for seed in (1, 2)]
    y = [torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([-1, 1, 1, -1, -1, -1])]
    for _ in range(2):
        before, g = part.means, part(f, y)
    for d in (0, 1):
        mean, present = P.class_means(f[d], y[d], 3)
        expected = P.moving_average(before[d], mean, present, 0.25)
        torch.testing.assert_close(part.means[d], expected)
        torch.testing.assert_close(g[:, :, d], P.gaussian_similarity(expected, 0.5, "mean"))
    assert (part.means[1, [0, 2]] == 0).all()


def test_one_tensor_of_all_domains_and_a_list_of_them_are_the_same():
    one, two = (P.Prototypes(classes=3, domains=2, features=4) for _ in range(2))
    f, y = torch.rand(8, 4, generator=generator()), [torch.tensor([0, 1, 2, 0, 1]), torch.tensor([2, -1, 0])]
    assert torch.equal(one(f, y), two(f.split([5, 3]), y))


def test_a_domain_without_a_label_has_no_similarities_and_is_not_seen():
    part = P.Prototypes(classes=2, domains=2, features=3)
    g = part([torch.ones(2, 3)] * 2, [torch.tensor([0, 1]), torch.tensor([-1, -1])])
    assert part.seen.tolist() == [1, 0]
    assert (g[:, :, 0] == 1).all()
    assert (g[:, :, 1] == 0).all()


def test_the_part_gives_the_gradient_of_this_batch_and_remembers_without_one():
    part = P.Prototypes(classes=2, domains=1, features=3, kernel_dim=0, gamma=1.0)
    f = torch.rand(4, 3, generator=generator()).requires_grad_()
    for _ in range(2):  # a second backward pass would fail if the first batch's graph were kept
        part([f], [torch.tensor([0, 0, 1, 1])]).sum().backward()
    assert f.grad.abs().sum() > 0
    assert not part.means.requires_grad
    assert not part.G.requires_grad


def test_pseudo_labels_of_the_part_follow_its_rule():
    p = torch.tensor([[0.6, 0.4], [0.95, 0.05]], requires_grad=True)
    assert P.Prototypes(2, 2, 3).pseudo_labels(p).tolist() == [-1, 0]
    assert P.Prototypes(2, 2, 3, rule="entropy", threshold=0.69).pseudo_labels(p).tolist() == [0, 0]


def test_the_whole_state_of_the_part_is_in_its_state_dict():
    one, two = (P.Prototypes(classes=2, domains=1, features=3) for _ in range(2))
    one([torch.rand(2, 3, generator=generator(1))], [torch.tensor([0, 1])])
    two.load_state_dict(one.state_dict())
    batch = [torch.rand(2, 3, generator=generator(2))], [torch.tensor([0, -1])]
    assert torch.equal(one(*batch), two(*batch))


def test_the_floor_is_the_similarity_of_orthogonal_prototypes():
    assert P.Prototypes(10, 5, 256).floor() == pytest.approx(0.82258, abs=1e-5)
