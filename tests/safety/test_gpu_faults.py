"""A GPU that fails is nobody's fault but its own: no checkpoint goes for it, and no other run meets its dead context."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from benchmark.errors import Interrupted, RunFailed
from benchmark.files import read_json
from benchmark.launch.local import launch
from benchmark.run import checkpoint
from benchmark.run.failure import is_device_error
from tests.safety.small import Small, bits


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
