"""What the runs of a table were computed on: kinds of machines and precisions that stand together, and whose times are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from benchmark.analysis.table import Cell, words

if TYPE_CHECKING:
    from benchmark.analysis.condition import Condition
    from benchmark.analysis.rows import Entry


def counted(column: pd.Series) -> pd.Series:
    """Values with their numbers of runs, the most frequent first, equals in the order of their names."""
    counts = column.dropna().value_counts()
    return counts.loc[sorted(counts.index, key=lambda value: (-counts[value], str(value)))]


def listed(counts: pd.Series) -> str:
    """The values with their numbers of runs, as words."""
    return ", ".join(f"{value} ({n} runs)" for value, n in counts.items())


def mixed(done: pd.DataFrame) -> list[str]:
    """A sentence where runs of several precisions, or of several kinds of devices with a GPU among them, stand together."""
    said = []
    precisions = counted(done["precision"].replace("", pd.NA))
    if len(precisions) > 1:
        said.append(
            f"Precisions are mixed: {listed(precisions)}. A difference between such rows may be one of rounding."
        )
    on_gpu = done["device"].fillna("").astype(str).str.startswith("cuda")
    kinds = counted(done["hardware"].where(on_gpu, "CPU"))
    if on_gpu.any() and len(kinds) > 1:
        said.append(f"Computed on several kinds of devices, which round differently: {listed(kinds)}.")
    return said


def timed(done: pd.DataFrame) -> tuple[str, str]:
    """The kind of machine with the most runs, and the sentence that says so where there are several."""
    kinds = counted(done["hardware"])
    if kinds.empty:
        return "", ""
    machine, runs = str(kinds.index[0]), int(kinds.iloc[0])
    if len(kinds) == 1:
        return machine, ""
    return machine, f"Times are of the {runs} of {len(done)} runs on {machine}: other machines have other speeds."


def times(entry: Entry, condition: Condition, column: str) -> pd.Series:
    """What each run took, of the kind of machine that most runs ran on: times of different machines are not averaged."""
    alike = entry.done["hardware"].fillna("").astype(str) == condition.machine
    return pd.to_numeric(entry.done.loc[alike, column], errors="coerce").dropna()


def time(entry: Entry, condition: Condition, column: str) -> Cell:
    """The mean of `times`."""
    values = times(entry, condition, column)
    return Cell(value=float(values.mean()), n=len(values)) if len(values) else words("–")
