"""Verbs that make runs and tell about them: run, plan, status, methods."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from benchmark import plan as planning
from benchmark import records
from benchmark.cli import RESULTS, DataRoot, Json, Results, app, comma_list, err, out, say_json
from benchmark.errors import UserError, unknown
from benchmark.launch.device import Gpu, spelled, survey
from benchmark.records import models
from benchmark.records import track as trackers
from benchmark.records.selection import RULES, STATISTICS, normalise
from benchmark.records.study import read_json
from benchmark.spec import RunSpec, load_suite

# The options of a request, spelled once for `run` and `plan`.
SuiteOption = Annotated[
    str,
    typer.Option("--suite", help="digits, pacs, domainnet, … (`data list` names all), or a suite file of your own."),
]
Tier = Annotated[
    str, typer.Option("--tier", help="mini (minutes, no download), lite (real images, overnight), paper (cluster).")
]
Split = Annotated[str, typer.Option("--split", help="part or all; default: the suite's.")]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--methods",
        help="Names, name:preset, path/file.py:Class[@preset], upper-bound; groups: card (the design card's seven), paper "
        "(the systems of its tables), all. Comma-separated or repeated.",
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
KeepModel = Annotated[
    str, typer.Option("--keep-model", help="Trained models to keep: none, last, or selected (each label-free rule's).")
]
OWN = {"new": "my-method", "check": "my_method.py:MyMethod"}
Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads of each run; part of its identity.")]


Workers = Annotated[
    int, typer.Option(min=0, help="Runs at the same time; 0: as many as the cores or the GPUs can serve.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, cuda:0,2, or auto: every GPU, if there is one.")]
PerDevice = Annotated[
    int, typer.Option(min=0, help="Runs at the same time on each GPU; 0: as many as its free memory holds, at most 4.")
]


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
    "`python -m benchmark run --suite digits --tier lite --data-root DATA`\n\n"
    "`python -m benchmark run --suite digits --track tensorboard` (then: tensorboard --logdir runs/tracked)"
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
    workers: Workers = 0,
    device: Device = "auto",
    per_device: PerDevice = 0,
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
    keep_model: KeepModel = "none",
    track: Annotated[
        list[str] | None,
        typer.Option(help="Watch it live: tensorboard, wandb, mlflow, trackio, or path/file.py:Class. Repeatable."),
    ] = None,
    results: Results = RESULTS,
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """Run a suite: plan, launch, show the comparison table. What is done already is not run again."""
    from benchmark.cli.parts import ready, session
    from benchmark.launch.device import default_workers

    if normalise(selection) not in RULES:
        raise unknown("selection rule", selection, [r.replace("_", "-") for r in RULES])
    if statistics is not None and statistics not in STATISTICS:
        raise unknown("kind of statistics at test", statistics, STATISTICS)
    if executor not in ("local", "slurm"):
        raise unknown("executor", executor, ["local", "slurm"])
    models.check_choice(keep_model)
    watched_by = track_with(comma_list(track))
    gpus = pick_gpus(device, per_device) if executor == "local" else []
    request = request_of(
        suite, tier, split, methods, targets, standards, seeds, set_, tuned, limit_steps, stage_budget, threads
    )  # fmt: skip
    plan = planning.make(request, data_root)
    writable(results)
    shown = {"selection": normalise(selection), "statistics": statistics}
    work = session.Session(plan, results=results, data_root=data_root, json=json, shown=shown, keep_model=keep_model)
    ready.check_networks(work.todo)
    ready.check_weights(work.todo, data_root)
    work.announce()
    if dry_run:
        return work.list_runs()
    if executor == "slurm":
        from benchmark.cli import cluster as verbs

        return verbs.send(
            plan,
            results=results,
            data_root=data_root,
            cluster=cluster,
            json=json,
            keep_model=keep_model,
            track=watched_by,
        )
    workers = workers or default_workers(plan.specs, gpus, per_device)
    return work.run(workers=workers, device=spelled(gpus), fail_fast=not keep_going, track=watched_by)


@app.command(
    epilog="Examples:\n\n`python -m benchmark plan --suite digits --tier paper --methods paper --seeds 0-2`\n\n"
    "`python -m benchmark plan --suite domainnet --tier paper --methods all --gpu a100`",
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
    gpu: Annotated[
        str,
        typer.Option(
            help="Hours on this GPU, from what the runs compute: a100, h100, l40s, rtx3090, v100, … (the first time a minute)."
        ),
    ] = "",
    keep_model: KeepModel = "none",
    results: Results = RESULTS,
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """Count the runs of a request, say which are done and why, and estimate the hours, and the disk of kept models."""
    from benchmark.cli.parts import ready, session

    models.check_choice(keep_model)
    count: planning.Count | None = None
    if gpu:  # what the table does not have is counted
        from benchmark.plan import counting

        count = counting.count
    request = request_of(
        suite, tier, split, methods, targets, standards, seeds, set_, tuned, limit_steps, stage_budget, threads
    )  # fmt: skip
    made = planning.make(request, data_root, bind=False)
    ready.check_networks(made.specs)
    work = session.Session(
        made, results=results, data_root=data_root, json=json, gpu=gpu, count=count, keep_model=keep_model
    )
    work.announce()
    return work.list_runs()


@app.command(
    epilog="Examples:\n\n"
    "`python -m benchmark methods tsvdnet`\n\n"
    "`python -m benchmark methods new my-method`\n\n"
    "`python -m benchmark methods check my_method.py:MyMethod`\n\n"
    "`python -m benchmark methods check dann --network timm:test_vit --image-size 32`"
)
def methods(
    name: Annotated[str, typer.Argument(help="A method, for its hyper-parameters and presets; or: new, check.")] = "",
    what: Annotated[str, typer.Argument(help="After new: a name. After check: a method, path/file.py:Class.")] = "",
    network: Annotated[
        str,
        typer.Option(help="With check: on this network (timm:test_vit, resnet50, …), not on a narrow digit network."),
    ] = "",
    image_size: Annotated[
        int, typer.Option(help="With --network: the side of its images.", show_default="its own")
    ] = 0,
    json: Json = False,
) -> int:
    """List the methods, or tell one's hyper-parameters; start a new one (new), try the contract on one (check)."""
    from benchmark.cli.parts import describe

    if network and name != "check":
        raise UserError(
            f"--network says what methods are checked on: python -m benchmark methods check dann --network {network}"
        )
    if image_size and not network:
        raise UserError("--image-size is the side of --network's images, and no network is named: add --network NAME.")
    if name in OWN and not what:
        raise UserError(f"Say which. Type: python -m benchmark methods {name} {OWN[name]}")
    if what and name not in OWN:
        raise unknown("question about methods", name, OWN)
    if name == "new":
        return describe.new(what)
    if name == "check":
        return describe.check(what, json, describe.network(network, image_size) if network else None)
    document = describe.method(name) if name else describe.methods()
    if json:
        say_json(document)
    else:
        out.print(describe.words(document), markup=False)
    return 0


def track_with(names: list[str]) -> list[str]:
    """Trackers by name; one that is not installed here is said at once, and costs nothing else."""
    found = trackers.check(names)
    for name, words in trackers.missing(found).items():
        err.print(f"not tracked with {name}: {words}", markup=False, style="yellow")
    return found


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


NO_GPU = "This machine has no GPU that torch can use. Type --device cpu, or see: python -m benchmark doctor"


def pick_device(name: str) -> str:
    """The device of one process; `auto` is the GPU if there is one."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise unknown("device", name, ["auto", "cpu", "cuda"])
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(NO_GPU)
    return name


def pick_gpus(name: str, per_device: int = 0) -> list[Gpu]:
    """The GPUs of a pool, each asked to compute something; [] is the CPU. `auto` and `cuda` are all that work."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+(,\d+)*)?", name):
        raise unknown("device", name, ["auto", "cpu", "cuda", "cuda:0,1"])
    gpus = [] if name == "cpu" else survey()
    named = [int(index) for index in name.partition(":")[2].split(",") if index]
    for index in named:
        fault = next((gpu.fault for gpu in gpus if gpu.index == index), "it is not there")
        if fault:
            raise UserError(f"GPU {index} of --device {name} cannot be used: {fault}. See: python -m benchmark doctor")
    for gpu in gpus:
        if gpu.fault:
            err.print(f"left out: {gpu.name}: {gpu.fault}", markup=False, style="yellow")
    chosen = [gpu for gpu in gpus if not gpu.fault and (not named or gpu.index in named)]
    if not chosen and (name.startswith("cuda") or per_device):
        raise UserError(NO_GPU)
    return chosen


def find_run(results: Path, run_id: str) -> tuple[Path, RunSpec]:
    """A run by its id, or an unambiguous beginning of it."""
    found = [Path(e.path) for e in records.run_directories(results) if e.name.startswith(run_id)]
    if len(found) != 1:
        what = "No run" if not found else f"{len(found)} runs"
        raise UserError(
            f"{what} in {results} begins with {run_id!r}. Type: python -m benchmark status --results {results}"
        )
    document = read_json(found[0] / "spec.json")
    if not isinstance(document, dict):
        raise UserError(f"{found[0] / 'spec.json'} is missing or damaged. Type: python -m benchmark audit {results}")
    load_suite(str(document.get("suite")))
    return found[0], RunSpec.from_json(document)
