"""A finished run changed by somebody who has this code: every hash is computed anew, so nothing but the numbers is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmark import records

Change = Callable[[dict[str, Any]], object]


def forge(run: Path, change: Change = lambda document: None, curve: Change | None = None) -> None:
    """Change a record, and the last row of its curve if asked, and seal both again."""
    document = json.loads((run / "record.json").read_text())
    if curve:
        rows = records.read_curve(run)
        curve(rows[-1])
        records.write_curve(run, rows)
        document["hashes"]["curve"] = records.file_hash(run / "curve.jsonl")
    change(document)
    document["hashes"]["record"] = records.document_hash(document)
    (run / "record.json").write_text(json.dumps(document))
