"""What installed packages offer: methods and readers by name, through entry points. Light: nothing of them is imported here
before it is asked for.

    [project.entry-points."msda_benchmark.methods"]
    my-method = "my_package.my_method:MyMethod"
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from methods.errors import MethodError

METHODS, READERS = "msda_benchmark.methods", "msda_benchmark.readers"


def offered(group: str) -> dict[str, EntryPoint]:
    """{name: where it is} of a group; of names that can be typed, and that nobody else offers too."""
    return {name: found[0] for name, found in _all(group, tuple(sys.path)).items() if len(found) == 1}


def known(group: str, name: str) -> bool:
    """Does any package offer this name? `load` says what is wrong with it, if something is."""
    return name in _all(group, tuple(sys.path))


@functools.lru_cache(maxsize=16)
def _all(group: str, path: tuple[str, ...]) -> dict[str, list[EntryPoint]]:
    """Every offer by name. `path` is where Python looks: elsewhere are other packages."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for entry in importlib.metadata.entry_points(group=group):
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", entry.name):
            found.setdefault(entry.name, {})[whose(entry)] = entry  # a package that is found twice is one
    return {name: list(entries.values()) for name, entries in sorted(found.items())}


def whose(entry: EntryPoint) -> str:
    """«my-package 1.2»: the package that offers it."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.module


def load(group: str, name: str) -> Any:
    """What a package offers under `name`, imported now; whatever is wrong with the package is one sentence."""
    offers = _all(group, tuple(sys.path)).get(name, [])
    kind = group.rpartition(".")[2].removesuffix("s")
    if len(offers) > 1:
        packages = ", ".join(map(whose, offers))
        raise MethodError(
            f"The {kind} {name!r} is offered by more than one package: {packages}. Uninstall all but one."
        )
    if not offers:
        raise MethodError(f"there is no {kind} {name!r}")
    try:
        return offers[0].load()
    except Exception as error:  # anything can be wrong with somebody else's package
        raise MethodError(
            f"The {kind} {name!r} of the package {whose(offers[0])} could not be imported: {type(error).__name__}: {error}"
        ) from error


def identity(name: str) -> str:
    """What stands for an installed method in run_id: its package, the version, and the hash of its file, which an editable
    install changes under the same version."""
    entry = offered(METHODS)[name]
    spec = importlib.util.find_spec(entry.module)
    file = Path(spec.origin) if spec is not None and spec.origin else None
    content = file.read_bytes() if file is not None and file.is_file() else b""
    return f"package:{whose(entry)}:{hashlib.sha256(content).hexdigest()[:16]}"
