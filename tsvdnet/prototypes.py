"""Prototypes and their similarities (Sec. 3.1): pseudo labels, class means, moving averages, the Gaussian kernel, Ψ.

`Prototypes` keeps them from batch to batch; the functions before it are its steps. Shapes are fixed, whichever classes a
batch happens to hold: a label of −1 means "none", and nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

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


class Prototypes(nn.Module):
    """The prototypes of every class in every domain, moving averages over batches, and their similarities G.

        G = prototypes(features, labels)      Eq. 2 to 5: class means → moving averages → kernel → Ψ

    Domains come in a fixed order, the target last; its labels are those that `pseudo_labels` gives. The state, saved and
    restored with the module: `means` (D, C, F); `seen` (D,), 1 once a domain has had a label; `G` (C, C, D), the last one.

    `rule` and `threshold` say which predictions are confident (D6), `alpha` weights a new mean (D14), `epsilon` is added to
    its count; `gamma`, `distance` (D5) and `kernel_dim`, the feature dimension that a mean distance is scaled to (0: none),
    are the kernel's.
    """

    means: Tensor
    seen: Tensor
    G: Tensor

    def __init__(
        self,
        classes: int,
        domains: int,
        features: int,
        *,
        rule: str = "probability",
        threshold: float = 0.9,
        alpha: float = 0.5,
        epsilon: float = 0.0,
        gamma: float = 0.05,
        distance: str = "mean",
        kernel_dim: int = 2048,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.rule, self.threshold, self.alpha, self.epsilon = rule, threshold, alpha, epsilon
        self.gamma, self.distance = gamma, distance
        self.scale = features / kernel_dim if kernel_dim and distance == "mean" else 1.0
        self.register_buffer("means", torch.zeros(domains, classes, features, device=device))
        self.register_buffer("seen", torch.zeros(domains, device=device))
        self.register_buffer("G", torch.zeros(classes, classes, domains, device=device))

    def pseudo_labels(self, probabilities: Tensor) -> Tensor:
        """Eq. 3 for the target: (B, C) → (B,), −1 where the prediction is not confident."""
        return pseudo_labels(probabilities.detach(), self.rule, self.threshold)

    def forward(self, features: Tensor | Sequence[Tensor], labels: Sequence[Tensor]) -> Tensor:
        """Features (B_d, F) and labels (B_d,) of each domain → G (C, C, D); the gradient flows into the features."""
        return self.similarity(self.update(features, labels))

    def update(self, features: Tensor | Sequence[Tensor], labels: Sequence[Tensor]) -> Tensor:
        """Eq. 2 and 4: this batch into the moving averages, → (D, C, F) with a gradient. Features may come as one tensor."""
        domains, classes = self.means.shape[:2]
        joined = features if isinstance(features, Tensor) else torch.cat(list(features))
        pair = torch.cat([torch.where(y >= 0, y + d * classes, -1) for d, y in enumerate(labels)])  # (domain, class)
        means, present = class_means(joined, pair, domains * classes, self.epsilon)
        present = present.view(domains, classes)
        new = moving_average(self.means, means.view_as(self.means), present, self.alpha)
        self.means, self.seen = new.detach(), torch.maximum(self.seen, present.any(1).to(self.seen.dtype))
        return new

    def similarity(self, prototypes: Tensor) -> Tensor:
        """Eq. 5 of every domain, stacked: (D, C, F) → G (C, C, D); zero for a domain that has no prototype yet."""
        each = gaussian_similarity(prototypes, self.gamma, self.distance, self.scale)
        g = stack(each * self.seen[:, None, None])
        self.G = g.detach()
        return g

    def floor(self) -> float:
        """The similarity of two orthogonal prototypes of length 1."""
        pair = torch.eye(2, self.means.shape[2], dtype=torch.float64)
        return gaussian_similarity(pair, self.gamma, self.distance, self.scale)[0, 1].item()
