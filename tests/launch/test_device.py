"""Which GPU can do the work: the check itself, and a pool that uses every GPU of a machine; GPUs are pretended."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.__main__ import main
from benchmark.cli.runs import pick_gpus
from benchmark.errors import UserError
from benchmark.launch import device, doctor
from benchmark.launch.device import PRETEND, SHARED, Gpu, complaint, covers, default_workers, spelled, survey
from benchmark.launch.local import launch
from benchmark.spec import RunSpec
from tests.tiny import ARGUMENTS, tiny

WHEEL = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]


@pytest.mark.parametrize(
    "capability, runs",
    [
        ((7, 0), False),  # V100: older than anything in the wheel
        ((7, 5), True),
        ((8, 0), True),
        ((8, 9), True),  # L40S: machine code of its generation, an earlier step
        ((9, 0), True),
        ((10, 3), True),
        ((12, 1), True),
        ((13, 0), True),  # not made yet: the driver compiles compute_120
        ((11, 0), False),
    ],
)
def test_which_gpus_a_wheel_can_serve(capability, runs):
    assert covers(WHEEL, capability) is runs


def test_code_for_one_step_alone_serves_that_step_alone():
    assert covers(["sm_90a"], (9, 0))
    assert not covers(["sm_100a"], (10, 3))


def test_every_gpu_is_looked_at_and_the_bad_ones_say_why(monkeypatch):
    monkeypatch.setenv(PRETEND, "24000 old dead 300")
    good, old, dead, busy = survey()
    assert complaint([good], 1024) == ""
    assert "compute capability 7.0 is none that this torch was built for (sm_75, sm_80)" in complaint([old])
    assert "unspecified launch failure" in complaint([dead])
    assert "300 MB of its 24000 MB are free, 1024 MB are needed" in complaint([busy], 1024)
    assert complaint([busy], 100) == ""
    assert complaint([good], capability=(8, 0)) == ""
    assert "CUDA_VISIBLE_DEVICES=" in complaint([])


def test_a_word_for_a_node_is_for_that_node(monkeypatch):
    monkeypatch.setenv(PRETEND, "n1=old n2=8000")
    monkeypatch.setenv("SLURMD_NODENAME", "n2")
    assert survey() == [Gpu(0, "GPU 0 (pretended)", 8000, 24000, capability=(8, 0))]
    monkeypatch.setenv("SLURMD_NODENAME", "n3")
    assert survey() == []


def test_a_driver_that_hangs_or_crashes_is_a_fault_and_holds_nobody(monkeypatch):
    monkeypatch.setenv(PRETEND, "8000")
    monkeypatch.setattr(device, "_look", lambda only: time.sleep(600))
    assert "did not answer within" in complaint(survey(patience=0.5))
    monkeypatch.setattr(device, "_look", lambda only: os._exit(139))
    assert "crashed" in complaint(survey())


def test_a_gpu_without_the_precision_of_the_runs_is_refused_before_they_begin(monkeypatch, tmp_path):
    monkeypatch.setenv(PRETEND, "8000 turing")
    assert "its compute capability is 7.5, the precision of the runs needs 8.0" in complaint(
        survey(), capability=(8, 0)
    )
    assert complaint(survey()) == "", "single precision is nothing new"
    half = [tiny(overrides={"run.precision": "bf16"})]
    with pytest.raises(UserError, match=r"run.precision=bf16 is not for every GPU here. GPU 1 \(pretended\)"):
        launch(half, results=tmp_path, workers=2, device="cuda:0,1")
    assert launch(half, results=tmp_path, workers=2, device="cuda:0").done == [half[0].run_id]


def test_doctor_asks_the_same(monkeypatch):
    monkeypatch.setenv(PRETEND, "8000 old")
    good, bad = (finding for finding in doctor.examine(None) if finding["what"] == "GPU")
    assert good["ok"]
    assert "8000 of 24000 MB free" in good["found"]
    assert not bad["ok"]
    assert "compute capability 7.0" in bad["found"]
    monkeypatch.setenv(PRETEND, "")
    assert "none that torch can use" in str(doctor._gpus())


# -- all the GPUs of a machine ---------------------------------------------------------------------------------------


def test_auto_is_every_gpu_that_works_and_a_name_is_that_one(monkeypatch, capsys):
    monkeypatch.setenv(PRETEND, "8000 old 8000")
    assert spelled(pick_gpus("auto")) == spelled(pick_gpus("cuda")) == "cuda:0,2"
    assert "left out: GPU 1 (pretended)" in capsys.readouterr().err
    assert spelled(pick_gpus("cuda:2")) == spelled(pick_gpus("cuda:2,2")) == "cuda:2"
    assert spelled(pick_gpus("cpu")) == "cpu"
    with pytest.raises(UserError, match="GPU 1 of --device cuda:0,1 cannot be used: its compute capability"):
        pick_gpus("cuda:0,1")
    with pytest.raises(UserError, match="GPU 7 of --device cuda:7 cannot be used: it is not there"):
        pick_gpus("cuda:7")
    with pytest.raises(UserError, match="no device 'tpu'"):
        pick_gpus("tpu")


def test_without_a_gpu_auto_is_the_cpu_and_runs_per_gpu_make_no_sense(monkeypatch):
    monkeypatch.setenv(PRETEND, "")
    assert pick_gpus("auto") == []
    for asked in (("cuda", 0), ("auto", 2)):
        with pytest.raises(UserError, match="no GPU that torch can use"):
            pick_gpus(*asked)


def test_the_number_of_runs_follows_from_cores_gpus_their_memory_and_the_network(monkeypatch):
    monkeypatch.setattr("benchmark.launch.device.cores", lambda: 16)
    large = [Gpu(i, free_mb=80_000, total_mb=80_000) for i in range(2)]
    small = [Gpu(0, free_mb=16_000, total_mb=16_000)]

    def runs(suite: str, target: str, threads: int = 1, **changed: object) -> list[RunSpec]:
        return [
            RunSpec(suite, "paper", "source-only", target=target, threads=threads, overrides=tuple(changed.items()))
        ]

    digits, domainnet = runs("digits", "mm"), runs("domainnet", "clp")
    assert default_workers(runs("digits", "mm", 4), []) == 4
    assert default_workers(runs("digits", "mm", 32), []) == 1
    assert default_workers(digits, large) == 2 * SHARED
    assert default_workers(digits, small) == 2, "two of the largest, 6.2 GB"
    assert default_workers(runs("digits", "mm", **{"run.network.name": "resnet101"}), large) == 2 * SHARED
    assert default_workers(runs("digits", "mm", **{"run.batch": 512}), small) == 1, "what the runs are, not their suite"
    assert default_workers(domainnet, large) == 2 * 3, "three of 19 GB fit into 80"
    assert default_workers([*digits, *domainnet], large) == 2 * 3, "the largest decides"
    assert default_workers(domainnet, small) == 1
    assert default_workers(domainnet, small, 3) == 3, "who says how many knows better"
    assert default_workers(runs("digits", "mm", 16), large) == 2, "no GPU is left idle for want of cores"


def test_a_worker_sees_its_own_gpu_only_also_below_a_launcher_that_sees_a_few(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert device.visible("cuda:0,2") == ["0", "2"]
    assert device.visible("cpu") == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5fa1,7")
    assert device.visible("cuda:1,2") == ["GPU-5fa1", "7"]
    assert device.torch_device("cuda:1,2") == "cuda"
    monkeypatch.setenv(PRETEND, "8000")
    assert device.torch_device("cuda:0") == "cpu"


SEES = """
import os, time
from pathlib import Path
from methods.source_only import SourceOnly

class Sees(SourceOnly):
    def update(self, sources, target, progress):
        if progress == 0:
            time.sleep(0.5)  # the other workers are up by then
            with Path(os.environ["BENCHMARK_TEST_TRACE"]).open("a") as file:
                file.write(f"{os.environ.get('CUDA_VISIBLE_DEVICES')} {os.getpid()}\\n")
        return super().update(sources, target, progress)
"""


def test_a_pool_uses_every_gpu_with_as_many_runs_on_each_as_asked_and_the_records_are_those_of_one(
    tmp_path: Path, monkeypatch
):
    (tmp_path / "sees.py").write_text(SEES)
    trace = tmp_path / "trace"
    monkeypatch.setenv("BENCHMARK_TEST_TRACE", str(trace))
    monkeypatch.setenv(PRETEND, "8000 dead 8000")
    request = ["run", "--suite", "digits", "--methods", f"{tmp_path}/sees.py:Sees", "--targets", "mm", "--seeds", "0-3"]
    assert main([*request, *ARGUMENTS, "--per-device", "2", "--results", str(tmp_path / "gpus")]) == 0
    rows = [line.split() for line in trace.read_text().splitlines()]
    assert Counter(gpu for gpu, _ in rows) == {"0": 2, "2": 2}
    assert len({pid for _, pid in rows}) == 4
    monkeypatch.delenv(PRETEND)
    assert main([*request, *ARGUMENTS, "--workers", "1", "--device", "cpu", "--results", str(tmp_path / "one")]) == 0
    weights = [
        {f.parent.name: json.loads(f.read_text())["weights"] for f in (tmp_path / place).rglob("record.json")}
        for place in ("gpus", "one")
    ]
    assert len(weights[0]) == 4
    assert weights[0] == weights[1]


def test_a_worker_that_is_replaced_keeps_its_gpu(tmp_path: Path, monkeypatch):
    (tmp_path / "sees.py").write_text(
        SEES.replace("        return super", "        os.kill(os.getpid(), 9)\n        return super")
    )
    trace = tmp_path / "trace"
    monkeypatch.setenv("BENCHMARK_TEST_TRACE", str(trace))
    monkeypatch.setenv(PRETEND, "8000 8000")
    specs = [replace(tiny(seed=seed), method=f"{tmp_path}/sees.py:Sees") for seed in range(4)]
    outcome = launch(specs, results=tmp_path / "runs", workers=2, device="cuda:0,1")
    assert len(outcome.failed) == 4
    assert set(Counter(line.split()[0] for line in trace.read_text().splitlines())) == {"0", "1"}


def test_doctor_does_not_call_a_program_fine_that_nobody_has_set_up(tmp_path, monkeypatch):
    sbatch = tmp_path / "sbatch"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for code, ok, words in ((0, True, "slurm 23.02"), (1, False, f"{sbatch} does not answer: slurm 23.02")):
        sbatch.write_text(f"#!/bin/sh\necho slurm 23.02\nexit {code}\n")
        sbatch.chmod(0o755)
        found = doctor._program("SLURM", "sbatch", "--version", "make slurm-up")
        assert (found["ok"], found["found"]) == (ok, words)
