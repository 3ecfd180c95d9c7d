"""MDDA: an encoder a source; critics and target encoders in turn; classifiers once more on the nearest half."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from methods.contract import Views
from tests.replay.plain import HEAD_RATE, RATE, Once, Plain, agree, batches, cross_entropy, mean, pair, relu

SOURCES, SIZES, TARGET = range(3), (8, 7, 9), 8
SHARES = {"pretrain_share": 0.3, "adapt_share": 0.4}  # of ten updates: three, four, three
ENCODER_RATE = 5e-4 / 4  # the release allows a weight 1e-7 × 5,000 in stage 2, here in four steps
ADAM = {"betas": (0.5, 0.9), "decay": 0.0}


def critic(plain: Plain, m: int, x: Tensor) -> Tensor:
    """Three hidden layers, leaky by .1, and one output: (N, F) → (N,)."""
    for layer in ("0.0", "0.2", "0.4"):
        x = relu(plain.linear(f"critics.{m}.{layer}", x), 0.1)
    return plain.linear(f"critics.{m}.2", x)[:, 0]


def penalty(plain: Plain, m: int, x: Tensor, y: Tensor, element: bool) -> Tensor:
    """mean (‖∇D(z)‖ − 1)², z between a source row and a target row, one coefficient a row or an element of it."""
    rows = min(len(x), len(y))
    epsilon = torch.rand(rows, x.shape[1] if element else 1).double()
    squares = []
    for i in range(rows):
        z = (epsilon[i] * x[i] + (1 - epsilon[i]) * y[i]).detach().requires_grad_(True)
        (slope,) = torch.autograd.grad(critic(plain, m, z[None]).sum(), z, create_graph=True)
        squares.append(((slope**2).sum() ** 0.5 - 1) ** 2)
    return mean(squares)


@pytest.mark.parametrize("preset", ["", "code"])
def test_mdda_is_its_algorithm(preset: str) -> None:
    code = preset == "code"
    critic_steps = 1 if code else 2
    method, plain = pair("mdda", preset, sources=3, budget=10, **SHARES)
    views = Views([], Once([]))

    def encoded(kind: str, m: int, images: Tensor) -> Tensor:
        """Frozen: by the running statistics."""
        return plain.extract(f"{kind}.{m}", images, training=False).detach()

    method.enter("pretrain", views)
    for t in range(3):
        sources, target = batches(t, SIZES, TARGET)
        method.update(sources, target, t / 3)
        for m in SOURCES:
            logits = plain.linear(f"classifiers.{m}", plain.extract(f"encoders.{m}", sources[m].images))
            loss = cross_entropy(logits, sources[m].labels) / 3
            plain.step((f"encoders.{m}", loss, RATE), (f"classifiers.{m}", loss, HEAD_RATE))

    method.enter("adapt", views)
    plain.copy("encoders", "target_encoders")
    for t in range(3, 7):
        sources, target = batches(t, SIZES, TARGET)
        torch.manual_seed(t)
        method.update(sources, target, (t - 3) / 4)

        torch.manual_seed(t)
        fixed = [encoded("encoders", m, sources[m].images) for m in SOURCES]
        moving = [plain.extract(f"target_encoders.{m}", target.images) for m in SOURCES]
        for _ in range(critic_steps):
            for m in SOURCES:
                gap = mean(critic(plain, m, fixed[m])) - mean(critic(plain, m, moving[m].detach()))
                loss = 10 * penalty(plain, m, fixed[m], moving[m], element=code) - gap
                plain.step((f"critics.{m}", loss, 0.05 / (4 * critic_steps)), **ADAM)
        for m in SOURCES:
            plain.step((f"target_encoders.{m}", -mean(critic(plain, m, moving[m])), ENCODER_RATE), **ADAM)
    name = "target_encoders.0.last.0.weight"
    assert (plain.w[name] - plain.w["encoders.0.last.0.weight"]).abs().max() > 1e-4

    parts = [batches(t, SIZES, TARGET) for t in (20, 21)]  # every domain in two batches
    method.enter("distil", Views([Once([p[0][m] for p in parts]) for m in SOURCES], Once([p[1] for p in parts])))
    for m in SOURCES:
        source = [d for p in parts for d in critic(plain, m, encoded("encoders", m, p[0][m].images)).detach()]
        scored = [d for p in parts for d in critic(plain, m, encoded("target_encoders", m, p[1].images)).detach()]
        centre = mean(scored)
        plain.w["target_scores"][m] = centre
        plain.w["distances"][m] = abs(mean(source) - centre)
        plain.w["thresholds"][m] = sorted(abs(d - centre) for d in source)[(len(source) - 1) // 2]  # the nearest half
    nearness = [(-(plain.w["distances"][m] ** 2) / 2).exp() for m in SOURCES]
    for m in SOURCES:
        plain.w["weights"][m] = nearness[m] / sum(nearness)

    for t in range(7, 10):
        sources, target = batches(t, SIZES, TARGET)
        method.update(sources, target, (t - 7) / 3)
        for m in SOURCES:
            features = encoded("encoders", m, sources[m].images)
            scores = critic(plain, m, features).detach()
            limit = plain.w["thresholds"][m]
            near = [i for i, d in enumerate(scores) if abs(d - plain.w["target_scores"][m]) <= limit]
            assert 0 < len(near) < len(scores)
            if code:
                features = encoded("target_encoders", m, sources[m].images)
            logits = plain.linear(f"classifiers.{m}", features[near])
            plain.step((f"classifiers.{m}", cross_entropy(logits, sources[m].labels[near]) / 3, HEAD_RATE))
    agree(method, plain, f"mdda:{preset}", ["encoders", "classifiers", "target_encoders", "critics"])
