"""`run --keep-model`, `plan --keep-model` and `predict`, as they are typed."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from benchmark import records
from benchmark.cli.parts import progress
from benchmark.records import models
from tests.quiet import quiet
from tests.safety.small import Small


@pytest.fixture(scope="module")
def results(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs by the command line, with their models."""
    folder = tmp_path_factory.mktemp("kept") / "runs"
    words = ["--methods", "source-only,tsvdnet", "--targets", "mt", "--keep-model", "selected", "--workers", "1"]
    code, said = quiet("run", "--suite", str(small.suite), *words, *places(small, folder))
    assert code == 0, said
    assert "Models: at most" in said
    assert "python -m benchmark predict" in said
    return folder


def places(small: Small, results: Path) -> list[str]:
    return ["--data-root", str(small.data), "--results", str(results)]


def run_of(results: Path, method: str) -> records.Record:
    (found,) = [
        record
        for entry in records.run_directories(results)
        if (record := records.read(Path(entry.path))) is not None and record["spec"]["method"] == method
    ]
    return found


@pytest.mark.parametrize("rule", ["last", "source-val", "unsup"])
@pytest.mark.parametrize("statistics", ["target", "running"])
def test_predict_without_files_gives_the_accuracy_of_the_record(
    rule: str, statistics: str, small: Small, results: Path
) -> None:
    record = run_of(results, "tsvdnet")
    words = ["--rule", rule, "--statistics", statistics]
    code, said = quiet("predict", record.run_id[:6], *words, *places(small, results))
    printed = record if statistics == "running" else record["statistics"]["target"]
    assert code == 0, said
    assert f"{printed['accuracy'][rule.replace('-', '_')]:.2f} %, as its record has it." in said


def test_predict_writes_a_row_an_image(small: Small, results: Path, tmp_path: Path) -> None:
    record = run_of(results, "tsvdnet")
    for i in range(25):
        Image.fromarray(np.full((40, 30), 10 * i, np.uint8)).save(tmp_path / f"{i:02}.png")
    words = ["predict", str(record.path), str(tmp_path)]
    code, said = quiet(*words, "--out", str(tmp_path / "table.csv"), *places(small, results))
    assert code == 0, said
    table = pd.read_csv(tmp_path / "table.csv")
    assert list(table.columns) == ["image", "label", "probability", "uncertainty", *(f"p_{i}" for i in range(10))]
    assert len(table) == 25
    assert np.allclose(table.filter(like="p_").sum(axis=1), 1, atol=1e-5)
    assert np.allclose(table.filter(like="p_").max(axis=1), table.probability)
    code, said = quiet(*words, *places(small, results))
    assert code == 0
    assert "5 more rows, and the probability of each class: --out table.csv" in said
    code, said = quiet(*words, "--json", *places(small, results))
    assert [row["label"] for row in json.loads(said)["rows"]] == table.label.astype(str).tolist()
    assert json.loads(said)["accuracy"] is None


def test_predict_reads_an_npz_and_says_how_right_it_was(small: Small, results: Path) -> None:
    record = run_of(results, "source-only")
    file = str(small.data / "digits" / "mnist.npz")
    code, said = quiet("predict", record.run_id, file, *places(small, results))
    assert code == 0, said
    accuracy = record["statistics"]["target"]["accuracy"]["last"]
    assert f"Accuracy where the class is known: {accuracy:.2f} %." in said
    assert "uncertainty" not in said


def deflated_and_changed(path: Path) -> None:
    np.savez_compressed(path, x_test=np.zeros((4, 28, 28), np.uint8))
    content = bytearray(path.read_bytes())
    name, extra = struct.unpack_from("<HH", content, 26)
    content[30 + name + extra] = 0xFF  # a kind of block that deflate does not have
    path.write_bytes(content)


def claimed(shape: str) -> Callable[[Path], None]:
    """An .npz whose one array says that it has this shape, and has three bytes."""

    def write(path: Path) -> None:
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}\n".encode()
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x_test.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"abc")

    return write


def no_array(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x_test.npy", b"no array at all")


def encrypted(path: Path) -> None:
    np.savez(path, x_test=np.zeros((1, 28, 28), np.uint8))
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 8] |= 1  # the flag in the table of contents
    path.write_bytes(content)


def of_no_pixels(path: Path) -> None:
    np.savez(path, x_test=np.zeros((3, 0, 0), np.uint8))


@pytest.mark.parametrize(
    "write, words",
    [
        (deflated_and_changed, "cannot be read as .npz: Error -3 while decompressing"),
        (claimed("(784000000000000,)"), "cannot be read as .npz: Unable to allocate"),
        (claimed("(True,)"), "cannot be read as .npz: an integer is required"),
        (no_array, "x_test is no array"),
        (encrypted, "is encrypted"),
        (of_no_pixels, "x_test is uint8 of shape (3, 0, 0)"),
    ],
    ids=["deflate", "huge", "odd-shape", "no-array", "encrypted", "0x0"],
)
def test_an_npz_that_is_damaged_or_lies_is_a_sentence_and_code_2(
    write: Callable[[Path], None], words: str, small: Small, results: Path, tmp_path: Path
) -> None:
    write(tmp_path / "a.npz")
    record = run_of(results, "source-only")
    code, said = quiet("predict", str(record.path), str(tmp_path / "a.npz"), *places(small, results))
    assert code == 2, said
    assert "a.npz cannot be predicted" in "".join(said.split("\n"))
    assert words in " ".join(said.split())


def test_a_request_that_cannot_be_met_is_a_sentence_and_code_2(small: Small, results: Path, tmp_path: Path) -> None:
    record = run_of(results, "source-only")
    for words, sentence in (
        (["predict", "zz"], "No run in"),
        (["predict", record.run_id, "--rule", "oracle"], "no rule of kept models 'oracle'"),
        (["predict", record.run_id, "--statistics", "own"], "no kind of statistics at test 'own'"),
        (["predict", record.run_id, str(tmp_path / "none.png")], "There is no file"),
        (["predict", record.run_id, "--out", str(tmp_path)], "is a folder. Name a file in it: --out"),
        (["run", "--suite", str(small.suite), "--keep-model", "best"], "no choice of models to keep 'best'"),
        (["plan", "--suite", str(small.suite), "--keep-model", "best"], "no choice of models to keep 'best'"),
    ):
        code, said = quiet(*words, *places(small, results))
        assert code == 2, said
        assert sentence in " ".join(said.split())


def test_runs_that_are_done_without_a_model_are_named_and_not_run_again(small: Small, tmp_path: Path) -> None:
    words = ["--suite", str(small.suite), "--methods", "source-only", "--targets", "mt"]
    where = places(small, tmp_path / "runs")
    assert quiet("run", *words, "--workers", "1", *where)[0] == 0
    record = run_of(tmp_path / "runs", "source-only")
    before = (record.path / "record.json").stat().st_mtime_ns
    code, said = quiet("run", *words, "--keep-model", "last", "--workers", "1", *where)
    assert code == 0
    assert f"1 runs are done without the models that are asked for ({record.run_id})" in " ".join(said.split())
    assert f"--results {tmp_path / 'runs'}-models" in "".join(said.split("\n"))
    assert (record.path / "record.json").stat().st_mtime_ns == before
    assert models.kept(record.path) == {}
    code, said = quiet("run", *words, "--keep-model", "last", "--workers", "1", "--json", *where)
    assert json.loads(said)["without_model"] == [record.run_id]


def test_plan_says_the_disk_beforehand(small: Small, results: Path, tmp_path: Path) -> None:
    words = ["plan", "--suite", str(small.suite), "--methods", "source-only,tsvdnet", "--targets", "mt", "--json"]
    code, said = quiet(*words, "--keep-model", "selected", *places(small, tmp_path))
    assert code == 0
    expected = json.loads(said)["models"]["bytes"]
    taken = [sum(p.stat().st_size for p in Path(e.path).glob("model-*")) for e in records.run_directories(results)]
    assert sum(taken) <= expected["total"]
    assert max(taken) <= expected["a_run"]
    assert expected["under_way"] > 0
    assert "models" not in json.loads(quiet(*words, *places(small, tmp_path))[1])


def test_a_long_prediction_says_how_much_time_is_left_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 31.0, 40.0, 62.0, 70.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.counting("predicting", hidden=False) as watch:
        for done in (250, 500, 750, 1000):
            watch(done, 1000)
    said = capsys.readouterr().err
    assert said.splitlines() == ["predicting: 250 of 1000, 2 min left", "predicting: 750 of 1000, 21 s left"]
