"""Parquet as Hugging Face publishes it, and parquet that is not right."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmark.data.get import importers, shards
from benchmark.data.get.fetch import fetch
from benchmark.data.get.prepare import prepare
from benchmark.data.get.sources import Source
from benchmark.data.parquet import rows
from benchmark.errors import UserError
from benchmark.spec import load_suite
from tests.data.hosts import PACS, hf_digits, hf_pacs, hugging_face, images, picture, playing

DIGITS = load_suite("digits")


def test_a_clone_of_the_publishers_folder_is_read_too(tmp_path):
    for folder in ("usps/data", "svhn/cropped_digits"):
        (tmp_path / "mine" / folder).mkdir(parents=True)
        for part in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"):
            (tmp_path / "mine" / folder / f"{part}.parquet").write_bytes(hf_digits(20, 16, "L"))
    done = prepare(DIGITS, tmp_path, tmp_path / "mine")
    assert sorted(done.made) == ["svhn", "usps"]
    assert "40 / 20 images" in done.made["usps"], "two shards"


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"label": [1]}, "has no column image; it has: label"),
        ({"image": images(1)}, "has no column label; it has: image"),
        ({"image": [{"bytes": None, "path": "x.jpg"}], "label": [1]}, "row 1: it holds no image bytes"),
        ({"image": [{"bytes": b"text", "path": "x.jpg"}], "label": [1]}, "row 1: its image is neither JPEG nor PNG"),
        ({"image": images(2), "label": [1, 7]}, "row 2: the number 7 stands for none of its 3 names"),
        ({"image": images(2), "label": [1, None]}, "row 2: it has no label"),
    ],
)
def test_parquet_that_is_not_of_pictures_is_named(tmp_path, columns, words):
    (tmp_path / "train.parquet").write_bytes(hugging_face(columns, {"label": ["a", "b", "c"]}))
    with pytest.raises(UserError, match=words):
        list(rows(tmp_path / "train.parquet"))


def test_damaged_parquet_is_named(tmp_path):
    (tmp_path / "train.parquet").write_bytes(hf_pacs()[:-100])
    with pytest.raises(UserError, match=r"train\.parquet cannot be read as parquet"):
        list(rows(tmp_path / "train.parquet"))


def test_plain_binary_columns_and_bare_numbers_are_read(tmp_path):
    table = pa.table({"image": [picture(0), picture(1)], "label": [3, 4], "file_name": ["a/b.jpg", "..\\c.jpg"]})
    pq.write_table(table, tmp_path / "test-0.parquet")
    found = list(rows(tmp_path / "test-0.parquet"))
    assert [(r.image, r.label, r.name, r.split) for r in found] == [
        (picture(0), 3, "b.jpg", "test"),
        (picture(1), 4, "c.jpg", "test"),
    ]


def test_shards_of_other_images_are_refused_and_nothing_is_left(tmp_path):
    columns = {"image": images(1), "label": ["unicorn"], "domain": ["photo"]}
    (tmp_path / "train.parquet").write_bytes(hugging_face(columns))
    done = prepare(PACS, tmp_path / "root", tmp_path)
    assert "has the class 'unicorn', and the suite has none of that name" in done.refused[0]
    assert list((tmp_path / "root" / "downloads" / "pacs" / "unpacked").glob("*")) == []


def test_tables_of_other_things_beside_the_shards_are_passed_over(tmp_path):
    (tmp_path / "train.parquet").write_bytes(hf_pacs())
    pq.write_table(pa.table({"accuracy": [0.5]}), tmp_path / "records.parquet")
    done = prepare(PACS, tmp_path / "root", tmp_path)
    assert done.refused == []
    assert len(done.made) == 4
    (tmp_path / "more.parquet").write_bytes(b"PAR1 cut off")
    assert "more.parquet cannot be read as parquet" in prepare(PACS, tmp_path / "other", tmp_path).refused[0]


def test_shards_whose_place_is_taken_are_said(tmp_path):
    (tmp_path / "train.parquet").write_bytes(hf_pacs())
    (tmp_path / "parquet").write_text("a file")
    with pytest.raises(UserError, match="cannot be unpacked into"):
        shards.unpack([tmp_path / "train.parquet"], tmp_path / "parquet", PACS)


def test_digits_in_parquet_that_cannot_be_decoded_are_named(tmp_path):
    for part in ("train", "test"):
        columns = {"image": [{"bytes": b"\x89PNG" + b"x" * 40, "path": None}], "label": [1]}
        (tmp_path / f"{part}.parquet").write_bytes(hugging_face(columns))
    with pytest.raises(UserError, match=r"train\.parquet, row 1 cannot be read"):
        importers.parquet(tmp_path)


def test_a_download_that_is_no_parquet_or_safetensors_is_not_kept(tmp_path):
    with playing() as hosts:
        for name in ("x.parquet", "x.safetensors"):
            hosts.files[f"one/{name}"] = b"something else altogether"
            source = Source(suite="digits", file=name, about="a test", urls=[f"{hosts.address}/one/{name}"])
            with pytest.raises(UserError, match=f"it gives no {name[2:]} file"):
                fetch(source, tmp_path)
