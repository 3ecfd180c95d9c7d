"""MDDA: a target encoder a source, classifiers distilled on the nearest source images (Zhao et al., AAAI 2020).

    1 pretrain   encoder E_m and classifier C_m of each source: min CE
    2 adapt      target encoder T_m ← E_m, E_m frozen, critic D_m: min over T_m, max over 1-Lipschitz D_m (WGAN-GP) of
                 E D_m(E_m x_m) − E D_m(T_m x_T)
    3 distil     C_m again, on the half of source m with the least |D_m(E_m x) − mean D_m(T_m x_T)|, encoders frozen
    4 combine    Σ_m w_m softmax C_m(T_m x),  w_m ∝ exp(−d_m² / 2),  d_m = |mean D_m(E_m x_m) − mean D_m(T_m x_T)|

The fourth stage trains nothing: its weights follow from encoders and critics, which are final when stage 3 begins.
Batches carry no index, so the nearest half is kept as a threshold, the median score of a full pass: an image is
distilled on when its own score is below. While T_m adapts, it normalises by the target's batches and drops nothing out;
E_m is in evaluation mode, so the critic compares two deterministic encoders, each normalised by its own domain.

How far stage 2 may go: under Adam a weight moves by about learning rate × steps at most, in the released code 1e-7 ×
5,000 = 5e-4 for an encoder and 1e-5 × 5,000 = .05 for a critic. These movements are the hyper-parameters, and the rates
follow from the steps that stage 2 has, so that it goes as far at every tier and budget. The target encoders hardly
leave the source encoders: most of what stage 2 changes is whose batch-norm statistics they carry.

`code` is the released code where it differs: the interpolation of the gradient penalty is drawn for each element, one
critic step an update, stage 3 trains on features of the adapted target encoder, and stage 4 adds weighted logits. Not
kept: the encoder's step before the critic's, dropout in stage 2, a critic trained before the last ReLU and applied
after it, batch statistics at test time, momentum SGD in stages 1 and 3, iterations set by hand for each source.

Held against the released code (TensorFlow) by reading: losses, widths, slope, rates and steps of stage 2. It was not
run beside ours: its data were never published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

CHOICES = {
    "interpolation": ("sample", "element"),
    "distil_on": ("source", "target"),
    "combine": ("probabilities", "logits"),
}


@dataclass(frozen=True)
class MDDAHParams(HParams):
    """Hyper-parameters of MDDA."""

    encoder_movement: float = 5e-4  # of a weight in all of stage 2, rate × steps; released code: 1e-7 × 5,000
    critic_movement: float = 0.05  # likewise, its own steps counted; released code: 1e-5 × 5,000
    critic_steps: int = 2  # ours, released code: 1; features are computed once for all of them
    penalty: float = 10.0  # released code, and WGAN-GP's authors
    interpolation: str = "sample"  # one coefficient a sample; released code: one an element
    distil_on: str = "source"  # features of which encoder stage 3 trains on; released code: the adapted target encoder
    combine: str = "probabilities"  # what stage 4 adds up; released code: logits
    pretrain_share: float = 0.4  # ours, near the released code's 3,000 : 5,000 : 30–500 iterations
    adapt_share: float = 0.5  # ours, likewise; distilling has the rest


def gradient_penalty(critic: Callable[[Tensor], Tensor], x: Tensor, y: Tensor, epsilon: Tensor) -> Tensor:
    """mean_i (‖∇D(z_i)‖_2 − 1)², z = ε x + (1 − ε) y; x, y (N, F), ε (N, 1) or (N, F) → 0-d, differentiable."""
    z = (epsilon * x + (1 - epsilon) * y).detach().requires_grad_(True)
    (gradient,) = torch.autograd.grad(critic(z).sum(), z, create_graph=True)
    return (torch.linalg.vector_norm(gradient, dim=1) - 1).square().mean()


def combination_weights(distances: Tensor) -> Tensor:
    """w_m = exp(−d_m²/2) / Σ_n exp(−d_n²/2): (M,) → (M,). The smallest distance weighs most, however large all are."""
    return torch.softmax(-distances.square() / 2, 0)


class MDDA(Method):
    """Multi-source distilling domain adaptation."""

    name = "mdda"
    title = "MDDA"
    revision = 3
    HParams = MDDAHParams
    presets = {
        "code": {
            "interpolation": "element",
            "distil_on": "target",
            "combine": "logits",
            "critic_steps": 1,
        }
    }
    standards = ("multi-source",)
    ranges = {
        "lr_scale": Range(0.3, 3.0, log=True),
        "encoder_movement": Range(1e-4, 0.1, log=True),
        "critic_movement": Range(0.01, 1.0, log=True),
    }
    card = True
    relative_cost = 2.0

    hparams: MDDAHParams
    weights: Tensor
    distances: Tensor
    target_scores: Tensor
    thresholds: Tensor

    def __init__(self, task: Task, hparams: MDDAHParams) -> None:
        for key, allowed in CHOICES.items():
            if getattr(hparams, key) not in allowed:
                raise unknown(f"{key} of mdda", getattr(hparams, key), allowed)
        super().__init__(task, hparams)
        number, width = task.num_sources, task.feature_dim
        self.encoders = nn.ModuleList(task.extractor(f"source-{m}") for m in range(number))
        self.classifiers = nn.ModuleList(task.classifier(f"source-{m}") for m in range(number))
        self.target_encoders = nn.ModuleList(task.extractor(f"target-{m}") for m in range(number))
        self.critics = nn.ModuleList(task.build(f"critic-{m}", lambda: _critic(width)) for m in range(number))
        for name, value in (("weights", 1 / number), ("distances", 0.0), ("target_scores", 0.0), ("thresholds", 0.0)):
            self.register_buffer(name, torch.full((number,), value, device=task.device))
        self.optimisers["encoders"] = task.optimiser(self.encoders, "extractor")
        self.optimisers["classifiers"] = task.optimiser(self.classifiers, "classifier")
        adversarial: dict[str, Any] = {"kind": "adam", "betas": (0.5, 0.9), "weight_decay": 0.0}  # released code
        steps = max(1, task.updates(self.stages(), "adapt"))
        rates = {
            "target_encoders": hparams.encoder_movement / steps,
            "critics": hparams.critic_movement / (steps * hparams.critic_steps),
        }
        for name, rate in rates.items():
            self.optimisers[name] = task.optimiser(getattr(self, name), lr=rate, **adversarial)

    def stages(self) -> list[tuple[str, float]]:
        pretrain, adapt = self.hparams.pretrain_share, self.hparams.adapt_share
        return [("pretrain", pretrain), ("adapt", adapt), ("distil", 1.0 - pretrain - adapt)]

    def begin(self, stage: str, views: Views) -> None:
        if stage == "adapt":
            for encoder, target_encoder in zip(self.encoders, self.target_encoders, strict=True):
                target_encoder.load_state_dict(encoder.state_dict())
        if stage == "distil":
            self._measure(views)

    def _measure(self, views: Views) -> None:
        """Full passes: distances and combination weights, and the median score of each source."""
        with frozen(self):
            scores = [
                torch.cat([self._score(m, batch.images) for batch in source]) for m, source in enumerate(views.sources)
            ]
            target = [
                torch.stack([d(t(b.images)).sum() for d, t in zip(self.critics, self.target_encoders, strict=True)])
                for b in views.target
            ]
        self.task.images_forwarded += (len(target[0]) - 1) * len(views.target)  # handed out once, read by all encoders
        self.target_scores.copy_(torch.stack(target).sum(0) / len(views.target))
        for m, score in enumerate(scores):
            self.distances[m] = (score.mean() - self.target_scores[m]).abs()
            self.thresholds[m] = (score - self.target_scores[m]).abs().median()
        self.weights.copy_(combination_weights(self.distances))

    def _score(self, m: int, images: Tensor) -> Tensor:
        """D_m(E_m x) of source images: (N,)."""
        return self.critics[m](self.encoders[m](images)).squeeze(1)

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        if self.stage == "pretrain":
            return self._pretrain(sources)
        if self.stage == "adapt":
            return self._adapt(sources, target)
        return self._distil(sources)

    def _pretrain(self, sources: Sequence[LabeledBatch]) -> dict[str, Tensor]:
        """Stage 1: each source on its own."""
        pairs = zip(self.encoders, self.classifiers, sources, strict=True)
        loss = source_loss([c(e(batch.images)) for e, c, batch in pairs], sources)
        self.descend(loss, "encoders", "classifiers")
        return {"source": loss.detach()}

    def _adapt(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch) -> dict[str, Tensor]:
        """Stage 2: critics tell E_m(x_m) from T_m(x_T), target encoders close the gap."""
        fixed = [self._fixed(encoder, batch.images) for encoder, batch in zip(self.encoders, sources, strict=True)]
        moving = [_without_dropout(encoder)(target.images) for encoder in self.target_encoders]
        for _ in range(self.hparams.critic_steps):
            gaps, penalties = self._gaps(fixed, [t.detach() for t in moving]), self._penalties(fixed, moving)
            self.descend((self.hparams.penalty * penalties - gaps).sum(), "critics")
        distances = self._gaps(fixed, moving)
        self.descend(distances.sum(), "target_encoders")  # the source's half of the gap has no gradient here
        return {"wasserstein": distances.mean().detach(), "penalty": penalties.mean().detach()}

    def _gaps(self, fixed: Sequence[Tensor], moving: Sequence[Tensor]) -> Tensor:
        """mean D_m(source) − mean D_m(target), the dual form of the Wasserstein distance: (M,)."""
        triples = zip(self.critics, fixed, moving, strict=True)
        return torch.stack([critic(s).mean() - critic(t).mean() for critic, s, t in triples])

    def _penalties(self, fixed: Sequence[Tensor], moving: Sequence[Tensor]) -> Tensor:
        penalties = []
        for critic, s, t in zip(self.critics, fixed, moving, strict=True):
            rows = min(len(s), len(t))
            width = s.shape[1] if self.hparams.interpolation == "element" else 1
            epsilon = torch.rand(rows, width, device=s.device)
            penalties.append(gradient_penalty(critic, s[:rows], t[:rows], epsilon))
        return torch.stack(penalties)

    def _distil(self, sources: Sequence[LabeledBatch]) -> dict[str, Tensor]:
        """Stage 3: classifiers once more, on the images nearest to the target."""
        losses, kept = [], []
        for m, batch in enumerate(sources):
            features = self._fixed(self.encoders[m], batch.images)
            with torch.no_grad():
                score = self.critics[m](features).squeeze(1)
                near = ((score - self.target_scores[m]).abs() <= self.thresholds[m]).to(features.dtype)
            if self.hparams.distil_on == "target":
                features = self._fixed(self.target_encoders[m], batch.images)
            loss = F.cross_entropy(self.classifiers[m](features), batch.labels, reduction="none")
            losses.append((near * loss).sum() / near.sum().clamp_min(1))
            kept.append(near.mean())
        loss = torch.stack(losses).mean()
        self.descend(loss, "classifiers")
        return {"distil": loss.detach(), "kept": torch.stack(kept).mean()}

    def _fixed(self, encoder: nn.Module, images: Tensor) -> Tensor:
        """Features of a frozen encoder: evaluation mode, no gradient, nothing of it moves. The pass is counted."""
        self.task.images_forwarded += len(images)
        with frozen(encoder):
            return encoder(images)

    def probabilities(self, images: Tensor) -> Tensor:
        """Σ_m w_m softmax C_m(encoder_m x): source encoders in stage 1, target ones after; w uniform until stage 3."""
        encoders = self.encoders if self.stage == "pretrain" else self.target_encoders
        logits = torch.stack([c(e(images)) for e, c in zip(encoders, self.classifiers, strict=True)])  # (M, N, C)
        if self.hparams.combine == "logits":
            return torch.einsum("m,mnc->nc", self.weights, logits).softmax(1)
        return torch.einsum("m,mnc->nc", self.weights, logits.softmax(2))

    def diagnostics(self) -> dict[str, Any]:
        return {"weights": self.weights.tolist(), "distances": self.distances.tolist()}


def _critic(width: int) -> nn.Module:
    """(N, width) → (N, 1): the released code's 3000-2000-1000 at 2048 features, narrower with narrower features.

    No bias at the end: a difference of two means cannot see it, so nothing would ever train it.
    """
    *hidden, last = [max(16, round(n * width / 2048)) for n in (3000, 2000, 1000)]
    slope = 0.1  # released code: tflearn's default
    body = discriminator(width, hidden, last, slope)
    return nn.Sequential(body, nn.LeakyReLU(slope), nn.Linear(last, 1, bias=False))


def _without_dropout(module: nn.Module) -> nn.Module:
    """The module in training mode (batch statistics) with its dropout off."""
    module.train()
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.eval()
    return module
