"""What the pieces cost here (pytest-benchmark's table; no time is asserted), and each method's step over Source-Only's."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmark import data, plan, records, tables
from benchmark.data.base import Dataset
from benchmark.records.lease import Lease
from benchmark.run.loop import Run
from benchmark.run.speed import keep_freed_memory
from benchmark.spec import RunSpec, load_suite, resolve
from methods.contract import BUILT_IN, Views
from tests.perf.pairs import PAIRS, holds, ratio
from tests.synthetic import write_study
from tsvdnet.tensor import shrink

pytestmark = pytest.mark.perf


@lru_cache(maxsize=1)
def dataset() -> Dataset:
    keep_freed_memory("conv3fc2")
    return data.load(load_suite("digits"), "mini", "part")


def at_last_stage(method: str, folder: Path) -> Run:
    """A run of the mini digits in the method's last stage, one update after entering each."""
    spec = RunSpec("digits", "mini", method, target="mm")
    run = Run(resolve(spec), dataset(), folder, Lease(folder), device="cpu", data_root=None)
    run.method.train()
    for stage in run.stages:
        passes = [s.full_pass(run.handed_out) for s in run.sources]
        run.method.enter(stage.name, Views(passes, run.target.full_pass(run.handed_out)))
        step(run)
    return run


def step(run: Run) -> None:
    run.step(0.5)
    run.update += 1


@pytest.mark.parametrize("method", [name for name, _, _ in BUILT_IN])
def test_step(benchmark: Any, method: str, tmp_path: Path) -> None:
    plain, run = (at_last_stage(m, tmp_path) for m in ("source-only", method))
    over, source_ms, ms = ratio(lambda: step(run), lambda: step(plain))
    holds(f"step of {method} over Source-Only's", over, step_ms=source_ms, source_only_ms=ms)
    benchmark.pedantic(step, (run,), rounds=PAIRS)


def test_evaluation(benchmark: Any, tmp_path: Path) -> None:
    run = at_last_stage("tsvdnet", tmp_path)
    row = benchmark.pedantic(run.evaluator.row, (run.method,), rounds=PAIRS, warmup_rounds=1)
    assert 0 <= row["target"] <= 100


def test_loader(benchmark: Any, tmp_path: Path) -> None:
    run = at_last_stage("source-only", tmp_path)
    images = benchmark.pedantic(run.target.images, (5,), rounds=50, warmup_rounds=5)
    assert len(images) == run.settings.batch


@pytest.mark.parametrize("shape", [(10, 5, 10), (345, 6, 345)], ids=str)
def test_prox(benchmark: Any, shape: tuple[int, int, int]) -> None:
    g = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    assert benchmark.pedantic(shrink, (g, 2.0), rounds=15, warmup_rounds=3).shape == shape


SEEDS = 20
RUNS = len(BUILT_IN) * 5 * SEEDS  # five targets

# -- records, plans, tables -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs: every method, five targets, twenty seeds."""
    root = tmp_path_factory.mktemp("study")
    write_study(root, [name for name, _, _ in BUILT_IN], seeds=range(SEEDS))
    return root


def test_record_is_read_and_written(benchmark: Any, study: Path) -> None:
    folder = Path(next(records.run_directories(study)).path)

    def there_and_back() -> None:
        found = records.read(folder)
        assert found is not None
        records.write(folder, dict(found.document))

    benchmark.pedantic(there_and_back, rounds=50, warmup_rounds=2)


def test_records_are_loaded(benchmark: Any, study: Path) -> None:
    frame = benchmark.pedantic(records.load, (study,), rounds=PAIRS, warmup_rounds=1)
    assert len(frame) == RUNS


def test_plan_of_many_runs(benchmark: Any, study: Path) -> None:
    request = plan.Request("digits", methods=[name for name, _, _ in BUILT_IN], seeds=range(SEEDS))

    def planned() -> int:
        made = plan.make(request)
        return len(plan.states(made.specs, study))

    dataset()  # the generated images are there, as for a second command
    assert benchmark.pedantic(planned, rounds=PAIRS, warmup_rounds=1) >= RUNS


def test_table_of_many_runs(benchmark: Any, study: Path) -> None:
    frame = records.load(study)
    made = benchmark.pedantic(
        tables.make, ("comparison", frame, "digits"), {"tier": "mini"}, rounds=PAIRS, warmup_rounds=1
    )
    assert len(made.rows) >= len(BUILT_IN)
