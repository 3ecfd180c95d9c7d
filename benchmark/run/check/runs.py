"""The claims that take the real loop, from data to record: standards, and labels of the target that cannot matter."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.errors import RunFailed
from benchmark.run import processes
from benchmark.run.check.training import failure
from benchmark.run.start import execute
from benchmark.spec import RunSpec

# the ids and files of the digits, so that what goes looking for the target's labels finds them
DOMAINS = {"mt": "mnist", "mm": "mnistm", "up": "usps", "sv": "svhn", "syn": "syn"}
TARGET = "mm"
SUITE = """
name = "check"
title = "Five small domains"
protocol = 1
reader = "digits"
classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
columns = [{columns}]
default_tier = "lite"
domains = [{domains}]
[tiers.lite]
data = "prepared"
batch = 6
updates = {updates}
eval_points = 2
val_images = 10
unsup_images = 20
network = {network}
optimiser = {{ lr_extractor = 5e-4, lr_classifier = 5e-4 }}
"""


NARROW = '{ name = "conv3fc2", width = 0.03125 }'


class Worlds:
    """Two data folders, the same to the last pixel; in one of them the labels of the target are permuted."""

    def __init__(self, root: Path, updates: int = 12, domains: int = len(DOMAINS), network: str = NARROW) -> None:
        self.root, self.suite = root, root / "check.toml"
        ids = list(DOMAINS)[:domains]
        rows = ", ".join(f'{{ id = "{id}", name = "{DOMAINS[id]}", title = "{id}" }}' for id in ids)
        columns = ", ".join(f'"{id}"' for id in ids)
        text = SUITE.format(columns=columns, domains=rows, updates=updates, network=network)
        self.suite.write_text(text, encoding="utf-8")
        for world in ("true", "permuted"):
            (root / world / "digits").mkdir(parents=True)
            for number, id in enumerate(ids):
                arrays = _arrays(number, permuted=world == "permuted" and id == TARGET)
                np.savez(root / world / "digits" / f"{DOMAINS[id]}.npz", **arrays)  # type: ignore[arg-type]

    def run(self, method: str, preset: str, standard: str, world: str, again: str = "", **fields: Any) -> Any:
        """The record of one run, as the loop leaves it."""
        spec = RunSpec(str(self.suite), "lite", method, preset, standard, target=TARGET, **fields)
        data = self.root / world
        with _data_root(data):
            return execute(spec, results=self.root / f"runs-{world}{again}", data_root=data).document

    def run_afresh(self, method: str, preset: str, standard: str, *ways: str, **fields: Any) -> list[Any]:
        """The records of one run in several worlds (`world`, or `world-again`), each in a process of its own: what a method
        keeps in a global or a cache is not there in the next."""
        with contextlib.ExitStack() as stack:
            pools = [stack.enter_context(ProcessPoolExecutor(1, processes.context())) for _ in ways]
            asked = [
                pool.submit(_told, self, dict(os.environ), (method, preset, standard, *way.partition("-")[::2]), fields)
                for pool, way in zip(pools, ways, strict=True)
            ]
            answers = [answer.result() for answer in asked]
        for _, words in answers:
            if words:
                raise RunFailed(words)
        return [record for record, _ in answers]


def _told(
    made: Worlds, environment: Mapping[str, str], run: tuple[str, ...], fields: Mapping[str, Any]
) -> tuple[Any, str]:
    """In the process of its own: the record, or the failure in words, since a line of the method is lost on the way back."""
    os.environ.clear()
    os.environ.update(environment)  # the caller's, not that of the server that this process was forked from
    try:
        return made.run(*run, **fields), ""
    except RunFailed as error:
        return None, failure(error.__cause__ or error)


def _arrays(number: int, *, permuted: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(number)
    arrays: dict[str, np.ndarray] = {}
    for part, count in (("train", 60), ("test", 30)):
        labels = np.arange(count) % 10
        images = rng.integers(0, 120, (count, 32, 32, 3)) + 10 * labels[:, None, None, None] + 15 * number
        if permuted:
            labels = np.random.default_rng(7).permutation(labels)
        arrays |= {f"x_{part}": images.astype(np.uint8), f"y_{part}": labels.astype(np.int64)}
    return arrays


@contextlib.contextmanager
def _data_root(folder: Path) -> Iterator[None]:
    """Within: this is the data folder, for whoever asks the environment."""
    before = os.environ.get("BENCHMARK_DATA_ROOT")
    os.environ["BENCHMARK_DATA_ROOT"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("BENCHMARK_DATA_ROOT")
        if before is not None:
            os.environ["BENCHMARK_DATA_ROOT"] = before


@contextlib.contextmanager
def worlds(updates: int, network: str = NARROW) -> Iterator[Worlds]:
    """Two worlds that are gone afterwards; `network` as a suite file has it."""
    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        yield Worlds(Path(folder), updates, network=network)


def runs_in(made: Worlds, method: str, preset: str, standards: tuple[str, ...], **fields: Any) -> Iterator[str]:
    """One run of the real loop in each standard."""
    for standard in standards:
        try:
            made.run(method, preset, standard, "true", **fields)
        except RunFailed as error:
            yield f"In the standard {standard} its run fails: {failure(error.__cause__ or error)}."


def labels_cannot_matter(made: Worlds, method: str, preset: str, standard: str, **fields: Any) -> Iterator[str]:
    """The same run in both worlds: only the scores that may read target labels differ."""
    if standard == "upper-bound":  # which is trained on them, and says so
        return
    true, permuted = made.run_afresh(method, preset, standard, "true-fresh", "permuted", **fields)
    assert true["data"]["fingerprint"] != permuted["data"]["fingerprint"]
    if _trained(true) == _trained(permuted):
        return
    (again,) = made.run_afresh(method, preset, standard, "true-again", **fields)
    if _trained(true) == _trained(again):
        yield (
            "With the target's labels permuted, and nothing else, other weights come out: training reads them. A method "
            "may use the images of `target` and the labels of `sources`, and nothing from elsewhere."
        )
    else:
        yield "Not decided: the same run twice gives other bits."


def _trained(record: Any) -> tuple[Any, ...]:
    """What target labels have no part in."""
    return record["weights"], record["selected"]["unsup"], record["losses"]
