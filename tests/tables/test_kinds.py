"""The other kinds of table, each against the records it is made from."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmark import figures, records, tables
from benchmark.errors import UserError
from tests.synthetic import write_run, write_study
from tests.tables.study import rows


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
    assert rows(one)["Multi-Source/DANN"]["class_0"].value == pytest.approx(runs["target_last"].mean() - 8, abs=0.01)
    assert everywhere["class_0"].value != pytest.approx(rows(one)["Multi-Source/DANN"]["class_0"].value)
    with pytest.raises(UserError, match="There is no domain of suite digits 'svn'"):
        tables.per_class(frame, "digits", target="svn")
    with pytest.raises(UserError, match="last evaluation point only"):
        tables.per_class(frame, "digits", selection="oracle")


def test_many_classes_show_the_lowest_and_say_so(tmp_path: Path):
    write_run(tmp_path, "dann", "clp", 0, suite="domainnet", generated=())
    table = tables.per_class(records.load(tmp_path), "domainnet")
    assert len(table.columns) == 12 + 3
    assert "Shown: the 12 lowest of 345 classes." in table.caption


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


def test_a_changed_setting_or_generated_images_get_no_cell_verdict_even_in_tier_paper(tmp_path: Path):
    def verdict(folder: str, target: str, **fields: object) -> str:
        for seed in range(3):
            write_run(tmp_path / folder, "tsvdnet", target, seed, tier="paper", accuracy=80 + 0.1 * seed, **fields)  # type: ignore[arg-type]
        table = tables.reported(records.load(tmp_path / folder), "digits")
        return next(r.cells[6].words for r in table.rows if r.cells[2].measured)

    assert verdict("real", "syn", generated=()) == "differs"
    assert verdict("made", "syn", generated=("syn",)) == "direction only"
    assert verdict("short", "mm", generated=(), overrides={"run.updates": 20}) == "direction only"


def test_the_releases_rows_are_held_against_the_printed_parts_they_answer(tmp_path: Path):
    presets = ("code-e", "code-p", "code", "code-u")
    for split in ("all", "part"):
        write_study(tmp_path, [f"tsvdnet:{p}" for p in presets], split=split, targets=["mm"])
    table = tables.reported(records.load(tmp_path), "digits", split="all")
    where = {row.cells[0].detail: row.cells[7].words for row in table.rows if row.cells[1].words == "→ mm"}
    assert where == {
        "tsvdnet:code-e": "4, T-SVDNet (+E)", "tsvdnet:code": "4, T-SVDNet (+E+T)", "tsvdnet:code-u": "1, T-SVDNet_all",
    }  # fmt: skip
    table = tables.reported(records.load(tmp_path), "digits", split="part")
    assert {row.cells[0].detail for row in table.rows} == {"tsvdnet:code", "tsvdnet:code-u"}


def test_averages_lists_the_eleven_wrong_ones_without_any_record():
    table = tables.make("averages", pd.DataFrame(), "digits")
    assert len(table.rows) == 11
    assert table.rows[0].cells[-1].value == pytest.approx(1.26)


def test_domainnet_prints_one_decimal_as_the_paper_does(tmp_path: Path):
    write_study(tmp_path, ["dann"], suite="domainnet", generated=())
    table = tables.comparison(records.load(tmp_path), "domainnet")
    assert table.columns[1].decimals == 1
    assert "w/o" not in "".join(c.title for c in table.columns)


def test_times_are_of_the_machine_that_most_runs_ran_on(tmp_path: Path):
    write_study(tmp_path, ["source-only", "dann"])
    write_study(tmp_path, ["m3sda"], seeds=[0])
    frame = records.load(tmp_path)
    assert "Times are those of a processor ×2." in tables.cost(frame, "digits").sentences
    fast = (frame.method == "m3sda") | ((frame.method == "dann") & (frame.seed == 0))
    frame = frame.assign(
        hardware=frame.hardware.where(~fast, "a fast one"), cpu_seconds=frame.cpu_seconds.where(~fast, 1.0)
    )
    table = tables.cost(frame, "digits")
    found = rows(table)
    own = frame[(frame.method == "dann") & (frame.seed > 0)]
    assert found["Multi-Source/DANN"]["cpu_seconds"].value == pytest.approx(own.cpu_seconds.mean())
    assert found["Multi-Source/M³SDA"]["cpu_seconds"].words == found["Multi-Source/M³SDA"]["seconds"].words == "–"
    said = "Times are of the 25 of 35 runs on a processor ×2: other machines have other speeds."
    assert said in table.sentences
    assert said in tables.comparison(frame, "digits").sentences
    drawing = figures.draw("cost", frame, "digits")
    assert {said, "Not drawn, for all their runs ran on others: M³SDA (multi-source)."} <= set(drawing.conditions)
