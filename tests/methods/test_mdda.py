"""MDDA: gradient penalty and combination weights against the textbook; what each stage moves, reads and keeps."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from benchmark.run.task import make_task
from benchmark.spec import resolve
from methods.contract import FullPass, LabeledBatch, UnlabeledBatch, Views, build_hparams
from methods.errors import MethodError
from methods.mdda import MDDA, combination_weights, gradient_penalty
from tests.methods.small import batches, build, moved, task
from tests.tiny import tiny


class Pass(FullPass):
    """One batch as a full pass over a domain."""

    def __init__(self, batch: LabeledBatch | UnlabeledBatch) -> None:
        self._batch = batch

    def __iter__(self):  # type: ignore[no-untyped-def]
        yield self._batch

    def __len__(self) -> int:
        return len(self._batch.images)


def views(size: int = 8) -> Views:
    sources, target = batches(size=size)
    return Views([Pass(batch) for batch in sources], Pass(target))


def parts(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


# -- formulas ---------------------------------------------------------------------------------------------------------


def slow_penalty(first: np.ndarray, second: np.ndarray, x: np.ndarray, y: np.ndarray, epsilon: np.ndarray) -> float:
    """(‖∇D(z)‖ − 1)² of D(z) = second · tanh(first z), the gradient by central differences."""
    total = 0.0
    for a, b, e in zip(x, y, np.broadcast_to(epsilon, x.shape), strict=True):
        z, h, squares = e * a + (1 - e) * b, 1e-6, 0.0
        for f in range(len(z)):
            step = np.zeros_like(z)
            step[f] = h
            slope = (second @ np.tanh(first @ (z + step)) - second @ np.tanh(first @ (z - step))) / (2 * h)
            squares += slope**2
        total += (math.sqrt(squares) - 1) ** 2
    return total / len(x)


@pytest.mark.parametrize("rows, width", [(1, 2), (5, 3), (7, 8)])
@pytest.mark.parametrize("kind", ["sample", "element"])
def test_gradient_penalty_equals_central_differences(rows: int, width: int, kind: str) -> None:
    g = torch.Generator().manual_seed(rows)
    x, y = (torch.randn(rows, width, generator=g, dtype=torch.float64) for _ in range(2))
    epsilon = torch.rand(rows, width if kind == "element" else 1, generator=g, dtype=torch.float64)
    critic = nn.Sequential(nn.Linear(width, 6, bias=False), nn.Tanh(), nn.Linear(6, 1, bias=False)).double()
    expected = slow_penalty(
        critic[0].weight.detach().numpy(), critic[2].weight.detach().numpy()[0], x.numpy(), y.numpy(), epsilon.numpy()
    )
    assert gradient_penalty(critic, x, y, epsilon).item() == pytest.approx(expected, rel=1e-6)


def test_gradient_penalty_of_a_linear_critic_is_that_of_its_norm_wherever_it_looks() -> None:
    for norm in (0.5, 1.0, 3.0):
        direction = nn.functional.normalize(torch.randn(4), dim=0) * norm
        penalty = gradient_penalty(lambda z, d=direction: z @ d, torch.randn(5, 4), torch.randn(5, 4), torch.rand(5, 1))
        assert penalty.item() == pytest.approx((norm - 1) ** 2, abs=1e-6)


def test_gradient_penalty_teaches_the_critic() -> None:
    critic = nn.Linear(3, 1)
    gradient_penalty(critic, torch.randn(4, 3), torch.randn(4, 3), torch.rand(4, 1)).backward()
    assert critic.weight.grad is not None
    assert critic.weight.grad.norm() > 0


@pytest.mark.parametrize("distances", [[0.3], [0.0, 1.0, 2.0], [0.2, 0.2, 5.0, 1.5]])
def test_combination_weights_equal_the_textbook(distances: list[float]) -> None:
    raw = [math.exp(-(d**2) / 2) for d in distances]
    expected = [r / sum(raw) for r in raw]
    assert combination_weights(torch.tensor(distances)).tolist() == pytest.approx(expected, abs=1e-7)


def test_combination_weights_sum_to_one_and_favour_the_nearest_even_when_all_are_far() -> None:
    weights = combination_weights(torch.tensor([101.0, 100.0, 300.0]))  # exp(−5000) alone would be zero
    assert weights.sum().item() == pytest.approx(1)
    assert weights.argmax() == 1


# -- stages -----------------------------------------------------------------------------------------------------------


def staged(preset: str = "", **changes: object) -> dict[str, set[str]]:
    """What one update of each stage moves, parameters and buffers."""
    method, (sources, target) = build("mdda", preset, **changes), batches()
    found = {}
    for stage, _ in method.stages():
        method.enter(stage, views())
        found[stage] = moved(method, lambda: method.update(sources, target, 0.0))
    return found


@pytest.mark.parametrize("preset", ["", "code"])
def test_each_stage_moves_its_own_networks_and_frozen_encoders_keep_every_bit(preset: str) -> None:
    found = staged(preset)
    assert parts(found["pretrain"]) == {"encoders", "classifiers"}
    assert parts(found["adapt"]) == {"target_encoders", "critics"}  # neither weights nor batch-norm statistics of E_m
    assert parts(found["distil"]) == {"classifiers"}


def test_target_encoders_start_from_the_source_encoders() -> None:
    method, (sources, target) = build("mdda"), batches()
    for _ in range(3):
        method.update(sources, target, 0.0)
    before = method.predict(target.images)
    method.enter("adapt", views())
    assert torch.equal(method.predict(target.images), before)


BUDGETS = [(20, "shared", 10), (300, "shared", 150), (40, "full", 40)]  # updates, how divided, those of stage 2


def within(budget: int, divided: str, preset: str = "", lr_scale: float = 1.0) -> MDDA:
    """MDDA in a run of this budget."""
    given = task()
    given.budget, given.stage_budget, given.lr_scale = budget, divided, lr_scale
    return MDDA(given, build_hparams(MDDA, MDDA.presets[preset] if preset else {}))


@pytest.mark.parametrize("budget, divided, updates", BUDGETS)
@pytest.mark.parametrize("preset, critic_steps", [("", 2), ("code", 1)])
def test_rates_times_steps_are_the_released_movements_at_every_budget(
    budget: int, divided: str, updates: int, preset: str, critic_steps: int
) -> None:
    method = within(budget, divided, preset)
    rate = {name: optimiser.param_groups[0]["lr"] for name, optimiser in method.optimisers.items()}
    assert rate["target_encoders"] * updates == pytest.approx(1e-7 * 5000)
    assert rate["critics"] * updates * critic_steps == pytest.approx(1e-5 * 5000)
    faster = within(budget, divided, preset, lr_scale=3.0).optimisers["critics"].param_groups[0]["lr"]
    assert faster == pytest.approx(3 * rate["critics"])


@pytest.mark.parametrize("budget, divided, updates", BUDGETS)
def test_no_weight_of_a_target_encoder_goes_farther_than_the_release_allows(
    budget: int, divided: str, updates: int
) -> None:
    method, (sources, target) = within(budget, divided), batches()
    method.enter("adapt", views())
    before = {name: p.detach().clone() for name, p in method.named_parameters()}
    torch.manual_seed(0)
    for _ in range(updates):
        method.update(sources, target, 0.0)
    farthest = {"target_encoders": 0.0, "critics": 0.0}
    for name, p in method.named_parameters():
        if (part := name.split(".")[0]) in farthest:
            farthest[part] = max(farthest[part], (p - before[name]).abs().max().item())
    assert 0.5 * 5e-4 < farthest["target_encoders"] < 1.6 * 5e-4  # a step of Adam is (1 − .5) / √(1 − .9) rates at most
    assert 0.25 * 0.05 < farthest["critics"] < 1.6 * 0.05


@pytest.mark.parametrize("divided, updates", [("shared", 10), ("full", 20)])
def test_a_run_tells_its_task_how_stages_divide_the_budget(divided: str, updates: int) -> None:
    given = make_task(resolve(tiny("mdda", overrides={"run.stage_budget": divided})), 10, "cpu")
    assert given.updates(build("mdda").stages(), "adapt") == updates


def test_the_critic_leaks_as_the_released_one_does() -> None:
    leaks = [m.negative_slope for m in build("mdda").critics[0].modules() if isinstance(m, nn.LeakyReLU)]
    assert leaks == [0.1, 0.1, 0.1]


def test_adaptation_closes_the_gap_that_the_critic_sees() -> None:
    """The same critics against encoders that move and encoders that do not."""
    sources, target = batches(size=32)
    target = UnlabeledBatch(target.images[:, :1].expand(-1, 5).contiguous())  # batch normalisation cannot hide it
    last = {}
    for movement in (0.0, 0.6):
        torch.manual_seed(0)
        method = build("mdda", encoder_movement=movement, critic_movement=0.8)
        method.enter("adapt", views(32))
        for _ in range(40):
            last[movement] = float(method.update(sources, target, 0.0)["wasserstein"])
    assert last[0.0] > 0.8
    assert last[0.6] < 0.5 * last[0.0]


def adapted(preset: str = "", **changes: object) -> MDDA:
    """Adapted a little, at the beginning of distilling on 33 images a domain."""
    moves = {"encoder_movement": 0.2, "critic_movement": 0.4, **changes}
    method, (sources, target) = build("mdda", preset, **moves), batches(size=33)
    method.enter("adapt", views(33))
    torch.manual_seed(0)  # the interpolation of the penalty is drawn
    for _ in range(10):
        method.update(sources, target, 0.0)
    method.enter("distil", views(33))
    assert isinstance(method, MDDA)
    return method


def test_distances_thresholds_and_weights_are_those_of_the_full_pass() -> None:
    method, (sources, target) = adapted(), batches(size=33)
    method.eval()
    for m, batch in enumerate(sources):
        d = method.critics[m]
        source = d(method.encoders[m](batch.images)).detach().numpy().ravel()
        mean = d(method.target_encoders[m](target.images)).detach().numpy().mean()
        assert method.distances[m].item() == pytest.approx(abs(source.mean() - mean), abs=1e-6)
        assert method.thresholds[m].item() == pytest.approx(np.median(np.abs(source - mean)), abs=1e-6)
    assert torch.allclose(method.weights, combination_weights(method.distances))
    assert method.diagnostics()["weights"] == method.weights.tolist()


def test_distilling_learns_from_the_nearest_half_alone() -> None:
    sources, target = batches(size=33)
    reference, changed = adapted(), adapted()
    assert reference.update(sources, target, 0.0)["kept"].item() == pytest.approx(17 / 33)
    wrong = []
    for m, batch in enumerate(sources):
        with torch.no_grad():
            score = (changed.eval()._score(m, batch.images) - changed.target_scores[m]).abs()
        far = score > changed.thresholds[m]
        wrong.append(LabeledBatch(batch.images, torch.where(far, (batch.labels + 1) % 4, batch.labels)))
    changed.train().update(wrong, target, 0.0)
    for a, b in zip(reference.parameters(), changed.parameters(), strict=True):
        assert torch.equal(a, b)


def test_prediction_adds_weighted_probabilities_and_weighted_logits_in_code() -> None:
    images = batches()[1].images
    for preset in ("", "code"):
        method = adapted(preset)
        method.weights.copy_(torch.tensor([0.7, 0.2, 0.1]))
        method.eval()
        logits = [c(t(images)) for c, t in zip(method.classifiers, method.target_encoders, strict=True)]
        added = sum(w * (o if preset else o.softmax(1)) for w, o in zip((0.7, 0.2, 0.1), logits, strict=True))
        expected = added.softmax(1) if preset else added
        assert torch.allclose(method.predict(images), expected, atol=1e-6)


def test_code_distils_on_features_of_the_target_encoders() -> None:
    sources, target = batches(size=33)
    base, other = adapted("code"), adapted("code")
    for encoder in other.target_encoders:
        for p in encoder.parameters():
            p.data.mul_(1.5)
    losses = [method.update(sources, target, 0.0)["distil"] for method in (base, other)]
    assert losses[0] != losses[1]


def test_unknown_choice_is_a_sentence() -> None:
    with pytest.raises(MethodError, match=r"There is no combine of mdda 'votes'\..*Allowed: .*probabilities"):
        build("mdda", combine="votes")
