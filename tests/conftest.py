"""Fixtures that all tests share: one data cache for the session, no user environment, one thread."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _no_user_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a developer has set must not change what a test sees (real images are asked for by their own fixture)."""
    for name in ("BENCHMARK_RESULTS", "BENCHMARK_FAULT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def paper_tex() -> str:
    """The paper's LaTeX, for tests that check against it."""
    path = os.environ.get("BENCHMARK_PAPER_TEX")
    if not path or not Path(path).is_file():
        pytest.skip("BENCHMARK_PAPER_TEX does not name the paper's LaTeX source")
    return Path(path).read_text(encoding="utf-8")
