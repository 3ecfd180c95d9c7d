"""Public errors about images: each met by a file that provokes it."""

from __future__ import annotations

import bz2
import gzip
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from PIL import Image

from benchmark import data
from benchmark.data import cache, lists
from benchmark.data.get import archive, fetch, importers, prepare, sources, trees
from benchmark.errors import UserError
from benchmark.spec import load_suite

CLASSES = {"dog", "elephant", "giraffe", "guitar", "horse", "house", "person"}


@pytest.fixture(autouse=True)
def _own_cache(own_cache: Path) -> None:
    """Nothing goes to the user's cache."""


def raises(words: str, call: Callable[[], Any]) -> None:
    with pytest.raises(UserError, match=words):
        call()


def picture(path: Path, side: int = 16) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((side, side, 3), 99, np.uint8)).save(path)
    return path


def zipped(path: Path, name: str = "a.txt", content: bytes = b"content") -> Path:
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(name, content)
    return path


def test_archives_say_why_they_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "a.zip")
    (tmp_path / "there").mkdir()
    raises("is there already", lambda: archive.unpack(path, tmp_path / "there"))
    raises("more than 0 files", lambda: archive.unpack(path, tmp_path / "x", archive.Limits(files=0)))
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as packed:
        packed.writestr("a.txt", b"1")
        packed.writestr("A.txt", b"2")
    raises("holds 'a.txt' twice", lambda: archive.unpack(tmp_path / "twice.zip", tmp_path / "x"))
    raises("cannot be unpacked into", lambda: archive.unpack(tmp_path / "absent.zip", tmp_path / "x"))
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))  # type: ignore[attr-defined]
        raises("Make room, or give another", lambda: archive.unpack(path, tmp_path / "x"))
    torn = bytearray(path.read_bytes())
    torn[torn.rfind(b"PK\x01\x02") + 24] += 1  # the table of contents claims one byte more than there is
    (tmp_path / "short.zip").write_bytes(torn)
    raises("is damaged", lambda: archive.unpack(tmp_path / "short.zip", tmp_path / "x"))
    assert not (tmp_path / "x").exists()


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHMARK_FAULT", "write:*=enospc")
    raises("cannot be written .No space left", lambda: cache.write_json(tmp_path / "note.json", {}))
    assert list(tmp_path.glob("*note*")) == []


def test_a_download_that_cannot_be_stored_is_said(tmp_path: Path) -> None:
    source = sources.sources("digits")[0]
    path = source.path(tmp_path)
    path.parent.mkdir(parents=True)
    os.mkdir(f"{path}.lock")  # where its lock should be
    raises("cannot be written", lambda: fetch.fetch(source, tmp_path))


def pacs(root: Path, names: set[str] = CLASSES) -> Path:
    for domain in ("art_painting", "cartoon", "sketch", "photo"):
        for name in names:
            picture(root / "PACS" / domain / name / "p.png")
    return root


def test_folders_of_pictures_say_what_is_wrong_with_them(tmp_path: Path) -> None:
    suite = load_suite("pacs")
    split = {"reading": "split"}

    def load(root: Path, **options: str) -> None:
        data.load(suite, "lite", "all", root, options)

    (tmp_path / "empty" / "PACS").mkdir(parents=True)
    raises("has no pictures", lambda: load(tmp_path / "empty"))
    raises("has no picture of", lambda: load(pacs(tmp_path / "few", {"dog"})))
    broken = pacs(tmp_path / "broken")
    (broken / "PACS" / "photo" / "dog" / "p.png").write_bytes(b"no picture")
    raises("cannot be read: it is not a picture.* data check", lambda: load(broken))
    listed = pacs(tmp_path / "listed")
    (listed / "PACS" / "splits").mkdir()
    for domain in ("art_painting", "cartoon", "sketch", "photo"):
        for part in ("train", "crossval"):
            (listed / "PACS" / "splits" / f"{domain}_{part}_kfold.txt").write_text(f"{domain}/dog/other.png 1\n")
    raises("which is not in", lambda: load(listed, **split))
    (listed / "PACS" / "splits" / "art_painting_train_kfold.txt").write_text("a/dog/p.png 0\n")
    raises("the label 0 is below 1", lambda: load(listed, **split))


def test_the_other_version_of_the_lists_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "DomainNet"
    for info in load_suite("domainnet").domains:
        for part in ("train", "test"):
            root.mkdir(exist_ok=True)
            (root / f"{info.name}_{part}.txt").write_text(f"{info.name}/airplane/p.png 0\n")
    monkeypatch.setitem(load_suite("domainnet").folders.readings[1].counts, "clipart", [2])
    raises(
        "they are the original lists", lambda: data.fingerprint(load_suite("domainnet"), "lite", "all", tmp_path, {})
    )
    assert len(lists.read_list(root / "clipart_train.txt")) == 1


def test_published_forms_say_what_they_are_not(tmp_path: Path) -> None:
    (tmp_path / "new.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\0" * 400)
    raises("MATLAB 7.3 file|cannot be read as a MATLAB file", lambda: importers.matlab(tmp_path / "new.mat"))
    scipy.io.savemat(tmp_path / "cells.mat", {"dataset": np.zeros((3, 1))})
    raises("not two by two cells", lambda: importers.m3sda_usps(tmp_path / "cells.mat"))
    (tmp_path / "torn.gz").write_bytes(gzip.compress(b"\0" * 99)[:-5])
    raises("cannot be read", lambda: importers.idx(tmp_path / "torn.gz"))
    (tmp_path / "other").write_bytes(b"other")
    raises("is not an IDX file of bytes", lambda: importers.idx(tmp_path / "other"))
    (tmp_path / "usps.bz2").write_bytes(bz2.compress(b"1 word"))
    raises("cannot be read as LIBSVM text", lambda: importers.usps_libsvm(tmp_path / "usps.bz2", tmp_path / "usps.bz2"))
    folder = picture(tmp_path / "dassl" / "train_images" / "000001_7.jpg").parent
    raises("test_images is not", lambda: importers.dassl(folder))
    (folder / "000002_7.jpg").write_bytes(b"no picture")
    raises("cannot be read", lambda: importers.dassl(folder))
    picture(folder / "000002_7.jpg", side=20)
    raises("pictures of several sizes", lambda: importers.dassl(folder))


def test_what_cannot_be_prepared_is_refused_with_the_reason(tmp_path: Path) -> None:
    origin, root = tmp_path / "mine", tmp_path / "root"
    for part, n in (("train", 3), ("test", 2)):
        for i in range(n):
            picture(origin / "mnist" / f"{part}_images" / f"{i:06}_7.jpg")
    refused = prepare.prepare(load_suite("digits"), root, origin, again=False).refused
    assert any("gives no sound mnist" in words for words in refused), refused
    bad = tmp_path / "bad"
    bad.mkdir()
    scipy.io.savemat(
        bad / "mnist_data.mat", {k: np.zeros((2, 5)) for k in ("train_32", "label_train", "test_32", "label_test")}
    )
    refused = prepare.prepare(load_suite("digits"), root, bad, again=False).refused
    assert any("as published" in words for words in refused), refused


def test_a_suite_without_public_images_and_a_place_that_is_taken_are_said(tmp_path: Path) -> None:
    raises("There is no suite with public images 'toys'", lambda: sources.sources("toys"))
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "dog").write_text("a file")
    found = trees.Place.__new__(trees.Place)
    object.__setattr__(found, "classes", {"dog": tmp_path})
    raises("is in the way", lambda: trees.place_domain(found, tmp_path / "target", ours=False))
