"""Ways of spoiling things: a valid document, one thing wrong with it, always something that must be refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

Path = tuple[str | int, ...]

# no NUL: no operating system hands one over on a command line
text = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=40)
numbers = st.one_of(st.integers(), st.floats())


def paths(document: Any, here: Path = ()) -> Iterator[Path]:
    """The place of every value of a document."""
    parts: Any = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in parts:
        yield (*here, key)
        yield from paths(value, (*here, key))


def at(document: Any, path: Path) -> Any:
    """The value at a place."""
    for key in path:
        document = document[key]
    return document


def put(document: Any, path: Path, value: Any) -> Any:
    """A copy with another value at a place."""
    changed = copy.deepcopy(document)
    at(changed, path[:-1])[path[-1]] = value
    return changed


def without(document: Any, path: Path) -> Any:
    """A copy without the value at a place."""
    changed = copy.deepcopy(document)
    del at(changed, path[:-1])[path[-1]]
    return changed


def of_another_type(value: Any) -> st.SearchStrategy[Any]:
    """Something that no field of this value's type takes."""
    lists = st.lists(st.integers(), min_size=1, max_size=3)
    tables = st.dictionaries(st.sampled_from(["a", "b"]), st.integers(), min_size=1, max_size=2)
    if isinstance(value, bool):
        return st.one_of(text, lists, tables, st.integers())
    if isinstance(value, int | float):
        return st.one_of(text, lists, tables, st.booleans(), st.sampled_from([float("nan"), float("inf"), 10**30]))
    if isinstance(value, str):
        return st.one_of(st.integers(), st.floats(allow_nan=False), lists, tables, st.booleans())
    return st.one_of(text, st.integers(), st.booleans(), st.floats(allow_nan=False))


def wrong_types(document: Any, where: Sequence[Path]) -> st.SearchStrategy[Any]:
    """The document with a value of another type at one of these places."""
    return st.sampled_from(list(where)).flatmap(
        lambda path: of_another_type(at(document, path)).map(lambda value: put(document, path, value))
    )


def torn(content: bytes, at_most: int) -> st.SearchStrategy[bytes]:
    """The beginning of a file."""
    return st.integers(0, at_most).map(lambda n: content[:n])


def flipped(content: bytes) -> st.SearchStrategy[bytes]:
    """A file with a few bits changed."""

    def flip(places: list[int]) -> bytes:
        changed = bytearray(content)
        for place in places:
            changed[place // 8] ^= 1 << place % 8
        return bytes(changed)

    return st.lists(st.integers(0, 8 * len(content) - 1), min_size=1, max_size=4, unique=True).map(flip)


def toml(value: Any) -> str:
    """A document as TOML: keys of the top on lines of their own, everything else inline."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(str(k))} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else json.dumps(str(value))


def toml_file(document: Mapping[str, Any]) -> bytes:
    """A whole file."""
    lines = (f"{json.dumps(str(k))} = {toml(v)}\n" for k, v in document.items())
    return "".join(lines).encode("utf-8", "surrogatepass")
