"""Two workers of one thread beside one worker of two threads, on the mini suite: wanted, 1.6 times the runs per hour."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection

import pytest

from tests.perf.pairs import holds, ratio

pytestmark = pytest.mark.perf
STEPS = 40


def _work(pipe: Connection, threads: int) -> None:
    """A process with a mini run in it, that makes as many steps as it is told."""
    import tempfile
    from pathlib import Path

    import torch

    from benchmark import data
    from benchmark.claim import Claim
    from benchmark.run import Run
    from benchmark.spec import RunSpec, load_suite, resolve
    from benchmark.speed import keep_freed_memory

    keep_freed_memory()
    torch.set_num_threads(threads)
    spec = RunSpec("digits", "mini", "tsvdnet", target="mm", threads=threads)
    dataset = data.load(load_suite("digits"), "mini", "part")
    with tempfile.TemporaryDirectory() as folder:
        run = Run(resolve(spec), dataset, Path(folder), Claim(Path(folder)), device="cpu", data_root=None)
        run.method.train()
        pipe.send("ready")
        while (steps := pipe.recv()) is not None:
            for _ in range(steps):
                run.step(0.5)
                run.update += 1
            pipe.send("done")


def test_two_workers_of_one_thread_beat_one_of_two() -> None:
    context = multiprocessing.get_context("spawn")
    workers = []
    for threads in (1, 1, 2):
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, threads), daemon=True)
        process.start()
        assert ours.recv() == "ready"
        workers.append((process, ours))

    def ask(who: list[int], steps: int) -> None:
        for i in who:
            workers[i][1].send(steps)
        for i in who:
            assert workers[i][1].recv() == "done"

    try:
        # the same number of runs' worth of steps on both sides
        speed, one, two = ratio(lambda: ask([2], 2 * STEPS), lambda: ask([0, 1], STEPS))
    finally:
        for process, pipe in workers:
            pipe.send(None)
            process.join(10)
    holds("runs an hour: two workers of one thread / one of two", speed, at_least=1.6, one_ms=one, two_ms=two)
