"""CDAN: the worked examples of release and library, the textbook's loops, and which gradients go where."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from methods.cdan import RandomMap, certainty, multilinear, weighted_domain_loss
from methods.errors import MethodError
from methods.layers import domain_loss, ramp, reverse_gradient
from methods.source_only import source_loss
from tests.methods.small import batches, build

JUDGE = torch.tensor([0.3, -0.2, 0.1, 0.4], dtype=torch.float64)
FEATURES = torch.tensor([[1.0, 0], [0, 1], [1, 1], [0.5, 0]], dtype=torch.float64)  # two of each domain


def logits() -> Tensor:
    return torch.tensor([[2.0, 0], [0, 1], [0.5, 0], [0, 0]], dtype=torch.float64, requires_grad=True)


def loss_of(z: Tensor, entropy: str, joint: bool = False) -> Tensor:
    g = z.softmax(1)
    scores = multilinear(g.detach(), FEATURES) @ JUDGE
    weights = torch.ones(4, dtype=torch.float64)
    if entropy != "off":
        weights = certainty(g, 1.0 if entropy == "reversed" else None)
    return weighted_domain_loss(scores[:2], scores[2:], weights[:2], weights[2:], joint)


# -- the worked examples ----------------------------------------------------------------------------------------------


def test_the_map_of_the_worked_example_is_class_by_class() -> None:
    row = multilinear(logits().softmax(1), FEATURES)[0]
    torch.testing.assert_close(row, torch.tensor([0.880797, 0, 0.119203, 0]).double(), atol=5e-7, rtol=0)


def test_the_losses_of_the_worked_example() -> None:
    assert loss_of(logits(), "off").item() == pytest.approx(0.679102, abs=5e-7)
    assert loss_of(logits(), "off", joint=True).item() == pytest.approx(0.679102, abs=5e-7)
    assert loss_of(logits(), "reversed").item() == pytest.approx(0.679037, abs=5e-7)  # release
    assert loss_of(logits(), "fixed").item() == pytest.approx(0.679037, abs=5e-7)  # ours: its weights, held fixed
    assert loss_of(logits(), "fixed", joint=True).item() == pytest.approx(0.675001, abs=5e-7)  # library


def test_the_weights_of_the_worked_example() -> None:
    wanted = torch.tensor([1.693979, 1.558677, 1.515392, 1.500010]).double()
    for coefficient in (None, 1.0):
        torch.testing.assert_close(certainty(logits().softmax(1), coefficient).detach(), wanted, atol=5e-7, rtol=0)


def test_the_released_gradient_through_the_weights_and_none_in_the_library_s() -> None:
    z = logits()
    found = torch.autograd.grad(loss_of(z, "reversed"), z)[0]
    column = torch.tensor([-0.012647, 0.009809, -0.008300, 0]).double()
    torch.testing.assert_close(found, torch.stack([column, -column], 1), atol=5e-7, rtol=0)
    for joint in (False, True):
        assert not loss_of(logits(), "fixed", joint).requires_grad


# -- the textbook's loops ---------------------------------------------------------------------------------------------


def test_losses_and_gradients_are_those_of_the_textbook_s_loops() -> None:
    """Unequal domains, sample by sample, the reversal written as a second backward pass with another sign."""
    z = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    f = torch.randn(7, 2, dtype=torch.float64, requires_grad=True)
    judge, coefficient = torch.randn(6, dtype=torch.float64), 0.7
    source, target = range(3), range(3, 7)
    g = z.softmax(1)
    scores = reverse_gradient(multilinear(g.detach(), f), coefficient) @ judge
    w = certainty(g, coefficient)
    ours = weighted_domain_loss(scores[:3], scores[3:], w[:3], w[3:])

    each, weights = [], []
    for i in range(7):
        score = sum(g[i, c].item() * f[i, j] * judge[c * 2 + j] for c in range(3) for j in range(2))
        d = 1 / (1 + (-score).exp())
        each.append(-d.log() if i in source else -(1 - d).log())
        weights.append(1 + (sum(g[i, c] * (g[i, c] + 1e-5).log() for c in range(3))).exp())
    theirs = sum(weights[i] * each[i] for i in source) / sum(weights[i].item() for i in source) / 2
    theirs = theirs + sum(weights[i] * each[i] for i in target) / sum(weights[i].item() for i in target) / 2
    torch.testing.assert_close(ours, theirs, atol=1e-13, rtol=0)
    found, wanted = (torch.autograd.grad(loss, (z, f), retain_graph=True) for loss in (ours, theirs))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, -coefficient * b, atol=1e-13, rtol=0)


def test_equal_weights_are_dann_s_domain_loss_whatever_the_sizes() -> None:
    s, t = torch.randn(5), torch.randn(9)
    torch.testing.assert_close(weighted_domain_loss(s, t, torch.ones(5), torch.ones(9)), domain_loss(s, t))


def test_products_of_random_maps_estimate_those_of_full_maps() -> None:
    """E ⟨r(x), r(y)⟩ = ⟨g_x, g_y⟩ ⟨f_x, f_y⟩ = ⟨g_x ⊗ f_x, g_y ⊗ f_y⟩."""
    f, g = torch.rand(3, 6, dtype=torch.float64), torch.rand(3, 4, dtype=torch.float64).softmax(1)
    full = multilinear(g, f)
    random = RandomMap(4, 6, 200_000).double()(g, f)
    torch.testing.assert_close(random @ random.T, full @ full.T, atol=0, rtol=0.03)


# -- the method -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["", "e", "code"])
def test_who_climbs_the_domain_loss_and_through_what(preset: str) -> None:
    """The gradient that `update` uses, from separate backward passes; the classifier climbs it in `code` alone."""
    sources, target = batches()
    method, progress = build("cdan", preset), 0.3
    torch.manual_seed(0)
    features, f_t = method.forward_all(sources, target)
    z = [method.classifier(f) for f in features]
    source, g_s, g_t = source_loss(z, sources), torch.cat(z).softmax(1), method.classifier(f_t).softmax(1)
    scores = [
        method.discriminator(multilinear(g.detach(), f)).squeeze(1) for g, f in ((g_s, torch.cat(features)), (g_t, f_t))
    ]
    weights = [torch.ones(len(g)) if not preset else certainty(g, -1.0) for g in (g_s, g_t)]  # −1: no reversal
    if preset == "e":
        weights = [w.detach() for w in weights]
    domain = weighted_domain_loss(*scores, *weights)
    of = {part: list(getattr(method, part).parameters()) for part in ("extractor", "classifier", "discriminator")}
    wanted = {}
    for part, parameters in of.items():
        c, d = (
            torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True, materialize_grads=True)
            for loss in (source, domain)
        )
        sign = 1 if part == "discriminator" else -ramp(progress)
        wanted[part] = [a + sign * b for a, b in zip(c, d, strict=True)]
        assert any(bool(b.any()) for b in d) == (part != "classifier" or preset == "code")
    torch.manual_seed(0)
    method.update(sources, target, progress)
    for part, parameters in of.items():
        for p, g in zip(parameters, wanted[part], strict=True):
            torch.testing.assert_close(p.grad, g, atol=1e-6, rtol=1e-4)


def test_the_map_is_random_above_4096_numbers_and_its_matrices_are_saved() -> None:
    assert build("cdan").map is None  # 4 classes × 6 features
    method = build("cdan", map="random", random_dim=32)
    assert method.discriminator[0].in_features == 32
    assert {"map.of_features", "map.of_predictions"} <= set(method.state_dict()["modules"])
    again = build("cdan", map="random", random_dim=32)
    assert torch.equal(method.map.of_features, again.map.of_features)  # drawn from (seed, role)
    before = method.map.of_features.clone()
    method.update(*batches(), 0.5)
    assert torch.equal(method.map.of_features, before)
    assert method.diagnostics() == {"map": "random", "map_inputs": 32}
    (remark,) = method.remarks(method.diagnostics())
    assert "a random map of 32 numbers, not all 24" in remark
    assert build("cdan").remarks({"map": "full"}) == []


def test_the_rule_of_the_map_is_the_paper_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("methods.cdan.LARGEST", 24)
    assert build("cdan").map is None
    monkeypatch.setattr("methods.cdan.LARGEST", 23)
    assert build("cdan").map is not None
    assert build("cdan", map="full").map is None


def test_joint_weights_change_the_step() -> None:
    def step(joint: bool) -> float:
        torch.manual_seed(0)
        return build("cdan", "e", joint_weights=joint).update(*batches(), 0.5)["domain"].item()

    assert not math.isclose(step(True), step(False), rel_tol=1e-4)


def test_options_that_do_not_exist_are_refused() -> None:
    with pytest.raises(MethodError, match=r"There is no value of cdan.map 'ful'. Did you mean 'full'\?"):
        build("cdan", map="ful")
    with pytest.raises(MethodError, match=r"There is no value of cdan.entropy 'fix'. Did you mean 'fixed'\?"):
        build("cdan", entropy="fix")
    with pytest.raises(MethodError, match="random_dim is a number of outputs: 1 or more, not 0"):
        build("cdan", random_dim=0)


def test_softplus_is_the_release_s_binary_cross_entropy() -> None:
    score = torch.tensor([-3.0, 0.2, 4.0], dtype=torch.float64)
    wanted = F.binary_cross_entropy(score.sigmoid(), torch.ones(3).double(), reduction="none")
    torch.testing.assert_close(F.softplus(-score), wanted, atol=1e-12, rtol=0)
