"""A sweep over three nodes gives what this machine gives, bit for bit; nothing runs twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import METHODS, Bench, Cluster, wait_for

pytestmark = pytest.mark.slurm
SWEEP = ("--methods", "source-only,dann", "--targets", "mm,up", "--limit-steps", "60", "--set", "run.eval_points=2")


def test_records_of_a_sweep_on_three_nodes_equal_the_local_ones_bit_for_bit(bench: Bench, tmp_path: Path):
    sent = bench.send(*SWEEP, profile={"cpus": 2})
    assert len(sent["runs"]) == len(sent["jobs"]) == 4
    assert len({job.partition("_")[0] for job in sent["jobs"]}) == 1, "equal requests belong into one array"

    again = bench.send(*SWEEP, profile={"cpus": 2})
    assert not again["jobs"], "what is queued or running is not sent again"
    assert set(again["left_alone"]) == set(sent["runs"])

    wait_for("four records", lambda: bench.done(sent["runs"]))
    nodes = {bench.beat(run)["node"] for run in sent["runs"]}
    assert len(nodes) >= 2, f"all ran on {nodes}"
    local = Bench(bench.code, tmp_path / "local", {})
    local.locally(*SWEEP)
    assert bench.outcome() == local.outcome()
    assert {state["state"] for state in bench.states().values()} == {"done"}
    assert not bench.send(*SWEEP)["jobs"], "what is done is not sent again"


def test_two_people_who_launch_the_same_plan_at_once_do_not_run_it_twice(bench: Bench, cluster: Cluster):
    import concurrent.futures

    plan = ("--methods", f"{METHODS}:Trivial", "--targets", "up", "--seeds", "0-5", "--limit-steps", "5")
    bench.profile()
    with concurrent.futures.ThreadPoolExecutor(2) as people:
        first, second = people.map(lambda _: bench.send(*plan, profile={"pack_runs": 3}), range(2))
    assert sorted(len(each["runs"]) for each in (first, second)) == [0, 6]
    runs = first["runs"] or second["runs"]
    wait_for("six records", lambda: bench.done(runs))
    assert bench.logs().count(" starts at ") == 6


def test_code_that_changes_between_submission_and_start_is_refused_unless_allowed(bench: Bench, tmp_path: Path):
    import shutil

    copy = tmp_path / "code"
    shutil.copytree(bench.code, copy)
    mine = Bench(copy, bench.results, bench.environment)
    plan = ("--methods", f"{METHODS}:Trivial", "--targets", "up", "--limit-steps", "5")
    later = {"begin": "now+5"}
    (run,) = mine.send(*plan, profile={"sbatch": later})["runs"]
    with (copy / "benchmark" / "selection.py").open("a") as file:
        file.write("\n# a change that nobody asked for\n")
    failed = mine.becomes(run, "failed")
    assert "code changed after the submission" in failed["reason"]
    mine.send(*plan, profile={"sbatch": later, "allow_changed_code": True})
    with (copy / "benchmark" / "selection.py").open("a") as file:
        file.write("# and another\n")
    wait_for("the record", lambda: mine.done([run]))
