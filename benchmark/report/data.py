"""The runs as compact JSON inside the page: names once, numbers rounded, what runs share stored once."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from benchmark.analysis.notes import shortened
from benchmark.files import read_json
from benchmark.records import ACCURACIES, read_curve
from benchmark.records.selection import STATISTICS, scores

# Columns of a run in the page's table, in the order of its rows; the text ones are stored by index into `names`.
TEXT = (
    "suite",
    "tier",
    "method",
    "preset",
    "standard",
    "target",
    "split",
    "status",
    "sources",
    "commit",
    "data_fingerprint",
)
NUMBERS = (
    "seed",
    *ACCURACIES,
    "target_share",
    "seconds",
    "cpu_seconds",
    "images_per_s",
    "passes",
    "peak_memory_mb",
)


class Pool:
    """Each distinct value once; `index` gives its place."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[str, int] = {}

    def index(self, value: Any) -> int:
        """Where `value` stands, put there if it is new."""
        key = json.dumps(value, sort_keys=True)
        if key not in self._places:
            self._places[key] = len(self.values)
            self.values.append(value)
        return self._places[key]


def run_data(frame: pd.DataFrame) -> dict[str, Any]:
    """`columns`, `names` (text pools), `runs` (one list a run), `shared` (hyper-parameters, versions, … by index), `details`."""
    names = {key: Pool() for key in TEXT}
    shared = Pool()
    runs, details = [], []
    columns = [frame[key].tolist() for key in ("run_id", *TEXT, *NUMBERS)]
    for row in zip(*columns, strict=True):
        text = [names[key].index(_text(value)) for key, value in zip(TEXT, row[1 : 1 + len(TEXT)], strict=True)]
        numbers = zip(NUMBERS, row[1 + len(TEXT) :], strict=True)
        runs.append([row[0], *text, *(_number(value, 3 if key == "target_share" else 2) for key, value in numbers)])
    for path, reason, overrides in zip(frame["path"], frame["reason"], frame["overrides"], strict=True):
        details.append(_detail(Path(str(path)), _text(reason), _text(overrides), shared))
    return {
        "columns": ["run_id", *TEXT, *NUMBERS],
        "text": list(TEXT),
        "names": {key: pool.values for key, pool in names.items()},
        "runs": runs,
        "details": details,
        "shared": shared.values,
    }


def _detail(directory: Path, reason: str, overrides: str, shared: Pool) -> dict[str, Any]:
    """What the view of one run shows: its curve, classes, losses, diagnostics, and by index what many runs share."""
    curve = read_curve(directory)
    found: dict[str, Any] = {"curve": _curve(curve)}
    if reason:
        found["reason"] = shortened(reason, 400)
    if overrides not in ("", "{}"):
        found["overrides"] = shared.index(json.loads(overrides))
    document = read_json(directory / "record.json")
    if not isinstance(document, dict):
        return found
    resolved, origin = document.get("resolved") or {}, document.get("provenance") or {}
    found["hparams"] = shared.index(resolved.get("hparams") or {})
    found["settings"] = shared.index(resolved.get("settings") or {})
    found["classes"] = shared.index(document.get("classes") or [])
    moving = ("started", "finished", "restarts", "slurm_job")
    found["origin"] = shared.index({k: v for k, v in origin.items() if k not in moving})
    found["times"] = [origin.get("started"), origin.get("finished")]
    found["per_class"] = {
        statistics: [_number(v, 1) for v in scores(document, statistics).get("per_class") or []]
        for statistics in _scored([document])
    }
    for key in ("diagnostics", "probes", "pseudo", "selected"):
        found[key] = _plain(document.get(key) or {})
    if document.get("warnings"):
        found["warnings"] = shared.index(document["warnings"])
    return found


def _curve(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns of the curve: updates, target accuracy by statistics at test, source accuracy, losses by name."""
    if not rows:
        return {}
    losses = sorted({name for row in rows for name in row.get("losses") or {}})
    return {
        "update": [row.get("update") for row in rows],
        "target": {s: [_number(scores(row, s)["target"]) for row in rows] for s in _scored(rows)},
        "source_val": [_number(row.get("source_val")) for row in rows],
        "losses": {name: [_number((row.get("losses") or {}).get(name), 4) for row in rows] for name in losses},
    }


def _scored(documents: list[dict[str, Any]]) -> list[str]:
    """The statistics at test that a record, or all points of a curve, have; protocol 1 had the loop's alone."""
    return [s for s in STATISTICS if all(scores(document, s) for document in documents)]


def _text(value: Any) -> str:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def _number(value: Any, decimals: int = 2) -> float | int | None:
    if value is None or isinstance(value, str):
        return None
    number = float(value)
    if not math.isfinite(number):
        return None
    rounded = round(number, decimals)
    return int(rounded) if rounded == int(rounded) else rounded


def _plain(value: Any) -> Any:
    """JSON without NaN and with at most five digits; long lists are cut."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value[:32]]
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value


def embed(document: Any) -> str:
    """JSON that can stand inside `<script>`: no `<`, no line separator that ends a JavaScript string."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, code in _unsafe():
        text = text.replace(character, code)
    return text


def _unsafe() -> Iterable[tuple[str, str]]:
    return (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))
