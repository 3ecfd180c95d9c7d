"""DCTN: pretrain, then rounds of confusing the discriminator of the hardest source and learning from sure votes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from methods.contract import LabeledBatch, UnlabeledBatch
from tests.methods.small import NO_VIEWS
from tests.replay.plain import (
    HEAD_RATE,
    RATE,
    Plain,
    agree,
    batches,
    cross_entropy,
    mean,
    minus_log_sigmoid,
    pair,
    softmax,
)

SOURCES, SIZES, TARGET = range(3), (8, 7, 9), 12
THRESHOLD = 0.35  # released: .9, which nothing reaches in a few updates
STEPS = 2  # of each stage


class Replay:
    """The stages on plain tensors; `code` is the released form."""

    def __init__(self, plain: Plain, code: bool) -> None:
        self.plain, self.code = plain, code
        self.sure = self.unsure = 0

    def features(self, parts: list[LabeledBatch | UnlabeledBatch]) -> list[Tensor]:
        return [self.plain.extract("extractor", part.images) for part in parts]

    def errors(self, features: list[Tensor], sources: list[LabeledBatch]) -> list[Tensor]:
        """CE_m of each source's own classifier."""
        return [cross_entropy(self.plain.linear(f"classifiers.{m}", features[m]), sources[m].labels) for m in SOURCES]

    def pretrain(self, sources: list[LabeledBatch], target: UnlabeledBatch) -> None:
        loss = mean(self.errors(self.features(sources), sources))
        self.plain.step(("extractor", loss, RATE), ("classifiers", loss, HEAD_RATE))

    def confuse(self, sources: list[LabeledBatch], target: UnlabeledBatch) -> None:
        """Discriminators min L_m; then min Σ CE_m + ½ conf(source) + ½ conf(target) of the source with largest L_m."""
        plain = self.plain
        features = self.features([*sources, target])
        losses = []
        for m in SOURCES:
            s, t = (plain.scores(f"discriminators.{m}", f) for f in (features[m], features[-1]))
            if self.code:  # least squares, source 1 and target 0
                losses.append(mean((d - 1) ** 2 for d in s) + mean(d**2 for d in t))
            else:
                losses.append(minus_log_sigmoid(s) + minus_log_sigmoid(-t))
        plain.step(*((f"discriminators.{m}", losses[m], HEAD_RATE) for m in SOURCES))

        hard = max(SOURCES, key=lambda m: losses[m].item())
        loss = sum(self.errors(features, sources))
        for f in (features[hard], features[-1]):
            scores = plain.scores(f"discriminators.{hard}", f)
            if self.code:
                loss = loss + mean((d - 0.5) ** 2 for d in scores) / 2
            else:  # cross-entropy to (½, ½)
                loss = loss + (minus_log_sigmoid(scores) + minus_log_sigmoid(-scores)) / 2 / 2
        moves = [("extractor", loss, RATE)]
        plain.step(*moves if self.code else [*moves, ("classifiers", loss, HEAD_RATE)])

        for m in SOURCES:  # what the votes are weighted by
            concentration = minus_log_sigmoid(plain.scores(f"discriminators.{m}", features[m]))
            plain.w["totals"][m] += (losses[m] if self.code else concentration).detach()
        plain.w["count"] += 1

    def vote(self, images: Tensor) -> Tensor:
        """Σ_m w_m(x) softmax C_m(x) of the networks as they stood when the phase began."""
        plain = self.plain
        feature = plain.extract("labeller.extractor", images, training=False)
        outputs = [softmax(plain.linear(f"labeller.classifiers.{m}", feature)) for m in SOURCES]
        alpha = plain.w["totals"] / max(float(plain.w["count"]), 1.0)
        if self.code:
            weights = [(alpha[m] / alpha.sum() if alpha.sum() > 0 else torch.tensor(1 / 3)) for m in SOURCES]
            return sum(weights[m] * outputs[m] for m in SOURCES)
        scores = [plain.scores(f"discriminators.{m}", feature) for m in SOURCES]
        rows = []
        for i in range(len(images)):
            perplexity = [(1 + scores[m][i].exp()).log() + alpha[m] for m in SOURCES]  # −log(1 − D_m) + α_m
            rows.append(sum(perplexity[m] / sum(perplexity) * outputs[m][i] for m in SOURCES))
        return torch.stack(rows)

    def discriminate(self, sources: list[LabeledBatch], target: UnlabeledBatch) -> None:
        """Source cross-entropy, and that of every classifier on the sure target images."""
        plain, vote = self.plain, self.vote(target.images).detach()
        features = self.features([*sources, target])
        loss = mean(self.errors(features, sources))
        sure = [i for i in range(len(vote)) if vote[i].max() >= THRESHOLD]
        self.sure, self.unsure = self.sure + len(sure), self.unsure + len(vote) - len(sure)
        if sure:
            labels = vote.argmax(1)
            logits = [plain.linear(f"classifiers.{m}", features[-1]) for m in SOURCES]
            loss = loss + mean(cross_entropy(logits[m][sure], labels[sure]) for m in SOURCES)
        plain.step(("extractor", loss, RATE), ("classifiers", loss, HEAD_RATE))


@pytest.mark.parametrize("preset", ["", "code"])
def test_dctn_is_its_algorithm(preset: str) -> None:
    method, plain = pair("dctn", preset, sources=3, rounds=2, threshold=THRESHOLD)
    replay, t = Replay(plain, code=preset == "code"), 0
    order = ["discriminate", "confuse"] if preset else ["confuse", "discriminate"]
    for stage in ["pretrain", *(f"{phase}-{k}" for k in (1, 2) for phase in order)]:
        method.enter(stage, NO_VIEWS)
        phase = stage.split("-")[0]
        if phase == "confuse":
            plain.w["totals"], plain.w["count"] = torch.zeros(3).double(), torch.zeros(()).double()
        if phase == "discriminate":
            plain.copy("extractor", "labeller.extractor")
            plain.copy("classifiers", "labeller.classifiers")
        for step in range(STEPS):
            sources, target = batches(t, SIZES, TARGET)
            method.update(sources, target, step / STEPS)
            getattr(replay, phase)(sources, target)
            t += 1
    assert [name for name, _ in method.stages()][1].startswith(order[0])
    assert replay.sure > 3
    assert replay.unsure > 3
    agree(method, plain, f"dctn:{preset}", ["extractor", "classifiers", "discriminators"])
