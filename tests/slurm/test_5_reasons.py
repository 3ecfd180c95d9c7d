"""Runs that fail say why, take nobody with them, and are tried again on request; runs can be cancelled and read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import METHODS, PACED, PROFILE, Bench, Cluster, wait_for
from .test_2_told_to_go import under_way

pytestmark = pytest.mark.slurm


def test_memory_and_exceptions_are_told_apart_and_retry_runs_just_those(bench: Bench, tmp_path: Path):
    mended = tmp_path / "mended"
    methods = ",".join(f"{METHODS}:{name}" for name in ("Hungry", "Raises", "Trivial"))
    plan = ("--methods", methods, "--targets", "up", "--limit-steps", "40", "--set", "run.eval_points=1")
    world = {"BENCHMARK_TEST_MENDED": str(mended)}
    packed = {"pack_runs": 3, "retries": 1}
    sent = bench.send(*plan, profile=packed, BENCHMARK_TEST_PACE="0.3", **world)
    assert len(sent["jobs"]) == 1, "all three share a task"
    (job,) = sent["jobs"]
    wait_for("the second attempts", lambda: bench.logs().count(" failed at ") == 4)
    wait_for("the task to end", lambda: all(s["state"] in ("done", "failed") for s in bench.states().values()))
    found = {state["name"]: state for state in bench.states().values()}
    assert found["Trivial"]["state"] == "done", "one failing run never stops another"
    assert found["Hungry"]["state"] == found["Raises"]["state"] == "failed"
    assert "out of memory" in bench.states()[found["Hungry"]["run_id"]]["reason"]
    assert bench.states()[found["Raises"]["run_id"]]["reason"] == "ValueError: the test wants this"
    said = bench("status", expect=1)
    assert "out of memory" in said
    assert "the test wants this" in said

    logs = bench("logs", found["Raises"]["run_id"])
    assert "Traceback" in logs
    assert found["Hungry"]["run_id"] not in logs, "the lines of the others are left out"

    wait_for("the task to leave the queue", lambda: not _queued(bench, job))
    mended.touch()
    again = json.loads(bench("retry", "--failed", "--json", **world))
    failed = {found["Hungry"]["run_id"], found["Raises"]["run_id"]}
    assert set(again["runs"]) == failed
    wait_for("all records", lambda: bench.done(sent["runs"]))
    assert "Nothing to send" in bench("retry", "--failed", **world)


def _queued(bench: Bench, job: str) -> bool:
    cluster = Cluster(Path(bench.environment["SLURM_CONF"]).parent)
    return job in cluster.ask("squeue", "-h", "-r", "-o", "%i").split()


@pytest.mark.parametrize("which", ["bench", "bare_bench"], ids=["accounting", "no accounting"])
def test_a_task_that_slurm_kills_for_its_memory_is_failed_although_it_could_not_say_so(
    which: str, request: pytest.FixtureRequest
):
    bench: Bench = request.getfixturevalue(which)
    sent = bench.send(*PACED[2:], "--methods", f"{METHODS}:HungryHelper", BENCHMARK_TEST_PACE="0.5")
    ((run, _),) = sent["runs"].items()
    state = bench.becomes(run, "failed")
    assert state["reason"].startswith("killed, memory: SLURM says")
    assert f"{PROFILE['memory_gb'] * 1024} MB" in state["reason"]


def test_a_cancelled_run_is_interrupted_and_goes_on_when_it_is_sent_again(
    bench: Bench, cluster: Cluster, uninterrupted: dict
):
    sent = bench.send(*PACED, BENCHMARK_TEST_PACE="0.5", BENCHMARK_CHECKPOINT_SECONDS="1")
    ((run, job),) = sent["runs"].items()
    under_way(bench, run)
    assert json.loads(bench("cancel", run[:8], "--json"))["jobs"] == [job]
    assert "CANCELLED" in bench.becomes(run, "interrupted")["reason"]
    assert "No run is queued or running" in bench("cancel", expect=2)
    assert list(bench.send(*PACED)["runs"]) == [run]
    wait_for("the record", lambda: bench.done([run]))
    assert bench.outcome() == uninterrupted
