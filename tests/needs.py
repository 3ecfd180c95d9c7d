"""What a machine may lack and the tests then leave out: one list, with what to type for each; and the last line that says so.

A test names its need (`@needs.chromium`, `needs.skip("disk")`). Without it the test is skipped, and the last line of the
run says what was not covered. Where BENCHMARK_MAY_SKIP is set (CI: `GPU`), a skip for any other need fails the run.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.browser import CHROMIUM

MAY_SKIP = "BENCHMARK_MAY_SKIP"


@dataclass(frozen=True)
class Need:
    """Something a test stands on: whether it is here, and how one gets it."""

    here: bool
    get: str


def _file(variable: str) -> bool:
    return Path(os.environ.get(variable) or "/nowhere").exists()


NEEDS = {
    "GPU": Need(torch.cuda.is_available(), "a machine with CUDA"),
    "a machine without a GPU": Need(not torch.cuda.is_available(), "CUDA_VISIBLE_DEVICES="),
    "Chromium": Need(bool(CHROMIUM), "apt-get install chromium"),
    "LaTeX": Need(
        shutil.which("pdflatex") is not None,
        "apt-get install texlive-latex-extra texlive-fonts-recommended texlive-science",
    ),
    "compiler": Need(shutil.which("g++") is not None, "apt-get install g++"),
    "paper": Need(_file("BENCHMARK_PAPER_TEX"), "BENCHMARK_PAPER_TEX=…/tsvdnet.tex, the paper's LaTeX"),
    "images": Need(_file("BENCHMARK_DATA_ROOT"), "BENCHMARK_DATA_ROOT=…, the real images"),
    "docs": Need(find_spec("mkdocs") is not None, "pip install -e '.[docs]'"),
    "track": Need(
        all(find_spec(name) is not None for name in ("tensorboard", "wandb", "mlflow", "trackio")),
        "pip install -e '.[track]'",
    ),
    "frozen": Need(find_spec("efficientnet_lite_pytorch") is not None, "pip install -e '.[frozen]'"),
    "timm": Need(find_spec("timm") is not None, "pip install -e '.[timm]'"),
    "disk": Need(True, "the right to mount a small disk (root)"),  # found out by trying
    "SLURM": Need(True, "apt-get install slurm-wlm slurmdbd mariadb-server"),  # found out by starting one
}


def mark(name: str) -> pytest.MarkDecorator:
    """Leave a test out where `name` is not here."""
    return pytest.mark.skipif(not NEEDS[name].here, reason=f"needs: {name}")


def skip(name: str, why: str = "") -> None:
    """Leave the present test out: it found out by itself that `name` is not here."""
    pytest.skip(f"needs: {name}" + (f" ({why})" if why else ""))


gpu, chromium, latex, compiler, paper, images = map(mark, ("GPU", "Chromium", "LaTeX", "compiler", "paper", "images"))
docs, track, frozen, timm = map(mark, ("docs", "track", "frozen", "timm"))


def forbidden(names: Iterable[str]) -> list[str]:
    """The needs for which this run may not skip; none where BENCHMARK_MAY_SKIP is not set."""
    allowed = os.environ.get(MAY_SKIP)
    return [] if allowed is None else sorted(name for name in names if name not in allowed.split(","))


class Tally:
    """A pytest plugin: counts the skips of a run by need, says them last, and fails the run where they are forbidden."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):  # not an expected failure
            words = report.longrepr[2].removeprefix("Skipped: ")
            self.count[words.removeprefix("needs: ").split(" (")[0]] += 1

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if forbidden(self.count) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        if self.count:
            config.get_terminal_writer().line(self.last_line())

    def last_line(self) -> str:
        """What was not covered, and what to type for it."""
        parts = [
            f"{name} ({n}; {NEEDS[name].get})" if name in NEEDS else f"{name} ({n})" for name, n in self.count.items()
        ]
        said = f"Not covered here, with what it takes: {'; '.join(parts)}."
        if names := forbidden(self.count):
            said = (
                f"FAILED: nothing may be skipped here but {os.environ[MAY_SKIP]}; skipped: {', '.join(names)}. {said}"
            )
        return said
