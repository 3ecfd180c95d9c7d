"""A run says last what it left out and what that takes; where nothing may be left out, it fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SKIPPING = """
import pytest
from tests import needs

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(needs.Tally())
"""
LACKING = """
from tests import needs

needs.NEEDS["Chromium"] = needs.Need(False, "apt-get install chromium")

@needs.mark("Chromium")
def test_in_a_browser(): ...

@needs.gpu
def test_on_a_gpu(): ...

def test_that_finds_out():
    needs.skip("disk", "not root")

def test_that_runs(): ...
"""


def run(folder: Path, may_skip: str | None, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(SKIPPING)
    (folder / "test_lacking.py").write_text(LACKING)
    environment = {**os.environ, "PYTHONPATH": str(TESTS.parent), "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("BENCHMARK_MAY_SKIP", None)
    if may_skip is not None:
        environment["BENCHMARK_MAY_SKIP"] = may_skip
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        str(folder),
        *options,
    ]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)


def test_on_a_users_machine_the_run_passes_and_its_last_line_says_what_to_install(tmp_path: Path):
    done = run(tmp_path, None)
    last = done.stdout.strip().splitlines()[-1]
    assert done.returncode == 0
    assert last.startswith(
        "Not covered here, with what it takes: Chromium (1; apt-get install chromium); GPU (1; a machine"
    )
    assert "disk (1; the right to mount a small disk (root))." in last


@pytest.mark.parametrize(("may_skip", "code"), [("GPU", 1), ("GPU,Chromium,disk", 0)])
def test_where_nothing_may_be_skipped_a_skip_fails_the_run(tmp_path: Path, may_skip: str, code: int):
    done = run(tmp_path, may_skip, "-n", "2")
    assert done.returncode == code
    assert ("skipped: Chromium, disk." in " ".join(done.stdout.split())) == (code == 1)


def test_every_skip_of_these_tests_names_a_need():
    plain = re.compile(r"pytest\.(skip\(|mark\.skip|importorskip)")
    found = [p.name for p in TESTS.rglob("*.py") if plain.search(p.read_text(encoding="utf-8"))]
    assert set(found) <= {"needs.py", "test_needs.py"}
