"""With which batch-norm statistics a table was scored: the default of each kind, the caption, the table of both."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import scipy.stats

from benchmark import records, tables
from benchmark.errors import UserError
from tests.synthetic import TARGET_GAIN, write_run, write_study
from tests.tables.study import rows

OF_TARGET = "Batch-norm statistics at test: of target training images, re-estimated alike for every row"
OF_LOOPS = "Batch-norm statistics at test: those that each method's loop leaves behind"


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Records of protocol 1: scored once."""
    root = tmp_path_factory.mktemp("old")
    write_study(root, ["source-only:bn", "dann", "tsvdnet", "tsvdnet:e"], protocol=1)
    return records.load(root)


def test_rows_are_compared_with_the_targets_statistics_and_held_against_print_with_the_loops(frame: pd.DataFrame):
    for kind in tables.KINDS:
        table = tables.make(kind, frame, "digits")
        assert (OF_TARGET in table.sentences) == (kind not in ("reported", "statistics", "log")), kind
        assert (OF_LOOPS in table.sentences) == (kind == "reported"), kind
        assert table.facts["statistics"] == ("running" if kind == "reported" else "target")


def test_the_statistics_asked_for_are_read_and_named(frame: pd.DataFrame):
    runs = frame[(frame.method == "dann") & (frame.standard == "multi-source") & (frame.target == "sv")]
    for statistics, column in (("running", "last"), ("target", "target_last")):
        table = tables.comparison(frame, "digits", statistics=statistics)
        assert rows(table)["Multi-Source/DANN"]["sv"].value == pytest.approx(runs[column].mean())
        by_class = tables.per_class(frame, "digits", target="sv", statistics=statistics)
        value = rows(by_class)["Multi-Source/DANN"]["class_0"].value
        assert value == pytest.approx(runs[column].mean() - 8, abs=0.01)
    assert runs["target_last"].mean() - runs["last"].mean() == pytest.approx(TARGET_GAIN)
    assert OF_LOOPS in tables.comparison(frame, "digits", statistics="running").sentences
    assert OF_TARGET in tables.reported(frame, "digits", statistics="target").sentences


def test_the_label_free_choice_of_a_source_uses_the_same_statistics(frame: pd.DataFrame):
    better = (frame.method == "dann") & (frame.standard == "single-best") & (frame.sources == "up")
    changed = frame.assign(target_final_unsup=frame["target_final_unsup"].mask(better, 99.0))
    for statistics, source in (("target", "up"), ("running", "mt")):
        table = tables.comparison(changed, "digits", statistics=statistics)
        assert rows(table)["Single-Best/DANN (unsup)"]["mm"].detail == f"source {source}"


def test_records_of_protocol_1_are_shown_as_they_were_scored_and_the_caption_says_why(old: pd.DataFrame):
    table = tables.comparison(old, "digits")
    assert f"{OF_LOOPS}; these runs were scored with no others (protocol 1)." in table.sentences
    assert table.facts["statistics"] == "running"
    runs = old[(old.method == "dann") & (old.target == "mm")]
    assert rows(table)["Multi-Source/DANN"]["mm"].value == pytest.approx(runs["last"].mean())
    asked = tables.comparison(old, "digits", statistics="running")
    assert "Batch-norm statistics" not in asked.sentences  # as such studies were published


def test_statistics_that_runs_lack_are_refused_with_what_to_type(old: pd.DataFrame, frame: pd.DataFrame):
    with pytest.raises(UserError, match=r"60 of the 60 finished runs .* Add --statistics running, or run them again: "):
        tables.comparison(old, "digits", statistics="target")
    mixed = frame.assign(target_last=frame["target_last"].mask(frame.index == frame.index[0]))
    with pytest.raises(UserError, match=r"1 of the .* finished runs .* were not scored with .* of the target"):
        tables.comparison(mixed, "digits")
    assert tables.comparison(mixed, "digits", statistics="running").rows
    with pytest.raises(UserError, match=r"There is no kind of statistics at test 'targets'. Did you mean 'target'"):
        tables.comparison(frame, "digits", statistics="targets")


def test_both_statistics_stand_side_by_side_with_difference_ranks_and_share(tmp_path: Path):
    write_study(tmp_path, ["source-only", "dann", "mcd"])
    write_study(tmp_path, ["source-only"], standard="upper-bound")
    write_run(tmp_path, "coral", "mm", 0)
    frame = records.load(tmp_path)
    shift = frame["seed"].map({0: 9.0, 1: 10.0, 2: 11.5}).where(frame["method"] == "dann", 0.0)
    frame = frame.assign(target_last=frame["last"] + shift)
    frame["target_share"] = frame["method"].map({"dann": 0.526, "mcd": 0.734})
    table = tables.statistics(frame, "digits")
    found = rows(table)
    dann, mcd = (found[f"Multi-Source/{name}"] for name in ("DANN", "MCD"))
    assert dann["target"].value - dann["running"].value == pytest.approx(dann["difference"].value)
    wanted = scipy.stats.t.interval(0.95, 2, 61 / 6, scipy.stats.sem([9.0, 10.0, 11.5]))
    assert dann["difference"].value == pytest.approx(61 / 6)
    assert (dann["interval"].low, dann["interval"].high) == pytest.approx(wanted)
    assert [(r["rank_running"].words, r["rank_target"].words) for r in (dann, mcd)] == [("2", "1"), ("1", "2")]
    assert [r["target_share"].value for r in (dann, mcd)] == pytest.approx([0.526, 0.734])
    only = found["Multi-Source/Source-Only"]
    assert (only["target_share"].words, only["rank_target"].words, only["difference"].value) == ("–", "3", 0)
    bound = found["Upper bound/Source-Only"]
    assert bound["running"].measured
    assert bound["rank_running"].words == "–"
    assert found["Multi-Source/CORAL"]["running"].words == "incomplete"
    assert "INCOMPLETE: 1 of 5 rows" in table.sentences


def test_a_difference_over_two_seeds_has_no_interval(tmp_path: Path):
    write_study(tmp_path, ["dann"], seeds=(0, 1))
    cells = rows(tables.statistics(records.load(tmp_path), "digits"))["Multi-Source/DANN"]
    assert cells["difference"].value == pytest.approx(TARGET_GAIN)
    assert cells["interval"].words == "too few seeds"


def test_the_table_of_both_needs_both(old: pd.DataFrame, frame: pd.DataFrame):
    with pytest.raises(UserError, match=r"were scored once \(protocol 1\). Run them again: python -m benchmark run"):
        tables.statistics(old, "digits")
    with pytest.raises(UserError, match="Leave out --statistics"):
        tables.statistics(frame, "digits", statistics="target")


def test_options_named_in_a_caption_keep_their_hyphens_in_latex(frame: pd.DataFrame):
    assert "(-{}-statistics running" in tables.latex(tables.comparison(frame, "digits"))


def test_a_row_with_fewer_seeds_than_another_has_no_rank(tmp_path: Path):
    write_study(tmp_path, ["source-only", "dann"])
    write_study(tmp_path, ["m3sda"], seeds=[0], accuracy=99.0)
    frame = records.load(tmp_path)
    ranks = {name: (row["rank_running"].words, row["rank_target"].words) for name, row in ranked(frame).items()}
    assert ranks == {
        "Multi-Source/Source-Only": ("2", "2"), "Multi-Source/DANN": ("1", "1"), "Multi-Source/M³SDA": ("–", "–"),
    }  # fmt: skip
    alone = ranked(frame[frame.seed == 0])
    assert alone["Multi-Source/M³SDA"]["rank_target"].words == "1"  # where all rows have one seed, all compete


def ranked(frame: pd.DataFrame) -> dict:
    return rows(tables.make("statistics", frame, "digits"))
