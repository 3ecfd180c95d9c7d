"""The frozen RunSpec, every value of it looked up (`resolve`), and its identity `run_id`."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmark.errors import UserError, unknown
from benchmark.spec.readers import fingerprint
from benchmark.spec.suite import Suite, Tier, TierSettings, described, load_suite, override_settings, settings_json
from methods import BUILT_IN, installed, is_built_in
from methods.groups import GROUPS

if TYPE_CHECKING:  # only what needs the class of a method imports it, and torch with it: reading records does not
    from methods.contract import HParams, Method

STANDARDS = ("multi-source", "combined", "single-best", "upper-bound")
SPLITS = ("part", "all")


@dataclass(frozen=True)
class RunSpec:
    """One run. `overrides` are (key, value) pairs: hyper-parameters by name, settings of the harness as `run.KEY`."""

    suite: str
    tier: str
    method: str
    preset: str = ""
    standard: str = ""
    sources: tuple[str, ...] = ()
    target: str = ""
    split: str = ""
    seed: int = 0
    threads: int = 1
    overrides: tuple[tuple[str, Any], ...] = ()
    tuned: str = ""  # hash of a tuning file, a colon, and those of the overrides that are its values
    data: str = ""  # fingerprint; empty until the data has been seen

    def __post_init__(self) -> None:
        """Fill what follows from the rest: default standard and split, sources, overrides as sorted pairs."""
        suite = load_suite(self.suite)
        pairs = self.overrides.items() if isinstance(self.overrides, Mapping) else self.overrides or ()
        put = object.__setattr__
        put(self, "tier", str(Tier(self.tier)) if self.tier in list(Tier) else self.tier)
        put(self, "overrides", tuple(sorted((str(k), v) for k, v in pairs)))
        put(self, "preset", self.preset or "")  # None is nothing too
        put(self, "split", self.split or suite.default_split)
        if not self.standard:
            from methods.contract import load_method

            put(self, "standard", load_method(self.method).standards[0])
        sources = tuple(self.sources or ())
        if not sources:
            target = (self.target,)
            sources = target if self.standard == "upper-bound" else tuple(c for c in suite.columns if c != self.target)
        put(self, "sources", sources)

    @property
    def name(self) -> str:
        """`method:preset`, as in a request; a user's file by its class."""
        method = self.method.rpartition(":")[2] if ".py:" in self.method else self.method
        return f"{method}:{self.preset}" if self.preset else method

    @property
    def run_id(self) -> str:
        """Sixteen hex digits: the identity of the run. A spec that has not seen its data looks it up first."""
        spec = self
        if not spec.data:
            spec = dataclasses.replace(self, data=fingerprint(resolve(self).suite, self.tier, self.split))
        return hashlib.sha256(canonical_json(resolve(spec).identity()).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; `from_json` is its inverse."""
        document = dataclasses.asdict(self)
        document["sources"] = list(self.sources)
        document["overrides"] = {k: v for k, v in self.overrides}
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunSpec:
        """From `to_json`'s form; unknown or missing fields are errors."""
        known = {f.name for f in dataclasses.fields(cls)}
        extra = set(document) - known
        if extra:
            raise UserError(f"A run spec has unknown fields: {', '.join(sorted(extra))}.")
        return cls(**{**document, "sources": tuple(document.get("sources", ()))})


@dataclass(frozen=True)
class Resolved:
    """A spec with every value looked up: what really runs. The suite's tier has these settings, overrides included."""

    spec: RunSpec
    suite: Suite
    settings: TierSettings
    method: type[Method]
    hparams: HParams

    def identity(self) -> dict[str, Any]:
        """What the run's identity is made of."""
        from methods.contract import method_revision

        spec = self.spec.to_json()
        if ".py:" in self.spec.method:
            spec["method"] = "file:" + self.spec.method.rpartition(":")[2]
        if self.spec.suite.endswith(".toml"):
            spec["suite"] = self.suite.name
        return {
            "spec": spec,
            "hparams": dataclasses.asdict(self.hparams),
            "settings": settings_json(self.settings),
            "protocol": self.suite.protocol,
            "revision": method_revision(self.spec.method),
        }


def resolve(spec: RunSpec) -> Resolved:
    """Look up suite, tier, method and hyper-parameters of a spec; every mistake is a sentence."""
    suite = load_suite(spec.suite)
    settings = suite.as_written(spec.tier)
    cls = method_class(spec.method)
    check_preset(cls, spec.method, spec.preset)
    if spec.standard not in cls.standards:
        raise unknown(f"standard of {spec.method}", spec.standard, cls.standards)
    if spec.split not in SPLITS:
        raise unknown("split", spec.split, SPLITS)
    suite.domain(spec.target)
    for source in spec.sources:
        suite.domain(source)
    if spec.standard != "upper-bound" and spec.target in spec.sources:
        raise UserError(f"The target {spec.target} cannot be one of its own sources.")
    own = {k: v for k, v in spec.overrides if not k.startswith("run.")}
    run = {k.removeprefix("run."): v for k, v in spec.overrides if k.startswith("run.")}
    hparams = resolve_hparams(suite, settings, cls, spec, own)
    settings = described(override_settings(settings, run))
    return Resolved(spec, suite.with_tier(spec.tier, settings), settings, cls, hparams)


def resolve_hparams(
    suite: Suite, settings: TierSettings, cls: type[Method], spec: RunSpec, own: Mapping[str, Any]
) -> HParams:
    """HParams default < suite < tier < preset < tuned and `--set` (which stand in the overrides in that order)."""
    from methods.contract import build_hparams

    fields = [f.name for f in dataclasses.fields(cls.HParams)]
    for key in own:
        if key not in fields:
            raise unknown(
                f"hyper-parameter of {spec.method}", key, fields, f"Type: python -m benchmark methods {spec.method}"
            )
    layers = (
        suite.hparams.get(cls.name, {}),
        settings.hparams.get(cls.name, {}),
        cls.presets.get(spec.preset, {}),
        own,
    )
    return build_hparams(cls, *layers)


def method_class(name: str) -> type[Method]:
    """The class of a method name; the nearest allowed name in the error."""
    from methods.contract import load_method

    if ".py:" not in name and not is_built_in(name) and not installed.known(installed.METHODS, name):
        names = [*(n for n, _, _ in BUILT_IN), *installed.offered(installed.METHODS)]
        raise unknown(
            "method", name, names, f"Groups: {', '.join(GROUPS)}, all. A method of your own: path/file.py:Class"
        )
    return load_method(name)


def check_preset(cls: type[Method], method: str, preset: str) -> None:
    """A preset is empty or one of the method's."""
    if preset and preset not in cls.presets:
        raise unknown(f"preset of {method}", preset, list(cls.presets))


def canonical_json(document: Any) -> str:
    """One spelling for one value: sorted keys, no spaces, floats by repr, no NaN."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
