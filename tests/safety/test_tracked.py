"""A run that is watched is the run that is not: whatever its tracker does, bits and record stay, and a warning is all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmark import records
from benchmark.errors import Interrupted, RunFailed, UserError
from benchmark.launch.local import launch
from benchmark.records import Record, track
from benchmark.records.track import channel, guard
from tests import needs
from tests.disk import may_mount, small_disk
from tests.safety.small import Small, bits, fork, wait

WATCHERS = Path(__file__).parent / "watchers.py"
NEVER = {"BENCHMARK_CHECKPOINT_SECONDS": "60"}
ALWAYS = {"BENCHMARK_CHECKPOINT_SECONDS": "0"}


def own(name: str) -> str:
    return f"{WATCHERS}:{name}"


@pytest.fixture(scope="module")
def unwatched(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Record:
    return small.execute(small.spec("tsvdnet"), tmp_path_factory.mktemp("unwatched"))


@pytest.fixture(autouse=True)
def _nobody_left() -> Iterator[None]:
    yield
    for process in channel._left:
        process.kill()
        process.wait()


def told(record: Record) -> dict[str, Any]:
    """The record without what is measured anew in each run, and without its warnings."""
    document = {k: v for k, v in record.document.items() if k not in ("warnings", "cost", "hashes", "provenance")}
    return document | {"updates": record["cost"]["updates"], "curve": record["hashes"]["curve"]}


# -- what a tracker may do wrong --------------------------------------------------------------------------------------

FAULTS = {
    "Raises": "ValueError: the server said no",
    "RaisesAtTheEnd": "RuntimeError: no good-bye",
    "FillsTheDisk": "OSError: [Errno 28] No space left on device",
    "Dies": "its process ended by itself (signal 9)",
    "Leaves": "its process ended by itself (exit code 7)",
    "Absent": "AttributeError: ",
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_tracker_that_fails_costs_the_run_a_warning_and_nothing_else(
    small: Small, unwatched: Record, tmp_path: Path, name: str
) -> None:
    record = small.execute(small.spec("tsvdnet"), tmp_path, track=[own(name)])
    assert bits(record) == bits(unwatched)
    assert told(record) == told(unwatched)
    (warning,) = record["warnings"]
    assert warning.startswith(f"tracker {name}: {FAULTS[name]}")


def test_a_tracker_that_fills_the_disk_of_the_records_costs_the_run_a_warning(
    small: Small, unwatched: Record, tmp_path: Path
) -> None:
    """A real disk of 64 MB, filled to the last byte before the run ends; nothing but the record must be written then."""
    full, copy = tmp_path / "disk", tmp_path / "record.json"
    full.mkdir()

    def filled() -> bool:  # asked at every update
        deadline = time.monotonic() + 120
        while shutil.disk_usage(full).free and time.monotonic() < deadline:
            time.sleep(0.05)
        return False

    def on_a_small_disk() -> None:
        small_disk(full, "64m")
        spec = small.spec("tsvdnet")
        small.execute(spec, full, track=[own("FillsTheDiskAndTakesNoNotice")], should_stop=filled)
        copy.write_bytes((small.directory(spec, full) / "record.json").read_bytes())

    if sys.platform != "linux" or not may_mount(full):
        needs.skip("disk")
    assert wait(fork(on_a_small_disk, {})) == 0
    record = json.loads(copy.read_text())
    assert record["weights"] == unwatched["weights"]
    assert record["accuracy"] == unwatched["accuracy"]
    assert (
        "tracker FillsTheDiskAndTakesNoNotice: the disk is full, and the run's own files come first"
        in record["warnings"]
    )


def test_two_trackers_of_one_name_are_refused() -> None:
    with pytest.raises(UserError, match="Two trackers of --track are called Lines"):
        track.check([own("Lines"), own("Lines").replace("watchers.py", "../safety/watchers.py")])


def test_a_tracker_leaves_nothing_in_the_folder_for_temporary_files(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr(guard, "LAST_WORDS", 60.0)
    record = small.execute(small.spec("tsvdnet"), tmp_path, track=[own("Litters")])
    assert record["warnings"] == []
    deadline = time.monotonic() + 30
    while list((tmp_path / "scratch").glob("tracker-*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list((tmp_path / "scratch").glob("tracker-*")) == []


@pytest.mark.parametrize("name", ["Sleeps", "SleepsAtTheStart"])
def test_a_tracker_that_sleeps_a_minute_delays_the_end_by_its_last_words(
    small: Small, unwatched: Record, tmp_path: Path, name: str
) -> None:
    began = time.monotonic()
    record = small.execute(small.spec("tsvdnet"), tmp_path, track=[own(name), own("Lines")])
    assert time.monotonic() - began < guard.LAST_WORDS + 15  # the run itself takes seconds, on a busy machine
    assert record["cost"]["seconds"] < guard.LAST_WORDS, "the wait is no part of the run's time"
    assert bits(record) == bits(unwatched)
    assert told(record) == told(unwatched)
    assert record["warnings"] == [f"tracker {name}: it was still writing 5 s after the run's end"]
    assert lines(tmp_path, record)[-1] == "end done", "the other tracker has lost nothing by it"


def test_what_a_tracker_does_to_its_process_does_not_reach_the_run(
    small: Small, unwatched: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LAST_WORDS", 60.0)
    record = small.execute(small.spec("tsvdnet"), tmp_path, track=[own("Meddles")])
    assert bits(record) == bits(unwatched)
    assert record["warnings"] == []
    assert record.run_id == unwatched.run_id


def test_a_tracker_that_takes_nothing_is_given_up_when_too_much_waits(
    small: Small, unwatched: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "BACKLOG", 10)
    monkeypatch.setattr(channel.os, "write", lambda *_: (_ for _ in ()).throw(BlockingIOError()))
    told_: list[str] = []
    spec = small.bound(small.spec())
    with guard.tracking([own("Lines")], spec.run_id, spec.to_json(), tmp_path, unwatched.curve, told_):
        assert told_ == ["tracker Lines: it does not keep up with the run"]


def test_points_that_were_not_taken_at_the_end_are_no_wait_for_ever(
    small: Small, unwatched: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LAST_WORDS", 0.2)
    monkeypatch.setattr(channel.os, "write", lambda *_: (_ for _ in ()).throw(BlockingIOError()))
    told_: list[str] = []
    spec = small.bound(small.spec())
    with guard.tracking([own("Lines")], spec.run_id, spec.to_json(), tmp_path, unwatched.curve, told_):
        pass
    assert told_ == ["tracker Lines: it had not taken the run's points 0 s after its end"]


def test_a_process_that_cannot_be_started_is_a_warning(
    small: Small, unwatched: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tracked").write_text("a file where the folder should be")
    record = small.execute(small.spec("tsvdnet"), tmp_path, track=["tensorboard"])
    assert bits(record) == bits(unwatched)
    assert record["warnings"] == ["tracker tensorboard: it could not be started (Not a directory)"]


def test_a_folder_that_cannot_be_written_is_a_warning(small: Small, unwatched: Record, tmp_path: Path) -> None:
    (tmp_path / "tracked").mkdir()
    (tmp_path / "tracked" / "tensorboard").write_text("a file where the folder should be")
    record = small.execute(small.spec("tsvdnet"), tmp_path, track=["tensorboard"])
    assert bits(record) == bits(unwatched)
    assert record["warnings"] == ["tracker tensorboard: its folder cannot be written (File exists)"]


@pytest.mark.parametrize("package", ["tensorboard", "wandb", "mlflow", "trackio"])
def test_a_package_that_is_not_installed_is_named_in_the_record(
    small: Small, unwatched: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('none', name={package!r})\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(guard, "LAST_WORDS", 60.0)
    record = small.execute(small.spec("tsvdnet"), tmp_path / "runs", track=[package])
    assert bits(record) == bits(unwatched)
    assert record["warnings"] == [
        f"tracker {package}: {package} is not installed. Type: pip install 'msda-benchmark[track]'"
    ]


# -- one run, one curve -----------------------------------------------------------------------------------------------


def lines(results: Path, record: Record) -> list[str]:
    return (results / "tracked" / "Lines" / f"{record.run_id}.txt").read_text().splitlines()


def curve_of(record: Record) -> list[str]:
    return [f"{row['update']} {row['target']!r}" for row in record.curve]


START = "start source-only → mt, multi-source, seed 0"


def killed_twice(small: Small, results: Path, track: list[str], points: int = 6) -> Record:
    """A run killed after its fifth update, and killed again when two points stand on disk that no checkpoint knows."""
    spec = small.spec("source-only", overrides={"run.eval_points": points})

    def start(environment: dict[str, str]) -> int:
        return wait(fork(lambda: small.execute(spec, results, track=track), environment))

    assert start({**ALWAYS, "BENCHMARK_FAULT": "update=kill@6"}) == -signal.SIGKILL
    assert start({**NEVER, "BENCHMARK_FAULT": "update=kill@5"}) == -signal.SIGKILL
    assert [row["update"] for row in records.read_curve(small.directory(spec, results))] == [2, 4, 6, 8]
    assert start(NEVER) == 0
    record = records.read(small.directory(spec, results))
    assert record is not None
    return record


def test_a_killed_run_goes_on_in_its_curve_and_each_update_stands_there_once(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LAST_WORDS", 60.0)
    record = killed_twice(small, tmp_path, [own("Lines")])
    found = lines(tmp_path, record)
    assert [line for line in found if line[0].isdigit()] == curve_of(record)
    said = [line for line in found if not line[0].isdigit()]
    assert said[-2:] == [START, "end done"]
    # a process that was still starting when the run went on has nothing to add, and leaves without a word
    assert said[:-2] in ([START, "end killed"] * n for n in range(3))
    assert record["warnings"] == []


def test_a_tracker_that_comes_late_is_told_the_whole_curve(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LAST_WORDS", 60.0)
    spec = small.spec("source-only")
    stop = iter([False] * 9 + [True] * 99)
    with pytest.raises(Interrupted):
        small.execute(spec, tmp_path, should_stop=lambda: next(stop))
    record = small.execute(spec, tmp_path, track=[own("Lines")])
    assert lines(tmp_path, record)[1:] == [*curve_of(record), "end done"]


def test_a_run_told_to_stop_or_failing_says_so_to_its_tracker(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LAST_WORDS", 60.0)
    spec = small.spec("source-only")
    stop = iter([False] * 2 + [True] * 99)
    with pytest.raises(Interrupted):
        small.execute(spec, tmp_path, track=[own("Lines")], should_stop=lambda: next(stop))
    monkeypatch.setenv("BENCHMARK_FAULT", "loss=nan")
    with pytest.raises(RunFailed, match="not finite"):
        small.execute(spec, tmp_path, track=[own("Lines")])
    (file,) = (tmp_path / "tracked" / "Lines").glob("*.txt")
    assert [line for line in file.read_text().splitlines() if line.startswith("end")] == [
        "end interrupted",
        "end failed",
    ]


def test_signs_of_life_are_points_between_the_points(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "LAST_WORDS", 60.0)
    monkeypatch.setattr(guard, "BEAT_SECONDS", 0.0)
    monkeypatch.setattr("benchmark.run.loop.HEARTBEAT_SECONDS", 0.0)
    watcher = tmp_path / "all.py"
    watcher.write_text(
        "from pathlib import Path\n\n\nclass All:\n"
        "    def start(self, about):\n        self.file = Path(about.folder) / 'all.txt'\n\n"
        "    def point(self, update, values):\n"
        "        self.file.open('a').write(f'{update} {sorted(values)[0]}\\n')\n\n"
        "    def end(self, state):\n        pass\n"
    )
    small.execute(small.spec("source-only"), tmp_path, track=[f"{watcher}:All"])
    found = (tmp_path / "tracked" / "All" / "all.txt").read_text().splitlines()
    assert [int(line.split()[0]) for line in found] == list(range(1, 13)), "each update once"
    assert [line for line in found if "progress/seconds" not in line] == [
        f"{update} accuracy/source_val" for update in (4, 8, 12)
    ]


def test_the_workers_of_the_pool_have_trackers_too(small: Small, tmp_path: Path) -> None:
    specs = [small.bound(small.spec("source-only", seed=seed)) for seed in (0, 1)]
    outcome = launch(specs, results=tmp_path, data_root=small.data, workers=2, track=[own("Lines")])
    assert sorted(outcome.done) == sorted(spec.run_id for spec in specs)
    for spec in specs:
        record = records.read(small.directory(spec, tmp_path))
        assert record is not None
        assert lines(tmp_path, record)[1:] == [*curve_of(record), "end done"]


def test_the_process_of_a_hanging_tracker_does_not_outlive_its_run_for_long(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is killed while its tracker sleeps: nobody is there to end it, so it ends by itself."""
    pids = tmp_path / "pids"
    watcher = tmp_path / "sleeper.py"
    watcher.write_text(
        "import os, sys, time\nsys.modules['__main__'].GRACE = 0.5\n\n\nclass Sleeper:\n"
        f"    def start(self, about):\n        open({str(pids)!r}, 'w').write(str(os.getpid()))\n        time.sleep(600)\n"
        "    def point(self, update, values):\n        pass\n    def end(self, state):\n        pass\n"
    )
    spec = small.spec("source-only", overrides={"run.updates": 100_000, "run.eval_points": 1})
    child = fork(lambda: small.execute(spec, tmp_path, track=[f"{watcher}:Sleeper"]), {})
    deadline = time.monotonic() + 60
    while not (pids.exists() and pids.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    sleeper = int(pids.read_text())
    os.kill(child, signal.SIGKILL)
    wait(child)
    while Path(f"/proc/{sleeper}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{sleeper}").exists()
