"""Numbers that others printed, with the table, block, row and column they came from.

A paper's folder has them in `table1.csv` … (tables as printed, `table5.csv` the set-ups), `elsewhere.csv` (released
training logs, public reproduction attempts) and `origins.csv` (what each origin is). Numbers stay text in the files, so
that the printed precision is kept. The folder `rivals` has numbers of systems that the paper left out (`numbers.csv`).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path

import pandas as pd

from benchmark.paper.answers import rows
from benchmark.paper.folders import DEFAULT, RIVALS


def _csv(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / name, dtype=str, keep_default_na=False)


@cache
def _accuracy(folder: Path) -> pd.DataFrame:
    known = {(row.table, row.block, row.row): row for row in rows(folder=folder)}
    frame = pd.concat([_csv(folder, f"table{i}.csv") for i in sorted({key[0] for key in known})], ignore_index=True)
    places = zip(frame["table"].astype(int), frame["block"], frame["row"], strict=True)
    answering = [known.get(place) for place in places]
    names = [row.answers[0] if row and row.answers else "" for row in answering]
    frame["method"] = [name.partition(":")[0] for name in names]
    frame["preset"] = [name.partition(":")[2] for name in names]
    frame["standard"] = [row.standard if row else "" for row in answering]
    frame["split"] = [row.split if row else "" for row in answering]
    frame["printed"] = frame["value"]
    frame["decimals"] = frame["printed"].str.partition(".")[2].str.len()
    frame["table"] = frame["table"].astype(int)
    frame["value"] = frame["value"].astype(float)
    frame["spread"] = pd.to_numeric(frame["spread"])
    return frame


def accuracies(suite: str | None = None, folder: Path = DEFAULT) -> pd.DataFrame:
    """The tables of accuracies, one row a printed number.

    Columns: table suite block row column kind (target | average | gain) value spread, `printed` (the text), `decimals`, and
    `method` `preset` `standard` `split`: the first of our rows that answers it (`answers.rows` has all of them).
    """
    frame = _accuracy(folder)
    return (frame if suite is None else frame[frame["suite"] == suite]).copy()


def setups(folder: Path = DEFAULT) -> pd.DataFrame:
    """Table 5, one row a printed value: table suite row column value."""
    return _csv(folder, "table5.csv")


def elsewhere(folder: Path = DEFAULT) -> pd.DataFrame:
    """Numbers from outside the paper: origin suite method preset split target quantity at value note."""
    frame = _csv(folder, "elsewhere.csv")
    return frame.assign(value=frame["value"].astype(float))


def origins(folder: Path = DEFAULT) -> pd.DataFrame:
    """What each origin is: origin title words."""
    return _csv(folder, "origins.csv")


def rivals(suite: str | None = None) -> pd.DataFrame:
    """Numbers of systems that the paper left out, and of others' Source-Only, one row a number.

    Columns: origin suite answers standard backbone row column kind value spread `printed`. `answers` names our rows that
    may be held against it, `standard` says how it saw the sources, `origin` is explained by `origins(RIVALS)`.
    """
    frame = _csv(RIVALS, "numbers.csv")
    frame = frame.assign(
        printed=frame["value"], value=frame["value"].astype(float), spread=pd.to_numeric(frame["spread"])
    )
    return frame if suite is None else frame[frame["suite"] == suite]


def half_digit(printed: str) -> Decimal:
    """Half of the last printed digit: what rounding hides."""
    return Decimal(1).scaleb(Decimal(printed).as_tuple().exponent) / 2  # type: ignore[arg-type]


@dataclass(frozen=True)
class PrintedAverage:
    """A printed average beside the mean of the printed cells of its row."""

    table: int
    suite: str
    block: str
    row: str
    printed: str
    mean: Decimal

    @property
    def difference(self) -> Decimal:
        """Printed minus mean."""
        return Decimal(self.printed) - self.mean

    @property
    def right(self) -> bool:
        """True if the printed average is the row mean, rounded: off by no more than half of the last printed digit."""
        return abs(self.difference) <= half_digit(self.printed)


def averages(folder: Path = DEFAULT) -> list[PrintedAverage]:
    """All printed averages, in the order of the tables, in exact decimal arithmetic."""
    found = []
    for key, part in _accuracy(folder).groupby(["table", "suite", "block", "row"], sort=False):
        cells = [Decimal(text) for text in part.loc[part["kind"] == "target", "printed"]]
        printed = part.loc[part["kind"] == "average", "printed"].item()
        table, suite, block, row = map(str, key)
        found.append(PrintedAverage(int(table), suite, block, row, printed, sum(cells, Decimal(0)) / len(cells)))
    return found


def wrong_averages(folder: Path = DEFAULT) -> list[PrintedAverage]:
    """The printed averages that are not the mean of their row."""
    return [average for average in averages(folder) if not average.right]
