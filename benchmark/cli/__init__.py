"""The command line: one module of verbs for each kind of question. Verbs parse, call, print; nothing is computed here."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

app = typer.Typer(
    name="benchmark",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Reproducibility benchmark for multi-source domain adaptation. Start with: `python -m benchmark run --suite digits`",
    epilog="Exit codes: 0 done, 1 something failed, 2 bad request, 130 interrupted.",
)
out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)

# Options that several verbs share, spelled once.
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document for programs instead of text.")]
Results = Annotated[
    Path, typer.Option("--results", envvar="BENCHMARK_RESULTS", help="Where the records are.", show_default="runs")
]
DataRoot = Annotated[
    Path | None,
    typer.Option(
        "--data-root", envvar="BENCHMARK_DATA_ROOT", help="Folder with the prepared data (see `data --help`)."
    ),
]
RESULTS = Path("runs")


def say_json(document: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(document, indent=2, default=str) + "\n")


def comma_list(values: list[str] | None) -> list[str]:
    """`--x a,b --x c` → [a, b, c]."""
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]


def quiet() -> bool:
    """No live display when nobody watches."""
    return not sys.stderr.isatty() or bool(os.environ.get("CI"))


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


# Verbs that people type while they wait: only their module is imported, since torch alone takes seconds.
_QUICK = {
    **dict.fromkeys(("status", "logs", "cancel"), "cluster"),
    **dict.fromkeys(("table", "figure", "report", "export"), "look"),
}


def _modules() -> tuple[str, ...]:
    """The modules whose verbs are wanted: all of them, unless the command line asks for a quick one."""
    ours = Path(sys.argv[0]).parts[-2:] == ("benchmark", "__main__.py") or Path(sys.argv[0]).name == "msda-benchmark"
    if ours and len(sys.argv) > 1 and sys.argv[1] in _QUICK:
        return (_QUICK[sys.argv[1]],)
    return ("runs", "keep", "data", "look", "explain", "study", "cluster", "care", "speed", "reproduce")


for _verbs in _modules():
    try:
        importlib.import_module(f"benchmark.cli.{_verbs}")
    except ModuleNotFoundError as _missing:
        if _missing.name != f"benchmark.cli.{_verbs}":
            raise
