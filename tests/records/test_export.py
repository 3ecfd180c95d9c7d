"""Exports hold every run, and other tools read them."""

from __future__ import annotations

import importlib
from pathlib import Path

import pandas as pd
import pytest

from benchmark import records
from benchmark.errors import UserError
from benchmark.records.track import export
from tests import needs
from tests.synthetic import write_run, write_study

WATCHERS = Path(__file__).parents[1] / "safety" / "watchers.py"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("export")
    write_study(root, ["dann", "tsvdnet:code"], targets=["mm"], seeds=(0, 1))
    write_run(root, "tsvdnet", "mm", 0, overrides={"prox": "zero", "run.updates": 20})
    write_run(root, "dann", "mt", 0, status="failed", points=0)
    return root


@pytest.mark.parametrize("format, read", [("parquet", pd.read_parquet), ("csv", pd.read_csv)])
def test_tables_hold_every_run_with_its_numbers(results: Path, tmp_path: Path, format: str, read):
    path = export.write(results, format, tmp_path / f"all.{format}")
    back, frame = read(path).set_index("run_id"), records.load(results).set_index("run_id")
    assert set(back.index) == set(frame.index)
    done = frame[frame.status == "done"]
    assert back.loc[done.index, "last"].astype(float).tolist() == pytest.approx(done["last"].tolist())
    both = back.loc[done.index, ["target_last", "target_share"]].astype(float)
    assert both["target_last"].tolist() == pytest.approx(done["target_last"].tolist())
    assert (both["target_share"] == 0.2442).all()
    changed = back[back["set.prox"].notna()]
    assert changed["set.prox"].tolist() == ["zero"]
    assert str(changed["set.run.updates"].iloc[0]).rstrip("0").rstrip(".") in ("20", "2")
    assert (back["status"] == "failed").sum() == 1


@needs.track
def test_tensorboard_reads_the_curves_back(results: Path, tmp_path: Path):
    accumulator = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    folder = export.write(results, "tensorboard", tmp_path / "boards")
    export.write(results, "tensorboard", tmp_path / "boards")  # twice: replaced, not doubled
    frame = records.load(results)
    run = frame[(frame.method == "dann") & (frame.status == "done")].iloc[0]
    place = next(folder.glob(f"digits/mini/*{run.run_id}"))
    events = accumulator.EventAccumulator(str(place))
    events.Reload()
    curve = records.read_curve(Path(run.path))
    found = events.Scalars("accuracy/target")
    assert [e.step for e in found] == [row["update"] for row in curve]
    assert [e.value for e in found] == pytest.approx([row["target"] for row in curve], rel=1e-5)
    found = events.Scalars("target_statistics/accuracy/target")
    wanted = [row["statistics"]["target"]["target"] for row in curve]
    assert [e.value for e in found] == pytest.approx(wanted, rel=1e-5)
    tags = {"probes/tnn_rotated", "selection/snd", "target_statistics/selection/dev"}
    assert tags <= set(events.Tags()["scalars"])


def test_a_missing_extra_is_named(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "tensorboard.py").write_text("raise ModuleNotFoundError('none', name='tensorboard')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UserError, match=r"pip install 'msda-benchmark\[track\]'"):
        export.write(results, "tensorboard", tmp_path / "b")


def test_a_class_of_ones_own_gets_every_curve(results: Path, tmp_path: Path):
    out = export.write(results, f"{WATCHERS}:Lines", tmp_path / "lines")
    with_curves = [run for run in records.load(results).itertuples() if records.read_curve(Path(run.path))]
    assert len(with_curves) == 5
    for run in with_curves:
        first, *points, last = (out / f"{run.run_id}.txt").read_text().splitlines()
        assert first.startswith(f"start {run.method}")
        assert points == [f"{row['update']} {float(row['target'])!r}" for row in records.read_curve(Path(run.path))]
        assert last == "end done"


def test_unknown_formats_and_empty_results_are_sentences(results: Path, tmp_path: Path):
    with pytest.raises(UserError, match="Did you mean 'parquet'"):
        export.write(results, "parket")
    with pytest.raises(UserError, match="no records"):
        export.write(tmp_path, "csv")
