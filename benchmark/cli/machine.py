"""Verbs that ask what this machine has, and where a step's time goes on it: doctor, profile."""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmark.cli import DataRoot, Json, app, comma_list, err, out, quiet, say_json
from benchmark.cli.runs import Set, SuiteOption, pick_device
from benchmark.spec import resolve


@app.command(
    epilog="Examples:\n\n`python -m benchmark doctor`\n\n"
    "`python -m benchmark doctor --study results/study` (where this environment differs from that of a study)"
)
def doctor(
    study: Annotated[
        Path | None, typer.Option(help="Say first where this environment differs from this study's.")
    ] = None,
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """What this machine has: torch, GPU, SLURM, data sets, and what to type to get what is missing."""
    from benchmark.launch import doctor as examination
    from benchmark.launch.environment import findings as beside

    findings: list[dict[str, Any]] = (beside(study) if study else []) + examination.examine(data_root)
    if json:
        say_json(findings)
    else:
        for f in findings:
            out.print(
                f"{'ok ' if f['ok'] else '–  '} {f['what']}: {f['found']}" + (f"  → {f['next']}" if f["next"] else ""),
                markup=False,
            )
    return 0


@app.command(epilog="Example: `python -m benchmark profile --suite digits --method source-only,tsvdnet`")
def profile(
    suite: SuiteOption,
    method: Annotated[
        list[str] | None, typer.Option("--method", help="Methods, comma-separated; default tsvdnet.")
    ] = None,
    tier: Annotated[str, typer.Option(help="mini, lite or paper.")] = "",
    target: Annotated[str, typer.Option(help="Target domain; default: the suite's first.")] = "",
    steps: Annotated[int, typer.Option(min=1, help="Steps to time.")] = 30,
    threads: Annotated[int, typer.Option(min=1, help="Threads.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
    picture: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("runs/profile.png"),
    set_: Set = None,
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """Time the parts of a training step: data, forward, backward, optimiser, method; and evaluation. `plan` reads the rate."""
    from benchmark.plan import Request, make, rates
    from benchmark.run import profile as profiling

    request = Request(
        suite, tier, methods=comma_list(method) or ["tsvdnet"], targets=[target] if target else [], threads=threads,
        settings=set_ or [],
    )  # fmt: skip
    plan = make(request, data_root)
    first = plan.suite.columns[0]
    specs = [s for s in plan.specs if s.target == (target or first)]
    profiles = []
    for number, spec in enumerate(specs, 1):

        def tell(done: int, total: int, spec_name: str = spec.name, number: int = number) -> None:
            if not json and not quiet():
                err.print(f"{spec_name} ({number}/{len(specs)}): step {done}/{total}", end="\r")

        profiles.append(
            profiling.profile(spec, data_root=data_root, device=pick_device(device), steps=steps, watch=tell)
        )
    profiling.picture(profiles, picture)
    settings, first_profile = resolve(specs[0]).settings, profiles[0]
    middle = statistics.median(p.run_gflops_per_s for p in profiles)
    kept = rates.keep(settings, pick_device(device).partition(":")[0], first_profile.hardware, middle * 1e9)
    if json:
        say_json([{**dataclasses.asdict(p), "step_ms": p.step} for p in profiles])
    else:
        out.print(profiling.words(profiles), markup=False)
        peak = f"{first_profile.peak_gflops_per_s:,.0f} GFLOP/s in {first_profile.precision}"
        out.print(f"Matrix multiplication on {first_profile.hardware}: {peak}.", markup=False)
        out.print(f"Whole runs, evaluation included: {middle:,.0f} GFLOP/s, kept for `plan` in {kept}", markup=False)
        out.print(f"Picture  {picture}", markup=False)
    return 0
