"""docs/own-method.md can be followed: every command of it, in an empty folder, and the package at its end."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from benchmark import records
from benchmark.__main__ import main
from methods import installed
from methods.contract import load_method
from tests.tiny import ARGUMENTS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "own-method.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    python -m benchmark (.*)$", PAGE, flags=re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_page_work_one_after_the_other(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As they stand, but for the size of the runs."""
    assert [command.split()[0] for command in COMMANDS] == ["methods", "methods", "run", "table", "plan"]
    said = []
    for command in COMMANDS:
        words = shlex.split(command)
        small = ["--targets", "mm", "--workers", "1", *ARGUMENTS] if words[0] == "run" else []
        assert main([*words, *small]) == 0, command
        said.append(capsys.readouterr().out)
    assert "keeps the contract: all 22 claims hold" in said[1]
    assert "WRONG" not in said[1]
    assert "MyMethod:strong" in said[2]
    assert "MyMethod" in said[3]
    frame = records.load(folder / "runs")
    assert set(frame.status) == {"done"}
    assert sorted(frame.title) == ["MyMethod", "MyMethod", "Source-Only"]


def test_the_loss_of_the_page_fits_the_file(folder: Path) -> None:
    assert main(["methods", "new", "my-method"]) == 0
    file = folder / "my_method.py"
    (lines,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    text = re.sub(r"        self\.descend\(.*\n", lines, file.read_text(encoding="utf-8"))
    assert lines in text
    file.write_text(text, encoding="utf-8")
    assert main(["methods", "check", "my_method.py:MyMethod@strong"]) == 0


def test_the_package_of_the_page_offers_the_method(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["methods", "new", "my-method"]) == 0
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    (group, offers), *_ = tomllib.loads(text)["project"]["entry-points"].items()
    meta = folder / "mine-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    lines = [f"{name} = {place}" for name, place in offers.items()]
    (meta / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]) + "\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "my_method", raising=False)
    assert load_method("my-method").name == "my-method"
    assert main(["methods", "new", "my-method"]) == 2
    installed._all.cache_clear()
    sys.modules.pop("my_method")
