"""Runs with their models: one that no test may harm, and one that each test may."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark import records
from tests.safety.small import Small


@pytest.fixture(scope="session")
def record(small: Small, tmp_path_factory: pytest.TempPathFactory) -> records.Record:
    """A run of T-SVDNet with all its models."""
    return small.execute(small.spec("tsvdnet"), tmp_path_factory.mktemp("runs"), keep_model="selected")


@pytest.fixture
def copy(small: Small, tmp_path: Path) -> records.Record:
    """A run of its own that may be harmed."""
    return small.execute(small.spec(), tmp_path, keep_model="last")
