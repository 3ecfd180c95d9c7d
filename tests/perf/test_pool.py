"""Two workers of one thread beside one worker of two threads, on the mini suite: wanted, 1.6 times the runs per hour."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmark import data
from benchmark.records.lease import Lease
from benchmark.run.loop import Run
from benchmark.run.speed import keep_freed_memory
from benchmark.spec import RunSpec, load_suite, resolve
from tests.perf.pairs import ask, holds, process, ratio

pytestmark = pytest.mark.perf
STEPS = 40


def mini_run(threads: int) -> Callable[[int], None]:
    """A mini run that makes as many steps as it is told."""
    keep_freed_memory("conv3fc2")
    torch.set_num_threads(threads)
    spec = RunSpec("digits", "mini", "tsvdnet", target="mm", threads=threads)
    folder = Path(tempfile.mkdtemp())
    dataset = data.load(load_suite("digits"), "mini", "part")
    run = Run(resolve(spec), dataset, folder, Lease(folder), device="cpu", data_root=None)
    run.method.train()

    def steps(n: int) -> None:
        for _ in range(n):
            run.step(0.5)
            run.update += 1

    return steps


def test_two_workers_of_one_thread_beat_one_of_two() -> None:
    with process(mini_run, 1) as first, process(mini_run, 1) as second, process(mini_run, 2) as wide:
        # the same number of runs' worth of steps on both sides
        speed, one, two = ratio(lambda: ask(wide, amount=2 * STEPS), lambda: ask(first, second, amount=STEPS), pairs=11)
    holds("runs an hour: two workers of one thread / one of two", speed, at_least=1.6, one_ms=one, two_ms=two)
