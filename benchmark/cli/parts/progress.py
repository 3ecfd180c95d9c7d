"""How far it is, and what time is left: of the runs of a sweep, and of anything that is counted."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from benchmark.cli import duration, err, quiet

if TYPE_CHECKING:
    from benchmark.launch.local import Event
    from benchmark.spec import RunSpec

TELL_SECONDS = 30.0


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
        short = err.width < 100  # the words need the room
        columns = (BarColumn(bar_width=10 if short else 24), TextColumn("{task.fields[note]}"))
        self.bar = Progress(TextColumn("{task.description}"), *columns, console=err)
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
        elif event.kind not in ("start", "again"):
            self.left.pop(run_id, None)
            self.ended += 1
            self.failed += event.kind == "failed"
        if self.live:
            self._draw(event)
        elif self.show and event.kind not in ("start", "beat"):
            word = {"failed": f"failed: {event.reason}", "again": f"back in the queue: {event.reason}"}.get(
                event.kind, event.kind
            )
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


@contextlib.contextmanager
def counting(what: str, *, hidden: bool) -> Iterator[Callable[[int, int], None]]:
    """How many are done and what time is left: a bar on a terminal, a line every half minute elsewhere."""
    if hidden:
        yield lambda done, total: None
    elif quiet():
        began = said = time.monotonic()

        def tell(done: int, total: int) -> None:
            nonlocal said
            now = time.monotonic()
            if now - said >= TELL_SECONDS and done < total:
                said = now
                left = duration((now - began) / done * (total - done))
                err.print(f"{what}: {done} of {total}, {left} left", markup=False)

        yield tell
    else:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=err) as progress:
            task = progress.add_task(what, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)


def title(spec: RunSpec) -> str:
    """A run in a few words."""
    if spec.standard == "upper-bound":
        return f"upper-bound → {spec.target} seed {spec.seed}"
    single = f" from {spec.sources[0]}" if spec.standard == "single-best" else ""
    return f"{spec.name} → {spec.target}{single} seed {spec.seed}"
