"""Verbs that make runs and tell about them: run, plan, status, methods."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from benchmark import plan as planning
from benchmark import records
from benchmark.cli import RESULTS, DataRoot, Json, Results, app, comma_list, out, say_json
from benchmark.errors import UserError, unknown
from benchmark.records.selection import RULES, STATISTICS, normalise
from benchmark.spec import RunSpec, load_suite

# The options of a request, spelled once for `run` and `plan`.
SuiteOption = Annotated[
    str, typer.Option("--suite", help="digits, pacs, pacs-frozen, domainnet, or a suite file of your own.")
]
Tier = Annotated[
    str, typer.Option("--tier", help="mini (minutes, no download), lite (real images, overnight), paper (cluster).")
]
Split = Annotated[str, typer.Option("--split", help="part or all; default: the suite's.")]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--methods",
        help="Names, name:preset, path/file.py:Class[@preset], upper-bound, all. Comma-separated or repeated.",
    ),
]
Targets = Annotated[list[str] | None, typer.Option("--targets", help="Target domains; default: all.")]
Standards = Annotated[
    list[str] | None,
    typer.Option("--standards", help="multi-source, combined, single-best; default: each method's own."),
]
Seeds = Annotated[list[str] | None, typer.Option("--seeds", help="For example 0-4 or 0,1,2; default 0.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="method.key=value[,value…]; several values make a grid; run.KEY for the harness."),
]
Tuned = Annotated[Path | None, typer.Option("--tuned", help="A file written by `tune`.")]
LimitSteps = Annotated[int | None, typer.Option("--limit-steps", min=1, help="Stop each run after this many updates.")]
StageBudget = Annotated[
    str, typer.Option("--stage-budget", help="shared (default) or full: each stage gets the whole budget.")
]
Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads of each run; part of its identity.")]


def request_of(
    suite: str,
    tier: str,
    split: str,
    methods: list[str] | None,
    targets: list[str] | None,
    standards: list[str] | None,
    seeds: list[str] | None,
    settings: list[str] | None,
    tuned: Path | None,
    limit_steps: int | None,
    stage_budget: str,
    threads: int,
) -> planning.Request:
    """The command line as a request."""
    return planning.Request(
        suite=suite,
        tier=tier,
        split=split,
        methods=comma_list(methods),
        targets=comma_list(targets),
        standards=comma_list(standards),
        seeds=planning.parse_seeds(comma_list(seeds) or ["0"]),
        settings=settings or [],
        tuned=tuned,
        limit_steps=limit_steps,
        stage_budget=stage_budget,
        threads=threads,
    )


@app.command(
    epilog="Examples:\n\n"
    "`python -m benchmark run --suite digits`\n\n"
    "`python -m benchmark run --suite digits --methods tsvdnet,dann --targets mm,sv --seeds 0-4`\n\n"
    "`python -m benchmark run --suite digits --set tsvdnet.lam=1,10,100 --methods tsvdnet`\n\n"
    "`python -m benchmark run --suite digits --tier lite --data-root DATA`"
)
def run(
    suite: SuiteOption,
    tier: Tier = "",
    split: Split = "",
    methods: Methods = None,
    targets: Targets = None,
    standards: Standards = None,
    seeds: Seeds = None,
    set_: Set = None,
    tuned: Tuned = None,
    limit_steps: LimitSteps = None,
    stage_budget: StageBudget = "",
    threads: Threads = 1,
    workers: Annotated[
        int, typer.Option(min=0, help="Runs at the same time; 0: as many as the cores or the GPU can serve.")
    ] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, or auto.")] = "auto",
    selection: Annotated[
        str, typer.Option(help="last, source-val, unsup, snd, bnm, dev or oracle, for the table at the end.")
    ] = "last",
    statistics: Annotated[
        str | None, typer.Option(help="Batch-norm statistics at test, for the table at the end: target or running.")
    ] = None,
    keep_going: Annotated[bool, typer.Option("--keep-going/--fail-fast", help="Go on when a run fails.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and stop.")] = False,
    executor: Annotated[str, typer.Option(help="local or slurm.")] = "local",
    cluster: Annotated[Path | None, typer.Option(help="Cluster profile, with --executor slurm.")] = None,
    results: Results = RESULTS,
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """Run a suite: plan, launch, show the comparison table. What is done already is not run again."""
    from benchmark.cli import session
    from benchmark.launch.local import default_workers

    if normalise(selection) not in RULES:
        raise unknown("selection rule", selection, [r.replace("_", "-") for r in RULES])
    if statistics is not None and statistics not in STATISTICS:
        raise unknown("kind of statistics at test", statistics, STATISTICS)
    if executor not in ("local", "slurm"):
        raise unknown("executor", executor, ["local", "slurm"])
    chosen = pick_device(device)
    request = request_of(
        suite, tier, split, methods, targets, standards, seeds, set_, tuned, limit_steps, stage_budget, threads
    )  # fmt: skip
    plan = planning.make(request, data_root)
    writable(results)
    shown = {"selection": normalise(selection), "statistics": statistics}
    work = session.Session(plan, results=results, data_root=data_root, json=json, shown=shown)
    work.announce()
    if dry_run:
        return work.list_runs()
    if executor == "slurm":
        from benchmark.cli import cluster as verbs

        return verbs.send(plan, results=results, data_root=data_root, cluster=cluster, json=json)
    workers = workers or default_workers(plan.suite.tier(plan.tier), threads, chosen)
    return work.run(workers=workers, device=chosen, fail_fast=not keep_going)


@app.command(
    epilog="Example: `python -m benchmark plan --suite digits --tier paper --methods all --seeds 0-2`",
)
def plan(
    suite: SuiteOption,
    tier: Tier = "",
    split: Split = "",
    methods: Methods = None,
    targets: Targets = None,
    standards: Standards = None,
    seeds: Seeds = None,
    set_: Set = None,
    tuned: Tuned = None,
    limit_steps: LimitSteps = None,
    stage_budget: StageBudget = "",
    threads: Threads = 1,
    results: Results = RESULTS,
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """Count the runs of a request, say which are done and why, and estimate the hours."""
    from benchmark.cli import session

    request = request_of(
        suite, tier, split, methods, targets, standards, seeds, set_, tuned, limit_steps, stage_budget, threads
    )  # fmt: skip
    made = planning.make(request, data_root, bind=False)
    work = session.Session(made, results=results, data_root=data_root, json=json)
    work.announce()
    return work.list_runs()


@app.command(epilog="Example: `python -m benchmark methods tsvdnet`")
def methods(
    name: Annotated[str, typer.Argument(help="A method, for its hyper-parameters and presets.")] = "",
    json: Json = False,
) -> int:
    """List the methods, or one method's hyper-parameters, presets and tuning ranges."""
    from benchmark.cli import describe

    document = describe.method(name) if name else describe.methods()
    if json:
        say_json(document)
    else:
        out.print(describe.words(document))
    return 0


def writable(folder: Path) -> None:
    """A results folder that can be written to, or a sentence."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(
            f"The results folder {folder} cannot be written to ({error.strerror}). Choose another with --results FOLDER."
        ) from None


def pick_device(name: str) -> str:
    """`auto` is the GPU if there is one."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind = name.partition(":")[0]
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise unknown("device", name, ["auto", "cpu", "cuda"])
    if kind == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "This machine has no GPU that torch can use. Type --device cpu, or see: python -m benchmark doctor"
        )
    return name


def find_run(results: Path, run_id: str) -> tuple[Path, RunSpec]:
    """A run by its id, or an unambiguous beginning of it."""
    found = [Path(e.path) for e in records.run_directories(results) if e.name.startswith(run_id)]
    if len(found) != 1:
        what = "No run" if not found else f"{len(found)} runs"
        raise UserError(
            f"{what} in {results} begins with {run_id!r}. Type: python -m benchmark status --results {results}"
        )
    from benchmark.files import read_json

    document = read_json(found[0] / "spec.json")
    if not isinstance(document, dict):
        raise UserError(f"{found[0] / 'spec.json'} is missing or damaged. Type: python -m benchmark audit {results}")
    load_suite(str(document.get("suite")))
    return found[0], RunSpec.from_json(document)
