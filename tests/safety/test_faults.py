"""Each fault that a week of computing brings: the run goes on or ends as documented; no record lost, none invented."""

from __future__ import annotations

import json
import os
import resource
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmark import records
from benchmark.errors import RunFailed, UserError
from benchmark.launch.local import launch
from benchmark.records import Record
from benchmark.run import checkpoint
from benchmark.spec import RunSpec
from tests.safety.small import Small, bits, fork, wait

SHORT = {"run.updates": 4, "run.eval_points": 2}
STEPS = ("open", "write", "fsync", "replace")
WHILE_TRAINING = ("curve.jsonl", "checkpoint.pt", "heartbeat.json")
AT_THE_ENDS = ("spec.json", "artifacts.npz", "record.json")
NOT_DURABLE = ("fsync:heartbeat.json",)  # a heartbeat is never waited for


def short(small: Small, method: str = "mdda", **fields: Any) -> RunSpec:
    return small.spec(method, overrides=SHORT, **fields)


@pytest.fixture(scope="module")
def whole(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Record:
    """The short run that nobody disturbed."""
    return small.execute(short(small), tmp_path_factory.mktemp("whole"))


@pytest.fixture(autouse=True)
def _checkpoint_after_every_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHMARK_CHECKPOINT_SECONDS", "0")


def goes_on(
    small: Small, results: Path, whole: Record, monkeypatch: pytest.MonkeyPatch, method: str = "mdda"
) -> Record:
    """Without the fault, the same call ends with the same bits."""
    monkeypatch.delenv("BENCHMARK_FAULT", raising=False)
    record = small.execute(short(small, method), results)
    assert bits(record) == bits(whole)
    assert not (record.path / "failure.json").exists()
    assert not (record.path / "lease.json").exists()
    return record


# -- the disk -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("file", WHILE_TRAINING)
def test_a_write_that_fails_while_training_costs_nothing_and_is_told(
    small: Small, tmp_path: Path, whole: Record, monkeypatch: pytest.MonkeyPatch, file: str, step: str
) -> None:
    if f"{step}:{file}" in NOT_DURABLE:
        return
    monkeypatch.setenv("BENCHMARK_FAULT", f"{step}:{file}=enospc@1")
    record = small.execute(short(small), tmp_path)
    assert bits(record) == bits(whole)
    assert any("No space left on device" in w for w in record["warnings"])


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("file", AT_THE_ENDS)
def test_a_write_that_fails_at_the_ends_fails_the_run_which_goes_on_later(
    small: Small, tmp_path: Path, whole: Record, monkeypatch: pytest.MonkeyPatch, file: str, step: str
) -> None:
    monkeypatch.setenv("BENCHMARK_FAULT", f"{step}:{file}=enospc")
    with pytest.raises((RunFailed, OSError), match="No space left on device"):
        small.execute(short(small), tmp_path)
    after_rename = step == "fsync" and (small.directory(short(small), tmp_path) / "record.json").exists()
    assert after_rename or list(records.load(tmp_path).status) in ([], ["failed"], ["interrupted"])
    goes_on(small, tmp_path, whole, monkeypatch)


@pytest.mark.parametrize("fault", ["enospc", "erofs", "eio"])
def test_on_a_disk_that_takes_nothing_the_run_ends_with_the_reason_and_invents_nothing(
    small: Small, tmp_path: Path, whole: Record, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("BENCHMARK_FAULT", f"open:*={fault}")
    with pytest.raises((RunFailed, OSError)):
        small.execute(short(small), tmp_path)
    assert not list(tmp_path.rglob("record.json"))
    goes_on(small, tmp_path, whole, monkeypatch)


@pytest.mark.parametrize("point", [f"{s}:{f}" for f in (*WHILE_TRAINING, *AT_THE_ENDS) for s in STEPS] + ["lease"])
def test_killed_at_each_step_of_each_write_nothing_is_lost(
    small: Small, tmp_path: Path, whole: Record, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    if point in NOT_DURABLE:
        return
    assert wait(small.start(short(small), tmp_path, {"BENCHMARK_FAULT": f"{point}=kill"})) == -signal.SIGKILL
    statuses = set(records.load(tmp_path).status)
    assert statuses <= {"interrupted", "done"}
    assert ("done" in statuses) == bool(list(tmp_path.rglob("record.json")))
    goes_on(small, tmp_path, whole, monkeypatch)


def test_a_limit_of_the_system_on_file_sizes_is_met_like_a_full_disk(
    small: Small, tmp_path: Path, whole: Record
) -> None:
    """No injected fault: the kernel itself refuses the checkpoint, which is larger than any other file."""
    names = {p.name: p.stat().st_size for p in whole.path.iterdir()}

    def work() -> None:
        most = max(names.values()) + 4096
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        record = small.execute(short(small), tmp_path)
        assert any("checkpoint could not be written" in w for w in record["warnings"]), record["warnings"]

    assert wait(fork(work, {})) == 0
    assert bits(records.read(small.directory(short(small), tmp_path))) == bits(whole)


# -- torn and damaged files -------------------------------------------------------------------------------------------


def test_a_torn_checkpoint_means_beginning_anew_and_the_record_says_so(
    small: Small, tmp_path: Path, whole: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = {"BENCHMARK_FAULT": "write:checkpoint.pt=torn@2"}
    assert wait(small.start(short(small), tmp_path, torn)) == -signal.SIGKILL
    record = goes_on(small, tmp_path, whole, monkeypatch)
    assert any("checkpoint was damaged" in w and "began anew" in w for w in record["warnings"])


@pytest.mark.parametrize(
    "damage", ["a bit", "another run", "not a zip", "empty", "other keys", "a curve of another update"]
)
def test_a_checkpoint_that_cannot_be_trusted_is_not_used(
    small: Small, tmp_path: Path, whole: Record, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    assert wait(small.start(short(small), tmp_path, {"BENCHMARK_FAULT": "update=kill@4"})) == -signal.SIGKILL
    path = small.directory(short(small), tmp_path) / "checkpoint.pt"
    state = torch.load(path, weights_only=True)
    content = bytearray(path.read_bytes())
    if damage == "a bit":  # one bit of one weight: torch itself would load it
        name, weight = next((n, w) for n, w in state["method"]["modules"].items() if w.dim() == 2)
        content[content.find(weight.numpy().tobytes()) + 5] ^= 1
        assert not torch.equal(_loaded(bytes(content), tmp_path)["method"]["modules"][name], weight)
        path.write_bytes(content)
    elif damage in ("not a zip", "empty"):
        path.write_bytes(b"not a zip" if damage == "not a zip" else b"")
    else:
        changes = {
            "another run": {"run_id": "0" * 16},
            "other keys": {"method": {"modules": {}}},
            "a curve of another update": {"curve": "[]"},
        }
        checkpoint.write(path, {**state, **changes[damage]})
    record = goes_on(small, tmp_path, whole, monkeypatch)
    assert any("checkpoint was damaged" in w for w in record["warnings"])


def _loaded(content: bytes, folder: Path) -> Any:
    (folder / "changed.pt").write_bytes(content)
    return torch.load(folder / "changed.pt", weights_only=True)


@pytest.mark.parametrize("file", ["curve.jsonl", "artifacts.npz", "spec.json", "heartbeat.json"])
def test_any_other_torn_file_is_written_anew(
    small: Small, tmp_path: Path, whole: Record, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    assert wait(small.start(short(small), tmp_path, {"BENCHMARK_FAULT": f"write:{file}=torn"})) == -signal.SIGKILL
    goes_on(small, tmp_path, whole, monkeypatch)


def test_a_torn_record_is_never_taken_for_one_and_never_overwritten(
    small: Small, tmp_path: Path, whole: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wait(small.start(short(small), tmp_path, {"BENCHMARK_FAULT": "write:record.json=torn"})) == -signal.SIGKILL
    assert list(records.load(tmp_path).status) == ["damaged"]
    torn = (small.directory(short(small), tmp_path) / "record.json").read_bytes()
    with pytest.raises(UserError, match="python -m benchmark audit"):
        small.execute(short(small), tmp_path)
    assert (small.directory(short(small), tmp_path) / "record.json").read_bytes() == torn


def test_temporary_files_of_the_dead_disturb_nobody(
    small: Small, tmp_path: Path, whole: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = small.directory(short(small), tmp_path)
    directory.mkdir(parents=True)
    (directory / ".record.json.x1y2.tmp").write_text('{"format": 1')
    (directory / ".checkpoint.pt.x1y2.tmp").write_bytes(b"half")
    assert len(records.load(tmp_path)) == 0
    goes_on(small, tmp_path, whole, monkeypatch)


# -- interrupts, stages, memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["evaluate@1", "evaluate@2", "update@3"])
def test_an_interrupt_leaves_a_run_that_goes_on(
    small: Small, tmp_path: Path, whole: Record, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    place, _, nth = point.partition("@")
    monkeypatch.setenv("BENCHMARK_FAULT", f"{place}=interrupt@{nth}")
    with pytest.raises(KeyboardInterrupt):
        small.execute(short(small), tmp_path)
    assert list(records.load(tmp_path).status) == ["interrupted"]
    goes_on(small, tmp_path, whole, monkeypatch)


@pytest.mark.parametrize("method", ["mdda", "dctn", "adda"])
def test_killed_at_each_stage_boundary_the_run_goes_on_to_the_same_bits(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    whole = small.execute(short(small, method), tmp_path / "whole")
    stages = 0
    while True:
        stages += 1
        results = tmp_path / str(stages)
        status = wait(small.start(short(small, method), results, {"BENCHMARK_FAULT": f"stage:*=kill@{stages}"}))
        if status == 0:
            break
        goes_on(small, results, whole, monkeypatch, method)
    assert stages >= 2


def test_a_run_that_is_out_of_memory_fails_with_that_reason(
    small: Small, tmp_path: Path, whole: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHMARK_FAULT", "update=memory@2")
    with pytest.raises(RunFailed, match="out of memory"):
        small.execute(short(small), tmp_path)
    failure = json.loads((small.directory(short(small), tmp_path) / "failure.json").read_text())
    assert (failure["update"], failure["last_good_checkpoint"], failure["method"]) == (1, 1, "mdda")
    goes_on(small, tmp_path, whole, monkeypatch)


def test_a_worker_killed_for_its_memory_costs_its_own_run_alone(small: Small, tmp_path: Path) -> None:
    greedy = tmp_path / "greedy.py"
    greedy.write_text(
        "import os, signal\n"
        "from methods.source_only import SourceOnly\n"
        "class Greedy(SourceOnly):\n"
        "    def update(self, sources, target, progress):\n"
        "        if self.task.seed == 1:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does it\n"
        "        return super().update(sources, target, progress)\n"
    )
    method = f"{greedy}:Greedy"
    specs = [small.bound(small.spec(method, seed=s, overrides=SHORT, standard="multi-source")) for s in range(4)]
    outcome = launch(specs, results=tmp_path / "runs", data_root=small.data, workers=1)
    assert sorted(outcome.done) == sorted(s.run_id for s in specs if s.seed != 1)
    assert list(outcome.failed) == [specs[1].run_id]
    assert "SIGKILL (out of memory, or killed by hand)" in outcome.failed[specs[1].run_id]
    frame = records.load(tmp_path / "runs").set_index("seed")
    assert dict(frame.status) == {0: "done", 1: "failed", 2: "done", 3: "done"}


def test_a_worker_killed_between_record_and_answer_is_not_a_failure(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHMARK_FAULT", "answer=kill@1")
    specs = [small.bound(short(small, "source-only", seed=s)) for s in range(2)]
    outcome = launch(specs, results=tmp_path, data_root=small.data, workers=1)
    assert sorted(outcome.done) == sorted(s.run_id for s in specs)
    assert not outcome.failed


# -- numbers --------------------------------------------------------------------------------------------------------

NUMBERS = """
import torch
from methods.source_only import SourceOnly

class Base(SourceOnly):
    def __init__(self, task, hparams):
        super().__init__(task, hparams)
        self.count = 0
        self.register_buffer("A", torch.zeros(3))
    def update(self, sources, target, progress):
        self.count = round(progress * 12)
        return self.spoil(super().update(sources, target, progress))

class Loss(Base):  # log of a negative number, as a loss can have it
    def spoil(self, terms):
        return terms | ({"entropy": torch.tensor(-1.0).log()} if self.count == 6 else {"entropy": torch.tensor(0.0)})

class Auxiliary(Base):  # an A that overflows
    def spoil(self, terms):
        if self.count == 6:
            self.A = self.A + torch.tensor(3e38) * 10
        return terms

class Gradient(Base):  # sqrt has a finite value and an infinite slope at 0
    def spoil(self, terms):
        if self.count == 6:
            loss = (next(self.classifier.parameters()) * 0).sum().sqrt()
            assert torch.isfinite(loss)
            self.descend(loss)
        return terms

class Loud(Base):
    def spoil(self, terms):
        import warnings
        warnings.warn("An SVD did not converge; repeated with a jitter.")
        return terms
"""


@pytest.mark.parametrize(
    "kind, term", [("Loss", "loss entropy"), ("Auxiliary", "state A"), ("Gradient", "gradient of classifier")]
)
def test_what_is_not_finite_fails_the_run_with_update_and_term_and_never_reaches_a_checkpoint(
    small: Small, tmp_path: Path, kind: str, term: str
) -> None:
    (tmp_path / "numbers.py").write_text(NUMBERS)
    spec = small.spec(f"{tmp_path / 'numbers.py'}:{kind}", standard="multi-source")
    for attempt in (1, 2):  # and again from the last good checkpoint
        with pytest.raises(RunFailed, match=f"{term}.* was not finite at update 6"):
            small.execute(spec, tmp_path / "runs")
        directory = small.directory(spec, tmp_path / "runs")
        failure = json.loads((directory / "failure.json").read_text())
        assert failure["update"] == 6
        assert failure["method"] == kind
        assert failure["term"].startswith(term)
        assert failure["last_good_checkpoint"] == 6
        assert failure["attempts"] == attempt
        assert "NotFinite" in failure["traceback"]
        state = torch.load(directory / "checkpoint.pt", weights_only=True)
        assert state["update"] == 6
        assert all(bool(t.isfinite().all()) for t in state["method"]["modules"].values())
    assert records.load(tmp_path / "runs").status.tolist() == ["failed"]


def test_a_nan_in_the_auxiliary_tensor_of_tsvdnet_is_named(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tsvdnet import Auxiliary

    real = Auxiliary.step

    def spoiled(self: Auxiliary, g: torch.Tensor) -> None:
        real(self, g)
        if self.steps == 4:
            self.A = self.A / 0

    monkeypatch.setattr(Auxiliary, "step", spoiled)
    with pytest.raises(RunFailed, match=r"state low_rank\.A was not finite at update 3"):
        small.execute(small.spec("tsvdnet"), tmp_path)


def test_a_method_that_warns_is_heard_once_in_the_record(small: Small, tmp_path: Path) -> None:
    (tmp_path / "numbers.py").write_text(NUMBERS)
    record = small.execute(small.spec(f"{tmp_path / 'numbers.py'}:Loud", standard="multi-source"), tmp_path / "runs")
    assert record["warnings"] == ["UserWarning: An SVD did not converge; repeated with a jitter."]


def test_an_svd_that_does_not_converge_is_repeated_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from tsvdnet import tensor

    g = torch.randn(4, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = tensor.shrink(g, 0.1)
    refused = []
    for module in (torch.linalg, np.linalg):
        real = module.svd

        def once(a: Any, *args: Any, real: Any = real, **kwargs: Any) -> Any:
            if not refused:
                refused.append(True)
                raise torch.linalg.LinAlgError("did not converge")
            return real(a, *args, **kwargs)

        monkeypatch.setattr(module, "svd", once)
    with pytest.warns(UserWarning, match="did not converge"):
        found = tensor.shrink(g, 0.1)
    assert refused
    assert torch.allclose(found, expected, atol=1e-9)


def test_a_method_that_cannot_be_built_is_a_failure_with_a_reason_on_disk(small: Small, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(
        "from methods.source_only import SourceOnly\n"
        "class Broken(SourceOnly):\n"
        "    def __init__(self, task, hparams):\n"
        "        raise RuntimeError('no such layer')\n"
    )
    with pytest.raises(RunFailed, match="no such layer"):
        small.execute(small.spec(f"{broken}:Broken", standard="multi-source"), tmp_path / "runs")
    frame = records.load(tmp_path / "runs")
    assert frame.status.tolist() == ["failed"]
    assert frame.reason.tolist() == ["RuntimeError: no such layer"]
    assert os.listdir(frame.path[0]) != []
