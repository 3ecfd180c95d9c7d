"""The command line: one module of verbs for each kind of question. Verbs parse, call, print; nothing is computed here.

A verb's module is imported when the verb is called: `VERBS` knows what there is, in the order in which one asks.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

# question → verb → (module, what it does in one line of an 80-column screen)
VERBS = {
    "Before: what is here, what will it take?": {
        "doctor": ("keep", "What this machine has, and what to type for what is missing."),
        "data": ("data", "The images: list, fetch, prepare, check, look at them."),
        "methods": ("runs", "The methods: hyper-parameters, presets, tuning ranges."),
        "explain": ("explain", "Whether T-SVDNet's low-rank term can act at given settings."),
        "profile": ("speed", "Where the time of a training step goes."),
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
        "audit": ("care", "Check every record: hashes, curve, identity, place."),
        "verify": ("keep", "Run a finished run, or render published tables, again."),
    },
    "Hand over: what do others get?": {
        "publish": ("keep", "Finished runs to results/NAME, with every table."),
        "unpack": ("keep", "A published study back as a tree, a folder a run."),
        "export": ("look", "All runs in one file for other tools; curves too."),
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
