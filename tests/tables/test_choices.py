"""The table of choices: what each disputed choice changes, with its interval, corrected over the family."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmark import records, tables
from benchmark.errors import UserError
from tests.synthetic import PRESET, write_run, write_study
from tests.tables.study import rows


def test_choices_have_one_row_a_choice_with_effect_and_interval(frame: pd.DataFrame):
    found = rows(tables.choices(frame, "digits"))
    assert list(found) == [
        "/T-SVDNet, default",
        "/T-SVDNet [prox = zero]",
        "/T-SVDNet:code",
        "/T-SVDNet:code [aux_restart = 233, eta_schedule = released]",
        "/T-SVDNet:code [aux_restart = 233, eta_schedule = released, tensor = off]",
        "/T-SVDNet:e",
        "/T-SVDNet:et",
    ]
    assert found["/T-SVDNet:e"]["effect"].value == pytest.approx(PRESET["e"], abs=0.4)
    assert found["/T-SVDNet:e"]["verdict"].words == "worse"
    assert found["/T-SVDNet [prox = zero]"]["verdict"].words == "no difference seen"


def test_a_preset_changed_by_hand_is_held_against_that_preset(tmp_path: Path):
    write_study(tmp_path, ["tsvdnet", "tsvdnet:code"], targets=["mm"])
    write_study(tmp_path, ["tsvdnet:code", "tsvdnet:e"], targets=["mm"], overrides={"lam": 250.0})
    frame = records.load(tmp_path)
    found = rows(tables.choices(frame, "digits"))
    own = frame.overrides.fillna("{}").str.contains("lam")
    score = {
        changed: frame[(frame.preset == "code") & (own == changed)].sort_values("seed")["target_last"].to_numpy()
        for changed in (False, True)
    }
    changed = found["/T-SVDNet:code [lam = 250.0]"]
    assert changed["base"].words == "T-SVDNet:code"
    assert changed["effect"].value == pytest.approx((score[True] - score[False]).mean())
    assert found["/T-SVDNet:code"]["base"].words == "T-SVDNet"
    assert found["/T-SVDNet:e [lam = 250.0]"]["base"].words == "T-SVDNet"  # no run of :e as it comes
    alone = frame[frame.preset == "code"]  # no run of the default either
    assert list(rows(tables.choices(alone, "digits"))) == ["/T-SVDNet:code", "/T-SVDNet:code [lam = 250.0]"]


def test_where_every_row_was_changed_by_hand_they_are_shown(tmp_path: Path):
    write_run(tmp_path, "tsvdnet", "mm", overrides={"lam": 250.0})
    frame = records.load(tmp_path)
    assert list(rows(tables.comparison(frame, "digits"))) == ["Multi-Source/T-SVDNet [lam = 250.0]"]
    for kind in ("selection", "statistics"):
        with pytest.raises(UserError, match="has been run on all targets"):
            tables.make(kind, frame, "digits")
    with pytest.raises(UserError, match="stands for a row that the paper prints"):
        tables.reported(frame, "digits")


def test_rows_with_fewer_targets_are_compared_on_those_they_have(tmp_path: Path):
    write_study(tmp_path, ["source-only", "source-only:bn", "tsvdnet"])
    write_study(tmp_path, ["tsvdnet:e"], targets=["mm", "sv"])
    frame = records.load(tmp_path)
    wide = {}
    for name in ("", "e"):
        runs = frame[(frame.method == "tsvdnet") & (frame.preset == name) & frame.target.isin(["mm", "sv"])]
        wide[name] = runs.pivot(index="seed", columns="target", values="target_last").mean(axis=1)
    found = rows(tables.choices(frame, "digits"))["/T-SVDNet:e"]
    assert found["targets"].words == "mm, sv"
    assert found["average"].value == pytest.approx(wide["e"].mean())
    assert found["effect"].value == pytest.approx((wide["e"] - wide[""]).mean())
    row = next(r for r in tables.ablation(frame, "digits").rows if r.cells[0].words == "T-SVDNet (+E)")
    assert "over the targets that both rows have: mm, sv" in " ".join(row.notes)


def test_a_choice_that_gives_the_same_bits_is_not_in_holms_family(tmp_path: Path):
    def choice(value: str, *, shift: float, weights: str) -> None:
        for target in ("mm", "sv"):
            for seed in range(3):
                accuracy = 50.0 + seed + shift * (1 + 0.2 * seed)
                given = {"overrides": {"prox": value}} if value else {}
                write_run(
                    tmp_path, "tsvdnet", target, seed, accuracy=accuracy, weights=f"{weights}{target}{seed}", **given
                )

    choice("", shift=0.0, weights="a")
    choice("far", shift=-5.0, weights="b")
    alone = tables.choices(records.load(tmp_path), "digits")
    p = rows(alone)["/T-SVDNet [prox = far]"]["p_holm"].value
    assert "each choice with 3 or more seeds against its base: 1 comparison." in alone.sentences
    choice("code", shift=0.0, weights="a")  # A = 0: the same run under another name
    choice("zero", shift=0.0, weights="a")
    choice("twin", shift=-5.0, weights="b")  # the same run as "far"
    write_run(tmp_path, "tsvdnet", "mm", 0, overrides={"prox": "few"})
    found = tables.choices(records.load(tmp_path), "digits")
    by_name = rows(found)
    assert by_name["/T-SVDNet [prox = far]"]["p_holm"].value == p  # none of them made the correction harder
    assert by_name["/T-SVDNet [prox = twin]"]["p_holm"].value == p
    for name in ("code", "zero"):
        assert by_name[f"/T-SVDNet [prox = {name}]"]["p_holm"].words == "–"
        assert by_name[f"/T-SVDNet [prox = {name}]"]["verdict"].words == "cannot differ: the same bits"
    assert (
        "1 comparison; not in it: 2 that give the same bits on every shared target and seed and cannot differ, 1 that repeat "
        "another row bit for bit and share its p, 1 with fewer than 3 common seeds."
    ) in found.sentences


def test_equal_weights_with_other_predictions_can_differ_and_stay_in_the_family(tmp_path: Path):
    for seed in range(3):
        write_run(tmp_path, "tsvdnet", "mm", seed, accuracy=60.0 + seed, weights=f"w{seed}")
        changed = {"overrides": {"normalise": "training"}, "weights": f"w{seed}"}
        write_run(tmp_path, "tsvdnet", "mm", seed, accuracy=60.1 + 1.1 * seed, **changed)
    table = tables.choices(records.load(tmp_path), "digits")
    assert "1 comparison." in table.sentences
    assert rows(table)["/T-SVDNet [normalise = training]"]["p_holm"].measured


def test_two_seeds_decide_no_choice(tmp_path: Path):
    write_study(tmp_path, ["tsvdnet", "tsvdnet:e"], seeds=(0, 1))
    assert rows(tables.choices(records.load(tmp_path), "digits"))["/T-SVDNet:e"]["verdict"].words.startswith(
        "undecided"
    )
