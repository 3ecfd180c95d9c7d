"""A GPU that fails is nobody's fault but its own: no checkpoint goes for it, and no other run meets its dead context."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from benchmark.errors import Interrupted, RunFailed
from benchmark.files import read_json
from benchmark.launch.device import PRETEND
from benchmark.launch.local import Event, launch
from benchmark.run import checkpoint
from benchmark.run.failure import is_device_error
from tests.safety.small import Small, bits, fork, wait


def stopped(small: Small, results: Path, method: str = "tsvdnet") -> Path:
    """A run that was stopped at update 6, with its checkpoint."""
    asked: list[int] = []

    def told() -> bool:
        asked.append(1)
        return len(asked) > 40

    with pytest.raises(Interrupted):
        small.execute(small.spec(method), results, should_stop=told)
    return small.directory(small.spec(method), results) / "checkpoint.pt"


def test_a_checkpoint_whose_restore_raises_a_cuda_error_is_still_there_and_is_used_later(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = small.execute(small.spec("tsvdnet"), tmp_path / "whole")
    file = stopped(small, tmp_path)
    before = file.read_bytes()
    monkeypatch.setenv("BENCHMARK_FAULT", "restore=cuda@1")
    with pytest.raises(RunFailed, match="CUDA error: an illegal memory access"):
        small.execute(small.spec("tsvdnet"), tmp_path)
    assert file.read_bytes() == before
    assert "CUDA error" in (read_json(file.with_name("failure.json")) or {})["reason"]
    record = small.execute(small.spec("tsvdnet"), tmp_path)
    assert bits(record) == bits(whole)
    assert record["warnings"] == [], "nothing began anew"


def test_a_cuda_error_that_torch_wraps_into_another_is_known(tmp_path: Path) -> None:
    """`load_state_dict` collects what goes wrong while a tensor is copied, as text."""

    def take(state: object) -> None:
        raise RuntimeError(
            "Error(s) in loading state_dict: an exception occurred : ('CUDA error: device-side assert',)"
        )

    path = tmp_path / "checkpoint.pt"
    checkpoint.write(path, {"update": 3})
    with pytest.raises(RuntimeError, match="device-side assert"):
        checkpoint.restore(path, take)
    wrapped = RunFailed("the run failed")
    wrapped.__cause__ = torch.AcceleratorError("out of luck")
    assert is_device_error(wrapped)
    assert not is_device_error(RuntimeError("size mismatch for layer.weight"))


def test_a_checkpoint_is_read_on_the_cpu_and_only_then_moved(small: Small, tmp_path: Path, monkeypatch) -> None:
    file = stopped(small, tmp_path)
    seen: list[object] = []
    load = torch.load
    monkeypatch.setattr(torch, "load", lambda *a, **k: seen.append(k["map_location"]) or load(*a, **k))
    small.execute(small.spec("tsvdnet"), tmp_path)
    assert seen == ["cpu"]
    assert not file.exists()
    there = checkpoint.moved({"sums": {"a": [torch.ones(2)]}, "n": 3}, torch.device("meta"))
    assert there["sums"]["a"][0].device.type == "meta"
    assert there["n"] == 3


def test_a_worker_whose_context_died_leaves_and_the_next_run_has_another_process(small: Small, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import os\n"
        "from methods.source_only import SourceOnly\n"
        "class Broken(SourceOnly):\n"
        "    def update(self, sources, target, progress):\n"
        f"        open({str(tmp_path / 'pids')!r}, 'a').write(f'{{self.task.seed}} {{os.getpid()}}\\n')\n"
        "        if self.task.seed == 1:\n"
        "            raise RuntimeError('CUDA error: an illegal memory access was encountered')\n"
        "        return super().update(sources, target, progress)\n"
    )
    specs = [small.bound(small.spec(f"{broken}:Broken", seed=s, standard="multi-source")) for s in range(4)]
    outcome = launch(specs, results=tmp_path / "runs", data_root=small.data, workers=1)
    assert sorted(outcome.done) == sorted(s.run_id for s in specs if s.seed != 1)
    assert list(outcome.failed) == [specs[1].run_id]
    assert "CUDA error" in outcome.failed[specs[1].run_id]
    pids = dict(line.split() for line in (tmp_path / "pids").read_text().splitlines())
    assert pids["0"] == pids["1"] != pids["2"] == pids["3"]
    assert not os.path.exists(f"/proc/{pids['1']}")


DYING = """
import os
from methods.source_only import SourceOnly
class Dying(SourceOnly):
    def update(self, sources, target, progress):
        if os.environ["CUDA_VISIBLE_DEVICES"] in {dead!r}:
            raise RuntimeError("CUDA error: unspecified launch failure")
        return super().update(sources, target, progress)
"""


def test_the_runs_of_a_gpu_that_dies_end_on_another(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PRETEND, "8000 dead")  # as it is when it is asked again
    (tmp_path / "dying.py").write_text(DYING.format(dead=["1"]))
    specs = [small.bound(small.spec(f"{tmp_path}/dying.py:Dying", seed=s, standard="multi-source")) for s in range(4)]
    told: list[Event] = []
    runs = tmp_path / "runs"
    outcome = launch(specs, results=runs, data_root=small.data, workers=3, device="cuda:0,1", watch=told.append)
    assert sorted(outcome.done) == sorted(spec.run_id for spec in specs)
    assert outcome.failed == {}
    assert [event.worker for event in told if event.kind == "again"] == [1], "the bad GPU got one run, once"


def test_when_no_gpu_is_left_the_runs_that_wait_end_with_the_reason(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PRETEND, "dead dead")
    (tmp_path / "dying.py").write_text(DYING.format(dead=["0", "1"]))
    specs = [small.bound(small.spec(f"{tmp_path}/dying.py:Dying", seed=s, standard="multi-source")) for s in range(5)]
    outcome = launch(specs, results=tmp_path / "runs", data_root=small.data, workers=2, device="cuda:0,1")
    assert not outcome.done
    assert outcome.failed.keys() == {spec.run_id for spec in specs}
    begun = [reason for reason in outcome.failed.values() if reason.startswith("RuntimeError: CUDA error")]
    assert len(begun) == 1
    assert sum("not begun: no GPU is left" in reason for reason in outcome.failed.values()) == 4


def test_a_device_that_answers_no_more_leaves_the_reason_on_disk(small: Small, tmp_path: Path) -> None:
    """After an illegal access every read fails, also that of the losses so far."""
    (tmp_path / "gone.py").write_text(
        "import torch\n"
        "from methods.source_only import SourceOnly\n"
        "class Gone(SourceOnly):\n"
        "    def update(self, sources, target, progress):\n"
        "        if progress > 0.2:\n"
        "            def gone(*_, **__): raise RuntimeError('CUDA error: unspecified launch failure, again')\n"
        "            torch.Tensor.tolist = gone\n"
        "            raise RuntimeError('CUDA error: an illegal memory access was encountered')\n"
        "        return super().update(sources, target, progress)\n"
    )
    spec = small.spec(f"{tmp_path}/gone.py:Gone", standard="multi-source")
    code = wait(fork(lambda: small.execute(spec, tmp_path / "runs"), {}))
    assert code != 0
    assert (
        "illegal memory access"
        in (read_json(small.directory(spec, tmp_path / "runs") / "failure.json") or {})["reason"]
    )


@pytest.mark.parametrize(
    "words",
    [
        "cuFFT error: CUFFT_EXEC_FAILED", "No CUDA GPUs are available", "CUDA unknown error - this may be due to …",
        "Triton Error [CUDA]: device kernel image is invalid", "Unexpected error from cudaGetDeviceCount()",
    ],
)  # fmt: skip
def test_the_ways_in_which_a_gpu_is_to_blame(words: str) -> None:
    assert is_device_error(RuntimeError(words))
