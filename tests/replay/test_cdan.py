"""CDAN: the discriminator descends the domain loss of g ⊗ f, extractor (and in `code` classifier) climb it by λ_p."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.replay.plain import (
    FEATURES,
    HEAD_RATE,
    RATE,
    UPDATES,
    Plain,
    agree,
    batches,
    cross_entropy,
    pair,
    ramp,
    softmax,
)


def full(plain: Plain, g: Tensor, f: Tensor) -> Tensor:
    """Row i has g_c f_j at place c·F + j."""
    return torch.stack([torch.stack([p * x for p in gi for x in fi]) for gi, fi in zip(g, f, strict=True)])


def random(plain: Plain, g: Tensor, f: Tensor) -> Tensor:
    """Entry k is (Σ_j f_j R_jk) (Σ_c g_c Q_ck) / √d."""
    r, q = plain.w["map.of_features"], plain.w["map.of_predictions"]
    return torch.stack([(r.T @ fi) * (q.T @ gi) / r.shape[1] ** 0.5 for gi, fi in zip(g, f, strict=True)])


@pytest.mark.parametrize(
    "preset, changes", [("", {}), ("e", {}), ("code", {}), ("code", {"map": "random", "random_dim": 12})],
    ids=["cdan", "e", "code", "code, random map"],
)  # fmt: skip
def test_cdan_is_its_algorithm(preset: str, changes: dict[str, object]) -> None:
    method, plain = pair("cdan", preset, trade_off=1.5, **changes)
    mapped = random if changes else full
    for t in range(UPDATES):
        (source,), target = batches(t, (9,), 6)
        method.update([source], target, t / UPDATES)

        told, error = [], None
        for batch, name in ((source, "source"), (target, "target")):
            f = plain.extract("extractor", batch.images)
            z = plain.linear("classifier", f)
            if name == "source":
                error = cross_entropy(z, source.labels)
            g = softmax(z)
            s = plain.scores("discriminator", mapped(plain, g.detach(), f))
            each = (1 + (-s if name == "source" else s).exp()).log()
            w = [1 + sum(p * (p + 1e-5).log() for p in row).exp() if preset else torch.ones(()).double() for row in g]
            w = [v.detach() if preset == "e" else v for v in w]
            told.append(sum(v * e for v, e in zip(w, each, strict=True)) / sum(v.item() for v in w) / 2)
        climbed = error - 1.5 * ramp(t / UPDATES) * (told[0] + told[1])
        plain.step(
            ("extractor", climbed, RATE),
            ("classifier", climbed, HEAD_RATE),  # without the weights' gradient g is fixed: no part of it but the error
            ("discriminator", told[0] + told[1], HEAD_RATE),
        )
    assert plain.w["extractor.last.0.weight"].shape[0] == FEATURES
    agree(method, plain, f"cdan:{preset}", ["extractor", "classifier", "discriminator"])
