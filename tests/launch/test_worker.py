"""What runs on a node, called without a cluster: packs of runs, their failures, code that changed, a second start."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.files import read_json
from benchmark.launch import worker
from benchmark.launch.worker import DONE, FAILED, HELD, Entry, Pack, code_fingerprint
from benchmark.spec import RunSpec

METHODS = Path(__file__).parents[1] / "slurm" / "paced.py"
SETTINGS = {"run.updates": 5, "run.eval_points": 1, "run.val_images": 20, "run.unsup_images": 40, "run.batch": 8}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of a task, without SLURM's commands; signal handlers are put back afterwards."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for key, value in {"SUBMITIT_EXECUTOR": "slurm", "SUBMITIT_FOLDER": str(tmp_path), "SLURM_JOB_ID": "7"}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("BENCHMARK_TEST_MENDED", str(tmp_path / "mended"))
    before = signal.getsignal(signal.SIGUSR2)
    yield tmp_path
    signal.signal(signal.SIGUSR2, before)


def entry(name: str, seed: int = 0) -> Entry:
    spec = RunSpec("digits", "mini", f"{METHODS}:{name}", target="up", seed=seed, overrides=tuple(SETTINGS.items()))
    return Entry(spec.run_id, f"digits/mini/{spec.run_id}", spec.to_json())


def pack(results: Path, *entries: Entry, **changes: object) -> Pack:
    return replace(Pack(str(results), None, list(entries), code_fingerprint()), **changes)


def failure(results: Path, one: Entry) -> dict:
    return read_json(results / one.directory / "failure.json") or {}


def test_a_run_that_fails_is_tried_as_often_as_it_may_and_stops_nobody(node: Path, capfd: pytest.CaptureFixture[str]):
    bad, good = entry("Raises"), entry("Trivial")
    assert pack(node, bad, good, retries=2)() == {bad.run_id: FAILED, good.run_id: DONE}
    assert (node / good.directory / "record.json").exists()
    assert failure(node, bad)["attempts"] == 3
    assert failure(node, bad)["reason"] == "ValueError: the test wants this"
    said = capfd.readouterr()
    assert said.out.count(f"{bad.run_id} starts at") == 3
    assert said.out.count(f"{good.run_id} starts at") == 1
    assert "Traceback" in said.err


def test_a_second_call_runs_nothing_again(node: Path, capfd: pytest.CaptureFixture[str]):
    good = entry("Trivial")
    pack(node, good)()
    capfd.readouterr()
    assert pack(node, good)() == {}
    assert "starts at" not in capfd.readouterr().out


def test_attempts_before_the_submission_do_not_count(node: Path):
    bad = entry("Raises")
    pack(node, bad, retries=0)()
    pack(node, replace(bad, attempts=1), retries=0)()
    assert failure(node, bad)["attempts"] == 2
    pack(node, bad, retries=0)()
    assert failure(node, bad)["attempts"] == 2


def test_code_that_changed_fails_the_runs_with_the_reason_and_does_not_start_them(node: Path):
    good = entry("Trivial")
    assert pack(node, good, code="another")() == {good.run_id: FAILED}
    assert "the code changed after the submission (another → " in failure(node, good)["reason"]
    assert read_json(node / good.directory / "spec.json") == good.spec
    assert pack(node, good, code="another", allow_changed_code=True)() == {good.run_id: DONE}


def test_a_spec_that_means_another_run_now_is_refused(node: Path):
    changed = replace(entry("Trivial"), run_id="0123456789abcdef", directory="digits/mini/0123456789abcdef")
    pack(node, changed, retries=0)()
    assert "changed after the submission" in failure(node, changed)["reason"]


def test_a_task_that_asked_for_a_gpu_and_has_none_says_so(node: Path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    good = entry("Trivial")
    pack(node, good, gpu=True, retries=0)()
    assert "that torch cannot use" in failure(node, good)["reason"]


def test_a_run_that_another_process_has_is_left_to_it(node: Path):
    from benchmark.records.lease import Lease

    good = entry("Trivial")
    Lease(node / good.directory).acquire()
    assert pack(node, good)() == {good.run_id: HELD}
    assert not failure(node, good)


def test_a_run_over_the_memory_of_its_task_is_ended_before_the_task_is(node: Path, monkeypatch: pytest.MonkeyPatch):
    used = worker._memory_mb(os.getpid())
    monkeypatch.setattr(worker, "_memory_limit_mb", lambda: int(used * 1.2))
    hungry, good = entry("Hungry"), entry("Trivial")
    monkeypatch.setenv("BENCHMARK_TEST_PACE", "0.5")
    pack(node, hungry, retries=0)()
    assert "out of memory" in failure(node, hungry)["reason"]
    monkeypatch.setattr(worker, "_memory_limit_mb", lambda: 0)
    assert pack(node, good)() == {good.run_id: DONE}


def test_told_to_go_the_run_saves_and_the_task_leaves_without_a_result(node: Path, monkeypatch: pytest.MonkeyPatch):
    left: list[str] = []

    class Left(BaseException):
        pass

    parent = os.getpid()
    leave = worker._leave

    def note(outcome: str) -> None:
        if os.getpid() != parent:
            leave(outcome)
        left.append(outcome)
        raise Left

    monkeypatch.setattr(worker, "_leave", note)
    monkeypatch.setenv("BENCHMARK_TEST_PACE", "0.5")
    slow, other = entry("Paced"), entry("Trivial")
    folder = node / slow.directory

    def tell() -> None:
        while not (folder / "lease.json").exists():
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(parent, signal.SIGUSR2)

    threading.Thread(target=tell, daemon=True).start()
    with pytest.raises(Left):
        pack(node, slow, other)()
    assert left == [worker.INTERRUPTED]
    assert (folder / "checkpoint.pt").exists()
    assert not (node / other.directory / "record.json").exists(), "the runs after it wait for the next start"
    assert not failure(node, slow)
