"""MDAN: discriminators first, then one step down the bound; `code` moves everything at once, signs turned round."""

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
    minus_log_sigmoid,
    pair,
    ramp,
)

GAMMA, MU, CODE_MU = 10.0, 1.0, 0.01
SIZES, TARGET = (8, 7, 9), 6
MOVED = ["extractor", "classifier", *(f"discriminators.{m}" for m in range(3))]


def told(plain: Plain, features: list[Tensor]) -> list[Tensor]:
    """The loss of each discriminator, the SUM of what it has on its source and on the target."""
    losses = []
    for m, f in enumerate(features[:-1]):
        on_source = minus_log_sigmoid(plain.scores(f"discriminators.{m}", f))
        losses.append(on_source + minus_log_sigmoid(-plain.scores(f"discriminators.{m}", features[-1])))
    return losses


@pytest.mark.parametrize("preset", ["", "hard"])
def test_mdan_is_its_algorithm(preset: str) -> None:
    method, plain = pair("mdan", preset, sources=3)
    for t in range(UPDATES):
        sources, target = batches(t, SIZES, TARGET)
        method.update(sources, target, t / UPDATES)

        features = [plain.extract("extractor", batch.images) for batch in (*sources, target)]
        errors = [
            cross_entropy(plain.linear("classifier", f), batch.labels)
            for f, batch in zip(features[:-1], sources, strict=True)
        ]
        # min over each discriminator of the mean over its two domains
        halves = [loss / 2 for loss in told(plain, features)]
        plain.step(*((f"discriminators.{m}", loss, HEAD_RATE) for m, loss in enumerate(halves)))
        halves = [loss / 2 for loss in told(plain, features)]
        mu = MU * ramp(t / UPDATES)
        if preset == "hard":
            bound = max(errors, key=Tensor.item) - mu * min(halves, key=Tensor.item)
        else:
            bound = sum((GAMMA * (e - mu * d)).exp() for e, d in zip(errors, halves, strict=True)).log() / GAMMA
        plain.step(("extractor", bound, RATE), ("classifier", bound, HEAD_RATE))
    agree(method, plain, f"mdan:{preset}", MOVED)


def test_the_released_form_of_mdan_is_its_algorithm() -> None:
    """(1/γ) log Σ_m exp γ(CE_m + μ D_m), D_m behind a reversal: with its weights w = softmax γ(CE + μ D), held fixed,
    the discriminators descend μ Σ w_m D_m and the extractor Σ w_m (CE_m − μ D_m)."""
    method, plain = pair("mdan", "code", sources=3)
    for t in range(UPDATES):
        sources, target = batches(t, SIZES, TARGET)
        method.update(sources, target, t / UPDATES)

        features = [plain.extract("extractor", batch.images) for batch in (*sources, target)]
        errors = [
            cross_entropy(plain.linear("classifier", f), batch.labels)
            for f, batch in zip(features[:-1], sources, strict=True)
        ]
        losses = told(plain, features)
        weights = [(GAMMA * (e + CODE_MU * d)).exp().detach() for e, d in zip(errors, losses, strict=True)]
        weights = [w / sum(weights) for w in weights]
        error = sum(w * e for w, e in zip(weights, errors, strict=True))
        domain = CODE_MU * sum(w * d for w, d in zip(weights, losses, strict=True))
        plain.step(
            ("extractor", error - domain, RATE),
            ("classifier", error, HEAD_RATE),
            ("discriminators", domain, HEAD_RATE),
        )
    agree(method, plain, "mdan:code", MOVED)
