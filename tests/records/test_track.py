"""Trackers by name, and the conversation with one: each update once, whatever comes twice."""

from __future__ import annotations

import importlib.metadata
import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmark.errors import UserError
from benchmark.records import track
from benchmark.records.track import child, names, turn
from benchmark.records.track.protocol import scalars
from methods import installed

WATCHERS = Path(__file__).parents[1] / "safety" / "watchers.py"
SPEC = {
    "suite": "mine/pets.toml", "tier": "lite", "method": "a/b.py:Mine", "preset": "fast", "standard": "combined",
    "target": "cat", "split": "part", "seed": 3, "threads": 1, "overrides": {"lam": 2},
}  # fmt: skip


def test_a_tracker_is_told_who_the_run_is(tmp_path: Path) -> None:
    run = track.about("0123456789abcdef", SPEC, tmp_path)
    assert run.title == "Mine:fast → cat, combined, seed 3"
    assert run.place == "pets/lite/Mine_fast-combined-cat-seed3-0123456789abcdef"
    assert run.config == {
        "suite": "pets", "tier": "lite", "method": "Mine", "preset": "fast", "standard": "combined", "target": "cat",
        "split": "part", "seed": 3, "threads": 1, "lam": 2,
    }  # fmt: skip


def test_names_are_checked_and_files_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(WATCHERS.parent)
    assert track.check(["wandb", "watchers.py:Lines", "wandb"]) == ["wandb", f"{WATCHERS}:Lines"]
    with pytest.raises(UserError, match=r"There is no tracker 'tensorbord'[.] Did you mean 'tensorboard'"):
        track.check(["tensorbord"])
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="cannot be read"):
        track.check([f"{tmp_path}/bytes.py:X"])


def test_a_package_offers_a_tracker_by_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = importlib.metadata.EntryPoint("mine", "json:JSONDecoder", names.TRACKERS)
    monkeypatch.setattr(installed, "_all", lambda group, path: {"mine": [entry]} if group == names.TRACKERS else {})
    assert track.check(["mine"]) == ["mine"]
    assert names.load("mine") is json.JSONDecoder


def test_a_folder_that_has_a_package_s_name_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nowhere_installed").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(names.BUILT_IN, "wandb", ("nowhere_installed", "", ""))
    assert track.missing(["wandb", f"{WATCHERS}:Lines"]) == {
        "wandb": "nowhere_installed is not installed. Type: pip install 'msda-benchmark[track]'"
    }


def conversation(
    folder: Path, *messages: dict[str, Any], tracker: str = f"{WATCHERS}:Lines", mine: str | None = None
) -> tuple[list[str], list[dict[str, Any]]]:
    """What a tracker wrote, and what its process answered."""
    start = {"start": track.about("0123456789abcdef", SPEC, folder).__dict__, "turn": mine}
    said: list[dict[str, Any]] = []
    lines = [{"tracker": tracker}, start, *messages]
    child.serve([json.dumps(line).encode() for line in lines], said.append)
    file = folder / "0123456789abcdef.txt"
    return file.read_text().splitlines()[1:] if file.exists() else [], said


def point(update: int) -> dict[str, Any]:
    return {"point": [update, {"accuracy/target": 50.0 + update}]}


def test_what_comes_twice_is_written_once_and_what_is_missing_is_added(tmp_path: Path) -> None:
    found, said = conversation(tmp_path, point(2), point(4), point(4), point(2))
    assert (found, said) == (["2 52.0", "4 54.0", "end killed"], [])
    found, said = conversation(tmp_path, point(2), point(4), point(6), {"end": "done"})
    assert found[3:] == ["start Mine:fast → cat, combined, seed 3", "6 56.0", "end done"]
    assert said == [{"ended": True}]


def test_the_tracker_of_the_page_works(tmp_path: Path) -> None:
    text = (WATCHERS.parents[2] / "docs" / "watching.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (tmp_path / "lines.py").write_text(code)
    (name,) = track.check([f"{tmp_path}/lines.py:Lines"])
    conversation(tmp_path / "kept", point(2), point(4), tracker=name)
    conversation(tmp_path / "kept", point(2), point(4), point(6), {"end": "done"}, tracker=name)
    assert (tmp_path / "kept" / "0123456789abcdef.txt").read_text() == "2 52.0\n4 54.0\n6 56.0\n"


def test_an_error_is_one_line_of_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = conversation(tmp_path, point(2), tracker=f"{WATCHERS}:Raises")
    assert said == [{"failed": "ValueError: the server said no"}]
    assert "Traceback" in capsys.readouterr().err, "the whole of it is in the log"
    assert child.reason("wandb", ModuleNotFoundError("no", name="wandb")).startswith("wandb is not installed.")
    assert child.reason("wandb", ModuleNotFoundError("no part", name="wandb.part")) == "ModuleNotFoundError: no part"
    assert child.reason("wandb", KeyError()) == "KeyError"


def test_a_process_that_the_next_start_has_overtaken_writes_nothing(tmp_path: Path) -> None:
    early, late = (turn.take(tmp_path, "0123456789abcdef") for _ in range(2))
    conversation(tmp_path, point(2), point(4), {"end": "done"}, mine=late)
    found, said = conversation(tmp_path, point(2), point(4), point(6), {"end": "interrupted"}, mine=early)
    assert (found, said) == (["2 52.0", "4 54.0", "end done"], [{"ended": True}])


def test_two_processes_do_not_write_one_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "GRACE", -5.0)
    with turn.alone(tmp_path, "r"):
        with pytest.raises(TimeoutError, match="another process is still writing"), turn.alone(tmp_path, "r"):
            pass
        with turn.alone(tmp_path, "another"):
            pass


def test_the_numbers_of_a_point_are_finite_and_named() -> None:
    row = {"update": 1, "target": 5, "losses": {"a": float("inf"), "b": True, "c": 0.5}, "pseudo": None}
    assert scalars(row) == {"accuracy/target": 5.0, "losses/c": 0.5}
