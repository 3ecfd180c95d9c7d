"""SIGTERM to the launcher is a clean stop: the pool is told, runs save themselves, a sentence, exit code 130."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmark.__main__ import INTERRUPTED
from benchmark.launch.local import Event, launch
from benchmark.launch.status import states
from tests.safety.small import Small

ROOT = Path(__file__).parents[2]


def sweep(small: Small, results: Path, seeds: str) -> subprocess.Popen[str]:
    """`run` of a few endless runs on two workers, in a process group of its own."""
    request = ["--suite", str(small.suite), "--methods", "source-only", "--targets", "mt", "--seeds", seeds]
    longest = ["--set", "run.updates=1000000", "--set", "run.eval_points=1"]
    places = ["--results", str(results), "--data-root", str(small.data)]
    return subprocess.Popen(
        [sys.executable, "-m", "benchmark", "run", *request, *longest, *places, "--workers", "2"],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def until(true: Callable[[], bool], patience: float = 120.0) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def once(launcher: int) -> None:
    """As `kill` and a service manager do."""
    os.kill(launcher, signal.SIGTERM)


def twice(launcher: int) -> None:
    """As `timeout` does: the process, then its group, workers included."""
    os.kill(launcher, signal.SIGTERM)
    time.sleep(0.02)
    os.killpg(launcher, signal.SIGTERM)


@pytest.mark.parametrize("tell", [once, twice])
def test_a_launcher_told_to_stop_lets_its_runs_save_themselves_and_ends_with_130(
    small: Small, tmp_path: Path, tell: Callable[[int], None]
) -> None:
    process = sweep(small, tmp_path, "0-2")
    until(lambda: len(list(tmp_path.glob("small/lite/*/heartbeat.json"))) == 2)
    tell(process.pid)
    _, words = process.communicate(timeout=90)
    assert process.returncode == 130
    assert words.rstrip().endswith(INTERRUPTED)
    assert "failed" not in words
    assert "Traceback" not in words
    begun = [p.parent for p in tmp_path.glob("small/lite/*/checkpoint.pt")]
    assert len(begun) == 2  # the third never began
    for directory in begun:
        assert not (directory / "lease.json").exists()
        assert not (directory / "failure.json").exists()
    assert [s.state for s in states(tmp_path)] == ["interrupted", "interrupted"]


def test_a_launcher_told_to_stop_before_anything_ran_says_so_too(small: Small, tmp_path: Path) -> None:
    process = sweep(small, tmp_path / "runs", "0")
    assert process.stderr is not None
    until(lambda: (tmp_path / "runs").exists())  # it has planned, and looks for workers
    os.kill(process.pid, signal.SIGTERM)
    _, words = process.communicate(timeout=90)
    assert process.returncode == 130
    assert words.rstrip().endswith(INTERRUPTED)
    assert "Traceback" not in words
    assert not list(tmp_path.glob("runs/small/lite/*/failure.json"))


def test_a_worker_stopped_before_it_could_listen_has_not_failed(small: Small, tmp_path: Path) -> None:
    """Its run is handed over and the stop comes at once: the worker is still on its way up."""

    def watch(event: Event) -> None:
        if event.kind == "start":
            raise KeyboardInterrupt

    for seed in range(3):
        spec = small.bound(small.spec(seed=seed, overrides={"run.updates": 1_000_000, "run.eval_points": 1}))
        outcome = launch([spec], results=tmp_path, data_root=small.data, watch=watch)
        assert outcome.interrupted
        assert outcome.failed == {}
    assert not list(tmp_path.glob("small/lite/*/failure.json"))


def test_a_worker_that_somebody_else_told_to_stop_costs_no_other_run_and_the_sweep_says_130(
    small: Small, tmp_path: Path
) -> None:
    long = small.bound(small.spec(seed=0, overrides={"run.updates": 1_000_000, "run.eval_points": 1}))
    short = [small.bound(small.spec(seed=seed)) for seed in (1, 2)]

    def watch(event: Event) -> None:
        if event.kind == "beat" and event.spec == long:
            os.kill(event.beat["pid"], signal.SIGTERM)

    outcome = launch([long, *short], results=tmp_path, data_root=small.data, watch=watch)
    assert outcome.interrupted
    assert outcome.failed == {}
    assert sorted(outcome.done) == sorted(spec.run_id for spec in short)
    assert {s.run_id: s.state for s in states(tmp_path)} == {
        long.run_id: "interrupted",
        **{spec.run_id: "done" for spec in short},
    }


def test_a_worker_told_to_stop_as_its_run_ends_costs_the_next_run_nothing(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "BENCHMARK_FAULT", "answer=stop"
    )  # every worker leaves after one run, with the next one on its way
    specs = [small.bound(small.spec(seed=seed)) for seed in range(4)]
    outcome = launch(specs, results=tmp_path, data_root=small.data)
    assert (outcome.failed, outcome.interrupted) == ({}, False)
    assert sorted(outcome.done) == sorted(spec.run_id for spec in specs)
    assert not list(tmp_path.glob("small/lite/*/failure.json"))
