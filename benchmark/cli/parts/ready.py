"""Can the networks of a plan be? Asked once before any run begins: what is wrong with one is wrong with all of its runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmark.spec import NetworkSettings, RunSpec, resolve
from benchmark.spec.network import OURS, weights_file


def check_networks(specs: Sequence[RunSpec]) -> None:
    """A sentence about the first network that has no such width, takes no such images or gives no features."""
    # a tier's own network of ours is known to be: counting its runs need not wait for torchvision
    asked = [network for network, named in _networks(specs) if named or network.name not in OURS]
    if asked:
        from benchmark.run.networks import shape

        for network in asked:
            shape(network.name, network.width, network.image_size)


def check_weights(specs: Sequence[RunSpec], data_root: Path | None) -> None:
    """A sentence about the first file of weights that is not there."""
    for network, _ in _networks(specs):
        file = weights_file(network, data_root)
        if file is not None:
            from benchmark.run.networks import check_file

            check_file(network.name, file)


def _networks(specs: Sequence[RunSpec]) -> Iterator[tuple[NetworkSettings, bool]]:
    """Each network once, and whether the request says something of it; thousands of runs have one or two."""
    found: dict[tuple[object, ...], RunSpec] = {}
    for spec in specs:
        said = tuple((key, value) for key, value in spec.overrides if key.startswith("run.network."))
        found.setdefault((spec.suite, spec.tier, *said), spec)
    for key, spec in found.items():
        yield resolve(spec).settings.network, len(key) > 2
