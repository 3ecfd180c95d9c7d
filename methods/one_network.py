"""What most single-target methods are built on: one extractor, one classifier, each with the suite's optimiser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from methods.contract import LabeledBatch, Method, UnlabeledBatch

if TYPE_CHECKING:
    from benchmark.run.task import Task


class OneNetwork(Method):
    """Extractor and classifier of the role "main", equal for all methods; a subclass writes `update`."""

    def __init__(self, task: Task, hparams: Any) -> None:
        super().__init__(task, hparams)
        self.extractor, self.classifier = task.extractor(), task.classifier()
        self.optimisers["extractor"] = task.optimiser(self.extractor, "extractor")
        self.optimisers["classifier"] = task.optimiser(self.classifier, "classifier")

    def forward_all(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch) -> tuple[list[Tensor], Tensor]:
        """Features of each source, [(B_m, F), …], and of the target, (B, F): one pass, batch-norm by domain."""
        *source, last = self.task.forward_domains([*(batch.images for batch in sources), target.images])
        return source, last

    def probabilities(self, images: Tensor) -> Tensor:
        return self.classifier(self.extractor(images)).softmax(1)

    def embed(self, images: Tensor) -> Tensor | None:
        return self.extractor(images)
