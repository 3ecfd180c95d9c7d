"""Template: cross-entropy on the sources, and a low entropy of what is predicted for the target. What is the idea?

The file that `python -m benchmark methods new NAME` writes: a whole method that runs as it is. Say here what your idea is,
then change `update`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn import functional as F

from methods.contract import HParams, LabeledBatch, Method, Range, UnlabeledBatch

if TYPE_CHECKING:
    from benchmark.run.task import Task


@dataclass(frozen=True)
class TemplateHParams(HParams):
    """Hyper-parameters, each with its source: `--set FILE:CLASS.weight=0.3` changes one for a run."""

    weight: float = 0.1  # ours: weight of the target's entropy


def entropy(p: Tensor) -> Tensor:
    """Mean over the images of −Σ_c p_c log p_c: (N, C) → 0-d."""
    return -(p * p.clamp(min=1e-8).log()).sum(1).mean()


class Template(Method):
    """min (1/M) Σ_m CE on source m + weight · entropy of the target's predictions."""

    name = "template"
    title = "Template"
    HParams = TemplateHParams
    standards = ("multi-source", "combined")  # the first is the default
    presets = {"strong": {"weight": 1.0}}  # rows of their own: FILE:CLASS@strong
    ranges = {"lr_scale": Range(0.3, 3.0, log=True), "weight": Range(0.01, 1.0, log=True)}  # where `tune` looks

    def __init__(self, task: Task, hparams: Any) -> None:
        super().__init__(task, hparams)
        # the role "main" starts from the same weights in every method; modules of your own: task.build(role, factory)
        self.extractor, self.classifier = task.extractor("main"), task.classifier("main")
        # every optimiser stands in this dictionary, every tensor that lives on is a buffer: a killed run goes on
        self.optimisers["extractor"] = task.optimiser(self.extractor, "extractor")
        self.optimisers["classifier"] = task.optimiser(self.classifier, "classifier")

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        features = self.task.forward_domains([*(batch.images for batch in sources), target.images])
        *logits, unlabeled = [self.classifier(f) for f in features]
        losses = [F.cross_entropy(out, batch.labels) for out, batch in zip(logits, sources, strict=True)]
        classification = sum(losses[1:], losses[0]) / len(losses)
        uncertain = entropy(unlabeled.softmax(1))
        self.descend(classification + self.hparams.weight * uncertain)
        # 0-d tensors for the record; nothing here asks for their values: a GPU would stand still
        return {"classification": classification.detach(), "entropy": uncertain.detach()}

    def probabilities(self, images: Tensor) -> Tensor:
        return self.classifier(self.extractor(images)).softmax(1)

    def embed(self, images: Tensor) -> Tensor:
        return self.extractor(images)
