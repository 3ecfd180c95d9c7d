"""Where the paper, its released code and the paper itself disagree: D1 … D26, and which option of ours is which reading.

`python -m benchmark explain tsvdnet --choices` prints the list with what to type to measure each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Dispute:
    """One disagreement. `changes` are the options that turn our default into the other reading; empty: no computation."""

    id: str
    question: str
    paper: str
    code: str
    changes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    settled: str = ""  # where it is settled when it is not an option


DISPUTES: tuple[Dispute, ...] = (
    Dispute("D1", "Is the uncertainty-weighted loss used", "yes", "no: commented out", {"uncertainty": "off"}),
    Dispute("D2", "Weight and penalty of +U", "1/σ², log σ", "1/(s²+0.1), ½·log(1+s²)", {"uncertainty": "commented"}),
    Dispute("D3", "What is taken from a singular value", "λ/η", "(λ/η)·n3/(σ+1e-5)", {"prox": "code"}),
    Dispute("D4", "How often a frequency is shrunk", "once", "the top pair twice", {"repeat_top": True}),
    Dispute("D5", "Distance in the kernel", "sum over features", "mean over features", {"distance": "sum"}),
    Dispute("D6", "Which predictions are confident", "p > τ", "entropy < 0.7", {"pseudo": "probability"}),
    Dispute("D7", "How often A and η are updated", "every iteration", "every 16", {"aux_every": 16}),
    Dispute("D8", "Source losses", "mean over sources", "sum", {"source_loss": "sum"}),
    Dispute("D9", "Cross-entropy of prototypes", "none", "added, weight 1", {"prototype_loss": True}),
    Dispute("D10", "Entropy minimisation on", "the target", "confident samples", {"entropy": "all", "entropy_mean": "samples"}),
    Dispute("D11", "L2-normalised features", "not mentioned", "in training only", {"normalise": "training"}),
    Dispute("D12", "Images of a split", "25,000 / 9,000", "differ by domain", settled="the data: split part or all"),
    Dispute("D13", "Which epoch is reported", "unstated", "best on target test labels", settled="selection rules, oracle beside"),
    Dispute("D14", "Weight α of the new class mean", "unstated", "0.5", {"alpha": 0.9}),
    Dispute("D15", "Is the low-rank constraint active", "described so", "A = 0", {"lam_rule": "active"}),
    Dispute("D16", "A at the start", "random", "zero", {"a_init": "random"}),
    Dispute("D17", "Heads of ResNets", "own rate", "one rate, an extra layer", {"single_lr": True, "extra_linear": True}),
    Dispute("D18", "Is μ_max of Table 5 the η_max of the text", "two names", "max_mu", settled="read as η_max, see the escape"),
    Dispute("D19", "Sum in the likelihood of Eq. 12", "without the true class", "with it", {"uncertainty": "printed"}),
    Dispute("D20", "Warm-up of the tensor term", "small η", "and a gate", {"gate": False}),
    Dispute("D21", "Sign of σ", "unconstrained", "raw linear output", {"sigma_link": "raw"}),
    Dispute("D22", "Floor of σ²", "none: unbounded loss", "0.1", {"sigma_floor": 0.01}),
    Dispute("D23", "Transpose of a tensor", "reverses all slices", "keeps the first", settled="tensor.t_transpose keeps it"),
    Dispute("D24", "V^T of a complex slice", "transpose", "conjugate transpose", settled="tensor.shrink takes the conjugate"),
    Dispute("D25", "Back from the rotation", "rotate", "inverse rotation", settled="tensor.unrotate is the inverse"),
    Dispute("D26", "Numbers that no text gives", "α, τ, weight of +E", "0.5, –, 1", {"entropy_weight": 0.1}),
)  # fmt: skip
