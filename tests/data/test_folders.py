"""PACS and DomainNet from folders and lists."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmark import data
from benchmark.data import base
from benchmark.data.decoded import read_image
from benchmark.data.folders import load_tree
from benchmark.errors import UserError
from benchmark.spec import load_suite
from tests import needs

PACS, DOMAINNET = load_suite("pacs"), load_suite("domainnet")
CLASSES = tuple(DOMAINNET.classes)
STYLES = tuple(d.name for d in DOMAINNET.domains)


@pytest.fixture
def pacs(tmp_path, write_pictures) -> Path:
    write_pictures(tmp_path / "PACS", each=10)
    return tmp_path


def write_lists(tree: Path, classes: tuple[str, ...], each: int, folder: str = "", train: int = 2) -> None:
    """Official-style lists beside the domains: the first `train` pictures of each class train, the others test."""
    (tree / folder).mkdir(exist_ok=True)
    for style in STYLES:
        for part, numbers in (("train", range(train)), ("test", range(train, each))):
            lines = [f"{style}/{name}/pic_{i:02}.jpg {label}" for label, name in enumerate(classes) for i in numbers]
            (tree / folder / f"{style}_{part}.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def domainnet(tmp_path, write_pictures) -> Path:
    """The whole tree of 345 classes would be 2,070 folders: the first five classes stand in the lists."""
    write_pictures(tmp_path / "DomainNet", STYLES, CLASSES[:5], each=4)
    write_lists(tmp_path / "DomainNet", CLASSES[:5], each=4)
    return tmp_path


def test_transductive_pacs_adapts_on_and_scores_all_images(pacs):
    found = data.load(PACS, "lite", "all", pacs)
    target = found.domains["S"]
    assert len(target.train) == len(target.test) == 70
    assert torch.equal(target.train.take(torch.arange(70)), target.test.take(torch.arange(70)))
    assert "transductive" in found.note


def test_labels_follow_the_class_folders_and_pixels_the_files(pacs):
    found = data.load(PACS, "lite", "all", pacs).domains["P"].train
    stored = found.take(torch.tensor([0])).shape[-1]
    assert found.labels.tolist() == [label for label in range(7) for _ in range(10)]
    wanted = read_image(pacs / "PACS" / "photo" / "giraffe" / "pic_04.jpg", stored)
    assert np.array_equal(found.take(torch.tensor([24]))[0].numpy(), wanted)


def test_split_reading_holds_out_a_seeded_tenth_of_every_class(pacs):
    found = data.load(PACS, "lite", "all", pacs, {"reading": "split"})
    for domain in found.domains.values():
        assert domain.test.labels.tolist() == list(range(7))
        assert len(domain.train) == 63
        everything = torch.cat([domain.train.take(torch.arange(63)), domain.test.take(torch.arange(7))])
        assert len(torch.unique(everything.flatten(1), dim=0)) == 70, "a picture is in both parts"
    again = data.load(PACS, "lite", "all", pacs, {"reading": "split"})
    assert torch.equal(again.domains["A"].test.take(torch.arange(7)), found.domains["A"].test.take(torch.arange(7)))
    assert "seeded tenth" in found.note


def test_split_reading_prefers_the_official_lists_whose_labels_start_at_one(pacs):
    splits = pacs / "PACS" / "splits"
    splits.mkdir()
    for d in PACS.domains:
        names = [f"{d.name}/{c}/pic_{i:02}.jpg {label}" for label, c in enumerate(PACS.classes, 1) for i in range(10)]
        (splits / f"{d.name}_train_kfold.txt").write_text("\n".join(names[:-3]))
        (splits / f"{d.name}_crossval_kfold.txt").write_text("\n".join(names[-3:]))
        (splits / f"{d.name}_test_kfold.txt").write_text("\n".join(names))
    found = data.load(PACS, "lite", "all", pacs, {"reading": "split"})
    assert found.domains["C"].test.labels.tolist() == [6, 6, 6]
    assert len(found.domains["C"].train) == 67
    assert "official k-fold lists" in found.note


def test_the_two_readings_are_different_data(pacs):
    marks = {data.fingerprint(PACS, "lite", "all", pacs, {"reading": r}) for r in ("transductive", "split")}
    assert len(marks) == 2


def test_an_unknown_reading_or_option_is_refused_with_what_is_allowed(pacs):
    with pytest.raises(UserError, match="Allowed: transductive, split"):
        data.load(PACS, "lite", "all", pacs, {"reading": "official"})
    with pytest.raises(UserError, match=r"no data option of pacs 'lists'.*Allowed: reading"):
        data.load(PACS, "lite", "all", pacs, {"lists": "cleaned"})


def test_a_class_without_pictures_is_an_error_that_names_it(pacs):
    for file in (pacs / "PACS" / "cartoon" / "house").iterdir():
        file.unlink()
    with pytest.raises(UserError, match=r"cartoon has no picture of house.*data check --suite pacs"):
        data.load(PACS, "lite", "all", pacs)


def test_hidden_files_and_texts_are_not_pictures(pacs):
    (pacs / "PACS" / "photo" / "dog" / "._pic_00.jpg").write_bytes(b"resource fork")
    (pacs / "PACS" / "photo" / "dog" / "notes.txt").write_text("x")
    assert len(data.load(PACS, "lite", "all", pacs).domains["P"].train) == 70


def test_domainnet_trains_on_the_train_list_and_scores_the_test_list(domainnet):
    found = data.load(DOMAINNET, "lite", "all", domainnet)
    domain = found.domains["qdr"]
    assert (len(domain.train), len(domain.test)) == (10, 10)
    size = domain.train.take(torch.tensor([0])).shape[-1]
    wanted = read_image(domainnet / "DomainNet" / "quickdraw" / CLASSES[1] / "pic_01.jpg", size)
    assert np.array_equal(domain.train.take(torch.tensor([3]))[0].numpy(), wanted)
    assert domain.train.labels[3] == 1


def test_cleaned_and_original_lists_are_two_choices(domainnet):
    write_lists(domainnet / "DomainNet", CLASSES[:5], each=4, folder="cleaned", train=3)
    cleaned = data.load(DOMAINNET, "lite", "all", domainnet)
    original = data.load(DOMAINNET, "lite", "all", domainnet, {"lists": "original"})
    assert (len(cleaned.domains["clp"].train), len(original.domains["clp"].train)) == (15, 10)
    assert "cleaned lists" in cleaned.note
    assert "original lists" in original.note
    assert cleaned.fingerprint != original.fingerprint


def test_split_part_caps_a_large_domain(domainnet, monkeypatch):
    monkeypatch.setattr(base, "PART", {"train": 6, "test": 4})
    found = data.load(DOMAINNET, "lite", "part", domainnet)
    assert (len(found.domains["rel"].train), len(found.domains["rel"].test)) == (6, 4)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("clipart/airplane/none.jpg 1", "none.jpg"),
        ("clipart/airplane/pic_00.jpg 345", "345 classes, 0–344"),
        ("clipart/airplane/pic_00.jpg", "expected 'name label'"),
        ("../../etc/passwd 1", "leads out of the data folder"),
        ("/etc/passwd 1", "leads out of the data folder"),
    ],
)
def test_a_bad_line_of_a_list_is_named(domainnet, line, words):
    with (domainnet / "DomainNet" / "clipart_test.txt").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(UserError, match=words):
        data.load(DOMAINNET, "lite", "all", domainnet)


def test_missing_lists_say_what_to_type(domainnet):
    (domainnet / "DomainNet" / "real_test.txt").unlink()
    with pytest.raises(UserError, match=r"real_train\.txt and real_test\.txt.*data fetch --suite domainnet"):
        data.load(DOMAINNET, "lite", "all", domainnet)


def test_all_345_classes_have_a_label_of_their_own(tmp_path, write_pictures):
    tree = write_pictures(tmp_path / "DomainNet", STYLES[:1], CLASSES, each=1, size=(8, 8))
    write_pictures(tree, STYLES[1:], CLASSES[:1], each=2)
    write_lists(tree, CLASSES[:1], each=2, train=1)
    lines = [f"clipart/{name}/pic_00.jpg {label}" for label, name in enumerate(CLASSES)]
    (tree / "clipart_train.txt").write_text("\n".join(lines))
    (tree / "clipart_test.txt").write_text(lines[-1])
    found = data.load(DOMAINNET, "lite", "all", tmp_path)
    assert found.domains["clp"].train.labels.tolist() == list(range(345))
    assert found.domains["clp"].test.labels.tolist() == [344]
    assert len(found.classes) == 345


def test_a_tree_of_other_classes_is_read_by_the_same_loader(tmp_path, write_pictures):
    tree = write_pictures(tmp_path / "made", STYLES, ("box", "ring"), each=3)
    write_lists(tree, ("box", "ring"), each=3)
    found = load_tree(
        DOMAINNET,
        DOMAINNET.tier("mini"),
        "all",
        tree,
        tmp_path,
        {},
        classes=("box", "ring"),
        note="made",
        generated=True,
    )
    assert list(found.classes) == ["box", "ring"]
    assert found.generated == [d.id for d in DOMAINNET.domains]


def test_fingerprint_follows_contents_not_the_place(tmp_path, write_pictures):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_pictures(tmp_path / name / "PACS", seed=seed)
    marks = [data.fingerprint(PACS, "lite", "all", tmp_path / name) for name in "abc"]
    assert marks[0] == marks[1]
    assert marks[0] != marks[2]
    (tmp_path / "b" / "PACS" / "photo" / "dog" / "pic_00.jpg").rename(
        tmp_path / "b" / "PACS" / "photo" / "dog" / "z.jpg"
    )
    assert data.fingerprint(PACS, "lite", "all", tmp_path / "b") != marks[0]


@pytest.mark.realdata
@needs.images
def test_the_real_pacs_loads():
    found = data.load(PACS, "lite", "all", Path(os.environ["BENCHMARK_DATA_ROOT"]))
    for domain in found.domains.values():
        assert len(domain.train.labels.unique()) == 7
        pictures = domain.train.take(torch.arange(16))
        assert len(torch.unique(pictures.flatten(1), dim=0)) == 16
        assert pictures.float().std() > 5  # sketches are mostly white
