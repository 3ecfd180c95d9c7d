"""ADDA: a stage of cross-entropy; then, from its copy, discriminator and target network in turn (`code`: on logits)."""

from __future__ import annotations

import pytest

from tests.methods.small import NO_VIEWS
from tests.replay.plain import HEAD_RATE, RATE, agree, batches, cross_entropy, minus_log_sigmoid, pair

STEPS = 4  # of each stage
SECOND = 0.2 * RATE  # one rate for all of stage 2: 2e-4 to 1e-3 in the release
SECOND_ADAM = {"betas": (0.5, 0.999), "decay": 0.0}  # no L2 in the second stage


@pytest.mark.parametrize("preset", ["", "code"])
def test_adda_is_its_algorithm(preset: str) -> None:
    method, plain = pair("adda", preset)
    method.enter("pretrain", NO_VIEWS)
    for t in range(STEPS):
        (source,), target = batches(t, (9,), 6)
        method.update([source], target, t / STEPS)

        z = plain.linear("source_classifier", plain.extract("source_encoder", source.images))
        loss = cross_entropy(z, source.labels)
        plain.step(("source_encoder", loss, RATE), ("source_classifier", loss, HEAD_RATE))

    method.enter("adapt", NO_VIEWS)
    plain.copy("source_encoder", "target_encoder")
    plain.copy("source_classifier", "target_classifier")
    for t in range(STEPS, 2 * STEPS):
        (source,), target = batches(t, (9,), 6)
        method.update([source], target, t / STEPS - 1)

        # the source encoder is frozen: it normalises by the batch and keeps its running statistics
        real = plain.extract("source_encoder", source.images, track=False).detach()
        fake = plain.extract("target_encoder", target.images)
        if preset == "code":
            real, fake = plain.linear("source_classifier", real).detach(), plain.linear("target_classifier", fake)
        told = minus_log_sigmoid(plain.scores("discriminator", real))
        told = (told + minus_log_sigmoid(-plain.scores("discriminator", fake))) / 2
        plain.step(("discriminator", told, SECOND), **SECOND_ADAM)
        fooled = minus_log_sigmoid(plain.scores("discriminator", fake))  # inverted labels, the new discriminator
        moves = [("target_encoder", fooled, SECOND)]
        if preset == "code":
            moves.append(("target_classifier", fooled, SECOND))
        plain.step(*moves, **SECOND_ADAM)
    agree(method, plain, f"adda:{preset}", ["source_encoder", "source_classifier", "target_encoder", "discriminator"])
