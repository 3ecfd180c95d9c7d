"""The small task, made once a session; nothing of a test goes to the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmark import faults
from tests.safety.small import Small


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Three domains and a suite file."""
    return Small(tmp_path_factory.mktemp("small"))


@pytest.fixture(autouse=True)
def _no_fault_from_before() -> None:
    faults.forget()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(os.environ["XDG_CACHE_HOME"])
