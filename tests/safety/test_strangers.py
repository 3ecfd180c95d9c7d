"""A stranger's study: names, texts and shapes of any kind are tabled and reported as text, or refused."""

from __future__ import annotations

import html.parser
import json
from pathlib import Path
from typing import Any

import pytest

from benchmark import records, tables
from benchmark.errors import UserError
from benchmark.spec import load_suite
from tests import synthetic
from tests.forge import forge
from tests.quiet import quiet

SCRIPT = "<script>alert(1)</script>"
LATEX = r"\input{/etc/passwd} $x$ & 50% #1 ~ ^ {} _"
MARKDOWN = "[x](javascript:alert(1)) | **b** `c` <img src=x onerror=alert(1)>"


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field, value",
    [
        ("method", SCRIPT), ("method", "../../evil"), ("suite", "../../../etc"), ("suite", SCRIPT), ("tier", ".."),
        ("target", SCRIPT), ("target", "a/b"), ("standard", "../up"), ("split", "/abs"), ("preset", SCRIPT),
        ("sources", [SCRIPT]),
    ],
)  # fmt: skip
def test_a_name_that_is_no_name_makes_the_record_damaged(tmp_path: Path, field: str, value: Any) -> None:
    run = synthetic.write_run(tmp_path)
    forge(run, lambda d: d["spec"].update({field: value}))
    row = records.load(tmp_path).iloc[0]
    assert row.status == "damaged"
    assert field in row.reason


class Tags(html.parser.HTMLParser):
    """What a browser would act on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


def stranger(root: Path) -> None:
    """A study in which every free text is an attack."""
    synthetic.write_study(root, methods=("source-only", "dann", "tsvdnet", "tsvdnet:e"), seeds=(0, 1), artifacts=True)
    for text, run in zip([SCRIPT, LATEX, MARKDOWN] * 20, sorted(root.glob("*/*/*")), strict=False):

        def attack(d: dict[str, Any], text: str = text) -> None:
            d["title"] = text
            d["warnings"] = d["remarks"] = [text]
            d["data"].update(note=text, generated=[text])
            d["provenance"].update(commit=text, hardware=text, versions={text: text})
            d["classes"] = [f"{text} {i}" for i in range(10)]
            d["losses"] = {text: 1.0}
            d["diagnostics"] = {text: text, "rank": [text]}
            d["probes"] = {text: 1.0, "tnn_rotated": text}
            d["cost"]["seconds"] = 1e300

        forge(run, attack)


def test_every_table_of_a_strangers_study_is_text(tmp_path: Path) -> None:
    stranger(tmp_path)
    frame = records.load(tmp_path)
    assert set(frame.status) == {"done"}
    made = 0
    for kind in tables.KINDS:
        try:
            table = tables.make(kind, frame, load_suite("digits"))
        except UserError:
            continue  # refused in words
        made += 1
        for suffix, render in tables.FORMS.items():
            shown = render(table)
            if suffix in ("html", "md"):
                assert "<script>alert" not in shown
                assert "<img src" not in shown
            if suffix == "html":
                assert "javascript:" not in "".join(Tags(shown).links)
                assert not Tags(shown).handlers
            if suffix == "tex":
                assert r"\input{" not in shown
    assert made >= 3


def test_the_report_of_a_strangers_study_runs_only_its_own_script(tmp_path: Path) -> None:
    from benchmark import report

    stranger(tmp_path / "theirs")
    synthetic.write_study(tmp_path / "ours", methods=("source-only", "dann", "tsvdnet", "tsvdnet:e"), seeds=(0, 1))
    pages = {}
    for whose in ("ours", "theirs"):
        path = report.write(tmp_path / whose, tmp_path / f"{whose}.html")
        pages[whose] = Tags(path.read_text(encoding="utf-8"))
    assert pages["theirs"].tags.count("script") == pages["ours"].tags.count("script")
    assert pages["theirs"].tags.count("img") == pages["ours"].tags.count("img")
    assert len(pages["theirs"].handlers) == len(pages["ours"].handlers)
    assert not [link for link in pages["theirs"].links if link.startswith(("javascript:", "http"))]


READING = [
    ("status",), ("table",), ("table", "--kind", "cost"), ("table", "--kind", "per-class"), ("table", "--kind", "verdicts"),
    ("report", "--no-figures", "--no-sheets"), ("figure", "--kind", "curves"), ("figure", "--kind", "similarity"),
    ("export", "--format", "csv"), ("export", "--format", "parquet"),
]  # fmt: skip


def test_no_reading_verb_runs_a_method_file_that_a_record_names(
    tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    stranger(runs)
    evil = runs / "evil.py"
    evil.write_text(f"import os\nos.mkdir({str(mark)!r})\n")
    monkeypatch.chdir(tmp_path)
    for i, status in enumerate(("done", "failed", "interrupted")):
        synthetic.write_run(runs, method="runs/evil.py:Evil", seed=i, status=status)
        synthetic.write_run(runs, method=f"{evil}:Evil", seed=i, status=status, standard="combined")
    for words in READING:
        suite = ["--suite", "digits"] if words[0] in ("table", "figure") else []
        code, said = quiet(*words, *suite, "--results", str(runs))
        assert code in (0, 1, 2), (words, said)
        assert not mark.exists(), words
    assert quiet("audit", str(runs))[0] == 1
    assert quiet("publish", "theirs", "--results", str(runs), "--studies", str(tmp_path / "studies"))[0] in (0, 2)
    assert not mark.exists()


def test_a_strangers_index_is_not_believed(tmp_path: Path) -> None:

    run = synthetic.write_run(tmp_path, accuracy=50.0)
    frame = records.load(tmp_path)
    forged = frame.assign(last=99.9, oracle=99.9, place=str(run.relative_to(tmp_path)), stamp="1:1")
    forged.to_parquet(tmp_path / ".index.parquet")
    assert records.load(tmp_path)["last"].max() < 60


def test_what_a_record_says_cannot_move_the_cursor(tmp_path: Path) -> None:
    escape = "\x1b]0;owned\x07\x1b[2J"
    run = synthetic.write_run(tmp_path, status="failed", reason=f"bad {escape}")
    assert "\x1b" not in str(records.load(tmp_path).reason[0])
    assert "\x1b" not in quiet("status", "--results", str(tmp_path))[1]
    (run.parent / f"x{escape}").mkdir()
    (run.parent / f"x{escape}" / "spec.json").write_text("{}")
    assert "\x1b" not in quiet("audit", str(tmp_path))[1]
    assert "\x1b" not in quiet("status", "--results", str(tmp_path))[1]


@pytest.mark.parametrize("value", ["text", -1, [], {}, None, 1e308, True, "9" * 5000])
def test_notes_of_any_shape_are_shown_by_status(tmp_path: Path, value: Any) -> None:
    keys = [
        "total",
        "update",
        "seconds",
        "restarts",
        "time",
        "node",
        "pid",
        "host",
        "reason",
        "attempts",
        "target",
        "seed",
        "method",
    ]
    note = dict.fromkeys(keys, value)
    run = synthetic.write_run(tmp_path, status="interrupted")
    for name in ("heartbeat.json", "lease.json", "failure.json", "spec.json"):
        (run / name).write_text(json.dumps(note))
        assert quiet("status", "--results", str(tmp_path))[0] in (0, 1)
        assert len(records.load(tmp_path)) == 1
    folder = tmp_path / ".slurm" / "20240101-000000-abcdef"
    folder.mkdir(parents=True)
    known = ["jobs", "specs", "profile", "data_root", "code", "memory_mb", "user", "host", "time"]
    (folder / "submission.json").write_text(json.dumps(dict.fromkeys(known, value)))
    assert quiet("status", "--results", str(tmp_path))[0] in (0, 1)
