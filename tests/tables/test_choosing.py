"""The tables of selection rules and of validators: what a rule without target labels is worth."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from benchmark import records, tables
from benchmark.errors import UserError
from tests.synthetic import write_run, write_study
from tests.tables.study import rows


def test_selection_shows_every_rule_and_the_oracle_is_never_best(frame: pd.DataFrame):
    table = tables.selection(frame, "digits")
    assert [c.title for c in table.columns[1:9]] == [
        "last", "source-val", "unsup", "snd", "bnm", "dev", "oracle", "Gap",
    ]  # fmt: skip
    assert all(row.cells[7].mark == "" for row in table.rows)
    assert all(row.cells[8].value >= -1e-9 for row in table.rows if row.cells[8].measured)


def test_selection_leaves_a_rule_without_scores_empty_and_the_rules_that_no_run_has_out(tmp_path: Path):
    write_study(tmp_path / "two", ["dann", "mdda"])  # the synthetic MDDA has no score of dev
    table = tables.selection(records.load(tmp_path / "two"), "digits")
    dann, mdda = (rows(table)[f"Multi-Source/{name}"] for name in ("DANN", "MDDA"))
    assert dann["dev"].measured
    assert (mdda["dev"].words, mdda["snd"].n) == ("–", 3)
    assert (
        rows(tables.comparison(records.load(tmp_path / "two"), "digits", selection="dev"))["Multi-Source/MDDA"][
            "mm"
        ].words
        == "no score"
    )
    write_study(tmp_path / "one", ["dann"], protocol=1)
    table = tables.selection(records.load(tmp_path / "one"), "digits")
    assert [c.key for c in table.columns[1:6]] == ["last", "source_val", "unsup", "oracle", "gap"]


def test_selection_fits_one_panel_of_a_page(frame: pd.DataFrame):
    assert tables.latex(tables.selection(frame, "digits")).count("begin{tabular}") == 1


def test_validators_are_ranked_by_how_they_order_methods_and_points(frame: pd.DataFrame):
    """A score that is the accuracy, one that is its opposite, one of which a run has none, one that is always the same."""
    accuracy = frame["target_last"].astype(float)
    frame = frame.assign(
        target_final_unsup=accuracy, target_final_snd=-accuracy, target_final_bnm=0.5, final_unsup=-accuracy,
        target_final_dev=accuracy.where(frame["method"] != "m3sda"),
    )  # fmt: skip
    table = tables.validators(frame, "digits")
    found = {
        row.cells[0].words: dict(zip([c.key for c in table.columns], row.cells, strict=True)) for row in table.rows
    }
    assert list(found) == ["source-val", "unsup", "snd", "bnm", "dev"]
    assert found["unsup"]["methods"].value == pytest.approx(1)
    assert found["unsup"]["lost"].value == pytest.approx(0)
    assert found["unsup"]["methods"].mark == "best"
    assert found["snd"]["methods"].value == pytest.approx(-1)
    assert (found["bnm"]["methods"].words, found["bnm"]["groups"].words) == ("–", "0")
    assert found["dev"]["methods"].value == pytest.approx(1)
    own = frame[
        frame.standard.isin(["multi-source", "combined"]) & (frame.overrides == "{}") & (frame.status == "done")
    ]
    groups = own.groupby(["target", "seed"])["target_last"]
    assert found["snd"]["lost"].value == pytest.approx((groups.max() - groups.min()).mean())
    assert found["unsup"]["groups"].words == str(len(groups))
    assert f"a row picked blindly loses {(groups.max() - groups.mean()).mean():.2f}" in table.sentences
    assert f"Rests on {len(own)} runs: 13 rows, 5 targets, 3 seeds" in table.sentences
    assert "Left out, for all scores or all accuracies were alike: bnm 15 groups" in table.sentences
    running = tables.validators(frame, "digits", statistics="running")
    assert running.rows[1].cells[1].value == pytest.approx(-1)
    assert running.facts["statistics"] == "running"
    assert "Batch-norm statistics at test: those that each method's loop leaves behind" in running.sentences


def test_validators_over_points_are_the_mean_correlation_within_runs(tmp_path: Path):
    write_study(tmp_path, ["source-only", "dann", "mdda"], targets=["mm"], seeds=[0, 1])
    frame = records.load(tmp_path)
    curves = [records.read_curve(Path(path)) for path in frame.path]
    rhos = []
    for curve in curves:
        points = [row["statistics"]["target"] for row in curve]
        rhos.append(scipy.stats.spearmanr([p["snd"] for p in points], [p["target"] for p in points]).statistic)
    table = tables.validators(frame, "digits")
    found = {row.cells[0].words: row.cells for row in table.rows}
    assert found["snd"][4].value == pytest.approx(np.mean(rhos))
    rising = [[p["statistics"]["target"]["target"] for p in curve] for curve in curves]
    later = np.mean([scipy.stats.spearmanr(range(10), values).statistic for values in rising])
    assert f"Later before earlier, which needs no score, has a ρ over points of {later:+.2f}." in table.sentences
    assert found["snd"][5].words == "6"
    assert found["dev"][5].words == "4"  # MDDA has no features, and no such score
    assert "Rests on 6 runs: 3 rows, 1 target, 2 seeds" in table.sentences


def test_validators_read_a_bounded_number_of_curves(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.modules["benchmark.tables.validators"], "MOST_CURVES", 7)
    table = tables.validators(frame, "digits")
    assert table.rows[0].cells[5].words == "7"
    assert "Curves of 7 of the " in table.sentences


def test_validators_are_refused_when_no_three_methods_share_a_target_and_a_seed(tmp_path: Path):
    write_study(tmp_path, ["source-only", "dann"], targets=["mm"], seeds=[0])
    write_run(tmp_path, "mcd", "mm", 1)
    write_study(tmp_path, ["source-only"], standard="single-best", targets=["mm"], seeds=[0])
    with pytest.raises(UserError, match=r"no 3 methods of suite digits, tier mini do.*Type: python -m benchmark run"):
        tables.validators(records.load(tmp_path), "digits")
    with pytest.raises(UserError, match="no kind of statistics at test 'both'"):
        tables.validators(records.load(tmp_path), "digits", statistics="both")


def test_validators_of_runs_that_were_scored_once_are_shown_with_running_statistics_only(tmp_path: Path):
    write_study(tmp_path, ["source-only", "dann", "mcd"], targets=["mm"], seeds=[0], protocol=1)
    table = tables.validators(records.load(tmp_path), "digits")
    assert "these runs were scored with no others (protocol 1)" in table.sentences
    found = [(row.cells[0].words, row.cells[5].words) for row in table.rows]
    assert found == [("source-val", "3"), ("unsup", "3")]  # protocol 1 had no others
    with pytest.raises(UserError, match="were not scored with batch-norm statistics of the target"):
        tables.validators(records.load(tmp_path), "digits", statistics="target")


def test_validators_do_without_a_curve_that_was_cut(tmp_path: Path):
    write_study(tmp_path, ["source-only", "dann", "mcd"], targets=["mm"], seeds=[0])
    curve = next(tmp_path.glob("digits/mini/*/curve.jsonl"))
    rows_left = [{k: v for k, v in json.loads(line).items() if k != "statistics"} for line in curve.open()]
    curve.write_text("".join(json.dumps(row) + "\n" for row in rows_left))
    table = tables.validators(records.load(tmp_path), "digits")
    assert [row.cells[5].words for row in table.rows] == ["2"] * 5


def test_validators_without_a_row_of_several_sources_are_refused(tmp_path: Path):
    write_study(tmp_path, ["source-only"], standard="upper-bound", targets=["mm"], seeds=[0])
    with pytest.raises(UserError, match="no 3 methods"):
        tables.validators(records.load(tmp_path), "digits")
