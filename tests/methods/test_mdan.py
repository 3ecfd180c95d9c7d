"""MDAN: the smooth maximum against the textbook, the three bounds, who descends what."""

from __future__ import annotations

import math

import pytest
import torch

from methods.contract import LabeledBatch, UnlabeledBatch
from methods.errors import MethodError
from methods.mdan import soft_maximum
from tests.methods.small import batches, build


@pytest.mark.parametrize("values", [[0.7], [0.1, 2.0], [1.0, 1.0, 1.0], [-3.0, 0.5, 0.4, 0.45]])
@pytest.mark.parametrize("gamma", [0.5, 1.0, 10.0])
def test_soft_maximum_equals_the_textbook(values: list[float], gamma: float) -> None:
    expected = math.log(sum(math.exp(gamma * v) for v in values)) / gamma
    assert soft_maximum(torch.tensor(values), gamma).item() == pytest.approx(expected, abs=1e-5)


def test_soft_maximum_lies_between_the_maximum_and_log_m_over_gamma_above_it() -> None:
    for gamma in (0.1, 1.0, 10.0, 1000.0):
        values = torch.randn(4)
        bound = soft_maximum(values, gamma)
        assert values.max() - 1e-6 <= bound <= values.max() + math.log(4) / gamma + 1e-4
    assert soft_maximum(torch.tensor([3.0, 3.0]), 1.0).item() == pytest.approx(3 + math.log(2))


def test_soft_maximum_shifts_with_its_values_and_survives_large_ones() -> None:
    values = torch.tensor([1.0, 2.0, 0.0])
    assert torch.allclose(soft_maximum(values + 500, 10.0), soft_maximum(values, 10.0) + 500)


def test_gradient_of_the_soft_maximum_is_a_softmax_over_the_sources() -> None:
    values = torch.tensor([0.2, 0.9, 0.5], requires_grad=True)
    soft_maximum(values, 10.0).backward()
    assert values.grad is not None
    raw = [math.exp(10 * v) for v in (0.2, 0.9, 0.5)]
    assert values.grad.tolist() == pytest.approx([r / sum(raw) for r in raw], abs=1e-6)


def quantities(method, sources, target):  # type: ignore[no-untyped-def]
    """(CE_m), (D_m) by the definition, from the method's own networks in the mode they train in."""
    torch.manual_seed(5)
    *features, last = method.task.forward_domains([*(b.images for b in sources), target.images])
    errors, domains = [], []
    for judge, f, batch in zip(method.discriminators, features, sources, strict=True):
        p = method.classifier(f).log_softmax(1)
        errors.append(-sum(p[i, y] for i, y in enumerate(batch.labels)) / len(p))
        s, t = torch.sigmoid(judge(f)), torch.sigmoid(judge(last))
        domains.append((-s.log().mean() - (1 - t).log().mean()) / 2)
    return torch.stack(errors).double().detach().numpy(), torch.stack(domains).double().detach().numpy()


def test_code_is_the_official_objective_which_adds_the_losses_of_both_domains() -> None:
    method, (sources, target) = build("mdan", "code"), batches()
    errors, domains = quantities(method, sources, target)
    torch.manual_seed(5)
    bound = method.update(sources, target, 0.0)["bound"]
    added = 2 * domains  # loss on the source + loss on the target; `quantities` has their mean
    expected = math.log(sum(math.exp(10 * (e + 0.01 * d)) for e, d in zip(errors, added, strict=True))) / 10
    assert bound.item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("form", ["soft", "hard"])
def test_bounds_equal_their_formulas_at_fixed_discriminators(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, (sources, target) = build("mdan", form=form, mu=0.5), batches()
    plain = method.descend
    monkeypatch.setattr(method, "descend", lambda loss, *n: None if n == ("discriminators",) else plain(loss, *n))
    errors, domains = quantities(method, sources, target)
    mu = 0.5 * (2 / (1 + math.exp(-10 * 0.3)) - 1)
    if form == "hard":
        expected = max(errors) - mu * min(domains)
    else:
        expected = math.log(sum(math.exp(10 * (e - mu * d)) for e, d in zip(errors, domains, strict=True))) / 10
    torch.manual_seed(5)
    assert method.update(sources, target, 0.3)["bound"].item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("form, listens", [("hard", False), ("soft", True)])
def test_hard_learns_from_the_worst_source_alone_and_soft_from_all(form: str, listens: bool) -> None:
    """Two images of a source that is not the worst exchange their labels: hard cannot tell, soft can."""
    sources, target = batches()
    best = int(quantities(build("mdan"), sources, target)[0].argmin())
    exchanged = sources[best].labels.clone()
    exchanged[:2] = exchanged[:2].flip(0)
    found = []
    for labels in (sources[best].labels, exchanged):
        changed = [LabeledBatch(b.images, labels if m == best else b.labels) for m, b in enumerate(sources)]
        method = build("mdan", form=form)
        assert quantities(method, changed, target)[0].argmax() != best
        torch.manual_seed(5)
        method.update(changed, target, 0.3)
        found.append(torch.cat([p.detach().flatten() for p in method.parameters()]))
    assert torch.equal(*found) is not listens


@pytest.mark.parametrize("form", ["soft", "code"])
def test_discriminators_descend_and_the_extractor_climbs_their_loss(form: str) -> None:
    """μ is so large that nothing else counts; each side's step is judged with the other side as it was."""
    sources, target = batches(size=32)
    target = UnlabeledBatch(target.images[:, :1].expand(-1, 5).contiguous())  # batch normalisation cannot hide it
    method, start = build("mdan", form=form, mu=1e4), build("mdan", form=form)
    before = sum(quantities(start, sources, target)[1])
    torch.manual_seed(5)
    method.update(sources, target, 0.9)
    start.discriminators, method.discriminators = method.discriminators, start.discriminators
    assert sum(quantities(start, sources, target)[1]) < before
    assert sum(quantities(method, sources, target)[1]) > before


def test_unknown_form_is_a_sentence() -> None:
    with pytest.raises(MethodError, match=r"There is no form of mdan 'softer'\..*Allowed: soft, hard, code"):
        build("mdan", form="softer")
