"""The verb `profile`: where a step's time goes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from benchmark.cli import DataRoot, Json, app, comma_list, err, out, quiet, say_json
from benchmark.cli.runs import SuiteOption, pick_device


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
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """Time the parts of a training step: data, forward, backward, optimiser, method; and evaluation."""
    from benchmark.plan import Request, make
    from benchmark.run import profile as profiling

    request = Request(
        suite, tier, methods=comma_list(method) or ["tsvdnet"], targets=[target] if target else [], threads=threads
    )
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
    if json:
        say_json([{**dataclasses.asdict(p), "step_ms": p.step} for p in profiles])
    else:
        out.print(profiling.words(profiles), markup=False)
        out.print(
            f"One thread's matrix multiplication here: {profiles[0].peak_gflops_per_s:.0f} GFLOP/s."
            if threads == 1
            else ""
        )
        out.print(f"Picture  {picture}", markup=False)
    return 0
