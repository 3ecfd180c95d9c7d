"""The table of the ablation: Table 4 in both readings, each step against the row above it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from benchmark import records, tables
from benchmark.errors import UserError
from tests.synthetic import LEVEL, PRESET, write_study
from tests.tables.study import rows


def test_ablation_has_table_4s_rows_and_gains_against_both_baselines(frame: pd.DataFrame):
    table = tables.ablation(frame, "digits")
    assert [(block, [row.cells[0].detail for row in part]) for block, part in table.blocks] == [
        ("Baselines", ["source-only", "source-only:bn"]),
        ("The paper's reading", ["tsvdnet:e", "tsvdnet:et", "tsvdnet"]),
        ("The release's weights", ["tsvdnet:code-e", "tsvdnet:code-p", "tsvdnet:code", "tsvdnet:code-u"]),
    ]
    last = rows(table)["The paper's reading/T-SVDNet (+E+T+U)"]
    level = LEVEL["tsvdnet"] - LEVEL["source-only"]
    assert last["gain_source-only"].value == pytest.approx(level, abs=0.5)
    assert last["gain_source-only:bn"].value == pytest.approx(level - PRESET["bn"], abs=0.5)
    assert last["ci_source-only"].low < last["gain_source-only"].value < last["ci_source-only"].high
    assert rows(table)["Baselines/Source-Only"]["gain_source-only"].words == "–"


def test_each_step_of_the_ablation_is_held_against_the_row_above_it_in_its_family(tmp_path: Path):
    names = ["source-only", "source-only:bn", "tsvdnet:e", "tsvdnet:et", "tsvdnet"]
    names += [f"tsvdnet:{preset}" for preset in ("code-e", "code-p", "code", "code-u")]
    write_study(tmp_path, names)
    frame = records.load(tmp_path)
    found = {row.cells[0].detail: row for row in tables.ablation(frame, "digits").rows}
    keys = [column.key for column in tables.ablation(frame, "digits").columns]
    runs = frame.assign(name=frame["method"] + (":" + frame["preset"].fillna("")).where(frame["preset"] != "", ""))
    mean = runs.pivot_table(index="seed", columns="name", values="last", aggfunc="mean")
    above = {
        "source-only:bn": "source-only", "tsvdnet:e": "source-only", "tsvdnet:et": "tsvdnet:e", "tsvdnet": "tsvdnet:et",
        "tsvdnet:code-e": "source-only", "tsvdnet:code-p": "tsvdnet:code-e", "tsvdnet:code": "tsvdnet:code-p",
        "tsvdnet:code-u": "tsvdnet:code",
    }  # fmt: skip
    for name, other in above.items():
        cells = dict(zip(keys, found[name].cells, strict=True))
        difference = mean[name] - mean[other]
        wanted = scipy.stats.t.interval(0.95, 2, difference.mean(), difference.sem())
        assert cells["step"].value == pytest.approx(difference.mean()), name
        assert (cells["ci_step"].low, cells["ci_step"].high) == pytest.approx(wanted), name
    first = dict(zip(keys, found["source-only"].cells, strict=True))
    assert first["step"].words == "–"


def test_the_papers_printed_row_stands_beside_each_row_that_has_one(frame: pd.DataFrame):
    table = tables.ablation(frame, "digits")
    keys = [column.key for column in table.columns]
    cells = {row.cells[0].detail: dict(zip(keys, row.cells, strict=True)) for row in table.rows}
    notes = {row.cells[0].detail: " ".join(row.notes) for row in table.rows}
    for ours, theirs in (
        ("tsvdnet:e", "tsvdnet:code-e"),
        ("tsvdnet:et", "tsvdnet:code"),
        ("tsvdnet", "tsvdnet:code-u"),
    ):
        assert cells[ours]["printed"] == cells[theirs]["printed"]
    printed = [(c["printed"].value, c["printed_gain"].value) for c in cells.values() if c["printed"].measured]
    assert printed[1:4] == [(88.19, 1.36), (92.68, 5.85), (93.94, 7.11)]
    assert "as T-SVDNet (+E+T): mm 88.76, mt 99.16, up 98.09, sv 82.94, syn 94.47, Avg 92.68." in notes["tsvdnet:code"]
    assert [name for name, c in cells.items() if not c["printed"].measured] == ["source-only:bn", "tsvdnet:code-p"]


def test_a_family_of_which_no_row_was_run_is_left_out_and_other_suites_have_no_printed_rows(tmp_path: Path):
    write_study(tmp_path, ["source-only", "tsvdnet:code"], suite="pacs", generated=())
    table = tables.ablation(records.load(tmp_path), "pacs")
    assert [block for block, _ in table.blocks] == ["Baselines", "The release's weights"]
    assert "No runs of Source-Only:bn, T-SVDNet:code-e (+E), T-SVDNet:code-p (+E+P), " in table.sentences
    assert "INCOMPLETE: 4 of 6 rows not run." in table.caption
    assert "printed" not in [column.key for column in table.columns]
    row = rows(table)["The release's weights/T-SVDNet:code (+E+P+T)"]
    assert (row["step"].words, row["step"].detail) == ("–", "row above not run")
    assert row["gain_source-only"].measured


def test_gain_is_the_paired_difference(frame: pd.DataFrame):
    wide = {}
    for method, preset in (("tsvdnet", "e"), ("source-only", "")):
        runs = frame[(frame.method == method) & (frame.preset == preset) & (frame.standard == "multi-source")]
        wide[method] = runs.pivot(index="seed", columns="target", values="target_last").mean(axis=1)
    difference = wide["tsvdnet"] - wide["source-only"]
    cell = rows(tables.ablation(frame, "digits"))["The paper's reading/T-SVDNet (+E)"]
    assert cell["gain_source-only"].value == pytest.approx(difference.mean())
    half = 4.302653 * difference.std(ddof=1) / np.sqrt(3)
    assert cell["ci_source-only"].high == pytest.approx(difference.mean() + half, rel=1e-5)


def test_ablation_with_a_missing_step_says_so(tmp_path: Path):
    write_study(tmp_path, ["source-only", "tsvdnet"])
    table = tables.ablation(records.load(tmp_path), "digits")
    assert "No runs of Source-Only:bn, T-SVDNet (+E), T-SVDNet (+E+T)" in table.sentences
    assert rows(table)["The paper's reading/T-SVDNet (+E)"]["mm"].words == "not run"


def test_ablation_refuses_what_it_cannot_compare(tmp_path: Path):
    write_study(tmp_path, ["dann", "source-only"])
    with pytest.raises(UserError, match="nothing for the table ablation"):
        tables.ablation(records.load(tmp_path), "digits")
    write_study(tmp_path, ["tsvdnet"], split="all")
    with pytest.raises(UserError, match="--split all"):
        tables.ablation(records.load(tmp_path), "digits")
    write_study(tmp_path, ["tsvdnet"], revision="2")
    write_study(tmp_path, ["tsvdnet"])
    with pytest.raises(UserError, match=r"revisions 1 and 2.*--latest"):
        tables.ablation(records.load(tmp_path), "digits", split="part")
