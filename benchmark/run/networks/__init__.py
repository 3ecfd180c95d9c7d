"""The extractors: images → features, of the built-in suites and of libraries, with batch-norm statistics per domain.

`build(name)` gives any of them and `shape(name)` their sizes; `drawn` gives modules their first weights by (seed, role),
`load_weights` those of a file; within `per_domain` one pass over several domains normalises each by its own statistics.
`norms` has the layers, `extractor` what every network is, `ours` the four of the suites, `libraries` the others.
"""

from __future__ import annotations

from benchmark.run.networks.extractor import Extractor, drawn, initialise
from benchmark.run.networks.libraries import Shape, build, shape
from benchmark.run.networks.norms import (
    BatchNorm1d,
    BatchNorm2d,
    NormPoolReLU,
    interleave,
    per_domain,
    per_domain_norms,
)
from benchmark.run.networks.ours import NETWORKS, conv3fc2, resnet18, resnet101
from benchmark.run.networks.weights import check_file, load_weights

__all__ = [
    "NETWORKS",
    "BatchNorm1d",
    "BatchNorm2d",
    "Extractor",
    "NormPoolReLU",
    "Shape",
    "build",
    "check_file",
    "conv3fc2",
    "drawn",
    "initialise",
    "interleave",
    "load_weights",
    "per_domain",
    "per_domain_norms",
    "resnet18",
    "resnet101",
    "shape",
]
