"""Processes of their own for runs: nothing of the parent is in their memory but what they are sent."""

from __future__ import annotations

import multiprocessing
from typing import Any

NEEDED = ("benchmark.run.start", "sklearn.linear_model")  # what every run imports, and takes seconds


def context() -> Any:
    """Forked from a server that has these in memory, so that each begins in milliseconds; spawned where none can fork."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*NEEDED])
    return context
