"""Records for the rest of the world: one table of all runs (Parquet, CSV), or their curves for a tracker (TensorBoard, …)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark import records
from benchmark.errors import UserError, unknown
from benchmark.files import replacing
from benchmark.records import track


def write(results: Path | str, format: str, out: Path | None = None) -> Path:
    """Export all runs below `results`; gives the file or folder that was written."""
    place = out or Path(results) / default(format)
    frame = records.load(results)
    if frame.empty:
        raise UserError(f"There are no records in {results} to export. Type: python -m benchmark run --suite digits")
    if format in FORMATS:
        return FORMATS[format][1](frame, place)
    return to_tracker(_tracker(format), frame, place)


def default(format: str) -> str:
    """The name of what is written when none is given."""
    if format in FORMATS:
        return f"export{FORMATS[format][0]}"
    return f"export-{_tracker(format).rpartition(':')[2]}"


def _tracker(name: str) -> str:
    """A format that is a tracker; the sentence for an unknown one names the tables too."""
    if ".py:" not in name and name not in track.known():
        raise unknown("export format", name, [*FORMATS, *track.known()])
    return track.check([name])[0]


def flat(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a run, plain columns: lists as text, changed hyper-parameters as columns `set.KEY`."""
    overrides = [_overrides(text) for text in frame["overrides"]]
    keys = sorted({key for pairs in overrides for key in pairs})
    plain = frame.drop(columns=["overrides"]).reset_index(drop=True)
    for key in keys:
        plain[f"set.{key}"] = [str(pairs[key]) if key in pairs else None for pairs in overrides]
    return plain.sort_values(
        ["suite", "tier", "method", "preset", "standard", "target", "seed", "run_id"], na_position="first"
    )


def _overrides(text: object) -> dict[str, Any]:
    return dict(json.loads(text)) if isinstance(text, str) and text else {}


def to_parquet(frame: pd.DataFrame, path: Path) -> Path:
    """One Parquet file."""
    with replacing(path) as temporary:
        flat(frame).to_parquet(temporary, index=False)
    return path


def to_csv(frame: pd.DataFrame, path: Path) -> Path:
    """One CSV file."""
    with replacing(path) as temporary:
        flat(frame).to_csv(temporary, index=False)
    return path


def to_tracker(name: str, frame: pd.DataFrame, folder: Path) -> Path:
    """The curves of all runs for a tracker, as it would have been told them live; what it has already it keeps."""
    columns = ("suite", "tier", "method", "preset", "standard", "target", "split", "seed", "threads")
    runs = []
    for run in frame.to_dict("records"):
        spec = {key: "" if pd.isna(run[key]) else run[key] for key in columns}
        spec |= {"seed": int(run["seed"]), "overrides": _overrides(run["overrides"])}
        if curve := records.read_curve(Path(str(run["path"]))):
            runs.append((track.about(str(run["run_id"]), spec, folder.absolute()), curve))
    track.deliver(name, runs, folder / "export.log")
    return folder


FORMATS: dict[str, tuple[str, Callable[[pd.DataFrame, Path], Path]]] = {
    "parquet": (".parquet", to_parquet),
    "csv": (".csv", to_csv),
}
