"""Suites and their tiers, read from TOML: every number of a data set, each with its source; errors name file and key."""

from __future__ import annotations

import enum
import re
import shlex
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator

from benchmark.errors import UserError, unknown
from benchmark.files import PLACE, read_toml, shown
from benchmark.spec.layout import DomainInfo, Folders, Place
from benchmark.spec.network import NetworkSettings
from benchmark.spec.strict import Strict, Text
from methods import installed

SUITES = Path(__file__).parent / "suites"
READERS = ("digits", "folders")  # ours; `benchmark.spec.readers` knows their modules


class Tier(enum.StrEnum):
    """How much of the real thing: generated data in minutes, real images overnight, the paper's set-up on a cluster."""

    mini = "mini"
    lite = "lite"
    paper = "paper"


TierName = Annotated[Tier, Field(strict=False)]  # text in the file


class OptimiserSettings(Strict):
    """One optimiser for all methods; Table 5 gives the learning rates of extractor (E) and classifier (C)."""

    name: Literal["adam", "sgd"] = "adam"
    lr_extractor: float = Field(gt=0, le=1000)
    lr_classifier: float = Field(gt=0, le=1000)
    weight_decay: float = Field(default=5e-4, ge=0, le=1000)
    momentum: float = Field(default=0.9, ge=0, lt=1)


class TierSettings(Strict):
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
    # of matrix products and convolutions: single, TF32 (GPUs since Ampere), or bfloat16 in the extractor's forward pass
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    compile: bool = False  # training passes through torch.compile: rounds differently, so another run
    options: dict[str, str] = {}  # what the data reader wants to know (a reading, which lists, at most how many)
    seconds_per_update: float = Field(
        default=0.0, ge=0
    )  # Source-Only on the reference machine; for `plan` before any run
    note: Text = ""
    seen: Text = ""  # which values were chosen with target labels in sight; every caption says it
    hparams: dict[str, dict[str, Any]] = {}


class Suite(Strict):
    """A data set with its tiers. Numbers of a dataset stand in its suite file, each with its source."""

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    title: Text
    protocol: int = Field(ge=1, lt=2**31)  # raise it when the way of measuring changes
    classes: list[Text] = Field(min_length=2)
    domains: list[DomainInfo] = Field(min_length=2)
    columns: list[str]  # the paper's column order
    reader: str  # one of READERS, or what an installed package offers
    root: Place | Literal[""] = ""  # reader folders: the folder below the data root
    dataset: str = Field(default="", pattern=r"^[a-z0-9-]*$")  # its images in sources.toml and to the generator
    folders: Folders = Folders()  # reader folders: how the pictures lie
    default_split: Literal["part", "all"] = "part"
    default_tier: TierName = Tier.mini
    reported: str = ""  # which reported tables belong to it
    tiers: dict[TierName, TierSettings] = Field(min_length=1)
    hparams: dict[str, dict[str, Any]] = {}
    _address: str = PrivateAttr(default="")  # what one types to name it

    @field_validator("reader")
    @classmethod
    def _reader_is_there(cls, value: str) -> str:
        if value not in READERS and not installed.known(installed.READERS, value):
            names = (*READERS, *installed.offered(installed.READERS))
            raise ValueError(f"there is no reader {value!r}; allowed: {', '.join(names)}")
        return value

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

    @model_validator(mode="after")
    def _folders_have_a_root(self) -> Suite:
        if (self.reader == "folders") != bool(self.root):
            raise ValueError(
                'the reader folders wants root = "FOLDER", a folder below the data root, and no other does'
            )
        return self

    @property
    def address(self) -> str:
        """What one types to name it: its name, or the path of its file."""
        return self._address or self.name

    @property
    def source(self) -> str:
        """The name of its images in the list of sources, among the downloads and to the generator."""
        return self.dataset or (self.name if self.reader == "folders" else self.reader)

    @property
    def folder(self) -> str:
        """Its folder below the data root."""
        return self.root or self.reader

    def domain(self, id: str) -> DomainInfo:
        """The domain with this id, or the nearest allowed name in an error."""
        for d in self.domains:
            if d.id == id:
                return d
        raise unknown(f"domain of suite {self.name}", id, self.columns)

    def tier(self, name: str) -> TierSettings:
        """The settings of a tier, with its network's own words on size and normalisation where the suite is silent."""
        return described(self.as_written(name))

    def as_written(self, name: str) -> TierSettings:
        """The settings of a tier as they stand in the suite file."""
        if name not in list(Tier) or Tier(name) not in self.tiers:
            raise unknown(f"tier of suite {self.name}", name, [t.value for t in self.tiers])
        return self.tiers[Tier(name)]

    def with_tier(self, name: str, settings: TierSettings) -> Suite:
        """This suite with other settings of one tier: what a run with overrides reads its images by."""
        return self.model_copy(update={"tiers": {**self.tiers, Tier(name): settings}})


def suite_names() -> list[str]:
    """The built-in suites."""
    return sorted(p.stem for p in SUITES.glob("*.toml"))


@lru_cache(maxsize=64)
def load_suite(name: str) -> Suite:
    """A built-in suite by name, or a suite file by path; errors name file, key and what is allowed."""
    path = Path(name) if name.endswith(".toml") else SUITES / f"{name}.toml"
    if name.endswith(".toml") and not path.is_file():
        raise UserError(f"The suite file {name} does not exist. Built-in suites: {', '.join(suite_names())}.")
    if name.endswith(".toml") and not PLACE.fullmatch(path.stem):
        plain = re.sub(r"[^A-Za-z0-9_]+", "-", path.stem).strip("-") or "my-suite"
        raise UserError(
            f"The suite file {shown(name)} cannot have this name, which is also that of the folder of its results: studies and "
            "bundles have the letters a to z, digits, dots, dashes and underscores there. Rename it. "
            f"Type: mv {shlex.quote(shown(name))} {shlex.quote(shown(path.with_name(plain + '.toml')))}"
        )
    if not name.endswith(".toml") and name not in suite_names():
        raise unknown("suite", name, suite_names(), "Type: python -m benchmark run --suite digits")
    try:
        suite = Suite.model_validate(read_toml(path, "The suite file"))
    except ValidationError as error:
        raise UserError(_validation_words(path, error)) from None
    suite._address = name
    return suite


def _validation_words(path: Path, error: ValidationError) -> str:
    """Pydantic's errors as sentences: file, key, what is wrong."""
    lines = []
    for e in error.errors()[:5]:
        key = ".".join(str(part) for part in e["loc"]) or "the file"
        lines.append(f"{key}: {e['msg']}")
    return f"The file {path} is not right. " + "; ".join(lines) + "."


def described(settings: TierSettings) -> TierSettings:
    """Settings with what their network says of its input."""
    network = settings.network.described()
    return settings if network is settings.network else settings.model_copy(update={"network": network})


def settings_json(settings: TierSettings) -> dict[str, Any]:
    """The settings that can move a number (not notes, not other methods' hyper-parameters, not speeds)."""
    document = settings.model_dump(mode="json", exclude={"note", "seen", "hparams", "seconds_per_update"})
    document["network"] = settings.network.identity()
    if document["precision"] == "fp32":  # in the words of the time before the choice: a run of then keeps its identity
        document["amp"] = document.pop("precision") != "fp32"
    return document


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
