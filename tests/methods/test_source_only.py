"""Source-Only and its batch-norm row."""

import numpy as np
import torch

from methods.contract import UnlabeledBatch
from methods.source_only import source_loss
from tests.methods.small import batches, build


def test_loss_is_the_mean_over_sources_of_mean_cross_entropies() -> None:
    sources, _ = batches(3)
    rng = np.random.default_rng(0)
    logits = [rng.normal(size=(8, 4)) for _ in sources]
    slow = []
    for z, batch in zip(logits, sources, strict=True):
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        slow.append(np.mean([-np.log(p[i, y]) for i, y in enumerate(batch.labels.tolist())]))
    fast = source_loss([torch.tensor(z) for z in logits], sources)
    np.testing.assert_allclose(fast.item(), np.mean(slow), rtol=1e-12)


def run(preset: str, shift: float) -> torch.Tensor:
    method = build("source-only", preset)
    sources, target = batches()
    torch.manual_seed(0)
    for _ in range(3):
        method.update(sources, UnlabeledBatch(target.images + shift), 0.0)
    return method.predict(target.images)


def test_plain_row_never_looks_at_the_target() -> None:
    assert torch.equal(run("", 0.0), run("", 7.0))
    assert not build("source-only").forwards_target


def test_bn_row_takes_statistics_of_the_target_and_no_loss_on_it() -> None:
    assert not torch.equal(run("bn", 0.0), run("bn", 7.0))
    method = build("source-only", "bn")
    assert method.forwards_target
    sources, target = batches()
    method.extractor.trunk[3].p = 0.0  # dropout off: the two rows draw different masks otherwise
    method.update(sources, target, 0.0)
    plain = build("source-only")
    plain.extractor.trunk[3].p = 0.0
    plain.update(sources, target, 0.0)
    for (name, with_target), without in zip(method.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(with_target, without, msg=f"{name} has a gradient from the target")


def test_learns_its_sources() -> None:
    method = build("source-only")
    sources, target = batches()
    losses = [method.update(sources, target, 0.0)["source"].item() for _ in range(40)]
    assert np.mean(losses[-5:]) < 0.7 * losses[0]
