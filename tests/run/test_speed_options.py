"""The recorded speed options act, are other runs, and say so when the machine cannot; no step waits for the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmark import data
from benchmark.__main__ import main
from benchmark.data.base import send
from benchmark.errors import UserError
from benchmark.records.lease import Lease
from benchmark.run import checkpoint, execute
from benchmark.run.loop import Run
from benchmark.run.meter import _one_number_each
from benchmark.run.speed import arithmetic, needs_precision
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task
from benchmark.spec import load_suite, resolve, settings_json
from methods.contract import BUILT_IN, FullPass, LabeledBatch, UnlabeledBatch, Views
from tests import needs
from tests.methods.small import network
from tests.tiny import ARGUMENTS, tiny


def test_precision_and_compile_make_another_run_and_the_default_is_the_run_of_before() -> None:
    changes = ({}, {"run.precision": "bf16"}, {"run.precision": "tf32"}, {"run.compile": True})
    ids = {tiny(overrides=o, data="0" * 64).run_id for o in changes}
    assert len(ids) == 4
    settings = settings_json(resolve(tiny()).settings)
    assert settings["amp"] is False
    assert "precision" not in settings  # what the identity of every published run was made of


def test_bf16_is_in_the_extractors_passes_and_nowhere_else(tmp_path: Path) -> None:
    """Convolutions in bfloat16; features, heads, losses and gradients in float32; no backward pass inside autocast."""
    seen: dict[str, set[Any]] = {"conv": set(), "head": set(), "backward": set()}
    backward = torch.Tensor.backward

    def look(module: torch.nn.Module, inputs: Any, out: Any) -> None:
        if isinstance(module, torch.nn.Conv2d):
            seen["conv"].add(out.dtype)
        if isinstance(module, torch.nn.Linear) and module.out_features == 10:
            seen["head"].add((inputs[0].dtype, out.dtype))

    def outside(self: Tensor, *args: Any, **kwargs: Any) -> None:
        seen["backward"].add((torch.is_autocast_enabled("cpu"), self.dtype))
        backward(self, *args, **kwargs)

    handle = torch.nn.modules.module.register_module_forward_hook(look)
    torch.Tensor.backward = outside  # type: ignore[method-assign]
    try:
        record = execute(tiny(overrides={"run.precision": "bf16", "run.updates": 4}), results=tmp_path)
    finally:
        handle.remove()
        torch.Tensor.backward = backward  # type: ignore[method-assign]
    assert seen["conv"] == {torch.bfloat16}
    assert seen["head"] == {(torch.float32, torch.float32)}
    assert seen["backward"] == {(False, torch.float32)}
    assert record["resolved"]["settings"]["precision"] == record["provenance"]["precision"] == "bf16"


@pytest.mark.parametrize("name", [name for name, _, _ in BUILT_IN])
def test_every_method_trains_in_bf16_with_its_kernels_and_losses_in_single_precision(name: str) -> None:
    method = resolve(tiny(name)).method
    task = Task(
        num_classes=3, num_sources=2 if method.standards[0] == "multi-source" else 1, network=NetworkSpec(),
        optimiser=OptimiserSpec(), budget=9, seed=0, precision="bf16", extractor_factory=network,
    )  # fmt: skip
    trained = method(task, method.HParams())
    trained.train()
    draw = torch.Generator().manual_seed(0)
    sources = [LabeledBatch(torch.randn(6, 5, generator=draw), torch.arange(6) % 3) for _ in range(task.num_sources)]
    target = UnlabeledBatch(torch.randn(6, 5, generator=draw))
    for stage, _ in trained.stages()[:3]:
        trained.enter(stage, Views([OneBatch(s) for s in sources], OneBatch(target)))
        terms = trained.update(sources, target, 0.5)
        terms.pop("pseudo_labels", None)
        assert all(term.dtype in (torch.float32, torch.float64) and term.isfinite() for term in terms.values())
    assert all(p.dtype is torch.float32 for p in trained.parameters())
    assert all(p.grad is None or p.grad.dtype is torch.float32 for p in trained.parameters())


class OneBatch(FullPass):
    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __iter__(self) -> Any:
        yield self.batch

    def __len__(self) -> int:
        return len(self.batch.images)


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_a_run_sets_tf32_on_or_off_for_matrix_products_and_convolutions_alike(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    with arithmetic(precision, "cuda"):
        wanted = precision == "tf32"
        assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == (wanted, wanted)
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == before


def test_a_precision_that_the_device_has_not_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "--suite", "digits", "--methods", "source-only", "--targets", "mm", "--results", str(tmp_path)]
    assert main([*words, *ARGUMENTS, "--device", "cpu", "--set", "run.precision=tf32"]) == 2
    assert "run.precision=tf32 is arithmetic of NVIDIA's GPUs since Ampere" in capsys.readouterr().err
    assert not list(tmp_path.rglob("record.json"))
    with pytest.raises(UserError, match="since Ampere"):
        execute(tiny(overrides={"run.precision": "tf32"}), results=tmp_path)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla V100-SXM2-16GB")
    for precision in ("tf32", "bf16"):
        with pytest.raises(UserError, match=rf"run.precision={precision} needs a GPU .* V100-SXM2-16GB has less"):
            needs_precision(precision, "cuda")


@needs.compiler
@pytest.mark.parametrize("interleaved", [False, True], ids=["as a CPU", "as a GPU"])
def test_a_compiled_pass_gives_the_same_features_gradients_and_statistics(interleaved: bool) -> None:
    """One fused pass with statistics per domain, dropout on: equal to rounding, and really compiled."""
    from torch._dynamo.utils import counters

    found = {}
    images = [(d + 1) * torch.randn(6, 5, generator=torch.Generator().manual_seed(d)) for d in range(2)]
    counters.clear()
    for compile in (False, True):
        task = Task(
            num_classes=3, num_sources=1, network=NetworkSpec(), optimiser=OptimiserSpec(), budget=9, seed=0,
            compile=compile, extractor_factory=network,
        )  # fmt: skip
        task.interleaved = interleaved
        extractor = task.extractor()
        torch.manual_seed(5)
        features = torch.cat(task.forward_domains(images))
        features.square().mean().backward()
        gradients = [p.grad for p in extractor.parameters()]
        statistics = [b for b in extractor.buffers() if b.is_floating_point()]
        found[compile] = [features.detach(), *gradients, *statistics]
        assert task.images_forwarded == 12
        assert counters["stats"]["unique_graphs"] == compile
    for plain, compiled in zip(found[False], found[True], strict=True):
        torch.testing.assert_close(compiled, plain, rtol=1e-3, atol=1e-5)
    extractor.eval()
    extractor(images[0])
    assert counters["stats"]["unique_graphs"] == 1  # evaluation is not compiled


def test_a_machine_without_a_compiler_says_so_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    words = ["run", "--suite", "digits", "--methods", "source-only", "--targets", "mm", "--results", str(tmp_path)]
    assert main([*words, *ARGUMENTS, "--set", "run.compile=true"]) == 2
    said = capsys.readouterr().err
    assert "no-such-compiler" in said
    assert "apt-get install g++" in said
    assert not list(tmp_path.rglob("record.json"))


# -- the device -------------------------------------------------------------------------------------------------------


class Waits(TorchDispatchMode):
    """Notes every operation whose result the host must wait for on a GPU: reading a value, a size that depends on values."""

    WORDS = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "_unique2", "unique_dim")

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        indices = args[1] if name in ("index", "index_put", "index_put_") else ()
        if name in self.WORDS or any(isinstance(i, Tensor) and i.dtype == torch.bool for i in indices):
            self.found.add(name)
        return func(*args, **(kwargs or {}))


def test_the_watch_sees_what_would_wait() -> None:
    with Waits() as waits:
        torch.ones(2).sum().item()
        torch.ones(2)[torch.ones(2, dtype=torch.bool)]
    assert {"_local_scalar_dense", "index"} <= waits.found


@pytest.mark.parametrize("method", [name for name, _, _ in BUILT_IN])
def test_no_step_of_any_stage_waits_for_the_device(method: str, tmp_path: Path) -> None:
    """The real loop's steps, the meter's sums included. (The SVD of T-SVDNet's A is numpy's on the CPU: not seen here.)"""
    dataset = data.load(load_suite("digits"), "mini", "part")
    run = Run(resolve(tiny(method)), dataset, tmp_path, Lease(tmp_path), device="cpu", data_root=None)
    run.method.train()
    waits = Waits()
    for stage in run.stages:
        passes = [s.full_pass(run.handed_out) for s in run.sources]
        run.method.enter(stage.name, Views(passes, run.target.full_pass(run.handed_out)))
        run.step(0.0)  # the first of a stage may check what the last one left
        run.update += 1
        with waits:
            run.step(0.5)
        run.update += 1
    assert waits.found == set()


def test_sending_to_where_a_tensor_is_copies_nothing() -> None:
    x = torch.arange(3)
    assert send(x, "cpu").data_ptr() == x.data_ptr()


@needs.gpu
def test_sending_to_a_gpu_gives_the_same_values() -> None:
    x = torch.arange(1000)
    assert torch.equal(send(x, "cuda").cpu(), x)


# -- what costs launches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_the_watch_finds_what_is_not_finite_one_by_one_and_together(together: bool, bad: float) -> None:
    tensors = [torch.randn(3, 4), torch.full((5,), 1e30), torch.randn(7).bfloat16(), torch.zeros(())]
    assert torch.stack(_one_number_each(tensors, together)).isfinite().all()
    for i, x in enumerate(tensors):
        spoilt = [y.clone() for y in tensors]
        spoilt[i].view(-1)[-1] = bad
        assert torch.stack(_one_number_each(spoilt, together)).isfinite().logical_not().nonzero().tolist() == [[i]], (
            x.dtype
        )


def test_checkpoints_take_at_most_a_fiftieth_of_the_time_and_are_a_minute_to_an_hour_apart() -> None:
    assert checkpoint.interval(0.1) == 60
    assert checkpoint.interval(20.0) == 1000
    assert checkpoint.interval(600.0) == 3600
    assert checkpoint.interval(20.0, 0.5) == 0.5  # who asks for a time gets it


def test_after_a_checkpoint_that_took_ten_seconds_the_next_waits_for_five_hundred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Updates of 30 s: the first checkpoint after a minute, the second when the first was a fiftieth of the time since."""
    now = [0.0]
    monkeypatch.setattr("benchmark.run.loop.time.monotonic", lambda: now[0])
    dataset = data.load(load_suite("digits"), "mini", "part")
    run = Run(resolve(tiny()), dataset, tmp_path, Lease(tmp_path), device="cpu", data_root=None)
    monkeypatch.setattr(run.lease, "check", lambda: None)
    monkeypatch.setattr(run.lease, "refresh", lambda: None)
    run.watch = lambda beat: None
    written: list[float] = []

    def write(path: Path, state: Any) -> None:
        now[0] += 10.0
        written.append(now[0])

    monkeypatch.setattr(checkpoint, "write", write)
    for _ in range(19):
        now[0] += 30.0
        run.update += 1
        run.beat()
    assert written == [70.0, 590.0]
