"""Peak memory of our step beside the reference loop's: at most 10 % more, on the digit set-up and PACS with ResNet-18."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.perf.pairs import PAIRS, holds

pytestmark = pytest.mark.perf

CHILD = """
import sys, torch
from benchmark.run.task import Task, NetworkSpec, OptimiserSpec
from benchmark.run.usage import Usage, peak_memory_mb
from benchmark.run.speed import keep_freed_memory
from methods.contract import LabeledBatch, UnlabeledBatch, build_hparams
from tests.perf.reference import ReferenceTSVDNet
from tsvdnet.method import TSVDNet
who, network, size, batch, sources, classes = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:7])
torch.set_num_threads(2)
task = Task(num_classes=classes, num_sources=sources, network=NetworkSpec(network), optimiser=OptimiserSpec(), budget=9, seed=0)
images = [torch.randn(batch, 3, size, size) for _ in range(sources + 1)]
labels = [torch.arange(batch) % classes for _ in range(sources)]
if who == "ours":
    keep_freed_memory(network)
    made = TSVDNet(task, build_hparams(TSVDNet, TSVDNet.presets["code"]))
    step = lambda: made.update([LabeledBatch(x, y) for x, y in zip(images, labels)], UnlabeledBatch(images[-1]), 0.5)
else:
    made = ReferenceTSVDNet(task.extractor(), task.classifier(), classes=classes, sources=sources)
    task._extractors.clear()
    step = lambda: made.step(images[:-1], labels, images[-1])
Usage(torch.device("cpu"))
for _ in range(2):  # the second has the optimiser's state beside the activations: the peak
    step()
print(peak_memory_mb())
"""


def peaks(*words: object) -> list[float]:
    """MB of (reference, ours), each in a process of its own, at the same time."""
    commands = [[sys.executable, "-c", CHILD, who, *map(str, words)] for who in ("reference", "ours")]
    root = Path(__file__).parents[2]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) for command in commands]
    said = [process.communicate()[0] for process in started]
    assert all(process.returncode == 0 for process in started)
    return [float(text.split()[-1]) for text in said]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("digits, paper tier, 5 × 128 images", ("conv3fc2", 32, 128, 4, 10)),
        ("PACS, ResNet-18, 4 × 16 images", ("resnet18", 224, 16, 3, 7)),
    ],
)
def test_peak_memory_is_not_above_the_references_by_more_than_a_tenth(name: str, words: tuple) -> None:
    pairs = [peaks(*words) for _ in range(PAIRS)]
    over = statistics.median(ours / theirs for theirs, ours in pairs)
    theirs, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    holds(f"peak memory / reference: {name}", over, at_most=1.10, ours_mb=ours, reference_mb=theirs)
