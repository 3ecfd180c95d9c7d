"""How much a run computes: FLOPs of its updates, of the full passes with which stages begin, and of its evaluations.

They are counted on the method itself (`plan.counting`), which takes seconds to a minute. They depend on shapes alone, so
they are kept: `flops.json` beside this file has those of the built-in suites (`make flops` writes it), the user's cache
those of everything else that was counted.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmark.files import read_object, read_toml, write_json
from benchmark.spec import Resolved, canonical_json

TABLE = Path(__file__).parent / "flops.json"
IMAGES = Path(__file__).parent / "images.toml"
PART = (25_000, 9_000)  # split `part`: at most this many training and test images of a domain
Count = Callable[[Resolved], dict[str, Any]]
PROBED = 200  # images of a domain for the probes, and of a source for the validator DEV


@dataclass(frozen=True)
class Stage:
    """Stages of one kind: how many, their share of the updates; of an update FLOPs and kernel launches; FLOPs of an image
    of a source and of the target in the full pass with which such a stage begins."""

    number: int
    share: float
    update: float
    launches: int
    source: float = 0.0
    target: float = 0.0


@dataclass(frozen=True)
class Counts:
    """What a method computes at given shapes."""

    stages: tuple[Stage, ...]
    image: float  # FLOPs of one prediction


@dataclass(frozen=True)
class Work:
    """What a run computes: FLOPs in all, and kernel launches of its updates."""

    flops: float
    launches: float


def work(resolved: Resolved, counts: Counts) -> Work:
    """Updates, passes and evaluations of a run added up."""
    settings, spec = resolved.settings, resolved.spec
    train = {id: images(resolved, id)[0] for id in (*spec.sources, spec.target)}
    flops, launches = evaluation_images(resolved) * settings.eval_points * counts.image, 0.0
    for stage in counts.stages:
        updates = settings.updates * (stage.number if settings.stage_budget == "full" else stage.share)
        passes = stage.source * sum(train[id] for id in spec.sources) + stage.target * train[spec.target]
        flops += updates * stage.update + stage.number * passes
        launches += updates * stage.launches
    return Work(flops, launches)


def evaluation_images(resolved: Resolved) -> int:
    """Predictions at one evaluation point: everything twice (the loop's statistics, the target's), and those it takes to
    estimate the latter."""
    settings, spec = resolved.settings, resolved.spec
    train, test = images(resolved, spec.target)
    held = settings.val_images * len(spec.sources)
    unsup = min(settings.unsup_images, train)
    weighed = min(PROBED, settings.val_images) * len(spec.sources) + unsup
    domains = len({*spec.sources, spec.target})
    scored = test + held + unsup + weighed + domains * min(PROBED, test)
    return 2 * scored + min(settings.statistics_images, train)


def images(resolved: Resolved, id: str) -> tuple[int, int]:
    """Training and test images of a domain, as published or as generated: an estimate needs no data here."""
    suite, table = resolved.suite, _images()
    if resolved.settings.data == "prepared" and suite.reader == "folders":
        train, test = in_folders(resolved, id)
    else:
        kind = suite.source if resolved.settings.data == "prepared" else f"{suite.source}-generated"
        sizes = table.get(kind, table["folders"])  # of a package's own reader nothing is known
        train, test = map(int, sizes.get(suite.domain(id).name) or sizes["other"])
    return (min(train, PART[0]), min(test, PART[1])) if resolved.spec.split == "part" else (train, test)


def in_folders(resolved: Resolved, id: str) -> tuple[int, int]:
    """Training and test pictures of a domain by the counts of its suite file, the reading and the subset that are asked for."""
    suite, options = resolved.suite, resolved.settings.options
    info, described = suite.domain(id), suite.folders
    reading = described.reading(options.get(described.option, ""))
    listed = next((c for r in (reading, *described.readings) if len(c := r.counts.get(info.name, [])) == 2), None)
    total = sum(info.by_class) or info.images or int(_images()["folders"]["other"][0])
    whole = (total, total) if reading.scored == "all" else (total - round(total / 10), round(total / 10))
    train, test = listed or whole
    most = int(options.get("subset", "0")) * len(suite.classes)
    return (min(train, most), min(test, most)) if most else (train, test)


@lru_cache(maxsize=1)
def _images() -> dict[str, Any]:
    return read_toml(IMAGES, "The table of images")


# -- counts, kept ---------------------------------------------------------------------------------------------------


def counted(resolved: Resolved, count: Count | None = None) -> Counts | None:
    """The counts of a method at these shapes, from the table or the cache; None: not known.

    With `count` what is not known is counted and kept; None then means that the method cannot be counted.
    """
    key = key_of(resolved)
    found = _table().get(key) or read_object(_cache() / f"{key}.json")
    if not found and count is not None:
        found = count(resolved)
        write_json(_cache() / f"{key}.json", found, durable=False)
    if not found.get("stages"):
        return None
    return Counts(tuple(Stage(*values) for values in found["stages"]), float(found["image"]))


def key_of(resolved: Resolved) -> str:
    """Everything that a count depends on; not the values that are tuned, which are weights and rates."""
    spec, settings = resolved.spec, resolved.settings
    tuned = {name for name, range in resolved.method.ranges.items() if not range.choices}
    shapes = {
        "network": settings.network.model_dump(exclude={"weights", "mean", "std"}),
        "batch": settings.batch,
        "batch_norm": settings.batch_norm,
        "classes": len(resolved.suite.classes),
        "sources": len(spec.sources),
        "combined": spec.standard == "combined",
        "method": [spec.method.rpartition(":")[2], resolved.identity()["revision"]],
        "hparams": {k: v for k, v in dataclasses.asdict(resolved.hparams).items() if k not in tuned},
    }
    return hashlib.sha256(canonical_json(shapes).encode()).hexdigest()[:16]


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    return read_object(TABLE)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "msda-benchmark" / "flops"
