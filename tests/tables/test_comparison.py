"""The comparison says what the records say: blocks, rows of their own, marks, reasons and captions."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from benchmark import records, tables
from benchmark.errors import UserError
from benchmark.records.selection import column_of, normalise
from tests.synthetic import write_run, write_study
from tests.tables.study import rows


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
    assert cell.value == pytest.approx(runs["target_last"].mean())
    assert cell.spread == pytest.approx(runs["target_last"].std(ddof=1))


def test_average_is_taken_per_seed_over_all_targets(frame: pd.DataFrame):
    found = rows(tables.comparison(frame, "digits"))["Multi-Source/DANN"]
    runs = frame[(frame.method == "dann") & (frame.standard == "multi-source")]
    per_seed = runs.pivot(index="seed", columns="target", values="target_last")
    assert found["average"].value == pytest.approx(per_seed.mean(axis=1).mean())
    assert found["average"].spread == pytest.approx(per_seed.mean(axis=1).std(ddof=1))
    assert found["average_without_syn"].value == pytest.approx(per_seed.drop(columns="syn").mean(axis=1).mean())


def test_every_rule_reads_its_own_column(frame: pd.DataFrame):
    for rule in ("last", "source-val", "unsup", "snd", "bnm", "dev", "oracle"):
        table = tables.comparison(frame, "digits", selection=rule)
        runs = frame[(frame.method == "m3sda") & (frame.target == "mm")]
        assert rows(table)["Multi-Source/M³SDA"]["mm"].value == pytest.approx(
            runs[column_of(normalise(rule), "target")].mean()
        )
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
    table = tables.comparison(records.load(tmp_path), "digits", statistics="running")
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
    noted = {row.cells[0].words for row in table.rows if any("A was zero at every update" in n for n in row.notes)}
    assert noted == {"T-SVDNet", "T-SVDNet:code", "T-SVDNet:et"}  # the arm without +T has no such tensor
    assert any("in all 15 runs" in note for _, note in table.notes)


def test_a_row_carries_what_its_method_remarked_with_the_number_of_runs(tmp_path: Path):
    """Whatever the method: a sentence in the records becomes a footnote; those of protocol 1 stand among their warnings."""
    for protocol in (1, 2):
        root = tmp_path / str(protocol)
        for target in ("mm", "mt"):
            for seed in (0, 1):
                zero = (target, seed) != ("mm", 0)
                write_run(root, "tsvdnet", target=target, seed=seed, protocol=protocol, a_zero=zero)
        frame = records.load(root)
        assert sorted(frame["remarks"].map(json.loads).map(len)) == [0, 1, 1, 1]
        (row,) = tables.comparison(frame, "digits").rows
        assert row.notes[0] == (
            "A was zero at every update: the low-rank term had no low-rank tensor (in 3 of 4 runs)."
        )
        frame["method"], frame["remarks"] = "dann", '["it was so"]'
        (row,) = tables.comparison(frame, "digits").rows
        assert row.notes[0] == "It was so (in all 4 runs)."


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
    assert "17 runs with changed hyper-parameters are not shown" in text


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
