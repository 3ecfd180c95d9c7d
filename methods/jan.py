"""JAN, joint adaptation network: equal joint distributions of features and predictions, not of each layer alone.

    min CE(source) + λ JMMD²(features, softmax)

Long, Zhu, Wang, Jordan: Deep Transfer Learning with Joint Adaptation Networks, ICML 2017. The kernel of the joint is
the product of the layers' kernels: five Gaussians around the mean distance on the features, one Gaussian of fixed
width on the predictions (2σ² = 1.68), as in the authors' PyTorch release.

Paper and release: the paper and the Caffe release estimate in linear time (preset `linear`), the PyTorch release by the
U-statistic (preset `unbiased`). The default is the V-statistic, never below 0. The adversarial variant is not here.

Held against Xlearn, the authors' PyTorch release: `unbiased` equals its full estimator to 1e-15. At 12 images a domain
the gradient of the V-statistic differs from it by 46 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from methods.contract import HParams, LabeledBatch, Range, UnlabeledBatch
from methods.dan import shuffled
from methods.kernels import FACTORS, Sample, gaussian_kernel, mean_bandwidth, mmd, squared_distances
from methods.one_network import OneNetwork
from methods.source_only import source_loss

SOFTMAX_WIDTH = 1.68  # the authors' PyTorch release


@dataclass(frozen=True)
class JANHParams(HParams):
    """Trade-off and estimator."""

    trade_off: float = 1.0  # λ; the authors' PyTorch release
    estimator: str = "biased"  # ours: see the module's docstring


def jmmd(
    x: Sample,
    y: Sample,
    bandwidths: Sequence[float | None] = (None, SOFTMAX_WIDTH),
    factors: Sequence[Sequence[float]] = (FACTORS, (1.0,)),
    estimator: str = "biased",
) -> Tensor:
    """JMMD² of two samples seen in L layers, [(N, F_1), …, (N, F_L)] and [(M, F_1), …]: a 0-d tensor.

    k(u, v) = Π_l Σ_a exp(−‖u_l − v_l‖² / (a · b_l)); b_l None: the mean squared distance of the joint batch.
    """
    given = zip(bandwidths, x, y, strict=True)
    widths = [mean_bandwidth(torch.cat([x_l, y_l])) if b is None else b for b, x_l, y_l in given]

    def kernel(u: Sample, v: Sample, paired: bool) -> Tensor:
        layers = zip(u, v, widths, factors, strict=True)
        kernels = [gaussian_kernel(squared_distances(u_l, v_l, paired), b, a) for u_l, v_l, b, a in layers]
        return reduce(torch.mul, kernels)  # not `prod`: its backward pass asks the device how many zeros there are

    return mmd(x, y, kernel, estimator)


class JAN(OneNetwork):
    """min CE(S) + λ JMMD²(features, softmax)."""

    name = "jan"
    title = "JAN"
    revision = 2  # the gradient of the joint kernel comes from a product, which rounds otherwise than `prod`
    HParams = JANHParams
    presets = {"unbiased": {"estimator": "unbiased"}, "linear": {"estimator": "linear"}}
    standards = ("combined", "single-best")
    ranges = {"lr_scale": Range(0.3, 3.0, log=True), "trade_off": Range(0.1, 10.0, log=True)}
    relative_cost = 1.5

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        features, f_t = self.forward_all(sources, target)
        logits, z_t = [self.classifier(f) for f in features], self.classifier(f_t)
        source = source_loss(logits, sources)

        source_layers = shuffled(torch.cat(features), torch.cat(logits).softmax(1))
        target_layers = shuffled(f_t, z_t.softmax(1))
        discrepancy = jmmd(source_layers, target_layers, estimator=self.hparams.estimator)

        self.descend(source + self.hparams.trade_off * discrepancy)
        return {"source": source.detach(), "jmmd": discrepancy.detach()}
