"""MCD: the discrepancy, and which step moves what."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from methods.mcd import MCD, discrepancy
from tests.methods.small import batches, build


def slow_discrepancy(p: np.ndarray, q: np.ndarray) -> float:
    total = 0.0
    for i in range(p.shape[0]):
        for c in range(p.shape[1]):
            total += abs(p[i, c] - q[i, c])
    return total / (p.shape[0] * p.shape[1])


@pytest.mark.parametrize("shape", [(1, 2), (5, 10), (17, 3)])
def test_discrepancy_equals_the_textbook_double_loop(shape: tuple[int, int]) -> None:
    p, q = torch.randn(shape).softmax(1), torch.randn(shape).softmax(1)
    assert float(discrepancy(p, q)) == pytest.approx(slow_discrepancy(p.numpy(), q.numpy()), abs=1e-7)


def test_discrepancy_is_symmetric_zero_on_equals_and_at_most_two_over_classes() -> None:
    p, q = torch.randn(6, 4).softmax(1), torch.randn(6, 4).softmax(1)
    assert discrepancy(p, q) == discrepancy(q, p)
    assert discrepancy(p, p) == 0
    apart = discrepancy(torch.eye(4), torch.eye(4).roll(1, 0))  # certain of different classes
    assert float(apart) == pytest.approx(2 / 4)
    assert discrepancy(p, q) < apart


def watch_steps(method: MCD, monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Which parts of the method's parameters each `descend` moved, in order."""
    seen: list[set[str]] = []
    plain = method.descend

    def watched(loss: torch.Tensor, *names: str) -> None:
        before = {n: p.detach().clone() for n, p in method.named_parameters()}
        plain(loss, *names)
        seen.append({n.split(".")[0] for n, p in method.named_parameters() if not torch.equal(p, before[n])})

    monkeypatch.setattr(method, "descend", watched)
    return seen


def test_a_moves_everything_b_the_heads_only_c_the_extractor_only(monkeypatch: pytest.MonkeyPatch) -> None:
    method = build("mcd", sources=1, num_k=3)
    seen = watch_steps(method, monkeypatch)
    method.update(*batches(1), 0.0)
    assert seen == [{"extractor", "heads"}, {"heads"}, {"extractor"}, {"extractor"}, {"extractor"}]


def test_step_b_widens_the_discrepancy_on_the_target() -> None:
    """With a huge weight the source term is out of the way, and one step C cannot undo what B does."""
    sources, target = batches(1)
    method = build("mcd", sources=1, num_k=1, discrepancy_weight=1e4, lr_scale=1.0)
    values = [method.update(sources, target, 0.0)["discrepancy_b"] for _ in range(40)]
    assert values[-1] > 1.5 * values[0]


def test_step_c_narrows_the_discrepancy_on_the_target() -> None:
    sources, target = batches(1, size=32)
    last = {}
    for num_k in (1, 60):  # steps A and B are the same bits
        torch.manual_seed(0)
        last[num_k] = build("mcd", sources=1, num_k=num_k).update(sources, target, 0.0)["discrepancy_c"]
    assert last[60] < 0.9 * last[1]


def test_early_split_gives_the_last_hidden_layer_to_the_heads() -> None:
    early, late = build("mcd", sources=1), build("mcd", "late-split", sources=1)
    images = batches(1)[1].images
    assert early.features(images).shape == (8, early.task.cut_dim)
    assert late.features(images).shape == (8, late.task.feature_dim)
    early.eval()
    completed = early.heads[0][0](early.extractor(images))
    assert torch.allclose(completed, late.features(images))  # head 1 completes the network all methods start from


def test_prediction_is_the_ensemble_of_both_heads() -> None:
    method = build("mcd", "late-split", sources=1)
    images = batches(1)[1].images
    f = method.features(images)
    expected = ((method.heads[0](f) + method.heads[1](f)) / 2).softmax(1)
    assert torch.allclose(method.predict(images), expected)
    assert not torch.allclose(method.predict(images), method.heads[0](f).softmax(1))


def test_an_update_forwards_six_batches_not_seven() -> None:
    """A: source; B: source and target; C: the target of B again, then three more."""
    method = build("mcd", sources=1)
    method.update(*batches(1), 0.0)
    assert method.task.images_forwarded == 6 * 8
