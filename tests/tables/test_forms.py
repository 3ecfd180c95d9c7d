"""Every form (Markdown, LaTeX, CSV, HTML, text, JSON) shows the same table; marks and letters of notes."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from benchmark import records, tables
from benchmark.analysis import verdict
from benchmark.analysis.table import Cell, Column, Row, Table, letter, mark_best, words
from benchmark.paper.log import log
from tests import needs
from tests.browser import browser
from tests.synthetic import write_run, write_study
from tests.tables.study import NASTY, rows, scored

GOLDEN = Path(__file__).parents[1] / "golden"


def test_equal_printed_numbers_share_the_mark_and_leave_no_second():
    columns = (Column("m", "M"), Column("x", "X", "score", better="high"))
    marked = mark_best(columns, [Row((words(n), Cell(v, n=3))) for n, v in (("a", 50.001), ("b", 50.004), ("c", 40.0))])
    assert [row.cells[1].mark for row in marked] == ["best", "best", ""]


def test_a_league_of_one_has_no_best_and_low_may_be_better():
    columns = (Column("m", "M"), Column("x", "X", "number", better="low"))
    low, high = (words("a"), Cell(1.0, n=3)), (words("b"), Cell(2.0, n=3))
    marked = mark_best(columns, [Row(low, league="p"), Row(high, league="q")])
    assert [row.cells[1].mark for row in marked] == ["", ""]
    marked = mark_best(columns, [Row(low), Row(high)])
    assert [row.cells[1].mark for row in marked] == ["best", "second"]


def test_letters_go_on_after_z():
    assert [letter(i) for i in (0, 25, 26, 27, 52)] == ["a", "z", "aa", "ab", "ba"]


def make(kind: str, frame: pd.DataFrame) -> Table:
    return tables.make(kind, scored(frame) if kind == "validators" else frame, "digits")


KINDS = [*tables.KINDS, "averages"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["md", "tex", "csv", "html", "txt"])
def test_golden(kind: str, form: str, frame: pd.DataFrame):
    table = make(kind, frame)
    if form == "txt":
        console = Console(width=200, file=io.StringIO(), color_system=None)
        tables.show(table, console)
        text = re.sub(r" +$", "", console.file.getvalue(), flags=re.M)  # type: ignore[attr-defined]
    else:
        text = tables.FORMS[form](table)
    path = GOLDEN / f"{kind}.{form}"
    if os.environ.get("BENCHMARK_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path.name} changed; look at it, then BENCHMARK_UPDATE_GOLDEN=1"


@pytest.mark.parametrize("kind", [*KINDS, "verdicts"])
def test_a_caption_is_two_lines_and_the_conditions_stand_below_the_table(kind: str, frame: pd.DataFrame):
    table = verdict.table(verdict.judge(frame)) if kind == "verdicts" else make(kind, frame)
    assert table.caption
    assert len(table.title) + len(table.caption) <= 200  # about two lines of a page
    assert table.conditions
    first = re.match(r"[\w ,:]+", table.conditions[0])
    assert first, "a sentence that no form has to escape"
    said = first[0]
    markdown, html, latex = tables.markdown(table), tables.figure(table), tables.latex(table)
    assert markdown.index(table.caption[:20]) < markdown.index("\n|") < markdown.rindex("|\n") < markdown.index(said)
    assert "<sub>Conditions: " in markdown
    (folded,) = re.findall(r"</table></div>\n<details class=.conditions.><summary>.*</details>", html, re.DOTALL)
    assert said in folded
    assert all(f"<sup>{mark}</sup>" in folded for mark, _ in table.notes)
    assert latex.rindex("end{tabular}") < latex.index(said) < latex.rindex("end{table")
    caption = latex[latex.index(r"\caption") : latex.index(r"\label")]
    assert said not in caption
    document, back = tables.document(table), pd.read_csv(io.StringIO(tables.csv_text(table)))
    assert (document["caption"], document["conditions"]) == (table.caption, list(table.conditions))
    assert back["caption"].tolist()[0] == f"{table.title}. {table.caption}"
    assert back["conditions"].tolist()[0] == " ".join(table.conditions)
    assert back["caption"][1:].isna().all()


def test_conditions_and_notes_are_dim_in_a_terminal_and_the_caption_is_not():
    columns = (Column("m", "M"),)
    table = Table(
        "gains", "Title", columns, (Row((words("a"),), notes=("A note.",)),), "Caption.", ("Tier mini.", "Commit x.")
    )
    console = Console(width=80, file=io.StringIO(), force_terminal=True, color_system="standard")
    tables.show(table, console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[:2] == ["\x1b[1mTitle\x1b[0m", "Caption."]
    assert lines[-2:] == ["\x1b[2mTier mini. Commit x.\x1b[0m", "\x1b[2m^a A note.\x1b[0m"]


def test_a_table_without_conditions_has_nothing_below_it():
    table = Table("gains", "Title", (Column("m", "M"),), (Row((words("a"),)),), "Caption.")
    for text in (tables.markdown(table), tables.figure(table), tables.latex(table)):
        assert "onditions" not in text


def bold_rows(table: Table, form: str) -> str:
    """The text that a form prints in bold inside the body of the table, a line a row."""
    if form == "txt":
        console = Console(width=400, file=io.StringIO(), force_terminal=True, color_system="standard", highlight=False)
        tables.show(table, console)
        body = console.file.getvalue().split("─", 1)[1]  # type: ignore[attr-defined]  # below the title and the headings
        return "\n".join(line for line in body.splitlines() if re.search(r"\x1b\[1m", line))
    if form == "json":
        rows = [(row["cells"], row) for row in tables.document(table)["rows"]]  # type: ignore[attr-defined]
        return "\n".join(json.dumps(row, ensure_ascii=False) for cells, row in rows if '"mark"' in json.dumps(cells))
    text = {"md": tables.markdown, "tex": tables.latex, "html": tables.figure}[form](table)
    mark = {"md": r"^\|.*\*\*", "tex": r"\\bfseries|\\underline", "html": r'<tr>.*class="[^"]*(?:best|second)'}[form]
    return "\n".join(line for line in text.splitlines() if re.search(mark, line))


@pytest.fixture(scope="module")
def one_seed(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """CORAL and a preset of T-SVDNet with one seed, far above rows of three seeds, in every block."""
    root = tmp_path_factory.mktemp("one-seed")
    names = ["source-only", "source-only:bn", "dann", "tsvdnet:e", "tsvdnet"]
    write_study(root, names)
    for standard in ("multi-source", "combined"):
        write_study(root, ["coral"], standard=standard, seeds=[1], accuracy=99.9)
    write_study(root, ["tsvdnet:et", "tsvdnet:code"], seeds=[1], accuracy=99.8)
    changed = log().rows[0].changes
    write_run(root, "tsvdnet", "mm", 1, preset="code", overrides=changed, accuracy=99.8, updates=2330)
    return records.load(root)


@pytest.mark.parametrize("form", ["md", "tex", "html", "txt", "json"])
@pytest.mark.parametrize("kind", [*KINDS, "verdicts"])
def test_no_row_of_one_seed_is_bold(kind: str, form: str, one_seed: pd.DataFrame):
    table = verdict.table(verdict.judge(one_seed)) if kind == "verdicts" else make(kind, one_seed)
    bold = bold_rows(table, form)
    assert not re.search(r"CORAL|T-SVDNet:(?:et|code)|\+E\+T\)|\+E\+P\+T\)", bold), bold
    if kind in ("comparison", "selection", "per-class", "cost", "gains"):
        assert "T-SVDNet" in bold  # three seeds: the best of the rows that compete


def test_a_number_of_one_seed_is_never_best_and_does_not_stand_in_the_way():
    columns = (Column("m", "M"), Column("x", "X", "score", better="high"))
    given = (("one", 90.0, 1), ("b", 50.0, 3), ("c", 40.0, 3))
    marked = mark_best(columns, [Row((words(name), Cell(value, n=n))) for name, value, n in given])
    assert [row.cells[1].mark for row in marked] == ["", "best", "second"]


def test_names_are_escaped_in_every_form(frame: pd.DataFrame):
    table = tables.comparison(frame, "digits")
    assert NASTY in next(csv.reader(line for line in tables.csv_text(table).splitlines() if "My_Net" in line))
    html, markdown, latex = tables.figure(table), tables.markdown(table), tables.latex(table)
    assert "My_Net &amp; &lt;b&gt;100 %&lt;/b&gt; #1" in html
    assert "<b>" not in html
    assert r"My\_Net &amp; &lt;b&gt;100 %&lt;/b&gt; \#1" in markdown
    assert r"\|" in markdown
    assert (
        r"My\_Net \& \textless{}b\textgreater{}100~\%\textless{}/b\textgreater{} \#1 \{x\} \$y\textasciicircum{}2"
        in latex
    )


def test_markdown_has_the_same_number_of_columns_in_every_line(frame: pd.DataFrame):
    lines = [ln for ln in tables.markdown(tables.comparison(frame, "digits")).splitlines() if ln.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_csv_reads_back_as_numbers_with_reasons_apart(frame: pd.DataFrame):
    table = tables.comparison(frame, "digits")
    back = pd.read_csv(io.StringIO(tables.csv_text(table)))
    dann = back[(back.method == "DANN") & (back.block == "Multi-Source")].iloc[0]
    assert dann["mm"] == pytest.approx(rows(table)["Multi-Source/DANN"]["mm"].value, rel=1e-5)
    assert dann["mm_n"] == 3
    mdda = back[back.method == "MDDA"].iloc[0]
    assert np.isnan(mdda["mt"])
    assert mdda["mt_remark"].startswith("failed; NotFinite")


def test_a_name_that_a_spreadsheet_would_execute_is_defused(tmp_path: Path):
    write_run(tmp_path, "net.py:Evil", "mm", 0, title="=cmd|' /C calc'!A0")
    text = tables.csv_text(tables.comparison(records.load(tmp_path), "digits"))
    assert ",'=cmd" in text


def test_write_gives_four_files_and_html_needs_nothing_else(frame: pd.DataFrame, tmp_path: Path):
    paths = tables.write(tables.comparison(frame, "digits"), tmp_path / "tables", "t")
    assert [p.suffix for p in paths] == [".md", ".tex", ".csv", ".html"]
    html = paths[3].read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert not re.search(r"(?:src|href)=", html)


@pytest.mark.browser
@needs.chromium
def test_pages_of_tables_do_not_overflow_the_screen_folded_or_not(frame: pd.DataFrame, tmp_path: Path):
    pages = {kind: tables.FORMS["html"](make(kind, frame)) for kind in ("comparison", "selection", "ablation")}
    pages["verdicts"] = tables.FORMS["html"](verdict.table(verdict.judge(frame)))
    with browser() as page:
        for kind, text in pages.items():
            (tmp_path / f"{kind}.html").write_text(text, encoding="utf-8")
            for width in (360, 1400):
                page.open(tmp_path / f"{kind}.html", width, mobile=width < 500)
                assert page.run("document.documentElement.scrollWidth") <= width, kind
                page.run('document.querySelector("details").open = true')
                assert page.run("document.documentElement.scrollWidth") <= width, kind


def test_json_holds_every_cell(frame: pd.DataFrame):
    document = json.loads(json.dumps(tables.document(tables.comparison(frame, "digits")), allow_nan=False))
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
@needs.latex
@pytest.mark.parametrize("kind", [*KINDS, "verdicts"])
def test_latex_compiles_in_a_two_column_article_and_fits(kind: str, frame: pd.DataFrame, tmp_path: Path):
    table = verdict.table(verdict.judge(frame)) if kind == "verdicts" else make(kind, frame)
    (tmp_path / "a.tex").write_text(ARTICLE % tables.latex(table), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, errors="replace")
    assert done.returncode == 0, done.stdout[-3000:]
    too_wide = [float(x) for x in re.findall(r"Overfull \\hbox \(([\d.]+)pt", done.stdout)]
    assert not [x for x in too_wide if x > 1.0], done.stdout[-3000:]
    assert "Float too large" not in done.stdout
    keep = os.environ.get("BENCHMARK_KEEP_PDF")
    if keep:
        shutil.copy(tmp_path / "a.pdf", Path(keep) / f"{kind}.pdf")


def test_an_end_that_rounds_to_zero_has_no_sign_in_any_form():
    columns = (Column("name", "Name"), Column("ci", "95 %", "interval"))
    table = Table("gains", "T", columns, (Row((words("x"), Cell(low=-0.001, high=3.86))),))
    for text in (tables.latex(table), tables.markdown(table), tables.figure(table)):
        assert "[0.00, 3.86" in text.replace("\\[", "[")
