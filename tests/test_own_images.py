"""docs/own-images.md can be followed: every command of it, in a folder with some pictures."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from benchmark import records
from benchmark.__main__ import main
from benchmark.spec import load_suite
from tests.cli.test_suite import ARGUMENTS
from tests.data import own

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "own-images.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    python -m benchmark (.*)$", PAGE, flags=re.MULTILINE)


def test_the_commands_of_the_page_work_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As they stand, but for the size of the runs."""
    monkeypatch.chdir(tmp_path)
    load_suite.cache_clear()
    own.tree(tmp_path / "pictures")
    verbs = [" ".join(command.split()[:2]) for command in COMMANDS]
    assert verbs[:4] == ["suite new", "explain tsvdnet", "data check", "data sheet"]
    assert [verb.split()[0] for verb in verbs[4:]] == ["run", "table", "plan"]
    said = {}
    for command in COMMANDS:
        words = shlex.split(command)
        small = ["--targets", "ink", "--workers", "1", *ARGUMENTS] if words[0] == "run" else []
        assert main([*words, *small]) == 0, command
        said[words[0]] = capsys.readouterr().out
    assert "A = 0 at every update" in said["explain"]
    assert (tmp_path / "my-images.png").stat().st_size > 1000
    assert "to do: about" in said["plan"]
    assert r"\begin{" in said["table"]
    frame = records.load(tmp_path / "runs")
    assert set(frame.status) == {"done"}
    assert len(frame) == 7


@pytest.mark.parametrize("tier", ["mini", "lite", "paper"])
def test_the_sizes_of_the_page_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tier: str
) -> None:
    monkeypatch.chdir(tmp_path)
    load_suite.cache_clear()
    own.tree(tmp_path / "pictures", each=2)
    assert main(["suite", "new", "my-images", "--from", "pictures"]) == 0
    settings = load_suite("my-images.toml").tier(tier)
    (row,) = re.findall(rf"^\| `{tier}` \| (.*) \|$", PAGE, flags=re.MULTILINE)
    assert f"at {settings.network.image_size} pixels" in row
    assert (f"at most {settings.options['subset']} of a class" in row) if tier == "mini" else ("all, at" in row)
    width = {0.125: "one-eighth", 0.25: "quarter"}.get(settings.network.width, "the paper's network")
    assert width in row
