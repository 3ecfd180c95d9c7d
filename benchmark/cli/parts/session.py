"""One `run` from the user's side: what will happen, live progress, what came out and where it is."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmark import plan as planning
from benchmark import records
from benchmark.cli import duration, err, out, say_json, volume
from benchmark.cli.parts.progress import Watch, title
from benchmark.launch.local import Outcome, launch
from benchmark.launch.status import sent
from benchmark.plan import Plan
from benchmark.records import models
from benchmark.records.track import MARK
from benchmark.spec import RunSpec, Tier
from methods.groups import READINGS

NEXT = {
    "lite": "{what}: --tier lite --data-root DATA (see: python -m benchmark data {verb} --suite {suite})",
    "paper": "the paper's set-up, on GPUs: --tier paper --executor slurm --cluster slurm/one-gpu.toml",
}


class Session:
    """Everything `run` and `plan` print."""

    def __init__(
        self,
        plan: Plan,
        *,
        results: Path,
        data_root: Path | None,
        json: bool = False,
        shown: dict[str, Any] | None = None,
        gpu: str = "",
        count: planning.Count | None = None,
        keep_model: str = "none",
    ) -> None:
        self.plan, self.results, self.data_root, self.json = plan, results, data_root, json
        self.gpu = gpu  # for which the cost is asked
        self.keep_model = keep_model
        self.shown = shown or {}  # which selection rule and statistics the table at the end has
        queue = sent(results)
        frame = records.load(results, queue)
        self.states = planning.states(plan.specs, results, frame, queue)
        costs = planning.estimate(plan.specs, frame, gpu=gpu, count=count)
        self.costs = dict(zip([s.run_id for s in plan.specs], costs, strict=True))

    @property
    def todo(self) -> list[RunSpec]:
        """Specs without a record."""
        return [s for s in self.plan.specs if self.states[s.run_id][0] != "done"]

    def seconds(self, specs: list[RunSpec]) -> float:
        """Estimated core-seconds."""
        return sum(self.costs[s.run_id][0] for s in specs)

    def announce(self) -> None:
        """First lines: tier, data, runs, time, what to type for the next tier."""
        if self.json:
            return
        suite, tier = self.plan.suite, self.plan.tier
        settings = suite.tier(tier)
        out.print(f"[bold]{suite.title}[/bold], tier [bold]{tier}[/bold] ({settings.note}).")
        tiers = list(Tier)
        for higher in tiers[tiers.index(Tier(tier)) + 1 :]:
            if higher in suite.tiers:
                made = suite.tier(tier).data == "embedded"  # else it has seen real images already, some of them
                what, verb = ("real images", "list") if made else ("all pictures", "check")
                out.print(f"Next: {NEXT[higher].format(suite=suite.address, what=what, verb=verb)}", markup=False)
        out.print(self.count())
        for name in self.plan.readings:
            of, statistics = READINGS[name].of, READINGS[name].statistics
            out.print(
                f"{name} reads the runs of {of} with statistics of the {statistics}; it trains nothing.", markup=False
            )
        if self.gpu:
            self.by_row()
        self.announce_models()
        for name, reason in self.plan.skipped:
            out.print(f"left out: {name} {reason}", style="yellow")

    @property
    def without_model(self) -> list[RunSpec]:
        """Runs that are done and have not the models that are asked for: they are not run again for them."""
        done = [] if self.plan.unbound else [s for s in self.plan.specs if self.states[s.run_id][0] == "done"]
        return [s for s in done if models.lacks(records.run_directory(self.results, s, s.run_id), self.keep_model)]

    @cached_property
    def disk(self) -> dict[str, int]:
        """Bytes that the models of the runs to do will take, at the most; {} when none is asked for."""
        if self.keep_model == "none":
            return {}
        from benchmark.run.model import size

        stay, beside = size.disk(self.todo, self.keep_model)
        most = {"a_run": max(stay, default=0), "under_way": max(beside, default=0), "uncounted": stay.count(0)}
        return {"total": sum(stay), **most}

    def announce_models(self) -> None:
        """What --keep-model will take on the disk, and which runs it comes too late for."""
        if self.disk and self.todo:
            words = f"Models: at most {volume(self.disk['a_run'])} a run, {volume(self.disk['total'])} in all"
            going, unknown = self.disk["under_way"], self.disk["uncounted"]
            extra = f"; {volume(going)} more of a run while it trains" if going else ""
            extra += f"; without {unknown} runs of methods whose size only a run can tell" if unknown else ""
            out.print(f"{words}{extra}.", markup=False)
        if self.without_model:
            ids = ", ".join(s.run_id for s in self.without_model[:3])
            more = f" and {len(self.without_model) - 3} more" if len(self.without_model) > 3 else ""
            out.print(
                f"{len(self.without_model)} runs are done without the models that are asked for ({ids}{more}), and what is "
                f"done is not run again. To have them: the same command with --results {self.results}-models.",
                markup=False, style="yellow",
            )  # fmt: skip

    def count(self) -> str:
        """How many runs, how many of them are to do, and how long that takes."""
        kinds = {self.costs[s.run_id][1] for s in self.todo}
        unit = "GPU" if self.plan.tier == Tier.paper or self.gpu else "core"
        cost = (
            f"about {duration(self.seconds(self.todo))} of {unit} time ({'; '.join(sorted(kinds))})"
            if self.todo
            else "nothing to do"
        )
        done = len(self.plan.specs) - len(self.todo)
        return f"{len(self.plan.specs)} runs, {done} done already, {len(self.todo)} to do: {cost}."

    def by_row(self) -> None:
        """What the runs of each row take, before anybody has run one."""
        rows: dict[str, list[float]] = {}
        for spec in self.todo:
            name = spec.standard if spec.standard == "upper-bound" else spec.name
            rows.setdefault(name, []).append(self.costs[spec.run_id][0])
        for name, seconds in rows.items():
            each, all_ = duration(sum(seconds) / len(seconds)), duration(sum(seconds))
            out.print(f"  {name:18} {len(seconds):4} runs  {each:>8} a run  {all_:>9}", markup=False)

    def list_runs(self) -> int:
        """Each run with its state; the counts and the estimate for programs."""
        rows: list[dict[str, Any]] = [
            {
                "run_id": None if self.plan.unbound else s.run_id,
                "method": s.name, "standard": s.standard, "sources": list(s.sources), "target": s.target,
                "seed": s.seed, "overrides": dict(s.overrides), "state": self.states[s.run_id][0],
                "reason": self.states[s.run_id][1] or why(self.states[s.run_id][0]),
                "seconds": round(self.costs[s.run_id][0], 1), "speed": self.costs[s.run_id][1],
            }
            for s in self.plan.specs
        ]  # fmt: skip
        if self.json:
            document = {
                "suite": self.plan.suite.name, "tier": self.plan.tier, "runs": rows, "total": len(rows),
                "done": len(rows) - len(self.todo), "hours": round(self.seconds(self.todo) / 3600, 3),
                "skipped": [{"method": n, "reason": r} for n, r in self.plan.skipped], "unbound": self.plan.unbound,
                "readings": list(self.plan.readings),
            }  # fmt: skip
            if self.keep_model != "none":
                document["models"] = {"bytes": self.disk, "without": [s.run_id for s in self.without_model]}
            say_json(document)
            return 0
        if self.plan.unbound:
            out.print(f"Counted without the data. {self.plan.unbound}", markup=False)
            return 0
        for spec, r in zip(self.plan.specs, rows, strict=True):
            values = "".join(f" {k}={v}" for k, v in r["overrides"].items())
            out.print(f"{r['run_id']}  {title(spec)}{values}  {r['state']}: {r['reason']}", markup=False)
        if out.is_terminal and len(rows) > out.height // 2:  # the line above the list has scrolled away
            out.print(self.count())
        return 0

    def run(self, *, workers: int, device: str, fail_fast: bool, track: list[str]) -> int:
        """Launch what is to do; then the table. Exit code 0, 1 with failures, 130 when interrupted."""
        outcome = self.launch(workers=workers, device=device, fail_fast=fail_fast, track=track)
        self.say_untracked(outcome.done if track else [])
        return self.close(outcome)

    def say_untracked(self, done: list[str]) -> None:
        """One line for each thing that went wrong with a tracker; the runs have lost nothing by it."""
        found = [
            records.read(records.run_directory(self.results, s, s.run_id)) for s in self.plan.specs if s.run_id in done
        ]
        told = Counter(words for record in found if record for words in record["warnings"] if words.startswith(MARK))
        for words, count in told.items():
            err.print(f"{words} ({count} of {len(done)} runs; nothing else changed)", markup=False, style="yellow")

    def launch(self, *, workers: int, device: str, fail_fast: bool, track: list[str] | None = None) -> Outcome:
        """Execute what is to do, with live progress."""
        outcome = Outcome()
        if self.todo:
            # the longest first: the pool ends together
            order = sorted(self.todo, key=lambda s: -self.costs[s.run_id][0])
            with Watch(order, self.costs, workers, show=not self.json) as watch:
                outcome = launch(
                    order, results=self.results, data_root=self.data_root, workers=workers, device=device,
                    fail_fast=fail_fast, watch=watch, keep_model=self.keep_model, track=track or [],
                )  # fmt: skip
        return outcome

    def close(self, outcome: Outcome) -> int:
        """What came out and where it is."""
        code = exit_code(outcome)
        if outcome.failed and not self.json:
            first = next(iter(outcome.failed))
            err.print(f"Where it happened: python -m benchmark logs {first} --results {self.results}", markup=False)
        places = self.render() if not outcome.interrupted else {}
        if self.json:
            say_json({
                "exit": code, "done": outcome.done, "failed": outcome.failed, "held": outcome.held,
                "total": len(self.plan.specs), "results": str(self.results), "files": places,
                **({"without_model": [s.run_id for s in self.without_model]} if self.keep_model != "none" else {}),
            })  # fmt: skip
        elif self.keep_model != "none" and outcome.done:
            self.say_models(outcome.done)
        return code

    def say_models(self, done: list[str]) -> None:
        """Where the models of the runs that ended now are; of which there are none, for their state cannot be kept."""
        places = {s.run_id: records.run_directory(self.results, s, s.run_id) for s in self.plan.specs}
        lacking = [run for run in done if models.lacks(places[run], self.keep_model)]
        for run in lacking:
            err.print(
                f"no model kept: {run}: see warnings in {places[run] / 'record.json'}", markup=False, style="yellow"
            )
        if len(lacking) < len(done):
            example = next(run for run in done if run not in lacking)
            use = f"python -m benchmark predict {example} --results {self.results}"
            out.print(f"Models    beside their records. Use one: {use}", markup=False)

    def render(self) -> dict[str, str]:
        """The comparison table of this plan's runs, printed and written; the report."""
        from benchmark import tables

        frame = records.load(self.results)
        frame = frame[frame.run_id.isin([s.run_id for s in self.plan.specs])]
        if not (frame.status == "done").any():
            return {}
        table = tables.make("comparison", frame, self.plan.suite, readings=self.plan.readings, **self.shown)
        stem = f"{self.plan.suite.name}-{self.plan.tier}-comparison"
        files = tables.write(table, self.results / "tables", stem)
        places = {p.suffix.lstrip("."): str(p) for p in files}
        places["records"] = str(self.results / self.plan.suite.name / self.plan.tier)
        places["report"] = self._report()
        if not self.json:
            tables.show(table, out, whole=f"The whole table: {places['md']}")
            names = {
                "md": "Markdown",
                "tex": "LaTeX",
                "csv": "CSV",
                "html": "HTML",
                "records": "Records",
                "report": "Report",
            }
            for kind, place in places.items():
                out.print(f"{names.get(kind, kind):9s} {place}", markup=False)
        return places

    def _report(self) -> str:
        from benchmark import report

        return str(report.write(self.results, self.results / "report.html"))


def exit_code(outcome: Outcome) -> int:
    """0, 1 with failures, 130 when interrupted; says which runs failed and which were left to others."""
    for run_id, reason in outcome.failed.items():
        err.print(f"failed: {run_id}: {reason}", markup=False, style="red")
    for run_id in outcome.held:
        err.print(f"left to another process that is at it: {run_id}", markup=False)
    return 130 if outcome.interrupted else 1 if outcome.failed else 0


def why(state: str) -> str:
    """A state in words."""
    return {
        "done": "its record is there",
        "absent": "never started",
        "interrupted": "goes on from its checkpoint",
        "running": "another process is at it",
    }.get(state, "")
