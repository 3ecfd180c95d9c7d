"""What a run is: suites and tiers read from TOML, the frozen RunSpec, and its identity `run_id`.

A run is the same run when its resolved spec, the suite's protocol number, the method's revision and the data are the
same. Commit and paths are not part of it. Seeds that follow from what they are for: `benchmark.spec.seeds`.
"""

from __future__ import annotations

from benchmark.spec.runspec import (
    SPLITS,
    STANDARDS,
    DomainInfo,
    NetworkSettings,
    Resolved,
    RunSpec,
    Suite,
    Tier,
    TierSettings,
    canonical_json,
    check_preset,
    load_suite,
    method_class,
    override_settings,
    resolve,
    settings_json,
    suite_names,
)

__all__ = [
    "SPLITS",
    "STANDARDS",
    "DomainInfo",
    "NetworkSettings",
    "Resolved",
    "RunSpec",
    "Suite",
    "Tier",
    "TierSettings",
    "canonical_json",
    "check_preset",
    "load_suite",
    "method_class",
    "override_settings",
    "resolve",
    "settings_json",
    "suite_names",
]
