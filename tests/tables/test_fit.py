"""A table on a screen that is too narrow for it: what goes, in which order, and that it is said."""

from __future__ import annotations

import io
import re

import pandas as pd
import pytest
from rich.cells import cell_len
from rich.console import Console

from benchmark import tables
from benchmark.analysis.table import Cell, Column, Row, Table, words
from benchmark.tables.fit import fitted, natural_width
from tests.tables.study import scored

TARGETS = ("mm", "mt", "up", "sv", "syn")


def comparison(*, measured: tuple[str, ...] = TARGETS) -> Table:
    columns = [Column("method", "Method"), *(Column(t, f"→ {t}", "score") for t in TARGETS)]
    columns += [Column("average", "Avg", "score"), Column("oracle_gap", "Gap", "signed")]
    columns += [Column("cpu_seconds", "CPU s", "number", printed=False), Column("seeds", "n")]
    score = Cell(value=71.25, spread=0.5, n=3)
    cells = [score if t in measured else words("not run") for t in TARGETS]
    row = Row((words("T-SVDNet"), *cells, score, Cell(value=1.0), Cell(value=12.0), words("3")), "Multi-Source (all)")
    return Table("comparison", "Title", tuple(columns), (row,), "Caption.", ("Conditions.",))


def shown(table: Table, width: int, *, terminal: bool = True) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=terminal, color_system=None, soft_wrap=True)
    tables.show(table, console, whole="The whole table: there.md")
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_a_table_that_fits_is_left_as_it_is():
    table = comparison()
    assert fitted(table, natural_width(table)) == (table, [])
    assert "Left out" not in shown(table, natural_width(table))
    assert fitted(table, natural_width(table) - 12)[1] == ["CPU s"]


def test_cost_and_gap_go_before_the_spreads_and_these_before_a_target():
    gone: list[list[str]] = [fitted(comparison(), width)[1] for width in range(140, 10, -1)]
    order = max(gone, key=len)
    assert order == ["CPU s", "Gap", "±", "± of Avg", "→ syn", "→ sv", "→ up", "→ mt", "→ mm", "n"]
    assert all(words == order[: len(words)] for words in gone)  # a narrower screen never has what a wider one lacks
    assert [column.key for column in fitted(comparison(), 10)[0].columns] == ["method", "average"]


def test_a_target_without_a_number_goes_before_any_number():
    table, gone = fitted(comparison(measured=("mm", "up")), 80)
    assert gone == ["→ syn", "→ sv", "→ mt"]
    text = shown(table, 80)
    assert "71.25 ± 0.50" in text
    assert "CPU s" in text


def test_what_was_left_out_is_said_with_where_the_whole_table_is():
    text = shown(comparison(), 80)
    assert "Left out at 80 columns: CPU s, Gap, ±.\nThe whole table: there.md\n" in text
    assert "Multi-Source (all)" not in text  # a heading without its brackets
    assert "Left out" not in shown(comparison(), 80, terminal=False)


def test_a_pipe_gets_every_column_whatever_its_width():
    assert shown(comparison(), 40, terminal=False).count("±") == 6
    assert "CPU s" in shown(comparison(), 40, terminal=False)


@pytest.mark.parametrize("width", [40, 80, 100, 160])
@pytest.mark.parametrize("kind", [*tables.KINDS, "averages"])
def test_no_line_is_wider_than_the_screen_and_no_number_is_cut(kind: str, width: int, frame: pd.DataFrame):
    table = tables.make(kind, scored(frame) if kind == "validators" else frame, "digits")
    text = shown(table, width)
    assert max(cell_len(line.rstrip()) for line in text.splitlines()) <= width
    cut, gone = fitted(table, width)
    body = text[text.index("─") : text.index("Left out") if gone else text.rindex(table.conditions[0][:8])]
    if width >= 80:
        assert "…" not in body
        assert len(re.findall(r"\d\.\d", body)) >= sum(cell.measured for _, _, cell in cut.records()) / 2


def test_columns_of_one_title_are_named_by_their_neighbour():
    columns = (
        Column("method", "Method"),
        *(c for t in ("a", "b") for c in (Column(t, f"→ {t}", "signed"), Column(f"{t}_interval", "95 %", "interval"))),
    )
    cells = (words("x"), *(Cell(value=1.0, low=0.0, high=2.0) for _ in range(4)))
    table = Table("gains", "Title", columns, (Row(cells),))
    assert fitted(table, 30)[1] == ["→ b 95 %", "→ a 95 %"]


def test_a_heading_wider_than_its_numbers_is_folded_between_words():
    columns = (Column("method", "Method"), Column("gain", "Gain over Source-Only", "signed"))
    table = Table("ablation", "Title", columns, (Row((words("T-SVDNet"), Cell(value=1.5))),))
    cut, gone = fitted(table, 28)
    assert (cut.columns[1].title, gone) == ("Gain over\nSource-Only", [])


def test_headings_that_would_become_one_keep_their_brackets():
    row = comparison().rows[0]
    table = comparison()
    two = Table(table.kind, "T", table.columns, (row, Row(row.cells, "Multi-Source (some)")))
    assert [block for block, _ in fitted(two, 80)[0].blocks] == ["Multi-Source (all)", "Multi-Source (some)"]
