"""The public sources of `sources.toml`, checked when they are read."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchmark.data.prepared import FOLDERS
from benchmark.errors import UserError, unknown

FILE = Path(__file__).with_name("sources.toml")
Reader = Literal["digits", "pacs", "domainnet"]
Url = Field(pattern=r"^https?://[^\s]+$")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Strict):
    """One file to be had: its mirrors, in order, and how to know that it is the right one."""

    suite: Reader
    file: str = Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")
    about: str
    urls: list[str] = Field(min_length=1)
    hash: str = Field(
        default="", pattern=r"^((md5:[0-9a-f]{32})|(sha256:[0-9a-f]{64})|(sha256-prefix:[0-9a-f]{8,64}))?$"
    )
    size: int = 0
    place: str = ""  # folder of the data root; empty: downloads/<suite>
    variant: str = ""

    def path(self, root: Path) -> Path:
        """Where the file belongs under the data root."""
        return (root / self.place if self.place else downloads(root, self.suite)) / self.file


class Manual(_Strict):
    """What no program can fetch: where a person finds it, and what to do with it."""

    suite: Reader
    about: str
    where: str
    steps: str


class _Lists(_Strict):
    suite: Reader
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
            )
            for domain in self.domains
            for part in ("train", "test")
        ]


class _Document(_Strict):
    files: list[Source]
    lists: list[_Lists]
    manual: list[Manual]


def downloads(root: Path, reader: str) -> Path:
    """Where downloads of a suite are kept as they came."""
    return root / "downloads" / reader


@lru_cache(maxsize=8)
def _document(file: Path) -> _Document:
    try:
        return _Document.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise UserError(f"The list of sources {file} is not right: {error}") from None


def sources(reader: str, variant: str = "cleaned", file: Path = FILE) -> list[Source]:
    """Every file of a suite that a program can fetch, of the wanted variant."""
    if reader not in FOLDERS:
        raise unknown("suite with public images", reader, FOLDERS)
    document = _document(file)
    found = [*document.files, *(source for lists in document.lists for source in lists.files())]
    return [s for s in found if s.suite == reader and s.variant in ("", variant)]


def manual(reader: str, root: Path, file: Path = FILE) -> list[Manual]:
    """What has to be done by hand, with this data root's folders in the instructions."""
    words = {"root": str(root), "downloads": str(downloads(root, reader))}
    return [
        m.model_copy(update={"steps": m.steps.format(**words)}) for m in _document(file).manual if m.suite == reader
    ]
