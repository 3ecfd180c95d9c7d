"""DANN: the extractor descends CE − λ_p·BCE, the discriminator BCE, the classifier CE, in one step."""

from __future__ import annotations

from tests.replay.plain import (
    HEAD_RATE,
    RATE,
    UPDATES,
    agree,
    batches,
    cross_entropy,
    minus_log_sigmoid,
    pair,
    ramp,
)


def test_dann_is_its_algorithm() -> None:
    method, plain = pair("dann")
    for t in range(UPDATES):
        (source,), target = batches(t, (9,), 6)
        method.update([source], target, t / UPDATES)

        f_s, f_t = plain.extract("extractor", source.images), plain.extract("extractor", target.images)
        error = cross_entropy(plain.linear("classifier", f_s), source.labels)
        # each domain counts one half, whatever the size of its batch
        told = minus_log_sigmoid(plain.scores("discriminator", f_s)) / 2
        told = told + minus_log_sigmoid(-plain.scores("discriminator", f_t)) / 2
        plain.step(
            ("extractor", error - ramp(t / UPDATES) * told, RATE),
            ("classifier", error, HEAD_RATE),
            ("discriminator", told, HEAD_RATE),
        )
    agree(method, plain, "dann", ["extractor", "classifier", "discriminator"])
