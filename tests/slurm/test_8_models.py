"""Models that stay on a cluster: told to go in the middle, a run comes back and keeps what it would have kept."""

from __future__ import annotations

import json

import pytest

from .conftest import PACED, Bench, Cluster, wait_for

pytestmark = pytest.mark.slurm


def test_models_survive_a_requeue_and_give_the_records_accuracy(bench: Bench, cluster: Cluster, uninterrupted: dict):
    sent = bench.send(*PACED, "--keep-model", "selected", BENCHMARK_TEST_PACE="0.2")
    ((run, job),) = sent["runs"].items()
    wait_for("two evaluation points", lambda: bench.beat(run).get("update", 0) >= 45)
    folder = bench.results / "digits" / "mini" / run
    candidates = list(folder.glob("candidate-*.safetensors"))
    assert candidates
    cluster.ask("scancel", "--signal=USR2", job)
    bench.becomes(run, "queued")
    wait_for("the record", lambda: bench.done([run]))
    wait_for("the candidates to go, after the record", lambda: not list(folder.glob("candidate-*")))
    record = bench.record(run)
    assert record["provenance"]["restarts"] >= 1
    assert bench.outcome() == uninterrupted
    assert not [w for w in record["warnings"] if "not kept" in w]
    assert {f"model-{rule.replace('_', '-')}.safetensors" for rule in record["models"]} == {
        path.name for path in folder.glob("*.safetensors")
    }
    assert any(record["selected"][rule] < 60 or rule == "last" for rule in record["models"])
    for rule in record["models"]:
        for statistics, printed in (("running", record), ("target", record["statistics"]["target"])):
            words = (
                "--rule",
                rule.replace("_", "-"),
                "--statistics",
                statistics,
                "--out",
                str(folder.parent / "t.csv"),
            )
            said = json.loads(bench("predict", run, *words, "--json"))
            assert said["accuracy"] == printed["accuracy"][rule]
