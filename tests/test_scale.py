"""A hundred thousand records of real size: table, status and report stay quick, and their cost grows with the runs.

Limits are held against CPU seconds of the whole command, imports included: what it takes on an idle machine, whoever
else uses this one. The time on the clock and the load of the machine are printed beside them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from benchmark import records
from benchmark.spec import canonical_json
from tests.synthetic import write_study

pytestmark = pytest.mark.soak
ALONE = ["source-only", "dan", "dann", "coral", "adda", "mcd", "jan"]
TOGETHER = ["source-only", "source-only:bn", "mdan", "mdda", "dctn", "m3sda", "tsvdnet", "tsvdnet:code"]
SEEDS = (12, 47, 140, 466)  # 2,580 to 100,190 runs
TEN_THOUSAND, HUNDRED_THOUSAND = 10_105, 100_190


def begin(root: Path) -> None:
    """215 runs of seed 0: 8 multi-source and 7 combined rows on 5 targets, 7 rows from each of 4 single sources."""
    write_study(root, TOGETHER, seeds=[0])
    write_study(root, ALONE, standard="combined", seeds=[0])
    write_study(root, ALONE, standard="single-best", seeds=[0])


def grow(first: Iterable[Path], seeds: range) -> None:
    """The same runs with further seeds: sealed like real ones, a little better or worse."""
    for directory in first:
        document = json.loads((directory / "record.json").read_text())
        curve = (directory / "curve.jsonl").read_bytes()
        for seed in seeds:
            folder = directory.with_name(hashlib.sha256(f"{directory.name} {seed}".encode()).hexdigest()[:16])
            folder.mkdir()
            shift = np.random.default_rng([seed, int(folder.name, 16)]).normal(0, 0.8)
            spec = canonical_json({**document["spec"], "seed": seed})
            (folder / "spec.json").write_text(spec)
            (folder / "curve.jsonl").write_bytes(curve)
            (folder / "heartbeat.json").write_text(json.dumps({"update": 350, "total": 350, "seconds": 12.0}))

            def shifted(accuracy: dict[str, float | None], shift: float = shift) -> dict[str, float | None]:
                return {rule: v if v is None else float(np.clip(v + shift, 0, 100)) for rule, v in accuracy.items()}

            scored = document["statistics"]["target"]
            changed = {
                **document,
                "run_id": folder.name,
                "spec": json.loads(spec),
                "accuracy": shifted(document["accuracy"]),
                "statistics": {"target": {**scored, "accuracy": shifted(scored["accuracy"])}},
                "hashes": {**document["hashes"], "spec": hashlib.sha256(spec.encode()).hexdigest()},
            }
            changed["hashes"]["record"] = records.document_hash(changed)
            (folder / "record.json").write_text(json.dumps(changed))


@dataclass(frozen=True)
class Spent:
    """What a command took."""

    cpu: float
    wall: float


def spend(*arguments: str) -> Spent:
    """Run `python -m benchmark …` to its end."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "benchmark", *arguments]
    with open(os.devnull, "wb") as nowhere:
        silent = [(os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)]
        process = os.posix_spawn(command[0], command, os.environ, file_actions=silent)
        _, status, usage = os.wait4(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    found = Spent(usage.ru_utime + usage.ru_stime, time.perf_counter() - start)
    load = os.getloadavg()[0]
    print(f"{arguments[0]}: {found.cpu:.2f} CPU s, {found.wall:.2f} s on the clock at a load of {load:.1f}")
    return found


def least(*arguments: str) -> Spent:
    """The cheapest of three: what is more than that is other people's use of the machine."""
    return min((spend(*arguments) for _ in range(3)), key=lambda spent: spent.cpu)


@dataclass(frozen=True)
class Measured:
    """By number of runs: a table from a warm index, the status, and the first reading of everything."""

    table: dict[int, Spent]
    status: dict[int, Spent]
    reading: dict[int, float]
    report: Spent
    page: Path


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterable[Measured]:
    folder = tmp_path_factory.mktemp("scale")
    root = folder / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("OMP_NUM_THREADS", "1")
        begin(root)
        first = [Path(entry.path) for entry in records.run_directories(root)]
        found = Measured({}, {}, {}, Spent(0, 0), folder / "report.html")
        there, spent = 1, 0.0
        for seeds in SEEDS:
            grow(first, range(there, seeds))
            there, runs = seeds, 215 * seeds
            start = time.process_time()
            assert len(records.load(root)) == runs  # reads what is new; the index is warm from here on
            spent += time.process_time() - start
            found.reading[runs] = spent
            print(f"\n{runs:,} runs; read for the first time in {spent:.1f} CPU s")
            found.table[runs] = least("table", "--suite", "digits", "--results", str(root))
            found.status[runs] = least("status", "--results", str(root))
            if runs == TEN_THOUSAND:
                options = ("--no-figures", "--no-sheets", "--out", str(found.page))
                report = spend("report", "--results", str(root), *options)
        yield Measured(found.table, found.status, found.reading, report, found.page)


def test_ten_thousand_records_stay_quick_and_small(measured: Measured):
    assert measured.table[TEN_THOUSAND].cpu <= 5
    assert measured.status[TEN_THOUSAND].cpu <= 3
    assert measured.report.cpu <= 60
    assert measured.page.stat().st_size <= 50e6


def test_a_table_of_a_hundred_thousand_records_is_quick_from_a_warm_index(measured: Measured):
    assert measured.table[HUNDRED_THOUSAND].cpu <= 5


def test_cost_grows_no_faster_than_the_number_of_records(measured: Measured):
    """A fixed part and so much a run: with so many times the runs a command costs at most as many times as much; a figure.
    The line is printed, not held to a fit: where the fixed part is the larger one, its noise is."""
    lines = {
        "table, warm index": {runs: spent.cpu for runs, spent in measured.table.items()},
        "status": {runs: spent.cpu for runs, spent in measured.status.items()},
        "first reading": measured.reading,
    }
    print(f"figure: {draw(lines, measured.page.with_name('growth.png'))}")
    for name, seconds in lines.items():
        runs, spent = np.array(sorted(seconds.items())).T
        slope, fixed = np.polyfit(runs, spent, 1)
        fit = 1 - ((spent - slope * runs - fixed) ** 2).sum() / ((spent - spent.mean()) ** 2).sum()
        print(f"{name}: {fixed:.2f} s and {1e6 * slope:.0f} µs a run, R² of the line {fit:.3f}")
        assert (spent[1:] / spent[:-1] <= 1.25 * runs[1:] / runs[:-1]).all(), f"{name}: {spent}"  # a quarter for noise


def draw(lines: dict[str, dict[int, float]], path: Path) -> Path:
    """CPU seconds by number of runs, a panel for each thing measured, with the straight line through its ends."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.2), layout="constrained")
    for axes, (name, seconds) in zip(figure.subplots(1, len(lines)), lines.items(), strict=True):
        runs = sorted(seconds)
        axes.plot([runs[0], runs[-1]], [seconds[runs[0]], seconds[runs[-1]]], color="0.7", linestyle="--")
        axes.plot(runs, [seconds[n] for n in runs], marker="o", linestyle="", color="C0")
        axes.set(title=name, xlabel="runs", ylabel="CPU seconds", ylim=(0, None), xlim=(0, None))
        axes.set_xticks([0, 25_000, 50_000, 75_000, 100_000], ["0", "25k", "50k", "75k", "100k"])
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    return path
