"""Verbs for what people look at: table, figure, report. They read the records and nothing else."""

from __future__ import annotations

import json as jsonlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmark.cli import RESULTS, Json, Results, app, comma_list, err, home, out, say_json
from benchmark.errors import UserError, unknown

SuiteName = Annotated[str, typer.Option("--suite", help="Suite; not needed when the records hold only one.")]
Tier = Annotated[str | None, typer.Option("--tier", help="Tier, when the records hold several.")]
Split = Annotated[str | None, typer.Option("--split", help="part or all.")]
Selection = Annotated[str, typer.Option("--selection", help="last, source-val, unsup, snd, bnm, dev, or oracle.")]
Statistics = Annotated[
    str | None,
    typer.Option(
        "--statistics", help="Batch-norm statistics at test: running or target; default target, reported: running."
    ),
]
Target = Annotated[str | None, typer.Option("--target", help="One target, where the kind shows one.")]
Over = Annotated[
    str | None,
    typer.Option("--over", help="With --kind gains: the row that the others are held against; default source-only:bn."),
]
Data = Annotated[
    str | None, typer.Option("--data", help="Data fingerprint (or its beginning), when there are several.")
]
Protocol = Annotated[int | None, typer.Option("--protocol", help="Protocol number, when there are several.")]
Threads = Annotated[int | None, typer.Option("--threads", help="Threads of the runs, when there are several.")]
Tuned = Annotated[bool | None, typer.Option("--tuned/--untuned", help="Only tuned, or only untuned runs.")]
Latest = Annotated[bool, typer.Option("--latest", help="Only the newest revision of each method.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Runs made with exactly these: run.KEY=VALUE.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder to write to.")]


def parse_settings(pairs: list[str] | None) -> dict[str, Any] | None:
    """`run.updates=20` → {"run.updates": 20}; None when nothing was asked for."""
    if not pairs:
        return None
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("run."):
            raise UserError(f"--set {pair} does not name settings of runs. Write it as --set run.updates=20")
        try:
            found[key] = jsonlib.loads(value)
        except ValueError:
            found[key] = value
    return found


def pick_suite(frame: Any, suite: str, results: Path) -> str:
    """The suite asked for, or the only one that has records."""
    if suite:
        return suite
    held = sorted(frame["suite"].dropna().unique())
    if len(held) == 1:
        return str(held[0])
    if not held:
        raise UserError(
            f"There are no records in {results}. Type: python -m benchmark run --suite digits --results {results}"
        )
    raise UserError(f"The records in {results} hold the suites {', '.join(held)}. Add --suite {held[0]}")


def given(**options: Any) -> dict[str, Any]:
    """The options that were really given."""
    return {key: value for key, value in options.items() if value not in (None, False)}


@app.command(
    epilog="Examples:\n\n`python -m benchmark table --suite digits` (the comparison, in the paper's shape)\n\n"
    "`python -m benchmark table --suite digits --kind ablation --format latex > ablation.tex`\n\n"
    "`python -m benchmark table --kind gains --over tsvdnet:code` (each rival minus one row, with intervals)\n\n"
    "`python -m benchmark table --kind averages` (the paper's own averages, checked; needs no records)"
)
def table(
    suite: SuiteName = "",
    kind: Annotated[
        str,
        typer.Option(
            help="comparison, gains, ablation, choices, inside, selection, statistics, validators, per-class, cost, reported, "
            "log, verdicts, averages."
        ),
    ] = "comparison",
    format: Annotated[str, typer.Option("--format", help="text, markdown, latex, csv, html.")] = "text",
    selection: Selection = "last",
    statistics: Statistics = None,
    tier: Tier = None,
    split: Split = None,
    target: Target = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            help="Rows to show: name, name:preset, adabn, upper-bound, card, paper, all; default: what was run."
        ),
    ] = None,
    over: Over = None,
    data: Data = None,
    protocol: Protocol = None,
    threads: Threads = None,
    tuned: Tuned = None,
    latest: Latest = False,
    set_: Set = None,
    out_: Out = None,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """A table from the records: printed, or written in every form with --out."""
    from benchmark import records, tables
    from benchmark.analysis import verdict
    from benchmark.launch.status import sent

    forms = {"text": "", "markdown": "md", "latex": "tex", "csv": "csv", "html": "html"}
    if format not in forms:
        raise unknown("format of tables", format, forms)
    for option, value in {"--statistics": statistics, "--methods": methods}.items():
        if kind in ("averages", "verdicts") and value:
            raise UserError(f"{option} does not go with --kind {kind}: leave it out.")
    if kind == "averages":
        made = tables.averages()
    elif kind == "verdicts":
        frame = records.load(results)
        made = tables.marked(verdict.table(verdict.judge(frame, tier=tier, selection=selection)), frame)
    else:
        if kind not in tables.KINDS:
            raise unknown("kind of table", kind, [*tables.KINDS, "verdicts", "averages"])
        frame = records.load(results, sent(results))
        options = given(tier=tier, split=split, data=data, protocol=protocol, threads=threads, latest=latest)
        options |= {"selection": selection, "statistics": statistics, "tuned": tuned, "settings": parse_settings(set_)}
        options["methods"] = comma_list(methods)
        if target is not None:
            if kind != "per-class":
                raise UserError("--target goes with --kind per-class: the other tables show every target.")
            options["target"] = target
        if over is not None:
            if kind != "gains":
                raise UserError(
                    "--over goes with --kind gains: the other tables say themselves what is held against what."
                )
            options["over"] = over
        made = tables.make(kind, frame, pick_suite(frame, suite, results), **options)
    paths = []
    if out_ is not None:
        stem = "-".join(filter(None, [made.suite, str(made.facts.get("tier", "")), made.kind]))
        paths = tables.write(made, out_, stem)
    if json:
        say_json({**tables.document(made), "files": [str(p) for p in paths]})
    elif paths:
        for path in paths:
            out.print(str(path), markup=False)
    elif format == "text":
        tables.show(made, out, whole="The whole table: the same command with --out FOLDER, or with: | less -S")
    else:
        sys.stdout.write(tables.FORMS[forms[format]](made))
    return 0


@app.command(
    epilog="Examples:\n\n`python -m benchmark figure --suite digits --kind tnn`\n\n"
    "`python -m benchmark figure --kind gains --over tsvdnet:code` (each rival minus one row)\n\n"
    "`python -m benchmark figure --suite pacs --kind tsne --target C --methods source-only,m3sda,tsvdnet`"
)
def figure(
    suite: SuiteName = "",
    kind: Annotated[
        str,
        typer.Option(
            help="tsne, similarity, uncertainty, tnn, curves, cost, gains, statistics, log, critical-difference."
        ),
    ] = "curves",
    target: Target = None,
    methods: Annotated[
        list[str] | None, typer.Option(help="Methods to show: name, name:preset or a group, comma-separated.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run to show; the lowest common one by default.")] = None,
    selection: Selection = "last",
    statistics: Statistics = None,
    over: Over = None,
    tier: Tier = None,
    split: Split = None,
    data: Data = None,
    protocol: Protocol = None,
    threads: Threads = None,
    latest: Latest = False,
    set_: Set = None,
    out_: Out = None,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """A figure as PNG and PDF, from curves and artifacts that every run stores. Default folder: RESULTS/figures."""
    from benchmark import figures, records
    from benchmark.analysis import asked, gains

    frame, words = records.load(results), comma_list(methods)
    options = given(target=target, seed=seed, tier=tier, split=split, data=data, threads=threads, latest=latest)
    options |= {
        "methods": asked.present(frame, words) or words or None,
        "selection": selection,
        "settings": parse_settings(set_),
    }
    options |= {"protocol": protocol, "statistics": statistics, "over": over}
    if kind == "critical-difference":
        drawn = figures.draw(kind, frame, suite or None, **options)
    else:
        suite = pick_suite(frame, suite, results)
        drawn = figures.draw(kind, frame, suite, **options)
    stem = "-".join(filter(None, [suite, tier, gains.kind_of(over) if over else kind, target]))
    paths = figures.write(drawn, out_ or home(results) / "figures", stem)
    if json:
        said = {"title": drawn.title, "alt": drawn.alt, "caption": drawn.caption, "conditions": drawn.conditions}
        say_json({**said, "files": [str(p) for p in paths]})
    else:
        out.print(f"{drawn.title}\n{drawn.caption}", markup=False)
        out.print(" ".join(drawn.conditions), style="dim", markup=False, highlight=False)
        for path in paths:
            out.print(str(path), markup=False)
    return 0


@app.command(
    epilog="Examples:\n\n`python -m benchmark report` (writes RESULTS/report.html)\n\n"
    "`python -m benchmark report --results results/study --out study.html --no-figures`\n\n"
    "`python -m benchmark report --serve` (in a browser, while a sweep runs)"
)
def report(
    out_: Annotated[Path | None, typer.Option("--out", help="File to write; default RESULTS/report.html.")] = None,
    figures: Annotated[
        bool | None,
        typer.Option(
            "--figures/--no-figures", help="Draw the figures (some seconds for each suite); default yes, served no."
        ),
    ] = None,
    sheets: Annotated[
        bool | None,
        typer.Option(
            "--sheets/--no-sheets", help="Show samples of the images that the suite generated; default yes, served no."
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the report.")] = "Benchmark report",
    serve: Annotated[
        bool, typer.Option("--serve", help="Show it in a browser on this machine; it follows the records.")
    ] = False,
    port: Annotated[int, typer.Option(help="Port of --serve; 0: a free one.", show_default=False)] = 0,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """One HTML file with everything: verdicts, tables that sort and filter, curves, figures, every run. Opens from disk."""
    from benchmark import report as page

    if serve and out_:
        raise UserError("--serve writes no file: leave out --out, or type the command without --serve for the file.")
    if port and not serve:
        raise UserError("--port goes with --serve.")
    drawn = {"figures": not serve if figures is None else figures, "sheets": not serve if sheets is None else sheets}
    if serve:
        return _serve(results, port, title, json=json, **drawn)
    path = page.write(results, out_ or home(results) / "report.html", title=title, **drawn)
    if json:
        say_json({"file": str(path), "bytes": path.stat().st_size})
    else:
        out.print(str(path), markup=False)
    return 0


def _serve(results: Path, port: int, title: str, *, figures: bool, sheets: bool, json: bool) -> int:
    """Serve until Ctrl-C, which is how it ends: no failure."""
    from benchmark.report.serve import Watched, serve

    def ready(url: str) -> None:
        if json:
            say_json({"url": url, "results": str(results)})
            sys.stdout.flush()
        else:
            out.print(f"The report of {results}: {url}", markup=False)
            out.print("It follows the records, on this machine alone. Ctrl-C ends it.")

    try:
        serve(Watched(results, title=title, figures=figures, sheets=sheets), port=port, ready=ready)
    except KeyboardInterrupt:
        err.print(
            f"No longer served. For a file that stays: python -m benchmark report --results {results}", markup=False
        )
        return 0
