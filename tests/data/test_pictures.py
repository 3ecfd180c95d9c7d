"""Generated pictures: every thing in every style, the real layout, and the real loader reading it."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from benchmark.data import fingerprint, load
from benchmark.data.folders import load_tree
from benchmark.data.made import pictures, styles, things
from benchmark.errors import UserError
from benchmark.spec import load_suite, override_settings

DOMAINS = {name: [d.name for d in load_suite(name).domains] for name in ("pacs", "domainnet")}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same trees with three pictures a class."""
    monkeypatch.setattr(pictures, "COUNTS", {"pacs": (2, 1), "domainnet": (2, 1)})


@pytest.mark.parametrize("name", list(things.THINGS))
def test_every_thing_fills_its_place_and_stays_in_the_picture(name: str) -> None:
    for k in range(8):
        parts = things.posed(name, np.random.default_rng(k), 0, (0.7, 0.7))
        points = np.concatenate([p.points for p in parts])
        assert points.min() > -0.1
        assert points.max() < 1.1
        assert 0.55 < np.ptp(points, 0).max() < 0.85


@pytest.mark.parametrize(("reader", "domain"), [(r, d) for r, domains in DOMAINS.items() for d in domains])
def test_every_style_draws_every_thing_of_its_suite(reader: str, domain: str) -> None:
    for name in pictures.CLASSES[reader]:
        picture = np.asarray(pictures.draw(reader, domain, name, 0))
        assert picture.shape == (73, 73, 3)
        assert picture.std() > 8, f"{domain}/{name} is blank"


def test_a_picture_depends_on_nothing_but_its_own_name() -> None:
    first = np.asarray(pictures.draw("pacs", "photo", "dog", 3))
    pictures.draw("pacs", "cartoon", "horse", 0)
    assert np.array_equal(first, np.asarray(pictures.draw("pacs", "photo", "dog", 3)))
    assert not np.array_equal(first, np.asarray(pictures.draw("pacs", "photo", "dog", 4)))


@pytest.mark.parametrize(
    ("domain", "grey"), [("sketch", True), ("quickdraw", True), ("clipart", False), ("real", False)]
)
def test_drawings_have_no_colour_and_the_others_have(domain: str, grey: bool) -> None:
    picture = np.asarray(pictures.draw("domainnet", domain, "fish", 1)).astype(int)
    assert (np.ptp(picture, axis=2).max() == 0) == grey


def test_the_classes_are_classes_of_the_real_suites() -> None:
    assert list(pictures.PACS) == load_suite("pacs").classes
    assert set(pictures.DOMAINNET) <= set(load_suite("domainnet").classes)
    assert set(things.THINGS) == set(pictures.PACS) | set(pictures.DOMAINNET) == set(styles.NATURAL)


@pytest.mark.parametrize("reader", ["pacs", "domainnet"])
def test_the_tree_has_the_real_layout(tmp_path: Path, reader: str) -> None:
    pictures.write(tmp_path, load_suite(reader), ["sketch"], (2, 1))
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.png"))
    assert len(files) == 3 * len(pictures.CLASSES[reader])
    lists = ["splits/sketch_train_kfold.txt", "splits/sketch_crossval_kfold.txt"]
    if reader == "domainnet":
        lists = ["sketch_train.txt", "sketch_test.txt"]
    rows = [line.split(" ") for file in lists for line in (tmp_path / file).read_text().splitlines()]
    assert sorted(name for name, _ in rows) == files
    first = 1 if reader == "pacs" else 0
    for name, label in rows:
        assert pictures.CLASSES[reader][int(label) - first] == name.split("/")[1]


@pytest.mark.parametrize("name", ["pacs", "domainnet"])
def test_the_real_loader_reads_the_generated_tree(few: None, name: str) -> None:
    suite = load_suite(name)
    dataset = load(suite, "mini", "all")
    classes = len(pictures.CLASSES[name])
    assert len(dataset.classes) == classes
    assert dataset.generated == [d.id for d in suite.domains]
    assert "generated pictures" in dataset.note
    assert "not those of the published tables" in dataset.note  # three a class are not
    for domain in dataset.domains.values():
        assert torch.bincount(domain.train.labels).tolist() == [2] * classes
        assert torch.bincount(domain.test.labels).tolist() == [1] * classes
        batch = dataset.preprocess.train(domain.train.take(torch.arange(4)), "cpu", torch.Generator().manual_seed(0))
        side = suite.tier("mini").network.image_size
        assert batch.shape == (4, 3, side, side)
    assert fingerprint(suite, "mini", "all") == dataset.fingerprint


def test_the_other_reading_of_pacs_scores_what_it_adapts_on(few: None) -> None:
    dataset = load(load_suite("pacs"), "mini", "all", options={"reading": "transductive"})
    assert (
        [len(d.test) for d in dataset.domains.values()] == [len(d.train) for d in dataset.domains.values()] == [21] * 4
    )
    assert "adapted on and scored" in dataset.note


def test_what_the_loader_gives_is_what_was_drawn(few: None) -> None:
    suite = load_suite("pacs")
    settings = override_settings(suite.tier("mini"), {"network.image_size": 64})  # crops are drawn from 73 pixels
    dataset = load_tree(suite, settings, "all", pictures.made(suite), None, {"reading": "split"})
    drawn = np.asarray(pictures.draw("pacs", "cartoon", "dog", 0))
    read = dataset.domains["C"].train.take(torch.tensor([0]))[0].permute(1, 2, 0).numpy()
    assert np.array_equal(read, drawn)


def test_pictures_are_drawn_once(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = pictures.made(load_suite("pacs"))

    def never(*_: object) -> None:
        raise AssertionError("drawn again")

    monkeypatch.setattr(pictures, "draw", never)
    assert pictures.made(load_suite("pacs")) == tree


def test_two_processes_that_draw_at_once_leave_one_whole_tree(few: None) -> None:
    suite = load_suite("pacs")
    workers = [multiprocessing.get_context("fork").Process(target=pictures.made, args=(suite,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [w.exitcode for w in workers] == [0, 0]
    tree = pictures.made(suite)
    assert len([p for p in tree.rglob("*.*g") if p.suffix != ".txt"]) == 4 * 7 * 3
    assert [p.name for p in tree.parent.parent.iterdir()] == [tree.parent.name]


def test_a_full_disk_is_said_in_a_sentence_and_leaves_nothing(
    few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    with pytest.raises(UserError, match="No space left on device"):
        pictures.made(load_suite("pacs"), tmp_path)
    assert list((tmp_path / "cache").iterdir()) == []
