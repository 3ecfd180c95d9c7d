"""Pictures decoded once into a memory map, or on demand."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmark.data import decoded as module
from benchmark.data.decoded import Files, Rows, decoded, read_image
from benchmark.errors import UserError


@pytest.fixture
def files(tmp_path, write_pictures) -> list[Path]:
    return sorted(write_pictures(tmp_path / "pictures", domains=("photo",)).rglob("*.jpg"))


def test_the_map_holds_the_pictures_in_order_and_is_used_again(tmp_path, files, monkeypatch):
    array = decoded(files, 16, "mark", tmp_path)
    assert isinstance(array, np.memmap)
    assert np.array_equal(array[3], read_image(files[3], 16))
    monkeypatch.setattr(module, "read_image", lambda *_: pytest.fail("decoded again"))
    assert np.array_equal(decoded(files, 16, "mark", tmp_path), array)


def test_other_pictures_or_another_size_are_another_map(tmp_path, files):
    decoded(files, 16, "mark", tmp_path)
    assert decoded(files, 12, "mark", tmp_path).shape[-1] == 12
    decoded(files[:5], 16, "other", tmp_path)
    assert len(list((tmp_path / "decoded").glob("*.npy"))) == 3


def test_wide_and_tall_pictures_keep_their_middle_square(tmp_path):
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 17:43] = 200  # the middle square is 20:40; resampling looks a little beyond it
    Image.fromarray(wide).save(tmp_path / "wide.png")
    Image.fromarray(wide.transpose(1, 0, 2)).save(tmp_path / "tall.png")
    for name in ("wide.png", "tall.png"):
        assert read_image(tmp_path / name, 10).min() == 200


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK"])
def test_every_colour_mode_becomes_rgb(tmp_path, mode):
    name = tmp_path / ("x.jpg" if mode == "CMYK" else "x.png")
    Image.new(mode, (9, 9)).save(name)
    assert read_image(name, 8).shape == (3, 8, 8)


def test_without_room_the_same_pixels_come_from_decoding_threads(tmp_path, files):
    mapped = decoded(files, 16, "mark", tmp_path)
    index = np.array([4, 0, 7, 4])
    for workers in (1, 4):
        lazy = decoded(files, 16, "mark", tmp_path / str(workers), room=10, workers=workers)
        assert isinstance(lazy, Files)
        assert np.array_equal(lazy[index], mapped[index])
        assert list((tmp_path / str(workers) / "decoded").iterdir()) == []


def test_rows_are_a_view_of_some_pictures(tmp_path, files):
    mapped = decoded(files, 16, "mark", tmp_path)
    view = Rows(mapped, np.array([9, 2, 5]))
    assert len(view) == 3
    assert np.array_equal(view[np.array([2, 0])], mapped[[5, 9]])


def test_a_truncated_map_is_made_again(tmp_path, files):
    array = np.array(decoded(files, 16, "mark", tmp_path))
    (path,) = (tmp_path / "decoded").glob("*.npy")
    path.write_bytes(path.read_bytes()[:-100])
    assert np.array_equal(decoded(files, 16, "mark", tmp_path), array)


def test_a_broken_picture_is_named_and_leaves_nothing_behind(tmp_path, files):
    files[2].write_bytes(files[2].read_bytes()[:-40])
    with pytest.raises(UserError, match=rf"{files[2].name} cannot be read: .*truncated"):
        decoded(files, 16, "mark", tmp_path)
    assert [p.name for p in (tmp_path / "decoded").iterdir() if p.suffix != ".lock"] == []


def test_a_picture_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    Image.new("L", (300, 300)).save(tmp_path / "bomb.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(UserError, match=r"bomb\.png cannot be read: it claims to be so large"):
        read_image(tmp_path / "bomb.png", 8)


def _decode(files: list[Path], cache: Path, sums) -> None:
    sums.put(int(np.asarray(decoded(files, 16, "mark", cache, workers=1)).astype(int).sum()))


def test_several_processes_share_one_map(tmp_path, files):
    fork = multiprocessing.get_context("fork")
    sums = fork.Queue()
    running = [fork.Process(target=_decode, args=(files, tmp_path, sums)) for _ in range(4)]
    for process in running:
        process.start()
    found = {sums.get(timeout=60) for _ in running}
    for process in running:
        process.join(60)
    assert found == {np.stack([read_image(f, 16) for f in files]).astype(int).sum()}
    assert len(list((tmp_path / "decoded").glob("*.npy"))) == 1
