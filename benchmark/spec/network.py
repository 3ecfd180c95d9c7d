"""Which network a tier names: one of ours, torchvision's or timm's; what it says of its input; where its weights lie.

    network = { name = "timm:vit_small_patch16_224", weights = "weights/vit_small.safetensors" }

Size and normalisation of the images are the network's own where the suite file is silent: timm's default configuration,
the transforms of torchvision's default weights. Both are read from the installed library; nothing is fetched.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, field_validator, model_validator

from benchmark.errors import UserError
from benchmark.files import data_folder
from benchmark.spec.strict import Strict, Text

OURS = ("conv3fc2", "resnet18", "resnet101", "effnet-lite0-tail")  # `benchmark.run.networks.ours` builds them
IMAGENET = "imagenet"  # the word for the file weights/NAME.pth of the data root
Channels = Annotated[list[float], Field(min_length=3, max_length=3)]


class NetworkSettings(Strict):
    """The extractor. A name alone is ours or torchvision's; `torchvision:NAME` and `timm:NAME` say whose it is."""

    name: str = Field(pattern=r"^(torchvision:|timm:)?[A-Za-z0-9_.-]{1,100}$")
    width: float = Field(default=1.0, gt=0, le=1)  # of conv3fc2 and resnet18; the others have one width
    weights: Text = ""  # "imagenet", or a file, relative to the data root; empty for a random start
    image_size: int = Field(default=0, ge=0, le=1024)  # side; 0: as the network says
    mean: Channels | None = (
        None  # of the normalisation, a number a channel; none: as the network says, or the reader for ours
    )
    std: Channels | None = None

    @model_validator(mode="before")
    @classmethod
    def _ours_take_32(cls, values: Any) -> Any:
        ours = isinstance(values, dict) and isinstance(values.get("name"), str) and values["name"] in OURS
        return {**values, "image_size": 32} if ours and values.get("image_size", 0) == 0 else values

    @field_validator("name")
    @classmethod
    def _one_name_for_one_network(cls, value: str) -> str:
        library, own = split_name(value)
        if library == "torchvision" and own not in OURS:
            try:
                check_name(own)
            except UserError as error:
                raise ValueError(str(error)) from None
            return own
        return value

    @field_validator("image_size")
    @classmethod
    def _a_side(cls, value: int) -> int:
        if 0 < value < 8:
            raise ValueError("images have sides of 8 to 1024 pixels")
        return value

    @field_validator("std")
    @classmethod
    def _spreads(cls, value: list[float] | None) -> list[float] | None:
        if value is not None and min(value) <= 0:
            raise ValueError("a standard deviation is above zero")
        return value

    def described(self) -> NetworkSettings:
        """With the network's own words where the suite is silent; one of ours is what it is."""
        if self.name in OURS or (self.image_size and self.mean and self.std):
            return self
        own = describe(self.name)
        return self.model_copy(
            update={
                "image_size": self.image_size or own.image_size,
                "mean": self.mean or list(own.mean),
                "std": self.std or list(own.std),
            }
        )

    def identity(self) -> dict[str, Any]:
        """What can move a number. A file of weights stands in the fingerprint of the data, by its content."""
        document = self.model_dump(mode="json")
        for key in ("mean", "std"):
            if document[key] is None:
                del document[key]
        if self.weights not in ("", IMAGENET):
            document["weights"] = "file"
        return document


def split_name(name: str) -> tuple[str, str]:
    """`timm:resnet50` → ("timm", "resnet50"); a name alone is torchvision's, or ours."""
    library, colon, own = name.partition(":")
    return (library, own) if colon else ("torchvision", name)


# -- what a network says of itself ----------------------------------------------------------------------------------


class Description(NamedTuple):
    """Input that a network was made for; `fixed`: it must be told another size when it is built."""

    image_size: int
    mean: Sequence[float]
    std: Sequence[float]
    fixed: bool
    head: tuple[str, ...] = ()  # names of the head's layers, where the library says them


@lru_cache(maxsize=64)
def describe(name: str) -> Description:
    """A library's description of its network."""
    check_name(name)
    library, own = split_name(name)
    if library == "timm":
        return _of_timm(own)
    weights = _library("torchvision.models", name).get_model_weights(own)
    wanted = weights.DEFAULT.transforms()
    return Description(wanted.crop_size[0], wanted.mean, wanted.std, fixed=own.startswith("vit_"))


def _of_timm(own: str) -> Description:
    found = _library("timm.models", f"timm:{own}").get_pretrained_cfg(own)
    heads = (found.classifier,) if isinstance(found.classifier, str) else tuple(found.classifier or ())
    return Description(found.input_size[-1], found.mean, found.std, bool(found.fixed_input_size), heads)


def check_name(name: str) -> None:
    """A sentence with the nearest names when no library has this network."""
    library, own = split_name(name)
    if library == "timm":
        timm = _library("timm", name)
        arch, _, tag = own.partition(".")
        tags = [full.partition(".")[2] for full in timm.list_models(arch, pretrained=True)] if tag else []
        if timm.is_model(arch) and (not tag or tag in tags):
            return
        allowed = [f"timm:{arch}.{t}" for t in tags] or [f"timm:{n}" for n in timm.list_models()]
    else:
        models = _library("torchvision.models", name)
        allowed = models.list_models(module=models)
        if own in allowed:
            return
        allowed = [*OURS, *allowed]
    near = difflib.get_close_matches(name, allowed, n=3, cutoff=0.5)
    did = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise UserError(
        f"There is no network {name!r}.{did} Ours: {', '.join(OURS)}; those of torchvision by their names; those of timm "
        "as timm:NAME (pip install timm)."
    )


def _library(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        package = module.partition(".")[0]
        raise UserError(
            f"The network {name} is one of {package}, which is not installed. Type: pip install {package}"
        ) from None


# -- weights --------------------------------------------------------------------------------------------------------


def weights_file(network: NetworkSettings, data_root: Path | None) -> Path | None:
    """The file that `weights` means: in the data root unless it is an absolute path; None for a random start."""
    if not network.weights:
        return None
    root = data_folder(data_root)
    if network.weights != IMAGENET:
        return root / Path(network.weights).expanduser()
    file = root / "weights" / f"{split_name(network.name)[1]}.pth"
    other = file.with_suffix(".safetensors")
    return other if other.is_file() and not file.is_file() else file


def with_weights(mark: str, network: NetworkSettings, data_root: Path | None) -> str:
    """The fingerprint `mark` of the images, and of the file of weights that a run starts from.

    ImageNet's weights of our own networks are known by that word, as they always were.
    """
    file = weights_file(network, data_root)
    if file is None or (network.weights == IMAGENET and network.name in OURS):
        return mark
    if not file.is_file():
        raise UserError(
            f"The suite's network {network.name} starts from weights that are not at {file}. Put the file there, or name "
            "another with --set run.network.weights=FILE (a relative path is looked for in the data root); without "
            "weights: --set run.network.weights="
        )
    state = file.stat()
    return hashlib.sha256(f"{mark} {_hash(os.fspath(file), state.st_size, state.st_mtime_ns)}".encode()).hexdigest()[
        :16
    ]


@lru_cache(maxsize=64)
def _hash(file: str, size: int, time: int) -> str:
    """Of the contents; size and time tell whether they are those of the last time."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
