"""An excerpt is the whole table's own cells: fewer rows and columns, nothing else changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark import publish
from benchmark.errors import UserError
from benchmark.report.excerpt import excerpt

WHOLE = """**A title.** A caption.

|             | Method             | → mm         | Avg              |
|:------------|:-------------------|-------------:|-----------------:|
| Combined    | DANN<sup>a</sup>   | 1.00 ± 0.10  | **2.00 ± 0.20**  |
|             | MCD                | 3.00         | <u>4.00</u>      |
| Alone \\| so | DANN               | 5.00         | 6.00             |

<sup>a</sup> A note.
"""


def cells(markdown: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in markdown.splitlines()]


def test_rows_are_named_by_block_and_method_and_come_in_the_order_asked_for():
    head, _, *body = cells(excerpt(WHOLE, ["Combined/MCD", "Combined/DANN"], ["Method", "Avg"]))
    assert head == ["Method", "Avg"]
    assert body == [["MCD", "<u>4.00</u>"], ["DANN", "**2.00\u00a0±\u00a00.20**"]]
    assert cells(excerpt(WHOLE, ["Alone \\| so/DANN"], ["→ mm"]))[2] == ["5.00"]


@pytest.mark.parametrize(
    "rows, columns, said",
    [
        (["DANN"], ["Avg"], r"no row of the quoted table 'DANN'.*Combined/DANN"),
        (["Combined/MCD"], ["Average"], r"no column of the quoted table 'Average'. Did you mean 'Avg'\?"),
    ],
)
def test_what_the_table_does_not_have_is_named_with_what_it_has(rows, columns, said):
    with pytest.raises(UserError, match=said):
        excerpt(WHOLE, rows, columns)


def test_a_text_may_quote_a_part_of_a_table(tmp_path: Path):
    (tmp_path / "whole.md").write_text(WHOLE, encoding="utf-8")
    text = publish.quoted(
        "<!-- from whole.md\nrows Combined/MCD;\nCombined/DANN columns Method; Avg -->\n<!-- end -->", tmp_path
    )
    assert excerpt(WHOLE, ["Combined/MCD", "Combined/DANN"], ["Method", "Avg"]) in text
    assert publish.quoted(text, tmp_path) == text
    assert publish.quoted(text.replace("4.00", "9.99"), tmp_path) == text
