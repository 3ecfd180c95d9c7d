"""Small pieces that several methods are made of: gradient reversal, domain discriminators, entropy, ramps.

Nothing here knows of a task, a domain or a loss weight: each is one textbook function of tensors.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# -- adversarial pieces ---------------------------------------------------------------------------------------------


class GradientReversal(torch.autograd.Function):
    """Identity forwards; backwards the gradient times −coefficient (Ganin & Lempitsky, 2015)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, coefficient: float) -> Tensor:
        ctx.coefficient = coefficient
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return -ctx.coefficient * gradient, None


def reverse_gradient(x: Tensor, coefficient: float = 1.0) -> Tensor:
    """x, its gradient times −coefficient: what lies before it climbs the loss that what follows it descends."""
    return GradientReversal.apply(x, coefficient)


def discriminator(in_dim: int, hidden: int | Sequence[int], out: int = 1, slope: float = 0.0) -> nn.Sequential:
    """(N, in_dim) → (N, out) scores: linear layers with ReLU between them, leaky if `slope` is above 0.

    `hidden` is the width of one hidden layer, or the widths of several; (N, out) are logits, no activation at the end.
    There is no batch normalisation: its statistics of a mixed batch would tell the domains apart, or hide them.
    """
    widths = [in_dim, *([hidden] if isinstance(hidden, int) else hidden)]
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.LeakyReLU(slope) if slope else nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], out))


def domain_loss(source_scores: Tensor, target_scores: Tensor) -> Tensor:
    """Binary cross-entropy of "source is 1, target is 0", the mean of each domain's mean.

    ½ [mean −log D(s) + mean −log(1 − D(t))], D = sigmoid(score); scores of any shape. Each domain weighs one half
    whatever its batch size, so the loss of a discriminator that knows nothing is log 2.
    """
    ones, zeros = torch.ones_like(source_scores), torch.zeros_like(target_scores)
    source = F.binary_cross_entropy_with_logits(source_scores, ones)
    return 0.5 * (source + F.binary_cross_entropy_with_logits(target_scores, zeros))


def ramp(progress: float, steepness: float = 10.0) -> float:
    """2 / (1 + e^(−steepness · progress)) − 1: from 0 at the start to nearly 1 (Ganin & Lempitsky's λ_p)."""
    return 2.0 / (1.0 + math.exp(-steepness * progress)) - 1.0


# -- predictions ----------------------------------------------------------------------------------------------------


def entropy(p: Tensor) -> Tensor:
    """H(p) = −Σ_c p_c log p_c in nats: (*, C) → (*). Finite, gradient too, where a probability is exactly 0."""
    return -(p * p.clamp_min(torch.finfo(p.dtype).tiny).log()).sum(-1)


# -- precision ------------------------------------------------------------------------------------------------------


def full_precision(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Within: no autocast, where the device knows of it."""
    known = torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if known else contextlib.nullcontext()


# -- batch normalisation --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def statistics_kept(module: nn.Module) -> Iterator[None]:
    """Within: training-mode passes normalise by the batch, and leave the running statistics as they are.

    For a frozen network that must be compared with a training one under equal conditions (ADDA's source encoder).
    """
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
