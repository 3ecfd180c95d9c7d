"""Every printed row has rows of ours that answer it, or a reason; every figure its rows; a paper is a folder of data."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from benchmark import figures
from benchmark.errors import UserError
from benchmark.paper import answers, claims, folders, printed
from benchmark.spec import SPLITS, RunSpec, load_suite, resolve
from methods.contract import registry
from tests import needs

TEX = os.environ.get("BENCHMARK_PAPER_TEX", "")


def test_the_rows_cover_every_printed_row_once_and_in_order():
    numbers = printed.accuracies()
    there = list(dict.fromkeys(zip(numbers["table"], numbers["suite"], numbers["block"], numbers["row"], strict=True)))
    assert [(r.table, r.suite, r.block, r.row) for r in answers.rows()] == there
    assert len(there) == 45


def test_every_row_is_answered_or_says_why_not():
    for row in answers.rows():
        assert bool(row.answers) != bool(row.why_not), row


def test_every_answer_is_a_method_with_that_preset_and_standard():
    for row in answers.rows():
        assert row.split in SPLITS
        for name in (*row.answers, *row.also):
            method, _, preset = name.partition(":")
            target = load_suite(row.suite).columns[0]
            resolve(RunSpec(row.suite, "paper", method, preset, row.standard, target=target, split=row.split))


def test_table_1_has_three_blocks_and_both_splits_of_the_papers_method():
    rows = {(r.block, r.row): r for r in answers.rows(1)}
    standards = {"Single Best": "single-best", "Source Combination": "combined", "Multi-Source": "multi-source"}
    assert {block: rows[block, row].standard for block, row in rows} == standards
    for row, split in (("T-SVDNet_part", "part"), ("T-SVDNet_all", "all")):
        assert (rows["Multi-Source", row].answers, rows["Multi-Source", row].split) == (("tsvdnet",), split)


def test_table_4_is_answered_in_both_families_on_all_images():
    found = {row.row: row.answers for row in answers.rows(4)}
    assert found == {
        "Source-Only": ("source-only",),
        "T-SVDNet (+E)": ("tsvdnet:e", "tsvdnet:code-e"),
        "T-SVDNet (+E+T)": ("tsvdnet:et", "tsvdnet:code"),
        "T-SVDNet (+E+T+U)": ("tsvdnet", "tsvdnet:code-u"),
    }
    assert {row.split for row in answers.rows(4)} == {"all"}


def test_every_whole_reading_of_the_method_is_held_against_its_row():
    method, title = answers.own_method()
    assert (method, title) == ("tsvdnet", registry()[method].title)
    parts = {"e", "et", "code-e", "code-p"}  # of the ablation: where the whole method is printed they answer nothing
    whole = {f"{method}:{preset}" for preset in registry()[method].presets if preset not in parts}
    (row,) = [row for row in answers.rows(2) if method in row.answers]
    assert set(row.also) == whole


def test_the_ablation_knows_which_printed_row_each_step_answers():
    ablation = answers.ablation()
    assert [family.title for family in ablation.families] == ["The paper's reading", "The release's weights"]
    steps = {s.name: s.printed for family in (ablation.baselines, *ablation.families) for s in family.steps}
    assert steps["source-only"] == "Source-Only"
    assert (steps["source-only:bn"], steps["tsvdnet:code-p"]) == ("", "")
    assert steps["tsvdnet:code-u"] == steps["tsvdnet"] == "T-SVDNet (+E+T+U)"


def test_every_figure_names_a_kind_of_drawing_a_target_and_rows_that_exist():
    found = answers.figures()
    assert [f.number for f in found] == [3, 4, 5, 6]
    for figure in found:
        assert figure.kind in figures.KINDS
        assert answers.figure(figure.kind) is not None
        for name in [name for row in figure.rows for name in row]:
            method, _, preset = name.partition(":")
            resolve(RunSpec(figure.suite, "paper", method, preset, "multi-source", target=figure.target))
    with pytest.raises(UserError, match=r"no figure of the paper of the kind 'cost'.*tnn"):
        answers.figure("cost")


@needs.paper
def test_figures_have_the_numbers_that_latex_gives_them():
    tex = Path(TEX).read_text(encoding="utf-8")
    bodies = re.findall(r"\\begin\{figure\*?\}.*?\\end\{figure\*?\}", tex, re.S)
    numbers = {m.group(1): n for n, m in enumerate((re.search(r"\\label\{(\w+)\}", b) for b in bodies), 1) if m}
    assert {f.label: f.number for f in answers.figures()} == {k: n for k, n in numbers.items() if n > 2}
    captions = {n: body for n, body in enumerate(bodies, 1)}
    for figure, word in ((3, "nuclear norm"), (4, "t-SNE"), (5, "similarity matrices"), (6, "Uncertainty")):
        assert word in captions[figure]


def test_claims_name_figures_by_their_numbers():
    where = {claim.id: claim.where.partition(";")[0] for claim in claims.claims()}
    assert where["tnn-falls"] == where["tnn-forty-six"] == "Figure 3"
    assert where["svhn-less-certain"] == "Figure 6 (a)"
    assert where["noise-spreads-uncertainty"] == "Figure 6 (b)"
    at_table_4 = {claim.id for claim in claims.claims() if claim.about("Table 4")}
    assert {"tensor-adds-four", "tensor-adds-four-in-the-release"} <= at_table_4
    assert not at_table_4 & {"digits-average", "tnn-falls", "averages-are-row-means"}


def test_another_paper_is_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    other = tmp_path / "other"
    shutil.copytree(folders.DEFAULT, other)
    text = (other / "table2.csv").read_text().replace("75.97", "11.11")
    (other / "table2.csv").write_text(text)
    monkeypatch.setattr(folders, "ROOT", tmp_path)
    assert folders.papers() == ["other"]
    folder = folders.folder("other")
    assert printed.accuracies("pacs", folder)["value"].iloc[0] == 11.11
    assert printed.accuracies("pacs")["value"].iloc[0] == 75.97
    assert {claim.folder for claim in claims.claims(folder / "claims.toml")} == {other}
    assert len(printed.wrong_averages(folder)) == len(printed.wrong_averages()) + 1
    with pytest.raises(UserError, match=r"no paper 'othr'. Did you mean 'other'"):
        folders.folder("othr")


def test_a_folder_with_a_hole_is_answered_in_words(tmp_path: Path):
    (tmp_path / "rows.toml").write_text('[[block]]\ntable = 1\nsuite = "digits"\n')
    with pytest.raises(UserError, match=r"A block in .*rows\.toml lacks block, standard, split, answers"):
        answers.rows(folder=tmp_path)
    with pytest.raises(UserError, match="lacks method, title"):
        answers.own_method(tmp_path)
