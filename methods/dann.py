"""DANN: features on which a discriminator cannot tell source from target, learned through a gradient reversal.

    min over extractor and classifier, max over discriminator:  CE(source) − λ_p · BCE(discriminator)
    λ_p = 2 / (1 + e^(−10 p)) − 1,  p the share of the training that is done

Ganin and Lempitsky, ICML 2015; Ganin et al., JMLR 2016. The reversal multiplies the gradient by −λ_p, so the
discriminator itself always learns at its full rate. The optimiser and its schedule are the suite's, as for all methods.

Held against fungtion's public PyTorch code: λ_p and the reversal are exact; its domain loss adds the two domains' means,
so ours, their mean, is half of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from methods.contract import HParams, LabeledBatch, Range, UnlabeledBatch
from methods.layers import discriminator, domain_loss, ramp, reverse_gradient
from methods.one_network import OneNetwork
from methods.source_only import source_loss

if TYPE_CHECKING:
    from benchmark.run.task import Task


@dataclass(frozen=True)
class DANNHParams(HParams):
    """Strength of the adversary."""

    trade_off: float = 1.0  # factor of λ_p; 1 in the paper
    hidden: int = 1024  # two hidden layers, the paper's SVHN network; at most the feature's size, for narrow networks


class DANN(OneNetwork):
    """min CE(S) + BCE(D(R(features))), R the gradient reversal with coefficient λ_p."""

    name = "dann"
    title = "DANN"
    HParams = DANNHParams
    standards = ("combined", "single-best")
    ranges = {"lr_scale": Range(0.3, 3.0, log=True), "trade_off": Range(0.1, 3.0, log=True)}
    card = True
    relative_cost = 1.4

    def __init__(self, task: Task, hparams: DANNHParams) -> None:
        super().__init__(task, hparams)
        width = min(hparams.hidden, task.feature_dim)
        self.discriminator = task.build("discriminator", lambda: discriminator(task.feature_dim, (width, width)))
        self.optimisers["discriminator"] = task.optimiser(self.discriminator, "discriminator")

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        features, f_t = self.forward_all(sources, target)
        source = source_loss([self.classifier(f) for f in features], sources)

        coefficient = self.hparams.trade_off * ramp(progress)
        s_scores = self.discriminator(reverse_gradient(torch.cat(features), coefficient))
        t_scores = self.discriminator(reverse_gradient(f_t, coefficient))
        domain = domain_loss(s_scores, t_scores)

        self.descend(source + domain)
        return {"source": source.detach(), "domain": domain.detach()}
