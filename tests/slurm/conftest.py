"""A real SLURM for the tests of this folder, a copy of the code that stands still, and words for what they do."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmark.launch.status import states
from tests import needs

ROOT = Path(__file__).parent.parent.parent
METHODS = Path(__file__).parent / "paced.py"
PROFILE = {
    "title": "test",
    "partition": "main",
    "memory_gb": 3,
    "time": 30,
    "parallel": 12,
    "pack_runs": 1,
    "signal_seconds": 30,
}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that fails shows what its tasks printed."""
    report = (yield).get_result()
    if report.when == "call" and report.failed:
        for name in ("bench", "bare_bench", "limited"):
            bench = getattr(item, "funcargs", {}).get(name)
            bench = bench[0] if isinstance(bench, tuple) else bench
            if bench is not None:
                report.sections.append((f"tasks of {name}", bench.logs()))


def wait_for(what: str, question: Callable[[], Any], seconds: float = 300) -> Any:
    """The first true answer; a failure that says what was waited for."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.3)
    return answer


@dataclass
class Cluster:
    """The one-machine SLURM: its own directory, its own commands."""

    base: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.base / "slurm.conf")}

    def do(self, *words: str) -> str:
        """`python slurm/testcluster …`."""
        command = [sys.executable, str(ROOT / "slurm" / "testcluster"), "--base", str(self.base), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ask(self, *command: str) -> str:
        """One of SLURM's own commands."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def heal(self) -> None:
        """Every daemon up and every node in service again."""
        for name in [line.split()[0] for line in self.status().splitlines() if "not running" in line]:
            self.do("start", name)
        deadline = time.monotonic() + 120
        while (found := self.ask("sinfo", "-h", "-N", "-p", "main", "-o", "%T").split()) != ["idle"] * 3:
            assert time.monotonic() < deadline, f"the nodes are {found}\n{self.status()}"
            time.sleep(0.5)

    def status(self) -> str:
        command = [sys.executable, str(ROOT / "slurm" / "testcluster"), "--base", str(self.base), "status"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


@dataclass
class Bench:
    """The benchmark's command line in a copy of the code, with a results folder of its own."""

    code: Path
    results: Path
    environment: dict[str, str]

    def __call__(self, *words: str, expect: int = 0, **environment: str) -> str:
        """`python -m benchmark … --results R`; its standard output. A wrong exit code is a failure."""
        done = self.start(*words, **environment)
        assert done.returncode == expect, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout if expect in (0, 1) else done.stderr

    def start(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "benchmark", *words, "--results", str(self.results)]
        full = {**os.environ, "OMP_NUM_THREADS": "1", **self.environment, **environment}
        return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=self.code, env=full)

    def send(self, *words: str, profile: dict[str, Any] | None = None, **environment: str) -> dict[str, Any]:
        """`run --executor slurm`, with a profile for the occasion; what it says, as JSON."""
        file = self.profile(**(profile or {}))
        said = self(
            "run", "--suite", "digits", *words, "--executor", "slurm", "--cluster", str(file), "--json", **environment
        )
        return json.loads(said[said.index("{") :])

    def locally(self, *words: str) -> None:
        """The same request on this machine, without SLURM."""
        done = self.start("run", "--suite", "digits", *words, "--workers", "2")
        assert self.outcome(), done.stdout + done.stderr

    def profile(self, **changes: Any) -> Path:
        """A profile file: the usual one with changes; `sbatch` is a table."""
        values = {**PROFILE, **changes}
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if key != "sbatch"]
        lines += ["[sbatch]", *(f"{key} = {json.dumps(value)}" for key, value in values.get("sbatch", {}).items())]
        self.results.mkdir(parents=True, exist_ok=True)
        file = self.results / "profile.toml"
        file.write_text("\n".join(lines) + "\n")
        return file

    def states(self) -> dict[str, dict[str, Any]]:
        """{run_id: what `status` says}, without the start of an interpreter: tests ask often."""
        with pytest.MonkeyPatch.context() as patch:
            for key, value in self.environment.items():
                patch.setenv(key, value)
            return {state.run_id: asdict(state) for state in states(self.results)}

    def becomes(self, run: str, state: str, seconds: float = 240) -> dict[str, Any]:
        """Wait until a run has a state; what `status` says of it then."""
        return wait_for(f"{run} to be {state}", lambda: (now := self.states()[run])["state"] == state and now, seconds)

    def outcome(self) -> dict[str, tuple[Any, ...]]:
        """{run_id: (weights, accuracies, curve)} of the finished runs: what must be equal bit for bit."""
        found = {}
        for file in self.results.glob("digits/mini/*/record.json"):
            record = json.loads(file.read_text())
            found[file.parent.name] = (
                record["weights"],
                record["accuracy"],
                (file.parent / "curve.jsonl").read_bytes(),
            )
        return found

    def record(self, run_id: str) -> dict[str, Any]:
        return json.loads((self.results / "digits" / "mini" / run_id / "record.json").read_text())

    def done(self, run_ids: Any) -> bool:
        return all((self.results / "digits" / "mini" / run / "record.json").exists() for run in run_ids)

    def beat(self, run_id: str) -> dict[str, Any]:
        try:
            return json.loads((self.results / "digits" / "mini" / run_id / "heartbeat.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}

    def logs(self) -> str:
        return "\n".join(f"# {f.name}\n{f.read_text()}" for f in sorted(self.results.glob(".slurm/*/*.out")))


def _cluster(*options: str) -> Iterator[Cluster]:
    base = Path(tempfile.mkdtemp(prefix="slurm-", dir=tempfile.gettempdir()))
    cluster = Cluster(base / "c")
    command = [sys.executable, str(ROOT / "slurm" / "testcluster"), "--base", str(cluster.base), "up", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        with contextlib.suppress(AssertionError):  # nothing of it may have come up
            _remove(cluster)
        needs.skip("SLURM", done.stderr.strip())
    try:
        yield cluster
    finally:
        _remove(cluster)


def _remove(cluster: Cluster) -> None:
    """Its daemons and its folder, also of one that came up in part."""
    cluster.do("down")
    shutil.rmtree(cluster.base.parent, ignore_errors=True)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three nodes with accounting, for the whole session."""
    yield from _cluster()


@pytest.fixture(scope="session")
def bare_cluster() -> Iterator[Cluster]:
    """Three nodes without accounting: `sacct` fails, as on many sites."""
    yield from _cluster("--no-accounting")


@pytest.fixture(scope="session")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code: runs refuse code that changes while they wait, and people edit the original."""
    copy = tmp_path_factory.mktemp("code")
    for package in ("benchmark", "methods", "tsvdnet"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture
def bench(cluster: Cluster, code: Path, tmp_path: Path) -> Bench:
    return Bench(code, tmp_path / "r", cluster.environment)


@pytest.fixture
def bare_bench(bare_cluster: Cluster, code: Path, tmp_path: Path) -> Bench:
    return Bench(code, tmp_path / "r", bare_cluster.environment)


# The run that all interruption tests interrupt, and what it gives when nobody does.
SMALL = {"eval_points": 3, "batch": 8, "val_images": 20, "unsup_images": 40, "network.width": 1 / 32}
PACED = ("--methods", f"{METHODS}:Paced", "--targets", "up", "--limit-steps", "60", *(
    word for key, value in SMALL.items() for word in ("--set", f"run.{key}={value}")
))  # fmt: skip


@pytest.fixture(scope="session")
def uninterrupted(code: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, ...]]:
    """The outcome of the paced run on this machine, without SLURM."""
    here = Bench(code, tmp_path_factory.mktemp("local"), {})
    here.locally(*PACED)
    return here.outcome()
