"""The verb that studies hyper-parameters: tune."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmark.cli import RESULTS, DataRoot, Json, Results, app, comma_list, err, out, say_json
from benchmark.cli.runs import Device, PerDevice, Set, Split, SuiteOption, Threads, Tier, Workers, pick_gpus, writable
from benchmark.launch.device import spelled

if TYPE_CHECKING:
    from benchmark.plan import tune as tuning


@app.command(
    epilog="Examples:\n\n"
    "`python -m benchmark tune --suite digits --tier mini --target up --trials 8`\n\n"
    "`python -m benchmark tune --suite digits --target up --methods dann,tsvdnet --output tuned.toml`\n\n"
    "`python -m benchmark tune --suite digits --target up --methods tsvdnet:e,tsvdnet:et,tsvdnet` (one choice for the three)"
    "\n\n"
    "`python -m benchmark run --suite digits --tuned tuned.toml`"
)
def tune(
    suite: SuiteOption,
    target: Annotated[str, typer.Option("--target", help="The one development target.")],
    tier: Tier = "",
    trials: Annotated[int, typer.Option(help="Settings tried for each method; the first are its defaults.")] = 8,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods", help="Names, name:preset, path/file.py:Class[@preset], card, paper, all; default: all."
        ),
    ] = None,
    rule: Annotated[str, typer.Option(help="unsup, source-val, snd, bnm or dev: no target label.")] = "unsup",
    statistics: Annotated[
        str, typer.Option(help="Batch-norm statistics with which trials are scored: target or running.")
    ] = "target",
    seed: Annotated[
        int, typer.Option(min=0, help="Of the draws and of the runs; defaults and best trial get the next one too.")
    ] = 0,
    split: Split = "",
    set_: Set = None,
    threads: Threads = 1,
    workers: Workers = 0,
    device: Device = "auto",
    per_device: PerDevice = 0,
    output: Annotated[
        Path | None, typer.Option(help="The file to write; default: tuned-SUITE-TIER-TARGET.toml among the results.")
    ] = None,
    results: Results = RESULTS,
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """Tune every method equally: as many trials for each, chosen without target labels; `run --tuned` uses the choice.

    The defaults stay unless a trial beats them by more than the score moves from seed to seed.
    """
    from benchmark.cli.parts import ready
    from benchmark.launch.device import default_workers
    from benchmark.plan import tune as tuning  # brings torch and torchvision, which other verbs need not wait for

    study = tuning.Study(
        suite,
        tier,
        target,
        trials,
        tuple(comma_list(methods)),
        split,
        seed,
        rule,
        threads,
        tuple(set_ or ()),
        statistics,
    )
    tried = tuning.trials(study, data_root)
    ready.check_networks([trial.spec for trial in tried])
    ready.check_weights([trial.spec for trial in tried], data_root)
    writable(results)
    folder = results / ".tuning"  # apart from the records that tables are made of
    path = output or results / f"tuned-{Path(suite).stem}-{study.tier}-{target}.toml"
    if not json:
        out.print(
            f"{len(study.methods)} rows × {trials} trials → {target} ({suite}, tier {study.tier}), the defaults and the best "
            f"other trial with a second seed; rule: {study.rule.replace('_', '-')} with {study.statistics} statistics, no "
            f"target labels. Trials are kept in {folder}",
            markup=False,
        )
    gpus = pick_gpus(device, per_device)
    workers = workers or default_workers([trial.spec for trial in tried], gpus, per_device)
    first = _launch(tried, folder, data_root, workers, spelled(gpus), show=not json)
    if first.interrupted:
        return 130
    again = tuning.finals(study, tried, folder, data_root)
    second = _launch(again, folder, data_root, workers, spelled(gpus), show=not json)
    if second.interrupted:
        return 130
    choices = tuning.choose(study, tried, again, folder)
    if choices:
        tuning.write(path, study, choices, tried[0].spec.data)
    _report(study, choices, {**first.failed, **second.failed}, path, json=json)
    return 0 if len(choices) == len(study.families) else 1


def _launch(
    tried: list[tuning.Trial], folder: Path, data_root: Path | None, workers: int, device: str, *, show: bool
) -> Any:
    """All trials through the local pool; what is done already is not run again."""
    from benchmark import plan as planning
    from benchmark import records
    from benchmark.cli.parts.progress import Watch
    from benchmark.launch.local import Outcome, launch

    specs = list({trial.spec.run_id: trial.spec for trial in tried}.values())
    states = planning.states(specs, folder)
    todo = [spec for spec in specs if states[spec.run_id][0] != "done"]
    if not todo:
        return Outcome()
    found = zip(todo, planning.estimate(todo, records.load(folder)), strict=True)
    costs = {spec.run_id: cost for spec, cost in found}
    todo.sort(key=lambda spec: -costs[spec.run_id][0])  # the longest first: the pool ends together
    with Watch(todo, costs, workers, show=show) as watch:
        return launch(todo, results=folder, data_root=data_root, workers=workers, device=device, watch=watch)


def _report(
    study: tuning.Study, choices: list[tuning.Choice], failed: dict[str, str], path: Path, *, json: bool
) -> None:
    from benchmark.plan.tune import reasons

    missing = [name for name in study.families if name not in [c.method for c in choices]]
    if json:
        say_json(
            {
                "file": str(path) if choices else None,
                "rule": study.rule,
                "statistics": study.statistics,
                "trials": study.trials,
                "methods": {row: dict(values) for c in choices for row, values in c.values.items()},
                "chosen": {c.method: reasons(c) for c in choices},
                "failed": failed,
                "missing": missing,
            }
        )
        return
    for run_id, reason in failed.items():
        err.print(f"a trial failed and is left out: {run_id}: {reason}", markup=False, style="yellow")
    for c in choices:
        word = "defaults stay" if c.kept else f"trial {c.number}"
        by = "" if c.margin is None else f"{study.rule} {c.margin:+.3g} by trial {c.challenger}, spread {c.spread:.3g}"
        for row, values in c.values.items():
            shown = "  ".join(f"{key}={value}" for key, value in values.items())
            out.print(f"{row:16s} {word:14s} {by}   {shown}", markup=False)
    for name in missing:
        err.print(f"No trial of {name} has a score by {study.rule}; it is not in the file.", markup=False, style="red")
    if choices:
        out.print(
            f"Written to {path}. Use it: python -m benchmark run --suite {study.suite} --tuned {path}", markup=False
        )
