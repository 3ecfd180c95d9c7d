"""Verbs that keep things true: status, verify, publish, doctor."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmark.cli import RESULTS, DataRoot, Json, Results, app, err, out, say_json
from benchmark.cli.runs import find_run, pick_device
from benchmark.cli.session import duration
from benchmark.files import shown
from benchmark.launch.status import RunState

STUDIES = Path("results")


@app.command(epilog="Examples:\n\n`python -m benchmark status`\n\n`python -m benchmark status --watch`")
def status(
    results: Results = RESULTS,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until everything has ended.")] = False,
    json: Json = False,
) -> int:
    """The state of every run, from records, heartbeats and the queue: progress, node, restarts, time left."""
    from benchmark.launch.status import states

    while True:
        found = states(results)
        if json:
            say_json([dataclasses.asdict(s) for s in found])
        else:
            out.print(shown(status_words(found, results)), markup=False)
        if not watch or all(s.state in ("done", "failed", "interrupted") for s in found):
            return 1 if any(s.state == "failed" for s in found) else 0
        time.sleep(5)


def status_words(found: list[RunState], results: Path) -> str:
    """Counts, then every run that is not done."""
    if not found:
        return f"No run in {results}. Type: python -m benchmark run --suite digits --results {results}"
    counts = Counter(s.state for s in found)
    lines = [f"{len(found)} runs in {results}: " + ", ".join(f"{n} {state}" for state, n in counts.most_common())]
    for s in found:
        if s.state == "done":
            continue
        step = f"  step {s.update}/{s.total}" if s.total else ""
        left = f"  {duration(s.seconds_left)} left" if s.seconds_left is not None else ""
        node = f"  on {s.node}" if s.node else ""
        restarts = f"  restarts {s.restarts}" if s.restarts else ""
        reason = f"  {s.reason}" if s.reason else ""
        lines.append(f"{s.run_id}  {s.name} → {s.target} seed {s.seed}  {s.state}{step}{left}{node}{restarts}{reason}")
    return "\n".join(lines)


@app.command(
    epilog="Examples:\n\n`python -m benchmark verify 3f2a` (run it again, compare bit by bit)\n\n"
    "`python -m benchmark verify --published` (render every published table again)"
)
def verify(
    run: Annotated[str, typer.Argument(help="Id of a finished run, or its beginning; `random` picks one.")] = "",
    published: Annotated[
        bool, typer.Option("--published", help="Compare every table below results/ with its records.")
    ] = False,
    studies: Annotated[Path, typer.Option(help="Where the published studies are.")] = STUDIES,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "cpu",
    results: Results = RESULTS,
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """Run a finished spec again, or render every published table again, and compare."""
    from benchmark import records
    from benchmark import verify as verification
    from benchmark.errors import UserError

    findings: list[verification.Finding] = []
    if published or not run:
        for study in sorted(p for p in studies.glob("*") if p.is_dir() and any(p.glob("*/*/*/record.json"))):
            findings += verification.published(study)
        if not findings and not run:
            raise UserError(
                f"There is no published study in {studies}. Verify a run: python -m benchmark verify RUN_ID"
            )
    if run:
        if run == "random":
            frame = records.load(results)
            done = frame[frame.status == "done"]
            if done.empty:
                raise UserError(f"There is no finished run in {results}.")
            run = str(done.sample(1).iloc[0].run_id)
        directory, _ = find_run(results, run)
        if not json:
            err.print(f"Running {run} again; this takes as long as it took the first time.")
        findings += verification.rerun(directory, data_root=data_root, device=pick_device(device))
    if json:
        say_json([vars(f) for f in findings])
    else:
        for f in findings:
            out.print(f"{'ok  ' if f.same else 'DIFF'} {f.what}: {f.words}", markup=False)
    return 0 if all(f.same for f in findings) else 1


@app.command(epilog="Example: `python -m benchmark publish digits-lite --results runs`")
def publish(
    study: Annotated[str, typer.Argument(help="Name of the study: results/NAME.")],
    studies: Annotated[Path, typer.Option(help="Where the published studies are.")] = STUDIES,
    artifacts: Annotated[bool, typer.Option(help="Keep the arrays that the figures are drawn from.")] = False,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Copy the finished runs to results/NAME and render every table from them."""
    from benchmark import publish as publishing

    files = publishing.publish(results, studies / publishing.check_name(study), artifacts=artifacts)
    if json:
        say_json([str(f) for f in files])
    else:
        out.print(f"Published to {studies / study}: {len(files)} files rendered.", markup=False)
    return 0


@app.command(epilog="Example: `python -m benchmark doctor`")
def doctor(data_root: DataRoot = None, json: Json = False) -> int:
    """What this machine has: torch, GPU, SLURM, data sets, and what to type to get what is missing."""
    from benchmark import doctor as examination

    findings: list[dict[str, Any]] = examination.examine(data_root)
    if json:
        say_json(findings)
    else:
        for f in findings:
            out.print(
                f"{'ok ' if f['ok'] else '–  '} {f['what']}: {f['found']}" + (f"  → {f['next']}" if f["next"] else ""),
                markup=False,
            )
    return 0
