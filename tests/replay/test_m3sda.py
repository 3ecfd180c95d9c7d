"""M3SDA: A every head learns its source and moments are matched; B heads part; C the extractor joins them, four times."""

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
    mean,
    pair,
    softmax,
)

WEIGHT = 1.5  # of the discrepancy: 1 as published, another one here so that it is seen


def moment(x: Tensor, k: int) -> list[Tensor]:
    return [mean(x[i, a] ** k for i in range(len(x))) for a in range(x.shape[1])]


def length(p: list[Tensor], q: list[Tensor]) -> Tensor:
    return sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) ** 0.5


def moment_distance(sources: list[Tensor], target: Tensor) -> Tensor:
    """Σ_k [ mean_m ‖E x_m^k − E x_T^k‖ + mean_{m<n} ‖E x_m^k − E x_n^k‖ ], k = 1, 2."""
    total = 0
    for k in (1, 2):
        of = [moment(x, k) for x in sources]
        to_target = mean(length(p, moment(target, k)) for p in of)
        total = total + to_target + mean(length(of[m], of[n]) for n in range(len(of)) for m in range(n))
    return total


def released_distance(s1: Tensor, s2: Tensor, s3: Tensor, s4: Tensor, target: Tensor) -> Tensor:
    """The released sum of five "moments": S4 is neither centred nor raised to a power, the pairs are as written there,
    S4 with S2 twice and S4 with S3 never, and the sum is divided by six."""
    a, b, c, d = (x - mean(x) for x in (s1, s2, s3, target))
    total = 0
    for k in range(1, 6):
        p, q, r, t = (x if k == 1 else mean(x**k) for x in (a, b, c, d))
        pairs = [(p, t), (q, t), (r, t), (p, q), (q, r), (r, p), (s4, p), (s4, q), (s4, q), (s4, t)]
        for u, v in pairs:
            total = total + ((u - v) ** 2).sum() ** 0.5  # a vector against a matrix: against each of its rows
    return total / 6


def apart(plain: Plain, feature: Tensor, heads: int) -> Tensor:
    """Mean over the pairs of heads of mean |p − q| on the target."""
    return mean(disagreement(*(softmax(plain.linear(f"heads.{m}.{h}", feature)) for h in (0, 1))) for m in range(heads))


@pytest.mark.parametrize("preset", ["", "plain", "code"])
def test_m3sda_is_its_algorithm(preset: str) -> None:
    number = 4 if preset == "code" else 3
    sizes, size = ((8,) * 4, 8) if preset == "code" else ((8, 7, 9), 6)
    heads = 1 if preset == "code" else number  # pairs of classifiers: one of each source, or one for all of them
    changes = {} if preset == "plain" else {"discrepancy_weight": WEIGHT}
    method, plain = pair("m3sda", preset, sources=number, **changes)

    def error(m: int, h: int, feature: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(plain.linear(f"heads.{m if heads > 1 else 0}.{h}", feature), labels)

    def errors(features: list[Tensor], labels: list[Tensor]) -> Tensor:
        kinds = (0,) if preset == "plain" else (0, 1)
        each = [sum(error(m, h, features[m], labels[m]) for h in kinds) for m in range(number)]
        return sum(each) if preset == "code" else mean(each)

    for t in range(UPDATES):
        sources, target = batches(t, sizes, size)
        method.update(sources, target, t / UPDATES)

        labels = [batch.labels for batch in sources]
        *features, f_t = [plain.extract("extractor", batch.images) for batch in (*sources, target)]
        if preset == "code":
            loss = errors(features, labels) + 5e-4 * released_distance(*features, f_t)
        else:
            loss = errors(features, labels) + 0.125 * moment_distance(features, f_t)
        plain.step(("extractor", loss, RATE), ("heads", loss, HEAD_RATE))
        if preset == "plain":
            continue

        *features, f_t = [plain.extract("extractor", batch.images) for batch in (*sources, target)]
        if preset == "code":  # head 1 on source 1 and head 2 on source 2, nothing else
            kept = error(0, 0, features[0], labels[0]) + error(0, 1, features[1], labels[1])
        else:
            kept = errors(features, labels)
        plain.step(("heads", kept - WEIGHT * apart(plain, f_t, heads), HEAD_RATE))
        for k in range(4):
            # the released loop passes the target once more for k = 0: the same numbers, the statistics aside
            f_t = plain.extract("extractor", target.images, track=k > 0)
            plain.step(("extractor", WEIGHT * apart(plain, f_t, heads), RATE))
    agree(method, plain, f"m3sda:{preset}", ["extractor", *(f"heads.{m}" for m in range(heads))])
