"""`audit` finds what cannot be trusted, and `--repair` loses nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmark import records
from benchmark.__main__ import main
from benchmark.records.audit import Audit, audit, repair
from benchmark.run import execute
from tests.forge import forge
from tests.safety.small import Small, bits, wait
from tests.tiny import tiny


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two real runs of a built-in suite."""
    root = tmp_path_factory.mktemp("study")
    for seed in (0, 1):
        execute(tiny(seed=seed, overrides={"run.updates": 4, "run.eval_points": 2}), results=root)
    return root


@pytest.fixture
def copy(study: Path, tmp_path: Path) -> Path:
    return shutil.copytree(study, tmp_path / "copy")


def kinds(result: Audit) -> set[tuple[str, str]]:
    """Without the state of the working tree, which is not the tests' business."""
    return {(f.level, f.kind) for f in result.findings if f.kind not in ("dirty", "commits")}


def first_run(root: Path) -> Path:
    return sorted(root.glob("*/*/*"))[0]


def test_sound_records_pass(study: Path) -> None:
    result = audit(study)
    assert kinds(result) == set()
    assert (result.runs, result.sound) == (2, 2)


def test_a_single_run_can_be_audited(study: Path) -> None:
    assert audit(first_run(study)).sound == 1


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "accuracy": (lambda d: d["accuracy"].update(last=99.9, oracle=99.9), "not those of its curve"),
    "seed": (lambda d: d["spec"].update(seed=7), "another spec"),
    "learning rate": (lambda d: d["resolved"]["hparams"].update(lr_scale=2.0), "not the hash of its spec"),
    "revision": (lambda d: d.update(revision="99"), "not the hash of its spec"),
    "data": (lambda d: d["spec"].update(data="0" * 16), "not the hash of its spec"),
    "place": (lambda d: d["spec"].update(tier="paper"), "belongs into digits/paper"),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forged_record_is_found_even_with_a_fresh_hash(copy: Path, what: str) -> None:
    edit, words = FORGERIES[what]
    forge(first_run(copy), edit)
    found = [f.words for f in audit(copy).findings if f.level == "error"]
    assert any(words in f for f in found), found


def test_a_record_edited_by_hand_is_found_by_its_own_hash(copy: Path) -> None:
    path = first_run(copy) / "record.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "title": "Better-Net"}))
    (finding,) = [f for f in audit(copy).findings if f.level == "error"]
    assert "does not match its own hash" in finding.words


@pytest.mark.parametrize("file", ["spec.json", "curve.jsonl", "artifacts.npz"])
def test_a_changed_file_beside_the_record_is_found(copy: Path, file: str) -> None:
    path = first_run(copy) / file
    path.write_bytes(path.read_bytes() + b"\n")
    assert any(file in f.words for f in audit(copy).findings if f.level == "error")


def test_an_absent_curve_is_an_error_and_absent_artifacts_are_not(copy: Path) -> None:
    (first_run(copy) / "artifacts.npz").unlink()
    assert kinds(audit(copy)) == set()
    (first_run(copy) / "curve.jsonl").unlink()
    assert ("error", "damaged") in kinds(audit(copy))


def test_duplicates_that_agree_are_a_note_and_others_an_error(copy: Path) -> None:
    shutil.copytree(copy / "digits", copy / "again" / "digits")
    assert kinds(audit(copy)) == {("note", "duplicate")}
    run = first_run(copy / "again")
    forge(run, lambda d: d.update(weights="0" * 32))
    assert ("error", "duplicate") in kinds(audit(copy))


def test_mixed_revisions_protocols_images_and_dirty_trees_are_told(copy: Path) -> None:
    def other(d: dict[str, Any]) -> None:
        d.update(revision="2", protocol=9)
        d["data"]["fingerprint"] = "f" * 16
        d["provenance"].update(commit="other", dirty=True)

    from benchmark.records.audit import _mixed

    sound = [r for r in map(records.read, sorted(copy.glob("*/*/*"))) if r is not None]
    forge(sound[0].path, other)
    changed = records.read(sound[0].path)
    assert changed is not None
    found = {f.kind for f in _mixed([changed, sound[1]])}
    assert found == {"mixed revisions", "mixed protocols", "mixed images", "dirty", "commits"}


def test_orphans_links_and_foreign_files_are_found_and_not_followed(copy: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("private")
    run = first_run(copy)
    (run / "notes.txt").write_text("mine")
    (run / "heartbeat.json").unlink(missing_ok=True)
    (run / "heartbeat.json").symlink_to(secret)
    orphan = copy / "digits" / "mini" / ("a" * 16)
    orphan.mkdir()
    (orphan / "checkpoint.pt").write_bytes(b"half")
    (copy / "loop").symlink_to(copy)
    assert kinds(audit(copy)) == {
        ("warning", "foreign"),
        ("error", "link"),
        ("error", "orphan"),
        ("warning", "checkpoint"),
    }


def test_repair_removes_what_the_dead_left_and_nothing_else(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = small.spec()
    whole = small.execute(spec, tmp_path / "whole")
    assert wait(small.start(spec, tmp_path / "runs", {"BENCHMARK_FAULT": "update=kill@5"})) == -signal.SIGKILL
    run = small.directory(spec, tmp_path / "runs")
    for name in (".checkpoint.pt.abc.tmp", ".record.json.def.tmp"):
        (run / name).write_bytes(b"half")
        os.utime(run / name, (1.0, 1.0))
    (run / ".curve.jsonl.new.tmp").write_bytes(b"somebody writes this now")
    result = repair(audit(tmp_path / "runs"))
    assert {(f.kind, f.repaired) for f in result.findings} == {("lease", True), ("temporary", True)}
    left = sorted(p.name for p in run.iterdir())
    assert left == [".curve.jsonl.new.tmp", "checkpoint.pt", "curve.jsonl", "spec.json"]
    assert bits(small.execute(spec, tmp_path / "runs")) == bits(whole)
    assert kinds(audit(tmp_path / "runs")) == set()


def test_repair_quarantines_a_damaged_record_whole_and_the_run_can_be_made_again(small: Small, tmp_path: Path) -> None:
    spec, runs = small.spec(), tmp_path / "runs"
    record = small.execute(spec, runs)
    expected = bits(record)
    torn = (record.path / "record.json").read_bytes()[:200]
    (record.path / "record.json").write_bytes(torn)
    result = repair(audit(runs))
    assert [(f.kind, f.repaired) for f in result.findings if f.level == "error"] == [("damaged", True)]
    kept = runs / ".quarantine" / record.path.relative_to(runs)
    assert (kept / "record.json").read_bytes() == torn
    assert (kept / "curve.jsonl").read_bytes() == expected[0]
    assert "torn" in json.loads((kept / "quarantine.json").read_text())["why"]
    assert records.load(runs).empty
    assert bits(small.execute(spec, runs)) == expected
    (record.path / "record.json").write_bytes(torn)  # and a second time: the first evidence stays
    repair(audit(runs))
    assert len(list((runs / ".quarantine").rglob("record.json"))) == 2


def test_repair_leaves_a_run_alone_that_somebody_is_at(small: Small, tmp_path: Path) -> None:
    from benchmark.records.lease import Lease

    record = small.execute(small.spec(), tmp_path)
    (record.path / "record.json").write_text("{")
    lease = Lease(record.path)
    lease.acquire()
    (finding,) = [f for f in repair(audit(tmp_path)).findings if f.level == "error"]
    lease.release()
    assert not finding.repaired
    assert (record.path / "record.json").read_text() == "{"


def test_leftovers_of_a_run_killed_after_its_record_are_removed(small: Small, tmp_path: Path) -> None:
    spec = small.spec()
    assert wait(small.start(spec, tmp_path, {"BENCHMARK_FAULT": "fsync:record.json=kill@2"})) == -signal.SIGKILL
    run = small.directory(spec, tmp_path)
    assert {"record.json", "checkpoint.pt", "lease.json"} <= {p.name for p in run.iterdir()}
    result = repair(audit(tmp_path))
    assert {f.kind for f in result.findings if f.repaired} == {"leftover", "lease"}
    assert kinds(audit(tmp_path)) == set()
    assert result.sound == 1


def test_asked_for_again_a_run_killed_after_its_record_tidies_up_by_itself(small: Small, tmp_path: Path) -> None:
    spec = small.spec()
    assert wait(small.start(spec, tmp_path, {"BENCHMARK_FAULT": "fsync:record.json=kill@2"})) == -signal.SIGKILL
    record = small.execute(spec, tmp_path)
    assert not {"checkpoint.pt", "lease.json", "failure.json"} & {p.name for p in record.path.iterdir()}
    assert kinds(audit(tmp_path)) == set()


def test_the_verb_says_what_it_found_and_its_exit_code_tells_errors(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(copy)]) == 0
    assert "2 sound records" in capsys.readouterr().out
    (first_run(copy) / "record.json").write_text("{")
    assert main(["audit", str(copy)]) == 1
    said = capsys.readouterr().out
    assert "damaged" in said
    assert "--repair" in said
    assert main(["audit", str(copy), "--repair", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["sound"] == 1
    assert [f["repaired"] for f in document["findings"] if f["kind"] == "damaged"] == [True]
    assert main(["audit", str(copy / "absent")]) == 2
    assert "There is no folder" in capsys.readouterr().err
