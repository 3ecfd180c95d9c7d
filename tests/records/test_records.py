"""Records: whole, checked against their own hash, and one table."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from benchmark import records
from benchmark.errors import UserError
from benchmark.records import frame as frames
from benchmark.records.selection import accuracies, column_of, normalise, selected
from benchmark.run import execute
from benchmark.spec import canonical_json
from tests.forge import forge
from tests.synthetic import write_run, write_study
from tests.tiny import tiny

PROMISED = [
    "run_id",
    "suite",
    "tier",
    "method",
    "preset",
    "standard",
    "target",
    "split",
    "seed",
    "status",
    "last",
    "source_val",
    "unsup",
    "oracle",
    "updates",
    "seconds",
    "images_per_s",
    "commit",
    "data_fingerprint",
]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("study")
    for target in ("mm", "up"):
        execute(tiny(target=target), results=root)
    return root


def test_load_gives_a_row_a_run_with_the_promised_columns(study: Path) -> None:
    frame = records.load(study)
    assert len(frame) == 2
    assert set(PROMISED) <= set(frame.columns)
    assert set(frame.status) == {"done"}
    assert frame["last"].between(0, 100).all()


def test_the_index_answers_like_the_files_and_follows_them(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cold = records.load(study)
    assert not list(tmp_path.rglob("*.parquet"))  # too small to be worth an index
    monkeypatch.setattr(frames, "REMEMBER_FROM", 1)
    pd.testing.assert_frame_equal(records.load(study), cold)
    (index,) = tmp_path.rglob("*.parquet")
    with monkeypatch.context() as patch:
        patch.setattr(records, "read", lambda directory: pytest.fail(f"{directory} is read again"))
        pd.testing.assert_frame_equal(records.load(study), cold)
    index.write_bytes(b"torn")
    pd.testing.assert_frame_equal(records.load(study), cold)


def test_the_warm_index_sees_what_was_changed_removed_and_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(frames, "REMEMBER_FROM", 1)
    root = tmp_path / "runs"
    changed, removed, recurved, damaged, _ = (write_run(root, target="mm", seed=seed) for seed in range(5))
    write_run(root, seed=5, status="failed")

    def agrees() -> pd.DataFrame:
        """What the warm index says is what a cold reading says, row by row and type by type."""
        warm = records.load(root)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
        shutil.rmtree(tmp_path / "elsewhere", ignore_errors=True)
        pd.testing.assert_frame_equal(warm, records.load(root))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        return warm.set_index("run_id")

    agrees()
    before = os.stat(changed / "record.json")
    forge(changed, lambda document: document["accuracy"].update(last=12.5))
    os.utime(changed / "record.json", ns=(before.st_atime_ns, before.st_mtime_ns))  # as a copying tool may do
    (recurved / "curve.jsonl").write_text(
        canonical_json({"update": 1, "target": 5.0, "source_val": 5.0, "unsup": 7.25})
    )
    (damaged / "record.json").write_text("torn")
    shutil.rmtree(removed)
    added = write_run(root, target="up", seed=9)
    frame = agrees()
    assert frame.loc[changed.name, "last"] == 12.5
    assert frame.loc[recurved.name, "final_unsup"] == 7.25
    assert frame.loc[damaged.name, "status"] == "damaged"
    assert removed.name not in frame.index
    assert added.name in frame.index
    assert len(frame) == 6


def test_processes_that_write_the_index_at_once_leave_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_study(tmp_path / "runs", ["dann", "tsvdnet"], seeds=range(6))
    load = f"from benchmark import records; print(len(records.load({str(tmp_path / 'runs')!r})))"
    started = [subprocess.Popen([sys.executable, "-c", load], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=120)[0].strip() for process in started] == ["60"] * 3
    (index,) = (tmp_path / "cache").rglob("*.parquet")
    assert len(pd.read_parquet(index)) == 60
    assert [p for p in index.parent.iterdir() if p != index] == []  # nothing half-written stays


def test_a_record_that_was_changed_after_the_run_is_found(study: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(study, copy)
    path = next(copy.glob("*/*/*/record.json"))
    document = json.loads(path.read_text())
    document["accuracy"]["last"] = 99.9
    path.write_text(json.dumps(document))
    with pytest.raises(UserError, match="changed after the run"):
        records.read(path.parent)
    assert sorted(records.load(copy).status) == ["damaged", "done"]
    path.write_text('{"torn": ')
    with pytest.raises(UserError, match="is damaged"):
        records.read(path.parent)


def test_an_empty_or_foreign_folder_gives_an_empty_table(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "file").touch()
    assert len(records.load(tmp_path)) == 0
    assert len(records.load(tmp_path / "absent")) == 0


def test_a_torn_last_line_of_a_curve_is_left_out(study: Path, tmp_path: Path) -> None:
    rows = [{"update": u, "target": 50.0, "source_val": 60.0, "unsup": 0.5} for u in (1, 2)]
    (tmp_path / "curve.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows) + '{"upd')
    assert [r["update"] for r in records.read_curve(tmp_path)] == [1, 2]


def test_selection_rules_pick_from_one_curve() -> None:
    curve = [
        {"update": 1, "target": 50.0, "source_val": 90.0, "unsup": 0.1, "snd": 3.0, "bnm": None},
        {"update": 2, "target": 70.0, "source_val": 80.0, "unsup": 0.2, "snd": 4.0, "bnm": 0.2},
        {"update": 3, "target": 60.0, "source_val": 90.0, "unsup": 0.3, "snd": 2.0, "bnm": 0.1},
    ]
    assert accuracies(curve) == {
        "last": 60.0, "source_val": 50.0, "unsup": 60.0, "snd": 70.0, "bnm": 70.0, "dev": None, "oracle": 70.0,
    }  # fmt: skip
    chosen = selected(curve)
    assert chosen["source_val"] == 1  # of equal rows the earliest
    assert "dev" not in chosen  # no point has that score
    assert normalise("source-val") == "source_val"


def test_both_statistics_of_a_curve_go_by_the_same_rules() -> None:
    points = [(50.0, 60.0), (70.0, 55.0)]
    curve = [{"update": i, "target": a, "statistics": {"target": {"target": b}}} for i, (a, b) in enumerate(points)]
    assert (accuracies(curve)["oracle"], accuracies(curve, "target")["oracle"]) == (70.0, 60.0)
    assert (selected(curve)["oracle"], selected(curve, "target")["oracle"]) == (1, 0)
    assert (column_of("last", "running"), column_of("last", "target")) == ("last", "target_last")


def test_a_record_of_the_first_protocol_is_read_and_says_nothing_of_the_target_s_statistics(tmp_path: Path) -> None:
    write_run(tmp_path, protocol=1)
    row = records.load(tmp_path).iloc[0]
    assert row["status"] == "done"
    assert row["last"] > 0
    assert row[["target_last", "snd", "final_snd", "target_final_unsup"]].isna().all()
