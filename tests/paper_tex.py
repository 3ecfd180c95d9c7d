"""Reads the five tables out of the paper's LaTeX, with nothing but the standard library.

Only the tests use it: the product carries the numbers as CSV files, and these lines check them against the source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class PrintedRow:
    """One row of a printed table: label, then one text for each further column, as printed."""

    block: str
    label: str
    cells: tuple[str, ...]


def tables(tex: str) -> dict[str, str]:
    """The LaTeX of every table environment, by its label (tab1 … tab5)."""
    found = re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", tex, re.S)
    return {re.search(r"\\label\{(\w+)\}", t).group(1): t for t in found}  # type: ignore[union-attr]


def _plain(text: str) -> str:
    """A cell without its formatting: fonts, colours, multicolumn, multirow, maths signs."""
    text = re.sub(r"\\begin\{tabular\}\[c\]\{@\{\}c@\{\}\}(.*?)\\end\{tabular\}", r"\1", text, flags=re.S)
    text = re.sub(r"\\multi(?:row|column)\{[^}]*\}\{[^}]*\}", "", text)
    text = text.replace(r"\pm", "±").replace(r"\\", " ").replace("~", " ").replace(r"\to", "→")
    text = re.sub(r"\\color\{\w+\}|\\(?:bf|small|uparrow)(?![a-z])", "", text)
    return re.sub(r"\s+", " ", re.sub(r"[{}$^]", "", text)).strip().replace("- ", "-").replace("--", "-")


def _body(table: str) -> list[list[str]]:
    """Rows of plain cells of the (outer) tabular."""
    inner = re.sub(
        r"\\begin\{tabular\}\[c\]\{@\{\}c@\{\}\}(.*?)\\end\{tabular\}",
        lambda m: m.group(1).replace(r"\\", " "),
        table,
        flags=re.S,
    )
    inner = re.search(r"\\begin\{tabular\}\{[^}]*\}(.*?)\\end\{tabular\}", inner, re.S).group(1)  # type: ignore[union-attr]
    inner = re.sub(r"\\(?:toprule|bottomrule)(?:\[[^]]*\])?|\\hline|\\vspace\{[^}]*\}", "", inner)
    rows = [[_plain(cell) for cell in row.split("&")] for row in re.split(r"\\\\", inner)]
    return [row for row in rows if any(row)]


def accuracy_rows(tex: str, label: str) -> tuple[list[str], list[PrintedRow]]:
    """Columns (targets, Avg, perhaps Gain) and rows of one of Tables 1–4."""
    head, *body = _body(tables(tex)[label])
    blocks = head[0] == "Standards"
    skip = 2 if blocks else 1
    columns = [c.replace("→", "").strip() for c in head[skip:]]
    rows, block = [], ""
    for row in body:
        if blocks:
            block = row[0] or block
        rows.append(PrintedRow(block, row[skip - 1], tuple(row[skip:])))
    return columns, rows


def setup_rows(tex: str) -> tuple[list[str], list[PrintedRow]]:
    """Columns and rows of Table 5 (a second line of a row holds the classifier's learning rate)."""
    head, *body = _body(tables(tex)["tab5"])
    rows: list[PrintedRow] = []
    for row in body:
        label, *cells = row if len(row) == len(head) else row[1:]
        if label:
            rows.append(PrintedRow("", label, tuple(cells)))
        else:
            joined = tuple(" ".join(filter(None, pair)) for pair in zip(rows[-1].cells, cells, strict=True))
            rows[-1] = PrintedRow("", rows[-1].label, joined)
    return head[1:], rows


def value_and_spread(cell: str) -> tuple[str, str]:
    """`90.05±0.91` → ("90.05", "0.91"); without ±, an empty spread; `−` stays empty."""
    numbers = NUMBER.findall(cell)
    return (numbers[0] if numbers else "", numbers[1] if len(numbers) > 1 else "")
