"""Nothing of a test goes to the user's cache, and no fault of one test reaches the next."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmark import faults


@pytest.fixture(autouse=True)
def _no_fault_from_before() -> None:
    faults.forget()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(os.environ["XDG_CACHE_HOME"])


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Where malicious code leaves a trace when it runs."""
    return tmp_path / "code-ran"
