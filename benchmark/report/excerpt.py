"""A few rows and columns of a rendered Markdown table, for a text that has room for no more."""

from __future__ import annotations

import re

from tabulate import tabulate

from benchmark.errors import unknown

FOOTNOTE = re.compile(r"<sup>.*?</sup>")  # the note stands below the whole table only


def excerpt(markdown: str, rows: list[str], columns: list[str]) -> str:
    """The first table of `markdown`, cut to `rows` (`Block/Method`) and `columns` (as the head has them), in that order.

    The first column names the block and is empty where it is the block above; the second names the row. Marks such as
    bold stay as they are: they speak of the whole table.
    """
    head, _, *body = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in markdown.splitlines()
        if line.startswith("|")
    ]
    found: dict[str, list[str]] = {}
    block = ""
    for block_or_empty, name, *cells in body:
        block = block_or_empty or block
        name = FOOTNOTE.sub("", name)
        found[f"{block}/{name}"] = [block, name, *cells]
    for wanted, there, what in ((rows, list(found), "row"), (columns, head, "column")):
        for name in wanted:
            if name not in there:
                raise unknown(f"{what} of the quoted table", name, filter(None, there))
    places = [head.index(name) for name in columns]
    # ± and → hold on to their numbers: on a narrow screen a table shall scroll, not break its cells
    cut = [[found[name][j].replace(" ± ", "\u00a0±\u00a0") for j in places] for name in rows]
    titles = [name.replace("→ ", "→\u00a0") for name in columns]
    align = ["left" if j < 2 else "right" for j in places]
    return tabulate(cut, titles, tablefmt="pipe", colalign=align, disable_numparse=True)
