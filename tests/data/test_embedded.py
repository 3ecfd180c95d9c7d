"""The five mini digit domains: what they are made of, that nothing is shared, and the cache."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmark.data import fingerprint, load
from benchmark.data.base import Dataset
from benchmark.data.made import embedded
from benchmark.spec import load_suite

SUITE = load_suite("digits")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same recipe for fewer images."""
    monkeypatch.setattr(embedded, "TRAIN", 60)
    monkeypatch.setattr(embedded, "TEST", 20)


@pytest.fixture
def dataset(few: None) -> Dataset:
    return load(SUITE, "mini", "part")


def cached(tmp_path: Path) -> Path:
    """The one .npz of this test's cache (its folder is set in conftest.py)."""
    return next((tmp_path / "home-cache").rglob("mini-digits-*.npz"))


def test_there_are_five_domains_of_rgb_digits_of_32_pixels(dataset: Dataset) -> None:
    assert list(dataset.domains) == [d.id for d in SUITE.domains]
    for domain in dataset.domains.values():
        for part in (domain.train, domain.test):
            assert part.images.shape[1:] == (3, 32, 32)  # type: ignore[union-attr]
            assert part.images.dtype == torch.uint8  # type: ignore[union-attr]
            assert set(part.labels.tolist()) == set(range(10))


def test_the_full_sizes_are_those_of_the_tier() -> None:
    images, labels = embedded.mnist("train")
    assert len(images) == len(labels) == 2000
    assert [len(embedded.scans(part)[1]) for part in ("train", "test")] == [1437, 360]


def test_no_mnist_digit_is_used_twice() -> None:
    used = [{d.tobytes() for d in embedded._mnist_half(half, part)[0]} for half in (0, 1) for part in ("train", "test")]
    assert [len(u) for u in used] == [2000, 500, 2000, 500]
    assert not any(a & b for a, b in itertools.combinations(used, 2))


def test_no_scan_is_in_both_parts() -> None:
    train, test = ({i.tobytes() for i in embedded.scans(part)[0]} for part in ("train", "test"))
    assert not train & test


def test_the_photographs_are_divided_between_train_and_test() -> None:
    from sklearn.datasets import load_sample_image

    whole = load_sample_image("china.jpg")
    train, test = (embedded.photograph_parts(part)[0] for part in ("train", "test"))
    assert np.array_equal(np.concatenate([train, test], axis=1), whole)


def test_a_digit_inverts_the_photograph_behind_it_and_only_there() -> None:
    patches = np.array([[[[10, 100, 250]] * 2]], np.uint8)
    digits = np.array([[[0, 3]]], np.uint8)
    assert embedded.inverted(patches, digits).tolist() == [[[[10, 100, 250], [245, 155, 5]]]]


def test_the_liveliest_patch_is_the_one_with_most_contrast() -> None:
    flat = np.full((28, 28, 3), 90, np.uint8)
    striped = flat.copy()
    striped[::2] = 120
    assert embedded.liveliness(flat) == 0
    assert max((flat, striped), key=embedded.liveliness) is striped


def test_rendered_domains_are_marked_and_real_ones_are_not(dataset: Dataset) -> None:
    assert dataset.generated == ["sv", "syn"]


def test_grey_domains_are_grey_and_the_others_are_not(dataset: Dataset) -> None:
    for id, domain in dataset.domains.items():
        images = domain.train.take(torch.arange(20))
        assert torch.equal(images[:, 0], images[:, 2]) == (id in ("mt", "up"))


def test_made_twice_the_images_are_the_same(few: None, tmp_path: Path) -> None:
    marks = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        marks.append(fingerprint(SUITE, "mini", "part", tmp_path / name))
    assert marks[0] == marks[1]


def test_the_fingerprint_is_of_the_images_that_load_gives(dataset: Dataset, tmp_path: Path) -> None:
    assert dataset.fingerprint == fingerprint(SUITE, "mini", "all")
    with np.load(cached(tmp_path), allow_pickle=False) as file:
        arrays = dict(file)
    assert embedded.digest(sorted(arrays.items())) == dataset.fingerprint
    arrays["mt_train_labels"][0] += 1
    assert embedded.digest(sorted(arrays.items())) != dataset.fingerprint


def test_the_second_call_reads_what_the_first_has_made(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "MAKERS", {})  # nothing could be made now
    again = load(SUITE, "mini", "part")
    for id, domain in dataset.domains.items():
        everything = torch.arange(len(domain.train))
        assert torch.equal(again.domains[id].train.take(everything), domain.train.take(everything))


@pytest.mark.parametrize("damage", ["cut", "changed", "no mark"])
def test_a_damaged_cache_is_made_again(dataset: Dataset, tmp_path: Path, damage: str) -> None:
    path = cached(tmp_path)
    content = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "changed":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    else:
        path.with_suffix(".json").unlink()
    again = load(SUITE, "mini", "part")
    assert again.fingerprint == dataset.fingerprint
    assert torch.equal(again.domains["mm"].test.labels, dataset.domains["mm"].test.labels)


def test_images_that_no_published_table_rests_on_are_said_to_be_so(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "not those of the published tables" in dataset.note
    monkeypatch.setattr(embedded, "KNOWN", (dataset.fingerprint,))
    assert "published" not in load(SUITE, "mini", "part").note
