"""Cutting a plan into tasks, asking for time, remembering what was sent, telling states apart: without SLURM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import submitit
from PIL import Image

from benchmark.errors import UserError
from benchmark.launch import decode, queue, slurm, submissions
from benchmark.launch.cluster import Profile, load_profile
from benchmark.launch.logs import section
from benchmark.launch.slurm import ask_minutes, at_once, cut, sbatch_options, submit
from benchmark.launch.status import sent, states
from benchmark.launch.submissions import Submission, launching, new_folder
from benchmark.plan import Request, make
from benchmark.records.lease import process_start
from benchmark.spec import load_suite
from tests.synthetic import write_run


def runs(*seconds: float) -> dict[str, float]:
    return {f"r{i}": s for i, s in enumerate(seconds)}


def test_short_runs_share_tasks_and_long_ones_do_not():
    profile = Profile(pack_minutes=60, pack_runs=50, parallel=1)
    assert [len(pack) for pack in cut(runs(*[60.0] * 120), profile)] == [40, 40, 40]
    assert len(cut(runs(*[7200.0] * 4), profile)) == 4


def test_every_run_is_in_exactly_one_task_and_no_task_has_too_many():
    seconds = runs(*(10.0 * (i % 17 + 1) for i in range(333)))
    packs = cut(seconds, Profile(pack_runs=20, parallel=4))
    assert sorted(run for pack in packs for run in pack) == sorted(seconds)
    assert max(map(len, packs)) <= 20


def test_work_is_spread_over_the_tasks_that_may_run_at_once_if_it_is_worth_their_start():
    assert len(cut(runs(*[300.0] * 8), Profile(parallel=4))) == 4
    assert len(cut(runs(*[1.0] * 8), Profile(parallel=4))) == 1


def test_tasks_have_about_equal_work():
    seconds = runs(*(float(i) for i in range(1, 101)))
    work = [sum(seconds[run] for run in pack) for pack in cut(seconds, Profile(parallel=5, pack_minutes=30))]
    assert max(work) - min(work) <= 100


def test_tasks_have_as_many_runs_as_share_a_gpu():
    long = runs(*[14_400.0] * 6)
    assert [len(pack) for pack in cut(long, Profile(), share=3)] == [3, 3]
    assert [len(pack) for pack in cut(long, Profile())] == [1] * 6
    assert [len(pack) for pack in cut(long, Profile(pack_runs=2), share=3)] == [2, 2, 2], "pack_runs has the last word"
    assert [len(pack) for pack in cut(runs(*[60.0] * 120), Profile(pack_runs=50, parallel=1), share=3)] == [40, 40, 40]


def test_the_time_of_runs_at_once_is_the_longest_that_their_order_can_make_it():
    assert at_once([10, 20, 30], 1) == 60
    assert at_once([30, 30, 20], 3) == 30
    assert at_once([30, 30, 60], 2) == 90  # the long one may be the last to begin


@pytest.mark.parametrize("seconds, longest, minutes", [(60, 240, 15), (1200, 240, 60), (36000, 240, 240), (60, 5, 5)])
def test_the_time_asked_for_has_a_margin_and_an_end(seconds, longest, minutes):
    asked = ask_minutes(seconds, Profile(margin=1.5), longest)
    assert asked == minutes
    assert asked == longest or asked * 60 >= 1.5 * seconds


def test_a_profile_becomes_the_options_of_sbatch():
    profile = Profile(partition="gpu", gpus=2, gpu_type="a100", memory_gb=1.5, sbatch={"exclusive": True, "nice": 5})
    options = sbatch_options(profile.resources("paper"), 90)
    assert {"--partition=gpu", "--gpus-per-node=a100:2", "--mem=1536M", "--exclusive", "--nice=5", "--time=90"} <= set(
        options
    )


def test_only_one_person_launches_into_a_folder_at_a_time(tmp_path: Path):
    with launching(tmp_path), pytest.raises(UserError, match="is launching into"), launching(tmp_path, patience=0.3):
        pass
    with launching(tmp_path, patience=0.3):
        pass


def test_the_lock_of_a_launch_that_died_is_taken_away(tmp_path: Path):
    with launching(tmp_path):
        lock = tmp_path / submissions.FOLDER / "launching"
        long_ago = time.time() - submissions.LOCK_SECONDS - 1
        os.utime(lock, (long_ago, long_ago))
        with launching(tmp_path, patience=2):
            assert lock.exists()
        assert not lock.exists()


@pytest.mark.parametrize(
    "end, memory",
    [
        (queue.Ended("OUT_OF_MEMORY", "0:125"), True),
        (queue.Ended("FAILED", "0:9"), True),
        (queue.Ended("FAILED", "137:0"), True),
        (queue.Ended("FAILED", "1:0"), False),
        (queue.Ended("CANCELLED", "0:9"), False),
    ],
)
def test_how_memory_kills_look(end, memory):
    assert end.killed is memory


def test_a_log_of_many_runs_is_divided_into_theirs():
    log = "preface\n=== run aa starts\none\n=== run bb starts\ntwo\n=== run bb done\n=== run aa starts\nthree"
    assert section(log, "aa") == "=== run aa starts\none\n=== run aa starts\nthree"
    assert "two" in section(log, "bb")


# -- states, as the disk tells them ---------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))  # no SLURM here
    return tmp_path / "runs"


def write(results: Path, run: str, **files: object) -> None:
    folder = results / "digits" / "mini" / run
    folder.mkdir(parents=True)
    spec = {"suite": "digits", "tier": "mini", "method": "dann", "preset": "", "target": "mm", "seed": 3}
    for name, content in {"spec": spec, **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


AA, BB, CC, DD, EE = (letter * 16 for letter in "abcde")


def test_a_run_is_shown_with_its_progress(results: Path):
    me = {"host": os.uname().nodename, "pid": os.getpid(), "started": process_start(os.getpid()), "node": "n7"}
    beat = {"update": 20, "total": 80, "seconds": 10.0, "restarts": 2}
    done = write_run(results, "dann", "mm", 3)
    write(results, BB, lease={**me, "token": "x"}, heartbeat=beat)
    write(results, CC, failure={"reason": "NaN in the loss"})
    write(results, DD, lease={**me, "pid": 2**22 + 7, "token": "x"}, heartbeat=beat)
    found = {state.run_id: state for state in states(results, [done.name, BB, CC, DD, EE])}
    assert [found[run].state for run in found] == ["done", "running", "failed", "interrupted", "absent"]
    running = found[BB]
    assert (running.update, running.total, running.node, running.restarts) == (20, 80, "n7", 2)
    assert running.progress == 0.25
    assert running.seconds_left == pytest.approx(30.0)
    assert found[CC].reason == "NaN in the loss"
    assert (found[done.name].name, found[done.name].target, found[done.name].seed) == ("dann", "mm", 3)


def test_another_hosts_lease_counts_by_its_age(results: Path):
    write(results, AA, lease={"host": "elsewhere", "pid": 1, "token": "x"})
    assert states(results)[0].state == "running"
    lease = results / "digits" / "mini" / AA / "lease.json"
    os.utime(lease, (time.time() - 3600, time.time() - 3600))
    assert states(results)[0].state == "interrupted"


def test_a_run_that_was_sent_and_never_began_is_known_by_its_submission(results: Path):
    results.mkdir()
    spec = {"suite": "digits", "tier": "mini", "method": "dann", "target": "mm", "seed": 0}
    folder = new_folder(results)
    Submission(folder, {"7_0": [AA]}, {AA: spec}, {}, None, "code").save()
    (state,) = states(results)
    assert (state.run_id, state.state, state.job, state.name) == (AA, "queued", "7_0", "dann")
    assert "does not answer" in state.reason


@pytest.mark.parametrize("run, tier", [("../../elsewhere", "mini"), (AA, ".."), (AA, "/tmp")])
def test_a_submission_that_leads_out_of_its_folder_is_not_looked_at(results: Path, run: str, tier: str):
    spec = {"suite": "digits", "tier": tier, "method": "dann", "target": "mm", "seed": 0}
    Submission(new_folder(results), {"7_0": [run]}, {run: spec}, {}, None, "code").save()
    assert states(results) == []


@pytest.mark.parametrize(
    "end, says, words",
    [
        (queue.Ended("OUT_OF_MEMORY", "0:125"), "killed", "the task had asked for 512 MB"),
        (queue.Ended("NODE_FAIL", "0:0"), "killed", "killed: SLURM says NODE_FAIL"),
        (queue.Ended("FAILED", "3:0"), "ended", "max_requeues"),
        (queue.Ended("CANCELLED", "0:0"), "ended", "SLURM says CANCELLED for job 7_0"),
        (None, "ended", "job 7_0 ended"),
    ],
)
def test_what_slurm_says_of_a_task_that_is_gone(results: Path, monkeypatch: pytest.MonkeyPatch, end, says, words):
    spec = {"suite": "digits", "tier": "mini", "method": "dann", "target": "mm", "seed": 0}
    Submission(new_folder(results), {"7_0": [AA]}, {AA: spec}, {}, None, "code", {"7_0": 512}).save()
    monkeypatch.setattr(queue, "available", lambda: True)
    monkeypatch.setattr(queue, "queue", dict)
    monkeypatch.setattr(queue, "ended", lambda jobs: {job: end for job in jobs if end})
    found = sent(results)[AA]
    assert (found.job, found.says) == ("7_0", says)
    assert words in found.reason
    write_failed = results / "digits" / "mini" / AA
    write_failed.mkdir(parents=True)
    (write_failed / "failure.json").write_text('{"reason": "NaN"}')
    assert sent(results)[AA].reason == "job 7_0 ended", "a run that left a word needs no other"


def test_a_task_that_waits_says_which_nodes_it_left_and_why(results: Path, monkeypatch: pytest.MonkeyPatch):
    spec = {"suite": "digits", "tier": "mini", "method": "dann", "target": "mm", "seed": 0}
    folder = new_folder(results)
    Submission(folder, {"7_0": [AA]}, {AA: spec}, {}, None, "code").save()
    submissions.leave_node(folder, "7_0", "n1", "GPU 0 (Tesla V100): too old")
    monkeypatch.setattr(queue, "available", lambda: True)
    monkeypatch.setattr(queue, "queue", lambda: {"7_0": queue.Task("7_0", "PENDING", "", "BeginTime", "")})
    (state,) = states(results)
    assert state.state == "queued"
    assert state.reason == "job 7_0: pending, BeginTime; node n1 was left: GPU 0 (Tesla V100): too old"


def test_no_folder_is_used_for_two_submissions(results: Path):
    assert new_folder(results) != new_folder(results)


def test_status_answers_without_waiting_for_torch(tmp_path: Path):
    command = [sys.executable, "-X", "importtime", "-m", "benchmark", "status", "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "No run in" in done.stdout
    assert "typer" in imported
    assert not imported & {"torch", "pandas", "numpy"}


def test_time_left_follows_the_pace_that_is_seen():
    from benchmark.cli.parts.progress import Watch
    from benchmark.launch.local import Event
    from tests.tiny import tiny

    specs = [tiny(seed=seed) for seed in range(4)]
    watch = Watch(specs, {s.run_id: (10.0, "assumed") for s in specs}, workers=1, show=False)
    assert watch._left() == "40 s"
    watch(Event("beat", 0, specs[0], {"update": 5, "total": 10, "seconds": 20.0}))  # four times as slow as expected
    assert watch._left() == "2 min"  # 20 s of this run, 40 s of each of the others


# -- pictures are decoded before GPUs are asked for --------------------------------------------------------------------


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data root with DomainNet's lists and two tiny pictures in each, labels 0 and 1."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    suite = load_suite("domainnet")
    for domain in suite.domains:
        for part in ("train", "test"):
            names = [f"{domain.name}/{suite.classes[label]}/{part}.png" for label in (0, 1)]
            for name in names:
                file = tmp_path / "data" / "DomainNet" / name
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (8, 8)).save(file)
            lines = "".join(f"{name} {label}\n" for label, name in enumerate(names))
            (tmp_path / "data" / "DomainNet" / f"{domain.name}_{part}.txt").write_text(lines)
    return tmp_path / "data"


def test_a_sweep_on_gpus_waits_for_a_cpu_job_that_decodes_and_a_decoded_one_does_not(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sent_jobs: list[tuple[dict, list]] = []

    class Executor:
        def __init__(self, folder: Path, python: str) -> None:
            pass

        def update_parameters(self, **parameters: object) -> None:
            self.parameters = parameters

        def submit(self, call: object) -> SimpleNamespace:
            return self.submit_array([call])[0]

        def submit_array(self, calls: list) -> list[SimpleNamespace]:
            sent_jobs.append((self.parameters, calls))
            return [SimpleNamespace(job_id=f"{len(sent_jobs)}_{i}") for i in range(len(calls))]

    monkeypatch.setattr(submitit, "SlurmExecutor", Executor)
    for name, answer in (("check", None), ("queue", {}), ("largest_array", 1000), ("available", False)):
        monkeypatch.setattr(queue, name, lambda *_, answer=answer: answer)
    plan = make(Request("domainnet", "paper", methods=["source-only"], targets=["clp"]), pictures)
    profile = Profile(gpus=1, gpu_type="a100", partition="gpu", decode={"partition": "cpu", "cpus": 32})
    submit(plan.specs, results=tmp_path / "a", data_root=pictures, profile=profile)
    (first, [decoding]), (tasks, _) = sent_jobs
    assert "gpus_per_node" not in first
    assert (first["partition"], first["cpus_per_task"]) == ("cpu", 32)
    assert "dependency" not in first["additional_parameters"]
    assert tasks["gpus_per_node"] == "a100:1"
    assert tasks["additional_parameters"]["dependency"] == "afterany:1_0"
    (there,) = submissions.submissions(tmp_path / "a")
    monkeypatch.setattr(queue, "queue", lambda: dict.fromkeys(["1_0", *there.jobs]))
    assert slurm.decoding(tmp_path / "a", there.jobs.keys()) == {"1_0"}, (
        "who cancels the tasks cancels what they wait for"
    )
    assert slurm.decoding(tmp_path / "a", set()) == set()
    monkeypatch.setattr(queue, "queue", lambda: {})
    assert slurm.decoding(tmp_path / "a", there.jobs.keys()) == set()
    decoding()  # as the node does
    sent_jobs.clear()
    submit(plan.specs, results=tmp_path / "b", data_root=pictures, profile=profile)
    ((tasks, _),) = sent_jobs
    assert "dependency" not in tasks["additional_parameters"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    assert decode.wanted(plan.specs, str(pictures), Profile()) is None  # no GPU waits


def test_a_wrong_key_of_the_decoding_job_is_named(tmp_path: Path):
    (tmp_path / "p.toml").write_text("[decode]\ncores = 4\n")
    with pytest.raises(UserError, match=r"key in \[decode\] of the cluster profile .*cores"):
        load_profile(tmp_path / "p.toml")
