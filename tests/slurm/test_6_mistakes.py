"""A mistake in a profile is answered with one sentence and exit code 2, and nothing is sent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from .conftest import METHODS, Bench, Cluster

pytestmark = pytest.mark.slurm
PLAN = ("--methods", f"{METHODS}:Trivial", "--targets", "up", "--limit-steps", "5")


def refused(bench: Bench, cluster: Cluster, *, changes: dict[str, Any], **environment: str) -> str:
    profile = bench.profile(**changes)
    words = ("run", "--suite", "digits", *PLAN, "--executor", "slurm", "--cluster", str(profile))
    said = bench(*words, expect=2, **environment).strip()
    assert "\n" not in said, f"one sentence, not: {said}"
    assert "Traceback" not in said
    assert not list(bench.results.glob(".slurm/*/submission.json"))
    assert cluster.ask("squeue", "-h", "-n", "msda-benchmark", "-u", os.environ.get("USER", "root")).strip() == ""
    return said


def test_an_unknown_key(bench: Bench, cluster: Cluster):
    said = refused(bench, cluster, changes={"partion": "main"})
    assert "Did you mean 'partition'?" in said
    assert "max_requeues" in said


def test_more_gpus_than_any_node_has(bench: Bench, cluster: Cluster):
    said = refused(bench, cluster, changes={"gpus": 9})
    assert "--gpus-per-node=9" in said
    assert "gpu:2" in said, "it says what there is"


def test_an_unknown_partition(bench: Bench, cluster: Cluster):
    said = refused(bench, cluster, changes={"partition": "mian"})
    assert "Did you mean 'main'?" in said
    assert "high" in said


def test_an_option_that_sbatch_does_not_know(bench: Bench, cluster: Cluster):
    assert "--colour=red" in refused(bench, cluster, changes={"sbatch": {"colour": "red"}})


def test_no_sbatch_on_the_path(bench: Bench, cluster: Cluster, tmp_path: Path):
    said = refused(bench, cluster, changes={}, PATH=str(tmp_path))
    assert "sbatch is not on PATH" in said
    assert "--executor local" in said


def test_no_profile_at_all(bench: Bench):
    said = bench("run", "--suite", "digits", *PLAN, "--executor", "slurm", expect=2)
    assert "--cluster" in said
    assert json.dumps(said).count("\\n") <= 1
