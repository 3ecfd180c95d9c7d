"""The recorded speed options act, are other runs, and say so when the machine cannot; no step waits for the device."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmark import data
from benchmark.__main__ import main
from benchmark.data.base import send
from benchmark.launch.local import SHARED, default_workers
from benchmark.records.lease import Lease
from benchmark.run import execute
from benchmark.run.loop import Run
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task
from benchmark.spec import load_suite, resolve
from methods.contract import BUILT_IN, Views
from tests.methods.small import network
from tests.tiny import ARGUMENTS, tiny


def test_amp_and_compile_make_another_run() -> None:
    ids = {tiny(overrides=o, data="0" * 64).run_id for o in ({}, {"run.amp": True}, {"run.compile": True})}
    assert len(ids) == 3


def test_amp_puts_the_matrix_products_of_training_into_bfloat16(tmp_path: Path) -> None:
    seen: dict[bool, set[torch.dtype]] = {}
    for amp in (False, True):
        seen[amp] = set()
        handle = torch.nn.modules.module.register_module_forward_hook(
            lambda module, _, out, amp=amp: (
                seen[amp].add(out.dtype) if isinstance(module, torch.nn.Conv2d) and module.training else None
            )
        )
        record = execute(tiny(overrides={"run.amp": amp, "run.updates": 4}), results=tmp_path)
        handle.remove()
        assert record["resolved"]["settings"]["amp"] is amp
    assert seen == {False: {torch.float32}, True: {torch.bfloat16}}


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_a_compiled_pass_gives_the_same_features_gradients_and_statistics() -> None:
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


def test_small_runs_share_a_gpu_and_large_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmark.launch.local.cores", lambda: 16)
    digits, pacs = load_suite("digits").tier("paper"), load_suite("pacs").tier("paper")
    assert default_workers(digits, 1, "cpu") == 16
    assert default_workers(digits, 4, "cpu") == 4
    assert default_workers(digits, 32, "cpu") == 1
    assert default_workers(digits, 1, "cuda") == SHARED
    assert default_workers(digits, 8, "cuda:1") == 2
    assert default_workers(pacs, 1, "cuda") == 1


def test_sending_to_where_a_tensor_is_copies_nothing() -> None:
    x = torch.arange(3)
    assert send(x, "cpu").data_ptr() == x.data_ptr()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_sending_to_a_gpu_gives_the_same_values() -> None:
    x = torch.arange(1000)
    assert torch.equal(send(x, "cuda").cpu(), x)
