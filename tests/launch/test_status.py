"""What `status` knows of a pool on some machine: which runs wait for it, and how long all of it takes."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from benchmark.launch.status import RunState, states, time_left
from benchmark.launch.submissions import LOCAL, Note
from benchmark.records import lease
from tests.tiny import tiny


def test_runs_that_wait_for_a_pool_are_queued_until_it_has_gone(tmp_path: Path):
    specs = [tiny(seed=seed) for seed in range(3)]
    note = Note(tmp_path, specs)
    found = states(tmp_path)
    assert {(s.run_id, s.state, s.target, s.job) for s in found} == {(s.run_id, "queued", "mm", "") for s in specs}
    assert found[0].reason == f"waits for process {os.getpid()} on {socket.gethostname()}"
    note.remove()
    assert states(tmp_path) == []
    assert not (tmp_path / LOCAL).exists()


def test_the_note_of_a_pool_that_was_killed_or_that_nobody_can_read_counts_for_nothing(tmp_path: Path):
    note = Note(tmp_path, [tiny()])
    held = json.loads(note.path.read_text())
    for changed in (
        {"pid": 2**22 + 1},
        {"specs": 5},
        {"specs": {"../x": {}}},
        {"time": "now"},
        {"specs": {"0" * 16: 3}},
    ):
        note.path.write_text(json.dumps(held | changed))
        assert states(tmp_path) == []
    note.path.write_text("no JSON")
    assert states(tmp_path) == []


def test_a_note_of_another_machine_lives_as_long_as_it_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    note = Note(tmp_path, [tiny()])
    note.path.write_text(json.dumps(json.loads(note.path.read_text()) | {"host": "elsewhere"}))
    assert [s.state for s in states(tmp_path)] == ["queued"]
    os.utime(note.path, (0, 0))
    assert states(tmp_path) == []
    note.touch()  # too early: now and then is enough
    assert states(tmp_path) == []
    monkeypatch.setattr(lease, "PULSE_SECONDS", 0.0)
    note.touch()
    assert [s.state for s in states(tmp_path)] == ["queued"]


def test_a_folder_that_cannot_be_written_costs_no_pool_its_runs(tmp_path: Path):
    (tmp_path / LOCAL).write_text("a file in the place of the folder")
    note = Note(tmp_path, [tiny()])
    note.touch()
    note.remove()
    assert states(tmp_path) == []


def test_the_time_left_of_a_sweep_counts_what_waits_at_the_pace_that_was_seen():
    running = RunState("a", "running", update=50, total=100, seconds=10.0, seconds_left=10.0)
    done = RunState("b", "done", update=100, total=100, seconds=40.0)
    waits, silent = RunState("c", "queued"), RunState("d", "running")
    assert time_left([waits, done]) is None  # nobody is at it
    assert time_left([silent]) is None
    assert time_left([running]) == 10.0
    assert time_left([running, done, waits]) == 10.0 + 30.0  # the mean of 20 s and 40 s
    assert time_left([running, silent, done]) == (10.0 + 30.0) / 2
