"""Weights & Biases: offline, in files that `wandb sync` uploads, unless WANDB_MODE=online is said."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("WANDB_SILENT", "true")
os.environ.setdefault("WANDB_ERROR_REPORTING", "false")

import wandb

from benchmark.records.track.protocol import About

PROJECT = "msda-benchmark"


class WeightsAndBiases:
    """Online the service knows where the curve stands. Offline each start makes a folder of its own: the folders of earlier
    starts go and the curve is told anew, so that one folder is the whole run (signs of life from before are gone)."""

    run: Any

    def start(self, about: About) -> int:
        """Open the run under our id; gives its last step."""
        folder = Path(about.folder)
        folder.mkdir(parents=True, exist_ok=True)
        mode: Any = os.environ.get("WANDB_MODE", "offline")
        os.environ.setdefault("WANDB_CACHE_DIR", str(folder / "cache"))  # not the user's
        for earlier in folder.glob(f"wandb/offline-run-*-{about.run_id}") if mode == "offline" else ():
            shutil.rmtree(earlier)
        suite, tier, _ = about.place.split("/")
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT), id=about.run_id, name=about.title, group=f"{suite}/{tier}",
            config=about.config, dir=str(folder), mode=mode, resume="allow", save_code=False,
            settings=wandb.Settings(console="off", disable_git=True, disable_code=True, x_disable_stats=True),
        )  # fmt: skip
        return int(self.run.starting_step) - 1

    def point(self, update: int, values: Mapping[str, float]) -> None:
        """One row of the history."""
        self.run.log(dict(values), step=update, commit=True)

    def end(self, state: str) -> None:
        """Write the rest, and end the service that wandb has started."""
        self.run.finish(exit_code=0 if state == "done" else 1)
        wandb.teardown()
