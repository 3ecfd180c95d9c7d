"""CDAN: a discriminator that sees features together with predictions (Long, Cao, Wang, Jordan, NeurIPS 2018).

    h = g ⊗ f, f the feature and g = softmax(logits) held fixed
    min over extractor and classifier, max over discriminator:  CE(source) − λ_p · BCE(D(h))

Where F·C is above 4096, h is a random map of it instead, (f R_f) ⊙ (g R_g) / √d with fixed normal R: the paper's rule,
which the released scripts leave to an option. The random matrices are buffers here; there they are lost with the run.

+E weighs every sample by w = 1 + e^−H(g), each domain's weights adding up to one. `e` holds the weights fixed, as the
authors' later library does. `code` is the release: they have a gradient, with a reversal of its own, so that classifier
and extractor climb the domain loss through the weights too.

The sources together are one domain, the target the other, each with one half of the loss, whatever the batches' sizes
(the release cuts the joint batch in the middle); one discriminator. λ_p, and what a discriminator looks like, are
DANN's: the released ones have dropout and ten times the classifier's rate, the library's have batch norm.

Held against the functions of release and library: losses, weights and the gradient through them, to six digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from methods.contract import HParams, LabeledBatch, Range, UnlabeledBatch
from methods.errors import MethodError, unknown
from methods.explain import Dispute
from methods.layers import discriminator, ramp, reverse_gradient
from methods.one_network import OneNetwork
from methods.source_only import source_loss

if TYPE_CHECKING:
    from benchmark.run.task import Task

LARGEST = 4096  # numbers in a full map, by the paper's rule
MAPS = ("auto", "full", "random")
ENTROPY = ("off", "fixed", "reversed")


@dataclass(frozen=True)
class CDANHParams(HParams):
    """What the discriminator sees, and how strong it is."""

    trade_off: float = 1.0  # factor of λ_p; release: 1
    hidden: int = 1024  # two hidden layers, release (500 on digits); at most the feature's size, as DANN's
    map: str = "auto"  # full: g ⊗ f | random | auto: random where F·C > 4096, the paper's rule
    random_dim: int = 1024  # d of the random map; release: 1024 (500 on digits)
    entropy: str = "off"  # +E: off | fixed weights (the library) | reversed: with a gradient (release) (C1)
    joint_weights: bool = False  # +E: weights of both domains add up together (the library) (C2)


def multilinear(predictions: Tensor, features: Tensor) -> Tensor:
    """h_i = vec(g_i ⊗ f_i), class by class: (N, C), (N, F) → (N, C·F), index c·F + j."""
    return (predictions[:, :, None] * features[:, None, :]).flatten(1)


class RandomMap(nn.Module):
    """(f R_f) ⊙ (g R_g) / √d: predictions (N, C), features (N, F) → (N, d); its entries' products estimate those of g ⊗ f."""

    of_features: Tensor
    of_predictions: Tensor

    def __init__(self, classes: int, features: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("of_predictions", torch.empty(classes, dim))
        self.register_buffer("of_features", torch.empty(features, dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """R ~ N(0, 1)."""
        self.of_predictions.normal_()
        self.of_features.normal_()

    def forward(self, predictions: Tensor, features: Tensor) -> Tensor:
        dim = self.of_features.shape[1]
        return (features @ self.of_features) * (predictions @ self.of_predictions) / math.sqrt(dim)


def certainty(predictions: Tensor, coefficient: float | None = None) -> Tensor:
    """w = 1 + e^−H, H = −Σ_c g_c log(g_c + 1e-5): (N, C) → (N,), between 1 and 2.

    Constant; with a coefficient the gradient of H is there, times −coefficient.
    """
    g = predictions.detach() if coefficient is None else predictions
    h = -(g * (g + 1e-5).log()).sum(1)
    return 1 + (-(h if coefficient is None else reverse_gradient(h, coefficient))).exp()


def weighted_domain_loss(
    source_scores: Tensor, target_scores: Tensor, source_weights: Tensor, target_weights: Tensor, joint: bool = False
) -> Tensor:
    """½ [Σ w_s −log D(s) / Σ w_s + Σ w_t −log(1 − D(t)) / Σ w_t]: scores (N,), (K,), weights (N,), (K,) → 0-d.

    D = sigmoid(score); no gradient through the sums. `joint`: one sum over both domains, Σ w BCE / Σ w. With equal weights
    the first is `layers.domain_loss`.
    """
    source = (source_weights * F.softplus(-source_scores)).sum()
    target = (target_weights * F.softplus(target_scores)).sum()
    s, t = source_weights.detach().sum(), target_weights.detach().sum()
    return (source + target) / (s + t) if joint else (source / s + target / t) / 2


class CDAN(OneNetwork):
    """min CE(S) + BCE(D(R(h))), R the gradient reversal with coefficient λ_p, h = g ⊗ f or its random map."""

    name = "cdan"
    title = "CDAN"
    HParams = CDANHParams
    presets = {"e": {"entropy": "fixed"}, "code": {"entropy": "reversed"}}
    standards = ("combined", "multi-source", "single-best")
    ranges = {
        "lr_scale": Range(0.3, 3.0, log=True),
        "trade_off": Range(0.1, 3.0, log=True),
        "random_dim": Range(choices=(1024, 4096)),
    }
    relative_cost = 1.5
    disputes = (
        Dispute(
            "C1", "Gradient through the weights of +E", "not checked", "yes, reversed; the authors' library: none",
            "ours: none in cdan:e, because a weight that is learned is another method; cdan:code has it",
            {"entropy": "reversed"},
        ),
        Dispute(
            "C2", "Weights of +E add up", "not checked", "in each domain; the library: in both together",
            "release: in each domain, so that each has one half of the loss",
            {"entropy": "fixed", "joint_weights": True},
        ),
        Dispute(
            "C3", "When the map is random", "F·C > 4096", "when asked; any text after --random says yes",
            "paper: where F·C > 4096",
            {"map": "full"},
        ),
        Dispute(
            "C5", "Which rows of a batch are source", "those of the source", "the first half",
            "paper: those of the source; the same where halves are equal",
            settled="domains are told apart by their batches",
        ),
        Dispute(
            "C7", "When the reversal starts", "not checked", "at update 1; on digits after the first epochs",
            "ours: with the budget, λ_p of DANN",
            settled="a ramp of progress",
        ),
        Dispute(
            "C10", "Dropout between feature and discriminator", "not checked", "on digits, and within the discriminator",
            "ours: that of the suite's network and no other, as for DANN",
            settled="layers.discriminator",
        ),
    )  # fmt: skip

    hparams: CDANHParams

    def __init__(self, task: Task, hparams: CDANHParams) -> None:
        if hparams.map not in MAPS:
            raise unknown("value of cdan.map", hparams.map, MAPS)
        if hparams.entropy not in ENTROPY:
            raise unknown("value of cdan.entropy", hparams.entropy, ENTROPY)
        if hparams.random_dim < 1:
            raise MethodError(f"cdan.random_dim is a number of outputs: 1 or more, not {hparams.random_dim}.")
        super().__init__(task, hparams)
        classes, features = task.num_classes, task.feature_dim
        full = classes * features
        self.map: RandomMap | None = None
        if hparams.map == "random" or (hparams.map == "auto" and full > LARGEST):
            self.map = task.build("random-map", lambda: RandomMap(classes, features, hparams.random_dim))
        self.inputs, width = hparams.random_dim if self.map else full, min(hparams.hidden, features)
        self.discriminator = task.build("discriminator", lambda: discriminator(self.inputs, (width, width)))
        self.optimisers["discriminator"] = task.optimiser(self.discriminator, "discriminator")

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        features, f_t = self.forward_all(sources, target)
        logits, z_t = [self.classifier(f) for f in features], self.classifier(f_t)
        source = source_loss(logits, sources)

        coefficient = self.hparams.trade_off * ramp(progress)
        domains = [(torch.cat(features), torch.cat(logits).softmax(1)), (f_t, z_t.softmax(1))]
        s_scores, t_scores = (self._scores(f, g, coefficient) for f, g in domains)
        s_weights, t_weights = (self._weights(g, coefficient) for _, g in domains)
        domain = weighted_domain_loss(s_scores, t_scores, s_weights, t_weights, self.hparams.joint_weights)

        self.descend(source + domain)
        return {"source": source.detach(), "domain": domain.detach()}

    def _scores(self, features: Tensor, predictions: Tensor, coefficient: float) -> Tensor:
        """D(h), the gradient of h reversed: (N, F), (N, C) → (N,)."""
        h = (self.map or multilinear)(predictions.detach(), features)
        return self.discriminator(reverse_gradient(h, coefficient)).squeeze(1)

    def _weights(self, predictions: Tensor, coefficient: float) -> Tensor:
        """(N,), equal without +E."""
        if self.hparams.entropy == "off":
            return predictions.new_ones(len(predictions))
        return certainty(predictions, coefficient if self.hparams.entropy == "reversed" else None)

    def diagnostics(self) -> dict[str, Any]:
        return {"map": "random" if self.map else "full", "map_inputs": self.inputs}

    def remarks(self, diagnostics: Mapping[str, Any]) -> list[str]:
        if diagnostics["map"] == "full":
            return []
        full = self.task.num_classes * self.task.feature_dim
        return [f"its discriminator saw a random map of {self.inputs} numbers, not all {full} of g ⊗ f"]
