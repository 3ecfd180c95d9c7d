"""MCC: extractor and classifier descend CE + μ·confusion of the target batch in one step."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.replay.plain import HEAD_RATE, RATE, UPDATES, agree, batches, cross_entropy, mean, pair, softmax

WEIGHT, TEMPERATURE = 1.5, 2.5


def confusion(z: Tensor) -> Tensor:
    """mean over classes of the off-diagonal part of the rows of K, rows normalised; entry by entry."""
    y = softmax(z / TEMPERATURE)
    number, classes = z.shape
    with torch.no_grad():
        certain = [1 + sum(p * (p + 1e-5).log() for p in row).exp() for row in y]
        w = [number * c / sum(certain) for c in certain]
    rows = [
        [sum(w[i] * y[i, c] * y[i, d] for i in range(number)) for d in range(classes)] for c in range(classes)
    ]  # fmt: skip
    return mean(sum(row[d] for d in range(classes) if d != c) / sum(row) for c, row in enumerate(rows))


@pytest.mark.parametrize("sizes", [(9,), (5, 7)], ids=["combined", "multi-source"])
def test_mcc_is_its_algorithm(sizes: tuple[int, ...]) -> None:
    method, plain = pair("mcc", sources=len(sizes), weight=WEIGHT, temperature=TEMPERATURE)
    present = 0
    for t in range(UPDATES):
        sources, target = batches(t, sizes, 6)
        method.update(sources, target, t / UPDATES)

        features = [plain.extract("extractor", batch.images) for batch in [*sources, target]]
        logits = [plain.linear("classifier", f) for f in features]
        loss = mean(cross_entropy(z, batch.labels) for z, batch in zip(logits, sources, strict=False))
        counts = [int((logits[-1].argmax(1) == c).sum()) for c in range(4)]
        present += sum(n > 0 for n in counts)
        plain.step(
            ("extractor", loss + WEIGHT * confusion(logits[-1]), RATE),
            ("classifier", loss + WEIGHT * confusion(logits[-1]), HEAD_RATE),
        )
    plain.w |= {"predicted": torch.tensor(counts), "present": torch.tensor(present), "updates": torch.tensor(UPDATES)}
    agree(method, plain, f"mcc, {len(sizes)} sources", ["extractor", "classifier"])
