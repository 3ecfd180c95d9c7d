"""The house: rooms of a size one can read, light doors, no import hidden in a function. Layers: import-linter (make lint)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = sorted(p.parent for p in (ROOT / "benchmark").rglob("__init__.py"))
OURS = ("benchmark", "methods", "tsvdnet")
# what is fetched by name when it is wanted: verbs, and methods (whose contract brings torch)
BY_NAME = ("benchmark/cli/", "benchmark/__main__.py", "benchmark/spec/runspec.py", "benchmark/analysis/rows.py")


def modules() -> Iterator[tuple[str, str]]:
    for package in OURS:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_a_room_has_few_modules_and_a_door_that_says_what_it_answers(room: Path) -> None:
    ground = room == ROOT / "benchmark"
    assert len(list(room.glob("*.py"))) <= (6 if ground else 14)
    assert ground or ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))


def test_a_module_above_350_lines_says_why() -> None:
    long = {name: text for name, text in modules() if len(text.splitlines()) > 350}
    assert [
        name for name, text in long.items() if "Long because" not in (ast.get_docstring(ast.parse(text)) or "")
    ] == []


def test_no_import_of_our_own_hides_in_a_function() -> None:
    hidden = []
    for name, text in modules():
        for function in ast.walk(ast.parse(text)):
            if not isinstance(function, ast.FunctionDef) or name.startswith(BY_NAME):
                continue
            for node in ast.walk(function):
                wanted = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                wanted += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                hidden += [f"{name}: {function.name}: {w}" for w in wanted if w.partition(".")[0] in OURS]
    assert hidden == []


def test_going_through_a_door_does_not_wait_for_torch() -> None:
    doors = ["spec", "records", "data", "run", "plan", "launch", "paper", "analysis", "tables", "figures", "report"]
    late = ["launch.local", "launch.slurm", "launch.worker", "launch.status", "analysis.verdict"]
    lines = [f"import benchmark.{name}; assert 'torch' not in sys.modules, {name!r}" for name in (*doors, *late)]
    subprocess.run([sys.executable, "-c", "\n".join(["import sys", *lines])], check=True, cwd=ROOT, timeout=120)


def test_the_names_that_stay() -> None:
    from benchmark import records, run, spec

    assert run.execute.__module__ == "benchmark.run.start"
    assert spec.RunSpec.__module__ == "benchmark.spec.runspec"
    assert records.load.__module__ == "benchmark.records.frame"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = run.nothing  # type: ignore[attr-defined]
