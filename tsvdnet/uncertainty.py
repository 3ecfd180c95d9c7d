"""Uncertainty-aware weighting (Sec. 3.3): σ² of every sample from one linear head, and the weighted loss of Eq. 13.

The paper prints three lines for one loss, of which the last is unbounded below; the released code has a fourth, commented
out. All are here, by name, each per sample:

    exact        −log softmax(h/σ²)_y, the first two lines of Eq. 13 (they are equal)
    approximate  CE/σ² + log σ, the last line. Its minimum over σ, σ² = 2·CE, is ½ + ½·log(2·CE): −∞ as CE → 0 (D22),
                 so σ² needs a floor
    printed      Eq. 12 as it stands: the sum in the likelihood leaves out the true class (D19); unbounded below too
    commented    CE/(s² + 0.1) + ½·log(1 + s²): the released code's comment, with s taken as (B,) (D2)
    broadcast    the same comment as it stands, s of shape (B, 1) against CE of shape (B,): a B×B matrix whose mean is
                 mean(weight)·mean(CE) + ½·mean log(1 + s²), which weights no sample. A curiosity.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.errors import unknown

LINKS = ("softplus", "exp", "raw")
FORMS = ("approximate", "exact", "printed", "commented", "broadcast")
COMMENTED_FLOOR = 0.1  # the offset of the released code's commented weight


def variance(s: Tensor, link: str = "softplus", floor: float = 0.1) -> Tensor:
    """σ² of the head's output s, (B,) → (B,); `floor` keeps it away from zero (D22).

    `link`: "softplus", log(1 + e^s) + floor; "exp", e^s + floor; "raw", σ = s without a sign, so s² + floor (D21).
    """
    if link == "softplus":
        return F.softplus(s) + floor
    if link == "exp":
        return s.exp() + floor
    if link == "raw":
        return s.square() + floor
    raise unknown("link of the uncertainty head", link, LINKS)


def approximate(logits: Tensor, labels: Tensor, sigma2: Tensor) -> Tensor:
    """Eq. 13, last line: CE(h, y)/σ² + log σ, a mean over (B,). Logits (B, C), labels (B,), σ² (B,) → 0-d."""
    return (F.cross_entropy(logits, labels, reduction="none") / sigma2 + 0.5 * sigma2.log()).mean()


def exact(logits: Tensor, labels: Tensor, sigma2: Tensor) -> Tensor:
    """Eq. 13, middle line: CE/σ² + log[Σ exp(h/σ²) / (Σ exp h)^(1/σ²)] = −log softmax(h/σ²)_y, a mean over (B,)."""
    return F.cross_entropy(logits / sigma2[:, None], labels)


def printed(logits: Tensor, labels: Tensor, sigma2: Tensor) -> Tensor:
    """−Eq. 12 as printed: −h_y/σ² + log Σ_{c≠y} exp(h_c/σ²), a mean over (B,)."""
    h = logits / sigma2[:, None]
    own = torch.arange(h.shape[1], device=h.device) == labels[:, None]
    others = torch.where(own, -math.inf, h).logsumexp(1)
    return (others - h.gather(1, labels[:, None])[:, 0]).mean()


def commented(logits: Tensor, labels: Tensor, s: Tensor) -> Tensor:
    """The released code's comment: CE/(s² + 0.1) + ½·log(1 + s²), a mean over (B,) for s (B,), over (B, B) for s (B, 1)."""
    ce = F.cross_entropy(logits, labels, reduction="none")
    return (ce / variance(s, "raw", COMMENTED_FLOOR) + 0.5 * torch.log1p(s.square())).mean()


def weighted_loss(
    logits: Tensor, labels: Tensor, s: Tensor, form: str = "approximate", link: str = "softplus", floor: float = 0.1
) -> Tensor:
    """The loss of one source in one of the `FORMS`: logits (B, C), labels (B,), head output s (B,) → 0-d."""
    if form == "approximate":
        return approximate(logits, labels, variance(s, link, floor))
    if form == "exact":
        return exact(logits, labels, variance(s, link, floor))
    if form == "printed":
        return printed(logits, labels, variance(s, link, floor))
    if form == "commented":
        return commented(logits, labels, s)
    if form == "broadcast":
        return commented(logits, labels, s[:, None])
    raise unknown("form of the uncertainty loss", form, FORMS)


def deviation(s: Tensor, form: str, link: str, floor: float) -> Tensor:
    """σ of the head's output, as the loss of this form uses it: (B,) → (B,)."""
    if form in ("commented", "broadcast"):
        return variance(s, "raw", COMMENTED_FLOOR).sqrt()
    return variance(s, link, floor).sqrt()


class Uncertainty(nn.Linear):
    """The head and its loss: s = head(features), one number a sample; `loss` weights a source by it; σ = `sigma(s)`."""

    def __init__(self, features: int, form: str = "approximate", link: str = "softplus", floor: float = 0.1) -> None:
        super().__init__(features, 1)
        self.form, self.link, self.floor = form, link, floor

    def forward(self, features: Tensor) -> Tensor:
        """(B, F) → s (B,)."""
        return super().forward(features)[:, 0]

    def loss(self, logits: Tensor, labels: Tensor, s: Tensor) -> Tensor:
        """Logits (B, C), labels (B,), s (B,) → 0-d: see `weighted_loss`."""
        return weighted_loss(logits, labels, s, self.form, self.link, self.floor)

    def sigma(self, s: Tensor) -> Tensor:
        """σ of every sample, as the loss uses it: (B,) → (B,)."""
        return deviation(s, self.form, self.link, self.floor)
