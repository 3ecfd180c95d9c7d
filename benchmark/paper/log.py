"""The training curve that a paper's authors released, epoch by epoch, and which of our rows are held against it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark.files import read_toml
from benchmark.paper import printed
from benchmark.paper.folders import DEFAULT


@dataclass(frozen=True)
class LoggedRow:
    """A row of ours: `method:preset` with exactly these changes of its own hyper-parameters."""

    label: str
    name: str
    changes: dict[str, Any]


@dataclass(frozen=True)
class Log:
    """A released curve: accuracy in % after each epoch of `updates` updates, of one suite and target."""

    title: str  # of its origin
    words: str  # what the origin is
    suite: str
    target: str
    updates: int
    accuracy: dict[int, float]
    rows: tuple[LoggedRow, ...]

    def epoch(self, update: int) -> int | None:
        """The epoch that ends with this update; None within one."""
        whole, rest = divmod(update, self.updates)
        return whole - 1 if whole and not rest else None


def log(folder: Path = DEFAULT) -> Log:
    """The released curve of a paper."""
    document = read_toml(folder / "log.toml", "The file")
    origin, suite, target = (str(document[key]) for key in ("origin", "suite", "target"))
    found = printed.elsewhere(folder)
    found = found[(found["origin"] == origin) & (found["suite"] == suite) & (found["target"] == target)]
    points = found[found["quantity"] == "accuracy"]
    epochs = (
        (re.fullmatch(r"epoch (\d+)", at), value) for at, value in zip(points["at"], points["value"], strict=True)
    )
    about = printed.origins(folder).set_index("origin").loc[origin]
    return Log(
        title=str(about["title"]),
        words=str(about["words"]),
        suite=suite,
        target=target,
        updates=int(document["updates"]),
        accuracy={int(epoch[1]): float(value) for epoch, value in epochs if epoch},
        rows=tuple(LoggedRow(row["label"], row["name"], row["changes"]) for row in document["row"]),
    )
