"""RTN, residual transfer network: the source classifier is the target classifier plus a small residual function.

    f_S = f_T + Δf(f_T),  Δf two layers on the logits
    min CE(f_S, source) + γ λ_p H(f_T, target) + λ MMD²(feature ⊗ logits)

Long, Zhu, Wang, Jordan: Unsupervised Domain Adaptation with Residual Transfer Networks, NIPS 2016. The target is
classified by f_T. Features and logits are fused by the outer product, and MMD compares the fused vectors.

Paper and release: only a Caffe release exists. It pools the outer product 2×2 by its maximum before the MMD (preset
`code`), which depends on the order of features and classes; the default is the outer product itself, whose distances
need no outer product: ⟨a ⊗ z, a′ ⊗ z′⟩ = ⟨a, a′⟩⟨z, z′⟩. The release ramps the entropy up over 2,000 iterations; here
the ramp λ_p = 2 / (1 + e^(−10 p)) − 1 spans the budget.

Held against the Caffe release by reading only, no public code was run beside it: the release also joins two samples to
one row of its MMD and pools with the last odd column kept, where `code` has a sample a row and drops that column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.contract import HParams, LabeledBatch, Range, UnlabeledBatch
from methods.dan import mk_mmd
from methods.kernels import FACTORS, Sample, gaussian_kernel, inner_products, mmd, single
from methods.layers import entropy, ramp
from methods.one_network import OneNetwork
from methods.source_only import source_loss

if TYPE_CHECKING:
    from benchmark.run.task import Task


@dataclass(frozen=True)
class RTNHParams(HParams):
    """Weights of the two target terms."""

    trade_off: float = 1.0  # λ of the MMD; the release
    entropy: float = 0.1  # γ of the target's entropy; the release
    pooled: bool = False  # MMD of the 2×2 max-pooled outer product


class Residual(nn.Module):
    """f_S = f_T + Δf(f_T): logits (N, C) → (N, C), Δf = linear, ReLU, linear, all of size C."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.delta = nn.Sequential(nn.Linear(classes, classes), nn.ReLU(), nn.Linear(classes, classes))

    def forward(self, logits: Tensor) -> Tensor:
        return logits + self.delta(logits)


def fused_distances(u: Sample, v: Sample) -> Tensor:
    """‖a_i ⊗ z_i − a′_j ⊗ z′_j‖² for u = [a (N, F), z (N, C)], v = [a′ (M, F), z′ (M, C)]: → (N, M).

    = |a_i|²|z_i|² + |a′_j|²|z′_j|² − 2 ⟨a_i, a′_j⟩⟨z_i, z′_j⟩, without the F·C numbers of an outer product.
    """
    norms_u, norms_v = (single(s[0]).square().sum(1) * single(s[1]).square().sum(1) for s in (u, v))
    products = inner_products(u[0], v[0]) * inner_products(u[1], v[1])
    return (norms_u[:, None] + norms_v[None, :] - 2 * products).clamp_min(0)


def fused_mmd(x: Sample, y: Sample) -> Tensor:
    """MK-MMD² (biased) of the outer products of x = [(N, F), (N, C)] and of y = [(M, F), (M, C)]: a 0-d tensor."""
    joint = [torch.cat([a, b]).detach() for a, b in zip(x, y, strict=True)]
    distances, n = fused_distances(joint, joint), len(joint[0])
    width = (distances.sum() - distances.diagonal().sum()) / (n * (n - 1))

    def kernel(u: Sample, v: Sample, paired: bool) -> Tensor:
        return gaussian_kernel(fused_distances(u, v), width, FACTORS)

    return mmd(x, y, kernel, "biased")


def pooled_fusion(features: Tensor, logits: Tensor) -> Tensor:
    """The outer product, max-pooled 2×2: (N, F), (N, C) → (N, ⌊F/2⌋·⌊C/2⌋)."""
    return F.max_pool2d(features[:, None, :, None] * logits[:, None, None, :], 2).flatten(1)


class RTN(OneNetwork):
    """min CE(f_S, S) + γ λ_p H(f_T, T) + λ MMD²(feature ⊗ logits)."""

    name = "rtn"
    title = "RTN"
    HParams = RTNHParams
    presets = {"code": {"pooled": True}}
    standards = ("combined", "single-best")
    ranges = {"lr_scale": Range(0.3, 3.0, log=True), "trade_off": Range(0.1, 10.0, log=True)}
    relative_cost = 1.35

    def __init__(self, task: Task, hparams: RTNHParams) -> None:
        super().__init__(task, hparams)
        self.residual = task.build("residual", lambda: Residual(task.num_classes))
        self.optimisers["residual"] = task.optimiser(self.residual, "classifier")

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        features, f_t = self.forward_all(sources, target)
        logits, z_t = [self.classifier(f) for f in features], self.classifier(f_t)
        source = source_loss([self.residual(z) for z in logits], sources)
        certainty = entropy(z_t.softmax(1)).mean()

        f_s, z_s = torch.cat(features), torch.cat(logits)
        if self.hparams.pooled:
            discrepancy = mk_mmd(pooled_fusion(f_s, z_s), pooled_fusion(f_t, z_t))
        else:
            discrepancy = fused_mmd([f_s, z_s], [f_t, z_t])

        weight = self.hparams.entropy * ramp(progress)
        self.descend(source + weight * certainty + self.hparams.trade_off * discrepancy)
        return {"source": source.detach(), "entropy": certainty.detach(), "mmd": discrepancy.detach()}
