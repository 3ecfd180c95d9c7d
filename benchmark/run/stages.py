"""The stages of a method and their parts of the budget."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """A stage covers the updates start … stop − 1."""

    name: str
    start: int
    stop: int


def divide(stages: list[tuple[str, float]], updates: int, budget: str) -> list[Stage]:
    """The budget divided among the stages by their shares; `full` gives each stage the whole."""
    if budget == "full":
        return [Stage(name, i * updates, (i + 1) * updates) for i, (name, _) in enumerate(stages)]
    edges = [round(updates * sum(share for _, share in stages[:i])) for i in range(len(stages) + 1)]
    edges[-1] = updates
    return [Stage(name, a, b) for (name, _), a, b in zip(stages, edges, edges[1:], strict=False)]
