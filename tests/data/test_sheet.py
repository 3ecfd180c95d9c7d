"""The contact sheet: what is on it, what is kept off it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from benchmark.data.base import Dataset, Domain, ImageSet, Preprocess
from benchmark.data.sheet import sheet
from benchmark.errors import UserError

RED, BLUE = (255, 0, 0), (0, 0, 255)


def plain(colour: tuple[int, int, int], classes: int = 3, each: int = 5, side: int = 32) -> ImageSet:
    images = torch.tensor(colour, dtype=torch.uint8).view(1, 3, 1, 1).expand(classes * each, 3, side, side).clone()
    return ImageSet(images, torch.arange(classes * each) % classes)


def two_domains(**sizes: int) -> Dataset:
    red, blue = plain(RED, **sizes), plain(BLUE, **sizes)
    domains = {"mt": Domain("mt", "Real", red, red), "syn": Domain("syn", "Made", blue, blue, generated=True)}
    names = [f"class {k}" for k in range(sizes.get("classes", 3))]
    return Dataset(domains, "0123456789abcdef", "a note", Preprocess(), names)


def count(path: Path, colour: tuple[int, int, int]) -> int:
    with Image.open(path) as page:
        assert page.format == "PNG"
        return int((np.asarray(page.convert("RGB")) == colour).all(-1).sum())


def test_every_domain_shows_as_many_images_of_each_class_as_asked(tmp_path: Path) -> None:
    path = sheet(two_domains(), tmp_path / "new" / "sheet.png", per_class=4)
    assert count(path, RED) == count(path, BLUE) == 3 * 4 * 64 * 64


def test_a_class_with_few_images_leaves_its_places_empty(tmp_path: Path) -> None:
    path = sheet(two_domains(), tmp_path / "s.png", per_class=9)
    assert count(path, RED) == 3 * 5 * 64 * 64


def test_published_sheets_show_generated_domains_only(tmp_path: Path) -> None:
    path = sheet(two_domains(), tmp_path / "s.png", generated_only=True)
    assert count(path, RED) == 0
    assert count(path, BLUE) > 0


def test_real_data_alone_gives_no_sheet_to_publish(tmp_path: Path) -> None:
    dataset = two_domains()
    del dataset.domains["syn"]
    with pytest.raises(UserError, match="not for publishing"):
        sheet(dataset, tmp_path / "s.png", generated_only=True)
    assert not (tmp_path / "s.png").exists()


def test_of_many_classes_a_few_are_shown(tmp_path: Path) -> None:
    path = sheet(two_domains(classes=345, each=1, side=8), tmp_path / "s.png", per_class=1, max_classes=6, tile=16)
    assert count(path, RED) == 6 * 16 * 16


def test_activations_are_refused_in_a_sentence(tmp_path: Path) -> None:
    maps = ImageSet(torch.zeros(4, 16, 7, 7, dtype=torch.float16), torch.arange(4))
    dataset = Dataset({"P": Domain("P", "Photo", maps, maps)}, "f", "n", Preprocess(), ["a"] * 4)
    with pytest.raises(UserError, match="not pictures"):
        sheet(dataset, tmp_path / "s.png")


def test_a_title_makes_the_page_higher_and_the_same_data_the_same_page(tmp_path: Path) -> None:
    a, b = (sheet(two_domains(), tmp_path / f"{k}.png") for k in "ab")
    titled = sheet(two_domains(), tmp_path / "c.png", title="Mini digits")
    assert a.read_bytes() == b.read_bytes()
    assert Image.open(titled).height > Image.open(a).height


def test_blocks_share_the_rows_evenly(tmp_path: Path) -> None:
    red = plain(RED)
    domains = {str(k): Domain(str(k), "Domain", red, red) for k in range(5)}
    path = sheet(Dataset(domains, "f", "n", Preprocess(), ["a", "b", "c"]), tmp_path / "s.png", per_class=5)
    with Image.open(path) as page:
        page_pixels = np.asarray(page.convert("RGB"))
    first = (page_pixels[: page.height // 2] == RED).all(-1).sum()
    assert first == 3 * 3 * 5 * 64 * 64  # three of the five, though four would fit
