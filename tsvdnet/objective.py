"""The terms of the objective (Eq. 14 and what the release adds to it), each a function of what one update sees.

`tsvdnet.method` makes its list of them once, from the options. A term knows its options; the update knows none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tsvdnet.prototypes import Prototypes, entropy
from tsvdnet.uncertainty import Uncertainty


@dataclass(frozen=True)
class Seen:
    """What one update sees; domains in order, the target last."""

    features: Tensor  # (N, F) of all domains in a row, as the heads see them
    logits: Sequence[Tensor]  # (B, C) of each domain
    s: Sequence[Tensor]  # (B,) of each domain, from the uncertainty head; empty without +U
    labels: Sequence[Tensor]  # (B,) of each domain; the target's are pseudo labels, −1 for none
    p: Tensor  # (B, C) the target's probabilities


Term = Callable[[Seen, Tensor], Tensor]  # with the prototypes (D, C, F); the gradient flows through both
Over = Callable[[Tensor], Tensor]  # M losses → one, torch.mean or torch.sum (D8)


@dataclass(frozen=True)
class CrossEntropy:
    """L_cls without +U: cross-entropy of each source."""

    over: Over

    def __call__(self, seen: Seen, prototypes: Tensor) -> Tensor:
        rows = zip(seen.logits[:-1], seen.labels[:-1], strict=True)
        return self.over(torch.stack([F.cross_entropy(out, y) for out, y in rows]))


@dataclass(frozen=True)
class WeightedCrossEntropy:
    """L_cls with +U: a line of Eq. 13 for each source."""

    head: Uncertainty
    over: Over

    def __call__(self, seen: Seen, prototypes: Tensor) -> Tensor:
        rows = zip(seen.logits[:-1], seen.labels[:-1], seen.s[:-1], strict=True)
        return self.over(torch.stack([self.head.loss(out, y, s) for out, y, s in rows]))


@dataclass(frozen=True)
class TargetEntropy:
    """+E: entropy of the target's predictions, of the confident or of all, a mean over samples or over classes too (D10)."""

    weight: float
    confident_only: bool
    over_classes: bool
    epsilon: float  # within the logarithm

    def __call__(self, seen: Seen, prototypes: Tensor) -> Tensor:
        p = seen.p
        chosen = (seen.labels[-1] >= 0).to(p.dtype) if self.confident_only else torch.ones_like(p[:, 0])
        mean = (chosen * entropy(p, self.epsilon)).sum() / chosen.sum().clamp_min(1)
        return self.weight * (mean / p.shape[1] if self.over_classes else mean)


@dataclass(frozen=True)
class PrototypeLoss:
    """L_dom (D9): cross-entropy of the classifier on the source prototypes, zero ones of unseen classes included."""

    classifier: nn.Module
    over: Over

    def __call__(self, seen: Seen, prototypes: Tensor) -> Tensor:
        classes = torch.arange(prototypes.shape[1], device=prototypes.device)
        each = [F.cross_entropy(self.classifier(f), classes) for f in prototypes[:-1]]
        return self.over(torch.stack(each))


@dataclass(frozen=True)
class TensorTerm:
    """+T: a penalty of G, `Auxiliary` or `NuclearNorm`.

    Gated (D20), it moves nothing before the target's first pseudo label; its value is told all the same.
    """

    memory: Prototypes
    penalty: Callable[[Tensor], Tensor]
    gate: bool

    def __call__(self, seen: Seen, prototypes: Tensor) -> Tensor:
        value = self.penalty(self.memory.similarity(prototypes))
        if not self.gate:
            return value
        is_open = self.memory.seen[-1]
        return is_open * value + (1 - is_open) * value.detach()
