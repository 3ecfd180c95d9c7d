"""A week's sweep in small: thousands of runs in reused workers that die now and then."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from pathlib import Path

import psutil
import pytest

from benchmark import records
from benchmark.launch.local import Event, Pool, launch
from benchmark.launch.status import states
from benchmark.records.audit import audit
from benchmark.spec import RunSpec
from tests.safety.small import Small

TRIVIAL = '''
import torch
from methods.source_only import SourceOnly

class Trivial(SourceOnly):
    """Nothing is learnt; what is tested is everything around it."""
    def update(self, sources, target, progress):
        return {"loss": sources[0].images.mean()}
'''


class Reaper:
    """Watches a pool: kills workers with a given probability, looks at the state of all runs now and then."""

    def __init__(self, results: Path, seed: int, probability: float, look_every: int) -> None:
        self.results, self.dice, self.probability, self.look_every = (
            results,
            random.Random(seed),
            probability,
            look_every,
        )
        self.pool: Pool | None = None
        self.kills = self.looks = self.ended = 0
        self.assigned: dict[int, str] = {}
        self.truth: dict[str, str] = {}
        self.memory: list[float] = []
        self.files: list[int] = []
        self.launcher = psutil.Process()

    def __call__(self, event: Event) -> None:
        assert self.pool is not None
        run_id = event.spec.run_id
        if event.kind == "start":
            self.assigned[event.worker] = run_id
            if self.dice.random() < self.probability:
                self.kills += 1
                worker = self.pool.workers[event.worker] if self.pool.workers else None
                if worker is not None:
                    threading.Timer(self.dice.uniform(0, 0.15), _kill, (worker.process.pid,)).start()
        elif event.kind in ("done", "failed"):
            self.truth[run_id] = event.kind
            self.assigned.pop(event.worker, None)
            self.ended += 1
            if self.ended % self.look_every == 0:
                self.look()

    def look(self) -> None:
        """Status, read from disk alone, must agree with what the pool has been told."""
        self.looks += 1
        shown = {s.run_id: s.state for s in states(self.results) if s.state != "queued"}  # those wait in the pool
        for run_id, end in self.truth.items():
            assert shown[run_id] == end, (run_id, end, shown[run_id])
        for run_id in set(shown) - set(self.truth):  # at work, or killed and not yet replaced, or done and not yet told
            assert run_id in self.assigned.values()
            assert shown[run_id] in ("absent", "running", "interrupted", "done"), (run_id, shown[run_id])
        self.memory.append(self.launcher.memory_info().rss / 2**20)
        self.files.append(self.launcher.num_fds())


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def sweep(small: Small, tmp_path: Path, count: int, probability: float, look_every: int) -> Reaper:
    """Run `count` trivial runs under the reaper; then everything again without it."""
    (tmp_path / "trivial.py").write_text(TRIVIAL)
    method, changes = f"{tmp_path / 'trivial.py'}:Trivial", {"run.updates": 2, "run.eval_points": 1}
    first = small.bound(small.spec(method, overrides=changes, standard="multi-source"))
    specs = [RunSpec.from_json({**first.to_json(), "seed": seed}) for seed in range(count)]
    results = tmp_path / "runs"
    reaper = Reaper(results, count, probability, look_every)
    pool = Pool(specs, results=results, data_root=small.data, device="cpu", fail_fast=False, watch=reaper)
    reaper.pool = pool
    outcome = pool.run(2)
    assert len(outcome.done) + len(outcome.failed) == count
    assert not outcome.held
    assert all("killed by SIGKILL" in reason for reason in outcome.failed.values()), outcome.failed
    frame = records.load(results)
    assert dict(frame.status.value_counts()) == {
        kind: n for kind, n in (("done", len(outcome.done)), ("failed", len(outcome.failed))) if n
    }
    assert set(frame.loc[frame.status == "failed", "run_id"]) == set(outcome.failed)
    again = launch([s for s in specs if s.run_id in outcome.failed], results=results, data_root=small.data, workers=2)
    assert not again.failed
    result = audit(results)
    assert result.sound == count
    assert not [f for f in result.findings if f.level == "error"]
    return reaper


def test_a_short_sweep_with_dying_workers_ends_with_every_run_told(small: Small, tmp_path: Path) -> None:
    reaper = sweep(small, tmp_path, 40, probability=0.15, look_every=10)
    assert reaper.kills >= 2
    assert reaper.looks >= 3


@pytest.mark.soak
def test_2000_runs_in_workers_that_die_with_probability_5_percent(small: Small, tmp_path: Path) -> None:
    reaper = sweep(small, tmp_path, 2000, probability=0.05, look_every=50)
    settled = len(reaper.memory) // 10  # the first looks load what is loaded once
    growth = reaper.memory[-1] - reaper.memory[settled]
    print(
        f"\n2000 runs, {reaper.kills} workers killed, {reaper.looks} looks; launcher {reaper.memory[settled]:.0f} → "
        f"{reaper.memory[-1]:.0f} MB, {reaper.files[settled]} → {reaper.files[-1]} open files"
    )
    assert reaper.kills > 50
    assert growth < 40
    assert max(reaper.files[settled:]) <= reaper.files[settled] + 4
