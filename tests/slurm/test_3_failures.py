"""Nodes that die, daemons that go: no record is lost, none is doubled, and the numbers are the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import PACED, Bench, Cluster, wait_for
from .test_2_told_to_go import steps, under_way

pytestmark = pytest.mark.slurm


@pytest.fixture
def healed(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, made whole again afterwards."""
    yield cluster
    cluster.heal()


@pytest.fixture
def healed_bare(bare_cluster: Cluster) -> Iterator[Cluster]:
    yield bare_cluster
    bare_cluster.heal()


def test_a_node_that_dies_without_a_word_costs_only_the_time_since_the_last_checkpoint(
    bare_bench: Bench, healed_bare: Cluster, uninterrupted: dict, tmp_path: Path
):
    """Accounting is off on this cluster: sacct fails, and nothing needs it."""
    trace = tmp_path / "trace"
    sent = bare_bench.send(
        *PACED,
        BENCHMARK_TEST_PACE="0.4",
        BENCHMARK_TEST_TRACE=str(trace),
        BENCHMARK_CHECKPOINT_SECONDS="1",
    )
    ((run, _),) = sent["runs"].items()
    under_way(bare_bench, run, 0.3)
    healed_bare.do("kill", bare_bench.beat(run)["node"])
    wait_for("the record", lambda: bare_bench.done([run]))
    assert bare_bench.record(run)["provenance"]["restarts"] == 1
    before = [progress for restart, progress in steps(trace) if restart == 0]
    after = [progress for restart, progress in steps(trace) if restart == 1]
    assert 0 < min(after) <= max(before) + 1 / 60, "the second start went on from a checkpoint of the first"
    assert len(before) + len(after) < 60 + 15, "and lost little"
    assert bare_bench.outcome() == uninterrupted


def test_of_two_copies_of_a_run_the_newer_one_goes_on_and_the_older_one_stops(
    bench: Bench, healed: Cluster, uninterrupted: dict, tmp_path: Path
):
    """slurmd alone is killed: SLURM gives the node up and starts the task elsewhere, while the old processes live on."""
    trace = tmp_path / "trace"
    sent = bench.send(
        *PACED,
        BENCHMARK_TEST_PACE="2",
        BENCHMARK_TEST_TRACE=str(trace),
        BENCHMARK_CHECKPOINT_SECONDS="1",
    )
    ((run, _),) = sent["runs"].items()
    under_way(bench, run, 0.05)
    healed.do("kill", f"slurmd:{bench.beat(run)['node']}")
    wait_for("the record", lambda: bench.done([run]))
    time.sleep(8)  # a copy that had not noticed would do four more updates
    restarts = [restart for restart, _ in steps(trace)]
    before, since = restarts[: restarts.index(1)], restarts[restarts.index(1) :]
    assert before.count(0) > 8, "the old copy worked on while SLURM gave its node up"
    assert since.count(0) <= 3, "the old copy stopped soon after the new one had the lease"
    assert bench.record(run)["provenance"]["restarts"] == 1
    assert bench.outcome() == uninterrupted


def test_a_controller_that_goes_away_and_comes_back_is_not_noticed_by_the_runs(
    bench: Bench, healed: Cluster, uninterrupted: dict
):
    sent = bench.send(*PACED, BENCHMARK_TEST_PACE="0.3")
    ((run, job),) = sent["runs"].items()
    under_way(bench, run, 0.1)
    healed.do("stop", "slurmctld")
    assert bench.states()[run]["state"] == "running", "the disk tells, when the queue cannot"
    profile = bench.profile()
    said = bench("run", "--suite", "digits", *PACED, "--executor", "slurm", "--cluster", str(profile), expect=2)
    assert "SLURM's controller does not answer; nothing was sent" in said
    wait_for("the record", lambda: bench.done([run]))
    healed.do("start", "slurmctld")
    assert bench.outcome() == uninterrupted
    assert bench.record(run)["provenance"]["restarts"] == 0
    wait_for("the task to leave the queue", lambda: job not in healed.ask("squeue", "-h", "-r", "-o", "%i").split())
    assert bench.outcome() == uninterrupted, "the controller did not start it again"
