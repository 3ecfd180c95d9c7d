"""All runs below a folder as one DataFrame, a row a run: what every table, figure, verdict and report begins with.

What was read and checked is remembered in the user's own cache, not in the tree, which may be a stranger's.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.files import replacing
from benchmark.records import schema, study
from benchmark.records.selection import RULES, STATISTICS, VALIDATORS, column_of
from benchmark.records.state import Sent, State, text
from benchmark.records.study import read_bytes
from benchmark.records.survey import REMEMBER_FROM, cache_file, forget_the_old, survey
from benchmark.spec import canonical_json

if TYPE_CHECKING:  # half a second: who asks for the state of runs alone goes without, so the functions below fetch it
    import pandas as pd

# accuracies by rule and the validators' scores at the last point: `last`, `final_unsup`, … with the statistics that the
# loop leaves behind, `target_last`, `target_final_unsup`, … with those of target training images
ACCURACIES = [column_of(rule, statistics) for statistics in STATISTICS for rule in RULES]
FINAL = [column_of(f"final_{validator}", statistics) for statistics in STATISTICS for validator in VALIDATORS]
COLUMNS = [
    "run_id", "suite", "tier", "method", "preset", "standard", "target", "split",
    "seed", "status", *ACCURACIES, *FINAL, "updates", "seconds",
    "images_per_s", "commit", "data_fingerprint", "sources", "title", "revision", "protocol", "tuned",
    "threads", "overrides", "passes", "cpu_seconds", "peak_memory_mb", "reason", "path", "generated",
    "note", "dirty", "warnings", "eval_points", "weights", "target_share", "remarks",
    "device", "hardware", "precision", "peak_device_memory_mb",
]  # fmt: skip
WHOLE = ("seed", "updates", "protocol", "threads", "eval_points")
YES_NO = ("dirty",)
REAL = (
    *ACCURACIES,
    *FINAL,
    "seconds",
    "images_per_s",
    "passes",
    "cpu_seconds",
    "peak_memory_mb",
    "peak_device_memory_mb",
    "target_share",
)
TYPES = {
    **dict.fromkeys([*(c for c in COLUMNS if c != "path"), "stamp", "place"], "str"),
    **dict.fromkeys(WHOLE, "Int64"),
    **dict.fromkeys(YES_NO, "boolean"),
    **dict.fromkeys(REAL, "float64"),
}


def final_scores(directory: Path) -> dict[str, float]:
    """The validators' scores at the last evaluation point of a finished run, by column; what its curve lacks is left out."""
    try:
        row = json.loads(read_bytes(directory / "curve.jsonl").rstrip(b"\n").rpartition(b"\n")[2])
    except (OSError, ValueError, RecursionError):
        return {}
    if schema.row_fault(row):
        return {}
    points = {"running": row, **row.get("statistics", {})}
    return {
        column_of(f"final_{validator}", statistics): float(points[statistics][validator])
        for statistics in STATISTICS
        for validator in VALIDATORS
        if points.get(statistics, {}).get(validator) is not None
    }


def load(root: str | Path, queue: Mapping[str, Sent] | None = None) -> pd.DataFrame:
    """All runs below `root`, a row a run; accuracies in percent. Runs that are not done have a status and a reason.

    The status is the run's state (`benchmark.records.state`); `queue` is what a scheduler says of runs that were sent to it.
    """
    root = Path(root)
    index = _read_index(root)
    places = index["place"].tolist()
    position = {place: i for i, place in enumerate(places)}
    order: list[int] = []  # of the runs on disk, by their position in the index and, behind it, in `fresh`
    fresh: list[dict[str, Any]] = []
    for place, stamp, found in survey(root, queue, dict(zip(places, index["stamp"].tolist(), strict=True))):
        if found is None:
            order.append(position[place])
        else:
            order.append(len(index) + len(fresh))
            fresh.append({**_row(root / place, found), "stamp": stamp, "place": place})
    frame = _typed(fresh, index).iloc[order].reset_index(drop=True)
    if len(frame) >= REMEMBER_FROM and (
        len(frame) - len(fresh) < len(index) or any(r["status"] == "done" for r in fresh)
    ):
        _write_index(root, frame[frame["status"] == "done"])
    frame["path"] = str(root) + os.sep + frame["place"]
    frame = _plain(frame)[COLUMNS]
    if words := study.missing(root):
        frame.attrs["incomplete"] = words  # goes where the rows go: every table says it first
    return frame


def _typed(rows: list[dict[str, Any]], above: pd.DataFrame | None = None) -> pd.DataFrame:
    """Rows as the index stores them, below those of `above`: one type a column, whatever is missing."""
    import pandas as pd

    if above is not None and not rows:
        return above
    frame = pd.DataFrame(rows, columns=list(TYPES), dtype=object).astype(TYPES)
    return frame if above is None else pd.concat([above, frame])


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Whole numbers and switches as numpy has them; floats and objects where some are missing."""
    for column in (*WHOLE, *YES_NO):
        whole = "int64" if column in WHOLE else "bool"
        some = "float64" if column in WHOLE else "object"
        frame[column] = frame[column].astype(some if frame[column].hasnans else whole)
    return frame


def _row(directory: Path, found: State) -> dict[str, Any]:
    """One run as a row."""
    if found.record is not None:
        return {**record_row(found.record.document), **final_scores(directory)}
    row = _spec_row(found.spec, directory.name)
    row["commit"] = text(found.failure.get("commit")) or None
    return {**row, "status": found.name.value, "reason": found.reason or None}


def _spec_row(spec: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    keys = ("suite", "tier", "method", "preset", "standard", "target", "split", "seed", "threads", "tuned")
    row = {k: spec.get(k) for k in keys}
    row["sources"] = ",".join(map(str, spec.get("sources") or ()))
    row["overrides"] = canonical_json(spec.get("overrides") or {})
    return {**dict.fromkeys(COLUMNS), **row, "run_id": run_id, "data_fingerprint": spec.get("data")}


def record_row(document: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a finished run."""
    cost, provenance, data = document["cost"], document["provenance"], document["data"]
    row = _spec_row(document["spec"], document["run_id"])
    scored = {"running": document, **document.get("statistics", {})}
    for statistics in STATISTICS:
        accuracy = scored.get(statistics, {}).get("accuracy", {})
        row.update({column_of(rule, statistics): accuracy.get(rule) for rule in RULES})
    for key in (
        "updates",
        "seconds",
        "images_per_s",
        "passes",
        "cpu_seconds",
        "peak_memory_mb",
        "peak_device_memory_mb",
    ):
        row[key] = cost.get(key)
    kinds = [str(start.get("hardware")) for start in provenance.get("starts") or [provenance]]
    row.update(
        status="done",
        commit=provenance.get("commit"),
        dirty=bool(provenance.get("dirty")),
        data_fingerprint=data.get("fingerprint"),
        generated=",".join(map(str, data.get("generated") or ())),
        note=data.get("note"),
        title=document.get("title"),
        revision=str(document.get("revision")),
        protocol=document.get("protocol"),
        warnings=json.dumps(document.get("warnings") or []),
        eval_points=cost.get("eval_points"),
        weights=document.get("weights"),
        target_share=data.get("target_share"),
        device=provenance.get("device"),
        hardware=" and ".join(dict.fromkeys(kinds)),  # of all starts
        precision=provenance.get("precision"),
        # earlier records have what their method remarked among their warnings
        remarks=json.dumps(document.get("remarks", document.get("warnings")) or []),
    )
    return row


def _read_index(root: Path) -> pd.DataFrame:
    """Finished runs as they were last seen; a row counts as long as its stamp is that of the files."""
    import pandas as pd

    with contextlib.suppress(Exception):  # a convenience: absent, torn or of another version, it is made anew
        frame = pd.read_parquet(cache_file(root, "parquet"))
        if frame.dtypes.astype(str).to_dict() == TYPES:
            return frame
    return _typed([])


def _write_index(root: Path, frame: pd.DataFrame) -> None:
    """Replaced as a whole: of several processes the last one stands, and what it lacks is read again."""
    path = cache_file(root, "parquet")
    with contextlib.suppress(OSError), replacing(path, durable=False) as temporary:
        frame.to_parquet(temporary, index=False)
    forget_the_old(path.parent)
