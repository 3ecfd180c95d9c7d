"""A study: records packed into the few files of `results/<study>/`, and everything that is rendered from them.

What is rendered is a pure function of the records, so `verify` can render it again and compare byte by byte.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from benchmark import figures, records, tables
from benchmark.analysis import gains, verdict
from benchmark.analysis import rows as scores
from benchmark.analysis.condition import scored_once
from benchmark.errors import UserError
from benchmark.files import is_plain, write_bytes, write_text
from benchmark.paper import answers
from benchmark.records import bundle
from benchmark.records import study as archive
from benchmark.records.merge import MERGED, TRIALS, choices, finished, pack, trials
from benchmark.records.store import suite_folder
from benchmark.report import page
from benchmark.report.excerpt import excerpt
from benchmark.spec import load_suite

# <!-- from FILE --> … <!-- end -->, or a part: <!-- from FILE rows Block/Method; … columns Avg; … --> … <!-- end -->
QUOTED = re.compile(r"(<!-- from (\S+)(?:\s+rows\s+(.*?)\s+columns\s+(.*?))?\s+-->\n).*?(<!-- end -->)", re.DOTALL)


def publish(results: Path, study: Path, *, artifacts: Sequence[str] = (), incomplete: str = "") -> list[Path]:
    """Put every finished run of `results` beside those that `study` has already, and render it.

    `artifacts` names the rows whose arrays are kept too: `tsvdnet:code`, `tsvdnet@mm` (on one target), or `all`. What
    `tune` left among the results goes with them: its trials to `trials/`, apart from what tables are made of, and its choices.
    `incomplete` says what the study still lacks; every table and the report then say it first.
    """
    if not is_plain(incomplete) or "\n" in incomplete or len(incomplete) > 1000:
        raise UserError("--incomplete takes one plain sentence that says what is missing.")
    done = finished(results)
    if done.empty:
        raise UserError(
            f"There is no finished run in {results}. Type: python -m benchmark run --suite digits --results {results}"
        )
    documents = pack(study, [*finished(study).path, *done.path], with_artifacts(done, artifacts))
    tried, there = finished(trials(results)), study / TRIALS[1]
    if not tried.empty:
        archive.describe(there, pack(there, [*finished(there).path, *tried.path]))
    for name in [*choices(results), *([MERGED] if bundle.is_file(results / MERGED) else [])]:
        write_bytes(study / name, bundle.read_bytes(results / name))
    archive.describe(study, documents, incomplete)  # before anything is rendered: tables say what is missing
    written = render(study)
    archive.describe(study, documents, incomplete)
    return written


def with_artifacts(done: pd.DataFrame, wanted: Sequence[str]) -> set[str]:
    """The folders of the runs that the words of `--artifacts` name; a row is a method as it comes, without changes."""
    rows = done.method + done.preset.map(lambda preset: f":{preset}" if preset else "")
    pairs = zip(done.overrides.fillna("{}"), done.tuned.fillna(""), strict=True)
    rows = rows.mask([bool(scores.changes(overrides, tuned)) for overrides, tuned in pairs], "")
    kept: set[str] = set()
    for word in wanted:
        chosen = done[(rows == word) | (rows + "@" + done.target == word) | (word == "all")]
        if chosen.empty:
            raise UserError(
                f"--artifacts {word}: there is no such finished run. Name a row, as in tsvdnet:code, a row on one target, as in "
                "tsvdnet@mm, or all."
            )
        kept |= set(chosen.path)
    return kept


def documents(studies: Path) -> list[Path]:
    """The texts that may quote a published table: README.md beside the studies, and the texts among them."""
    return [p for p in (studies.parent / "README.md", *sorted(studies.glob("*.md"))) if p.exists()]


def quoted(text: str, root: Path) -> str:
    """`text` with every block `<!-- from FILE --> … <!-- end -->` filled with what FILE, below `root`, holds now."""

    def fill(block: re.Match[str]) -> str:
        path = root / block[2]
        if not path.is_file():
            raise UserError(f"A text quotes {block[2]}, which is not there. Publish that study, or take the quote out")
        held = path.read_text(encoding="utf-8").strip()
        if block[3]:
            rows, columns = ([" ".join(name.split()) for name in names.split(";")] for names in (block[3], block[4]))
            held = f"\n{excerpt(held, rows, columns)}\n"  # blank lines: beside a comment it would be no table
        return f"{block[1]}{held}\n{block[5]}"

    return QUOTED.sub(fill, text)


def check_name(name: str) -> str:
    """A study's name is one plain folder name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UserError(f"A study's name is made of letters, digits, dots and dashes, not {name!r}.")
    return name


def render(study: Path) -> list[Path]:
    """Write every table of a study, its pictures, its report, and the texts that quote them; returns the study's files."""
    written = [page.write(study, study / "report.html", figures=True, title=f"Study {study.name}")]
    for name, content in {**rendered(study), **pictures(study)}.items():
        write_bytes(study / name, content)
        written.append(study / name)
    for path in documents(study.parent):
        text = path.read_text(encoding="utf-8")
        if QUOTED.search(text):
            write_text(path, quoted(text, study.parent.parent))
    return written


def pictures(study: Path) -> dict[str, bytes]:
    """{relative name: content} of all pictures that the study's records allow.

    Not compared byte by byte: another matplotlib draws other bytes.
    """
    frame = records.load(study)
    found = {}
    for (suite, tier), group in frame[frame.status == "done"].groupby(["suite", "tier"]):
        for kind, asked, name in _wanted(figures.KINDS):
            with contextlib.suppress(UserError):  # no rows, or no artifacts, for this kind of figure
                drawing = figures.draw(kind, group, load_suite(str(suite)), **asked)
                found[f"figures/{suite_folder(str(suite))}-{tier}-{name}.png"] = figures.render(drawing, "png")
    return found


def _wanted(kinds: Iterable[str]) -> Iterator[tuple[str, dict[str, str], str]]:
    """(kind, options, name): every kind as it comes, and the gains over each reading of the paper's method."""
    yield from ((kind, {}, kind) for kind in kinds)
    yield from (("gains", {"over": row}, gains.kind_of(row)) for row in answers.rivals_of())


def rendered(study: Path) -> dict[str, bytes]:
    """{relative name: content} of all tables that the study's records allow: Markdown each, LaTeX in one file."""
    frame = records.load(study)
    made = {"verdicts": tables.marked(verdict.table(verdict.judge(frame)), frame)}
    for (suite, tier), group in frame[frame.status == "done"].groupby(["suite", "tier"]):
        # a study of protocol 1 had no choice of statistics, and its captions name none
        once = {"statistics": "running"} if scored_once(group) else {}
        for kind, asked, name in _wanted(tables.KINDS):
            with contextlib.suppress(UserError):  # this study has no records for this kind of table
                table = tables.make(kind, group, load_suite(str(suite)), **once, **asked)
                made[f"{suite_folder(str(suite))}-{tier}-{name}"] = table
    found = {f"tables/{name}.md": tables.markdown(table).encode("utf-8") for name, table in made.items()}
    latex = "\n".join(f"% {name}\n{tables.latex(table)}" for name, table in made.items())
    return {**found, "tables.tex": latex.encode("utf-8")}
