"""docs/submit.md can be followed: every command of it, as sender and as receiver, and its template can be filled in."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from benchmark import records
from benchmark.__main__ import main
from benchmark.records import bundle
from benchmark.report import handover
from tests.records.test_bundle import draw_nothing
from tests.tiny import ARGUMENTS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "submit.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    python -m benchmark (.*)$", PAGE, flags=re.MULTILINE)


def test_the_commands_of_the_page_work_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As they stand, but for the size of the runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_method", raising=False)
    draw_nothing(monkeypatch)
    monkeypatch.setattr(handover, "commit", lambda: ("0" * 40, False))
    assert main(["methods", "new", "my-method"]) == 0
    said = {}
    for command in COMMANDS:
        words = shlex.split(command)
        small = {"run": ["--targets", "mm", "--workers", "1", *ARGUMENTS], "report": ["--no-figures", "--no-sheets"]}
        assert main([*words, *small.get(words[0], [])]) == 0, command
        said[" ".join(words[:2])] = capsys.readouterr().out
    assert [command.split()[0] for command in COMMANDS] == [
        "run", "audit", "bundle", "audit", "table", "report", "verify", "verify", "merge", "unpack",
    ]  # fmt: skip
    assert "4 runs in my-method.zip, 4 sound records" in said["audit my-method.zip"]
    assert "MyMethod" in said["table --suite"]
    assert "DIFF" not in said["verify --published"]
    assert "the same bits" in said["verify random"]
    assert "4 runs from 2 sources in together. 4 were in several sources" in said["merge runs"]
    for name in ("my-method.zip", "together", "tree"):
        assert list(records.load(name).status) == ["done"] * 4


def test_the_page_names_everything_that_a_bundle_may_hold() -> None:
    (table,) = re.findall(r"\| in the file \| \|\n(.*?)\n\n", PAGE, flags=re.DOTALL)
    for member in ("tables/", "tables.tex", "figures/", "report.html", "trials/", "tuned-", "bundle.json"):
        assert member in table
        assert member.rstrip("/") in bundle.NAME.pattern.replace("\\", "") or member == bundle.MANIFEST
