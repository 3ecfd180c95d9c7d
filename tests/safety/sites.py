"""Which public errors have been met: every place that makes one, and a watch that notes the places as tests reach them.

Public errors are those whose message a user reads. At the end of a whole test run (`make test`) a place that no test
reached fails the run, by name: see `tests/conftest.py`.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("benchmark", "methods", "tsvdnet")
MAKERS = {"UserError", "MethodError", "RunFailed", "RunHeld", "LeaseLost", "unknown"}
VARIABLE = "BENCHMARK_ERROR_SITES"  # folder in which each test process notes what it met

# Met where `make test` does not look: the reason stands beside each.
ELSEWHERE: dict[str, str] = {}


@dataclass(frozen=True)
class Site:
    """One expression that makes a public error."""

    file: str
    function: str
    first: int
    last: int
    words: str

    @property
    def key(self) -> str:
        """A name that survives edits elsewhere in the file."""
        return f"{self.file}:{self.function}: {self.words}"


def sites() -> Iterator[Site]:
    """Every place in the packages."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield from _in(ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(ROOT)), "")


def _in(node: ast.AST, file: str, function: str) -> Iterator[Site]:
    for child in ast.iter_child_nodes(node):
        name = child.name if isinstance(child, ast.FunctionDef | ast.ClassDef) else ""
        inner = f"{function}.{name}".strip(".") if name else function
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in MAKERS:
            yield Site(file, function, child.lineno, child.end_lineno or child.lineno, _words(child))
        yield from _in(child, file, inner)


def _words(call: ast.Call) -> str:
    """The beginning of the message as it stands in the source."""
    parts = [n.value for n in ast.walk(call) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return " … ".join(" ".join(p.split()) for p in parts if p.strip())[:80]


def watch() -> None:
    """From now on, note every place of the packages on the stack of a public error."""
    from benchmark.errors import RunFailed, UserError
    from benchmark.records.lease import LeaseLost, RunHeld
    from methods.contract import MethodError

    met: set[tuple[str, int]] = set()
    for kind in (UserError, MethodError, RunFailed, RunHeld, LeaseLost):
        _watch(kind, met)


def _watch(kind: Any, met: set[tuple[str, int]]) -> None:
    before = kind.__init__

    def noting(self: Any, *arguments: Any, **named: Any) -> None:
        before(self, *arguments, **named)
        frame, steps = sys._getframe(1), 0
        while frame is not None and steps < 4:  # the maker may be a helper (`unknown`): its callers count too
            _note((frame.f_code.co_filename, frame.f_lineno), met)
            frame, steps = frame.f_back, steps + 1  # type: ignore[assignment]

    kind.__init__ = noting


def _note(place: tuple[str, int], met: set[tuple[str, int]]) -> None:
    folder = os.environ.get(VARIABLE)
    if folder is None or place in met:
        return
    met.add(place)
    path = Path(place[0])
    if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PACKAGES:
        with open(f"{folder}/{os.getpid()}", "a", encoding="utf-8") as file:
            file.write(f"{path.relative_to(ROOT)}\t{place[1]}\n")


def unmet(folder: Path) -> list[Site]:
    """Places that no process has noted and nobody has listed."""
    met = {
        tuple(line.split("\t")) for note in folder.iterdir() for line in note.read_text(encoding="utf-8").splitlines()
    }
    lines: dict[str, set[int]] = {}
    for file, line in met:
        lines.setdefault(file, set()).add(int(line))
    return [
        site
        for site in sites()
        if site.key not in ELSEWHERE and not any(site.first <= line <= site.last for line in lines.get(site.file, ()))
    ]
