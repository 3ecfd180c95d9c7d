"""The first reading of a data set, on a cluster: in a job of its own, on CPUs.

DomainNet's 586,575 pictures take minutes to decode on many cores. Were it left to the runs, one GPU task would decode and
all others would hold their GPUs and wait for its lock. So a sweep on GPUs whose pictures are not decoded sends this job
first, and its tasks begin when it has ended. When it fails they begin too, and fail or decode for themselves: a sweep that
waits for ever for a job that is gone tells nobody why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark import data
from benchmark.launch.cluster import Profile, Resources
from benchmark.spec import RunSpec, resolve


@dataclass(frozen=True)
class Decode:
    """What submitit pickles and calls on a node: every reading that the sweep's runs begin with."""

    data_root: str | None
    readings: tuple[RunSpec, ...]  # a run for each

    def __call__(self) -> None:
        for spec in self.readings:
            print(f"=== decoding {spec.suite}, tier {spec.tier}, split {spec.split}", flush=True)
            data.load(resolve(spec).suite, spec.tier, spec.split, _path(self.data_root))


def wanted(specs: Iterable[RunSpec], data_root: str | None, profile: Profile) -> Decode | None:
    """The readings of runs on GPUs that would decode first; None when all is ready."""
    found: dict[Any, RunSpec] = {}
    for spec in specs:
        if profile.resources(spec.tier).gpus:
            settings = resolve(spec).settings
            pixels = settings.network.name, settings.network.image_size, settings.augment  # what they are decoded for
            found.setdefault((spec.suite, spec.tier, spec.split, pixels, *sorted(settings.options.items())), spec)
    lacking = [
        spec for spec in found.values() if not data.ready(resolve(spec).suite, spec.tier, spec.split, _path(data_root))
    ]
    return Decode(data_root, tuple(lacking)) if lacking else None


def resources(tier: str, profile: Profile) -> Resources:
    """What the job asks for: what a task of the tier does, without GPU, and the profile's `[decode]` over it."""
    base: dict[str, Any] = profile.resources(tier).model_dump()
    return Resources.model_validate({**base, "gpus": 0, "gpu_type": None, "constraint": None, **profile.decode})


def _path(data_root: str | None) -> Path | None:
    return Path(data_root) if data_root else None
