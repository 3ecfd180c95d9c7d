"""MLflow: the server or database that MLFLOW_TRACKING_URI names, or a folder of files. An experiment holds all runs.

MLflow gives its runs ids of its own: ours is the run's name and its tag `run_id`, by which it is found again. Files and not
SQLite: the tasks of a cluster write at the same time, from several machines, to a disk that they share.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("DO_NOT_TRACK", "true")
os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
# a server that is away is the tracker's failure, not a wait of minutes
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")

from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from benchmark.records.track.protocol import About

EXPERIMENT = "msda-benchmark"
ENDS = {"done": "FINISHED", "failed": "FAILED"}
_NO_NAME = re.compile(r"[^\w\-. :/]")  # what MLflow does not take in the name of a metric


class MLflow:
    """MLflow adds what it is told again: a killed process may have written half of its last point, so that comes once more,
    without the numbers that are there."""

    client: Any
    run: str
    held: set[tuple[str, int]]

    def start(self, about: About) -> int:
        """Find the run by its tag or make it; gives the step before its last."""
        folder = Path(about.folder)
        self.client = MlflowClient(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or (folder / "runs").as_uri())
        with FileLock(folder / ".start.lock", timeout=60):  # two runs that begin at once make one experiment
            experiment = self._experiment()
            found = self.client.search_runs([experiment], f"tags.run_id = '{about.run_id}'", max_results=1)
            if found:
                self.run = found[0].info.run_id
                self.client.update_run(self.run, status="RUNNING")
            else:
                tags = {"run_id": about.run_id, "title": about.title}
                self.run = self.client.create_run(experiment, run_name=about.run_id, tags=tags).info.run_id
        if not found:
            self.client.log_batch(self.run, params=[Param(key, str(value)) for key, value in about.config.items()])
        kinds = found[0].data.metrics if found else ()
        self.held = {(kind, m.step) for kind in kinds for m in self.client.get_metric_history(self.run, kind)}
        return max((step for _, step in self.held), default=1) - 1

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        found = self.client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self.client.create_experiment(name))
            except MlflowException:  # a process on another machine was quicker
                found = self.client.get_experiment_by_name(name)
        return str(found.experiment_id)

    def point(self, update: int, values: Mapping[str, float]) -> None:
        """All numbers of a point in one request."""
        now, named = int(time.time() * 1000), {_NO_NAME.sub("_", tag): value for tag, value in values.items()}
        new = [Metric(tag, value, now, update) for tag, value in named.items() if (tag, update) not in self.held]
        self.client.log_batch(self.run, metrics=new)

    def end(self, state: str) -> None:
        """A run that was stopped or killed goes on some day."""
        self.client.set_terminated(self.run, ENDS.get(state, "KILLED"))
