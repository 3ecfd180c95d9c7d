"""One study, written once, that the tests of the tables read."""

from __future__ import annotations

import pandas as pd
import pytest

from benchmark import records
from benchmark.paper.log import log
from tests.synthetic import write_run, write_study
from tests.tables.study import NASTY


@pytest.fixture(scope="session")
def frame(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """A study as people have it: four blocks, a broken row, a method of the user's own, changed hyper-parameters."""
    root = tmp_path_factory.mktemp("study")
    write_study(root)
    write_study(root, ["source-only", "dan", "dann"], standard="combined")
    write_study(root, ["source-only", "dann"], standard="single-best")
    write_study(root, ["source-only"], standard="upper-bound")
    write_run(root, "mdda", "mm", 0)
    write_run(root, "mdda", "mt", 0, status="failed", reason="NotFinite: class_loss is NaN & 50 % of a_b")
    write_run(root, "mdda", "sv", 0, status="interrupted")
    write_run(root, "net.py:My_Net", "mm", 0, title=NASTY)
    write_study(root, ["tsvdnet"], overrides={"prox": "zero"})
    for row in log().rows:  # ten epochs of the released log
        write_run(root, "tsvdnet", "mm", 0, preset="code", overrides=row.changes, updates=2330)
    return records.load(root)
