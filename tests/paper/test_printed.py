"""The printed numbers are the paper's, cell by cell, and the tool finds the averages that are not averages."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pytest

from benchmark.paper import folders
from benchmark.paper import printed as reported
from benchmark.paper.folders import RIVALS
from benchmark.paper.log import log
from benchmark.spec import load_suite
from tests import needs, paper_tex

TEX = os.environ.get("BENCHMARK_PAPER_TEX", "")


@pytest.fixture(scope="module")
def tex() -> str:
    return Path(TEX).read_text(encoding="utf-8")


def test_counts_of_printed_numbers():
    numbers = reported.accuracies()
    targets = numbers[numbers["kind"] == "target"]
    assert len(targets) == 237
    assert targets["spread"].notna().sum() == 213
    assert (numbers["kind"] == "average").sum() == 45
    assert (numbers["kind"] == "gain").sum() == 3


@needs.paper
@pytest.mark.parametrize("table", [1, 2, 3, 4])
def test_every_cell_equals_the_paper(tex: str, table: int):
    columns, rows = paper_tex.accuracy_rows(tex, f"tab{table}")
    printed = {
        (row.block, row.label, column): paper_tex.value_and_spread(cell)
        for row in rows
        for column, cell in zip(columns, row.cells, strict=True)
        if paper_tex.value_and_spread(cell)[0]
    }
    ours = reported.accuracies()
    ours = ours[ours["table"] == table]
    spreads = ours["spread"].map(lambda s: "" if s != s else f"{s:.{2 if table in (1, 4) else 1}f}")
    stored = {
        (r.block, r.row, r.column): (r.printed, spread) for r, spread in zip(ours.itertuples(), spreads, strict=True)
    }
    assert len(stored) == len(ours)
    assert stored == printed


@needs.paper
def test_every_setup_equals_table_5(tex: str):
    columns, rows = paper_tex.setup_rows(tex)
    printed = {(r.label, c.replace("\\", "")): v for r in rows for c, v in zip(columns, r.cells, strict=True)}
    stored = {(r.row, r.column): r.value for r in reported.setups().itertuples()}
    assert stored == printed
    assert len(stored) == 27


def test_eleven_printed_averages_are_not_the_row_means():
    wrong = reported.wrong_averages()
    found = {(w.table, w.block, w.row, w.printed, float(w.mean.quantize(w.mean.__class__("0.001")))) for w in wrong}
    assert found == {
        (1, "Single Best", "Source-Only", "80.80", 79.54),
        (1, "Source Combination", "DAN", "82.69", 82.714),
        (1, "Source Combination", "DANN", "83.61", 83.636),
        (1, "Source Combination", "ADDA", "85.02", 85.002),
        (1, "Source Combination", "MCD", "86.10", 86.08),
        (1, "Multi-Source", "MDAN", "83.30", 83.316),
        (1, "Multi-Source", "MDDA", "88.12", 88.072),
        (1, "Multi-Source", "M3SDA", "87.65", 87.658),
        (2, "", "T-SVDNet", "91.25", 91.258),
        (3, "Source Combination", "MCD", "38.5", 38.6),
        (4, "", "T-SVDNet (+E)", "88.19", 88.196),
    }
    assert len(reported.averages()) - len(wrong) == 34


def test_a_tie_in_rounding_is_not_called_wrong():
    row = reported.PrintedAverage(2, "pacs", "", "MDDA", "86.11", mean=reported.Decimal("86.105"))
    assert row.right
    assert not reported.PrintedAverage(2, "pacs", "", "MDDA", "86.11", mean=reported.Decimal("86.1049")).right


def test_printed_gains_are_differences_of_printed_averages():
    table = reported.accuracies("digits")
    table = table[table["table"] == 4]
    average = table[table["kind"] == "average"].set_index("row")["value"]
    gain = table[table["kind"] == "gain"].set_index("row")["value"]
    assert (average[gain.index] - average["Source-Only"]).round(2).tolist() == gain.tolist()


def test_figures_from_elsewhere_name_their_origin():
    known = set(reported.origins()["origin"])
    figures = reported.elsewhere()
    assert set(figures["origin"]) <= known
    best = figures[(figures["origin"] == "official-log") & figures["at"].str.startswith("best")]
    assert best["value"].tolist() == [87.32]
    curve = log().accuracy
    assert list(curve) == list(range(53))
    assert max(curve, key=lambda epoch: curve[epoch]) == 38
    counted = [value * 100.24 for value in curve.values()]  # its test loop makes 10,024 predictions
    assert max(abs(n - round(n)) for n in counted) < 0.001
    attempt = figures[figures["origin"] == "reproduction-attempt"].set_index("target")["value"]
    assert attempt.to_dict() == {"S": 69.66, "C": 81.87}


def test_rivals_name_their_origin_and_their_averages_are_row_means():
    numbers = reported.rivals()
    assert set(numbers["origin"]) == set(reported.origins(RIVALS)["origin"])
    assert (numbers["kind"] == "target").sum() == 44
    for _, row in numbers.groupby(["origin", "suite", "row", "backbone", "standard"]):
        cells = [Decimal(text) for text in row.loc[row["kind"] == "target", "printed"]]
        (average,) = row.loc[row["kind"] == "average", "printed"]
        if cells:  # cut or rounded to one decimal, from cells that were
            assert abs(sum(cells) / len(cells) - Decimal(average)) <= Decimal("0.1")


def test_a_public_source_only_has_the_average_that_the_paper_prints_for_its_method():
    ours = reported.accuracies("domainnet").set_index(["row", "column"])["printed"]["T-SVDNet", "Avg"]
    public = reported.rivals("domainnet").set_index(["origin", "row", "standard", "column"])["printed"]
    assert ours == public["tll", "ERM", "combined", "Avg"] == "47.0"
    assert public["results-list", "LtC-MSDA", "multi-source", "Avg"] == "47.4"


def test_numbers_of_rivals_are_no_papers_numbers():
    assert "rivals" not in folders.papers()
    assert set(reported.rivals("digits")["row"]) == {"LtC-MSDA"}
    assert "LtC-MSDA" not in set(reported.accuracies()["row"])
    columns = reported.rivals()[lambda n: n["kind"] == "target"].groupby(["suite", "row"])["column"].agg(list)
    for suite in ("digits", "pacs", "domainnet"):
        assert all(found == load_suite(suite).columns for found in columns[suite])


def test_every_reported_row_names_a_known_method_standard_and_column():
    from benchmark.spec import STANDARDS
    from methods.contract import BUILT_IN

    numbers = reported.accuracies()
    assert set(numbers["method"]) <= {name for name, _, _ in BUILT_IN}
    assert set(numbers["standard"]) <= set(STANDARDS)
    for suite, rows in numbers[numbers["kind"] == "target"].groupby("suite"):
        for _, row in rows.groupby(["table", "block", "row"]):
            assert row["column"].tolist() == load_suite(str(suite)).columns
