"""The verb reproduce: a table or figure of the paper by its number, from planning to ours beside the printed numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from benchmark import plan as planning
from benchmark import records
from benchmark.cli import RESULTS, DataRoot, Json, Results, app, comma_list, err, out, say_json
from benchmark.cli.runs import Device, LimitSteps, PerDevice, Seeds, Threads, Tier, Workers, pick_gpus, writable
from benchmark.errors import UserError, unknown
from benchmark.launch.device import spelled
from benchmark.paper import folders, wanted
from benchmark.paper.wanted import Item
from benchmark.plan import Plan


@app.command(
    epilog="Examples:\n\n`python -m benchmark reproduce table4` (the ablation at tier mini: minutes, no download)\n\n"
    "`python -m benchmark reproduce all --tier paper --seeds 0-2 --dry-run` (every run, with its GPU hours)\n\n"
    "`python -m benchmark reproduce table1 --tier paper --seeds 0-2 --executor slurm --cluster slurm/one-gpu.toml`"
)
def reproduce(
    what: Annotated[
        str, typer.Argument(help="table1, table2, table3, table4, figure3, figure4, figure5, figure6 or all.")
    ],
    tier: Tier = "",
    seeds: Seeds = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="run.KEY=VALUE, a setting of the harness, for all runs.")
    ] = None,
    limit_steps: LimitSteps = None,
    threads: Threads = 1,
    workers: Workers = 0,
    device: Device = "auto",
    per_device: PerDevice = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List every run with its hours, and stop.")] = False,
    executor: Annotated[str, typer.Option(help="local or slurm.")] = "local",
    cluster: Annotated[Path | None, typer.Option(help="Cluster profile, with --executor slurm.")] = None,
    paper: Annotated[str, typer.Option(help="Whose tables and figures.")] = "tsvdnet",
    results: Results = RESULTS,
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """Reproduce a table or figure of the paper: run what is missing, then ours beside the printed, with the verdicts."""
    from benchmark.cli.parts import ready, session
    from benchmark.launch.device import default_workers

    if executor not in ("local", "slurm"):
        raise unknown("executor", executor, ["local", "slurm"])
    for pair in set_ or []:
        if not pair.startswith("run."):
            raise UserError(
                f"--set {pair} would change a method, and the paper's rows are methods as they come. Only run.KEY."
            )
    folder = folders.folder(paper)
    items = wanted.chosen(what, folder)
    base = planning.Request(
        suite="", tier=tier, seeds=planning.parse_seeds(comma_list(seeds) or ["0"]), settings=set_ or [],
        limit_steps=limit_steps, threads=threads,
    )  # fmt: skip
    plans = {item.name: wanted.plan(item, base, data_root, bind=not dry_run) for item in items}
    suites = [
        session.Session(p, results=results, data_root=data_root, json=json) for p in wanted.together(plans.values())
    ]
    if dry_run:
        return _list(suites, plans, json=json)
    writable(results)
    for work in suites:
        ready.check_networks(work.todo)
        ready.check_weights(work.todo, data_root)
    gpus = pick_gpus(device, per_device) if executor == "local" else []
    for work in suites:
        work.announce()
    if executor == "slurm":
        from benchmark.cli import cluster as verbs

        every = Plan(suites[0].plan.suite, suites[0].plan.tier, [spec for work in suites for spec in work.plan.specs])
        return verbs.send(every, results=results, data_root=data_root, cluster=cluster, json=json)
    code = 0
    for work in suites:
        count = workers or default_workers(work.plan.specs, gpus, per_device)
        code = max(code, session.exit_code(work.launch(workers=count, device=spelled(gpus), fail_fast=False)))
        if code == 130:
            break
    frame = records.load(results)
    shown = [_show(item, plans[item.name], frame, folder, results, json=json) for item in items if code != 130]
    code = max([code, *[int("problem" in document) for document in shown]])
    if json:
        say_json({"exit": code, "paper": paper, "items": shown, "results": str(results)})
    return code


def _list(suites: list[Any], plans: dict[str, Plan], *, json: bool) -> int:
    """Every run once, with its state, its hours and what it is for; then the sums."""
    uses: dict[str, list[str]] = {}
    for name, made in plans.items():
        for spec in made.specs:
            uses.setdefault(spec.run_id, []).append(name)
    rows = [
        {
            "suite": s.suite, "tier": s.tier, "split": s.split, "standard": s.standard, "method": s.name,
            "sources": list(s.sources), "target": s.target, "seed": s.seed, "for": uses[s.run_id],
            "run_id": None if work.plan.unbound else s.run_id, "state": work.states[s.run_id][0],
            "hours": 0.0 if work.states[s.run_id][0] == "done" else work.costs[s.run_id][0] / 3600,
            "speed": work.costs[s.run_id][1],
        }
        for work in suites for s in work.plan.specs
    ]  # fmt: skip
    sums = {name: [r for r in rows if name in r["for"]] for name in plans}
    unbound = {work.plan.suite.name: work.plan.unbound for work in suites if work.plan.unbound}
    if json:
        totals = {name: {"runs": len(own), "hours": sum(r["hours"] for r in own)} for name, own in sums.items()}
        say_json(
            {
                "runs": rows,
                "items": totals,
                "total": len(rows),
                "hours": sum(r["hours"] for r in rows),
                "unbound": unbound,
            }
        )
        return 0
    for row in rows:
        source = f" from {row['sources'][0]}" if row["standard"] == "single-best" else ""
        words = f"{row['suite']} {row['split']}  {row['standard']}  {row['method']} → {row['target']}{source} seed {row['seed']}"
        out.print(f"{words}  {row['state']}  {row['hours']:.3g} {_unit(row)} h  {', '.join(row['for'])}", markup=False)
    for name, own in sums.items():
        out.print(f"{name}: {_sum(own)}", markup=False)
    if len(sums) > 1:
        out.print(f"all: {_sum(rows)}; what several share is run once", markup=False)
    speeds = " and ".join(sorted({row["speed"] for row in rows}))
    out.print(f"Hours from {speeds} speed.", markup=False)
    for name, why in unbound.items():
        out.print(f"{name} is counted without its data. {why}", markup=False)
    return 0


def _unit(row: dict[str, Any]) -> str:
    return "GPU" if row["tier"] == "paper" else "core"


def _sum(rows: list[dict[str, Any]]) -> str:
    todo = sum(row["state"] != "done" for row in rows)
    count = "1 run" if len(rows) == 1 else f"{len(rows)} runs"
    return f"{count}, {todo} to do, {sum(row['hours'] for row in rows):.4g} {_unit(rows[0])} hours"


def _show(item: Item, made: Plan, frame: Any, folder: Path, results: Path, *, json: bool) -> dict[str, Any]:
    """One item, from its own runs alone; what keeps it from being shown is said instead."""
    frame = frame[frame.run_id.isin([spec.run_id for spec in made.specs])]
    shown: dict[str, Any] = {"item": item.name, "done": int((frame.status == "done").sum()), "total": len(made.specs)}
    try:
        return shown | _draw(item, made, frame, folder, results, json=json)
    except UserError as error:  # its runs failed, or were left to another process; the other items can still be shown
        err.print(f"{item.title} cannot be shown. {error}", markup=False)
        return shown | {"problem": str(error)}


def _draw(item: Item, made: Plan, frame: Any, folder: Path, results: Path, *, json: bool) -> dict[str, Any]:
    """The table or the figure, and the verdicts on what the paper says about it."""
    from benchmark import figures, tables
    from benchmark.analysis import verdict
    from benchmark.paper.claims import claims
    from benchmark.tables.plain import document, show

    stem = f"{folder.name}-{made.tier}-{item.name}"
    found: dict[str, Any] = {}
    if item.figure is None:
        table = tables.reproduction(frame, item.table, folder)
        files = tables.write(table, results / "tables", stem)
        found["table"] = document(table)
        if not json:
            show(table, out, whole=f"The whole table: {files[0]}")
    else:
        figure = item.figure
        drawn = figures.draw(figure.kind, frame, figure.suite, target=figure.target, methods=figure.names)
        files = figures.write(drawn, results / "figures", stem)
        if not json:
            out.print(f"{item.title}: {figure.shows}. {drawn.title}\n{drawn.caption}", markup=False)
    about = [claim for claim in claims(folder / "claims.toml") if claim.about(item.title)]
    verdicts = verdict.judge(frame, tier=made.tier, only=about)
    if verdicts and not json:
        show(verdict.table(verdicts), out)
    for path in [] if json else files:
        out.print(str(path), markup=False)
    return found | {"files": [str(path) for path in files], "verdicts": [v.json() for v in verdicts]}
