"""What a run is: suites and tiers read from TOML, the frozen RunSpec, and its identity `run_id`.

A run is the same run when its resolved spec, the suite's protocol number, the method's revision and the data are the
same. Commit and paths are not part of it. Seeds that follow from what they are for: `benchmark.spec.seeds`.
"""

from __future__ import annotations

from benchmark.spec.layout import DomainInfo, Folders, Reading
from benchmark.spec.network import NetworkSettings
from benchmark.spec.readers import fingerprint, reader
from benchmark.spec.runspec import (
    SPLITS,
    STANDARDS,
    Resolved,
    RunSpec,
    canonical_json,
    check_preset,
    method_class,
    resolve,
)
from benchmark.spec.suite import (
    Suite,
    Tier,
    TierSettings,
    load_suite,
    override_settings,
    settings_json,
    suite_names,
)

__all__ = [
    "SPLITS",
    "STANDARDS",
    "DomainInfo",
    "Folders",
    "NetworkSettings",
    "Reading",
    "Resolved",
    "RunSpec",
    "Suite",
    "Tier",
    "TierSettings",
    "canonical_json",
    "check_preset",
    "fingerprint",
    "load_suite",
    "method_class",
    "override_settings",
    "reader",
    "resolve",
    "settings_json",
    "suite_names",
]
