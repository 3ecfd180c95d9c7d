"""A task so small that it can be killed hundreds of times: three domains of a few pictures in the prepared form, a
network of a few channels, a dozen updates; run in forked processes, which start in milliseconds and die like any other.
"""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmark import records
from benchmark.data import fingerprint
from benchmark.records import Record
from benchmark.run import execute
from benchmark.spec import RunSpec, load_suite

SUITE = """
name = "small"
title = "Small digits"
protocol = 1
reader = "digits"
classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
columns = ["mt", "up", "sv"]
default_tier = "lite"
domains = [
  { id = "mt", name = "mnist", title = "MNIST" },
  { id = "up", name = "usps", title = "USPS" },
  { id = "sv", name = "svhn", title = "SVHN" },
]
[tiers.lite]
data = "prepared"
batch = 4
updates = 12
eval_points = 3
val_images = 10
unsup_images = 10
network = { name = "conv3fc2", width = 0.015625 }
optimiser = { lr_extractor = 5e-4, lr_classifier = 5e-4 }
"""


class Small:
    """The suite file and its data, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.suite = folder / "small.toml"
        self.data = folder / "data"
        self.suite.write_text(SUITE, encoding="utf-8")
        (self.data / "digits").mkdir(parents=True)
        for name in ("mnist", "usps", "svhn"):
            self.write_digits(name)

    def write_digits(self, name: str) -> None:
        """Sixty training and twenty test pictures whose brightness depends on their class."""
        rng = np.random.default_rng(len(name))
        arrays = {}
        for part, n in (("train", 60), ("test", 20)):
            y = np.arange(n) % 10
            noise = rng.integers(0, 50, (n, 16, 16))
            arrays[f"x_{part}"] = (noise + 20 * y[:, None, None]).astype(np.uint8)
            arrays[f"y_{part}"] = y.astype(np.uint8)
        np.savez(self.data / "digits" / f"{name}.npz", **arrays)  # type: ignore[arg-type]

    def spec(self, method: str = "source-only", target: str = "mt", **fields: Any) -> RunSpec:
        """A run of the small task."""
        name, _, preset = method.partition(":") if ".py:" not in method else (method, "", "")
        return RunSpec(str(self.suite), "lite", name, preset, target=target, **fields)

    def execute(self, spec: RunSpec, results: Path, **options: Any) -> Record:
        """In this process."""
        return execute(spec, results=results, data_root=self.data, **options)

    def bound(self, spec: RunSpec) -> RunSpec:
        """The spec with the fingerprint of its data, as a plan makes it."""
        mark = fingerprint(load_suite(spec.suite), spec.tier, spec.split, self.data)
        return dataclasses.replace(spec, data=mark)

    def directory(self, spec: RunSpec, results: Path) -> Path:
        """Where the run of `spec` lies."""
        return records.run_directory(results, spec, self.bound(spec).run_id)

    # -- in another process -----------------------------------------------------------------------------------------

    def start(self, spec: RunSpec, results: Path, environment: Mapping[str, str] | None = None) -> int:
        """The pid of a process that executes `spec`; it checkpoints after every update."""
        given = {"BENCHMARK_CHECKPOINT_SECONDS": "0", **(environment or {})}
        return fork(lambda: self.execute(spec, results), given)

    def until_done(self, spec: RunSpec, results: Path, dice: random.Random, longest: float) -> int:
        """Start, kill at a random moment, start again … until a start survives; returns the number of kills."""
        kills = 0
        while True:
            child = self.start(spec, results)
            if ended(child, dice.uniform(0, longest)) is not None:
                return kills
            os.kill(child, signal.SIGKILL)
            status = wait(child)
            if status == 0:  # it was quicker than the signal
                return kills
            assert status == -signal.SIGKILL, f"the run failed by itself: exit code {status}"
            kills += 1


def fork(work: Callable[[], Any], environment: Mapping[str, str]) -> int:
    """The pid of a copy of this process that does `work` and ends: 0, 1 after an error, 130 after an interrupt."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.environ.update(environment)
        work()
        code = 0
    except KeyboardInterrupt:
        code = 130
    except BaseException as error:
        print("".join(traceback.format_exception(error)), flush=True)
    finally:
        os._exit(code)  # nothing of the test session may be cleaned up twice


def wait(child: int) -> int:
    """How a process ended: its exit code, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def ended(child: int, patience: float) -> int | None:
    """The process's exit code if it ends within `patience` seconds, else None. A failure of its own is an error."""
    deadline = time.monotonic() + patience
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            assert code == 0, f"the run failed by itself: exit code {code}"
            return code
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(left, 0.005))


def bits(record: Record | None) -> tuple[Any, ...]:
    """Everything of a run that must be the same whatever happened to it."""
    assert record is not None
    assert records.check(record.document) == ""
    assert record.changed_files() == []
    with np.load(record.path / "artifacts.npz", allow_pickle=False) as stored:
        arrays = {name: stored[name].tobytes() for name in stored.files}
    keys = ("weights", "accuracy", "selected", "per_class", "losses", "pseudo", "diagnostics", "probes", "resolved")
    told = {key: record[key] for key in keys} | {"passes": record["cost"]["passes"]}
    return (record.path / "curve.jsonl").read_bytes(), told, arrays
