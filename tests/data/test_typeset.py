"""Rendered numbers: labels, type faces, the properties that a style varies."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from benchmark.data.made import fonts, typeset
from benchmark.data.made.typeset import STREET, TYPE, render
from benchmark.errors import UserError


def test_training_and_test_faces_share_no_family_and_no_file() -> None:
    train, test = fonts.families("train"), fonts.families("test")
    assert not set(train) & set(test)
    assert not {f for files in train.values() for f in files} & {f for files in test.values() for f in files}


@pytest.mark.parametrize("part", ["train", "test"])
def test_every_face_has_ten_different_digits(part: str) -> None:
    for files in fonts.families(part).values():
        for file in files:
            glyphs = {bytes(fonts.face(file, 24).getmask(str(d))) for d in range(10)}
            assert len(glyphs) == 10, file.name


def test_a_missing_face_is_said_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "TEST", {"Nowhere Sans": ("font_nowhere", "files", "*.ttf")})
    fonts.families.cache_clear()
    with pytest.raises(UserError, match=r"Nowhere Sans is not installed\. Type: pip install font-nowhere"):
        fonts.families("test")
    fonts.families.cache_clear()


def test_images_are_rgb_of_32_pixels_with_ten_equal_classes() -> None:
    images, labels = render(TYPE, "train", 50)
    assert images.shape == (50, 3, 32, 32)
    assert images.dtype == np.uint8
    assert np.bincount(labels).tolist() == [5] * 10


def test_the_same_request_gives_the_same_images_whatever_was_made_before() -> None:
    first = render(STREET, "test", 20)
    render(TYPE, "train", 10)
    again = render(STREET, "test", 20)
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])


def test_parts_and_styles_differ() -> None:
    made = [render(style, part, 10)[0] for style in (TYPE, STREET) for part in ("train", "test")]
    assert len({m.tobytes() for m in made}) == 4


def test_every_image_of_every_chunk_is_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typeset, "CHUNK", 7)
    images, _ = render(TYPE, "train", 20)
    assert float(images.reshape(20, -1).std(1).min()) > 1


def test_type_is_colourful_and_house_numbers_are_not() -> None:
    def colourfulness(images: np.ndarray) -> float:
        return float((images.max(1).astype(int) - images.min(1)).mean())

    assert colourfulness(render(TYPE, "train", 100)[0]) > 2 * colourfulness(render(STREET, "train", 100)[0])


def _still(**changes: object) -> typeset.Style:
    """A style without chance, to change one property at a time."""
    plain = typeset.Style(
        "still", height=(20, 20), aspect=(1, 1), rotation=0, shear=0, offset=0, neighbours=0, spacing=(1, 1), outline=0,
        shadow=0, contrast=(150, 150), colour=0, warmth=0, gradient=0, clutter=0, edge=0, blur=(0, 0), noise=(0, 0),
    )  # fmt: skip
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def _ink(images: np.ndarray) -> np.ndarray:
    """Distance of each pixel from the colour of the picture's corner, (n, 32, 32)."""
    grey = images.astype(int).sum(1)
    return np.abs(grey - grey[:, :1, :1])


def test_neighbours_stand_at_the_sides() -> None:
    alone, among = (_ink(render(_still(neighbours=p), "train", 60)[0]) for p in (0.0, 1.0))
    sides = np.r_[0:4, 28:32]
    assert alone[:, 8:24, sides].mean() < 0.2 * among[:, 8:24, sides].mean()


def test_the_labelled_digit_stands_in_the_middle() -> None:
    ink = _ink(render(_still(), "train", 60)[0]).astype(float)
    for axis in (1, 2):
        weight = ink.sum(axis)
        centre = (weight * np.arange(32)).sum(1) / weight.sum(1)
        assert np.abs(centre - 15.5).max() < 4


def test_height_contrast_and_colour_are_what_the_style_says() -> None:
    small, large = (_ink(render(_still(height=(h, h)), "train", 40)[0]) > 100 for h in (10, 24))
    assert abs(np.median(small.any(2).sum(1)) - 10) <= 1
    assert abs(np.median(large.any(2).sum(1)) - 24) <= 1
    faint = _ink(render(_still(contrast=(40, 40)), "train", 40)[0]).max((1, 2)) / 3
    assert np.median(faint) == 40  # a thin face may not cover any pixel wholly
    assert faint.max() <= 41
    grey = render(_still(), "train", 10)[0]
    assert np.array_equal(grey[:, 0], grey[:, 2])


@pytest.mark.parametrize(
    "change",
    [
        {"rotation": 30}, {"shear": 0.3}, {"offset": 4}, {"aspect": (0.6, 0.7)}, {"outline": 1}, {"shadow": 1},
        {"colour": 60}, {"warmth": 40}, {"gradient": 60}, {"clutter": 30}, {"edge": 1}, {"blur": (1, 2)}, {"noise": (5, 9)},
        {"spacing": (1.5, 1.5), "neighbours": 1},
    ],
    ids=lambda c: next(iter(c)),
)  # fmt: skip
def test_each_property_of_a_style_changes_the_picture(change: dict[str, object]) -> None:
    base = {k: v for k, v in change.items() if k == "neighbours"}
    assert not np.array_equal(render(_still(**change), "train", 10)[0], render(_still(**base), "train", 10)[0])


def test_blur_kernels_keep_brightness_and_none_is_none() -> None:
    assert all(typeset._kernel(s).sum() == 256 for s in (0.0, 0.3, 0.8, 1.5))
    assert typeset._kernel(0.0).tolist() == [0, 0, 0, 256, 0, 0, 0]


def test_syn_is_written_once_in_the_prepared_form(tmp_path: Path) -> None:
    file = typeset.syn_file(tmp_path, train=40, test=20)
    assert file.parent == tmp_path / "cache"
    with np.load(file, allow_pickle=False) as arrays:
        assert arrays["x_train"].shape == (40, 32, 32, 3)
        assert arrays["x_test"].shape == (20, 32, 32, 3)
        assert arrays["x_train"].dtype == np.uint8
        assert np.bincount(arrays["y_test"]).tolist() == [2] * 10
        assert np.array_equal(arrays["x_train"].transpose(0, 3, 1, 2), render(TYPE, "train", 40)[0])
    before = file.stat().st_mtime_ns
    assert typeset.syn_file(tmp_path, train=40, test=20) == file
    assert file.stat().st_mtime_ns == before
