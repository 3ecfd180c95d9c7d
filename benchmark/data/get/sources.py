"""The public sources of `sources.toml`, checked when they are read: files, the things they give, the routes to each thing."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchmark.errors import UserError, unknown

if TYPE_CHECKING:
    from benchmark.spec import Suite

FILE = Path(__file__).with_name("sources.toml")
Route = Literal["publisher", "tll", "huggingface"]
ROUTES: tuple[str, ...] = get_args(Route)  # in the order in which they are tried
WEIGHTS = "weights"  # the folder of the data root where networks look for theirs
AS_READ = "as read, not confirmed by a fetch"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Strict):
    """One file to be had: its mirrors, in order, and how to know that it is the right one."""

    suite: str
    file: str = Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")
    about: str
    urls: list[str] = Field(min_length=1)
    hash: str = Field(
        default="", pattern=r"^((md5:[0-9a-f]{32})|(sha256:[0-9a-f]{64})|(sha256-prefix:[0-9a-f]{8,64}))?$"
    )
    size: int = 0
    place: str = ""  # folder of the data root; empty: downloads/<suite>
    variant: str = ""
    gives: list[str] = []  # domains, their lists, weights; empty: nothing but itself
    route: Route = "publisher"
    confirmed: str = Field(default="", pattern=r"^(\d{4}-\d\d-\d\d)?$")

    def path(self, root: Path) -> Path:
        """Where the file belongs under the data root."""
        return (root / self.place if self.place else downloads(root, self.suite)) / self.file

    def standing(self, fetched: Mapping[str, object]) -> str:
        """Whether a fetch has confirmed what stands here; `fetched` is what the lock beside the data says of the file."""
        when = str(fetched.get("time", ""))[:10] if fetched.get("url") in self.urls else self.confirmed
        return f"confirmed by a fetch on {when}" if when else AS_READ


def size_words(size: int) -> str:
    """A size for people; nothing where it is not known."""
    return f"about {size / 1e9:.1f} GB" if size >= 1e9 else f"about {max(1, round(size / 1e6))} MB" if size else ""


@dataclass(frozen=True)
class Thing:
    """What is wanted (a domain, its lists, weights) and the routes to it; a route's files are wanted all together."""

    name: str
    routes: dict[str, list[Source]]

    def order(self, first: str = "") -> list[list[Source]]:
        """The files of each route, in the order in which they are tried; `first` before the others."""
        names = sorted(self.routes, key=lambda route: (route != first, ROUTES.index(route)))
        return [self.routes[name] for name in names]


def things(files: Sequence[Source]) -> list[Thing]:
    """Everything that the files give, in their order."""
    found: dict[str, Thing] = {}
    for source in files:
        for name in source.gives or [source.file]:
            thing = found.setdefault(name, Thing(name, {}))
            thing.routes.setdefault(source.route, []).append(source)
    return list(found.values())


class Manual(_Strict):
    """What no program can fetch: where a person finds it, and what to do with it."""

    suite: str
    about: str
    where: str
    steps: str


class _Lists(_Strict):
    suite: str
    domains: list[str]
    folder: str
    urls: list[str]
    variant: str = ""

    def files(self) -> list[Source]:
        return [
            Source(
                suite=self.suite,
                file=f"{self.folder}/{domain}_{part}.txt",
                about=f"DomainNet, {self.variant + ' ' if self.variant else ''}{part} list of {domain}",
                urls=[url + f"{domain}_{part}.txt" for url in self.urls],
                variant=self.variant,
                gives=[f"{domain} lists"],
            )
            for domain in self.domains
            for part in ("train", "test")
        ]


class _Document(_Strict):
    files: list[Source]
    lists: list[_Lists]
    manual: list[Manual]


def downloads(root: Path, dataset: str) -> Path:
    """Where downloads of a data set are kept as they came."""
    return root / "downloads" / dataset


@lru_cache(maxsize=8)
def _document(file: Path) -> _Document:
    try:
        return _Document.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise UserError(f"The list of sources {file} is not right: {error}") from None


def datasets(file: Path = FILE) -> list[str]:
    """Every data set of the list, in its order."""
    document = _document(file)
    return list(dict.fromkeys([*(f.suite for f in document.files), *(m.suite for m in document.manual)]))


def sources(dataset: str, variant: str = "cleaned", file: Path = FILE) -> list[Source]:
    """Every file of a data set that a program can fetch, of the wanted variant, by all routes."""
    if dataset not in datasets(file):
        raise unknown("suite with public images", dataset, datasets(file))
    document = _document(file)
    found = [*document.files, *(source for lists in document.lists for source in lists.files())]
    return [s for s in found if s.suite == dataset and s.variant in ("", variant)]


def by_hand(dataset: str) -> bool:
    """Whether the images of a data set are to be got by a person: all that a program can fetch are weights."""
    return all(s.place == "weights" for s in sources(dataset))


def how_to_get(suite: Suite, root: Path) -> str:
    """What to type when the pictures of a suite are not there; `root` is the data root."""
    if suite.source not in datasets():
        return f"Name the folder with {suite.folder} in it: --data-root FOLDER"
    verb, words = ("list", "Where to get them by hand") if by_hand(suite.source) else ("fetch", "To get them")
    return f"{words}: python -m benchmark data {verb} --suite {suite.address} --data-root {root}"


def with_weights(network: str = "", file: Path = FILE) -> list[str]:
    """Data sets that come with ImageNet weights: of this network, or of any."""
    files = [s for s in _document(file).files if s.place == WEIGHTS and (not network or network in s.gives)]
    return list(dict.fromkeys(s.suite for s in files))


def only_weights(dataset: str, files: Sequence[Source]) -> list[Source]:
    """Of the files of a data set, its network's ImageNet weights."""
    found = [s for s in files if s.place == WEIGHTS]
    if not found:
        raise UserError(f"{dataset} has no weights to fetch: {', '.join(with_weights())} have.")
    return found


def manual(dataset: str, root: Path, file: Path = FILE) -> list[Manual]:
    """What has to be done by hand, with this data root's folders in the instructions."""
    words = {"root": str(root), "downloads": str(downloads(root, dataset))}
    return [
        m.model_copy(update={"steps": m.steps.format(**words)}) for m in _document(file).manual if m.suite == dataset
    ]
