"""A run that is killed at any moment, as often as you like, ends with the same bits as one that was left alone."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from multiprocessing import forkserver
from pathlib import Path

import pytest

from benchmark import records
from benchmark.records import Record
from methods.contract import BUILT_IN
from tests.safety.small import Small, bits, fork, wait

METHODS = [name for name, _, _ in BUILT_IN]
SAMPLE, SOAK = 24, 200


class Untouched:
    """Each method's run that nobody disturbed, and how long it took; made when it is asked for."""

    def __init__(self, small: Small, results: Path) -> None:
        self.small, self.results = small, results
        self.found: dict[str, tuple[Record, float]] = {}

    def __call__(self, method: str) -> tuple[Record, float]:
        if method not in self.found:
            began = time.monotonic()
            child = self.small.start(self.small.spec(method), self.results)
            assert wait(child) == 0
            record = records.read(self.small.directory(self.small.spec(method), self.results))
            assert record is not None
            self.found[method] = record, time.monotonic() - began
        return self.found[method]


@pytest.fixture(scope="module")
def untouched(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Untouched:
    return Untouched(small, tmp_path_factory.mktemp("untouched"))


def kill_and_compare(small: Small, untouched: Untouched, folder: Path, number: int) -> int:
    """Run `number` of the sweep, killed until it is done, at least once; returns how often it was killed.

    A run that ends before its first kill has shown nothing: it is thrown away, and the next one has less time.
    """
    method = METHODS[number % len(METHODS)]
    whole, seconds = untouched(method)
    results, dice, longest, kills = folder / str(number), random.Random(number), 1.2 * seconds, 0
    while not kills:
        shutil.rmtree(results, ignore_errors=True)
        began = time.monotonic()
        kills = small.until_done(small.spec(method), results, dice, longest)
        longest = min(longest, time.monotonic() - began)
    record = records.read(small.directory(small.spec(method), results))
    assert bits(record) == bits(whole), f"{method}, run {number}, after {kills} kills"
    left = {"lease.json"}  # a run killed between its record and its good-bye leaves its lease; nobody minds it
    assert sorted({p.name for p in record.path.iterdir() if not p.name.endswith(".tmp")} - left) == [
        "artifacts.npz", "curve.jsonl", "heartbeat.json", "record.json", "spec.json",
    ]  # fmt: skip
    return kills


def test_every_method_killed_at_random_moments_ends_with_the_same_bits(
    small: Small, untouched: Untouched, tmp_path: Path
) -> None:
    kills = [kill_and_compare(small, untouched, tmp_path, number) for number in range(SAMPLE)]
    assert min(kills) >= 1


@pytest.mark.soak
def test_200_runs_killed_at_random_moments_leave_200_records_none_corrupt(
    small: Small, untouched: Untouched, tmp_path: Path
) -> None:
    kills = [kill_and_compare(small, untouched, tmp_path, number) for number in range(SOAK)]
    print(f"\n{SOAK} runs, {sum(kills)} kills, at least {min(kills)} each: {len(kills)} records, all bit-identical")
    assert min(kills) >= 1


@pytest.mark.parametrize("method", ["source-only", "tsvdnet", "mcd", "mdda", "dctn"])
def test_killed_after_every_single_update_the_run_still_ends_with_the_same_bits(
    small: Small, untouched: Untouched, tmp_path: Path, method: str
) -> None:
    whole, _ = untouched(method)
    starts = 0
    while records.read(small.directory(small.spec(method), tmp_path)) is None:
        starts += 1
        # the second update of each start never begins: one update of progress a start
        status = wait(small.start(small.spec(method), tmp_path, {"BENCHMARK_FAULT": "update=kill@2"}))
        assert status in (0, -signal.SIGKILL)
        assert starts <= 20
    assert starts == 12
    assert bits(records.read(small.directory(small.spec(method), tmp_path))) == bits(whole)


def test_a_kill_between_checkpoints_costs_the_updates_since_the_last_one_and_nothing_else(
    small: Small, untouched: Untouched, tmp_path: Path
) -> None:
    spec = small.spec("tsvdnet")
    # checkpoints are a minute apart: the kill at update 11 throws the curve's two rows back to none
    never = {"BENCHMARK_CHECKPOINT_SECONDS": "60", "BENCHMARK_FAULT": "update=kill@11"}
    assert wait(small.start(spec, tmp_path, never)) == -signal.SIGKILL
    directory = small.directory(spec, tmp_path)
    assert len(records.read_curve(directory)) == 2
    assert wait(small.start(spec, tmp_path)) == 0
    assert bits(records.read(directory)) == bits(untouched("tsvdnet")[0])


def test_a_worker_whose_launcher_was_killed_saves_its_run_and_leaves(small: Small, tmp_path: Path) -> None:
    from benchmark.launch.local import launch

    spec = small.spec("source-only", overrides={"run.updates": 100_000, "run.eval_points": 1})

    def sweep() -> None:
        os.setsid()
        forkserver._forkserver.__init__()  # type: ignore[misc]  # the parent's server is no child of this process
        launch([spec], results=tmp_path, data_root=small.data, workers=1)

    launcher = fork(sweep, {})
    directory = small.directory(spec, tmp_path)
    assert _soon(lambda: (directory / "heartbeat.json").exists())
    os.kill(launcher, signal.SIGKILL)
    assert wait(launcher) == -signal.SIGKILL
    assert _soon(lambda: not (directory / "lease.json").exists())  # given back by a worker that ended in good order
    assert (directory / "checkpoint.pt").exists()
    assert not (directory / "failure.json").exists()


def _soon(true: object, patience: float = 60.0) -> bool:
    deadline = time.monotonic() + patience
    while not true():  # type: ignore[operator]
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
