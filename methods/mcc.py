"""MCC: the classes that a target batch confuses with one another, made fewer (Jin, Wang, Long, Wang, ECCV 2020).

    Y = softmax(Z / T);  w_i = B (1 + e^−H_i) / Σ_j (1 + e^−H_j), no gradient;  K = Yᵀ diag(w) Y
    min over extractor and classifier   CE(source) + μ · [1 − (1/C) Σ_c K_cc / Σ_d K_cd]

Nothing is aligned, and no source enters the second term: it works on any classifier, beside any other loss.

What its value means: k of C classes, predicted with certainty, cost (C − k)/C. A row of K that belongs to a class which
the batch does not have counts as confused with one that it has, so small batches of many classes have a floor which no
training can lower, and whose gradient is next to nothing; what is left has the factor 1/C. `python -m benchmark explain
mcc` has the numbers of a suite.

Held against the function of the authors' library: values and gradients of fixed logits to six digits. Their first
release normalises K by columns (K is symmetric: the same sum), and takes B from its configuration. Not kept: its
bottleneck layer, whose batch norm starts at γ ≈ 0; the sources are concatenated there, the standard `combined` here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from methods.contract import HParams, LabeledBatch, Range, UnlabeledBatch
from methods.errors import MethodError
from methods.explain import Dispute, Explanation, Facts
from methods.layers import full_precision
from methods.one_network import OneNetwork
from methods.source_only import source_loss

if TYPE_CHECKING:
    from benchmark.run.task import Task

MARGIN = 5.0  # of the own class in the reference batch of `explain`


@dataclass(frozen=True)
class MCCHParams(HParams):
    """Hyper-parameters of MCC."""

    temperature: float = 2.5  # T; the authors' library, DomainNet with several sources too; release: 3 on VisDA
    weight: float = 1.0  # μ; release and library: 1; the library takes 10 on DomainNet with one source


def class_confusion(logits: Tensor, temperature: float) -> Tensor:
    """L = 1 − (1/C) Σ_c K_cc / Σ_d K_cd, K = Yᵀ diag(w) Y: target logits (B, C) → 0-d, in [0, 1).

    w_i is proportional to 1 + exp(−H_i), H_i = −Σ_c Y_ic log(Y_ic + 1e-5), its mean 1; it is a constant. A class that has
    the probability 0 for every sample counts as wholly confused, its limit. At least single precision.
    """
    with full_precision(logits.device):
        z = logits.to(torch.promote_types(logits.dtype, torch.float32))
        y = (z / temperature).softmax(1)
        fixed = y.detach()
        w = 1 + (fixed * (fixed + 1e-5).log()).sum(1).exp()
        w = len(w) * w / w.sum()
        k = (w[:, None] * y).T @ y
        rows = k.sum(1).clamp_min(torch.finfo(k.dtype).tiny)
        return 1 - (k.diagonal() / rows).mean()


def histogram(logits: Tensor) -> Tensor:
    """How many samples have each class as their largest logit: (B, C) → (C,) integers."""
    classes = torch.arange(logits.shape[1], device=logits.device)
    return (logits.argmax(1)[:, None] == classes).sum(0)


class MCC(OneNetwork):
    """min CE(S) + μ · class confusion of the target batch."""

    name = "mcc"
    title = "MCC"
    HParams = MCCHParams
    standards = ("combined", "multi-source", "single-best")
    ranges = {
        "lr_scale": Range(0.3, 3.0, log=True),
        "temperature": Range(1.0, 4.0),
        "weight": Range(0.1, 10.0, log=True),
    }
    relative_cost = 1.2
    disputes = (
        Dispute(
            "M2", "B of the weights w", "the batch", "an argument of the script",
            "paper: the samples that are there; the same while batches are full",
            settled="class_confusion counts the rows that it is given",
        ),
        Dispute(
            "M4", "Bottleneck before the classifier", "not checked", "256 features, batch norm that starts at γ ≈ 0",
            "ours: none, because all methods of a suite have one network",
            settled="the suite's network",
        ),
        Dispute(
            "M5", "Weight μ", "not checked", "1; the configuration's entry is never read",
            "release: 1; more where there are many classes, because the gradient has the factor 1/C",
            {"weight": 10.0},
        ),
        Dispute(
            "M6", "Temperature", "not checked", "2.5, and 3 written into the script of VisDA",
            "release: 2.5, which the authors' library has for every set",
            {"temperature": 3.0},
        ),
    )  # fmt: skip

    hparams: MCCHParams
    predicted: Tensor
    present: Tensor
    updates: Tensor

    def __init__(self, task: Task, hparams: MCCHParams) -> None:
        if hparams.temperature <= 0:
            raise MethodError(f"mcc.temperature divides the logits: above 0, not {hparams.temperature:g}.")
        super().__init__(task, hparams)
        self.register_buffer("predicted", torch.zeros(task.num_classes, dtype=torch.int64, device=task.device))
        self.register_buffer("present", torch.zeros((), dtype=torch.int64, device=task.device))  # summed over updates
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64, device=task.device))

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        features, f_t = self.forward_all(sources, target)
        source = source_loss([self.classifier(f) for f in features], sources)
        logits = self.classifier(f_t)
        confusion = class_confusion(logits, self.hparams.temperature)
        self.descend(source + self.hparams.weight * confusion)

        self.predicted.copy_(histogram(logits.detach()))
        present = (self.predicted > 0).sum()
        self.present += present
        self.updates += 1
        return {"source": source.detach(), "confusion": confusion.detach(), "classes_present": present.float()}

    def diagnostics(self) -> dict[str, Any]:
        """Predicted classes of the last target batch, how many there were, and their mean over all updates so far."""
        number, counts = len(self.predicted), self.predicted.tolist()
        mean = self.present.item() / max(self.updates.item(), 1)
        return {
            "predicted": counts,
            "classes_present": sum(count > 0 for count in counts),
            "mean_classes_present": mean,
            "floor": (number - mean) / number,
        }

    def remarks(self, diagnostics: Mapping[str, Any]) -> list[str]:
        found = []
        if diagnostics["floor"] > 0.5:
            found.append(
                "more than half of the classes were predicted for no image of a target batch, on average over the run: "
                "most of the confusion loss is a floor with next to no gradient"
            )
        if diagnostics["classes_present"] == 1:
            found.append("every image of the last target batch was given the same class: predictions have collapsed")
        return found

    @classmethod
    def explain(cls, facts: Facts) -> Explanation:
        """The floor of absent classes and the dilution of the gradient at the suite's C and batch."""
        found = floor(facts)
        return Explanation(words(found), found, partial(draw, found))


# -- before anything is trained ---------------------------------------------------------------------------------------


def floor(facts: Facts) -> dict[str, Any]:
    """What C, B and T imply. Classes are drawn evenly: k, the number of them in a batch, has the mean C (1 − (1 − 1/C)^B)."""
    classes, batch, t = facts.classes, facts.batch, facts.hparams.temperature
    most = min(classes, batch)
    mean = classes * (1 - (1 - 1 / classes) ** batch)
    typical = min(most, round(mean))
    own, other, absent = pushes(classes, typical, batch, t)
    return {
        "suite": facts.suite, "tier": facts.tier, "preset": facts.preset, "classes": classes, "batch": batch,
        "temperature": t, "weight": facts.hparams.weight,
        "most_present": most, "least_floor": (classes - most) / classes,
        "mean_present": mean, "mean_floor": (classes - mean) / classes,
        "uniform": (classes - 1) / classes, "row_weight": 1 / classes, "weight_that_makes_up": classes / mean,
        "margin": MARGIN, "typical_present": typical, "push_own": -own, "push_other": -other, "push_absent": -absent,
    }  # fmt: skip


def pushes(classes: int, present: int, batch: int, temperature: float) -> tuple[float, float, float]:
    """∂L/∂Z of the first of B samples, whose classes go round k present ones, own logit MARGIN, others 0: at its own
    class, at another present one (0 if there is none), at an absent one (0 if there is none)."""
    own = torch.arange(batch) % present
    z = (MARGIN * torch.eye(classes, dtype=torch.float64)[own]).requires_grad_()
    row = torch.autograd.grad(class_confusion(z, temperature), z)[0][0].tolist()
    return row[0], row[1] if present > 1 else 0.0, row[-1] if present < classes else 0.0


def words(f: Mapping[str, Any]) -> list[str]:
    """The numbers of `floor` as sentences."""
    least = f"A batch has at most {f['most_present']} of them: {f['least_floor']:.4f} that no training can lower"
    if f["most_present"] == f["classes"]:
        least = "A batch can have all of them, and no floor"
    pushed = (
        f"In a batch with {f['typical_present']} of the classes, own logit {f['margin']:g} and the others 0, a step pushes an "
        f"image's own logit by {f['push_own']:.2e}, those of other present classes by {f['push_other']:.2e} each"
    )
    if f["typical_present"] < f["classes"]:
        pushed += f", those of absent ones by {f['push_absent']:.2e} each: the floor teaches next to nothing"
    return [
        f"mcc on {f['suite']}, tier {f['tier']}: C = {f['classes']} classes, B = {f['batch']} target images a batch, "
        f"T = {f['temperature']:g}, μ = {f['weight']:g}.",
        "k classes predicted with certainty cost (C − k)/C: rows of absent classes count as confused. Predictions that "
        f"know nothing cost {f['uniform']:.4f}.",
        f"{least}; with evenly drawn classes it has {f['mean_present']:.1f}, and the floor is {f['mean_floor']:.4f}.",
        f"{pushed}.",
        f"The loss is a mean over C rows, which dilutes its gradient: each has the factor 1/C = {f['row_weight']:.4f}, those "
        f"of the {f['mean_present']:.1f} present classes together {1 - f['mean_floor']:.4f}. μ = "
        f"{f['weight_that_makes_up']:.3g} would give them the weight of a mean over present classes.",
    ]


def draw(f: Mapping[str, Any], figure: Any) -> None:
    """Left: the floor by batch size. Right: the pushes on the logits of one sample."""
    left, right = figure.subplots(1, 2)
    classes, batch = f["classes"], f["batch"]
    sizes = sorted({max(1, round(classes * 2 ** (e / 4 - 5))) for e in range(32)} | {batch})
    left.plot(sizes, [(1 - 1 / classes) ** b for b in sizes], label="classes drawn evenly")
    left.plot(sizes, [max(classes - b, 0) / classes for b in sizes], "--", label="each image of another class")
    left.axvline(batch, color="0.5", linestyle=":", label=f"B = {batch}")
    left.set(xscale="log", xlabel="target images a batch", ylabel="floor (C − k)/C", title=f"C = {classes} classes")
    left.legend()
    names = ("own class", "another present", "an absent one")
    right.bar(names, [f["push_own"], f["push_other"], f["push_absent"]])
    right.axhline(0, color="0.5", linewidth=0.6)
    right.set(title=f"push on a logit, margin {f['margin']:g}, T = {f['temperature']:g}", ylabel="−∂L/∂logit")
