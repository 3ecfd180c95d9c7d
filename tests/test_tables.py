"""Tables say what the records say: blocks, marks, reasons, refusals; and every form shows the same table."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from rich.console import Console

from benchmark import records, tables
from benchmark.errors import UserError
from benchmark.tables.table import Cell, Column, Row, Table, letter, mark_best, words
from tests.synthetic import LEVEL, PRESET, write_run, write_study

GOLDEN = Path(__file__).parent / "golden"
NASTY = "My_Net & <b>100 %</b> #1 {x} $y^2~ | `*[z](u)*` \\"


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """A study as people have it: four blocks, a broken row, a method of the user's own, a changed hyper-parameter."""
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
    return records.load(root)


def rows(table: Table) -> dict[str, dict[str, Cell]]:
    """Cells by block/label and column key."""
    return {
        f"{row.block.split(' (')[0]}/{row.cells[0].words}": {
            c.key: cell for c, cell in zip(table.columns, row.cells, strict=True)
        }
        for row in table.rows
    }


# -- the comparison ---------------------------------------------------------------------------------------------------


def test_comparison_has_the_papers_blocks_and_column_order(frame: pd.DataFrame):
    table = tables.comparison(frame, "digits")
    assert [block.split(" (")[0] for block, _ in table.blocks] == [
        "Single-Best", "Source Combination", "Multi-Source", "Upper bound",
    ]  # fmt: skip
    assert [c.title for c in table.columns] == [
        "Method", "→ mm", "→ mt", "→ up", "→ sv", "→ syn*", "Avg", "w/o syn*", "Gap", "Passes", "CPU s", "n",
    ]  # fmt: skip
    multi = [row.cells[0].words for row in table.rows if row.block == "Multi-Source"]
    assert multi[:5] == ["Source-Only", "Source-Only:bn", "DANN", "MDDA", "M³SDA"]


def test_cells_are_means_and_sample_deviations_over_seeds(frame: pd.DataFrame):
    cell = rows(tables.comparison(frame, "digits"))["Multi-Source/DANN"]["sv"]
    runs = frame[(frame.method == "dann") & (frame.standard == "multi-source") & (frame.target == "sv")]
    assert cell.n == 3
    assert cell.value == pytest.approx(runs["last"].mean())
    assert cell.spread == pytest.approx(runs["last"].std(ddof=1))


def test_average_is_taken_per_seed_over_all_targets(frame: pd.DataFrame):
    found = rows(tables.comparison(frame, "digits"))["Multi-Source/DANN"]
    runs = frame[(frame.method == "dann") & (frame.standard == "multi-source")]
    per_seed = runs.pivot(index="seed", columns="target", values="last")
    assert found["average"].value == pytest.approx(per_seed.mean(axis=1).mean())
    assert found["average"].spread == pytest.approx(per_seed.mean(axis=1).std(ddof=1))
    assert found["average_without_syn"].value == pytest.approx(per_seed.drop(columns="syn").mean(axis=1).mean())


def test_every_rule_reads_its_own_column(frame: pd.DataFrame):
    for rule in ("last", "source-val", "unsup", "oracle"):
        table = tables.comparison(frame, "digits", selection=rule)
        runs = frame[(frame.method == "m3sda") & (frame.target == "mm")]
        assert rows(table)["Multi-Source/M³SDA"]["mm"].value == pytest.approx(runs[rule.replace("-", "_")].mean())
        assert f"Selection rule {rule.replace('-', '_')}" in table.sentences


def test_best_is_bold_second_underlined_and_the_upper_bound_does_not_compete(frame: pd.DataFrame):
    found = rows(tables.comparison(frame, "digits"))
    assert found["Multi-Source/T-SVDNet"]["average"].mark == "best"
    assert found["Multi-Source/T-SVDNet:code"]["average"].mark == "second"
    bound = found["Upper bound/Source-Only"]["average"]
    assert bound.value > found["Multi-Source/T-SVDNet"]["average"].value
    assert bound.mark == ""


def test_missing_cells_say_why_and_averages_are_never_over_fewer_targets(frame: pd.DataFrame):
    table = tables.comparison(frame, "digits")
    mdda = rows(table)["Multi-Source/MDDA"]
    assert [mdda[t].words for t in ("mt", "sv", "up")] == ["failed", "interrupted", "not run"]
    assert "class_loss is NaN" in mdda["mt"].detail
    assert mdda["average"].words == "incomplete"
    assert "INCOMPLETE: 82 of 90 cells measured" in table.sentences
    assert any("1 of 3 runs failed: NotFinite" in note for _, note in table.notes)


def test_a_running_run_is_marked_running(tmp_path: Path):
    write_run(tmp_path, "dann", "mm", 0)
    write_run(tmp_path, "dann", "mt", 0, status="running")
    assert rows(tables.comparison(records.load(tmp_path), "digits"))["Multi-Source/DANN"]["mt"].words == "running"


def test_single_best_chooses_one_source_by_the_mean_over_seeds_never_per_seed(tmp_path: Path):
    # Source up wins on two of three seeds, but mt has the higher mean.
    for seed, (up, mt) in enumerate([(51.0, 50.0), (51.0, 50.0), (10.0, 50.0)]):
        write_run(tmp_path, "dann", "mm", seed, standard="single-best", sources=["up"], accuracy=up)
        write_run(tmp_path, "dann", "mm", seed, standard="single-best", sources=["mt"], accuracy=mt)
    table = tables.comparison(records.load(tmp_path), "digits")
    cell = rows(table)["Single-Best/DANN"]["mm"]
    assert cell.value == pytest.approx(50.0)
    assert cell.detail == "source mt"
    assert "oracle" in table.rows[0].block
    assert any("fewer than 4 sources" in note for _, note in table.notes)


def test_single_best_has_a_label_free_choice_beside_it(frame: pd.DataFrame):
    table = tables.comparison(frame, "digits")
    oracle, free = (rows(table)[f"Single-Best/DANN{suffix}"] for suffix in ("", " (unsup)"))
    # The synthetic curves give source mt the highest label-free score, but syn has the highest accuracy.
    assert oracle["mm"].detail == "source syn"
    assert free["mm"].detail == "source mt"
    assert free["mm"].value < oracle["mm"].value
    assert free["mm"].mark == ""


def test_a_row_of_tsvdnet_says_when_its_auxiliary_tensor_was_zero(frame: pd.DataFrame):
    table = tables.comparison(frame, "digits")
    noted = {row.cells[0].words for row in table.rows if any("auxiliary tensor A was zero" in n for n in row.notes)}
    assert noted == {"T-SVDNet", "T-SVDNet:code", "T-SVDNet:et"}  # the arm without +T has no such tensor
    assert any("in all 15 runs" in note for _, note in table.notes)


def test_both_splits_are_two_labelled_rows_marked_apart(tmp_path: Path):
    for split in ("part", "all"):
        write_study(tmp_path, ["tsvdnet"], split=split)
    write_study(tmp_path, ["dann"], split="part")
    table = tables.comparison(records.load(tmp_path), "digits")
    found = rows(table)
    assert {"Multi-Source/T-SVDNet on part", "Multi-Source/T-SVDNet on all", "Multi-Source/DANN on part"} == set(found)
    assert found["Multi-Source/T-SVDNet on part"]["average"].mark == "best"
    assert found["Multi-Source/T-SVDNet on all"]["average"].mark == ""  # alone in its league
    assert "split part and all" in table.sentences


def test_revisions_stand_in_rows_of_their_own_and_the_caption_says_so(tmp_path: Path):
    write_study(tmp_path, ["dann"], revision="9")
    write_study(tmp_path, ["dann"], revision="10")
    frame = records.load(tmp_path)
    table = tables.comparison(frame, "digits")
    assert [row.cells[0].words for row in table.rows] == ["DANN rev. 10", "DANN rev. 9"]
    assert "never averaged" in table.sentences
    assert [row.cells[0].words for row in tables.comparison(frame, "digits", latest=True).rows] == ["DANN"]


def test_runs_with_fewer_sources_stand_in_a_row_of_their_own(tmp_path: Path):
    write_study(tmp_path, ["dann"])
    write_run(tmp_path, "dann", "mm", 0, sources=["mt", "sv"])
    assert [r.cells[0].words for r in tables.comparison(records.load(tmp_path), "digits").rows] == [
        "DANN",
        "DANN from mt+sv",
    ]


def test_two_runs_for_one_cell_and_seed_are_refused(tmp_path: Path):
    write_run(tmp_path, "dann", "mm", 0)
    write_run(tmp_path, "dann", "mm", 0, salt="another suite file")
    with pytest.raises(UserError, match="2 finished runs of dann for target mm, seed 0"):
        tables.comparison(records.load(tmp_path), "digits")


def test_tuned_and_default_rows_are_told_apart(tmp_path: Path):
    write_study(tmp_path, ["dann"], tuned="abc:lr_scale", overrides={"lr_scale": 2.0})
    assert "Hyper-parameters: tuned" in tables.comparison(records.load(tmp_path), "digits").sentences
    write_study(tmp_path, ["dann"])
    frame = records.load(tmp_path)
    table = tables.comparison(frame, "digits")
    assert {row.cells[0].words for row in table.rows} == {"DANN tuned", "DANN untuned"}
    assert "not a fair comparison" in table.sentences
    assert len(tables.comparison(frame, "digits", tuned=True).rows) == 1


def test_a_choice_made_on_top_of_tuned_values_is_named(tmp_path: Path):
    write_study(tmp_path, ["tsvdnet"], tuned="abc:lr_scale", overrides={"lr_scale": 2.0})
    write_study(tmp_path, ["tsvdnet"], tuned="abc:lr_scale", overrides={"lr_scale": 2.0, "prox": "zero"})
    frame = records.load(tmp_path)
    comparison, choices = tables.comparison(frame, "digits"), tables.choices(frame, "digits")
    assert [row.cells[0].words for row in comparison.rows] == ["T-SVDNet"]
    assert [row.cells[0].words for row in choices.rows] == ["T-SVDNet, default", "T-SVDNet [prox = zero]"]
    assert all("Hyper-parameters: tuned" in table.sentences for table in (comparison, choices))


def test_caption_carries_tier_data_rule_points_and_commits(frame: pd.DataFrame):
    text = tables.comparison(frame, "digits").sentences
    for needed in (
        "Tier mini",
        "made offline & <small>",
        "10 evaluation points",
        "Commit 01234567",
        "untuned",
        "direction only",
    ):
        assert needed in text
    assert "15 runs with changed hyper-parameters are not shown" in text


def test_a_preset_tried_on_some_targets_only_is_left_to_the_kind_choices(tmp_path: Path):
    write_study(tmp_path, ["tsvdnet", "tsvdnet:code"])
    write_study(tmp_path, ["tsvdnet:paper"], targets=["mm", "sv"])
    frame = records.load(tmp_path)
    comparison = tables.comparison(frame, "digits")
    assert [row.cells[0].words for row in comparison.rows] == ["T-SVDNet", "T-SVDNet:code"]
    assert "not shown here (kind choices shows them): T-SVDNet:paper." in comparison.sentences
    assert "INCOMPLETE" not in comparison.sentences
    assert [row.cells[0].words for row in tables.choices(frame, "digits").rows][-1] == "T-SVDNet:paper"


def test_settings_of_all_runs_stand_in_the_caption_and_mixed_settings_are_refused(tmp_path: Path):
    write_study(tmp_path, ["dann"], overrides={"run.updates": 20})
    assert "run.updates = 20" in tables.comparison(records.load(tmp_path), "digits").sentences
    write_study(tmp_path, ["dann"], overrides={"run.updates": 30})
    frame = records.load(tmp_path)
    with pytest.raises(UserError, match=r"mix settings: --set run.updates=20 \(15 runs\)"):
        tables.comparison(frame, "digits")
    table = tables.comparison(frame, "digits", settings={"run.updates": 30})
    assert "run.updates = 30" in table.sentences
    with pytest.raises(UserError, match=r"There are no runs of suite digits with --set run.updates=7"):
        tables.comparison(frame, "digits", settings={"run.updates": 7})


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_no_records_is_a_sentence_that_says_what_to_type(tmp_path: Path):
    with pytest.raises(UserError, match=r"no records of suite digits.*run --suite digits"):
        tables.comparison(records.load(tmp_path), "digits")


def test_failed_runs_alone_make_no_table(tmp_path: Path):
    write_run(tmp_path, "dann", "mm", 0, status="failed")
    with pytest.raises(UserError, match=r"None of the 1 runs .* is done: 1 failed. First reason: NotFinite"):
        tables.comparison(records.load(tmp_path), "digits")


def test_one_record_makes_a_table_that_says_it_is_not_whole(tmp_path: Path):
    write_run(tmp_path, "dann", "mm", 0)
    table = tables.comparison(records.load(tmp_path), "digits")
    assert "INCOMPLETE: 1 of 5 cells measured" in table.sentences
    assert "±" not in table.markdown().split("|", 1)[1]  # one seed has no spread


@pytest.mark.parametrize(
    "fields, words_of_refusal",
    [
        ({"tier": "lite"}, "mix tiers: .*Add --tier"),
        ({"fingerprint": "other-data"}, "mix data fingerprints: .*Add --data"),
        ({"protocol": 2}, "mix protocol numbers: .*Add --protocol"),
        ({"threads": 2}, "mix numbers of threads: .*Add --threads"),
    ],
)
def test_mixed_conditions_are_refused_by_name(tmp_path: Path, fields: dict, words_of_refusal: str):
    write_run(tmp_path, "dann", "mm", 0)
    write_run(tmp_path, "dann", "mm", 1, **fields)
    with pytest.raises(UserError, match=words_of_refusal):
        tables.comparison(records.load(tmp_path), "digits")


def test_a_named_condition_picks_its_runs(tmp_path: Path):
    write_run(tmp_path, "dann", "mm", 0, accuracy=40.0)
    write_run(tmp_path, "dann", "mm", 0, tier="lite", accuracy=60.0)
    frame = records.load(tmp_path)
    for tier, value in (("mini", 40.0), ("lite", 60.0)):
        assert rows(tables.comparison(frame, "digits", tier=tier))["Multi-Source/DANN"]["mm"].value == pytest.approx(
            value
        )
    with pytest.raises(UserError, match="no run of suite digits with --tier 'paper'"):
        tables.comparison(frame, "digits", tier="paper")


def test_unknown_names_are_answered_with_the_nearest(frame: pd.DataFrame):
    with pytest.raises(UserError, match="Did you mean 'comparison'"):
        tables.make("comparisons", frame, "digits")
    with pytest.raises(UserError, match="There is no selection rule 'best'"):
        tables.comparison(frame, "digits", selection="best")
    with pytest.raises(UserError, match="There are runs of: digits"):
        tables.comparison(frame, "pacs")


# -- the other kinds --------------------------------------------------------------------------------------------------


def test_ablation_has_table_4s_rows_and_gains_against_both_baselines(frame: pd.DataFrame):
    table = tables.ablation(frame, "digits")
    assert [row.cells[0].words for row in table.rows] == [
        "Source-Only", "Source-Only:bn", "T-SVDNet (+E)", "T-SVDNet (+E+T)", "T-SVDNet (+E+T+U)",
    ]  # fmt: skip
    last = rows(table)["/T-SVDNet (+E+T+U)"]
    level = LEVEL["tsvdnet"] - LEVEL["source-only"]
    assert last["gain_source-only"].value == pytest.approx(level, abs=0.5)
    assert last["gain_source-only:bn"].value == pytest.approx(level - PRESET["bn"], abs=0.5)
    assert last["ci_source-only"].low < last["gain_source-only"].value < last["ci_source-only"].high
    assert rows(table)["/Source-Only"]["gain_source-only"].words == "–"


def test_gain_is_the_paired_difference(frame: pd.DataFrame):
    wide = {}
    for method, preset in (("tsvdnet", "e"), ("source-only", "")):
        runs = frame[(frame.method == method) & (frame.preset == preset) & (frame.standard == "multi-source")]
        wide[method] = runs.pivot(index="seed", columns="target", values="last").mean(axis=1)
    difference = wide["tsvdnet"] - wide["source-only"]
    cell = rows(tables.ablation(frame, "digits"))["/T-SVDNet (+E)"]
    assert cell["gain_source-only"].value == pytest.approx(difference.mean())
    half = 4.302653 * difference.std(ddof=1) / np.sqrt(3)
    assert cell["ci_source-only"].high == pytest.approx(difference.mean() + half, rel=1e-5)


def test_ablation_with_a_missing_step_says_so(tmp_path: Path):
    write_study(tmp_path, ["source-only", "tsvdnet"])
    table = tables.ablation(records.load(tmp_path), "digits")
    assert "INCOMPLETE: no runs of Source-Only:bn, T-SVDNet (+E), T-SVDNet (+E+T)" in table.sentences
    assert rows(table)["/T-SVDNet (+E)"]["mm"].words == "not run"


def test_ablation_refuses_what_it_cannot_compare(tmp_path: Path):
    write_study(tmp_path, ["dann"])
    with pytest.raises(UserError, match="nothing for the table ablation"):
        tables.ablation(records.load(tmp_path), "digits")
    write_study(tmp_path, ["tsvdnet"], split="all")
    with pytest.raises(UserError, match="--split all"):
        tables.ablation(records.load(tmp_path), "digits")
    write_study(tmp_path, ["tsvdnet"], revision="2")
    write_study(tmp_path, ["tsvdnet"])
    with pytest.raises(UserError, match=r"revisions 1 and 2.*--latest"):
        tables.ablation(records.load(tmp_path), "digits", split="part")


def test_choices_have_one_row_a_choice_with_effect_and_interval(frame: pd.DataFrame):
    found = rows(tables.choices(frame, "digits"))
    assert list(found) == [
        "/T-SVDNet, default",
        "/T-SVDNet [prox = zero]",
        "/T-SVDNet:code",
        "/T-SVDNet:e",
        "/T-SVDNet:et",
    ]
    assert found["/T-SVDNet:e"]["effect"].value == pytest.approx(PRESET["e"], abs=0.4)
    assert found["/T-SVDNet:e"]["verdict"].words == "worse"
    assert found["/T-SVDNet [prox = zero]"]["verdict"].words == "no difference seen"


def test_rows_with_fewer_targets_are_compared_on_those_they_have(tmp_path: Path):
    write_study(tmp_path, ["source-only", "source-only:bn", "tsvdnet"])
    write_study(tmp_path, ["tsvdnet:e"], targets=["mm", "sv"])
    frame = records.load(tmp_path)
    wide = {}
    for name in ("", "e"):
        runs = frame[(frame.method == "tsvdnet") & (frame.preset == name) & frame.target.isin(["mm", "sv"])]
        wide[name] = runs.pivot(index="seed", columns="target", values="last").mean(axis=1)
    found = rows(tables.choices(frame, "digits"))["/T-SVDNet:e"]
    assert found["targets"].words == "mm, sv"
    assert found["average"].value == pytest.approx(wide["e"].mean())
    assert found["effect"].value == pytest.approx((wide["e"] - wide[""]).mean())
    row = next(r for r in tables.ablation(frame, "digits").rows if r.cells[0].words == "T-SVDNet (+E)")
    assert "over the targets that both rows have: mm, sv" in " ".join(row.notes)


def test_two_seeds_decide_no_choice(tmp_path: Path):
    write_study(tmp_path, ["tsvdnet", "tsvdnet:e"], seeds=(0, 1))
    assert rows(tables.choices(records.load(tmp_path), "digits"))["/T-SVDNet:e"]["verdict"].words.startswith(
        "undecided"
    )


def test_selection_shows_every_rule_and_the_oracle_is_never_best(frame: pd.DataFrame):
    table = tables.selection(frame, "digits")
    assert [c.title for c in table.columns[1:6]] == ["last", "source-val", "unsup", "oracle", "oracle − last"]
    assert all(row.cells[4].mark == "" for row in table.rows)
    assert all(row.cells[5].value >= -1e-9 for row in table.rows if row.cells[5].measured)


def test_cost_counts_passes_and_sums_hours(frame: pd.DataFrame):
    found = rows(tables.cost(frame, "digits"))["Multi-Source/M³SDA"]
    runs = frame[frame.method == "m3sda"]
    assert found["passes"].value == pytest.approx(3.5)
    assert found["hours"].value == pytest.approx(runs["seconds"].sum() / 3600)


def test_per_class_means_over_targets_or_on_one(frame: pd.DataFrame):
    everywhere = rows(tables.per_class(frame, "digits"))["Multi-Source/DANN"]
    one = tables.per_class(frame, "digits", target="sv")
    runs = frame[(frame.method == "dann") & (frame.standard == "multi-source") & (frame.target == "sv")]
    # synthetic classes lie evenly from 8 points below to 8 above the accuracy
    assert rows(one)["Multi-Source/DANN"]["class_0"].value == pytest.approx(runs["last"].mean() - 8, abs=0.01)
    assert everywhere["class_0"].value != pytest.approx(rows(one)["Multi-Source/DANN"]["class_0"].value)
    with pytest.raises(UserError, match="There is no domain of suite digits 'svn'"):
        tables.per_class(frame, "digits", target="svn")
    with pytest.raises(UserError, match="last evaluation point only"):
        tables.per_class(frame, "digits", selection="oracle")


def test_many_classes_show_the_lowest_and_say_so(tmp_path: Path):
    write_run(tmp_path, "dann", "clp", 0, suite="domainnet", generated=())
    table = tables.per_class(records.load(tmp_path), "domainnet")
    assert len(table.columns) == 12 + 3
    assert "12 of 345 classes" in table.sentences


def test_reported_holds_ours_against_the_printed_number(frame: pd.DataFrame):
    table = tables.reported(frame, "digits")
    row = next(r for r in table.rows if r.cells[0].words == "T-SVDNet" and r.cells[1].words == "→ mm")
    measured, printed, difference = row.cells[2:5]
    assert (printed.value, printed.spread) == (90.05, 0.91)
    assert difference.value == pytest.approx(measured.value - 90.05)
    assert row.cells[6].words == "direction only"
    assert row.cells[7].words == "1, T-SVDNet_part"
    assert "does not say how many runs" in table.sentences


def test_reported_gives_verdicts_in_tier_paper_only(tmp_path: Path):
    for seed, value in enumerate((89.95, 90.05, 90.15)):
        write_run(tmp_path, "tsvdnet", "mm", seed, tier="paper", accuracy=value, generated=())
    for seed, value in enumerate((79.95, 80.05, 80.15)):
        write_run(tmp_path, "tsvdnet", "mt", seed, tier="paper", accuracy=value, generated=())
    for seed, value in enumerate((97.0, 98.6, 99.8)):
        write_run(tmp_path, "tsvdnet", "up", seed, tier="paper", accuracy=value, generated=())
    verdicts = {r.cells[1].words: r.cells[6].words for r in tables.reported(records.load(tmp_path), "digits").rows}
    assert verdicts == {
        "→ mm": "reproduced", "→ mt": "differs", "→ up": "undecided",
        "→ sv": "not measured", "→ syn": "not measured", "Avg": "not measured",
    }  # fmt: skip


def test_averages_lists_the_eleven_wrong_ones_without_any_record():
    table = tables.make("averages", pd.DataFrame(), "digits")
    assert len(table.rows) == 11
    assert table.rows[0].cells[-1].value == pytest.approx(1.26)


def test_domainnet_prints_one_decimal_as_the_paper_does(tmp_path: Path):
    write_study(tmp_path, ["dann"], suite="domainnet", generated=())
    table = tables.comparison(records.load(tmp_path), "domainnet")
    assert table.columns[1].decimals == 1
    assert "w/o" not in "".join(c.title for c in table.columns)


# -- marks and letters -------------------------------------------------------------------------------------------------


def test_equal_printed_numbers_share_the_mark_and_leave_no_second():
    columns = (Column("m", "M"), Column("x", "X", "score", better="high"))
    marked = mark_best(columns, [Row((words(n), Cell(v))) for n, v in (("a", 50.001), ("b", 50.004), ("c", 40.0))])
    assert [row.cells[1].mark for row in marked] == ["best", "best", ""]


def test_a_league_of_one_has_no_best_and_low_may_be_better():
    columns = (Column("m", "M"), Column("x", "X", "number", better="low"))
    marked = mark_best(columns, [Row((words("a"), Cell(1.0)), league="p"), Row((words("b"), Cell(2.0)), league="q")])
    assert [row.cells[1].mark for row in marked] == ["", ""]
    marked = mark_best(columns, [Row((words("a"), Cell(1.0))), Row((words("b"), Cell(2.0)))])
    assert [row.cells[1].mark for row in marked] == ["best", "second"]


def test_letters_go_on_after_z():
    assert [letter(i) for i in (0, 25, 26, 27, 52)] == ["a", "z", "aa", "ab", "ba"]


# -- forms -------------------------------------------------------------------------------------------------------------


def make(kind: str, frame: pd.DataFrame) -> Table:
    return tables.make(kind, frame, "digits")


KINDS = [*tables.KINDS, "averages"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["md", "tex", "csv", "html", "txt"])
def test_golden(kind: str, form: str, frame: pd.DataFrame):
    table = make(kind, frame)
    if form == "txt":
        console = Console(width=200, file=io.StringIO(), color_system=None)
        table.text(console)
        text = re.sub(r" +$", "", console.file.getvalue(), flags=re.M)  # type: ignore[attr-defined]
    else:
        text = tables.FORMS[form](table)
    path = GOLDEN / f"{kind}.{form}"
    if os.environ.get("BENCHMARK_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path.name} changed; look at it, then BENCHMARK_UPDATE_GOLDEN=1"


def test_names_are_escaped_in_every_form(frame: pd.DataFrame):
    table = tables.comparison(frame, "digits")
    assert NASTY in next(csv.reader(line for line in table.csv().splitlines() if "My_Net" in line))
    html, markdown, latex = table.html(), table.markdown(), table.latex()
    assert "My_Net &amp; &lt;b&gt;100 %&lt;/b&gt; #1" in html
    assert "<b>" not in html
    assert r"My\_Net &amp; &lt;b&gt;100 %&lt;/b&gt; \#1" in markdown
    assert r"\|" in markdown
    assert (
        r"My\_Net \& \textless{}b\textgreater{}100 \%\textless{}/b\textgreater{} \#1 \{x\} \$y\textasciicircum{}2"
        in latex
    )


def test_markdown_has_the_same_number_of_columns_in_every_line(frame: pd.DataFrame):
    lines = [ln for ln in tables.comparison(frame, "digits").markdown().splitlines() if ln.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_csv_reads_back_as_numbers_with_reasons_apart(frame: pd.DataFrame):
    table = tables.comparison(frame, "digits")
    back = pd.read_csv(io.StringIO(table.csv()))
    dann = back[(back.method == "DANN") & (back.block == "Multi-Source")].iloc[0]
    assert dann["mm"] == pytest.approx(rows(table)["Multi-Source/DANN"]["mm"].value, rel=1e-5)
    assert dann["mm_n"] == 3
    mdda = back[back.method == "MDDA"].iloc[0]
    assert np.isnan(mdda["mt"])
    assert mdda["mt_remark"].startswith("failed; NotFinite")


def test_a_name_that_a_spreadsheet_would_execute_is_defused(tmp_path: Path):
    write_run(tmp_path, "net.py:Evil", "mm", 0, title="=cmd|' /C calc'!A0")
    text = tables.comparison(records.load(tmp_path), "digits").csv()
    assert ",'=cmd" in text


def test_write_gives_four_files_and_html_needs_nothing_else(frame: pd.DataFrame, tmp_path: Path):
    paths = tables.write(tables.comparison(frame, "digits"), tmp_path / "tables", "t")
    assert [p.suffix for p in paths] == [".md", ".tex", ".csv", ".html"]
    html = paths[3].read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert not re.search(r"(?:src|href)=", html)


def test_json_holds_every_cell(frame: pd.DataFrame):
    import json

    document = json.loads(json.dumps(tables.comparison(frame, "digits").json(), allow_nan=False))
    row = next(r for r in document["rows"] if r["cells"]["method"] == "DANN" and r["block"] == "Multi-Source")
    assert row["cells"]["mm"]["n"] == 3
    assert document["facts"]["tier"] == "mini"


ARTICLE = r"""\documentclass[twocolumn]{article}
\usepackage{booktabs}
\usepackage{siunitx}
\begin{document}
Text before the table.
%s
\end{document}
"""


@pytest.mark.latex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("kind", [*KINDS, "verdicts"])
def test_latex_compiles_in_a_two_column_article_and_fits(kind: str, frame: pd.DataFrame, tmp_path: Path):
    if kind == "verdicts":
        from benchmark import verdict

        table = verdict.table(verdict.judge(frame))
    else:
        table = make(kind, frame)
    (tmp_path / "a.tex").write_text(ARTICLE % table.latex(), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, errors="replace")
    assert done.returncode == 0, done.stdout[-3000:]
    too_wide = [float(x) for x in re.findall(r"Overfull \\hbox \(([\d.]+)pt", done.stdout)]
    assert not [x for x in too_wide if x > 1.0], done.stdout[-3000:]
    assert "Float too large" not in done.stdout
    keep = os.environ.get("BENCHMARK_KEEP_PDF")
    if keep:
        shutil.copy(tmp_path / "a.pdf", Path(keep) / f"{kind}.pdf")


def test_gains_are_paired_differences_to_source_only_bn(tmp_path: Path):
    write_study(tmp_path, ["source-only:bn", "dann"], seeds=(0, 1, 2))
    frame = records.load(tmp_path)
    table = tables.gains(frame, "digits")
    (row,) = table.rows
    cells = dict(zip([column.key for column in table.columns], row.cells, strict=True))
    scores = frame.pivot(index="seed", columns=["method", "target"], values="last").astype(float)
    for target in ("mm", "sv"):
        difference = scores["dann", target] - scores["source-only", target]
        wanted = scipy.stats.t.interval(0.95, 2, difference.mean(), difference.sem())
        assert cells[target].value == pytest.approx(difference.mean())
        assert (cells[f"{target}_interval"].low, cells[f"{target}_interval"].high) == pytest.approx(wanted)
        assert (cells[target].mark == "best") == (wanted[0] > 0)
    assert cells["average"].value == pytest.approx((scores["dann"] - scores["source-only"]).mean().mean())
    with pytest.raises(UserError, match="compares with source-only:bn"):
        tables.gains(frame[frame["method"] == "dann"], "digits")
