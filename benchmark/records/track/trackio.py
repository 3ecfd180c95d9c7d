"""trackio: a local SQLite file that its dashboard reads; nothing is sent anywhere."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

from benchmark.records.track.protocol import About

PROJECT = "msda-benchmark"


class Trackio:
    """The run's name is our run_id."""

    run: Any

    def start(self, about: About) -> int:
        """Open the run; gives its last step."""
        os.environ.setdefault("TRACKIO_DIR", about.folder)
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        trackio = importlib.import_module("trackio")  # reads TRACKIO_DIR when it is imported
        storage = importlib.import_module("trackio.sqlite_storage").SQLiteStorage
        last = storage.get_max_step_for_run(PROJECT, about.run_id)
        self.run = trackio.init(
            project=PROJECT, name=about.run_id, group=about.title, config=about.config, resume="allow", embed=False,
            auto_log_gpu=False, auto_log_cpu=False,
        )  # fmt: skip
        return last or 0

    def point(self, update: int, values: Mapping[str, float]) -> None:
        """One row."""
        self.run.log(dict(values), step=update)

    def end(self, state: str) -> None:
        """Write what its thread still holds."""
        self.run.finish()
