"""Nodes whose GPU is bad, runs that share one, and stops in the middle of a long pass: on a real SLURM, GPUs pretended."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from .conftest import METHODS, PACED, SMALL, Bench, Cluster, wait_for
from .test_2_told_to_go import under_way

pytestmark = pytest.mark.slurm
TRIVIAL = ("--methods", f"{METHODS}:Trivial", "--targets", "up", "--limit-steps", "5")
THREE = (*PACED, "--seeds", "0-2")
SHARED = {"gpus": 1, "share": 3, "pack_runs": 3, "memory_gb": 4, "cpus": 2}
GOOD = "24000"


@pytest.fixture(scope="module")
def one_at_a_time(code: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, ...]]:
    """The outcome of the three paced runs, one after the other, without SLURM."""
    here = Bench(code, tmp_path_factory.mktemp("one"), {})
    here.start("run", "--suite", "digits", *THREE, "--workers", "1", "--device", "cpu")
    found = here.outcome()
    assert len(found) == 3
    return found


def test_a_node_that_fails_the_check_is_left_and_the_runs_end_elsewhere(bench: Bench, cluster: Cluster):
    """n1 is too old, n2 is full: all tasks end on n3, and no run has a failure to show for it."""
    gpus = "n1=old n2=200 n3=24000"
    plan = (*TRIVIAL, "--seeds", "0-3")
    sent = bench.send(*plan, profile={"gpus": 1, "retries": 0, "gpu_memory_gb": 2}, BENCHMARK_PRETEND_GPUS=gpus)
    assert len(sent["jobs"]) == 4
    reasons = wait_for("the reason of one that waits", lambda: _reasons(bench))
    assert any("node n1 was left" in reason and "compute capability 7.0" in reason for reason in reasons) or any(
        "node n2 was left" in reason and "200 MB of its 24000 MB are free" in reason for reason in reasons
    ), reasons
    wait_for("the records", lambda: bench.done(sent["runs"]))
    assert {bench.beat(run)["node"] for run in sent["runs"]} == {"n3"}
    assert not list(bench.results.glob("digits/mini/*/failure.json"))
    assert not re.search(r"=== run \w+ starts at \S+ on n[12]", bench.logs())


def test_a_node_too_old_for_the_precision_of_the_runs_is_left(bench: Bench, cluster: Cluster):
    half = (*TRIVIAL, "--set", "run.precision=bf16")
    sent = bench.send(*half, profile={"gpus": 1, "retries": 0}, BENCHMARK_PRETEND_GPUS="n1=turing n2=turing n3=24000")
    wait_for("the record", lambda: bench.done(sent["runs"]))
    assert {bench.beat(run)["node"] for run in sent["runs"]} == {"n3"}
    assert not list(bench.results.glob("digits/mini/*/failure.json"))
    assert "its compute capability is 7.5, the precision of the runs needs 8.0" in bench.logs()


def _reasons(bench: Bench) -> list[str]:
    return [state["reason"] for state in bench.states().values() if "was left" in state["reason"]]


def test_when_no_node_is_left_the_status_says_why_of_each(bench: Bench, cluster: Cluster):
    sent = bench.send(*TRIVIAL, profile={"gpus": 1}, BENCHMARK_PRETEND_GPUS="old")
    ((run, _),) = sent["runs"].items()
    said = wait_for(
        "three reasons", lambda: (s := bench.states()[run])["reason"].count("was left") == 3 and s["reason"]
    )
    print(said)
    assert all(f"node n{i} was left" in said for i in (1, 2, 3))
    bench("cancel", run)
    wait_for("the run to be sent again", lambda: bench.send(*TRIVIAL, profile={"gpus": 1, "device": "cpu"})["runs"])
    wait_for("the record", lambda: bench.done([run]))


def test_three_runs_share_a_gpu_and_give_the_records_of_one_at_a_time(
    bench: Bench, cluster: Cluster, one_at_a_time: dict
):
    sent = bench.send(*THREE, profile=SHARED, BENCHMARK_PRETEND_GPUS=GOOD, BENCHMARK_TEST_PACE="0.1")
    assert len(sent["jobs"]) == 1, "one task, one GPU"
    (job,) = sent["jobs"]
    wait_for("all three at work", lambda: _at_work(bench, sent) == 3)
    steps = cluster.ask("scontrol", "show", "step", job)
    assert "CPUs=2" in steps, f"--cpus-per-task reaches srun: {steps}"
    wait_for("three records", lambda: bench.done(sent["runs"]))
    assert bench.outcome() == one_at_a_time
    for run in sent["runs"]:
        assert "took" in bench("logs", run)


def _at_work(bench: Bench, sent: dict[str, Any]) -> int:
    return sum(bench.beat(run).get("update", 0) > 0 and not bench.done([run]) for run in sent["runs"])


def test_three_that_share_a_gpu_survive_usr2(bench: Bench, cluster: Cluster, one_at_a_time: dict):
    sent = bench.send(*THREE, profile=SHARED, BENCHMARK_PRETEND_GPUS=GOOD, BENCHMARK_TEST_PACE="0.3")
    (job,) = sent["jobs"]
    for run in sent["runs"]:
        under_way(bench, run, 0.1)
    cluster.ask("scancel", "--signal=USR2", job)
    for run in sent["runs"]:
        bench.becomes(run, "queued")
    wait_for("three records", lambda: bench.done(sent["runs"]))
    assert bench.outcome() == one_at_a_time
    assert all(bench.record(run)["provenance"]["restarts"] == 1 for run in sent["runs"])
    assert not list(bench.results.glob("digits/mini/*/failure.json"))


def test_of_three_that_share_a_gpu_one_that_is_killed_is_tried_again_and_the_others_go_on(
    bench: Bench, one_at_a_time: dict
):
    sent = bench.send(*THREE, profile=SHARED, BENCHMARK_PRETEND_GPUS=GOOD, BENCHMARK_TEST_PACE="0.3")
    for run in sent["runs"]:
        under_way(bench, run, 0.1)
    victim, *others = sent["runs"]
    os.kill(bench.beat(victim)["pid"], signal.SIGKILL)
    wait_for("three records", lambda: bench.done(sent["runs"]))
    assert bench.outcome() == one_at_a_time
    logs = bench.logs()
    assert f"{victim} failed: killed by SIGKILL" in logs
    assert logs.count(f"=== run {victim} starts at") == 2
    assert all(logs.count(f"=== run {run} starts at") == 1 for run in others)


def test_of_three_that_share_a_gpu_one_that_takes_too_much_memory_goes_alone(
    bench: Bench, one_at_a_time: dict, tmp_path: Path
):
    mended = tmp_path / "mended"
    methods = ",".join(f"{METHODS}:{name}" for name in ("Hungry", "Paced", "Raises"))
    plan = ("--methods", methods, *PACED[2:])
    sent = bench.send(
        *plan,
        profile={**SHARED, "retries": 0},
        BENCHMARK_PRETEND_GPUS=GOOD, BENCHMARK_TEST_PACE="0.3", BENCHMARK_TEST_MENDED=str(mended),
    )  # fmt: skip
    assert len(sent["jobs"]) == 1
    names = {state["name"]: run for run, state in bench.states().items()}
    failed = bench.becomes(names["Hungry"], "failed")
    assert failed["reason"].startswith("out of memory:")
    assert "of them by this run" in failed["reason"]
    assert bench.becomes(names["Raises"], "failed")["reason"] == "ValueError: the test wants this"
    wait_for("the record of the third", lambda: bench.done([names["Paced"]]))
    assert bench.outcome()[names["Paced"]] == one_at_a_time[names["Paced"]]


@pytest.mark.parametrize("place", ["begin", "evaluation"])
def test_usr2_in_the_middle_of_a_long_pass_ends_at_the_next_batch_and_resumes_to_the_same_bits(
    bench: Bench, cluster: Cluster, tmp_path: Path, place: str
):
    trace = tmp_path / "trace"
    small = (w for k, v in {**SMALL, "eval_points": 1}.items() for w in ("--set", f"run.{k}={v}"))
    plan = ("--methods", f"{METHODS}:SlowPasses", "--targets", "up", "--limit-steps", "20", *small)
    sent = bench.send(*plan, BENCHMARK_TEST_PACE="1", BENCHMARK_TEST_PASS=place, BENCHMARK_TEST_TRACE=str(trace))
    ((run, job),) = sent["runs"].items()
    wait_for("the pass to be under way", lambda: trace.exists() and trace.read_text().count(place) >= 2)
    told = time.time()
    cluster.ask("scancel", "--signal=USR2", job)
    wait_for("the task to leave", lambda: "goes back to the queue" in bench.logs(), 60)
    seconds = time.time() - told
    batches = [float(line.split()[1]) for line in trace.read_text().splitlines()]
    print(f"USR2 in {place}: the task was back in the queue after {seconds:.1f} s")
    assert sum(at > told for at in batches) <= 1, "at most the batch at work when the signal came"
    wait_for("the record", lambda: bench.done([run]))
    assert bench.record(run)["provenance"]["restarts"] == 1
    local = Bench(bench.code, tmp_path / "local", {})
    local.locally(*plan)
    assert bench.outcome() == local.outcome()
