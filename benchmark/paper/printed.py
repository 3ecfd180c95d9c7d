"""Numbers that others printed, with the table, block, row and column they came from.

`table1.csv` … `table5.csv` hold the T-SVDNet paper's tables as printed; `elsewhere.csv` the released training log and
the one public reproduction attempt; `origins.csv` says what each origin is. Numbers stay text in the files, so that
the printed precision is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parent


@cache
def _accuracy() -> pd.DataFrame:
    frames = [pd.read_csv(FOLDER / f"table{i}.csv", dtype=str, keep_default_na=False) for i in (1, 2, 3, 4)]
    frame = pd.concat(frames, ignore_index=True)
    frame["printed"] = frame["value"]
    frame["decimals"] = frame["printed"].str.partition(".")[2].str.len()
    frame["table"] = frame["table"].astype(int)
    frame["value"] = frame["value"].astype(float)
    frame["spread"] = pd.to_numeric(frame["spread"])
    return frame


def accuracies(suite: str | None = None) -> pd.DataFrame:
    """Tables 1–4, one row a printed number.

    Columns: table suite block row method preset standard split column kind (target | average | gain) value spread,
    `printed` (the text) and `decimals`. `method`, `preset`, `standard`, `split` name the run that would measure it;
    Table 2 does not say how its Source-Only saw the sources: it is compared with the multi-source run.
    """
    frame = _accuracy()
    return (frame if suite is None else frame[frame["suite"] == suite]).copy()


def setups() -> pd.DataFrame:
    """Table 5, one row a printed value: table suite row column value."""
    return pd.read_csv(FOLDER / "table5.csv", dtype=str, keep_default_na=False)


def elsewhere() -> pd.DataFrame:
    """Figures from outside the paper: origin suite method preset split target quantity at value note."""
    frame = pd.read_csv(FOLDER / "elsewhere.csv", dtype=str, keep_default_na=False)
    return frame.assign(value=frame["value"].astype(float))


def origins() -> pd.DataFrame:
    """What each origin is: origin title words."""
    return pd.read_csv(FOLDER / "origins.csv", dtype=str, keep_default_na=False)


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
        half = Decimal(1).scaleb(Decimal(self.printed).as_tuple().exponent) / 2  # type: ignore[arg-type]
        return abs(self.difference) <= half


def averages() -> list[PrintedAverage]:
    """All printed averages, in the order of the tables, in exact decimal arithmetic."""
    found = []
    for key, rows in _accuracy().groupby(["table", "suite", "block", "row"], sort=False):
        cells = [Decimal(text) for text in rows.loc[rows["kind"] == "target", "printed"]]
        printed = rows.loc[rows["kind"] == "average", "printed"].item()
        table, suite, block, row = map(str, key)
        found.append(PrintedAverage(int(table), suite, block, row, printed, sum(cells, Decimal(0)) / len(cells)))
    return found


def wrong_averages() -> list[PrintedAverage]:
    """The printed averages that are not the mean of their row."""
    return [average for average in averages() if not average.right]
