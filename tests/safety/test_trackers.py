"""TensorBoard, W&B, MLflow and trackio, told of one run that is killed twice: each has its curve once, without a gap or a
double point, read back as its own users read it. Nothing but loopback is ever called.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmark.records import Record
from benchmark.records.track import BUILT_IN, export, guard
from benchmark.records.track.protocol import scalars
from tests import needs
from tests.safety.small import Small
from tests.safety.test_tracked import killed_twice

pytestmark = needs.track

Point = tuple[int, str]  # update and tag
# every process that Python starts notes whom it calls
LISTEN = """
import os, sys
def note(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        with open({path!r}, "a") as file:
            file.write(f"{{arguments[1][0]}}\\n")
sys.addaudithook(note)
"""


@dataclass(frozen=True)
class Watched:
    """A run that was killed twice, where its trackers' files are, and MLflow's server."""

    record: Record
    tracked: Path
    server: str
    calls: Path

    @property
    def curve(self) -> dict[Point, float]:
        return {(row["update"], tag): value for row in self.record.curve for tag, value in scalars(row).items()}


@pytest.fixture(scope="module")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real one, on a free port of loopback."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/db", "--default-artifact-root", str(folder / "artifacts")]
    quiet = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=quiet, cwd=folder, start_new_session=True)
    try:
        address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 240
        while True:
            assert server.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            try:
                with urllib.request.urlopen(f"{address}/health", timeout=5):
                    break
            except OSError:
                time.sleep(0.3)
        yield address
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # with its workers, at once: nobody reads it again
        server.wait()


@pytest.fixture(scope="module")
def watched(small: Small, mlflow_server: str, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    folder = tmp_path_factory.mktemp("watched")
    (folder / "ears").mkdir()
    (folder / "ears" / "sitecustomize.py").write_text(LISTEN.format(path=str(folder / "calls")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "LAST_WORDS", 120.0)
        patch.setenv("PYTHONPATH", str(folder / "ears"))
        patch.setenv("MLFLOW_TRACKING_URI", mlflow_server)
        patch.setenv("HOME", str(folder))
        record = killed_twice(small, folder / "runs", list(BUILT_IN))
    assert record["warnings"] == []
    return Watched(record, folder / "runs" / "tracked", mlflow_server, folder / "calls")


def once(points: list[tuple[Point, float]]) -> dict[Point, float]:
    """The points, none of which stands there twice."""
    assert [point for point, n in Counter(point for point, _ in points).items() if n > 1] == []
    return dict(points)


def test_nobody_but_loopback_was_called(watched: Watched) -> None:
    called = set(watched.calls.read_text().split())
    assert called == {"127.0.0.1"}, "MLflow's server, and no maker of a package"


# -- read back --------------------------------------------------------------------------------------------------------


def tensorboard(folder: Path) -> list[tuple[Point, float]]:
    accumulator = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return [((e.step, tag), e.value) for tag in events.Tags()["scalars"] for e in events.Scalars(tag)]


def test_tensorboard_has_the_curve_once(watched: Watched) -> None:
    (folder,) = (watched.tracked / "tensorboard").glob(f"small/lite/source-only-*-{watched.record.run_id}")
    assert once(tensorboard(folder)) == pytest.approx(watched.curve, rel=1e-6)  # its numbers are float32


def mlflow(address: str, run_id: str) -> tuple[list[tuple[Point, float]], Any]:
    client = importlib.import_module("mlflow.tracking").MlflowClient(tracking_uri=address)
    experiment = client.get_experiment_by_name("msda-benchmark")
    (run,) = client.search_runs([experiment.experiment_id], f"tags.run_id = '{run_id}'")
    found = [client.get_metric_history(run.info.run_id, tag) for tag in run.data.metrics]
    return [((m.step, m.key), m.value) for history in found for m in history], run


def test_an_mlflow_server_has_the_curve_once(watched: Watched) -> None:
    points, run = mlflow(watched.server, watched.record.run_id)
    assert once(points) == watched.curve
    assert run.info.run_name == watched.record.run_id
    assert run.info.status == "FINISHED"
    assert run.data.params["method"] == "source-only"


def wandb_records(file: Path) -> Iterator[Any]:
    """The records of a .wandb file by wandb's own schema; the frame is LevelDB's log: blocks of 32 KiB after 7 bytes."""
    schema = importlib.import_module("wandb.proto.wandb_internal_pb2")
    content, at, held = file.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:  # too little is left of the block for the head of a part
            at += 32768 - at % 32768
            continue
        _, size, kind = struct.unpack("<IHB", content[at : at + 7])
        held, at = held + content[at + 7 : at + 7 + size], at + 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield schema.Record.FromString(held)
            held = b""


def wandb_points(folder: Path, run_id: str) -> list[tuple[Point, float]]:
    (file,) = folder.glob(f"wandb/offline-run-*-{run_id}/run-{run_id}.wandb")
    points = []
    for record in wandb_records(file):
        if record.WhichOneof("record_type") == "history":
            row = {i.key or ".".join(i.nested_key): json.loads(i.value_json) for i in record.history.item}
            points += [((int(row["_step"]), tag), value) for tag, value in row.items() if not tag.startswith("_")]
    return points


def test_wandb_offline_has_the_curve_once_in_one_folder(watched: Watched) -> None:
    run_id = watched.record.run_id
    assert once(wandb_points(watched.tracked / "wandb", run_id)) == watched.curve
    (file,) = (watched.tracked / "wandb").glob("wandb/offline-run-*/run-*.wandb")
    runs = [record.run for record in wandb_records(file) if record.WhichOneof("record_type") == "run"]
    assert {run.run_id for run in runs} == {run_id}


def test_trackio_has_the_curve_once(watched: Watched) -> None:
    ask = "import json, sys; from trackio.sqlite_storage import SQLiteStorage as s; print(json.dumps(s.get_logs(*sys.argv[1:])))"
    command = [sys.executable, "-c", ask, "msda-benchmark", watched.record.run_id]
    place = {**os.environ, "TRACKIO_DIR": str(watched.tracked / "trackio"), "HF_HUB_OFFLINE": "1"}
    said = subprocess.run(command, env=place, capture_output=True, text=True, check=True, timeout=120).stdout
    rows = json.loads(said.splitlines()[-1])
    points = [
        ((row["step"], tag), value) for row in rows for tag, value in row.items() if tag not in ("step", "timestamp")
    ]
    assert once(points) == watched.curve


# -- finished runs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow"])
def test_export_tells_the_same_curve_and_telling_it_twice_adds_nothing(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    results = watched.tracked.parent
    monkeypatch.setenv("HOME", str(tmp_path))
    for _ in range(2):
        assert export.write(results, name, tmp_path / "kept") == tmp_path / "kept"
    if name == "tensorboard":
        (folder,) = (tmp_path / "kept").glob(f"small/lite/*-{watched.record.run_id}")
        assert once(tensorboard(folder)) == pytest.approx(watched.curve, rel=1e-6)
    elif name == "wandb":
        assert once(wandb_points(tmp_path / "kept", watched.record.run_id)) == watched.curve
    else:
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        points, _ = mlflow((tmp_path / "kept" / "runs").as_uri(), watched.record.run_id)
        assert once(points) == watched.curve


def test_an_event_file_that_a_kill_has_torn_is_continued(watched: Watched, tmp_path: Path) -> None:
    export.write(watched.tracked.parent, "tensorboard", tmp_path)
    (folder,) = tmp_path.glob(f"small/lite/*-{watched.record.run_id}")
    (file,) = folder.glob("events.*")
    os.truncate(file, file.stat().st_size - 100)  # in the middle of the last point
    assert len(tensorboard(folder)) < len(watched.curve)
    export.write(watched.tracked.parent, "tensorboard", tmp_path)
    assert once(tensorboard(folder)) == pytest.approx(watched.curve, rel=1e-6)
