"""Figures are drawn from what the loop stored, alike for every method, and say what they rest on."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from PIL import Image

from benchmark import figures, records, tables
from benchmark.__main__ import main
from benchmark.errors import UserError
from benchmark.figures import runs
from benchmark.figures.ranks import groups
from benchmark.figures.style import looks
from benchmark.paper.log import log
from benchmark.records.selection import scores
from methods import BUILT_IN
from tests.synthetic import write_run, write_study

KINDS = ["tsne", "similarity", "uncertainty", "tnn", "curves", "cost"]


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    root = tmp_path_factory.mktemp("figures")
    write_study(root, ["source-only", "m3sda", "tsvdnet:e", "tsvdnet"], targets=["mm"], seeds=(0,), artifacts=True)
    write_study(root, ["source-only", "m3sda", "tsvdnet:e", "tsvdnet"], targets=["mm"], seeds=(1, 2))
    write_study(root, ["tsvdnet", "dann"], targets=["mt", "up", "sv", "syn"])
    return records.load(root)


def test_every_kind_becomes_png_and_pdf_with_words(frame: pd.DataFrame, tmp_path: Path):
    for kind in KINDS:
        drawing = figures.draw(kind, frame, "digits")
        paths = figures.write(drawing, tmp_path, kind)
        assert [p.suffix for p in paths] == [".png", ".pdf"]
        pixels = np.asarray(Image.open(paths[0]).convert("L"))
        assert 0.001 < (pixels < 200).mean() < 0.9  # something is drawn, and it is not all ink
        assert paths[1].read_bytes().startswith(b"%PDF")
        assert "Digits-Five" in drawing.title
        assert len(drawing.alt) > 40
        assert "Tier mini" in " ".join(drawing.conditions)
        assert drawing.caption.endswith("Direction only.")
        assert len(drawing.title) + len(drawing.caption) <= 200  # about two lines


def test_the_figure_of_the_log_draws_the_released_curve_and_both_rows(tmp_path: Path):
    released = log()
    for row in released.rows:
        changes = {**row.changes, "run.updates": 2563, "run.eval_points": 11}
        write_run(tmp_path, "tsvdnet", "mm", tier="paper", preset="code", overrides=changes, updates=2563, points=11)
    frame = records.load(tmp_path)
    drawing = figures.draw("log", frame, "digits")
    left, right = drawing.figure.axes
    for axis, kind in ((left, "running"), (right, "target")):
        theirs, *ours = [np.asarray(line.get_ydata()) for line in axis.lines]
        assert theirs.tolist() == list(released.accuracy.values())[:11]
        by_tensor = frame.overrides.str.contains("tensor").tolist()
        paths = [frame.path[by_tensor.index(off)] for off in (False, True)]
        curves = [records.read_curve(Path(path)) for path in paths]
        assert [values.tolist() for values in ours] == [[scores(p, kind)["target"] for p in curve] for curve in curves]
    assert "80.28" in drawing.alt
    with pytest.raises(UserError, match="does not go with --kind log"):
        figures.draw("log", frame, "digits", target="mm")


def test_the_figure_of_the_log_says_which_statistics_each_side_has(tmp_path: Path):
    for row, seed in ((row, seed) for row in log().rows for seed in (0, 1)):
        write_run(tmp_path, "tsvdnet", "mm", seed, preset="code", overrides=row.changes, updates=2330)
    drawing = figures.draw("log", records.load(tmp_path), "digits")
    said = " ".join(drawing.conditions)
    assert "left statistics that the loop leaves behind, as in the log; right statistics of target" in said
    assert "--statistics" not in said
    assert "bands: from the lowest to the highest seed" in drawing.caption


def test_the_same_records_give_the_same_bytes(frame: pd.DataFrame):
    for form in ("png", "pdf"):
        assert len({figures.render(figures.draw("tnn", frame, "digits"), form) for _ in range(2)}) == 1


def test_similarity_shows_the_stored_matrices_with_and_without_t(frame: pd.DataFrame):
    drawing = figures.draw("similarity", frame, "digits")
    axes = [a for a in drawing.figure.axes if a.images]
    assert len(axes) == 10
    selected = runs.select(frame, "digits")
    for axis, row in ((axes[0], "tsvdnet:e"), (axes[5], "tsvdnet")):
        stored = runs.artifacts(selected.rows[row], "mm", 0)
        assert np.allclose(axis.images[0].get_array(), stored["similarity_mt"])
    assert [a.get_title() for a in axes[:5]] == [
        "mt (source)",
        "up (source)",
        "sv (source)",
        "syn* (source)",
        "mm (target)",
    ]


def test_tnn_shows_the_mean_probe_and_the_bound(frame: pd.DataFrame):
    left, right = figures.draw("tnn", frame, "digits").figure.axes
    lines = {line.get_label(): line.get_ydata() for line in left.lines}
    selected = runs.select(frame, "digits")
    _, values = runs.series(runs.curves(selected.rows["tsvdnet"], "mm"), "probes.tnn_rotated")
    assert values.shape == (3, 10)
    assert np.allclose(lines["T-SVDNet"], values.mean(axis=0))
    assert np.asarray(lines["lower bound C√(C·D)"])[0] == pytest.approx(10 * np.sqrt(50))
    assert len(right.lines) == 2


def test_uncertainty_has_a_curve_a_domain_and_a_curve_a_noise_level(frame: pd.DataFrame):
    left, right = figures.draw("uncertainty", frame, "digits").figure.axes
    assert [line.get_label() for line in left.lines] == ["mt", "up", "sv", "syn*", "mm (target)"]
    assert [line.get_label() for line in right.lines] == ["r = 0", "r = 0.1", "r = 0.5", "r = 1"]
    assert right.get_title().startswith("on mt")


def test_tsne_shows_the_papers_three_methods_by_class_and_by_domain(frame: pd.DataFrame):
    figure = figures.draw("tsne", frame, "digits").figure
    assert [a.get_title() for a in figure.axes[:3]] == ["Source-Only", "M³SDA", "T-SVDNet"]
    assert len(figure.axes[0].collections) == 10  # classes
    assert len(figure.axes[3].collections) == 2  # source and target


def test_curves_have_one_panel_a_target(frame: pd.DataFrame):
    figure = figures.draw("curves", frame, "digits", methods=["tsvdnet"]).figure
    assert [a.get_title() for a in figure.axes if a.get_visible()] == ["→ mm", "→ mt", "→ up", "→ sv", "→ syn*"]


def test_no_two_rows_of_a_figure_look_alike_and_a_method_keeps_its_colour():
    presets = ["", "e", "et", "code", "code-e", "code-p", "code-u", "paper"]
    own = [(f"net{i}.py:Net", preset) for i in range(8) for preset in ("", "a")]
    rows = [(name, "") for name, _, _ in BUILT_IN] + [("tsvdnet", p) for p in presets[1:]] + own
    assert len(set(looks(rows))) == len(rows)
    assert len({look.colour for look in looks(rows[: len(BUILT_IN)])}) == len(BUILT_IN)
    dann = rows.index(("dann", ""))
    assert looks([("mcd", ""), ("dann", "")])[1] == looks(rows)[dann]
    assert looks([("tsvdnet", "e")])[0] != looks([("tsvdnet", "")])[0]


def test_curves_draw_each_row_in_its_look(frame: pd.DataFrame):
    axis = figures.draw("curves", frame, "digits", target="mm").figure.axes[0]
    drawn = {line.get_label(): (line.get_color(), line.get_linestyle(), line.get_marker()) for line in axis.lines}
    wanted = looks([("source-only", ""), ("m3sda", ""), ("tsvdnet", ""), ("tsvdnet", "e")])
    assert list(drawn.values()) == [(look.colour, look.dash, look.marker) for look in wanted]


def test_curves_and_costs_take_the_targets_statistics_and_say_so(frame: pd.DataFrame, tmp_path: Path):
    wanted = {"target_last": None, "last": "running"}
    for column, statistics in wanted.items():
        drawing = figures.draw("curves", frame, "digits", methods=["tsvdnet"], target="mm", statistics=statistics)
        ends = frame[(frame.method == "tsvdnet") & (frame.preset == "") & (frame.target == "mm")][column]
        assert drawing.figure.axes[0].lines[0].get_ydata()[-1] == pytest.approx(ends.mean())
        assert ("of target training images, re-estimated" in " ".join(drawing.conditions)) == (statistics is None)
        costs = figures.draw("cost", frame, "digits", statistics=statistics)
        dann = frame[(frame.method == "tsvdnet") & (frame.preset == "")][column].mean()
        assert any(line.get_ydata()[0] == pytest.approx(dann) for line in costs.figure.axes[0].lines[:-1])
    for kind in ("tsne", "tnn"):  # the paper's own figures: what the loop leaves behind
        drawing = figures.draw(kind, frame, "digits")
        assert "loop leaves behind, as released code does" in " ".join(drawing.conditions)
    with pytest.raises(UserError, match="--statistics does not go with --kind tsne"):
        figures.draw("tsne", frame, "digits", statistics="target")


def test_a_name_with_dollars_is_a_name_and_not_mathematics(tmp_path: Path):
    write_study(tmp_path, ["net.py:Odd"], title="$x_1^{2}$ & <b> %")
    drawing = figures.draw("curves", records.load(tmp_path), "digits")
    named = [text for text in drawing.figure.findobj(Text) if "$x_1^{2}$" in text.get_text()]
    assert named
    assert not any(text.get_parse_math() for text in named)
    assert figures.render(drawing, "png").startswith(b"\x89PNG")


def test_refusals_say_what_to_run(tmp_path: Path, frame: pd.DataFrame):
    write_study(tmp_path, ["dann"], targets=["mm"])
    lone = records.load(tmp_path)
    with pytest.raises(UserError, match=r"no finished run for a row with \+T.*--methods tsvdnet|without \+T"):
        figures.draw("similarity", lone, "digits")
    with pytest.raises(UserError, match=r"no artifacts\.npz to draw from"):
        figures.draw("tsne", lone, "digits")
    with pytest.raises(UserError, match="Did you mean 'tsne'"):
        figures.draw("tsn", frame, "digits")
    with pytest.raises(UserError, match="There is no target that all shown rows have run 'mt'"):
        figures.draw("tnn", frame, "digits", target="mt")
    with pytest.raises(UserError, match="There is no seed that all shown rows have run"):
        figures.draw("similarity", frame, "digits", seed=9)
    with pytest.raises(UserError, match="--methods does not go with --kind cost: leave it out"):
        figures.draw("cost", frame, "digits", methods=["tsvdnet"])
    with pytest.raises(UserError, match="--methods tsvdnet:e,tsvdnet"):
        figures.draw("tnn", frame, "digits", methods=["tsvdnet"])
    with pytest.raises(UserError, match="nothing to draw"):
        figures.draw("cost", lone, "digits")


def test_mixed_records_are_refused_as_in_tables(tmp_path: Path):
    write_run(tmp_path, "dann", "mm", 0)
    write_run(tmp_path, "dann", "mm", 0, tier="lite")
    with pytest.raises(UserError, match="mix tiers"):
        figures.draw("curves", records.load(tmp_path), "digits")


def test_critical_difference_is_refused_for_one_suite_and_drawn_for_three(tmp_path: Path):
    methods = ["source-only", "dann", "m3sda", "tsvdnet"]
    write_study(tmp_path, methods, seeds=(0, 1))
    with pytest.raises(UserError, match=r"at least 10 independent blocks.*there are 5"):
        figures.draw("critical-difference", records.load(tmp_path), None)
    for suite in ("pacs", "domainnet"):
        write_study(tmp_path, methods, suite=suite, seeds=(0, 1), generated=())
    drawing = figures.draw("critical-difference", records.load(tmp_path), None)
    assert drawing.alt.startswith("Methods by mean rank, best first: T-SVDNet 1.00, M³SDA 2.00")
    assert "15 blocks" in drawing.caption
    assert "of target training images, re-estimated" in " ".join(drawing.conditions)
    old = records.load(tmp_path)
    old.loc[old["suite"] == "pacs", "target_last"] = np.nan
    with pytest.raises(UserError, match="Add --statistics running"):
        figures.draw("critical-difference", old, None)
    assert "15 blocks" in figures.draw("critical-difference", old, None, statistics="running").caption
    png = Image.open(io.BytesIO(figures.render(drawing, "png")))
    assert png.width > 400


def test_groups_of_ranks_that_cannot_be_told_apart():
    assert groups([1.0, 1.5, 3.0, 3.4], 1.0) == [(0, 1), (2, 3)]
    assert groups([1.0, 2.0, 3.0], 1.0) == [(0, 1), (1, 2)]
    assert groups([1.0, 2.0, 3.0], 0.5) == []
    assert groups([1.0, 1.1, 1.2], 5.0) == [(0, 2)]


def test_gains_have_a_line_a_method_and_an_interval_where_seeds_allow(tmp_path: Path):
    write_study(tmp_path, ["source-only:bn", "dann", "m3sda"])
    drawing = figures.draw("gains", records.load(tmp_path), "digits")
    (axis,) = drawing.figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["DANN (multi-source)", "M³SDA (multi-source)"]
    bars = [line for line in axis.lines if len(line.get_xdata()) == 2 and line.get_linestyle() == "-"]
    assert len(bars) == 1 + 2, "the zero line and one interval a method"
    assert "Largest average: M³SDA" in drawing.alt
    assert "Difference to Source-Only:bn" in " ".join(drawing.conditions)
    assert figures.render(drawing, "png").startswith(b"\x89PNG")


def test_gains_can_be_drawn_over_a_rival_whose_name_stands_at_the_axis_and_in_the_file(tmp_path: Path):
    write_study(tmp_path, ["source-only:bn", "dann", "tsvdnet:code"])
    drawing = figures.draw("gains", records.load(tmp_path), "digits", over="tsvdnet:code")
    (axis,) = drawing.figure.axes
    assert axis.get_xlabel() == "points above T-SVDNet:code"
    assert [label.get_text() for label in axis.get_yticklabels()] == [
        "Source-Only:bn (multi-source)",
        "DANN (multi-source)",
    ]
    assert "gain over T-SVDNet:code" in drawing.alt
    folder = tmp_path / "drawn"
    words = ["--kind", "gains", "--over", "tsvdnet:code", "--results", str(tmp_path), "--out", str(folder)]
    assert main(["figure", *words]) == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        f"digits-gains-over-tsvdnet-code.{e}" for e in ("pdf", "png")
    ]
    with pytest.raises(UserError, match="--over does not go with --kind cost: leave it out"):
        figures.draw("cost", records.load(tmp_path), "digits", over="dann")


def test_statistics_has_a_line_a_row_from_one_average_to_the_other_in_the_order_of_the_table(tmp_path: Path):
    write_study(tmp_path, ["source-only", "source-only:bn", "dann"])
    write_study(tmp_path, ["source-only"], standard="combined")
    write_study(tmp_path, ["source-only"], standard="upper-bound")
    frame = records.load(tmp_path)
    drawing = figures.draw("statistics", frame, "digits")
    (axis,) = drawing.figure.axes
    name = {"Multi-Source": "{}", "Source Combination": "{}, source combination"}
    shown = [row for row in tables.make("statistics", frame, "digits").rows if row.block in name]
    rows = {name[row.block].format(row.cells[0].words): row.cells for row in shown}
    names = [label.get_text().split(" (")[0] for label in axis.get_yticklabels()]
    assert sorted(names) == sorted(rows) == ["DANN", "Source-Only", "Source-Only, source combination", "Source-Only:bn"]
    drawn = [line.get_xdata() for line in axis.lines if len(line.get_xdata()) == 2]
    assert [list(ends) for ends in drawn] == [[rows[name][1].value, rows[name][2].value] for name in names]
    assert [ends[1] for ends in drawn] == sorted((ends[1] for ends in drawn), reverse=True)
    ranks = [text.get_text() for text in axis.texts if "→" in text.get_text()]
    assert ranks == [f"{rows[name][5].words} → {rows[name][6].words}" for name in names]
    with pytest.raises(UserError, match="does not go with --kind statistics"):
        figures.draw("statistics", frame, "digits", statistics="running")


def test_statistics_draws_rows_without_a_rank_and_refuses_where_nothing_competes(tmp_path: Path):
    write_study(tmp_path, ["source-only"], standard="upper-bound")
    write_run(tmp_path, "dann", "mm")
    with pytest.raises(UserError, match="No row of suite digits that competes has all targets"):
        figures.draw("statistics", records.load(tmp_path), "digits")
    write_study(tmp_path, ["source-only"])
    write_study(tmp_path, ["m3sda"], seeds=[0])
    (axis,) = figures.draw("statistics", records.load(tmp_path), "digits").figure.axes
    assert len(axis.get_yticklabels()) == 2
    assert sorted(text.get_text() for text in axis.texts if text.get_text() != "rank") == ["1 → 1", "–"]


def test_what_stands_in_for_a_pair_is_a_pair_that_was_run_on_one_target(tmp_path: Path):
    write_study(tmp_path, ["tsvdnet:e"], targets=["up"], seeds=[0])
    write_study(tmp_path, ["tsvdnet:code", "tsvdnet:code-p"], targets=["mm"], seeds=[0])
    left, _ = figures.draw("tnn", records.load(tmp_path), "digits").figure.axes
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    assert labels[:2] == ["T-SVDNet:code-p", "T-SVDNet:code"]
