"""Methods for the tests: real ones that can be slowed down, traced, and made to fail, without changing a number."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmark.run.task import Task
from methods.contract import FullPass, HParams, LabeledBatch, Method, UnlabeledBatch, Views
from methods.dann import DANN
from methods.mdda import MDDA


def pace(update: float) -> None:
    """Wait, and write down who is at which point of the run: one line an update in BENCHMARK_TEST_TRACE.

    A first start goes at BENCHMARK_TEST_PACE seconds an update, so that there is time to interrupt it; a task that was
    started again goes as fast as it can.
    """
    restart = os.environ.get("SLURM_RESTART_COUNT") or "0"
    if restart == "0":
        time.sleep(float(os.environ.get("BENCHMARK_TEST_PACE", "0")))
    trace = os.environ.get("BENCHMARK_TEST_TRACE")
    if trace:
        line = f"{os.environ.get('SLURM_JOB_ID', '')} {restart} {update:.4f} {time.time():.2f}\n"
        with Path(trace).open("a") as file:
            file.write(line)


class Paced(DANN):
    """DANN, at the pace that the test wants: an adversary, two optimisers, random numbers."""

    name = "paced"
    title = "Paced DANN"

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        pace(progress)
        return super().update(sources, target, progress)


class Raises(Paced):
    """Raises in the middle, unless the world has been mended."""

    name = "raises"

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        if progress > 0.5 and not Path(os.environ["BENCHMARK_TEST_MENDED"]).exists():
            raise ValueError("the test wants this")
        return super().update(sources, target, progress)


class LosesItsGpu(Paced):
    """Says what torch says when a GPU dies under it."""

    name = "loses-its-gpu"

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        raise RuntimeError("CUDA error: unspecified launch failure")


class Hungry(Paced):
    """Takes 75 MB more at each update and keeps it, unless the world has been mended.

    A step is smaller than what lies between our limit and SLURM's (a twentieth of 3 GB): who ends it is no matter of luck.
    """

    name = "hungry"

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        if not Path(os.environ["BENCHMARK_TEST_MENDED"]).exists():
            self.eaten = [*getattr(self, "eaten", []), bytearray(os.urandom(1024) * 75 * 1024)]
        return super().update(sources, target, progress)


class HungryHelper(Paced):
    """Starts a program that takes 4 GB: the run itself stays small, and SLURM ends the whole task."""

    name = "hungry-helper"

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        if progress > 0.1 and not hasattr(self, "helper"):
            program = "import time; eaten = bytearray(b'x') * (4 * 2**30); time.sleep(60)"
            self.helper = subprocess.Popen([sys.executable, "-c", program])
        return super().update(sources, target, progress)


class SlowPasses(MDDA):
    """MDDA whose every batch of a full pass and of an evaluation takes its time; in the trace it says where it is.

    A start that SLURM made again is as quick as it can be.
    """

    name = "slow-passes"

    def begin(self, stage: str, views: Views) -> None:
        if stage == "distil":
            views = Views([Slow(source) for source in views.sources], Slow(views.target))
        super().begin(stage, views)

    def probabilities(self, images: Tensor) -> Tensor:
        pace_pass("evaluation")
        return super().probabilities(images)


class Slow(FullPass):
    """A pass at the pace that the test wants."""

    def __init__(self, inner: FullPass) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.inner:
            pace_pass("begin")
            yield batch


def pace_pass(where: str) -> None:
    """Wait in the middle of a pass over the data, if it is the one that the test waits in, and say so in the trace."""
    if where == os.environ.get("BENCHMARK_TEST_PASS") and (os.environ.get("SLURM_RESTART_COUNT") or "0") == "0":
        with Path(os.environ["BENCHMARK_TEST_TRACE"]).open("a") as file:
            file.write(f"{where} {time.time():.2f}\n")
        time.sleep(float(os.environ.get("BENCHMARK_TEST_PACE", "0")))


class Trivial(Method):
    """One linear layer on the mean colour: the least that is a method."""

    name = "trivial"
    title = "Trivial"

    def __init__(self, task: Task, hparams: HParams) -> None:
        super().__init__(task, hparams)
        self.layer = task.build("layer", lambda: nn.Linear(3, task.num_classes))
        self.optimisers["main"] = task.optimiser(self.layer, "classifier")

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        loss = nn.functional.cross_entropy(self.layer(sources[0].images.mean((2, 3))), sources[0].labels)
        self.descend(loss)
        return {"source": loss.detach()}

    def probabilities(self, images: Tensor) -> Tensor:
        return torch.softmax(self.layer(images.mean((2, 3))), 1)
