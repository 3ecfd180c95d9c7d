"""What a run is: suites and tiers read from TOML, the frozen RunSpec, and its identity `run_id`.

A run is the same run when its resolved spec, the suite's protocol number, the method's revision and the data are the
same. Commit and paths are not part of it.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from benchmark.errors import UserError, unknown
from benchmark.files import is_plain, read_toml
from methods import BUILT_IN

if TYPE_CHECKING:  # only what needs the class of a method imports it, and torch with it: reading records does not
    from methods.contract import HParams, Method

SUITES = Path(__file__).parent / "suites"
STANDARDS = ("multi-source", "combined", "single-best", "upper-bound")
SPLITS = ("part", "all")


class Tier(enum.StrEnum):
    """How much of the real thing: generated data in minutes, real images overnight, the paper's set-up on a cluster."""

    mini = "mini"
    lite = "lite"
    paper = "paper"


def _showable(text: str) -> str:
    if not is_plain(text):
        raise ValueError("it holds characters that cannot be shown")
    return text


Text = Annotated[str, Field(max_length=1000), AfterValidator(_showable)]
TierName = Annotated[Tier, Field(strict=False)]  # text in the file


class _Strict(BaseModel):
    """No unknown keys, no text for a number, nothing infinite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class DomainInfo(_Strict):
    """One domain: the id of the tables, the name of its files, the title for people."""

    id: str = Field(pattern=r"^[A-Za-z0-9_]+$")
    name: str = Field(pattern=r"^[A-Za-z0-9_]+$")
    title: Text


class NetworkSettings(_Strict):
    """The extractor; `weights` is "imagenet" or empty."""

    name: Literal["conv3fc2", "resnet18", "resnet101", "effnet-lite0-tail"]
    width: float = Field(default=1.0, gt=0, le=1)
    weights: Literal["", "imagenet"] = ""
    image_size: int = Field(default=32, ge=8, le=512)


class OptimiserSettings(_Strict):
    """One optimiser for all methods; Table 5 gives the learning rates of extractor (E) and classifier (C)."""

    name: Literal["adam", "sgd"] = "adam"
    lr_extractor: float = Field(gt=0)
    lr_classifier: float = Field(gt=0)
    weight_decay: float = Field(default=5e-4, ge=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)


class TierSettings(_Strict):
    """Everything of a tier that is the same for all methods. `--set run.KEY=VALUE` changes the plain numbers of it."""

    data: Literal["embedded", "prepared"]
    network: NetworkSettings
    optimiser: OptimiserSettings
    batch: int = Field(ge=2, le=65_536)
    updates: int = Field(ge=1, le=100_000_000)
    eval_points: int = Field(default=10, ge=1, le=1000)
    val_images: int = Field(default=500, ge=1)  # held out of each source's train split, for the rule source-val
    unsup_images: int = Field(default=500, ge=1)  # target training images that the rule unsup looks at
    statistics_images: int = Field(default=1000, ge=2)  # target training images for the statistics `target` at test
    augment: bool = False
    batch_norm: Literal["per-domain", "pooled"] = "per-domain"
    stage_budget: Literal["shared", "full"] = "shared"
    amp: bool = False  # training in bfloat16 where autocast finds it safe; other numbers, so another run
    compile: bool = False  # training passes through torch.compile: rounds differently, so another run
    options: dict[str, str] = {}  # what the data reader wants to know (PACS reading, DomainNet lists)
    seconds_per_update: float = Field(
        default=0.0, ge=0
    )  # Source-Only on the reference machine; for `plan` before any run
    note: Text = ""
    seen: Text = ""  # which values were chosen with target labels in sight; every caption says it
    hparams: dict[str, dict[str, Any]] = {}


class Suite(_Strict):
    """A data set with its tiers. Numbers of a dataset stand in its suite file, each with its source."""

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    title: Text
    protocol: int = Field(ge=1, lt=2**31)  # raise it when the way of measuring changes
    classes: list[Text] = Field(min_length=2)
    domains: list[DomainInfo] = Field(min_length=2)
    columns: list[str]  # the paper's column order
    reader: Literal["digits", "pacs", "domainnet"]
    default_split: Literal["part", "all"] = "part"
    default_tier: TierName = Tier.mini
    reported: str = ""  # which reported tables belong to it
    tiers: dict[TierName, TierSettings] = Field(min_length=1)
    hparams: dict[str, dict[str, Any]] = {}

    @field_validator("columns")
    @classmethod
    def _columns_are_domains(cls, value: list[str], info: Any) -> list[str]:
        ids = [d.id for d in info.data.get("domains", [])]
        if sorted(value) != sorted(ids) or len(set(ids)) != len(ids):
            raise ValueError(f"columns must name each domain once: {', '.join(ids)}")
        return value

    @field_validator("classes")
    @classmethod
    def _classes_differ(cls, value: list[str]) -> list[str]:
        if len(set(value)) != len(value):
            raise ValueError("two classes have the same name")
        return value

    def domain(self, id: str) -> DomainInfo:
        """The domain with this id, or the nearest allowed name in an error."""
        for d in self.domains:
            if d.id == id:
                return d
        raise unknown(f"domain of suite {self.name}", id, self.columns)

    def tier(self, name: str) -> TierSettings:
        """The settings of a tier."""
        if name not in list(Tier) or Tier(name) not in self.tiers:
            raise unknown(f"tier of suite {self.name}", name, [t.value for t in self.tiers])
        return self.tiers[Tier(name)]


def suite_names() -> list[str]:
    """The built-in suites."""
    return sorted(p.stem for p in SUITES.glob("*.toml"))


@lru_cache(maxsize=64)
def load_suite(name: str) -> Suite:
    """A built-in suite by name, or a suite file by path; errors name file, key and what is allowed."""
    path = Path(name) if name.endswith(".toml") else SUITES / f"{name}.toml"
    if name.endswith(".toml") and not path.is_file():
        raise UserError(f"The suite file {name} does not exist. Built-in suites: {', '.join(suite_names())}.")
    if not name.endswith(".toml") and name not in suite_names():
        raise unknown("suite", name, suite_names(), "Type: python -m benchmark run --suite digits")
    try:
        return Suite.model_validate(read_toml(path, "The suite file"))
    except ValidationError as error:
        raise UserError(_validation_words(path, error)) from None


def _validation_words(path: Path, error: ValidationError) -> str:
    """Pydantic's errors as sentences: file, key, what is wrong."""
    lines = []
    for e in error.errors()[:5]:
        key = ".".join(str(part) for part in e["loc"]) or "the file"
        lines.append(f"{key}: {e['msg']}")
    return f"The file {path} is not right. " + "; ".join(lines) + "."


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
        put(self, "split", self.split or suite.default_split)
        if not self.standard:
            from methods.contract import load_method

            put(self, "standard", load_method(self.method).standards[0])
        sources = tuple(self.sources)
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
            from benchmark.data import fingerprint

            spec = dataclasses.replace(self, data=fingerprint(load_suite(self.suite), self.tier, self.split, None))
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
    """A spec with every value looked up: what really runs."""

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


def settings_json(settings: TierSettings) -> dict[str, Any]:
    """The settings that can move a number (not notes, not other methods' hyper-parameters, not speeds)."""
    return settings.model_dump(mode="json", exclude={"note", "seen", "hparams", "seconds_per_update"})


def resolve(spec: RunSpec) -> Resolved:
    """Look up suite, tier, method and hyper-parameters of a spec; every mistake is a sentence."""
    suite = load_suite(spec.suite)
    settings = suite.tier(spec.tier)
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
    return Resolved(
        spec, suite, override_settings(settings, run), cls, resolve_hparams(suite, settings, cls, spec, own)
    )


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


def override_settings(settings: TierSettings, changes: Mapping[str, Any]) -> TierSettings:
    """Settings with `--set run.KEY=VALUE` applied; nested keys with dots (`run.optimiser.lr_extractor`)."""
    if not changes:
        return settings
    document = settings.model_dump(mode="json")
    for key, value in changes.items():
        place: Any = document
        *path, last = key.split(".")
        for part in path:
            place = place.get(part) if isinstance(place, dict) else None
        allowed = (
            [k for k, v in place.items() if k not in ("hparams", "note", "seen")] if isinstance(place, dict) else []
        )
        if not isinstance(place, dict) or (last not in place and path != ["options"]):
            raise unknown("setting", f"run.{key}", [f"run.{'.'.join([*path, k])}" for k in allowed])
        place[last] = value
    try:
        return TierSettings.model_validate(document)
    except ValidationError as error:
        e = error.errors()[0]
        raise UserError(f"run.{'.'.join(map(str, e['loc']))} = {e['input']!r} is not right: {e['msg']}.") from None


def method_class(name: str) -> type[Method]:
    """The class of a method name; the nearest allowed name in the error."""
    from methods.contract import load_method

    if ".py:" not in name and name not in [n for n, _, _ in BUILT_IN]:
        raise unknown("method", name, [n for n, _, _ in BUILT_IN], "A method of your own: path/file.py:Class")
    return load_method(name)


def check_preset(cls: type[Method], method: str, preset: str) -> None:
    """A preset is empty or one of the method's."""
    if preset and preset not in cls.presets:
        raise unknown(f"preset of {method}", preset, list(cls.presets))


def canonical_json(document: Any) -> str:
    """One spelling for one value: sorted keys, no spaces, floats by repr, no NaN."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
