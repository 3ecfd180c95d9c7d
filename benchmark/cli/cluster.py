"""Verbs for runs that are under way: status everywhere; cancel, retry, logs on a cluster. Nothing heavy is imported."""

from __future__ import annotations

import dataclasses
import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from benchmark.cli import RESULTS, Json, Results, app, duration, err, out, say_json
from benchmark.errors import UserError
from benchmark.files import shown
from benchmark.launch import queue, slurm
from benchmark.launch.cluster import Profile, load_profile
from benchmark.launch.logs import failure_of, log_of
from benchmark.launch.status import RunState, states, time_left
from benchmark.launch.submissions import latest
from benchmark.plan import Plan
from benchmark.spec import RunSpec

COLOURS = {"done": "green", "running": "cyan", "failed": "red", "damaged": "red", "interrupted": "yellow"}
Runs = Annotated[
    list[str] | None, typer.Argument(help="Run ids, or unambiguous beginnings of them.", metavar="[RUN]...")
]


@app.command(epilog="Examples:\n\n`python -m benchmark status`\n\n`python -m benchmark status --watch`")
def status(
    results: Results = RESULTS,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it until everything has ended.")] = False,
    json: Json = False,
) -> int:
    """The state of every run, from records, heartbeats and the queue: progress, speed, node, restarts, time left, failures."""
    if watch and not json and out.is_terminal and not out.is_dumb_terminal:
        return _watch(results)
    while True:
        found = states(results)
        if json:
            say_json([dataclasses.asdict(s) for s in found])
        else:
            out.print(shown(status_words(found, results)), markup=False)
        if not watch or _ended(found):
            return _code(found)
        time.sleep(5)


def _ended(found: list[RunState]) -> bool:
    return not any(s.state in ("queued", "running") for s in found)


def _code(found: list[RunState]) -> int:
    return 1 if any(s.state in ("failed", "damaged") for s in found) else 0


def _watch(results: Path) -> int:
    """One picture that is drawn again in its place; Ctrl-C ends the watching alone."""
    console = Console(highlight=False)
    found = states(results)
    if not found:
        out.print(status_words(found, results), markup=False)
        return 0
    try:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                live.update(Group(*screen(found, results, *console.size)), refresh=True)
                if _ended(found):
                    return _code(found)
                time.sleep(5 if any(s.job for s in found) else 2)  # a cluster's queue is not asked more often
                found = states(results)
    except KeyboardInterrupt:
        err.print("No longer watching; the runs go on.")
        return _code(found)


def screen(found: list[RunState], results: Path, width: int, height: int) -> list[Text]:
    """What `--watch` shows, at most `height` lines of at most `width`: counts, pace, tasks, what runs, what failed and why."""
    running = [s for s in found if s.state == "running"]
    bad = [s for s in found if s.state in ("failed", "damaged")]
    counts = Counter(s.state for s in found)
    said = [Text(f"{n} {state}", COLOURS.get(state, "")) for state, n in counts.most_common()]
    head = Text(", ").join(said) + Text(f" of {len(found)} runs in {shown(results)}")  # a long path last: it may be cut
    lines = [head, _pace(found, width)]
    if tasks := _tasks(found):
        lines.append(Text(tasks))
    for state in ("queued", "interrupted"):
        why = Counter(s.reason for s in found if s.state == state and s.reason)
        lines += [Text(shown(f"{state}: {reason} ({n})"), "dim") for reason, n in why.most_common(1)]
    room = max(4, height - len(lines) - 1)  # the last line is the cursor's
    # failures have the half of it, and what the runs leave; each takes two lines
    rows_of_bad = min(2 * len(bad), max(room // 2, room - len(running)))
    lines += _some([[line] for line in _under_way(running)], room - rows_of_bad, "running")
    lines += _some([_failure(s, width) for s in bad], rows_of_bad, "failed or damaged")
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return lines


def _pace(found: list[RunState], width: int) -> Text:
    """A bar of all updates, the speed of what runs, the time that is left."""
    share = sum(s.progress for s in found) / len(found)
    speed, left = sum(s.speed for s in found), time_left(found)
    words = f" {share:4.0%}" + (f"  {speed:.1f} updates/s" if speed else "")
    words += f"  about {duration(left)} left" if left is not None else ""
    room = max(8, min(48, width - len(words) - 1))
    return Text.assemble(("━" * round(share * room), "green"), ("─" * (room - round(share * room)), "dim"), words)


def _tasks(found: list[RunState]) -> str:
    """How many of the cluster's tasks run and wait; nothing where there are none."""
    runs = {s.job for s in found if s.job and s.state == "running"}
    waits = {s.job for s in found if s.job and s.state == "queued"} - runs
    said = [f"{len(jobs)} {word}" for jobs, word in ((runs, "running"), (waits, "waiting")) if jobs]
    return f"tasks: {', '.join(said)}" if said else ""


def _under_way(running: list[RunState]) -> list[Text]:
    """A line for each run, its numbers in columns; those that end first come first."""
    ordered = sorted(running, key=lambda s: (s.seconds_left is None, s.seconds_left or 0.0))
    cells = [
        (
            f"{s.name} → {s.target} seed {s.seed}",
            f"step {s.update}/{s.total}" if s.total else "starting",
            f"{s.speed:.1f}/s" if s.speed else "",
            f"{duration(s.seconds_left)} left" if s.seconds_left is not None else "",
            (f"on {s.node}" if s.node else "") + (f"  restarts {s.restarts}" if s.restarts else ""),
        )
        for s in ordered
    ]
    widths = [max((len(row[j]) for row in cells), default=0) for j in range(4)]
    lines = [
        f"{name.ljust(widths[0])}  {step.rjust(widths[1])}  {speed.rjust(widths[2])}  {left.rjust(widths[3])}  {where}"
        for name, step, speed, left, where in cells
    ]
    return [Text(shown(line.rstrip())) for line in lines]


def _failure(s: RunState, width: int) -> list[Text]:
    """Which run and why, in two lines at most."""
    words = shown(f"{s.state}: {s.run_id[:8]} {s.name} → {s.target} seed {s.seed}: {s.reason or 'no reason is known'}")
    lines = textwrap.wrap(words, max(20, width - 1), max_lines=2, placeholder=" …", subsequent_indent="  ")
    return [Text(line, "red") for line in lines]


def _some(parts: list[list[Text]], room: int, what: str) -> list[Text]:
    """As many of the parts as there are lines for; the last line then counts the others."""
    if sum(map(len, parts)) <= room:
        return [line for part in parts for line in part]
    lines: list[Text] = []
    for number, part in enumerate(parts):
        if len(lines) + len(part) > room - 1:
            return [*lines, Text(f"… and {len(parts) - number} more {what}: python -m benchmark status", "dim")]
        lines += part
    return lines


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


@app.command(epilog="Examples: `python -m benchmark cancel` · `python -m benchmark cancel 3f2a --whole-task`")
def cancel(
    runs: Runs = None,
    whole_task: Annotated[
        bool, typer.Option("--whole-task", help="Also cancel the runs that share a task with these.")
    ] = False,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Take runs out of SLURM's queue, all or the named ones. What is done stays; what had begun can go on later."""
    found = [state for state in states(results) if state.state in ("queued", "running") and state.job]
    chosen = pick(found, runs, "queued or running on SLURM")
    jobs = {state.job for state in chosen}
    others = [state.run_id for state in found if state.job in jobs and state not in chosen]
    if others and not whole_task:
        names = ", ".join(others[:5])
        raise UserError(f"{len(others)} other runs share a task with these ({names}). To cancel them too: --whole-task")
    queue.cancel(sorted(jobs | slurm.decoding(results, jobs)))
    cancelled = [state.run_id for state in found if state.job in jobs]
    if json:
        say_json({"jobs": sorted(jobs), "runs": cancelled})
    else:
        out.print(f"Cancelled {len(jobs)} tasks with {len(cancelled)} runs. The `run` command sends them again.")
    return 0


@app.command(
    epilog="Examples: `python -m benchmark retry --failed` · `python -m benchmark retry 3f2a --cluster slurm/a100.toml`"
)
def retry(
    runs: Runs = None,
    failed: Annotated[bool, typer.Option("--failed", help="All runs that failed.")] = False,
    interrupted: Annotated[bool, typer.Option("--interrupted", help="All runs that began and stopped.")] = False,
    cluster: Annotated[
        Path | None, typer.Option(help="Another cluster profile than the one they were sent with.")
    ] = None,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Send runs to SLURM again: the failed, the interrupted, or those named. They go on from their checkpoints."""
    kinds = [kind for kind, asked in (("failed", failed), ("interrupted", interrupted)) if asked]
    if not (runs or kinds):
        raise UserError("Say which: retry --failed, retry --interrupted, or retry RUN.")
    wanted = kinds or ["failed", "interrupted"]
    chosen = pick([s for s in states(results) if s.state in wanted], runs, " or ".join(wanted), none_is_fine=True)
    sent = latest(results)
    groups: dict[Path, list[str]] = {}
    for state in chosen:
        if state.run_id not in sent:
            raise UserError(
                f"Run {state.run_id} was never sent to SLURM. The `run` command that made it goes on with it."
            )
        groups.setdefault(sent[state.run_id][0].folder, []).append(state.run_id)
    launched = []
    for ids in groups.values():
        submission = sent[ids[0]][0]
        profile = load_profile(cluster) if cluster else Profile.model_validate(submission.profile)
        launched.append(
            slurm.submit(
                [RunSpec.from_json(submission.specs[run]) for run in ids],
                results=results,
                data_root=Path(submission.data_root) if submission.data_root else None,
                profile=profile,
                wanted=wanted,
                keep_model=submission.keep_model,
                track=submission.track,
            )
        )
    jobs = {job: ids for each in launched for job, ids in each.jobs.items()}
    alone = {run: state for each in launched for run, state in each.left_alone.items()}
    say_launched(slurm.Launched(jobs, alone), results, json=json)
    return 0


@app.command(epilog="Example: `python -m benchmark logs 3f2a`")
def logs(
    run: Annotated[str, typer.Argument(help="A run id, or an unambiguous beginning of it.")],
    whole_task: Annotated[bool, typer.Option("--whole-task", help="All that the run's task printed.")] = False,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Show what a run printed on its node, and why it failed."""
    state = pick(states(results), [run], "known")[0]
    file, text = log_of(results, state, whole_task=whole_task)
    failure = failure_of(state)
    if json:
        say_json({"run_id": state.run_id, "state": state.state, "file": file, "log": text, "failure": failure})
        return 0
    if not file and not failure:
        raise UserError(f"Run {state.run_id} is {state.state} and has printed nothing.")
    if file:
        out.print(f"# {file}", markup=False)
        out.print(text, markup=False)
    if failure:
        out.print(f"failed: {failure['reason']}\n{failure.get('traceback', '')}", markup=False)
    return 0


def pick(found: list[RunState], names: list[str] | None, what: str, *, none_is_fine: bool = False) -> list[RunState]:
    """The runs that are meant: all of them, or each by an unambiguous beginning of its id."""
    if not names:
        if not found and not none_is_fine:
            raise UserError(f"No run is {what}.")
        return found
    chosen = []
    for name in names:
        fitting = [state for state in found if state.run_id.startswith(name)]
        if len(fitting) != 1:
            many = f"{len(fitting)} runs that are {what} begin" if fitting else f"No run that is {what} begins"
            raise UserError(f"{many} with {name!r}. Type: python -m benchmark status")
        chosen += fitting
    return chosen


def send(
    plan: Plan,
    *,
    results: Path,
    data_root: Path | None,
    cluster: Path | None,
    json: bool,
    keep_model: str = "none",
    track: Sequence[str] = (),
) -> int:
    """`run --executor slurm`: send, say the job ids, return."""
    if cluster is None:
        raise UserError(
            "--executor slurm needs a cluster profile, as in: --cluster slurm/one-gpu.toml (see slurm/README.md)"
        )
    profile, where = load_profile(cluster), f"the cluster profile {cluster}"
    launched = slurm.submit(
        plan.specs,
        results=results,
        data_root=data_root,
        profile=profile,
        where=where,
        keep_model=keep_model,
        track=track,
    )
    say_launched(launched, results, json=json)
    return 0


def say_launched(launched: slurm.Launched, results: Path, *, json: bool) -> None:
    """Job ids and what was left alone."""
    alone = Counter(state.state for state in launched.left_alone.values())
    if json:
        say_json(
            {
                "jobs": launched.jobs,
                "runs": {run: job for job, runs in launched.jobs.items() for run in runs},
                "left_alone": {run: state.state for run, state in launched.left_alone.items()},
                "folder": launched.folder,
            }
        )
        return
    if alone:
        out.print("Left alone: " + ", ".join(f"{count} {state}" for state, count in alone.items()) + ".")
    if not launched.jobs:
        out.print("Nothing to send.")
        return
    arrays = Counter(job.partition("_")[0] for job in launched.jobs)
    jobs = ", ".join(f"{job} ({count} {'task' if count == 1 else 'tasks'})" for job, count in arrays.items())
    out.print(f"Sent {launched.runs} runs in {len(launched.jobs)} tasks. Jobs: {jobs}.")
    out.print(f"Watch them with: python -m benchmark status --results {results} --watch")
