"""What is known of every run: the only truth. `load(root)` gives all runs as one DataFrame, a row a run.

`state` says what one run is (the table of states is in `benchmark.records.state`), `surveyed` what all of them are,
`run_directories` is the walk. `read`, `write`, `run_directory` and `read_curve` are for one run; beside them stand
`schema`, `lease` (who is at a run), `selection` (which evaluation point counts), `artifacts`, `models` (which model files
a run has, and their seal), `study` (a published one, in a few files), `bundle` (in one file), `merge` (of several people),
`audit` and `export`.
"""

from __future__ import annotations

from benchmark.records.frame import ACCURACIES, COLUMNS, load
from benchmark.records.state import Sent, State, StateName, state
from benchmark.records.store import (
    Record,
    check,
    document_hash,
    file_hash,
    misplaced,
    read,
    read_curve,
    run_directories,
    run_directory,
    write,
    write_curve,
)
from benchmark.records.survey import surveyed

__all__ = [
    "ACCURACIES",
    "COLUMNS",
    "Record",
    "Sent",
    "State",
    "StateName",
    "check",
    "document_hash",
    "file_hash",
    "load",
    "misplaced",
    "read",
    "read_curve",
    "run_directories",
    "run_directory",
    "state",
    "surveyed",
    "write",
    "write_curve",
]
