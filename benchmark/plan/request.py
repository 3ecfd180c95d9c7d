"""From a request to run specs: who runs on what, in which standard, with which values."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.errors import UserError, unknown
from benchmark.plan.grid import Grid, read_tuned
from benchmark.spec import (
    SPLITS,
    STANDARDS,
    RunSpec,
    Suite,
    check_preset,
    fingerprint,
    load_suite,
    method_class,
    resolve,
)
from methods import BUILT_IN
from methods.groups import GROUPS, READINGS, trained

if TYPE_CHECKING:
    from methods.contract import Method

# The design card's seven, with the rows that keep them honest.
DEFAULT_METHODS = (
    "source-only", "source-only:bn", "dan", "dann", "mcd", "m3sda", "mdda", "tsvdnet", "tsvdnet:code", "upper-bound",
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What a user asks for; empty lists mean the suite's defaults."""

    suite: str
    tier: str = ""
    split: str = ""
    methods: Sequence[str] = ()
    targets: Sequence[str] = ()
    standards: Sequence[str] = ()
    seeds: Sequence[int] = (0,)
    settings: Sequence[str] = ()  # `method.key=value[,value…]`
    tuned: Path | None = None
    limit_steps: int | None = None
    stage_budget: str = ""
    threads: int = 1


@dataclass(frozen=True)
class Plan:
    """The specs, in the order they will run, and what was left out with the reason."""

    suite: Suite
    tier: str
    specs: list[RunSpec]
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unbound: str = ""  # why the specs have no data yet; "": they have
    readings: tuple[str, ...] = ()  # rows that were asked for and read the runs of another row


def make(request: Request, data_root: Path | None = None, *, bind: bool = True) -> Plan:
    """All runs of a request, bound to the data they will run on. Every mistake is an error before anything starts.

    With bind=False missing data is no mistake: the runs can be counted before they can be run.
    """
    suite = load_suite(request.suite)
    tier = request.tier or suite.default_tier.value
    suite.tier(tier)
    if request.split and request.split not in SPLITS:
        raise unknown("split", request.split, SPLITS)
    targets = list(dict.fromkeys(request.targets)) or suite.columns
    for target in targets:
        suite.domain(target)
    grid = Grid.parse(request.settings, request.limit_steps, request.stage_budget)
    tuned, tuned_hash = read_tuned(request.tuned, suite.name, tier) if request.tuned else ({}, "")
    specs: list[RunSpec] = []
    skipped: list[tuple[str, str]] = []
    tokens = wanted_rows(request.methods)
    readings = tuple(name for name, _ in tokens if name in READINGS)
    for name, standard_wanted in dict.fromkeys((trained(name), standard) for name, standard in tokens):
        method, preset = split_name(name)
        cls = method_class(method)
        check_preset(cls, method, preset)
        standards = _standards(cls, standard_wanted, request.standards)
        if not standards:
            skipped.append((name, f"has no standard {', '.join(request.standards)}; it has {', '.join(cls.standards)}"))
        # a preset that was not tuned itself has its method's values, but for those that it sets
        own = cls.presets[preset] if preset else {}
        values = tuned.get(name, {k: v for k, v in tuned.get(method, {}).items() if k not in own})
        for standard, target, overrides, seed in itertools.product(
            standards, targets, grid.overrides(name, method, values), request.seeds
        ):
            kept = ",".join(key for key in sorted(values) if (key, values[key]) in overrides)
            for sources in _sources(suite, standard, target):
                spec = RunSpec(
                    request.suite, tier, method, preset, standard, sources, target, request.split, seed,
                    request.threads, overrides, f"{tuned_hash}:{kept}" if kept else "",
                )  # fmt: skip
                specs.append(_without_idle_overrides(spec))
    grid.check_all_used()
    specs = list(dict.fromkeys(specs))
    try:
        return Plan(suite, tier, _bind(specs, data_root), skipped, readings=readings)
    except UserError as error:
        if bind:
            raise
        nowhere = [dataclasses.replace(spec, data="not here") for spec in specs]
        return Plan(suite, tier, nowhere, skipped, str(error), readings)


def wanted_rows(names: Sequence[str]) -> list[tuple[str, str]]:
    """(`method[:preset]`, standard or "") of each wanted row; a group's rows stand in the place of its word."""
    wanted = list(dict.fromkeys(names)) or ["default"]
    found: list[tuple[str, str]] = []
    for name in wanted:
        if name == "default":
            found += wanted_rows(DEFAULT_METHODS)
        elif name == "all":
            others = [n for n, _, _ in BUILT_IN if n not in DEFAULT_METHODS]
            found += wanted_rows([*DEFAULT_METHODS[:-1], *others, *READINGS, DEFAULT_METHODS[-1]])
        elif name in GROUPS:
            found += wanted_rows(GROUPS[name])
        elif name == "upper-bound":
            found.append(("source-only", "upper-bound"))
        else:
            found.append((name, ""))
    return list(dict.fromkeys(found))


def split_name(name: str) -> tuple[str, str]:
    """`name[:preset]` or `path/file.py:Class[@preset]` → (method, preset)."""
    if ".py:" in name:
        method, _, preset = name.partition("@")
        return method, preset
    if name.endswith(".py"):
        raise UserError(f"Say which class of {name} is the method: {name}:ClassName")
    method, _, preset = name.partition(":")
    return method, preset


def _standards(cls: type[Method], fixed: str, wanted: Sequence[str]) -> list[str]:
    for standard in wanted:
        if standard not in STANDARDS:
            raise unknown("standard", standard, STANDARDS)
    if fixed:
        return [fixed]
    if not wanted:
        return [cls.standards[0]]
    return [s for s in dict.fromkeys(wanted) if s in cls.standards and s != "upper-bound"]


def _sources(suite: Suite, standard: str, target: str) -> list[tuple[str, ...]]:
    others = tuple(c for c in suite.columns if c != target)
    if standard == "single-best":
        return [(s,) for s in others]
    return [(target,)] if standard == "upper-bound" else [others]


def _without_idle_overrides(spec: RunSpec) -> RunSpec:
    """Leave out overrides that change nothing, so that the same thing asked for twice is one run; check the rest."""
    here = resolve(spec)
    for key, value in spec.overrides:
        fewer = dataclasses.replace(spec, overrides=tuple(p for p in spec.overrides if p[0] != key))
        if dataclasses.asdict(resolve(fewer).hparams) == dataclasses.asdict(here.hparams) and (
            resolve(fewer).settings == here.settings
        ):
            spec = fewer
        del value
    return spec


def _bind(specs: list[RunSpec], data_root: Path | None) -> list[RunSpec]:
    """Each spec with the fingerprint of its data; one look for all specs that read the same data."""
    seen: dict[tuple[Any, ...], str] = {}
    bound = []
    for spec in specs:
        resolved = resolve(spec)
        options, network = resolved.settings.options, resolved.settings.network
        key = (spec.tier, spec.split, tuple(sorted(options.items())), network.model_dump_json())
        if key not in seen:
            seen[key] = fingerprint(resolved.suite, spec.tier, spec.split, data_root, options)
        bound.append(dataclasses.replace(spec, data=seen[key]))
    return bound


def parse_seeds(texts: Iterable[str]) -> list[int]:
    """`0-4`, `0,1,2` → seeds."""
    seeds: list[int] = []
    for text in texts:
        first, dash, last = text.partition("-")
        try:
            wanted = range(int(first), int(last) + 1) if dash else range(int(first), int(first) + 1)
        except ValueError:
            raise UserError(f"--seeds takes numbers and ranges such as 0-4 or 0,1,2, not {text!r}.") from None
        if wanted and wanted[-1] >= 2**31:
            raise UserError(f"A seed is at most {2**31 - 1}, not {text}.")
        if len(seeds) + len(wanted) > 10_000:
            raise UserError("More than 10,000 seeds were asked for.")
        seeds += wanted
    if not seeds:
        raise UserError("--seeds names no seed; try --seeds 0-2.")
    return list(dict.fromkeys(seeds))
