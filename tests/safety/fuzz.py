"""Thousands of malformed inputs: each is refused with a sentence. None gives a traceback, hangs, or is accepted."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmark.errors import UserError

EXAMPLES = {
    "suites": 300, "profiles": 250, "records": 400, "curves": 200, "checkpoints": 150, "npz": 200, "images": 200,
    "lists": 200, "commands": 300, "studies": 150, "bundles": 150,
}  # fmt: skip
HANG_SECONDS = 60


def fuzz(name: str, inputs: st.SearchStrategy[Any], refuse: Callable[[Any], None], count: int = 0) -> int:
    """Call `refuse` on so many inputs, and give their number; it fails when an input is accepted or hangs."""
    seen, count = 0, count or EXAMPLES[name]

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs)
    def all_inputs(value: Any) -> None:
        nonlocal seen
        seen += 1
        with no_hang():
            refuse(value)

    all_inputs()
    assert seen >= count
    return seen


@contextlib.contextmanager
def no_hang() -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError(f"not answered within {HANG_SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_sentence(error: Exception) -> None:
    """Words for people: not empty, not a dump."""
    words = str(error)
    assert words
    assert "Traceback" not in words
    assert len(words) < 5000


def refused_by(reader: Callable[[Path], Any], path: Path) -> Callable[[bytes], None]:
    """Write the input to `path` and expect a UserError from the reader."""

    def refuse(content: bytes) -> None:
        path.write_bytes(content)
        with pytest.raises(UserError) as caught:
            reader(path)
        is_sentence(caught.value)

    return refuse
