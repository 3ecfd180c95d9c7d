"""This machine as a launcher: a bounded pool of worker processes, one run each at a time.

Results do not depend on the number of workers: threads are part of the spec. A worker that dies (out of memory, a
kill) costs its run a failure with the reason, and is replaced; no other run notices. A worker that is told to stop, by
us or by somebody else, or whose launcher died saves its run and stops.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from benchmark import records, run
from benchmark.errors import Interrupted
from benchmark.faults import fault
from benchmark.files import read_object, write_json
from benchmark.launch.device import check_precision, complaint, survey, torch_device, visible
from benchmark.launch.submissions import Note
from benchmark.records import StateName
from benchmark.records.lease import LeaseLost, RunHeld
from benchmark.run import processes
from benchmark.run.failure import is_device_error, reason_of, write_failure
from benchmark.run.speed import needs_compiler
from benchmark.spec import RunSpec, resolve


@dataclass
class Outcome:
    """What became of a plan."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)  # another process is at them
    interrupted: bool = False


@dataclass(frozen=True)
class Event:
    """start · beat · done · failed · held · interrupted · again (back in the queue), of one worker and one run."""

    kind: str
    worker: int
    spec: RunSpec
    beat: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


@dataclass
class _Worker:
    number: int
    process: Any
    pipe: Connection
    spec: RunSpec | None = None
    stopping: bool = False
    gone: bool = False  # its GPU does not work any more


def launch(
    specs: Sequence[RunSpec],
    *,
    results: Path,
    data_root: Path | None = None,
    workers: int = 1,
    device: str = "cpu",
    fail_fast: bool = False,
    watch: Callable[[Event], None] = lambda event: None,
    keep_model: str = "none",
    track: Sequence[str] = (),
) -> Outcome:
    """Execute all specs on at most `workers` processes. Ctrl-C lets each worker save itself, then stops.

    `device` is cpu, or the GPUs to use as in `cuda:0,2`: workers go round them, and each sees its own alone.
    """
    if any(resolve(spec).settings.compile for spec in specs):
        needs_compiler(device.partition(":")[0])
    for precision in {resolve(spec).settings.precision for spec in specs} - {"fp32"}:
        check_precision(precision, device)
    pool = Pool(
        list(specs), results=results, data_root=data_root, device=device, fail_fast=fail_fast, watch=watch,
        keep_model=keep_model, track=track,
    )  # fmt: skip
    return pool.run(min(workers, len(specs)))


class Pool:
    """The parent's side: hands out specs, reads events, replaces the dead."""

    def __init__(
        self,
        specs: list[RunSpec],
        *,
        results: Path,
        data_root: Path | None,
        device: str,
        fail_fast: bool,
        watch: Callable[[Event], None],
        keep_model: str = "none",
        track: Sequence[str] = (),
    ) -> None:
        self.queue = deque(specs)
        self.results, self.data_root = results, data_root
        self.device, self.visible = torch_device(device), visible(device)
        self.fail_fast, self.watch, self.keep_model, self.track = fail_fast, watch, keep_model, tuple(track)
        self.outcome = Outcome()
        self.workers: list[_Worker] = []

    def run(self, count: int) -> Outcome:
        """Until every spec has an end."""
        note = Note(self.results, list(self.queue))
        try:
            self.workers = [self._start(i) for i in range(count)]
            for worker in self.workers:
                self._next(worker)
            while any(w.spec for w in self.workers):
                self._listen()
                note.touch()
        except KeyboardInterrupt:
            self.outcome.interrupted = True
            self.queue.clear()
            self._stop()
        finally:
            note.remove()
            self._end()
        return self.outcome

    def _start(self, number: int) -> _Worker:
        context = processes.context()
        ours, theirs = context.Pipe()
        places = (str(self.results), str(self.data_root or ""), self.device, self.keep_model, self.track)
        own = {"CUDA_VISIBLE_DEVICES": self.visible[number % len(self.visible)]} if self.visible else {}
        process = context.Process(target=_work, args=(theirs, *places, {**os.environ, **own}), daemon=True)
        process.start()
        theirs.close()
        return _Worker(number, process, ours)

    def _replace(self, worker: _Worker) -> None:
        """Another process in the place of a dead one; nothing of the dead one stays open."""
        worker.pipe.close()
        with contextlib.suppress(ValueError):  # it hangs between life and death: the system's business
            worker.process.close()
        fresh = self._start(worker.number)
        worker.process, worker.pipe = fresh.process, fresh.pipe

    def _next(self, worker: _Worker) -> None:
        worker.spec = self.queue.popleft() if self.queue else None
        if worker.spec is None:
            return
        try:
            worker.pipe.send(worker.spec.to_json())
        except OSError:  # killed between two runs
            worker.process.join(10)
            self._replace(worker)
            worker.pipe.send(worker.spec.to_json())
        self.watch(Event("start", worker.number, worker.spec))

    def _listen(self) -> None:
        busy = {w.pipe: w for w in self.workers if w.spec}
        for ready in wait(list(busy), timeout=1.0):
            worker = busy[ready]  # type: ignore[index]
            if worker.spec is None:  # heard out while the others were stopped
                continue
            try:
                kind, content = worker.pipe.recv()
            except (EOFError, OSError):
                if self._left_between_runs(worker):
                    continue
                kind, content = self._died(worker)
            if kind == "beat":
                self.watch(Event("beat", worker.number, worker.spec, beat=content))
                continue
            if kind == "broken":  # its GPU context is gone for good, and with it the process
                worker.process.join(10)
                fault = "" if worker.stopping else self._fault(worker)
                if fault and self._others_take_over(worker, fault):
                    continue
                if self.queue and not worker.stopping and not self.fail_fast:
                    self._replace(worker)  # the GPU works: the next run gets a fresh process
                kind = "failed"
            self._ended(worker, kind, content)
            if kind == "interrupted" and self.queue and not worker.stopping:  # somebody told it, and not us, to stop
                worker.process.join(10)
                self._replace(worker)
            if self.fail_fast and kind == "failed":
                self.queue.clear()
                self._stop()
            if not worker.stopping:
                self._next(worker)

    def _fault(self, worker: _Worker) -> str:
        """Why the worker's GPU can do no more work; "" when it can."""
        return complaint(survey(only=self.visible[worker.number % len(self.visible)])) if self.visible else ""

    def _others_take_over(self, worker: _Worker, fault: str) -> bool:
        """The worker is at an end with its GPU, and its run goes back to the queue; False when no other GPU is left.

        Then the runs that wait end here too, with the reason, and have lost nothing.
        """
        assert worker.spec is not None
        worker.gone = True
        others = [w for w in self.workers if not w.gone]
        if not others:
            for spec in self.queue:
                self.outcome.failed[spec.run_id] = f"not begun: no GPU is left ({fault})"
            self.queue.clear()
            return False
        self.watch(Event("again", worker.number, worker.spec, reason=fault))
        self.queue.appendleft(worker.spec)
        worker.spec = None
        for idle in [w for w in others if w.spec is None]:
            self._next(idle)
        return True

    def _ended(self, worker: _Worker, kind: str, reason: str) -> None:
        assert worker.spec is not None
        run_id = worker.spec.run_id
        if kind == "done":
            self.outcome.done.append(run_id)
        elif kind == "failed":
            self.outcome.failed[run_id] = reason
        elif kind == "held":
            self.outcome.held.append(run_id)
        elif kind == "interrupted":  # by us, or by a signal to the worker alone: either way it is not at its end
            self.outcome.interrupted = True
        self.watch(Event(kind, worker.number, worker.spec, reason=reason))
        worker.spec = None

    def _left_between_runs(self, worker: _Worker) -> bool:
        """Somebody told the process to stop as its run came to its end: the next run, which it never saw, gets another one."""
        worker.process.join(10)
        if worker.stopping or worker.process.exitcode != 0:
            return False
        assert worker.spec is not None
        self.watch(Event("again", worker.number, worker.spec, reason="its worker was told to stop before it began"))
        self.queue.appendleft(worker.spec)
        self._replace(worker)
        self._next(worker)
        return True

    def _died(self, worker: _Worker) -> tuple[str, str]:
        """The process is gone without a word: what became of its run. Its place is filled when there is more to do."""
        assert worker.spec is not None
        worker.process.join(10)
        code = worker.process.exitcode
        if worker.stopping and code in (0, -signal.SIGTERM):  # told to stop before it could listen: nothing had begun
            return "interrupted", ""
        reason = f"the worker process ended with exit code {code}"
        if code is not None and code < 0:
            reason = f"the worker process was killed by {signal.Signals(-code).name}"
            if -code == signal.SIGKILL:
                reason += " (out of memory, or killed by hand)"
        if self.queue and not worker.stopping:
            self._replace(worker)
        directory = records.run_directory(self.results, worker.spec, worker.spec.run_id)
        if records.state(directory).name is StateName.DONE:  # killed between its record and its answer
            return "done", ""
        update = read_object(directory / "heartbeat.json").get("update")
        if not (directory / "spec.json").exists():  # killed before it could begin: a failure needs its spec to be seen
            with contextlib.suppress(OSError):
                write_json(directory / "spec.json", worker.spec.to_json())
        write_failure(directory, reason, method=worker.spec.name, update=update)
        return "failed", reason

    def _stop(self) -> None:
        """Ask every worker to save and stop; wait for them."""
        for worker in self.workers:
            worker.stopping = True
            if worker.process.is_alive():
                worker.process.terminate()
        deadline = time.monotonic() + 60
        while any(w.spec for w in self.workers) and time.monotonic() < deadline:
            with contextlib.suppress(KeyboardInterrupt):
                self._listen()

    def _end(self) -> None:
        for worker in self.workers:
            with contextlib.suppress(OSError, BrokenPipeError):
                worker.pipe.send(None)
        for worker in self.workers:
            worker.process.join(10)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join(10)
            worker.pipe.close()


def _work(
    pipe: Connection,
    results: str,
    data_root: str,
    device: str,
    keep_model: str,
    track: Sequence[str],
    environment: dict[str, str],
) -> None:
    """A worker: specs in, events out. SIGINT is the parent's business; SIGTERM means save and stop."""
    os.environ.clear()
    os.environ.update(environment)  # the launcher's, not that of the server that this process was forked from
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def beat(content: dict[str, Any]) -> None:
        try:
            pipe.send(("beat", content))
        except OSError:  # the launcher died: save and stop, the next one goes on
            stop.set()

    while not stop.is_set():
        try:
            document = pipe.recv()
        except (EOFError, OSError):
            return
        if document is None:
            return
        try:
            spec = RunSpec.from_json(document)
            run.execute(
                spec, results=results, data_root=data_root or None, device=device, should_stop=stop.is_set, watch=beat,
                keep_model=keep_model, track=track,
            )  # fmt: skip
            answer = ("done", "")
        except Interrupted:
            answer = ("interrupted", "")
        except (RunHeld, LeaseLost) as error:
            answer = ("held", str(error))
        except BaseException as error:
            answer = ("broken" if is_device_error(error) else "failed", reason_of(error))
        fault("answer")
        try:
            pipe.send(answer)
        except OSError:
            return
        if answer[0] == "broken":
            return
