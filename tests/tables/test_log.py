"""The table of the released log: its accuracies, ours beside them, and what cannot stand there."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmark import records, tables
from benchmark.errors import UserError
from benchmark.paper.log import log
from tests.synthetic import write_run, write_study


def test_the_log_stands_beside_ours_epoch_by_epoch(frame: pd.DataFrame):
    table = tables.make("log", frame, "digits")
    assert [row.cells[0].words for row in table.rows] == [str(epoch) for epoch in range(10)]
    assert [row.cells[1].value for row in table.rows][:3] == pytest.approx([62.94, 65.02, 69.69], abs=0.005)
    off = frame[frame.overrides.fillna("").str.contains("tensor")]
    curve = records.read_curve(Path(off.path.item()))
    assert [row.cells[4].value for row in table.rows] == [point["target"] for point in curve]
    assert [row.cells[5].value for row in table.rows] == [point["statistics"]["target"]["target"] for point in curve]
    one = tables.make("log", frame.drop(off.index), "digits")
    assert "INCOMPLETE" in one.caption
    with pytest.raises(
        UserError, match=r"--targets mm --methods tsvdnet:code --set tsvdnet:code.eta_schedule=released"
    ):
        tables.make("log", frame[frame.preset != "code"], "digits")
    with pytest.raises(UserError, match="Leave out --statistics"):
        tables.make("log", frame, "digits", statistics="running")


def test_the_log_is_of_its_suite_and_of_runs_that_were_scored_twice(tmp_path: Path):
    write_run(tmp_path, "tsvdnet", "A", suite="pacs", preset="code", generated=())
    write_run(tmp_path, "tsvdnet", "mm", preset="code", protocol=1)
    frame = records.load(tmp_path)
    for suite, words in (("pacs", "The released log is of suite digits"), ("digits", "these were scored once")):
        with pytest.raises(UserError, match=words):
            tables.make("log", frame, suite)


def test_the_runs_of_the_log_are_found_among_all_others_of_their_tier(tmp_path: Path):
    whole = {"run.updates": 2330, "run.eval_points": 10}
    for row in log().rows:
        write_run(tmp_path, "tsvdnet", "mm", preset="code", overrides={**row.changes, **whole}, updates=2330)
    write_study(tmp_path, ["source-only", "tsvdnet:code"], targets=["mm"], seeds=[0])
    table = tables.make("log", records.load(tmp_path), "digits")
    assert len(table.rows) == 10
    assert "INCOMPLETE" not in table.caption
    row = log().rows[0]
    write_run(tmp_path, "tsvdnet", "mm", preset="code", overrides={**row.changes, **whole}, updates=2330, split="all")
    with pytest.raises(UserError, match="Add --split all"):
        tables.make("log", records.load(tmp_path), "digits")
    assert len(tables.make("log", records.load(tmp_path), "digits", split="part").columns) == 2 + 4
