"""M3SDA: the moment distance against the textbook, the released code's quirks one by one, the three forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from methods.contract import LabeledBatch, UnlabeledBatch
from methods.errors import MethodError
from methods.m3sda import code_moment_distance, moment_distance
from tests.methods.small import batches, build

SHAPES = [
    ((5,), 4, 3),
    ((4, 9), 7, 2),
    ((3, 8, 6), 5, 11),
    ((6, 6, 6, 6), 6, 16),
]  # source sizes, target size, features


def draw(sizes, target, width, seed=0):
    g = torch.Generator().manual_seed(seed)
    new = lambda n: torch.randn(n, width, generator=g, dtype=torch.float64)  # noqa: E731
    return [new(n) for n in sizes], new(target)


def slow_moment_distance(sources, target, k):
    """Σ_k [mean source–target + mean source–source distance], element by element."""

    def moment(x, j):
        return [sum(row[f] ** j for row in x) / len(x) for f in range(x.shape[1])]

    def distance(a, b):
        return sum((u - v) ** 2 for u, v in zip(a, b, strict=True)) ** 0.5

    total = 0.0
    for j in range(1, k + 1):
        m, t = [moment(x, j) for x in sources], moment(target, j)
        total += sum(distance(a, t) for a in m) / len(m)
        pairs = list(itertools.combinations(m, 2))
        total += sum(distance(a, b) for a, b in pairs) / len(pairs) if pairs else 0.0
    return total


@pytest.mark.parametrize("sizes, target, width", SHAPES)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_moment_distance_equals_the_textbook_loops(sizes, target, width, k) -> None:
    s, t = draw(sizes, target, width)
    expected = slow_moment_distance([x.numpy() for x in s], t.numpy(), k)
    assert float(moment_distance(s, t, k)) == pytest.approx(expected, rel=1e-10)


def test_moment_distance_is_zero_with_zero_gradient_when_all_moments_agree() -> None:
    x = torch.randn(6, 5, requires_grad=True)
    distance = moment_distance([x, x.flip(0)], x)  # the order of images does not matter
    assert distance.item() == pytest.approx(0, abs=1e-6)
    y = torch.ones(4, 3, requires_grad=True)
    moment_distance([y, y.detach()], y.detach()).backward()
    assert torch.isfinite(y.grad).all()


def test_moment_distance_ignores_the_order_of_sources_and_of_features() -> None:
    s, t = draw((4, 9, 5), 7, 6)
    base = moment_distance(s, t)
    assert torch.allclose(base, moment_distance(s[::-1], t))
    order = torch.randperm(6)
    assert torch.allclose(base, moment_distance([x[:, order] for x in s], t[:, order]))


def test_second_moments_see_a_spread_that_means_do_not() -> None:
    x = torch.randn(4000, 3)
    x = x - x.mean(0)
    assert float(moment_distance([x], 2 * x, k=1)) == pytest.approx(0, abs=1e-4)
    assert float(moment_distance([x], 2 * x, k=2)) > 1


def slow_code_distance(sources, target, k):
    """The released computation for four sources, its ten terms written out."""
    s1, s2, s3, s4 = sources
    s1, s2, s3, t = (x - x.mean(0) for x in (s1, s2, s3, target))
    norm = lambda a: np.sqrt((a**2).sum())  # noqa: E731
    total = 0.0
    for j in range(1, k + 1):
        a1, a2, a3, at = ((x if j == 1 else (x**j).mean(0)) for x in (s1, s2, s3, t))
        total += norm(a1 - at) + norm(a2 - at) + norm(a3 - at) + norm(a1 - a2) + norm(a2 - a3) + norm(a3 - a1)
        total += norm(s4 - a1) + norm(s4 - a2) + norm(s4 - a2) + norm(s4 - at)
    return total / 6


@pytest.mark.parametrize("rows, width", [(3, 2), (8, 5), (6, 16)])
def test_code_distance_equals_its_ten_terms_written_out(rows, width) -> None:
    s, t = draw((rows,) * 4, rows, width)
    expected = slow_code_distance([x.numpy() for x in s], t.numpy(), 5)
    assert float(code_moment_distance(s, t, 5)) == pytest.approx(expected, rel=1e-10)


def test_code_distance_has_its_quirks() -> None:
    s, t = draw((6, 6, 6, 6), 6, 4)
    base = code_moment_distance(s, t)
    shifted = [s[0] + 3, s[1] - 2, s[2] + 1, s[3]]
    assert torch.allclose(base, code_moment_distance(shifted, t + 5))  # blind to the means, which are what moment 1 is
    assert not torch.allclose(base, code_moment_distance([*s[:3], s[3] + 1], t))  # but not to the last source's
    assert not torch.allclose(base, code_moment_distance([s[0].flip(0), *s[1:]], t))  # the order of images matters
    same = [t, t, t, t]
    assert code_moment_distance(same, t) > 0.1  # not zero on equal domains


def test_forms_have_the_heads_that_the_papers_and_the_code_have() -> None:
    count = lambda form: [len(list(pair)) for pair in build("m3sda", form).heads]  # noqa: E731
    assert count("") == [2, 2, 2]
    assert count("plain") == [1, 1, 1]
    assert count("code") == [2]


def test_a_moves_everything_b_the_heads_only_c_the_extractor_only(monkeypatch) -> None:
    method = build("m3sda", num_k=2)
    seen = []
    plain = method.descend

    def watched(loss, *names):
        before = {n: p.detach().clone() for n, p in method.named_parameters()}
        plain(loss, *names)
        seen.append({n.split(".")[0] for n, p in method.named_parameters() if not torch.equal(p, before[n])})

    monkeypatch.setattr(method, "descend", watched)
    method.update(*batches(), 0.0)
    assert seen == [{"extractor", "heads"}, {"heads"}, {"extractor"}, {"extractor"}]


@pytest.mark.parametrize("form", ["beta", "code"])
def test_the_discrepancy_has_its_weight_in_steps_b_and_c(form, monkeypatch) -> None:
    descended, reported = {}, {}
    for weight in (1.0, 3.0):
        method, losses = build("m3sda", form=form, discrepancy_weight=weight, num_k=1), []
        plain = method.descend

        def watched(loss, *names, plain=plain, losses=losses):
            losses.append(loss.item())
            if not names:
                plain(loss)  # A alone moves, so that B and C of both weights see the same networks

        monkeypatch.setattr(method, "descend", watched)
        torch.manual_seed(5)
        reported[weight] = method.update(*batches(), 0.0)
        descended[weight] = losses
    apart, together = (reported[1.0][f"discrepancy_{step}"].item() for step in "bc")
    (a1, b1, c1), (a3, b3, c3) = descended[1.0], descended[3.0]
    assert a3 == a1
    assert b3 == pytest.approx(b1 - 2 * apart, abs=1e-6)
    assert (c1, c3) == pytest.approx((together, 3 * together))
    assert apart > 0.01


def test_each_source_teaches_its_own_heads_only() -> None:
    method = build("m3sda")
    sources, _ = batches()
    features = [f.detach() for f in method.task.forward_domains([b.images for b in sources])]
    wrong = [sources[0], LabeledBatch(sources[1].images, (sources[1].labels + 1) % 4), sources[2]]
    gradients = []
    for labelled in (sources, wrong):
        method.zero_grad()
        method._source_loss(features, labelled).backward()
        gradients.append([h[0].weight.grad.clone() for h in method.heads])
    same = [torch.equal(a, b) for a, b in zip(*gradients, strict=True)]
    assert same == [True, False, True]


def test_code_trains_step_b_on_two_sources_only() -> None:
    method = build("m3sda", "code")
    sources, _ = batches()
    features = [f.detach() for f in method.task.forward_domains([b.images for b in sources])]
    base = method._first_two(features, sources)
    third = [*sources[:2], LabeledBatch(sources[2].images, (sources[2].labels + 1) % 4)]
    assert torch.equal(base, method._first_two(features, third))


def test_prediction_is_uniform_over_all_heads_and_the_first_head_in_code() -> None:
    images = batches()[1].images
    for form in ("", "plain", "code"):
        method = build("m3sda", form)
        f = method.features(images)
        heads = [h for pair in method.heads for h in pair]
        wanted = heads[:1] if form == "code" else heads
        expected = sum(h(f).softmax(1) for h in wanted) / len(wanted)
        assert torch.allclose(method.predict(images), expected, atol=1e-6)


def test_moment_weight_brings_the_moments_together() -> None:
    sources, target = batches()
    shifted = UnlabeledBatch(target.images * 2 + 1)
    last = {}
    for weight in (0.0, 1.0):
        method = build("m3sda", "plain", moment_weight=weight)
        for _ in range(40):
            last[weight] = method.update(sources, shifted, 0.0)["moment"]
    assert last[1.0] < last[0.0]


def test_unknown_form_is_a_sentence() -> None:
    with pytest.raises(MethodError, match=r"There is no form of m3sda 'gamma'\..*Allowed: beta, plain, code"):
        build("m3sda", form="gamma")
