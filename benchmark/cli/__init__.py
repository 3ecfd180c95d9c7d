"""The command line: one module of verbs for each kind of question. Verbs parse, call, print; nothing is computed here.

A verb's module is imported when the verb is called: `VERBS` knows what there is, in the order in which one asks.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from benchmark.errors import UserError

# question → verb → (module, what it does in one line of an 80-column screen)
VERBS = {
    "Before: what is here, what will it take?": {
        "doctor": ("machine", "What this machine has, and what to type for what is missing."),
        "data": ("data", "The images: list, fetch, prepare, check, look at them."),
        "suite": ("suite", "Images of your own: new writes a suite file for a folder of them."),
        "methods": ("runs", "The methods: what there is; new, check: one of your own."),
        "explain": ("explain", "What a method's settings imply: can each of its parts act?"),
        "profile": ("machine", "Where the time of a training step goes."),
        "plan": ("runs", "Count the runs of a request; estimate the hours."),
    },
    "Run: make the records": {
        "run": ("runs", "Run a suite, show its table. What is done is not run again."),
        "tune": ("study", "Tune every method equally, without target labels."),
        "status": ("cluster", "The state of every run: progress, node, time left."),
        "logs": ("cluster", "What a run printed, and why it failed."),
        "retry": ("cluster", "Send failed or interrupted runs to SLURM again."),
        "cancel": ("cluster", "Take runs out of SLURM's queue."),
    },
    "Read: what came out?": {
        "table": ("look", "A table in the paper's shape, in text, Markdown, LaTeX, …"),
        "figure": ("look", "A figure as PNG and PDF."),
        "report": ("look", "Everything in one HTML file."),
        "reproduce": ("reproduce", "The paper's tables and figures: run, then ours beside printed."),
    },
    "Trust: is it true?": {
        "audit": ("trust", "Check every record: hashes, curve, identity, place."),
        "verify": ("trust", "Run a finished run, or render published tables, again."),
    },
    "Hand over: what do others get?": {
        "publish": ("handover", "Finished runs to results/NAME, with every table."),
        "bundle": ("handover", "A study in one file that every verb reads as a folder."),
        "merge": ("handover", "Results of several people in one study, each run once."),
        "unpack": ("handover", "A published study back as a tree, a folder a run."),
        "export": ("handover", "All runs in one file for other tools; curves too."),
        "predict": ("handover", "A model that a run kept, on pictures of yours: a table."),
    },
}
MODULES = {verb: module for verbs in VERBS.values() for verb, (module, _) in verbs.items()}


class Verbs(TyperGroup):
    """Lists every verb by its line in `VERBS`; the verb itself is imported when it is called, or its options completed."""

    def __init__(self, *, commands: Any, **settings: Any) -> None:
        lines = [
            TyperCommand(name, short_help=line, rich_help_panel=question)
            for question, verbs in VERBS.items()
            for name, (_, line) in verbs.items()
        ]
        super().__init__(commands=lines, **settings)
        self.imported = commands  # the verbs of the modules that are here

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Who is meant by the first argument: the verb in the place of its line."""
        name, line, rest = super().resolve_command(ctx, args)
        if name is None or line is None:  # half a name that a shell wants completed
            return name, line, rest
        importlib.import_module(f"benchmark.cli.{MODULES[name]}")
        whole = typer.main.get_command(app)
        assert isinstance(whole, Verbs)
        return name, whole.imported[name], rest


app = typer.Typer(
    name="benchmark",
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 something failed, 2 bad request, 130 interrupted.",
)


@app.callback()
def benchmark() -> None:
    """Reproducibility benchmark for multi-source domain adaptation. Start with: `python -m benchmark run --suite digits`"""


out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)

# Options that several verbs share, spelled once.
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document for programs instead of text.")]
Results = Annotated[
    Path,
    typer.Option(
        "--results",
        envvar="BENCHMARK_RESULTS",
        help="Where the records are: a folder, or a bundle.",
        show_default="runs",
    ),
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


def home(results: Path, option: str = "--out") -> Path:
    """Where a verb puts what it makes when it is not told: among the results, unless they are one file."""
    if results.is_file():
        raise UserError(f"{results} is one file, and nothing is written into it. Say where to write: {option}")
    return results


def comma_list(values: list[str] | None) -> list[str]:
    """`--x a,b --x c` → [a, b, c]."""
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]


def quiet() -> bool:
    """No live display when nobody watches, or on a terminal that cannot go back a line."""
    return not sys.stderr.isatty() or err.is_dumb_terminal or bool(os.environ.get("CI"))


@contextlib.contextmanager
def counting(words: str, json: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """One bar for many things alike, `tell(done, of how many)`; nothing when nobody watches."""
    if json or quiet():
        yield None
        return
    from rich.progress import Progress

    with Progress(console=err) as progress:
        task = progress.add_task(words, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextlib.contextmanager
def bars(json: bool) -> Iterator[Callable[[Any, int, int], None] | None]:
    """A progress bar for each file (what has the attribute `file`); nothing when nobody watches."""
    if json or quiet():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err) as progress:
        tasks: dict[str, Any] = {}

        def tell(source: Any, done: int, total: int) -> None:
            if source.file not in tasks:
                tasks[source.file] = progress.add_task(source.file, total=None)
            progress.update(tasks[source.file], completed=done, total=total or None)

        yield tell


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def volume(size: int) -> str:
    """Bytes as people say them."""
    if size < 1e9:
        return f"{max(size / 1e6, 0.1):.1f} MB"
    return f"{size / 1e9:.1f} GB"
