"""The other kinds of table, each against the records it is made from."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from benchmark import figures, records, tables
from benchmark.errors import UserError
from tests.synthetic import LEVEL, PRESET, write_run, write_study
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
