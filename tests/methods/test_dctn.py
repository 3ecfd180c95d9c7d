"""DCTN: discriminator losses, confusion and votes against the textbook; hard mining, phases, pseudo labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from methods.dctn import confusion, discriminator_loss, perplexity_weights
from methods.errors import MethodError
from tests.methods.small import NO_VIEWS, batches, build, moved

SIZES = [(1, 1), (4, 7), (9, 3)]


def parts(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def sigmoid(score: float) -> float:
    return 1 / (1 + math.exp(-score))


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize("n, k", SIZES)
def test_discriminator_losses_equal_the_textbook(n: int, k: int) -> None:
    s, t = torch.randn(n, 1) * 2, torch.randn(k, 1) * 2
    s_list, t_list = s.flatten().tolist(), t.flatten().tolist()
    entropy = mean([-math.log(sigmoid(v)) for v in s_list]) + mean([-math.log(1 - sigmoid(v)) for v in t_list])
    squares = mean([(v - 1) ** 2 for v in s_list]) + mean([v**2 for v in t_list])
    assert discriminator_loss(s, t, "cross-entropy").item() == pytest.approx(entropy, rel=1e-5)
    assert discriminator_loss(s, t, "least-squares").item() == pytest.approx(squares, rel=1e-5)


@pytest.mark.parametrize("n, k", SIZES)
def test_confusion_equals_the_textbook(n: int, k: int) -> None:
    s, t = torch.randn(n, 1) * 2, torch.randn(k, 1) * 2

    def entropy(values: list[float]) -> float:
        return mean([-0.5 * math.log(sigmoid(v)) - 0.5 * math.log(1 - sigmoid(v)) for v in values])

    def squares(values: list[float]) -> float:
        return mean([(v - 0.5) ** 2 for v in values])

    for kind, slow in (("cross-entropy", entropy), ("least-squares", squares)):
        expected = 0.5 * slow(s.flatten().tolist()) + 0.5 * slow(t.flatten().tolist())
        assert confusion(s, t, kind).item() == pytest.approx(expected, rel=1e-5)


def test_confusion_is_least_when_the_discriminator_knows_nothing_and_alike_for_both_domains() -> None:
    nothing = {"cross-entropy": 0.0, "least-squares": 0.5}
    least = {"cross-entropy": math.log(2), "least-squares": 0.0}
    for kind, score in nothing.items():
        s, t = torch.full((3, 1), score), torch.full((5, 1), score)
        assert confusion(s, t, kind).item() == pytest.approx(least[kind])
        a, b = torch.randn(4, 1), torch.randn(4, 1)
        assert confusion(a, b, kind) > least[kind]
        assert torch.allclose(confusion(a, b, kind), confusion(b, a, kind))


@pytest.mark.parametrize("n, m", [(1, 1), (5, 3), (2, 4)])
def test_perplexity_weights_equal_the_textbook(n: int, m: int) -> None:
    scores, alpha = torch.randn(n, m), torch.rand(m)
    found = perplexity_weights(scores, alpha)
    for i in range(n):
        raw = [-math.log(1 - sigmoid(scores[i, j].item())) + alpha[j].item() for j in range(m)]
        assert found[i].tolist() == pytest.approx([r / sum(raw) for r in raw], abs=1e-6)


def test_perplexity_trusts_the_source_that_a_target_image_resembles() -> None:
    weights = perplexity_weights(torch.tensor([[4.0, -4.0]]), torch.zeros(2))  # D_1 says "source", D_2 says "target"
    assert weights[0, 0] > 0.99
    assert weights.sum().item() == pytest.approx(1)


# -- phases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset, confused", [("", {"extractor", "classifiers"}), ("code", {"extractor"})])
def test_each_phase_moves_its_own_networks(preset: str, confused: set[str]) -> None:
    method, (sources, target) = build("dctn", preset), batches()
    step = lambda: method.update(sources, target, 0.0)  # noqa: E731
    assert parts(moved(method, step)) == {"extractor", "classifiers"}
    method.enter("confuse-1", NO_VIEWS)
    assert parts(moved(method, step)) == confused | {"discriminators", "totals", "count"}
    method.enter("discriminate-1", NO_VIEWS)
    assert parts(moved(method, step)) == {"extractor", "classifiers"}


def test_only_the_source_with_the_largest_discriminator_loss_confuses() -> None:
    """Discriminators are fixed by hand: number 1 is wrong about everything, so only it reaches the extractor."""
    method, (sources, target) = build("dctn"), batches()
    method.enter("confuse-1", NO_VIEWS)
    for m, judge in enumerate(method.discriminators):
        judge[-1].bias.data.fill_(-6.0 if m == 1 else 0.0)  # "all is target": source images are misjudged
    before = [j[-1].bias.item() for j in method.discriminators]
    torch.manual_seed(3)
    features = method.task.forward_domains([*(b.images for b in sources), target.images])
    losses = [
        discriminator_loss(j(f), j(features[-1]), "cross-entropy").item()
        for j, f in zip(method.discriminators, features, strict=False)
    ]
    assert int(np.argmax(losses)) == 1
    method.optimisers["discriminators"].param_groups[0]["lr"] = 0.0
    torch.manual_seed(3)
    reported = method.update(sources, target, 0.0)["confusion"].item()
    expected = confusion(method.discriminators[1](features[1]), method.discriminators[1](features[-1]), "cross-entropy")
    assert before == [j[-1].bias.item() for j in method.discriminators]
    assert reported == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("weight", [1.0, 3.0])
@pytest.mark.parametrize("preset", ["", "code"])
def test_confusion_weighs_half_of_each_domain_beside_the_sum_of_the_source_losses(preset: str, weight: float) -> None:
    """The released loss Σ_m CE_m + ½ conf_s + ½ conf_t, written out; its gradient is the one the extractor is given."""
    method, (sources, target) = build("dctn", preset, confusion_weight=weight), batches()
    method.optimisers["discriminators"].param_groups[0]["lr"] = 0.0  # so that both sides judge alike
    torch.manual_seed(3)
    *features, last = method.task.forward_domains([*(b.images for b in sources), target.images])
    kind = method.hparams.loss
    judged = [(judge(f), judge(last)) for judge, f in zip(method.discriminators, features, strict=True)]
    s, t = max(judged, key=lambda scores: discriminator_loss(*scores, kind).item())
    if kind == "least-squares":
        confused = [((x - 0.5) ** 2).mean() for x in (s, t)]
    else:
        confused = [(-torch.sigmoid(x).log() - torch.sigmoid(-x).log()).mean() / 2 for x in (s, t)]
    pairs = zip(method.classifiers, features, sources, strict=True)
    errors = [torch.nn.functional.cross_entropy(c(f), batch.labels) for c, f, batch in pairs]
    loss = errors[0] + errors[1] + errors[2] + weight * (0.5 * confused[0] + 0.5 * confused[1])
    expected = torch.autograd.grad(loss, list(method.extractor.parameters()))

    method.enter("confuse-1", NO_VIEWS)
    torch.manual_seed(3)
    method.update(sources, target, 0.0)
    for given, wanted in zip(method.extractor.parameters(), expected, strict=True):
        torch.testing.assert_close(given.grad, wanted, rtol=1e-4, atol=1e-6)


def test_rounds_have_the_order_of_paper_and_code_and_fill_the_budget() -> None:
    for preset, first in (("", "confuse-1"), ("code", "discriminate-1")):
        stages = build("dctn", preset).stages()
        assert len(stages) == 17
        assert stages[1][0] == first
        assert sum(share for _, share in stages) == pytest.approx(1)


def test_confident_votes_become_labels_and_the_others_none() -> None:
    method, (sources, target) = build("dctn", threshold=0.4), batches(size=16)
    for _ in range(60):
        method.update(sources, target, 0.0)
    method.enter("discriminate-1", NO_VIEWS)
    vote = method.predict(target.images)
    given = method.update(sources, target, 0.0)["pseudo_labels"]
    sure = vote.max(1).values >= 0.4
    assert int(sure.sum()) > 0
    assert torch.equal(given, torch.where(sure, vote.argmax(1), -1))


def test_labels_of_a_phase_are_those_of_its_first_moment() -> None:
    method, (sources, target) = build("dctn", threshold=0.0), batches(size=16)
    method.enter("discriminate-1", NO_VIEWS)
    first = method.update(sources, target, 0.0)["pseudo_labels"]
    method.extractor.trunk[0].weight.data.normal_()  # whatever the networks become within the phase
    assert torch.equal(method.update(sources, target, 0.5)["pseudo_labels"], first)


def test_no_confident_vote_leaves_the_target_out() -> None:
    method, (sources, target) = build("dctn", threshold=1.1), batches()
    method.enter("discriminate-1", NO_VIEWS)
    terms = method.update(sources, target, 0.0)
    assert terms["pseudo"] == 0
    assert (terms["pseudo_labels"] == -1).all()


def test_accumulated_losses_weigh_all_images_alike() -> None:
    method, (_, target) = build("dctn", "code"), batches()
    method.totals.copy_(torch.tensor([6.0, 3.0, 1.0]))
    method.count.fill_(2)
    f = method.features(target.images)
    expected = sum(w * c(f).softmax(1) for w, c in zip((0.6, 0.3, 0.1), method.classifiers, strict=True))
    assert torch.allclose(method.predict(target.images), expected, atol=1e-6)
    assert method.diagnostics() == {"discriminator_losses": [3.0, 1.5, 0.5]}


def test_unknown_choices_are_sentences() -> None:
    with pytest.raises(MethodError, match=r"There is no loss of dctn 'hinge'"):
        build("dctn", loss="hinge")
    with pytest.raises(MethodError, match=r"There is no vote of dctn 'majority'"):
        build("dctn", vote="majority")
