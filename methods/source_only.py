"""Source-Only: cross-entropy on the sources and nothing else, the row that every gain is measured from.

Forwarding the target for its batch-norm statistics alone is already an adaptation, so there are two rows:
`source-only` never forwards the target, `source-only:bn` does, with no loss on it. Trained on the labelled target
train split it is the `upper-bound`.

Held against no public code: it is the cross-entropy alone. The released T-SVDNet has no working baseline to compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import functional as F

from methods.contract import HParams, LabeledBatch, UnlabeledBatch
from methods.one_network import OneNetwork

if TYPE_CHECKING:
    from benchmark.run.task import Task


@dataclass(frozen=True)
class SourceOnlyHParams(HParams):
    """Source-Only has one switch."""

    bn: bool = False  # ours: forward the target for batch-norm statistics (no loss on it)


def source_loss(logits: Sequence[Tensor], sources: Sequence[LabeledBatch]) -> Tensor:
    """(1/M) Σ_m mean_i CE(logits_m,i, y_m,i): logits [(B_m, C), …] of the M sources → 0-d."""
    losses = [F.cross_entropy(out, batch.labels) for out, batch in zip(logits, sources, strict=True)]
    return sum(losses[1:], losses[0]) / len(losses)


class SourceOnly(OneNetwork):
    """min (1/M) Σ_m CE on source m, over extractor and classifier."""

    name = "source-only"
    title = "Source-Only"
    HParams = SourceOnlyHParams
    presets = {"bn": {"bn": True}}
    standards = ("multi-source", "combined", "single-best", "upper-bound")
    card = True

    def __init__(self, task: Task, hparams: SourceOnlyHParams) -> None:
        super().__init__(task, hparams)
        self.forwards_target = hparams.bn

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        if self.forwards_target:
            features, _ = self.forward_all(sources, target)
        else:
            features = self.task.forward_domains([batch.images for batch in sources])
        loss = source_loss([self.classifier(f) for f in features], sources)
        self.descend(loss)
        return {"source": loss.detach()}
