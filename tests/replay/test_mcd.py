"""MCD: A both heads learn the source; B they part on the target; C the extractor brings them together, four times."""

from __future__ import annotations

import pytest
from torch import Tensor

from tests.replay.plain import (
    HEAD_RATE,
    RATE,
    UPDATES,
    Plain,
    agree,
    batches,
    cross_entropy,
    disagreement,
    pair,
    softmax,
)


class Network:
    """The official digit network: each head has the last hidden block and a linear layer; `late-split`: the latter."""

    def __init__(self, plain: Plain, early: bool) -> None:
        self.plain, self.early = plain, early

    def features(self, images: Tensor, track: bool = True) -> Tensor:
        passed = self.plain.trunk if self.early else self.plain.extract
        return passed("extractor", images, track=track)

    def logits(self, features: Tensor) -> list[Tensor]:
        if not self.early:
            return [self.plain.linear(f"heads.{h}", features) for h in (0, 1)]
        blocks = [self.plain.block(f"heads.{h}.0", features) for h in (0, 1)]
        return [self.plain.linear(f"heads.{h}.1", block) for h, block in enumerate(blocks)]


@pytest.mark.parametrize("preset", ["", "late-split"])
def test_mcd_is_its_algorithm(preset: str) -> None:
    method, plain = pair("mcd", preset, discrepancy_weight=1.5)
    net = Network(plain, early=not preset)
    for t in range(UPDATES):
        (source,), target = batches(t, (9,), 6)
        method.update([source], target, t / UPDATES)

        first, second = net.logits(net.features(source.images))
        loss = cross_entropy(first, source.labels) + cross_entropy(second, source.labels)
        plain.step(("extractor", loss, RATE), ("heads", loss, HEAD_RATE))

        first, second = net.logits(net.features(source.images))
        loss = cross_entropy(first, source.labels) + cross_entropy(second, source.labels)
        first, second = net.logits(net.features(target.images))
        apart = disagreement(softmax(first), softmax(second))
        plain.step(("heads", loss - 1.5 * apart, HEAD_RATE))

        for k in range(4):
            # the released loop passes the target once more for k = 0: the same numbers, the statistics aside
            first, second = net.logits(net.features(target.images, track=k > 0))
            together = disagreement(softmax(first), softmax(second))
            plain.step(("extractor", 1.5 * together, RATE))
    agree(method, plain, f"mcd:{preset}", ["extractor", "heads.0", "heads.1"])
