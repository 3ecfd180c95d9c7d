"""One writer a run: who has the lease, who may take it over, and what two writers do to each other (nothing)."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from benchmark import records
from benchmark.records import lease as leases
from benchmark.records.lease import Lease, LeaseLost, RunHeld, is_stale
from tests.safety.small import Small, bits, fork, wait

DAY = 86400.0


@pytest.fixture(autouse=True)
def _quick_pulse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "PULSE_SECONDS", 0.2)


def held_by(folder: Path, age: float = 0.0, **changes: object) -> Path:
    """A lease file of some other process, `age` seconds old."""
    folder.mkdir(parents=True, exist_ok=True)
    owner = {"token": "theirs", "pid": os.getpid(), "host": "another-host", "restarts": 2, **changes}
    path = folder / "lease.json"
    path.write_text(json.dumps(owner))
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def dead_process() -> int:
    child = fork(lambda: None, {})
    wait(child)
    return child


def test_a_lease_names_its_owner_and_is_given_back(tmp_path: Path) -> None:
    lease = Lease(tmp_path)
    lease.acquire()
    owner = json.loads(lease.path.read_text())
    assert (owner["pid"], owner["host"], owner["token"]) == (os.getpid(), socket.gethostname(), lease.token)
    with pytest.raises(RunHeld, match=f"process {os.getpid()} on {socket.gethostname()} is at it"):
        Lease(tmp_path).acquire()
    lease.release()
    assert list(tmp_path.iterdir()) == []


def test_of_many_that_come_at_once_exactly_one_gets_the_lease(tmp_path: Path) -> None:
    def come() -> None:
        Lease(tmp_path).acquire()
        while not (tmp_path / "enough").exists():  # the winner lives until everybody else has been refused
            time.sleep(0.01)

    waiting = [fork(come, {}) for _ in range(8)]
    codes: list[int] = []
    deadline = time.monotonic() + 60
    while waiting and time.monotonic() < deadline:
        for child in list(waiting):
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                waiting.remove(child)
                codes.append(os.waitstatus_to_exitcode(status))
        if len(codes) == 7:
            (tmp_path / "enough").touch()
        time.sleep(0.01)
    assert sorted(codes) == [0, 1, 1, 1, 1, 1, 1, 1]


def test_the_lease_of_a_dead_process_is_taken_over_at_once(tmp_path: Path) -> None:
    held_by(tmp_path, host=socket.gethostname(), pid=dead_process(), started="1")
    lease = Lease(tmp_path)
    lease.acquire()
    assert lease.restarts == 3
    lease.check()


def test_a_process_that_got_the_number_of_a_dead_one_is_not_its_owner(tmp_path: Path) -> None:
    held_by(tmp_path, host=socket.gethostname(), started="1")  # our own pid, another start
    Lease(tmp_path).acquire()


def test_a_fresh_lease_of_another_host_is_respected(tmp_path: Path) -> None:
    held_by(tmp_path, age=60)
    with pytest.raises(RunHeld, match="another-host"):
        Lease(tmp_path).acquire()


def test_a_container_with_our_host_name_is_another_host(tmp_path: Path) -> None:
    path = held_by(tmp_path, host=socket.gethostname(), system="another kernel", pid=dead_process())
    assert not is_stale(json.loads(path.read_text()), path)
    with pytest.raises(RunHeld):
        Lease(tmp_path).acquire()


@pytest.mark.parametrize("age", [DAY, -DAY], ids=["silent for a day", "from the future: the clock was set back"])
def test_a_lease_that_nobody_refreshes_is_taken_over(tmp_path: Path, age: float) -> None:
    held_by(tmp_path, age=age)
    lease = Lease(tmp_path)
    lease.acquire()
    lease.check()


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_a_clock_that_jumps_does_not_take_a_living_run_from_its_owner(tmp_path: Path, jump: float) -> None:
    path = held_by(tmp_path, age=jump)
    ended = threading.Event()

    def live() -> None:  # an owner on another host that shows itself, by a clock that is a day off
        moment = time.time() - jump
        while not ended.wait(0.02):
            moment += 0.02
            os.utime(path, (moment, moment))

    owner = threading.Thread(target=live)
    owner.start()
    try:
        with pytest.raises(RunHeld):
            Lease(tmp_path).acquire()
    finally:
        ended.set()
        owner.join()


def test_a_living_owner_keeps_its_lease_fresh_without_doing_anything(tmp_path: Path) -> None:
    lease = Lease(tmp_path)
    lease.acquire()
    os.utime(lease.path, (1.0, 1.0))
    deadline = time.monotonic() + 20
    while lease.path.stat().st_mtime < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert time.time() - lease.path.stat().st_mtime < 20
    lease.release()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"restarts": "many", "pid": -1}', b"null"])
def test_a_lease_that_nobody_can_have_written_is_taken_over(tmp_path: Path, content: bytes) -> None:
    path = held_by(tmp_path, age=DAY)
    path.write_bytes(content)
    os.utime(path, (1.0, 1.0))
    Lease(tmp_path).acquire()


def test_without_hard_links_the_lease_is_made_by_exclusive_creation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    lease = Lease(tmp_path)
    lease.acquire()
    lease.check()
    with pytest.raises(RunHeld):
        Lease(tmp_path).acquire()
    lease.release()


def test_the_same_job_started_again_by_the_scheduler_takes_its_own_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_by(tmp_path, job="77", restart_count=0)
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "0")
    with pytest.raises(RunHeld):
        Lease(tmp_path).acquire()
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    Lease(tmp_path).acquire()


def test_two_that_start_the_same_run_leave_one_record(small: Small, tmp_path: Path) -> None:
    spec = small.spec("mcd")
    whole = small.execute(spec, tmp_path / "whole")
    children = [small.start(spec, tmp_path / "runs") for _ in range(3)]
    codes = [wait(child) for child in children]
    assert 0 in codes
    assert bits(records.read(small.directory(spec, tmp_path / "runs"))) == bits(whole)


def test_a_copy_whose_lease_was_taken_stops_and_writes_nothing_more(small: Small, tmp_path: Path) -> None:
    spec = small.spec("source-only", overrides={"run.updates": 40})
    directory = small.directory(spec, tmp_path)
    asked = 0

    def taken_away() -> bool:
        nonlocal asked
        asked += 1
        if asked == 20:
            held_by(directory, host=socket.gethostname())
        return False

    with pytest.raises(LeaseLost, match="taken over by another process"):
        small.execute(spec, tmp_path, should_stop=taken_away, checkpoint_seconds=0.0)
    assert not (directory / "failure.json").exists()
    assert not (directory / "record.json").exists()
    assert json.loads((directory / "lease.json").read_text())["token"] == "theirs"  # and it is still theirs


def test_a_run_whose_clock_jumps_ends_with_sound_costs(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = time.time, 0

    def jumping() -> float:
        nonlocal calls
        calls += 1
        return real() + (-1) ** calls * 400 * DAY

    monkeypatch.setattr(time, "time", jumping)
    record = small.execute(small.spec(), tmp_path)
    assert records.check(record.document) == ""
    assert 0 < record["cost"]["seconds"] < 600
    assert record["cost"]["seconds_at"] == sorted(record["cost"]["seconds_at"])


def test_a_run_killed_with_its_lease_is_seen_as_interrupted_not_running(small: Small, tmp_path: Path) -> None:
    child = small.start(small.spec(), tmp_path, {"BENCHMARK_FAULT": "update=kill@3"})
    assert wait(child) == -signal.SIGKILL
    assert (small.directory(small.spec(), tmp_path) / "lease.json").exists()
    assert records.load(tmp_path).status.tolist() == ["interrupted"]
