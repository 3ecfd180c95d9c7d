"""Counted, not timed: launches, FLOPs, memory of an update, on real tensors and on tensors without memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmark.run.count import Counter, of_updates
from benchmark.run.task import make_task
from benchmark.spec import resolve
from methods.contract import LabeledBatch, UnlabeledBatch
from tests.methods.small import batches, build
from tests.tiny import tiny


def test_a_view_costs_nothing_and_every_operator_that_writes_is_a_launch() -> None:
    x = torch.ones(4, 6)
    with Counter("cpu") as seen:
        y = x.view(6, 4).t()[:2].detach()
        torch.empty(3)
        assert seen.tally.launches == 0
        (y + 1).mul_(2)
    assert seen.tally.operators == {"add.Tensor": 1, "mul_.Tensor": 1}
    assert seen.tally.launches == 2


def test_a_multi_tensor_operator_counts_as_the_launches_that_its_lists_need() -> None:
    many = [torch.ones(2) for _ in range(200)]
    with Counter("cpu") as seen:
        torch._foreach_add_(many, 1.0)  # one list: 110 tensors a launch
        torch._foreach_mul_(many, many)  # two: 64
    assert seen.tally.operators == {"_foreach_add_.Scalar": 2, "_foreach_mul_.List": 4}


def test_flops_are_those_of_torchs_own_counter() -> None:
    with FlopCounterMode(display=False) as theirs:
        build("dann").update(*batches(), 0.5)
    with Counter("cpu") as ours:
        build("dann").update(*batches(), 0.5)
    assert ours.tally.flops == theirs.get_total_flops() > 0


def test_peak_memory_is_what_lived_at_once() -> None:
    with Counter("cpu") as seen:
        for _ in range(5):
            torch.ones(1000).add(1)  # two of 4,000 bytes live together, never more
        assert seen.tally.peak_bytes == 8000
        kept = torch.ones(1000)
        assert seen.restart().peak_bytes == 8000
        assert seen.tally.peak_bytes == kept.nbytes  # the next count begins at what is in use


def test_tensors_without_memory_count_as_real_ones_do() -> None:
    resolved = resolve(tiny("m3sda"))
    (counted,) = of_updates(resolved)
    method = resolved.method(make_task(resolved, 10, "cpu"), resolved.hparams)
    images, labels = torch.zeros(8, 3, 32, 32), torch.zeros(8, dtype=torch.long)
    sources, target = [LabeledBatch(images, labels)] * 4, UnlabeledBatch(images)
    method.train()
    method.update(sources, target, 0.0)
    with Counter("cpu") as real:
        method.update(sources, target, 0.999)
    assert (counted.update.flops, counted.update.operators) == (real.tally.flops, real.tally.operators)


def test_every_stage_is_counted_with_its_share() -> None:
    counted = of_updates(resolve(tiny("mdda")))
    assert {c.stage: c.share for c in counted} == {"pretrain": 0.4, "adapt": 0.5, "distil": pytest.approx(0.1)}
    flops = [c.update.flops for c in counted]
    assert flops[1] > flops[0] > flops[2] > 0  # critics and two encoders; encoders alone; classifiers alone
    assert all(c.predict_flops > 0 for c in counted)


def test_stages_that_are_numbered_are_counted_once_a_kind() -> None:
    counted = {c.stage: c for c in of_updates(resolve(tiny("dctn")))}
    assert counted["confuse-1"].update is counted["confuse-8"].update
    assert counted["confuse-1"].update.flops > counted["discriminate-1"].update.flops > 0


def test_counting_leaves_modules_and_arrays_as_they_were() -> None:
    before = nn.Module._apply, torch.Tensor.numpy
    of_updates(resolve(tiny("tsvdnet:active")))  # its A-step goes through numpy on a CPU
    assert (nn.Module._apply, torch.Tensor.numpy) == before
    assert nn.Linear(2, 2).double().weight.detach().numpy().dtype == "float64"
