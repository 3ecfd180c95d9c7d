"""Prototypes and their similarities (Sec. 3.1): pseudo labels, class means, moving averages, the Gaussian kernel, Ψ.

Every function keeps its shapes fixed, whichever classes a batch happens to hold: a label of −1 means "none", and nothing
waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from methods.errors import unknown


def entropy(probabilities: Tensor, epsilon: float = 0.0) -> Tensor:
    """H(p) = −Σ_c p_c log(p_c + ε) in nat, with 0·log 0 = 0: (*, C) → (*)."""
    if epsilon:
        return -(probabilities * (probabilities + epsilon).log()).sum(-1)
    return torch.special.entr(probabilities).sum(-1)


def pseudo_labels(probabilities: Tensor, rule: str = "probability", threshold: float = 0.9) -> Tensor:
    """Eq. 3: the most probable class where the prediction is confident, −1 elsewhere. (B, C) → (B,).

    `rule` (D6): "probability", max_c p_c > threshold, as the paper prints; "entropy", H(p) < threshold in nat, as the
    released code computes (0.7 there).
    """
    top, label = probabilities.max(1)
    if rule == "probability":
        confident = top > threshold
    elif rule == "entropy":
        confident = entropy(probabilities) < threshold
    else:
        raise unknown("rule for pseudo labels", rule, ("probability", "entropy"))
    return torch.where(confident, label, -1)


def class_means(features: Tensor, labels: Tensor, num_classes: int, epsilon: float = 0.0) -> tuple[Tensor, Tensor]:
    """Eq. 2: f_c = sum of the features labelled c / (their number + ε). (B, F), (B,) → means (C, F), present (C,) bool.

    The mean of a class that is absent from the batch is zero and `present` is False for it; labels of −1 belong to none.
    """
    member = (labels == torch.arange(num_classes, device=labels.device)[:, None]).to(features.dtype)
    count = member.sum(1, keepdim=True)
    return member @ features / (count.clamp_min(1) + epsilon), count[:, 0] > 0


def moving_average(old: Tensor, new: Tensor, present: Tensor, alpha: float) -> Tensor:
    """Eq. 4: f_c ← α·new + (1−α)·old for the classes that are present, old for the others. (*, C, F) → (*, C, F).

    The gradient reaches the extractor through α·new only; `old` is a constant.
    """
    old = old.detach()
    return torch.where(present[..., None], alpha * new + (1 - alpha) * old, old)


def gaussian_similarity(prototypes: Tensor, gamma: float, reduction: str = "sum", scale: float = 1.0) -> Tensor:
    """Eq. 5: G_ij = exp(−scale·d(f_i, f_j) / (2γ²)), (*, C, F) → (*, C, C), symmetric, ones on the diagonal.

    `reduction` (D5) of the squared differences over the F features: "sum", d = ‖f_i − f_j‖², as the paper prints;
    "mean", d = ‖f_i − f_j‖²/F, as the released code computes. `scale` undoes the width: with the mean over F features,
    F/F₀ gives a network of another width the bandwidth that F₀ features have.
    """
    if reduction not in ("sum", "mean"):
        raise unknown("reduction", reduction, ("sum", "mean"))
    # d by inner products, since all differences at once would be C×C×F; centred first, so that little cancels
    f = prototypes - prototypes.mean(-2, keepdim=True)
    square = f.square().sum(-1)
    d = square[..., :, None] + square[..., None, :] - 2 * f @ f.mT
    d = torch.where(torch.eye(f.shape[-2], dtype=torch.bool, device=f.device), 0.0, d).clamp_min(0)
    if reduction == "mean":
        scale = scale / prototypes.shape[-1]
    return torch.exp(-scale / (2 * gamma**2) * d)


def stack(similarities: Sequence[Tensor] | Tensor) -> Tensor:
    """Ψ: D matrices (C, C), sources first and the target last, → G (C, C, D)."""
    return torch.stack(list(similarities), dim=2)
