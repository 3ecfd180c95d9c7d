"""DCTN: confuse a discriminator a source, vote by their confusion, learn from sure votes (Xu et al., CVPR 2018).

    pretrain        min CE_m of each source's classifier C_m on a shared extractor
    confuse k       discriminators: min their loss L_m; extractor and classifiers: min Σ_m CE_m + confusion of the
                    source with the largest L_m only (online hard domain mining)
    discriminate k  target images on which the vote is sure of a class join every classifier's training set

The vote is Σ_m w_m(x) C_m(x), w_m(x) ∝ perplexity: −log(1 − D_m(x)) + α_m, D_m the probability of "source m", α_m the
mean of −log D_m over source m in the last phase of confusion. The perplexity is our reading of the paper; hard mining
and the weight of the confusion, half of each domain's beside the sum of the CE_m, are the released code's too.

`code` keeps the released Office-31 code where it differs: least-squares discriminators and confusion (D − ½)²; weights
by accumulated discriminator losses, alike for all images; labelling comes before confusion in each round; classifiers
do not move while the extractor confuses. Its eight rounds of 10 : 5 epochs are eight rounds with shares 2 : 1 here.
Not kept: networks that stay in evaluation mode after their first test, so that most epochs run without dropout.

Held against the released Office-31 code: the loss of the least-squares discriminators is exact (there the source is 0
and the target 1, the same with 1 − D for D), and so is that of the phase of confusion, Σ_m CE_m + ½ (confusion on the
source + confusion on the target).

Votes are taken once a phase, by the networks as they stand at its start: batches carry no index, so a copy of extractor
and classifiers is kept and asked again for every batch, which gives the same labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.contract import HParams, LabeledBatch, Method, Range, UnlabeledBatch, Views, frozen
from methods.errors import unknown
from methods.layers import discriminator
from methods.source_only import source_loss

if TYPE_CHECKING:
    from benchmark.run.task import Task

LOSSES = ("cross-entropy", "least-squares")
VOTES = ("perplexity", "accumulated")


@dataclass(frozen=True)
class DCTNHParams(HParams):
    """Hyper-parameters of DCTN."""

    loss: str = "cross-entropy"  # of the discriminators; released code: least-squares
    vote: str = "perplexity"  # how classifiers are weighted; released code: accumulated
    label_first: bool = False  # released code: a round labels, then confuses
    move_classifiers: bool = True  # in the phase of confusion; released code: the extractor alone moves
    confusion_weight: float = 1.0  # of `confusion` beside Σ_m CE_m; released code: 1
    threshold: float = 0.9  # released code: least vote for a pseudo label
    rounds: int = 8  # released code
    pretrain_share: float = 0.2  # ours


def discriminator_loss(source: Tensor, target: Tensor, kind: str) -> Tensor:
    """L = mean ℓ(source is 1) + mean ℓ(target is 0); scores (N, 1), (K, 1) → 0-d.

    cross-entropy: −log D(s) − log(1 − D(t)), D the sigmoid of the score;
    least-squares: (D(s) − 1)² + D(t)², D the score itself.
    """
    if kind == "least-squares":
        return (source - 1).square().mean() + target.square().mean()
    return F.softplus(-source).mean() + F.softplus(target).mean()


def confusion(source: Tensor, target: Tensor, kind: str) -> Tensor:
    """How far the discriminator is from knowing nothing: ½ mean ℓ(source) + ½ mean ℓ(target); (N, 1), (K, 1) → 0-d.

    ℓ, cross-entropy: −½ log D − ½ log(1 − D), least (log 2) at D = ½; least-squares: (D − ½)².
    """
    if kind == "least-squares":
        return ((source - 0.5).square().mean() + (target - 0.5).square().mean()) / 2
    each = [((F.softplus(score) + F.softplus(-score)) / 2).mean() for score in (source, target)]
    return (each[0] + each[1]) / 2


def perplexity_weights(scores: Tensor, concentration: Tensor) -> Tensor:
    """w_m(x) = S_m / Σ_n S_n, S_m = −log(1 − D_m(x)) + α_m: scores (N, M), α (M,) → (N, M), rows sum to one."""
    perplexity = F.softplus(scores) + concentration
    return perplexity / perplexity.sum(1, keepdim=True)


class DCTN(Method):
    """Deep cocktail network."""

    name = "dctn"
    title = "DCTN"
    revision = 2
    HParams = DCTNHParams
    presets = {
        "code": {"loss": "least-squares", "vote": "accumulated", "label_first": True, "move_classifiers": False},
    }
    standards = ("multi-source",)
    ranges = {"lr_scale": Range(0.3, 3.0, log=True), "confusion_weight": Range(0.1, 10.0, log=True)}
    relative_cost = 1.6

    hparams: DCTNHParams
    totals: Tensor
    count: Tensor

    def __init__(self, task: Task, hparams: DCTNHParams) -> None:
        if hparams.loss not in LOSSES:
            raise unknown("loss of dctn", hparams.loss, LOSSES)
        if hparams.vote not in VOTES:
            raise unknown("vote of dctn", hparams.vote, VOTES)
        super().__init__(task, hparams)
        number, width = task.num_sources, min(1024, task.feature_dim)
        self.extractor = task.extractor()
        self.classifiers = nn.ModuleList(task.classifier("main" if m == 0 else f"source-{m}") for m in range(number))
        self.discriminators = nn.ModuleList(
            task.build(f"discriminator-{m}", lambda: discriminator(task.feature_dim, (width, width)))  # as DANN's, ours
            for m in range(number)
        )
        self.labeller = nn.ModuleDict(  # the networks as they stood when the phase of labelling began; never trained
            {
                "extractor": task.extractor("labeller"),
                "classifiers": nn.ModuleList(task.classifier(f"labeller-{m}") for m in range(number)),
            }
        ).requires_grad_(False)
        self.register_buffer("totals", torch.zeros(number, device=task.device))  # of the last phase of confusion:
        self.register_buffer("count", torch.zeros((), device=task.device))  # sums over its updates, and their number
        self.optimisers["extractor"] = task.optimiser(self.extractor, "extractor")
        self.optimisers["classifiers"] = task.optimiser(self.classifiers, "classifier")
        self.optimisers["discriminators"] = task.optimiser(self.discriminators, "classifier")

    def stages(self) -> list[tuple[str, float]]:
        share = (1.0 - self.hparams.pretrain_share) / self.hparams.rounds
        phases = [("confuse", share / 3), ("discriminate", share * 2 / 3)]  # released code: 5 and 10 epochs
        if self.hparams.label_first:
            phases.reverse()
        rounds = [(f"{name}-{k}", part) for k in range(1, self.hparams.rounds + 1) for name, part in phases]
        return [("pretrain", self.hparams.pretrain_share), *rounds]

    def begin(self, stage: str, views: Views) -> None:
        if stage.startswith("confuse"):
            self.totals.zero_()
            self.count.zero_()
        if stage.startswith("discriminate"):
            self.labeller["extractor"].load_state_dict(self.extractor.state_dict())
            self.labeller["classifiers"].load_state_dict(self.classifiers.state_dict())

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        if self.stage.startswith("confuse"):
            return self._confuse(sources, target)
        if self.stage.startswith("discriminate"):
            return self._discriminate(sources, target)
        features = self.task.forward_domains([batch.images for batch in sources], self.extractor)
        loss = self._source_loss(features, sources)
        self.descend(loss, "extractor", "classifiers")
        return {"source": loss.detach()}

    def _confuse(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch) -> dict[str, Tensor]:
        """Multi-way adversarial adaptation."""
        features = self.task.forward_domains([*(batch.images for batch in sources), target.images], self.extractor)
        losses = self._judge(discriminator_loss, [f.detach() for f in features])
        self.descend(losses.sum(), "discriminators")

        source = self._source_loss(features[:-1], sources)
        hardest = losses.detach().argmax(0, keepdim=True)  # kept on the device
        confused = self._judge(confusion, features).gather(0, hardest).squeeze(0)
        moved = ("extractor", "classifiers") if self.hparams.move_classifiers else ("extractor",)
        # The sum of the CE_m, as released: their mean would make the confusion M times as heavy.
        self.descend(len(sources) * source + self.hparams.confusion_weight * confused, *moved)

        with torch.no_grad():
            accumulated = losses if self.hparams.vote == "accumulated" else self._concentration(features[:-1])
            self.totals += accumulated.detach()
            self.count += 1
        return {"source": source.detach(), "discriminator": losses.mean().detach(), "confusion": confused.detach()}

    def _discriminate(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch) -> dict[str, Tensor]:
        """Target discriminative adaptation."""
        self.task.images_forwarded += len(target.images)
        with frozen(self.labeller), torch.no_grad():
            vote = self._vote(self.labeller["extractor"](target.images), self.labeller["classifiers"])
            confidence, labels = vote.max(1)
            sure = confidence >= self.hparams.threshold
        features = self.task.forward_domains([*(batch.images for batch in sources), target.images], self.extractor)
        source = self._source_loss(features[:-1], sources)
        losses = [F.cross_entropy(c(features[-1]), labels, reduction="none") for c in self.classifiers]
        pseudo = (torch.stack(losses).mean(0) * sure).sum() / sure.sum().clamp_min(1)
        self.descend(source + pseudo, "extractor", "classifiers")
        return {"source": source.detach(), "pseudo": pseudo.detach(), "pseudo_labels": torch.where(sure, labels, -1)}

    def _source_loss(self, features: Sequence[Tensor], sources: Sequence[LabeledBatch]) -> Tensor:
        """Mean over the sources of CE_m of their own classifier."""
        return source_loss([c(f) for c, f in zip(self.classifiers, features, strict=True)], sources)

    def _judge(self, loss: Any, features: Sequence[Tensor]) -> Tensor:
        """`loss` of each discriminator on its source and the target, which is last: (M,)."""
        *sources, target = features
        pairs = zip(self.discriminators, sources, strict=True)
        return torch.stack([loss(judge(x), judge(target), self.hparams.loss) for judge, x in pairs])

    def _concentration(self, features: Sequence[Tensor]) -> Tensor:
        """mean −log D_m over the batch of source m: (M,)."""
        pairs = zip(self.discriminators, features, strict=True)
        return torch.stack([F.softplus(-judge(x)).mean() for judge, x in pairs])

    def _vote(self, features: Tensor, classifiers: Any) -> Tensor:
        """Σ_m w_m(x) softmax C_m(x): features (N, F) → (N, C)."""
        mean = self.totals / self.count.clamp_min(1)
        if self.hparams.vote == "accumulated":
            floor = torch.finfo(mean.dtype).eps  # before the first phase of confusion all weigh alike
            weights = ((mean + floor) / (mean + floor).sum()).expand(len(features), -1)
        else:
            scores = torch.cat([judge(features) for judge in self.discriminators], 1)
            weights = perplexity_weights(scores, mean)
        outputs = torch.stack([c(features).softmax(1) for c in classifiers], 1)  # (N, M, C)
        return torch.einsum("nm,nmc->nc", weights, outputs)

    def probabilities(self, images: Tensor) -> Tensor:
        return self._vote(self.extractor(images), self.classifiers)

    def embed(self, images: Tensor) -> Tensor:
        return self.extractor(images)

    def diagnostics(self) -> dict[str, Any]:
        key = "discriminator_losses" if self.hparams.vote == "accumulated" else "concentration"
        return {key: (self.totals / self.count.clamp_min(1)).tolist()}
