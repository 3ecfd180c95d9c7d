"""One `run` from the user's side: what will happen, live progress, what came out and where it is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from benchmark import plan as planning
from benchmark import records
from benchmark.cli import duration, err, out, quiet, say_json
from benchmark.launch.local import Event, Outcome, launch
from benchmark.launch.status import sent
from benchmark.plan import Plan
from benchmark.spec import RunSpec, Tier

NEXT = {
    "lite": "real images: --tier lite --data-root DATA (see: python -m benchmark data list --suite {suite})",
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
    ) -> None:
        self.plan, self.results, self.data_root, self.json = plan, results, data_root, json
        self.shown = shown or {}  # which selection rule and statistics the table at the end has
        queue = sent(results)
        frame = records.load(results, queue)
        self.states = planning.states(plan.specs, results, frame, queue)
        self.costs = dict(zip([s.run_id for s in plan.specs], planning.estimate(plan.specs, frame), strict=True))

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
                out.print(f"Next: {NEXT[higher].format(suite=suite.name)}", markup=False)
        kinds = {self.costs[s.run_id][1] for s in self.todo}
        unit = "GPU" if tier == Tier.paper else "core"
        cost = (
            f"about {duration(self.seconds(self.todo))} of {unit} time ({' and '.join(sorted(kinds))} speed)"
            if self.todo
            else "nothing to do"
        )
        done = len(self.plan.specs) - len(self.todo)
        out.print(f"{len(self.plan.specs)} runs, {done} done already, {len(self.todo)} to do: {cost}.")
        for name, reason in self.plan.skipped:
            out.print(f"left out: {name} {reason}", style="yellow")

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
            }  # fmt: skip
            say_json(document)
            return 0
        if self.plan.unbound:
            out.print(f"Counted without the data. {self.plan.unbound}", markup=False)
            return 0
        for spec, r in zip(self.plan.specs, rows, strict=True):
            values = "".join(f" {k}={v}" for k, v in r["overrides"].items())
            out.print(f"{r['run_id']}  {title(spec)}{values}  {r['state']}: {r['reason']}", markup=False)
        return 0

    def run(self, *, workers: int, device: str, fail_fast: bool) -> int:
        """Launch what is to do; then the table. Exit code 0, 1 with failures, 130 when interrupted."""
        outcome = Outcome()
        if self.todo:
            # the longest first: the pool ends together
            order = sorted(self.todo, key=lambda s: -self.costs[s.run_id][0])
            with Watch(order, self.costs, workers, show=not self.json) as watch:
                outcome = launch(
                    order, results=self.results, data_root=self.data_root, workers=workers, device=device,
                    fail_fast=fail_fast, watch=watch,
                )  # fmt: skip
        return self.close(outcome)

    def close(self, outcome: Outcome) -> int:
        """What came out and where it is."""
        code = 130 if outcome.interrupted else 1 if outcome.failed else 0
        for run_id, reason in outcome.failed.items():
            err.print(f"failed: {run_id}: {reason}", markup=False, style="red")
        for run_id in outcome.held:
            err.print(f"left to another process that is at it: {run_id}", markup=False)
        places = self.render() if not outcome.interrupted else {}
        if self.json:
            say_json({
                "exit": code, "done": outcome.done, "failed": outcome.failed, "held": outcome.held,
                "total": len(self.plan.specs), "results": str(self.results), "files": places,
            })  # fmt: skip
        return code

    def render(self) -> dict[str, str]:
        """The comparison table of this plan's runs, printed and written; the report."""
        from benchmark import tables

        frame = records.load(self.results)
        frame = frame[frame.run_id.isin([s.run_id for s in self.plan.specs])]
        if not (frame.status == "done").any():
            return {}
        table = tables.comparison(frame, self.plan.suite, **self.shown)
        stem = f"{self.plan.suite.name}-{self.plan.tier}-comparison"
        files = tables.write(table, self.results / "tables", stem)
        places = {p.suffix.lstrip("."): str(p) for p in files}
        places["records"] = str(self.results / self.plan.suite.name / self.plan.tier)
        places["report"] = self._report()
        if not self.json:
            tables.show(table, out)
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


class Watch:
    """Live progress: a line for each worker and one for the whole; plain lines when nobody watches."""

    def __init__(self, specs: list[RunSpec], costs: dict[str, tuple[float, str]], workers: int, *, show: bool) -> None:
        self.expected = {s.run_id: costs[s.run_id][0] for s in specs}
        self.left = dict(self.expected)
        self.spent: dict[str, tuple[float, float]] = {}  # seconds it took, seconds expected for as much
        self.total, self.workers, self.show = len(specs), min(workers, len(specs)), show
        self.ended, self.failed = 0, 0
        self.began = time.monotonic()
        self.live = show and not quiet()
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[note]}"), console=err
        )  # fmt: skip
        self.lines: dict[int, TaskID] = {}
        self.whole: TaskID | None = None

    def __enter__(self) -> Watch:
        if self.live:
            self.bar.start()
            self.whole = self.bar.add_task("all runs", total=self.total, note="")
        return self

    def __exit__(self, *_: Any) -> None:
        if self.live:
            self.bar.stop()

    def __call__(self, event: Event) -> None:
        run_id = event.spec.run_id
        if event.kind == "beat":
            total = event.beat["total"] or 1
            update, seconds = event.beat["update"], event.beat["seconds"]
            self.left[run_id] = seconds / max(update, 1) * (total - update)
            self.spent[run_id] = (seconds, self.expected[run_id] * update / total)
        elif event.kind != "start":
            self.left.pop(run_id, None)
            self.ended += 1
            self.failed += event.kind == "failed"
        if self.live:
            self._draw(event)
        elif self.show and event.kind not in ("start", "beat"):
            word = event.kind if event.kind != "failed" else f"failed: {event.reason}"
            err.print(
                f"[{self.ended}/{self.total}] {title(event.spec)}: {word}; {self._left()} left",
                markup=False,
                highlight=False,
            )

    def _draw(self, event: Event) -> None:
        if event.worker not in self.lines:
            self.lines[event.worker] = self.bar.add_task("", total=1, note="")
        line = self.lines[event.worker]
        if event.kind == "beat":
            b = event.beat
            accuracy = f"{b['target']:.1f} %" if b.get("target") is not None else "–"
            note = f"step {b['update']}/{b['total']}  accuracy {accuracy}  {duration(self.left.get(event.spec.run_id, 0))} left"
            self.bar.update(line, description=title(event.spec), total=b["total"], completed=b["update"], note=note)
        elif event.kind == "start":
            self.bar.update(line, description=title(event.spec), total=1, completed=0, note="starting")
        else:
            self.bar.update(line, completed=1, total=1, note=event.kind)
        assert self.whole is not None
        failed = f", {self.failed} failed" if self.failed else ""
        self.bar.update(
            self.whole, completed=self.ended, note=f"{self.ended}/{self.total}{failed}  {self._left()} left"
        )

    def _left(self) -> str:
        """What is left of the runs under way, and the others at the pace, against expectation, that was seen so far."""
        taken, expected = (sum(column) for column in zip(*self.spent.values(), strict=True)) if self.spent else (1, 1)
        pace = taken / expected if taken and expected else 1.0
        seconds = sum(left if run_id in self.spent else pace * left for run_id, left in self.left.items())
        return duration(seconds / max(self.workers, 1))


def title(spec: RunSpec) -> str:
    """A run in a few words."""
    if spec.standard == "upper-bound":
        return f"upper-bound → {spec.target} seed {spec.seed}"
    single = f" from {spec.sources[0]}" if spec.standard == "single-best" else ""
    return f"{spec.name} → {spec.target}{single} seed {spec.seed}"


def why(state: str) -> str:
    """A state in words."""
    return {
        "done": "its record is there",
        "absent": "never started",
        "interrupted": "goes on from its checkpoint",
        "running": "another process is at it",
    }.get(state, "")
