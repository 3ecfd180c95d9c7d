"""ADDA: a target encoder, started from the source encoder and moved until a discriminator takes one for the other.

    pretrain   min CE(source) over source encoder and classifier
    adapt      min over D:    −log D(E_s(x_s)) − log(1 − D(E_t(x_t)))      E_s and the classifier frozen
               min over E_t:  −log D(E_t(x_t))                             the inverted-label loss
    predict    classifier(E_t(x))

Tzeng, Hoffman, Saenko, Darrell: Adversarial Discriminative Domain Adaptation, CVPR 2017. Each stage has half of the
budget, as the 10,000 + 10,000 iterations of the release.

Paper and release: the release feeds the discriminator the ten logits and adapts a copy of the classifier as well
(preset `code`); the default adapts the encoder and keeps the classifier, as the paper's figure has it.

Held against the release (TensorFlow): the losses are exact at equal batch sizes. With four source images to one of the
target the release weighs images alike, ours domains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from methods.contract import HParams, LabeledBatch, Method, Range, UnlabeledBatch, Views
from methods.layers import discriminator, domain_loss, statistics_kept
from methods.source_only import source_loss

if TYPE_CHECKING:
    from benchmark.run.task import Task


@dataclass(frozen=True)
class ADDAHParams(HParams):
    """The adaptation stage."""

    adapt_lr: float = 0.2  # rate of the second stage as a share of the first's: 2e-4 to 1e-3 in the release
    hidden: int = 500  # two hidden layers, the paper's digits; at most the feature's size, for narrow networks
    logits: bool = False  # the discriminator sees logits, and the classifier is adapted too


class ADDA(Method):
    """Pretrain on the sources, then fool a discriminator with the target encoder."""

    name = "adda"
    title = "ADDA"
    HParams = ADDAHParams
    presets = {"code": {"logits": True}}
    standards = ("combined", "single-best")
    ranges = {"lr_scale": Range(0.3, 3.0, log=True), "adapt_lr": Range(0.03, 1.0, log=True)}
    relative_cost = 0.85

    def __init__(self, task: Task, hparams: ADDAHParams) -> None:
        super().__init__(task, hparams)
        self.source_encoder, self.source_classifier = task.extractor(), task.classifier()
        self.target_encoder, self.target_classifier = task.extractor("target"), task.classifier("target")
        seen = task.num_classes if hparams.logits else task.feature_dim
        width = min(hparams.hidden, task.feature_dim)
        self.discriminator = task.build("discriminator", lambda: discriminator(seen, (width, width)))

        self.optimisers["source encoder"] = task.optimiser(self.source_encoder, "extractor")
        self.optimisers["source classifier"] = task.optimiser(self.source_classifier, "classifier")
        # the second stage has one rate, its own momentum and no weight decay, as in the release
        spec = task.optimiser_spec
        second: dict[str, Any] = {"lr": hparams.adapt_lr * spec.lr["extractor"], "weight_decay": 0.0}
        if spec.name == "adam":
            second["betas"] = (0.5, 0.999)
        moved = [self.target_encoder, self.target_classifier] if hparams.logits else [self.target_encoder]
        self.optimisers["target"] = task.optimiser([p for m in moved for p in m.parameters()], **second)
        self.optimisers["discriminator"] = task.optimiser(self.discriminator, **second)

    def stages(self) -> list[tuple[str, float]]:
        return [("pretrain", 0.5), ("adapt", 0.5)]

    def begin(self, stage: str, views: Views) -> None:
        """The target network starts as the source network is."""
        if stage == "adapt":
            self.target_encoder.load_state_dict(self.source_encoder.state_dict())
            self.target_classifier.load_state_dict(self.source_classifier.state_dict())

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        return self.pretrain(sources) if self.stage == "pretrain" else self.adapt(sources, target)

    def pretrain(self, sources: Sequence[LabeledBatch]) -> dict[str, Tensor]:
        """One step down the source's cross-entropy."""
        features = self.task.forward_domains([batch.images for batch in sources], self.source_encoder)
        loss = source_loss([self.source_classifier(f) for f in features], sources)
        self.descend(loss, "source encoder", "source classifier")
        return {"source": loss.detach()}

    def adapt(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch) -> dict[str, Tensor]:
        """One step of the discriminator, one of the target network.

        The frozen encoder normalises by the batch and drops out as the target's does: the discriminator is to see
        the difference of the domains, not of the modes.
        """
        with torch.no_grad(), statistics_kept(self.source_encoder):
            real = torch.cat(self.task.forward_domains([batch.images for batch in sources], self.source_encoder))
        fake = self.target_encoder(target.images)
        if self.hparams.logits:
            real, fake = self.source_classifier(real).detach(), self.target_classifier(fake)

        domain = domain_loss(self.discriminator(real), self.discriminator(fake.detach()))
        self.descend(domain, "discriminator")

        scores = self.discriminator(fake)
        fooling = F.binary_cross_entropy_with_logits(scores, torch.ones_like(scores))
        self.descend(fooling, "target")
        return {"domain": domain.detach(), "fooling": fooling.detach()}

    def probabilities(self, images: Tensor) -> Tensor:
        if self.stage == "pretrain":
            return self.source_classifier(self.source_encoder(images)).softmax(1)
        return self.target_classifier(self.target_encoder(images)).softmax(1)

    def embed(self, images: Tensor) -> Tensor:
        return (self.source_encoder if self.stage == "pretrain" else self.target_encoder)(images)
