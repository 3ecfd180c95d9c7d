"""A study: records copied to `results/<study>/` and everything that is rendered from them.

What is rendered is a pure function of the records, so `verify` can render it again and compare byte by byte.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

import pandas as pd

from benchmark import figures, records, tables
from benchmark.analysis import rows as scores
from benchmark.analysis import verdict
from benchmark.analysis.condition import scored_once
from benchmark.errors import UserError
from benchmark.files import replacing, write_bytes, write_text
from benchmark.report import page
from benchmark.report.excerpt import excerpt
from benchmark.spec import load_suite

# <!-- from FILE --> … <!-- end -->, or a part: <!-- from FILE rows Block/Method; … columns Avg; … --> … <!-- end -->
QUOTED = re.compile(r"(<!-- from (\S+)(?:\s+rows\s+(.*?)\s+columns\s+(.*?))?\s+-->\n).*?(<!-- end -->)", re.DOTALL)
KEPT = ("spec.json", "curve.jsonl", "record.json")  # no checkpoint, no heartbeat, no lease
TRIALS = (".tuning", "trials")  # where `tune` keeps its trials among results, and where a study has them


def publish(results: Path, study: Path, *, artifacts: Sequence[str] = ()) -> list[Path]:
    """Copy every finished run of `results` into `study` and render it. What is there already is checked, not replaced.

    `artifacts` names the rows whose arrays are copied too: `tsvdnet:code`, `tsvdnet@mm` (on one target), or `all`. What
    `tune` left among the results goes with them: its trials to `trials/`, apart from what tables are made of, and its choices.
    """
    frame = records.load(results)
    done = frame[frame.status == "done"]
    if done.empty:
        raise UserError(
            f"There is no finished run in {results}. Type: python -m benchmark run --suite digits --results {results}"
        )
    kept = with_artifacts(done, artifacts)
    copy_runs(done, results, study, kept)
    trials = records.load(results / TRIALS[0])
    copy_runs(trials[trials.status == "done"], results / TRIALS[0], study / TRIALS[1])
    for choice in sorted(results.glob("tuned-*.toml")):
        write_bytes(study / choice.name, choice.read_bytes())
    return render(study)


def copy_runs(done: pd.DataFrame, results: Path, study: Path, kept: Collection[str] = ()) -> None:
    """Finished runs of one folder into another, those of `kept` with their arrays; one that changed since is refused."""
    for source in map(Path, done.path):
        record = records.read(source)
        changed = record.changed_files() if record else ["record.json"]
        if changed:
            raise UserError(
                f"{', '.join(changed)} of {source} changed after the run. Type: python -m benchmark audit {results}"
            )
        copy_run(source, study / source.relative_to(results), artifacts=str(source) in kept)


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


def copy_run(source: Path, target: Path, *, artifacts: bool) -> None:
    """One run's small files; record.json last, so that a copy that was cut off is no record."""
    names = [*(["artifacts.npz"] if artifacts and (source / "artifacts.npz").exists() else []), *KEPT]
    for name in names:
        there = target / name
        if there.exists() and there.read_bytes() == (source / name).read_bytes():
            continue
        with replacing(there) as temporary:
            shutil.copyfile(source / name, temporary)


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
        for kind in figures.KINDS:
            with contextlib.suppress(UserError):  # no rows, or no artifacts, for this kind of figure
                drawing = figures.draw(kind, group, load_suite(str(suite)))
                found[f"figures/{suite}-{tier}-{kind}.png"] = figures.render(drawing, "png")
    return found


def rendered(study: Path) -> dict[str, bytes]:
    """{relative name: content} of all tables that the study's records allow, in every format."""
    frame = records.load(study)
    found: dict[str, bytes] = {}
    verdicts = verdict.table(verdict.judge(frame))
    for suffix, form in tables.FORMS.items():
        found[f"tables/verdicts.{suffix}"] = form(verdicts).encode("utf-8")
    for (suite, tier), group in frame[frame.status == "done"].groupby(["suite", "tier"]):
        # a study of protocol 1 had no choice of statistics, and its captions name none
        once = {"statistics": "running"} if scored_once(group) else {}
        for kind in tables.KINDS:
            try:
                table = tables.make(kind, group, load_suite(str(suite)), **once)
            except UserError:
                continue  # this study has no records for this kind of table
            for suffix, form in tables.FORMS.items():
                found[f"tables/{suite}-{tier}-{kind}.{suffix}"] = form(table).encode("utf-8")
    return found
