"""Source-Only: one pass a source, cross-entropy, one Adam step; `bn` lets the target pass last, with no loss on it."""

from __future__ import annotations

import pytest

from tests.replay.plain import HEAD_RATE, RATE, UPDATES, Plain, agree, batches, cross_entropy, differences, mean, pair

SIZES, TARGET = (8, 7, 9), 6


def update(plain: Plain, sources: list, target: object, bn: bool) -> None:
    features = [plain.extract("extractor", batch.images) for batch in sources]
    if bn:
        plain.extract("extractor", target.images)
    logits = [plain.linear("classifier", f) for f in features]
    loss = mean(cross_entropy(z, batch.labels) for z, batch in zip(logits, sources, strict=True))
    plain.step(("extractor", loss, RATE), ("classifier", loss, HEAD_RATE))


@pytest.mark.parametrize("preset", ["", "bn"])
def test_source_only_is_its_algorithm(preset: str) -> None:
    method, plain = pair("source-only", preset, sources=3)
    for t in range(UPDATES):
        sources, target = batches(t, SIZES, TARGET)
        method.update(sources, target, t / UPDATES)
        update(plain, sources, target, preset == "bn")
    agree(method, plain, f"source-only:{preset}", ["extractor", "classifier"])


def test_a_replay_sees_the_order_of_the_passes_and_a_pass_that_is_missing() -> None:
    """Parameters do not depend on either, running statistics do: the comparison must not overlook them."""
    method, plain = pair("source-only", "bn", sources=3)
    _, reversed_order = pair("source-only", "bn", sources=3)
    _, without_target = pair("source-only", "bn", sources=3)
    for t in range(UPDATES):
        sources, target = batches(t, SIZES, TARGET)
        method.update(sources, target, t / UPDATES)
        update(plain, sources, target, bn=True)
        update(reversed_order, sources[::-1], target, bn=True)
        update(without_target, sources, target, bn=False)
    for other in (reversed_order, without_target):
        parameters, statistics = differences(method, other)
        assert parameters < 1e-9
        assert statistics > 1e-3
