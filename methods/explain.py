"""What a method can say of its settings: facts in, an explanation out; and where its sources disagree.

For `python -m benchmark explain`: see `Method.explain` and `Method.disputes` of the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Facts:
    """A method at the settings of a suite: numbers, no images. Arithmetic needs no more; what arithmetic cannot say,
    finished runs may."""

    suite: str
    tier: str
    preset: str
    classes: int
    domains: int  # the target is one of them
    feature_dim: int
    batch: int  # images of one domain in an update
    hparams: Any  # an instance of the method's own HParams
    # finished runs of these settings: `Method.diagnostics` at their end, with tier, target, seed and updates
    runs: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Explanation:
    """What follows from the facts: in words, in numbers, and as a figure if there is something to draw."""

    sentences: list[str]  # in the order in which one would ask
    numbers: Mapping[str, Any]  # the same, fit for JSON
    draw: Callable[[Any], None] | None = None  # into an empty matplotlib Figure, twice as wide as high
    measurable: bool = False  # finished runs add to it: the verb looks for some, and says how to make one


@dataclass(frozen=True)
class Dispute:
    """One disagreement. `changes` are the options that turn our default into the other reading; empty: no computation."""

    id: str
    question: str
    paper: str
    code: str
    decision: str  # "paper: …", "release: …" or "ours: …, because …"
    changes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    settled: str = ""  # where it is settled when it is not an option
