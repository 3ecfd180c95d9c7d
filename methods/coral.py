"""Deep CORAL: equal covariances of source and target in the network's output layer.

    min CE(source) + λ ‖C_S − C_T‖_F² / (4 d²)

Sun and Saenko, ECCV workshops 2016; Sun, Feng, Saenko, 2017 (the chapter that the tables cite). The loss acts on the
logits, the paper's choice of layer (fc8).

Paper and later code: libraries of today put the loss on the features and add the squared distance of the means, both
averaged over entries (preset `feature`: mean (μ_S − μ_T)² + mean (C_S − C_T)², that is 4 CORAL plus a mean term). The
paper chooses λ so that both losses are of like size at the end of training.

Held against public code of both forms: the losses agree to 2e-16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from methods.contract import HParams, LabeledBatch, Range, UnlabeledBatch
from methods.kernels import inner_products, single
from methods.one_network import OneNetwork
from methods.source_only import source_loss


@dataclass(frozen=True)
class CORALHParams(HParams):
    """Trade-off and layer."""

    trade_off: float = 1.0  # λ, ours: that of the later libraries; the release: 0.8
    feature: bool = False  # the features with a mean term instead of the logits


def covariance(x: Tensor) -> Tensor:
    """C = Σ_i (x_i − μ)(x_i − μ)ᵀ / (N − 1): (N, d) → (d, d)."""
    centred = (single(x) - single(x).mean(0)).T
    return inner_products(centred, centred) / (len(x) - 1)


def coral_distance(x: Tensor, y: Tensor) -> Tensor:
    """‖C_x − C_y‖_F² / (4 d²) with unbiased covariances: (N, d), (M, d) → 0-d."""
    return (covariance(x) - covariance(y)).square().sum() / (4 * x.shape[1] ** 2)


def mean_distance(x: Tensor, y: Tensor) -> Tensor:
    """‖μ_x − μ_y‖² / d: (N, d), (M, d) → 0-d."""
    return (x.mean(0) - y.mean(0)).square().mean()


class CORAL(OneNetwork):
    """min CE(S) + λ CORAL(logits), or with the features and their means."""

    name = "coral"
    title = "CORAL"
    HParams = CORALHParams
    presets = {"feature": {"feature": True}}
    standards = ("combined", "single-best")
    ranges = {"lr_scale": Range(0.3, 3.0, log=True), "trade_off": Range(0.1, 10.0, log=True)}
    relative_cost = 1.25

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        features, f_t = self.forward_all(sources, target)
        logits = [self.classifier(f) for f in features]
        source = source_loss(logits, sources)

        if self.hparams.feature:
            f_s = torch.cat(features)
            distance = 4 * coral_distance(f_s, f_t) + mean_distance(f_s, f_t)
        else:
            distance = coral_distance(torch.cat(logits), self.classifier(f_t))

        self.descend(source + self.hparams.trade_off * distance)
        return {"source": source.detach(), "coral": distance.detach()}
