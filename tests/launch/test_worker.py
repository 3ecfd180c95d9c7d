"""What runs on a node, called without a cluster: packs of runs, their failures, code that changed, a second start."""

from __future__ import annotations

import mmap
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmark import records
from benchmark.files import read_json, write_json
from benchmark.launch import children, worker
from benchmark.launch.device import Gpu
from benchmark.launch.submissions import left_nodes
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


def test_the_runs_of_a_task_are_tracked_and_its_log_says_what_went_wrong(node: Path, capfd: pytest.CaptureFixture[str]):
    good, watchers = entry("Trivial"), Path(__file__).parents[1] / "safety" / "watchers.py"
    assert pack(node, good, track=(f"{watchers}:Lines", f"{watchers}:Raises"))() == {good.run_id: DONE}
    updates = [row["update"] for row in records.read_curve(node / good.directory)]
    lines = (node / "tracked" / "Lines" / f"{good.run_id}.txt").read_text().splitlines()
    assert [int(line.split()[0]) for line in lines[1:-1]] == updates
    assert "tracker Raises: ValueError: the server said no" in capfd.readouterr().out


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


def commands(folder: Path) -> Path:
    """A SLURM whose scontrol says yes to everything, and notes what it was asked."""
    said = folder / "asked"
    script = folder / "scontrol"
    script.write_text(f'#!/bin/sh\necho "$*" >> {said}\necho ExcNodeList=n9\n')
    script.chmod(0o755)
    return said


@pytest.fixture
def leaving(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How this process would have ended; children end as they are."""
    left: list[str] = []
    parent, leave = os.getpid(), worker._leave

    def note(outcome: str) -> None:
        if os.getpid() != parent:
            leave(outcome)
        left.append(outcome)
        raise Left

    monkeypatch.setattr(worker, "_leave", note)
    before = signal.getsignal(signal.SIGTERM)
    yield left
    signal.signal(signal.SIGTERM, before)


class Left(BaseException):
    pass


@pytest.mark.parametrize("kind", ["old", "dead", "500", ""])
def test_a_node_whose_gpu_cannot_do_the_work_is_left_before_anything_began_there(
    node: Path, monkeypatch: pytest.MonkeyPatch, leaving: list[str], kind: str
):
    asked = commands(node)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "7")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    monkeypatch.setenv("BENCHMARK_PRETEND_GPUS", f"n1={kind}" if kind else "")
    good = entry("Trivial")
    with pytest.raises(Left):
        pack(node, good, gpu=True, gpu_memory_mb=1024)()
    assert leaving == [worker.INTERRUPTED]
    assert not (node / good.directory).exists(), "no run of the task has begun or failed"
    assert asked.read_text().splitlines() == [
        "requeue 7_3",
        "--oneliner show job 7_3",
        "update JobId=7_3 ExcNodeList=n9,n1",
        "update JobId=7 ExcNodeList=n9,n1",
    ]
    assert list(left_nodes(node)) == ["n1"]


def test_a_bad_node_fails_the_runs_with_the_reason_when_slurm_does_not_take_the_task_back(
    node: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("BENCHMARK_PRETEND_GPUS", "old")
    good = entry("Trivial")
    assert pack(node, good, gpu=True, retries=0)() == {good.run_id: FAILED}  # no scontrol on PATH
    assert "compute capability 7.0 is none that this torch was built for" in failure(node, good)["reason"]
    commands(node)
    pack(node, replace(good, attempts=1), gpu=True, retries=0, max_requeues=0)()
    assert failure(node, good)["attempts"] == 2, "as often as the profile allows, and no more"


def test_a_gpu_that_dies_under_a_run_takes_no_other_run_with_it(
    node: Path, monkeypatch: pytest.MonkeyPatch, leaving: list[str], capfd: pytest.CaptureFixture[str]
):
    commands(node)
    good, dead = Gpu(0, "GPU 0", 8000, 8000), Gpu(0, "GPU 0", fault="CUDA error: unspecified launch failure")
    monkeypatch.setenv("BENCHMARK_PRETEND_GPUS", "8000")
    answers = [[good], [dead]]
    monkeypatch.setattr(worker.device, "survey", lambda patience: answers.pop(0))
    bad, others = entry("LosesItsGpu"), [entry("Trivial", seed) for seed in range(3)]
    with pytest.raises(Left):
        pack(node, bad, *others, gpu=True)()
    assert leaving == [worker.INTERRUPTED]
    assert failure(node, bad)["attempts"] == 1
    assert not any((node / each.directory).exists() for each in others), "they begin elsewhere"
    assert capfd.readouterr().out.count("starts at") == 1


def test_a_failure_that_does_not_speak_of_the_gpu_asks_nothing_of_it(node: Path, monkeypatch: pytest.MonkeyPatch):
    """Asking takes a moment in which nobody watches over the other runs."""
    asked: list[float] = []
    good = Gpu(0, "GPU 0", 8000, 8000)
    monkeypatch.setattr(worker.device, "survey", lambda patience: asked.append(patience) or [good])
    monkeypatch.setenv("BENCHMARK_PRETEND_GPUS", "8000")
    bad, other = entry("Raises"), entry("Trivial")
    assert pack(node, bad, other, gpu=True)() == {bad.run_id: FAILED, other.run_id: DONE}
    assert asked == [worker.device.PATIENCE]
    write_json(node / bad.directory / "failure.json", {"reason": "RuntimeError: CUDA out of memory. Tried to"})
    assert not pack(node, bad)._blames_device(bad), "the runs beside it may have filled it"
    write_json(node / bad.directory / "failure.json", {"reason": "killed by SIGSEGV on node n1"})
    assert pack(node, bad)._blames_device(bad)


def test_on_a_good_gpu_the_task_goes_on(node: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BENCHMARK_PRETEND_GPUS", "8000")
    good = entry("Trivial")
    assert pack(node, good, gpu=True, gpu_memory_mb=1024)() == {good.run_id: DONE}


# -- several runs at once -----------------------------------------------------------------------------------------


def test_three_runs_at_once_give_the_records_of_one_at_a_time(node: Path, monkeypatch: pytest.MonkeyPatch, capfd):
    runs = [entry("Paced", seed) for seed in range(4)]
    monkeypatch.setenv("BENCHMARK_TEST_PACE", "0.1")
    assert set(pack(node / "three", *runs, share=3)().values()) == {DONE}
    marks = [line.split()[3] for line in capfd.readouterr().out.splitlines() if line.startswith(worker.MARK)]
    assert marks[:3] == ["starts"] * 3
    assert marks.count("done") == 4
    monkeypatch.setenv("BENCHMARK_TEST_PACE", "0")
    pack(node / "one", *runs)()
    for each in runs:
        one, three = (read_json(node / place / each.directory / "record.json") for place in ("one", "three"))
        assert one["weights"] == three["weights"]
        assert one["accuracy"] == three["accuracy"]


def test_of_runs_at_once_each_has_its_own_log_failure_and_attempts(node: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BENCHMARK_TEST_PACE", "0.1")
    bad, good, other = entry("Raises"), entry("Paced"), entry("Trivial")
    outcome = pack(node, bad, good, other, share=3, retries=1)()
    assert outcome == {bad.run_id: FAILED, good.run_id: DONE, other.run_id: DONE}
    assert failure(node, bad)["attempts"] == 2
    log = worker.log_file(node, "7", bad.run_id).read_text()
    assert log.count("ValueError: the test wants this") >= 2
    assert "Traceback" not in worker.log_file(node, "7", good.run_id).read_text()


def test_one_of_three_that_is_killed_costs_nobody_else(node: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BENCHMARK_TEST_PACE", "0.3")
    runs = [entry("Paced", seed) for seed in range(3)]
    victim = node / runs[1].directory / "lease.json"

    def kill() -> None:
        while not (held := read_json(victim)):
            time.sleep(0.05)
        os.kill(held["pid"], signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    outcome = pack(node, *runs, share=3, retries=0)()
    assert [outcome[each.run_id] for each in runs] == [DONE, FAILED, DONE]
    assert "killed by SIGKILL" in failure(node, runs[1])["reason"]


def test_the_largest_of_three_goes_when_together_they_exceed_the_tasks_memory(
    node: Path, monkeypatch: pytest.MonkeyPatch
):
    here = children._status(os.getpid())
    # this process, what each child has of it (its own pages, and 50 to 300 MB of libraries), and room for a part of 2.2 GB
    room = (sum(here.values()) + 3 * here["RssAnon"]) / 1024 + 1500
    monkeypatch.setattr(worker, "_memory_limit_mb", lambda: int(room / children.FULL))
    monkeypatch.setenv("BENCHMARK_TEST_PACE", "0.5")
    monkeypatch.setitem(SETTINGS, "run.updates", 30)
    hungry, one, two = entry("Hungry"), entry("Paced", 1), entry("Paced", 2)
    outcome = pack(node, one, hungry, two, share=3, retries=0)()
    assert outcome == {one.run_id: DONE, hungry.run_id: FAILED, two.run_id: DONE}
    assert "out of memory" in failure(node, hungry)["reason"]
    assert "of them by this run" in failure(node, hungry)["reason"]


def memory_of(work: Callable[[], object]) -> tuple[float, float]:
    """(MB that are resident, MB that the watch counts) of a process that has done `work` and keeps what it gave."""
    listen, tell = os.pipe()
    child = os.fork()
    if child == 0:
        kept = work()
        os.write(tell, b"x")
        time.sleep(60)
        os._exit(int(kept is None))
    os.read(listen, 1)
    found = sum(children._status(child).values()) / 1024, children.memory_mb(child, 20 * 1024)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return found


def test_mapped_pictures_are_not_counted_as_memory(tmp_path: Path):
    """Pages of a mapped file can be dropped at any time: a run that reads 115 GB of them needs none of it."""
    pictures = tmp_path / "pictures.npy"
    np.save(pictures, np.ones(64 << 20, dtype=np.uint8))

    def mapped() -> object:
        images = np.load(pictures, mmap_mode="r")
        return images, images.sum()

    resident, counted = memory_of(lambda: 0)
    with_pictures, with_pictures_counted = memory_of(mapped)
    assert with_pictures - resident > 50
    assert with_pictures_counted - counted <= 25

    def taken() -> object:
        own = mmap.mmap(
            -1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        )  # fresh pages: a list could be given memory that was freed before
        own.write(bytes([1]) * len(own))
        return own

    _, with_own_counted = memory_of(taken)
    assert with_own_counted - counted > 50, "what a process takes for itself is"


def test_a_run_that_another_process_has_is_left_to_it(node: Path):
    from benchmark.records.lease import Lease

    good = entry("Trivial")
    Lease(node / good.directory).acquire()
    assert pack(node, good)() == {good.run_id: HELD}
    assert not failure(node, good)


def test_a_run_over_the_memory_of_its_task_is_ended_before_the_task_is(node: Path, monkeypatch: pytest.MonkeyPatch):
    used = sum(children._status(os.getpid()).values()) / 1024
    monkeypatch.setattr(worker, "_memory_limit_mb", lambda: int(used * 1.2))
    hungry, good = entry("Hungry"), entry("Trivial")
    monkeypatch.setenv("BENCHMARK_TEST_PACE", "0.5")
    pack(node, hungry, retries=0)()
    assert "out of memory" in failure(node, hungry)["reason"]
    monkeypatch.setattr(worker, "_memory_limit_mb", lambda: 0)
    assert pack(node, good)() == {good.run_id: DONE}


def test_told_to_go_the_run_saves_and_the_task_leaves_without_a_result(
    node: Path, monkeypatch: pytest.MonkeyPatch, leaving: list[str]
):
    monkeypatch.setenv("BENCHMARK_TEST_PACE", "0.5")
    slow, other = entry("Paced"), entry("Trivial")
    folder = node / slow.directory

    def tell() -> None:
        while not (folder / "lease.json").exists():
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGUSR2)

    threading.Thread(target=tell, daemon=True).start()
    with pytest.raises(Left):
        pack(node, slow, other)()
    assert leaving == [worker.INTERRUPTED]
    assert (folder / "checkpoint.pt").exists()
    assert not (node / other.directory / "record.json").exists(), "the runs after it wait for the next start"
    assert not failure(node, slow)
