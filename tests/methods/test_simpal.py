"""SImpAl: the worked example, who agrees, the copy that labels, two sets of moments, and steps that are not taken."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmark.run.score.share import _share
from methods.contract import build_hparams, load_method
from methods.errors import MethodError
from methods.simpal import agreement, heads_loss, margins, scores, step_where
from tests.methods.small import NO_VIEWS, batches, build, moved

LOGITS = torch.tensor(
    [[[2.0, 0, 0], [1, 0, 0]], [[0, 1, 0], [0, 0, 1.5]], [[0, 0, 1], [0, 1, 3]]], dtype=torch.float64
)  # (3 samples, 2 heads, 3 classes)
LABELS = torch.tensor([0, 1, 2])


def at(stage: str, preset: str = "", **changes: Any) -> Any:
    method = build("simpal", preset, **changes)
    method.train()
    method.enter(stage, NO_VIEWS)
    return method


def never(method: Any) -> None:
    """Heads that agree on nothing, whatever the image: head m is sure of class m."""
    for heads in (method.heads, method.labeller["heads"]):
        for m, head in enumerate(heads):
            nn.init.zeros_(head.weight)
            with torch.no_grad():
                head.bias.copy_(10 * torch.eye(4)[m])


# -- the worked example -----------------------------------------------------------------------------------------------


def test_the_loss_of_the_worked_example_and_of_each_head() -> None:
    assert heads_loss(LOGITS, LABELS).item() == pytest.approx(0.655451, abs=5e-7)
    assert heads_loss(LOGITS[:, :1], LABELS).item() == pytest.approx(0.447478, abs=5e-7)
    assert heads_loss(LOGITS[:, 1:], LABELS).item() == pytest.approx(0.863424, abs=5e-7)


def test_scores_labels_agreement_and_margins_of_the_worked_example() -> None:
    wanted = [(1.363103, 0.318449, 0.318449), (0.366222, 0.730398, 0.903380), (0.253952, 0.326137, 1.419912)]
    torch.testing.assert_close(scores(LOGITS), torch.tensor(wanted).double(), atol=5e-7, rtol=0)
    labels, kept = agreement(LOGITS)
    assert labels.tolist() == [0, 2, 2]
    assert kept.tolist() == [True, False, True]
    assert margins(LOGITS).tolist() == pytest.approx([1.5, 1.25, 1.5])
    assert [(i, labels[i].item()) for i in range(3) if kept[i]] == [(0, 0), (2, 2)]


def test_loss_and_gradient_over_kept_samples_are_those_of_the_textbook_s_loops() -> None:
    z = torch.randn(6, 3, 4, dtype=torch.float64, requires_grad=True)
    labels, kept = torch.randint(4, (6,)), torch.tensor([True, False, True, True, False, False])
    pairs = [(i, m) for i in range(6) if kept[i] for m in range(3)]
    theirs = sum(z[i, m].exp().sum().log() - z[i, m, labels[i]] for i, m in pairs) / len(pairs)
    ours = heads_loss(z, labels, kept)
    torch.testing.assert_close(ours, theirs, atol=1e-13, rtol=0)
    gradients = [torch.autograd.grad(loss, z)[0] for loss in (ours, theirs)]
    torch.testing.assert_close(*gradients, atol=1e-13, rtol=0)
    assert heads_loss(z, labels, torch.zeros(6, dtype=torch.bool)).item() == 0


def test_agreeing_heads_have_the_class_of_the_score() -> None:
    z = 2 * torch.randn(500, 3, 4)
    labels, kept = agreement(z)
    votes = z.argmax(2)
    for i in range(500):
        same = len(set(votes[i].tolist())) == 1
        assert bool(kept[i]) == same
        assert not same or votes[i, 0] == labels[i]
    assert 0 < kept.sum() < 500


# -- stages -----------------------------------------------------------------------------------------------------------


def test_heads_differ_from_the_start_and_the_first_is_every_method_s() -> None:
    method, other = build("simpal"), build("source-only")
    assert len(method.heads) == 3
    assert torch.equal(method.heads[0].weight, other.classifier.weight)
    assert len({tuple(head.weight.flatten().tolist()) for head in method.heads}) == 3
    assert len(build("simpal", heads=5).heads) == 5


def test_the_warm_stage_never_looks_at_the_target() -> None:
    def weights(shift: float) -> list[Tensor]:
        method = at("warm")
        sources, target = batches()
        torch.manual_seed(0)
        terms = method.update(sources, type(target)(target.images + shift), 0.0)
        assert set(terms) == {"source"}
        return [v.clone() for v in nn.Module.state_dict(method).values()]

    assert all(torch.equal(a, b) for a, b in zip(weights(0.0), weights(1.0), strict=True))
    assert build("simpal").stages() == [("warm", 0.4), *((f"adapt-{k}", pytest.approx(0.2)) for k in (1, 2, 3))]


def test_the_labels_of_a_stage_are_those_of_the_networks_at_its_start() -> None:
    method = at("warm")
    for t in range(6):
        method.update(*batches(seed=t), t / 6)
    method.enter("adapt-1", NO_VIEWS)
    _, target = batches(seed=50)
    with torch.no_grad():
        method.eval()
        z = torch.stack([head(method.extractor(target.images)) for head in method.heads], 1)
        method.train()
    labels, kept = agreement(z)
    wanted = torch.where(kept, labels, -1)
    for t in range(5):  # the networks move, the labels do not
        terms = method.update(batches(seed=10 + t)[0], target, t / 5)
        assert torch.equal(terms["pseudo_labels"], wanted)
        assert terms["agreement"].item() == pytest.approx(kept.float().mean().item())
        assert terms["margin"].item() == pytest.approx(margins(z).mean().item(), rel=1e-5)
    method.enter("adapt-2", NO_VIEWS)
    for mine, copied in zip(method.heads, method.labeller["heads"], strict=True):
        assert torch.equal(mine.weight, copied.weight)


def test_online_has_no_copy_and_asks_the_networks_after_the_source_step() -> None:
    method = at("adapt-1", "online")
    assert not hasattr(method, "labeller")
    twin = at("adapt-1", "online")
    sources, target = batches()
    torch.manual_seed(0)
    terms = method.update(sources, target, 0.0)
    torch.manual_seed(0)
    twin.enter("warm", NO_VIEWS)
    twin.update(sources, target, 0.0)  # the source step alone
    twin.eval()
    with torch.no_grad():
        z = torch.stack([head(twin.extractor(target.images)) for head in twin.heads], 1)
    labels, kept = agreement(z)
    assert torch.equal(terms["pseudo_labels"], torch.where(kept, labels, -1))


# -- steps ------------------------------------------------------------------------------------------------------------


def test_source_and_target_steps_keep_moments_of_their_own() -> None:
    method = at("adapt-1")
    method.update(*batches(), 0.0)
    weight = method.heads[0].weight
    states = [method.optimisers[f"heads/{part}"].state[weight] for part in ("source", "target")]
    assert [s["step"].item() for s in states] == [1, 1]
    assert not torch.equal(states[0]["exp_avg"], states[1]["exp_avg"])


def test_without_an_agreeing_image_the_target_step_moves_no_parameter_and_no_moment() -> None:
    """Weight decay and old moments would move both at a loss of zero; after a step, and as the first step."""
    for earlier in (0, 2):
        method = at("adapt-1")
        for t in range(earlier):
            method.update(*batches(seed=t), 0.0)
        never(method)
        assert bool((method._label(batches()[1].images).argmax(2) == torch.arange(3)).all())
        target = [method.optimisers["extractor/target"], method.optimisers["heads/target"]]
        before = [
            {k: v.clone() for k, v in o.state[p].items()} for o in target for g in o.param_groups for p in g["params"]
        ]
        changed = moved(method, lambda m=method: m._target_step(batches()[1].images))
        trained = {name for name, _ in method.named_parameters()}
        assert not changed & trained
        assert {n.rpartition(".")[2] for n in changed} <= {  # statistics follow every target batch
            "running_mean", "running_var", "num_batches_tracked", "seen", "steps", "idle",
        }  # fmt: skip
        after = [o.state[p] for o in target for g in o.param_groups for p in g["params"]]
        for old, new in zip(before, after, strict=True):
            assert bool(new["step"].item()) == bool(earlier)
            for key, value in new.items():
                assert torch.equal(value, old.get(key, torch.zeros_like(value))), key


def test_a_step_that_was_left_out_leaves_no_trace_in_later_ones() -> None:
    """no, yes, no, yes equals yes, yes, bit for bit, for both of the suites' optimisers."""
    for make in (
        lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.01, fused=True),
        lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01, momentum=0.9, fused=True),
    ):
        found = []
        for wanted in ((False, True, False, True), (True, True)):
            weight = nn.Parameter(torch.tensor([1.0, -2.0]))
            optimiser, taken = make([weight]), 0
            for yes in wanted:
                weight.grad = torch.tensor([0.3, 0.5]) * (1 + taken)
                step_where(torch.tensor(yes), optimiser)
                taken += yes
            found.append(weight.detach())
        assert torch.equal(*found)


def test_a_target_step_with_agreement_is_an_ordinary_step() -> None:
    weights = []
    for gated in (True, False):
        weight = nn.Parameter(torch.tensor([1.0, -2.0]))
        optimiser = torch.optim.Adam([weight], lr=0.1, weight_decay=0.01, fused=True)
        for t in range(3):
            weight.grad = torch.tensor([0.3, 0.5]) * (t - 1)
            step_where(torch.tensor(True), optimiser) if gated else optimiser.step()
        weights.append(weight.detach())
    assert torch.equal(*weights)


def test_joined_sources_give_the_released_share_of_the_target() -> None:
    """.1 / (1 − .9^5) with four sources of their own, .1 / (1 − .9²) = .526 when they are one batch."""
    cls = load_method("simpal")
    for joined, wanted in ((False, 0.1 / (1 - 0.9**5)), (True, 0.1 / (1 - 0.9**2))):
        values = tuple(vars(build_hparams(cls, {"joined": joined})).items())
        assert _share(cls, values, 4, False, "per-domain") == pytest.approx(wanted, abs=1e-3)


# -- what the record says ---------------------------------------------------------------------------------------------


def test_the_record_has_the_rate_of_agreement_of_the_stage_and_the_idle_steps_of_the_run() -> None:
    method = at("warm")
    assert method.diagnostics() == {"heads": 3, "agreement": None, "target_steps": 0, "idle": None}
    method.enter("adapt-1", NO_VIEWS)
    rates = [method.update(*batches(seed=t), 0.0)["agreement"].item() for t in range(3)]
    found = method.diagnostics()
    assert found["agreement"] == pytest.approx(sum(rates) / 3)
    assert found["target_steps"] == 3
    assert found["idle"] == pytest.approx(sum(rate == 0 for rate in rates) / 3)
    method.enter("adapt-2", NO_VIEWS)
    never(method)
    method._target_step(batches()[1].images)
    assert method.diagnostics()["agreement"] == 0
    assert method.diagnostics()["target_steps"] == 4


def test_remarks_tell_of_idle_steps_and_of_a_filter_that_filters_nothing() -> None:
    method = build("simpal")
    assert method.remarks({"agreement": None, "idle": None}) == []
    assert method.remarks({"agreement": 0.6, "idle": 0.0}) == []
    assert "no target step was taken" in method.remarks({"agreement": 0.0, "idle": 1.0})[0]
    assert "some target steps were left out" in method.remarks({"agreement": 0.2, "idle": 0.1})[0]
    assert "filtered nothing" in method.remarks({"agreement": 0.995, "idle": 0.0})[0]


def test_values_that_make_no_stage_are_refused() -> None:
    with pytest.raises(MethodError, match="warm_share is a share of the budget: above 0, below 1, not 1"):
        build("simpal", warm_share=1.0)
    with pytest.raises(MethodError, match="refreshes is a number of stages: 1 or more, not 0"):
        build("simpal", refreshes=0)
    with pytest.raises(MethodError, match="heads is a number, 0 for one a source; not -1"):
        build("simpal", heads=-1)
