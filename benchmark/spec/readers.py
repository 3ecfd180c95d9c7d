"""Who reads the images of a suite: a reader is a module with `load` and `fingerprint`, named here, imported when wanted.

A suite says which reader understands its files, a tier's setting `data` where they come from: "embedded" images are made
offline, "prepared" ones are read from the user's data folder. The names stand beside the suites because a spec that has
not seen its data must ask for its fingerprint; the readers themselves are the business of `benchmark.data`. Installed
packages offer more of them (entry points `msda_benchmark.readers`); a name of ours stays ours.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmark.errors import UserError
from benchmark.spec.network import with_weights
from benchmark.spec.suite import Suite
from methods import installed

READERS = {
    ("digits", "embedded"): "benchmark.data.made.embedded",
    ("folders", "embedded"): "benchmark.data.made.pictures",
    ("digits", "prepared"): "benchmark.data.digits",
    ("folders", "prepared"): "benchmark.data.folders",
}


def reader(suite: Suite, tier: str) -> Any:
    """The module that reads the images of `suite` at `tier`: ours by its name, else what a package offers under it."""
    module = READERS.get((suite.reader, suite.tier(tier).data))
    if module is not None:
        return importlib.import_module(module)
    found = installed.load(installed.READERS, suite.reader)
    missing = [name for name in ("load", "fingerprint") if not callable(getattr(found, name, None))]
    if missing:
        package = installed.whose(installed.offered(installed.READERS)[suite.reader])
        raise UserError(
            f"The reader {suite.reader!r} of the package {package} has no function {' and no '.join(missing)}."
        )
    return found


def fingerprint(
    suite: Suite, tier: str, split: str, data_root: Path | None = None, options: Mapping[str, Any] | None = None
) -> str:
    """Which images, and which file of weights, a run would see, quickly when they are in the cache. `options` go before the
    tier's own."""
    merged = {**suite.tier(tier).options, **(options or {})}
    found: str = reader(suite, tier).fingerprint(suite, tier, split, data_root, merged)
    return with_weights(found, suite.tier(tier).network, data_root)
