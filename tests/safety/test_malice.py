"""A stranger's pickles, arrays, archives and links: refused. Nothing of theirs ever runs, hangs or leads out."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from benchmark import records
from benchmark.data import digits
from benchmark.data.get import archive
from benchmark.errors import UserError
from benchmark.records import artifacts, study
from benchmark.records.audit import audit
from benchmark.report import publish
from benchmark.run.networks import conv3fc2, load_weights
from tests import synthetic
from tests.quiet import quiet
from tests.safety.fuzz import no_hang
from tests.safety.small import Small, bits


class Bomb:
    """What a malicious pickle does when it is loaded: here it only leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.mark),)


def test_the_bomb_works(mark: Path) -> None:
    pickle.loads(pickle.dumps(Bomb(mark)))
    assert mark.exists()  # otherwise the tests below prove nothing


# -- pickles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["zip", "plain pickle", "inside the state"])
def test_a_checkpoint_with_a_malicious_pickle_is_not_loaded_and_the_run_begins_anew(
    small: Small, tmp_path: Path, mark: Path, form: str
) -> None:
    spec = small.spec()
    whole = small.execute(spec, tmp_path / "whole")
    directory = small.directory(spec, tmp_path / "runs")
    directory.mkdir(parents=True)
    if form == "plain pickle":
        (directory / "checkpoint.pt").write_bytes(pickle.dumps(Bomb(mark)))
    else:
        inside = {"format": 2, "run_id": spec.run_id if spec.data else "", "method": Bomb(mark)}
        torch.save(Bomb(mark) if form == "zip" else inside, directory / "checkpoint.pt")
    record = small.execute(spec, tmp_path / "runs")
    assert not mark.exists()
    assert bits(record) == bits(whole)
    assert any("checkpoint was damaged" in w for w in record["warnings"])


def test_imagenet_weights_with_a_malicious_pickle_are_refused(tmp_path: Path, mark: Path) -> None:
    torch.save({"conv1.weight": Bomb(mark)}, tmp_path / "resnet18.pth")
    with pytest.raises(UserError, match="does not hold the weights"):
        load_weights(conv3fc2(1 / 64), "resnet18", tmp_path / "resnet18.pth")
    assert not mark.exists()


def object_npz(path: Path, mark: Path, names: tuple[str, ...]) -> None:
    """An .npz whose arrays hold Python objects that run code when they are unpickled."""
    np.savez(path, **{name: np.array([Bomb(mark)] * 3, dtype=object) for name in names})  # type: ignore[arg-type]


def test_an_npz_with_object_arrays_is_refused_as_data_and_as_artifacts(tmp_path: Path, mark: Path) -> None:
    object_npz(tmp_path / "artifacts.npz", mark, ("features_mm", "labels_mm"))
    with pytest.raises(UserError, match=r"artifacts\.npz is damaged"):
        artifacts.read(tmp_path)
    object_npz(tmp_path / "usps.npz", mark, digits.KEYS)
    with pytest.raises(UserError, match="Python objects"):
        digits._sound(tmp_path / "usps.npz")
    assert not mark.exists()


def test_artifacts_that_lease_to_fill_the_memory_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "artifacts.npz", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("features_mm.npy", b"\0" * (artifacts.LARGEST + 1))
    with pytest.raises(UserError, match="unpacks to more than any run stores"):
        artifacts.read(tmp_path)


def claiming(shape: str, descr: str = "<f4") -> bytes:
    """An array's file of a few bytes whose header claims a shape."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


CLAIMS = {
    "a terabyte": claiming("(1000000000000,)"), "more than can be counted": claiming(f"(0, {10**30})"),
    "less than nothing": claiming("(-1000000, -1000000)"), "an open bracket": claiming("(1, "), "no header": b"text",
    "names of a terabyte": claiming("()", f"<U{10**9}"), "indented": claiming("(1,)\n   x"), "sums": claiming("1+1j"),
}  # fmt: skip


@pytest.mark.parametrize("content", CLAIMS.values(), ids=CLAIMS)
def test_an_array_that_claims_what_it_has_not_is_damaged_and_takes_no_memory(tmp_path: Path, content: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "artifacts.npz", "w") as packed:
        packed.writestr("sigma_mm.npy", content)
    with pytest.raises(UserError, match=r"artifacts\.npz is damaged"):
        artifacts.read(tmp_path)


def test_arrays_that_claim_a_terabyte_are_named_by_audit_and_stop_no_verb_with_a_traceback(
    small: Small, tmp_path: Path
) -> None:
    record = small.execute(small.spec("tsvdnet"), tmp_path / "runs")
    with zipfile.ZipFile(record.path / "artifacts.npz", "a") as packed:
        packed.writestr("sigma_more.npy", CLAIMS["a terabyte"])
    records.write(
        record.path, {k: v for k, v in record.document.items() if k not in ("hashes", "format")}
    )  # sealed again
    code, said = quiet("audit", str(tmp_path / "runs"))
    assert code == 1
    assert "claims to be of shape (1000000000000,)" in " ".join(said.split())
    results, mine = ("--results", str(tmp_path / "runs")), str(small.suite)
    code, said = quiet("figure", "--suite", mine, "--kind", "tsne", "--target", "mt", *results, "--out", str(tmp_path))
    assert (code, "is damaged" in said) == (2, True), said
    # these leave out what they cannot draw
    assert quiet("report", *results, "--out", str(tmp_path / "report.html"))[0] == 0
    assert quiet("bundle", str(tmp_path / "runs"), "--out", str(tmp_path / "b.zip"))[0] == 0
    assert [f.kind for f in audit(tmp_path / "b.zip").findings if f.level == "error"] == ["artifacts"]


def test_pickles_of_a_submission_are_not_opened_by_looking(tmp_path: Path, mark: Path) -> None:
    synthetic.write_run(tmp_path)
    folder = tmp_path / ".slurm" / "20240101-000000-abcdef"
    folder.mkdir(parents=True)
    for name in ("1_submitted.pkl", "1_0_result.pkl"):
        (folder / name).write_bytes(pickle.dumps(Bomb(mark)))
    (folder / "submission.json").write_text(json.dumps({"jobs": {"1": ["x"]}, "code": "c"}))
    assert quiet("status", "--results", str(tmp_path))[0] == 0
    assert quiet("audit", str(tmp_path))[0] in (0, 1)
    assert not mark.exists()


# -- archives and links -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../out.txt", "/abs/out.txt", "a/../../out.txt", "..\\out.txt", "C:\\out.txt"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_that_leads_out_of_its_folder_is_refused_whole(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / f"pictures.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("fine.txt", "fine")
            packed.writestr(name, "out")
    else:
        with tarfile.open(path, "w") as tar:
            info = tarfile.TarInfo(name)
            info.size = 3
            tar.addfile(info, io.BytesIO(b"out"))
    with pytest.raises(UserError, match="is refused"):
        archive.unpack(path, tmp_path / "inside" / "folder")
    assert not (tmp_path / "out.txt").exists()
    assert not (tmp_path / "inside" / "folder").exists()


def forged(home: Path, change: Callable[[dict[str, Any]], dict[str, Any]], drop: str = "") -> Path:
    """A study of one run whose row somebody has changed, or whose column is gone."""
    publish.pack(home, [synthetic.write_run(home.parent / "runs")])
    table = pq.read_table(home / "records.parquet")
    rows = [change(row) for row in table.to_pylist()]
    made = pa.Table.from_pylist([r for row in rows for r in row.pop("rows", [row])], schema=table.schema)
    pq.write_table(made.drop_columns([drop]) if drop else made, home / "records.parquet")
    return home


STUDIES: list[tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    (lambda row: {**row, "suite": ".."}, "lies in no folder of a suite and a tier"),
    (lambda row: {**row, "tier": "../../../../tmp"}, "lies in no folder of a suite and a tier"),
    (lambda row: {**row, "suite": "/etc"}, "lies in no folder of a suite and a tier"),
    (lambda row: {**row, "tier": None}, "lies in no folder of a suite and a tier"),
    (lambda row: {**row, "run_id": "../../../../out"}, "is no run_id"),
    (lambda row: {**row, "run_id": None}, "is no run_id"),
    (lambda row: {**row, "run_id": "\x1b[2J" * 3}, "is no run_id"),
    (lambda row: {**row, "record.json": None}, "is missing or too large"),
    (lambda row: {"rows": [row, row]}, "holds run [0-9a-f]{16} twice"),
]


@pytest.mark.parametrize("change, words", STUDIES, ids=[words for _, words in STUDIES])
def test_a_study_with_a_row_that_no_run_can_have_is_refused_whole(
    tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]], words: str
) -> None:
    home = forged(tmp_path / "study", change)
    with pytest.raises(UserError, match=words):
        study.unpack(home, tmp_path / "a" / "b" / "c" / "out")
    assert not (tmp_path / "a").exists()
    with pytest.raises(UserError, match=words):
        records.load(home)
    code, said = quiet("audit", str(home))
    assert code == 1
    assert re.search(words, " ".join(said.split()))
    assert "\x1b" not in said


def test_a_study_without_a_column_or_with_another_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no column record\.json"):
        records.load(forged(tmp_path / "less", dict, drop="record.json"))
    table = pq.read_table(tmp_path / "less" / "records.parquet")
    pq.write_table(table.append_column("record.json", pa.array(["text"])), tmp_path / "less" / "records.parquet")
    with pytest.raises(UserError, match=r"column record\.json is not large_binary"):
        records.load(tmp_path / "less")


def test_a_study_that_claims_to_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dictionary holds one large value, and hundreds of rows of a few bits point at it."""
    publish.pack(tmp_path, [synthetic.write_run(tmp_path / "runs")])
    row = pq.read_table(tmp_path / "curves.parquet").to_pylist()[0]
    large, count = {**row, "curve.jsonl": b"0" * 2**18}, 640
    table = pa.Table.from_pylist(
        [{**large, "run_id": f"{i:016x}"} for i in range(64)], schema=study._schema("curves.parquet")
    )
    table = pa.concat_tables([table] * (count // 64)).set_column(
        0, "run_id", pa.array([f"{i:016x}" for i in range(count // 64 * 64)])
    )
    monkeypatch.setattr(study, "LARGEST", 2**24)
    pq.write_table(table, tmp_path / "curves.parquet", use_dictionary=["curve.jsonl"], compression="zstd")
    assert (tmp_path / "curves.parquet").stat().st_size < 2**20
    with pytest.raises(UserError, match="unpacks to more than any study holds"):
        study.stored(tmp_path, "curves.parquet")


def test_a_pipe_in_place_of_a_study_is_not_waited_for(tmp_path: Path) -> None:
    publish.pack(tmp_path / "study", [synthetic.write_run(tmp_path / "runs")])
    (tmp_path / "study" / "curves.parquet").unlink()
    os.mkfifo(tmp_path / "study" / "curves.parquet")
    with no_hang(), pytest.raises(UserError, match="is not a plain file"):
        study.stored(tmp_path / "study", "curves.parquet")


def test_a_link_in_a_run_is_not_published(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("private")
    run = synthetic.write_run(tmp_path / "runs")
    (run / "curve.jsonl").unlink()
    (run / "curve.jsonl").symlink_to(secret)
    with pytest.raises(UserError, match="changed after the run"):
        publish.publish(tmp_path / "runs", tmp_path / "study")
    assert "private" not in "".join(p.read_text() for p in tmp_path.glob("study/**/*") if p.is_file())
    assert any(f.kind == "link" for f in audit(tmp_path / "runs").findings)


def test_a_linked_folder_is_not_entered(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "elsewhere")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "digits").symlink_to(tmp_path / "elsewhere" / "digits")
    assert records.load(tmp_path / "runs").empty
    assert audit(tmp_path / "runs").runs == 0


@pytest.mark.parametrize(
    "file", ["record.json", "spec.json", "curve.jsonl", "failure.json", "lease.json", "heartbeat.json"]
)
@pytest.mark.parametrize("kind", ["pipe", "endless", "folder", "huge"])
def test_a_file_that_never_ends_does_not_hold_anybody_up(tmp_path: Path, file: str, kind: str) -> None:
    run = synthetic.write_run(tmp_path, status="done" if file in ("record.json", "curve.jsonl") else "interrupted")
    (run / file).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(run / file)
    elif kind == "endless":
        (run / file).symlink_to("/dev/zero")
    elif kind == "folder":
        (run / file).mkdir()
    else:
        with (run / file).open("wb") as sparse:
            sparse.truncate(2**40)
    with no_hang():
        assert len(records.load(tmp_path)) == 1
        assert quiet("status", "--results", str(tmp_path))[0] in (0, 1)
        assert audit(tmp_path).runs == 1
