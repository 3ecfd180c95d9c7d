"""MCD: two classifiers that disagree where the target lies outside the sources' support (Saito et al., CVPR 2018).

    A  min over extractor and heads    CE of both heads on the source
    B  min over the heads              CE − discrepancy on the target     (extractor fixed)
    C  min over the extractor          discrepancy on the target          (heads fixed), `num_k` times

The official digit network ends one layer earlier than the one of M3SDA and T-SVDNet: each of its heads holds the last
hidden layer too. That split is the default here; `late-split` gives both heads the shared feature and one linear
layer. On ResNets, whose last block is empty, the two are the same network.

What is computed once: between the step of A and the first step of C the extractor does not move, so step B takes the
source features without gradient, and the target features of step B, graph kept, are those of the first step of C.
Against the official loop this saves one of seven passes; the two uses share a dropout mask, and running statistics
see S | S, T | T × (num_k − 1) an update instead of S | S, T | T × num_k. Step C moves no parameter of the heads; their
running statistics go on following the target, as in the official code, whose heads stay in training mode. The target's
share in the extractor's running statistics is .734, in the official loop .785.

Held against the official digit solver in double precision, dropout off: parameters agree to 5e-12 after 6 updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from methods.contract import HParams, LabeledBatch, Method, Range, UnlabeledBatch
from methods.source_only import source_loss

if TYPE_CHECKING:
    from benchmark.run.task import Task


@dataclass(frozen=True)
class MCDHParams(HParams):
    """Hyper-parameters of MCD."""

    num_k: int = 4  # official digit code: steps C an update
    discrepancy_weight: float = 1.0  # paper and official code; needs to grow with the number of classes (a mean over C)
    early_split: bool = True  # official digit network: the last hidden layer belongs to the heads


def discrepancy(p: Tensor, q: Tensor) -> Tensor:
    """d(p, q) = mean over batch and classes of |p − q|: (N, C), (N, C) probabilities → 0-d, in [0, 2/C]."""
    return (p - q).abs().mean()


class MCD(Method):
    """Maximum classifier discrepancy."""

    name = "mcd"
    title = "MCD"
    HParams = MCDHParams
    presets = {"late-split": {"early_split": False}}
    standards = ("combined", "single-best")
    ranges = {"lr_scale": Range(0.3, 3.0, log=True), "discrepancy_weight": Range(0.3, 10.0, log=True)}
    card = True
    relative_cost = 3.0

    hparams: MCDHParams

    def __init__(self, task: Task, hparams: MCDHParams) -> None:
        super().__init__(task, hparams)
        cut = int(hparams.early_split)
        self.extractor = task.extractor(cut=cut)
        self.heads = nn.ModuleList(task.classifier(role, cut=cut) for role in ("main", "second"))
        self.optimisers["extractor"] = task.optimiser(self.extractor, "extractor")
        self.optimisers["heads"] = task.optimiser(self.heads, "classifier")

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        images = [batch.images for batch in sources]

        # A: both heads learn the sources, with the extractor.
        source = self._source_loss(self._logits(self._features(images)), sources)
        self.descend(source)

        # B: the heads move apart on the target and stay right on the sources.
        with torch.no_grad():
            fixed = self._features(images)
        moving = self._features([target.images])
        logits = self._logits([*fixed, moving[0].detach()])
        apart = self._discrepancy(logits)
        kept = self._source_loss([pair[:-1] for pair in logits], sources)
        self.descend(kept - self.hparams.discrepancy_weight * apart, "heads")

        # C: the extractor brings them together.
        for step in range(self.hparams.num_k):
            if step:
                moving = self._features([target.images])
            together = self._discrepancy(self._logits(moving))
            self.descend(self.hparams.discrepancy_weight * together, "extractor")

        return {"source": source.detach(), "discrepancy_b": apart.detach(), "discrepancy_c": together.detach()}

    def _features(self, images: Sequence[Tensor]) -> list[Tensor]:
        return self.task.forward_domains(images, self.extractor)

    def _logits(self, features: Sequence[Tensor]) -> list[list[Tensor]]:
        """[head][domain] → (B, C): early-split heads hold batch normalisation, so they too go by domain."""
        return [self.task.forward_domains(features, head) for head in self.heads]

    def _source_loss(self, logits: Sequence[Sequence[Tensor]], sources: Sequence[LabeledBatch]) -> Tensor:
        """CE of head 1 + CE of head 2."""
        return source_loss(logits[0], sources) + source_loss(logits[1], sources)

    def _discrepancy(self, logits: Sequence[Sequence[Tensor]]) -> Tensor:
        """Discrepancy of the two heads on the last domain given, the target."""
        return discrepancy(logits[0][-1].softmax(1), logits[1][-1].softmax(1))

    def probabilities(self, images: Tensor) -> Tensor:
        """Softmax of the mean of the two logits: the ensemble that the official code reports."""
        features = self.extractor(images)
        return torch.stack([head(features) for head in self.heads]).mean(0).softmax(1)

    def embed(self, images: Tensor) -> Tensor:
        return self.extractor(images)
