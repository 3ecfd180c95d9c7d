"""Records for the rest of the world: one table of all runs (Parquet, CSV), curves and results for TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark import records
from benchmark.errors import UserError, unknown
from benchmark.files import replacing
from benchmark.records.selection import VALIDATORS


def write(results: Path | str, format: str, out: Path | None = None) -> Path:
    """Export all runs below `results`; gives the file or folder that was written."""
    if format not in FORMATS:
        raise unknown("export format", format, FORMATS)
    frame = records.load(results)
    if frame.empty:
        raise UserError(f"There are no records in {results} to export. Type: python -m benchmark run --suite digits")
    suffix, work = FORMATS[format]
    return work(frame, out or Path(results) / f"export{suffix}")


def flat(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a run, plain columns: lists as text, changed hyper-parameters as columns `set.KEY`."""
    overrides = [json.loads(text) if isinstance(text, str) and text else {} for text in frame["overrides"]]
    keys = sorted({key for pairs in overrides for key in pairs})
    plain = frame.drop(columns=["overrides"]).reset_index(drop=True)
    for key in keys:
        plain[f"set.{key}"] = [str(pairs[key]) if key in pairs else None for pairs in overrides]
    return plain.sort_values(
        ["suite", "tier", "method", "preset", "standard", "target", "seed", "run_id"], na_position="first"
    )


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


def to_tensorboard(frame: pd.DataFrame, folder: Path) -> Path:
    """An event folder a run: accuracy, losses, probes and diagnostics by update; hyper-parameters and results at the end."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("TensorBoard is not installed. Type: pip install 'msda-benchmark[export]'") from None
    for run in frame.itertuples():
        curve = records.read_curve(Path(str(run.path)))
        if not curve:
            continue
        name = f"{run.method}:{run.preset}" if run.preset else str(run.method)
        name = name.replace("/", "_").replace(":", "_")
        place = (
            folder / str(run.suite) / str(run.tier) / f"{name}-{run.standard}-{run.target}-seed{run.seed}-{run.run_id}"
        )
        for old in place.glob("events.*"):  # writing again replaces, never doubles
            old.unlink()
        writer = SummaryWriter(str(place))
        for row in curve:
            for tag, value in _scalars(row):
                writer.add_scalar(tag, value, global_step=int(row["update"]))
        writer.close()
    return folder


def _scalars(row: dict[str, Any]) -> list[tuple[str, float]]:
    """Numbers of one evaluation point, with a tag each."""
    found: list[tuple[str, Any]] = []
    for prefix, scored in [("", row), *((f"{kind}_statistics/", s) for kind, s in row.get("statistics", {}).items())]:
        found += [(f"{prefix}accuracy/{key}", scored.get(key)) for key in ("target", "source_val")]
        found += [(f"{prefix}selection/{key}", scored.get(key)) for key in VALIDATORS if key != "source_val"]
        found += [(f"{prefix}probes/{key}", value) for key, value in (scored.get("probes") or {}).items()]
    for group in ("losses", "diagnostics", "pseudo"):
        found += [(f"{group}/{key}", value) for key, value in (row.get(group) or {}).items()]
    return [(tag, float(v)) for tag, v in found if isinstance(v, int | float) and not isinstance(v, bool)]


FORMATS: dict[str, tuple[str, Callable[[pd.DataFrame, Path], Path]]] = {
    "parquet": (".parquet", to_parquet),
    "csv": (".csv", to_csv),
    "tensorboard": ("-tensorboard", to_tensorboard),
}
