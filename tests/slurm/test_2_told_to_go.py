"""Runs that are told to go save themselves, come back, and end as if nothing had happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import PACED, Bench, Cluster, wait_for

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module", autouse=True)
def limited(cluster: Cluster, code: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Bench, str, Path]:
    """A run of two and a half minutes in a task of two, so it starts before the other tests."""
    folder = tmp_path_factory.mktemp("limited")
    bench, trace = Bench(code, folder / "r", cluster.environment), folder / "trace"
    profile = {"time": 2, "signal_seconds": 10, "sbatch": {"nodelist": "n3"}}
    sent = bench.send(*PACED, profile=profile, BENCHMARK_TEST_PACE="2.5", BENCHMARK_TEST_TRACE=str(trace))
    return bench, next(iter(sent["runs"])), trace


def under_way(bench: Bench, run: str, share: float = 0.2) -> None:
    """Wait until a run has done a share of its updates."""
    wait_for(f"{run} to be under way", lambda: bench.beat(run).get("update", 0) >= share * 60)


def steps(trace: Path) -> list[tuple[int, float]]:
    """(restart, progress) of each update, in order."""
    rows = [line.split() for line in trace.read_text().splitlines()]
    return [(int(restart), float(progress)) for _, restart, progress, _ in rows]


def check(bench: Bench, run: str, trace: Path, uninterrupted: dict) -> None:
    """It was restarted, did no update twice, and gave the bits of the run that nobody interrupted."""
    assert bench.record(run)["provenance"]["restarts"] >= 1
    progress = [p for _, p in steps(trace)]
    assert len(progress) == len(set(progress)) == 60, (
        "saved at a step boundary: no update is lost and none is done twice"
    )
    assert bench.outcome() == uninterrupted


def test_usr2_from_a_person(bench: Bench, cluster: Cluster, uninterrupted: dict, tmp_path: Path):
    trace = tmp_path / "trace"
    sent = bench.send(*PACED, BENCHMARK_TEST_PACE="0.2", BENCHMARK_TEST_TRACE=str(trace))
    ((run, job),) = sent["runs"].items()
    under_way(bench, run)
    cluster.ask("scancel", "--signal=USR2", job)
    bench.becomes(run, "queued")
    wait_for("the record", lambda: bench.done([run]))
    check(bench, run, trace, uninterrupted)


def test_preemption_by_a_partition_of_higher_priority(
    bench: Bench, cluster: Cluster, uninterrupted: dict, tmp_path: Path
):
    trace = tmp_path / "trace"
    only = {"cpus": 4, "sbatch": {"nodelist": "n1"}}
    sent = bench.send(*PACED, profile=only, BENCHMARK_TEST_PACE="0.2", BENCHMARK_TEST_TRACE=str(trace))
    ((run, _),) = sent["runs"].items()
    under_way(bench, run)
    cluster.ask("sbatch", "-p", "high", "--nodelist=n1", "-c4", "-o", "/dev/null", "--wrap=sleep 3")
    wait_for("the record", lambda: bench.done([run]))
    check(bench, run, trace, uninterrupted)


def test_a_task_goes_back_to_the_queue_only_as_often_as_the_profile_says(bench: Bench, cluster: Cluster):
    sent = bench.send(*PACED, profile={"max_requeues": 0}, BENCHMARK_TEST_PACE="0.5")
    ((run, job),) = sent["runs"].items()
    under_way(bench, run, 0.05)
    cluster.ask("scancel", "--signal=USR2", job)
    bench.becomes(run, "interrupted")
    wait_for(
        "the reason", lambda: "max_requeues" in bench.states()[run]["reason"], 60
    )  # told when the queue has let go


def test_the_time_limit(limited: tuple[Bench, str, Path], uninterrupted: dict):
    """When the signal comes only SLURM knows (up to a minute early): it came, and the run ended as it should."""
    bench, run, trace = limited
    wait_for("the record", lambda: bench.done([run]))
    check(bench, run, trace, uninterrupted)
