"""The state of a run: each from the files on disk, with a queue and without; every verb sees the same one."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmark import plan as planning
from benchmark import records
from benchmark.__main__ import main
from benchmark.launch import queue as slurm
from benchmark.launch import status
from benchmark.launch.submissions import Submission, new_folder
from benchmark.plan import Request
from benchmark.records import Sent, State, StateName, state, survey
from benchmark.records.audit import audit
from benchmark.records.lease import process_start
from tests.synthetic import write_run, write_study

HOUR = 3600.0


def note(run: Path, name: str, **content: Any) -> Path:
    run.mkdir(parents=True, exist_ok=True)
    file = run / f"{name}.json"
    file.write_text(json.dumps(content))
    return file


def leased(run: Path, *, dead: bool = False, host: str = "", age: float = 0.0, **more: Any) -> Path:
    """A lease of this process, of one that is gone, or of one on another host that was last seen `age` seconds ago."""
    pid = 2**22 + 7 if dead else os.getpid()
    owner = {"token": "t", "pid": pid, "host": host or os.uname().nodename, "started": process_start(os.getpid())}
    file = note(run, "lease", **owner, **more)
    os.utime(file, (time.time() - age,) * 2)
    return run


def edited(run: Path, name: str, edit: Callable[[str], str]) -> Path:
    (run / name).write_text(edit((run / name).read_text()))
    return run


def begun(root: Path) -> Path:
    return write_run(root, status="interrupted")


def failed_before(root: Path) -> Path:
    return leased(write_run(root, status="failed"))


# -- from the files alone ---------------------------------------------------------------------------------------------

ALONE: dict[str, tuple[Callable[[Path], Path], StateName, str]] = {
    "no folder": (lambda root: root / "digits/mini/0123456789abcdef", StateName.ABSENT, ""),
    "only the lease of the dead": (
        lambda root: leased(root / "digits/mini/0123456789abcdef", dead=True),
        StateName.ABSENT,
        "",
    ),
    "a lease and nothing else yet": (lambda root: leased(root / "digits/mini/0123456789abcdef"), StateName.RUNNING, ""),
    "a living lease": (lambda root: leased(begun(root)), StateName.RUNNING, ""),
    "a fresh lease of another host": (lambda root: leased(begun(root), host="elsewhere", age=60), StateName.RUNNING, ""),
    "a failed run that is tried again": (failed_before, StateName.RUNNING, ""),
    "a spec": (begun, StateName.INTERRUPTED, ""),
    "the lease of the dead": (lambda root: leased(begun(root), dead=True), StateName.INTERRUPTED, ""),
    "a silent lease of another host": (
        lambda root: leased(begun(root), host="elsewhere", age=HOUR),
        StateName.INTERRUPTED,
        "",
    ),
    "a failure": (lambda root: write_run(root, status="failed", reason="NaN at 3"), StateName.FAILED, "NaN at 3"),
    "a failure without a word": (
        lambda root: note(begun(root), "failure", time=1.0).parent,
        StateName.FAILED,
        "no reason was written down",
    ),
    "a torn record": (
        lambda root: edited(write_run(root), "record.json", lambda text: text[:100]),
        StateName.DAMAGED,
        "is damaged: it is torn, or no JSON. Type: python -m benchmark audit",
    ),
    "a record changed by hand": (
        lambda root: edited(write_run(root), "record.json", lambda text: text.replace('"seed": 0', '"seed": 1')),
        StateName.DAMAGED,
        "does not match its own hash",
    ),
    "a record of another run": (
        lambda root: write_run(root).rename(root / "digits/mini/0123456789abcdef"),
        StateName.DAMAGED,
        "it belongs into",
    ),
    "no spec": (lambda root: edited(begun(root), "spec.json", lambda _: "{}"), StateName.DAMAGED, "is no spec of"),
    "a damaged record that somebody is at": (
        lambda root: leased(edited(write_run(root), "record.json", lambda _: "{")),
        StateName.DAMAGED,
        "torn",
    ),
    "a record": (write_run, StateName.DONE, ""),
    "a record with leftovers": (lambda root: leased(note(write_run(root), "failure", reason="x").parent), StateName.DONE, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", ALONE)
def test_each_state_follows_from_the_files(tmp_path: Path, case: str) -> None:
    make, name, words = ALONE[case]
    found = state(make(tmp_path))
    assert found.name is name
    assert words in found.reason if words else found.reason == ""
    assert (found.record is not None) == (name is StateName.DONE)
    assert (found.fault != "") == (name is StateName.DAMAGED)


@pytest.mark.parametrize("case", ALONE)
def test_tables_status_and_audit_see_that_state(tmp_path: Path, case: str) -> None:
    make, name, _ = ALONE[case]
    run = make(tmp_path)
    folder = run.is_dir()
    absent = name is StateName.ABSENT
    assert records.load(tmp_path).status.tolist() == ([] if absent else [name])
    assert [s.state for s in status.states(tmp_path, [run.name])] == [name]
    assert audit(tmp_path).states == ({name: 1} if folder else {})


def test_every_state_is_met_here() -> None:
    assert {name for _, name, _ in ALONE.values()} | {name for _, _, name, _ in QUEUED.values()} == set(StateName)


def test_a_folder_that_is_no_run_is_nobodys_run(tmp_path: Path) -> None:
    write_run(tmp_path).rename(tmp_path / "digits/mini/notes")
    assert records.load(tmp_path).empty
    assert status.states(tmp_path) == []


# -- with a queue -----------------------------------------------------------------------------------------------------

WAITS = Sent("7", "waiting", "job 7: pending, Priority", time=100.0)
RUNS = Sent("7", "running", "job 7: running", time=100.0)
KILLED = Sent("7", "killed", "killed, memory: SLURM says OUT_OF_MEMORY", time=100.0)
ENDED = Sent("7", "ended", "SLURM says CANCELLED for job 7", time=100.0)
SILENT = Sent("7", "unknown", "job 7: the queue does not answer", time=100.0)


def nothing(root: Path) -> Path:
    return root / "digits/mini/0123456789abcdef"


def beaten(root: Path) -> Path:
    return note(begun(root), "heartbeat", update=3).parent


def failure_of(when: float) -> Callable[[Path], Path]:
    return lambda root: note(begun(root), "failure", reason="NaN", time=when).parent


def silent_owner(job: str) -> Callable[[Path], Path]:
    return lambda root: leased(begun(root), host="elsewhere", age=HOUR, job=job)


QUEUED: dict[str, tuple[Callable[[Path], Path], Sent, StateName, str]] = {
    "nothing, waits": (nothing, WAITS, StateName.QUEUED, "job 7: pending, Priority"),
    "nothing, its task runs": (nothing, RUNS, StateName.QUEUED, "job 7: running"),
    "nothing, silent": (nothing, SILENT, StateName.QUEUED, "job 7: the queue does not answer"),
    "nothing, ended": (nothing, ENDED, StateName.ABSENT, "job 7 ended before this run began"),
    "nothing, killed": (nothing, KILLED, StateName.ABSENT, "job 7 ended before this run began"),
    "begun, waits": (beaten, WAITS, StateName.QUEUED, "job 7: pending, Priority"),
    "begun, silent": (beaten, SILENT, StateName.INTERRUPTED, ""),
    "begun, ended": (beaten, ENDED, StateName.INTERRUPTED, "SLURM says CANCELLED for job 7"),
    "begun, killed": (beaten, KILLED, StateName.FAILED, "killed, memory: SLURM says OUT_OF_MEMORY"),
    "spec alone, killed": (begun, KILLED, StateName.INTERRUPTED, "job 7 ended"),
    "an earlier failure, waits": (failure_of(50.0), WAITS, StateName.QUEUED, "job 7: pending, Priority"),
    "a failure of this sending": (failure_of(150.0), RUNS, StateName.FAILED, "NaN"),
    "a failure, killed": (failure_of(50.0), KILLED, StateName.FAILED, "NaN"),
    "a living owner, waits": (lambda root: leased(begun(root)), WAITS, StateName.RUNNING, ""),
    "a silent owner whom the queue vouches for": (silent_owner("7"), RUNS, StateName.RUNNING, ""),
    "a silent owner of another job": (silent_owner("6"), RUNS, StateName.QUEUED, "job 7: running"),
    "a dead owner here": (lambda root: leased(begun(root), dead=True, job="7"), RUNS, StateName.QUEUED, "job 7: running"),
    "done, waits": (write_run, WAITS, StateName.DONE, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", QUEUED)
def test_the_queue_is_one_of_the_inputs(tmp_path: Path, case: str) -> None:
    make, sent, name, reason = QUEUED[case]
    run = make(tmp_path)
    found = state(run, {run.name: sent})
    assert (found.name, found.reason) == (name, reason)
    assert state(run, {"another": sent}).name is state(run).name


# -- every verb -------------------------------------------------------------------------------------------------------


def said(*words: str) -> Any:
    """What a verb says with --json."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(io.StringIO()):
        main([*words, "--json"])
    return json.loads(text.getvalue())


def test_run_plan_status_table_and_audit_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of eight runs, each in another state: five targets of source-only, three of dann, among them two on SLURM."""
    root = tmp_path / "runs"
    request = ["--suite", "digits", "--methods", "source-only,dann"]
    specs = planning.make(Request("digits", methods=["source-only", "dann"])).specs
    by_name = {(s.method, s.target): s for s in specs}
    wanted = {
        ("source-only", "mt"): "done", ("source-only", "mm"): "failed", ("source-only", "up"): "running",
        ("source-only", "sv"): "interrupted", ("source-only", "syn"): "queued",
        ("dann", "mt"): "damaged", ("dann", "mm"): "done", ("dann", "up"): "queued",
    }  # fmt: skip
    sent = {}
    for key, name in wanted.items():
        spec = by_name[key]
        folder = records.run_directory(root, spec, spec.run_id)
        if key != ("dann", "up"):  # was sent, and has no folder yet
            _write(folder, spec.to_json(), name)
        if name == "queued":
            sent[spec.run_id] = spec.to_json()
    Submission(new_folder(root), {f"9_{i}": [run] for i, run in enumerate(sent)}, sent, {}, None, "code").save()
    tasks = {f"9_{i}": slurm.Task(f"9_{i}", "PENDING", "", "Priority", "") for i in range(2)}
    monkeypatch.setattr(slurm, "available", lambda: True)
    monkeypatch.setattr(slurm, "queue", lambda: tasks)

    ids = {by_name[key].run_id: name for key, name in wanted.items()}
    absent = {s.run_id: "absent" for s in specs if s.run_id not in ids}
    assert len(absent) == 2
    assert {s["run_id"]: s["state"] for s in said("status", "--results", str(root))} == ids
    planned = said("plan", *request, "--results", str(root))["runs"]
    assert {r["run_id"]: r["state"] for r in planned} == {**ids, **absent}
    dry = said("run", *request, "--results", str(root), "--dry-run")["runs"]
    assert dry == planned
    on_disk = Counter(name for key, name in wanted.items() if key != ("dann", "up"))
    assert said("audit", str(root))["states"] == on_disk
    assert Counter(records.load(root, status.sent(root)).status) == on_disk

    cells = [cell for row in said("table", "--results", str(root))["rows"] for cell in row["cells"].values()]
    words = Counter(cell["words"] for cell in cells if isinstance(cell, dict) and "value" not in cell)
    shown = {word: words[word] for word in ("failed", "running", "interrupted", "queued", "damaged", "not run")}
    assert shown == {"failed": 1, "running": 1, "interrupted": 1, "queued": 1, "damaged": 1, "not run": 3}, words


def _write(folder: Path, spec: dict[str, Any], name: str) -> None:
    """A run of a plan in a state: a made one under the plan's id, sealed anew."""
    place = folder.parents[2]
    made = write_run(place / "made", spec["method"], spec["target"], status={"damaged": "done"}.get(name, name))
    folder.parent.mkdir(parents=True, exist_ok=True)
    made.rename(folder)
    (folder / "spec.json").write_text(json.dumps(spec))
    if (folder / "record.json").exists():
        document = json.loads((folder / "record.json").read_text())
        document |= {"run_id": folder.name, "spec": spec}
        document["data"]["fingerprint"] = spec["data"]
        document["hashes"]["record"] = records.document_hash(document)
        (folder / "record.json").write_text(json.dumps(document) if name == "done" else "{")
    for left in sorted((place / "made").rglob("*"), reverse=True):
        left.rmdir()
    (place / "made").rmdir()


# -- one function, one walk -------------------------------------------------------------------------------------------


def test_tables_and_status_have_no_judgement_and_no_walk_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path)
    monkeypatch.setattr(survey, "state", lambda *_: State(StateName.FAILED, "planted"))
    assert records.load(tmp_path).reason.tolist() == ["planted"]
    assert [(s.state, s.reason) for s in status.states(tmp_path)] == [("failed", "planted")]
    monkeypatch.setattr(survey, "run_directories", lambda root: iter(()))
    assert records.load(tmp_path).empty
    assert status.states(tmp_path) == []


def test_what_was_read_before_is_read_again_when_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(survey, "REMEMBER_FROM", 1)
    root = tmp_path / "runs"
    kept, other = write_run(root), write_run(root, seed=1)
    first = status.states(root)
    assert [s.state for s in first] == ["done", "done"]
    monkeypatch.setattr(survey, "state", lambda *_: pytest.fail("a run that did not change is read again"))
    assert status.states(root) == first
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    edited(other, "record.json", lambda text: text[:-1])
    assert {s.run_id: s.state for s in status.states(root)} == {kept.name: "done", other.name: "damaged"}
    (file,) = (tmp_path / "cache").rglob("*.json")
    file.write_text(json.dumps({f"digits/mini/{kept.name}": [3, 4]}))
    assert {s.run_id: s.state for s in status.states(root)} == {kept.name: "done", other.name: "damaged"}


def test_status_of_500_runs_takes_at_most_a_second_and_a_half_without_torch(tmp_path: Path) -> None:
    """CPU seconds of the whole command, the cheapest of three: more than that is other people's use of the machine."""
    write_study(tmp_path / "runs", ["source-only", "dann", "mcd", "m3sda"], seeds=range(25))
    assert len(list(records.run_directories(tmp_path / "runs"))) == 500
    code = "import sys; from benchmark.__main__ import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    command = [sys.executable, "-c", code, "status", "--results", str(tmp_path / "runs")]
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, done.stderr
        assert "500 done" in done.stdout
        spent.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    print(f"status of 500 runs: {', '.join(f'{s:.2f}' for s in spent)} CPU s")
    assert min(spent) <= 1.5
