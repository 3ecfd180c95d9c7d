"""Which rows a table was asked for: by name or group; rows that read the runs of another; rows that the paper lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from benchmark.errors import unknown
from benchmark.paper import answers
from benchmark.plan import split_name, wanted_rows
from benchmark.records.selection import column_of
from methods import BUILT_IN
from methods.groups import GROUPS, READINGS, trained

WORDS = ("all", "default", *GROUPS)
_NAMES = [name for name, _, _ in BUILT_IN]


def only(frame: pd.DataFrame, words: Sequence[str], *, read: bool = False) -> pd.DataFrame:
    """The runs of the rows that the words name: `method[:preset]`, `upper-bound`, or a group; `all` keeps every run.

    A name without runs is a mistake; a group has the rows that there are. With `read`, rows that read another row's runs
    are rows of their own; without, the other row stands for them.
    """
    tokens = {word: wanted_rows([word]) for word in words}
    if read:
        frame = with_readings(frame, [name for found in tokens.values() for name, _ in found if name in READINGS])
    if "all" in words:
        return frame
    rows = list(zip(frame["method"].astype(str), _presets(frame), frame["standard"].astype(str), strict=True))
    keep: set[tuple[str, str, str]] = set()
    for word, found in tokens.items():
        named = [(split_name(name if read else trained(name)), standard) for name, standard in found]
        own = {row for row in rows if any(_is(row, name, standard) for name, standard in named)}
        if not own and word not in WORDS:
            held = dict.fromkeys(f"{method}:{preset}".rstrip(":") for method, preset, _ in rows)
            raise unknown("row with runs here", word, held, f"Groups: {', '.join(WORDS)}.")
        keep |= own
    return frame[[row in keep for row in rows]]


def with_readings(frame: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """The runs, and for each named row that reads another's runs a copy of those under its own name.

    The column `read_with` holds its statistics; finished runs that were never scored with them are not copied.
    """
    parts = [frame]
    for name in dict.fromkeys(names):
        reading = READINGS[name]
        of = (frame["method"] == reading.of) & (_presets(frame) == "") & (frame["standard"] != "upper-bound")
        scored = frame[column_of("last", reading.statistics)].notna() | (frame["status"] != "done")
        copy = frame[of & scored]
        parts += [copy.assign(method=name, title=reading.title, read_with=reading.statistics)] if len(copy) else []
    return pd.concat(parts, ignore_index=True) if len(parts) > 1 else frame


def present(frame: pd.DataFrame, words: Iterable[str]) -> list[str]:
    """The words as names of rows, of a group those that have finished runs."""
    done = frame[frame["status"] == "done"]
    held = {f"{method}:{preset}".rstrip(":") for method, preset in zip(done["method"], _presets(done), strict=True)}
    names: list[str] = []
    for word in words:
        found = [trained(name) for name, standard in wanted_rows([word]) if not standard]
        names += [name for name in found if name in held] if word in WORDS else found
    return list(dict.fromkeys(names))


def outside_the_paper(method: str) -> list[str]:
    """The footnote of a built-in system that the paper's tables do not have; a user's own needs none."""
    if method in answers.systems() or (method not in READINGS and method not in _NAMES):
        return []
    said = f"Not a system of the {answers.own_method()[1]} paper's tables"
    if method in READINGS:
        reading = READINGS[method]
        said += f": the runs of {reading.of}, read with batch-norm statistics of the {reading.statistics}"
    return [f"{said}."]


def _presets(frame: pd.DataFrame) -> pd.Series:
    return frame["preset"].fillna("").astype(str)


def _is(row: tuple[str, str, str], name: tuple[str, str], standard: str) -> bool:
    """Whether a run's method, preset and standard are those of a wanted row; an upper bound only by its own word."""
    return row[:2] == name and (row[2] == "upper-bound") == (standard == "upper-bound")
