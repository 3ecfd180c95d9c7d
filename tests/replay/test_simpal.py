"""SImpAl: warm source steps; then a source step and a target step on agreeing images, each with its own moments."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from methods.contract import LabeledBatch, UnlabeledBatch
from tests.methods.small import NO_VIEWS
from tests.replay.plain import HEAD_RATE, RATE, Plain, agree, batches, cross_entropy, mean, pair, softmax

NUMBER = 4  # heads, and few target images: some batches have no agreeing one
HEADS, SIZES, TARGET = range(NUMBER), (8, 7, 9), 4
STEPS = {"warm": 4, "adapt-1": 4, "adapt-2": 3}


class Replay:
    """The two steps on plain tensors; one dictionary of Adam's moments for each."""

    def __init__(self, plain: Plain, online: bool) -> None:
        self.plain, self.online = plain, online
        self.moments: dict[str, dict[str, tuple[int, Tensor, Tensor]]] = {"source": {}, "target": {}}
        self.agreed = self.seen = 0  # images of a stage
        self.taken: list[bool] = []

    def step(self, kind: str, loss: Tensor) -> None:
        self.plain.adam = self.moments[kind]
        self.plain.step(("extractor", loss, RATE), ("heads", loss, HEAD_RATE))

    def source(self, sources: list[LabeledBatch]) -> None:
        """mean over all samples of all sources, and over the heads."""
        features = torch.cat([self.plain.extract("extractor", batch.images) for batch in sources])
        labels = torch.cat([batch.labels for batch in sources])
        self.step("source", mean(cross_entropy(self.plain.linear(f"heads.{m}", features), labels) for m in HEADS))

    def target(self, target: UnlabeledBatch) -> None:
        """CE of every head on the images that all heads of the labelling networks give one class."""
        plain, prefix = self.plain, "" if self.online else "labeller."
        with torch.no_grad():
            feature = plain.extract(f"{prefix}extractor", target.images, training=False)
            outputs = [softmax(plain.linear(f"{prefix}heads.{m}", feature)) for m in HEADS]
        labels = {}
        for i in range(len(target.images)):
            votes = {int(output[i].argmax()) for output in outputs}
            if len(votes) == 1:
                labels[i] = votes.pop()
        self.agreed, self.seen = self.agreed + len(labels), self.seen + TARGET
        self.taken.append(bool(labels))
        features = plain.extract("extractor", target.images)  # statistics follow every target batch
        if labels:
            kept, given = list(labels), torch.tensor(list(labels.values()))
            logits = [plain.linear(f"heads.{m}", features)[kept] for m in HEADS]
            self.step("target", mean(cross_entropy(z, given) for z in logits))


@pytest.mark.parametrize("preset", ["", "online"])
def test_simpal_is_its_algorithm(preset: str) -> None:
    method, plain = pair("simpal", preset, sources=3, refreshes=2, heads=NUMBER)
    replay, t = Replay(plain, online=preset == "online"), 0
    for stage in ["warm", "adapt-1", "adapt-2"]:
        method.enter(stage, NO_VIEWS)
        replay.agreed = replay.seen = 0
        if stage != "warm" and not preset:
            plain.copy("extractor", "labeller.extractor")
            plain.copy("heads", "labeller.heads")
        for step in range(STEPS[stage]):
            sources, target = batches(t, SIZES, TARGET)
            method.update(sources, target, step / STEPS[stage])
            replay.source(sources)
            if stage != "warm":
                replay.target(target)
            t += 1
    assert 0 < replay.agreed < replay.seen
    assert not replay.taken[0]
    assert preset or replay.taken[2:5] == [True, False, True]  # a step is left out before the first, and between two
    steps, idle = len(replay.taken), replay.taken.count(False)
    found = {"agreed": replay.agreed, "seen": replay.seen, "steps": steps, "idle": idle}
    plain.w |= {name: torch.tensor(value) for name, value in found.items()}
    agree(method, plain, f"simpal:{preset}", ["extractor", *(f"heads.{m}" for m in HEADS)])
