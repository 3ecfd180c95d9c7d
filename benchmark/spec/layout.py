"""How the pictures of a suite lie in its folder, and which of them are trained on and which are scored.

The table `[folders]` of a suite file, for the reader of that name. Without it: class folders, parquet or one CSV, all
images of the target adapted on and scored, or (`--set run.options.reading=split`) some held out: by lists where there are any.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from benchmark.spec.strict import Strict, Text


def _inside(text: str) -> str:
    parts = text.split("/")
    if "\\" in text or any(part in ("", ".", "..") or part != part.strip() for part in parts):
        raise ValueError("it is not a plain path inside the data folder")
    return text


def _one_folder(text: str) -> str:
    if "/" in text or text.startswith("."):
        raise ValueError("it is not the name of one folder that can be seen")
    return text


Place = Annotated[Text, Field(min_length=1), AfterValidator(_inside)]
FolderName = Annotated[Place, AfterValidator(_one_folder)]
Count = Annotated[int, Field(ge=0)]


class DomainInfo(Strict):
    """One domain: the id of the tables, the name of its files, the title for people, and how many pictures it should have."""

    id: str = Field(pattern=r"^[A-Za-z0-9_]+$")
    name: FolderName
    title: Text
    also: list[Text] = []  # what copies of others call its folder
    images: Count = 0  # as published, or as `suite new` counted them; 0: not known
    by_class: list[Count] = []  # the same by class


class Reading(Strict):
    """One answer to: which pictures of a domain are trained on, and which are scored?"""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    scored: Literal["all", "held-out"] = "held-out"  # all: the same images are adapted on and scored
    pictures: Literal["tree", "lists"] = "tree"  # what there is: what lies in the class folders, or what the lists name
    lists: list[
        Place
    ] = []  # with {domain} and {part}, the first that is there; without any, a seeded tenth is held out
    parts: list[str] = Field(default=["train", "test"], min_length=2, max_length=2)  # what {part} is
    first_label: Count = 0
    held: Text = "the lists that came with it"  # what captions call them
    also: list[Text] = []  # folders of others whose lists are of this reading
    counts: dict[str, list[Count]] = {}  # domain → pictures as published: both, or of the train and of the test list

    def list_names(self, domain: str) -> list[list[str]]:
        """The places where the train and the test list of a domain may be, in the order in which they are looked for."""
        filled = [template.replace("{domain}", domain) for template in self.lists]
        return [[name.replace("{part}", part) for part in self.parts] for name in filled]

    def folder(self) -> str:
        """The folder that is for lists of this reading alone, if there is one."""
        parents = [str(PurePosixPath(template).parent) for template in self.lists]
        return self.name if self.name in parents else ""


READINGS = [
    Reading(name="transductive", scored="all"),
    Reading(
        name="split", lists=["{domain}_{part}.txt", "splits/{domain}_{part}.txt", "image_list/{domain}_{part}.txt"]
    ),
]


class Folders(Strict):
    """What the reader `folders` must know beside the suite's root, domains and classes."""

    # contents: the same images are the same data as a tree, as parquet, as CSV; names: file names and their order count too
    identity: Literal["contents", "names"] = "contents"
    option: str = Field(default="reading", pattern=r"^[a-z]+$")  # `--set run.options.NAME=` chooses among the readings
    readings: list[Reading] = Field(default=READINGS, min_length=1)  # the first is the default
    left_out: list[Text] = []  # classes, or pictures as `domain/class/file`, that lie there and are not read

    @field_validator("readings")
    @classmethod
    def _names_differ(cls, value: list[Reading]) -> list[Reading]:
        if len({reading.name for reading in value}) != len(value):
            raise ValueError("two readings have the same name")
        return value

    def reading(self, name: str) -> Reading:
        """The reading of this name; the first when there is none."""
        return next((r for r in self.readings if r.name == name), self.readings[0])
