"""From «table4» to runs: exactly those of the table or figure, each once, the same runs that `run` would make."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmark.errors import UserError
from benchmark.paper import folders, wanted
from benchmark.plan import Plan, Request, make

MINI = Request("", tier="mini")


def planned(name: str, base: Request = MINI) -> Plan:
    (item,) = wanted.chosen(name)
    return wanted.plan(item, base, bind=False)


def test_every_table_and_figure_can_be_asked_for():
    names = ["table1", "table2", "table3", "table4", "figure3", "figure4", "figure5", "figure6"]
    assert [item.name for item in wanted.chosen("all")] == names
    with pytest.raises(UserError, match=r"no table or figure 'tabel4'. Did you mean 'table4'.*all"):
        wanted.chosen("tabel4")


@pytest.mark.parametrize(
    "name, runs",
    [
        ("table1", 5 * 20 + 6 * 5 + 5 * 5 + 5),  # single best, combined, multi-source, T-SVDNet on all
        ("table2", 6 * 4),
        ("table3", 7 * 30 + 6 * 6 + 5 * 6),
        ("table4", 7 * 5),  # Source-Only, and +E, +E+T, +E+T+U in two families
        ("figure3", 2),
        ("figure4", 3),
        ("figure5", 2),
        ("figure6", 1),
    ],
)
def test_a_table_needs_exactly_its_runs(name: str, runs: int):
    specs = planned(name).specs
    assert len(specs) == len({spec.run_id for spec in specs}) == runs
    assert len(planned(name, Request("", tier="mini", seeds=(0, 1, 2))).specs) == 3 * runs


def test_table_1_has_its_rows_in_their_standards_and_splits():
    found = {(s.name, s.standard, s.split) for s in planned("table1").specs}
    single = {(m, "single-best", "part") for m in ("source-only", "dan", "dann", "coral", "adda")}
    combined = {(m, "combined", "part") for m in ("source-only", "dan", "dann", "adda", "mcd", "jan")}
    several = {(m, "multi-source", "part") for m in ("mdan", "mdda", "dctn", "m3sda", "tsvdnet")}
    assert found == single | combined | several | {("tsvdnet", "multi-source", "all")}


def test_a_figure_needs_its_rows_on_its_target_alone():
    found = {(s.suite, s.name, s.target, s.split) for s in planned("figure4").specs}
    assert found == {("pacs", name, "C", "all") for name in ("source-only", "m3sda", "tsvdnet")}
    assert {(s.name, s.target) for s in planned("figure3").specs} == {("tsvdnet:e", "mm"), ("tsvdnet:et", "mm")}


def test_they_are_the_runs_that_run_would_make():
    asked = make(Request("digits", "mini", split="all", methods=["tsvdnet:e"]))
    assert {s.run_id for s in asked.specs} < {s.run_id for s in planned("table4").specs}


def test_what_tables_and_figures_share_is_one_run():
    every = wanted.together(wanted.plan(item, MINI, bind=False) for item in wanted.chosen("all"))
    assert [plan.suite.name for plan in every] == ["digits", "pacs", "domainnet"]
    # the figures show runs of Tables 2 and 4; T-SVDNet on all images stands in Tables 1 and 4
    assert [len(plan.specs) for plan in every] == [160 + 35 - 5, 24, 276]


def test_a_row_that_its_method_cannot_run_is_said(tmp_path: Path):
    shutil.copytree(folders.DEFAULT, tmp_path / "other")
    rows = tmp_path / "other" / "rows.toml"
    rows.write_text(rows.read_text().replace('DAN = ["dan"]', 'DAN = ["m3sda"]'))
    (item,) = wanted.chosen("table1", tmp_path / "other")
    with pytest.raises(
        UserError, match="Table 1 cannot be run as its paper's folder says: m3sda has no standard single-best"
    ):
        wanted.plan(item, MINI, bind=False)
