"""The audit of LtC-MSDA's graph: at these settings, can an edge between two prototypes be anything but zero?

Arithmetic where it is arithmetic: an edge is exp(−δ / 2σ²), so a bound on δ follows from σ alone, and two class means of
one and the same distribution differ by their sampling noise already. How far prototypes really are apart is measured:
finished runs say it (`Facts.runs`). Beside it, the disagreements L1 … L13 between the paper and the released code.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from methods.explain import Dispute, Explanation, Facts

LIVE = 1e-3  # an edge above it is alive
# of a unit behind batch norm (scale 1, shift 0) and ReLU, for a normal input: E x² = ½, variance ½ − 1/(2π)
MEAN_SQUARE = 0.5
VARIANCE = 0.5 - 0.5 / math.pi
UNCHECKED = "from memory of it, not checked: no text of the paper could be had"

DISPUTES: tuple[Dispute, ...] = (
    Dispute(
        "L1", "Gradient through prototypes of the graph", "not said", "into the activations of the update before",
        "ours: none, because the release sends it through weights that have changed since, which torch refuses from "
        "version 1.5 on; the losses of the graph train its network and, through each query, the extractor",
        settled="the graph takes prototypes and adjacency as constants; both relation losses keep their gradient",
    ),
    Dispute(
        "L2", "Width σ of the kernel", f"0.005 ({UNCHECKED})", "0.005",
        "ours: 0.2, because at 0.005 every edge underflows to zero on features behind batch norm and ReLU",
        {"sigma": 0.005},
    ),
    Dispute(
        "L3", "Weight of the local loss", f"0.001 ({UNCHECKED})", "0.01",
        "release: 0.01",
        {"local_weight": 0.001},
    ),
    Dispute(
        "L4", "Local loss", f"samples against prototypes ({UNCHECKED})", "class means against prototypes",
        "release: class means",
        settled="local_loss compares class means: a row of the printed form would rest on memory alone",
    ),
    Dispute(
        "L5", "Global loss", f"all pairs of blocks, Frobenius norms ({UNCHECKED})", "three squared differences a pair",
        "release: three squared differences a pair of domains",
        settled="global_loss has the release's form: a row of the printed one would rest on memory alone",
    ),
    Dispute(
        "L6", "Which prototypes the graph has", "not said", "the last update's; its source-only mode has this one's",
        "ours: this update's, as the release's own source-only mode",
        {"lagged": True},
    ),
    Dispute(
        "L7", "Prototypes that no image has reached yet", "not said", "zero vectors, nodes like all others",
        "ours: no node, because the similarity of zero vectors is one: until the target's first pseudo labels a live global "
        "loss would draw the classes of every source together",
        {"count_unseen": True},
    ),
    Dispute(
        "L8", "Absent class, certain prediction", "not said", "mean sums to exactly 0; 0·log 0 = NaN, sample dropped",
        "ours: a class is absent when no image has its label; 0·log 0 = 0 and the sample is kept",
        settled="class_means counts, pseudo_labels has no NaN",
    ),
    Dispute(
        "L9", "Degree of a node", "not said", "plain sums: logits grow with the number of nodes",
        "ours: rows of the adjacency sum to one, because in a live graph a query would be one of fifty terms",
        {"degree": "sum"},
    ),
    Dispute(
        "L9b", "Do prototypes collect from the queries of a batch", "not said", "yes, in training and at test",
        "ours: no, because a prediction would depend on which images share its batch; at test never, whatever this says",
        {"two_way": True},
    ),
    Dispute(
        "L10", "Mean of the target's entropy", "not said", "over samples and classes: 1/C of the usual",
        "release: over samples and classes",
        {"entropy_mean": "samples"},
    ),
    Dispute(
        "L11", "Test set", "each image once", "part of it counted more than once",
        "paper: each image once",
        settled="the evaluator scores every image once, for all methods",
    ),
    Dispute(
        "L12", "End of the training script", "–", "starts a monitor that never returns",
        "ours: none",
        settled="no computation",
    ),
    Dispute(
        "L13", "What a prediction needs", "–", "prototypes and adjacency, in checkpoints only",
        "release: both are state",
        settled="buffers of the method, saved with it",
    ),
)  # fmt: skip


def explain(facts: Facts) -> Explanation:
    """The audit in words, in numbers and as a figure."""
    found = audit(facts)
    return Explanation(
        words(facts, found), {**found, "runs": list(facts.runs)}, functools.partial(draw, facts, found), measurable=True
    )


def audit(facts: Facts) -> dict[str, Any]:
    """The numbers that follow from the settings alone."""
    h, classes, domains = facts.hparams, facts.classes, facts.domains
    width = 2 * h.sigma**2
    images = max(1.0, facts.batch / classes)  # of a class that is in the batch
    # of two averages with weights (1 − β) β^k over batch means of n images: twice the variance of one
    noise = 2 * VARIANCE * (1 - h.beta) / (1 + h.beta) / images
    return {
        "sigma": h.sigma,
        "prototypes": classes * domains,
        "delta_of_a_live_edge": -math.log(LIVE) * width,
        "rms_of_a_live_edge": math.sqrt(-math.log(LIVE) * width),
        "images_a_class": images,
        "delta_of_noise": noise,
        "edge_of_noise": math.exp(-noise / width),
        "noise_exponent": noise / width,
        "sigma_of_noise": math.sqrt(noise / (-2 * math.log(LIVE))),
        "global_loss_dead": 4 / (3 * classes),
        "global_loss_no_target": no_target(classes, domains),
        "dead_by_noise": math.exp(-noise / width) < LIVE,
    }


def no_target(classes: int, domains: int) -> float:
    """The global loss of a dead graph whose target has no prototype yet, counted as zero vectors: a block of ones (L7)."""
    c, d = classes, domains
    pair, with_target = 2 * c, (c * c - c) + c + c * c  # Σ of the three squares of an ordered pair
    return 2 / (3 * d * (d - 1)) * ((d - 1) * (d - 2) * pair + 2 * (d - 1) * with_target) / c**2


def words(facts: Facts, a: Mapping[str, Any]) -> list[str]:
    """The audit as sentences, in the order in which one would ask."""
    h = facts.hparams
    lines = [
        f"ltc-msda{':' + facts.preset if facts.preset else ''} on {facts.suite}, tier {facts.tier}: {facts.classes} classes in "
        f"{facts.domains} domains are {a['prototypes']} prototypes of {facts.feature_dim} features; an edge between two is "
        f"exp(−δ/2σ²), δ the mean of their squared differences, σ = {h.sigma:g}.",
        f"The border: an edge exceeds {LIVE:g} only if δ < {-math.log(LIVE):.1f}·2σ² = {a['delta_of_a_live_edge']:.2g}, a "
        f"difference of {a['rms_of_a_live_edge']:.2g} a unit; a unit behind batch norm and ReLU has {MEAN_SQUARE**0.5:.2f} (root "
        "mean squares).",
        f"The noise: two class means of the same distribution, of {a['images_a_class']:.3g} images a batch and averaged with "
        f"β = {h.beta:g}, differ by about δ = {a['delta_of_noise']:.2g}, an edge of exp(−{a['noise_exponent']:.3g}) = "
        f"{a['edge_of_noise']:.2g}; from σ = {a['sigma_of_noise']:.2g} on it is above {LIVE:g}.",
    ]
    dead = (
        "a query collects from itself alone, the graph network is a plain two-layer head, the global loss the "
        f"constant 4/(3C) = {a['global_loss_dead']:.4g} (× {h.global_weight:g} = {h.global_weight * a['global_loss_dead']:.4g}) "
        "without gradient."
    )
    if a["dead_by_noise"]:
        lines.append(
            f"So noise alone kills every edge, before any difference of classes or domains: {dead} Only features that shrink to "
            "less than the border in a long run could bring an edge to life: measure it."
        )
        if h.count_unseen:
            lines.append(
                "Until the target's first pseudo label its block is all ones (zero vectors are equal): the global loss is "
                f"{a['global_loss_no_target']:.4g}, × {h.global_weight:g} = {h.global_weight * a['global_loss_no_target']:.4g}, "
                "without gradient too."
            )
    else:
        lines.append(
            f"So an edge can live: noise does not kill it, a difference of classes or domains may. If all die, {dead}"
        )
    tiers = dict.fromkeys(run["tier"] for run in facts.runs)
    return lines + [run_words([run for run in facts.runs if run["tier"] == tier]) for tier in tiers]


def run_words(runs: Sequence[Mapping[str, Any]]) -> str:
    """One sentence on the finished runs of a tier: the range of each number over them."""

    def span(key: str, form: str, times: float = 1.0) -> str:
        values = sorted(times * run[key] for run in runs if run[key] is not None)
        ends = [format(values[i], form) for i in (0, -1)] if values else ["–"]
        return " to ".join(dict.fromkeys(ends))

    targets = ", ".join(dict.fromkeys(run["target"] for run in runs))
    return (
        f"Measured in {len(runs)} run{'s' * (len(runs) > 1)} of tier {runs[0]['tier']} (→ {targets}; {span('updates', 'g')} "
        f"updates): {span('live_edges', '.2f', 100)} % of the edges between prototypes alive at the end, "
        f"{span('live_edges_most', '.2f', 100)} % at the most; median δ {span('delta_same_class', '.2g')} between domains of a "
        f"class, {span('delta_other_class', '.2g')} between classes; global loss {span('global_loss', '.4f')}; pseudo labels "
        f"for {span('share_confident', '.0f', 100)} % of the target's images."
    )


def draw(facts: Facts, a: Mapping[str, Any], figure: Any) -> None:
    """An edge against δ, with the border, the noise and what runs measured, into a matplotlib Figure."""
    axes, width = figure.subplots(), 2 * facts.hparams.sigma**2
    deltas = [10 ** (-5 + i / 100) for i in range(601)]
    axes.plot(
        deltas, [math.exp(-d / width) for d in deltas], color="black", label=f"exp(−δ/2σ²), σ = {facts.hparams.sigma:g}"
    )
    axes.axvspan(deltas[0], a["delta_of_a_live_edge"], color="tab:green", alpha=0.1, label=f"an edge above {LIVE:g}")
    axes.axvline(a["delta_of_noise"], color="tab:red", ls="--", label="noise of class means alone")
    kinds = (("delta_same_class", "o", "a class in two domains"), ("delta_other_class", "x", "two classes"))
    for key, marker, what in kinds:
        found = [run[key] for run in facts.runs if run[key] is not None]
        if found:
            axes.plot(found, [math.exp(-d / width) for d in found], marker, color="tab:blue", label=f"measured: {what}")
    axes.set(xscale="log", xlabel="δ, mean squared difference of two prototypes", ylabel="edge")
    axes.legend(fontsize="small")
    name = f"ltc-msda{':' + facts.preset if facts.preset else ''}"
    verdict = "noise alone kills every edge" if a["dead_by_noise"] else "an edge can live"
    figure.suptitle(f"{name} on {facts.suite} ({facts.tier}): {verdict}")
