"""`data check`: every fault with its file, all at once."""

from __future__ import annotations

import numpy as np
import pytest

from benchmark import data
from benchmark.data import digits
from benchmark.data.get.check import check, published
from benchmark.errors import UserError
from benchmark.spec import load_suite

DIGITS_SUITE, PACS_SUITE, DOMAINNET_SUITE = load_suite("digits"), load_suite("pacs"), load_suite("domainnet")


def said(report) -> dict[str, list[str]]:
    """Faults by the name of the file."""
    found: dict[str, list[str]] = {}
    for fault in report.faults:
        found.setdefault(fault.file.rpartition("/")[2], []).append(fault.fault)
    return found


def test_sound_digits_pass_with_counts_and_fingerprint(tmp_path, write_digits):
    report = check(DIGITS_SUITE, write_digits(tmp_path))
    assert report.ok
    assert {(d.id, d.train, d.test) for d in report.domains} == {(i, 40, 20) for i in ("mt", "mm", "up", "sv", "syn")}
    assert len(report.fingerprint) == 16


def test_every_broken_digit_file_is_named_with_its_fault_at_once(tmp_path, write_digits):
    root = write_digits(tmp_path)
    folder = root / "digits"
    (folder / "mnist.npz").unlink()
    for name, change in {
        "svhn": {"y_train": (np.arange(40) % 10 + 1).astype(np.uint8)},
        "mnistm": {"x_train": np.zeros((40, 32, 32, 3), np.float64), "y_test": np.zeros(19, np.uint8)},
        "usps": {"x_train": np.array([{}, {}], dtype=object)},
    }.items():
        with np.load(folder / f"{name}.npz") as stored:
            np.savez(folder / f"{name}.npz", **{**stored, **change})
    (folder / "syn.npz").write_bytes((folder / "syn.npz").read_bytes()[:1000])
    found = said(check(DIGITS_SUITE, root))
    assert found["mnist.npz"] == ["the file is not there"]
    assert "labels 1–10, not 0–9" in found["svhn.npz"][0]
    assert "x_train is float64, not uint8" in found["mnistm.npz"][0]
    assert "x_test has 20 images but y_test 19 labels" in found["mnistm.npz"][1]
    assert "Python objects" in found["usps.npz"][0]
    assert "damaged" in found["syn.npz"][0]


def test_a_class_without_images_is_a_fault(tmp_path, write_digits):
    report = check(DIGITS_SUITE, write_digits(tmp_path, test=8))
    assert said(report)["usps.npz"] == ["y_test has no image of the class 8, 9"]


def test_a_missing_syn_is_no_fault(tmp_path, write_digits, monkeypatch):
    monkeypatch.setattr(digits, "GENERATED", {"lite": (20, 10)})
    report = check(DIGITS_SUITE, write_digits(tmp_path, names=("mnist", "mnistm", "usps", "svhn")))
    assert not [f for f in report.faults if "syn" in f.file]
    assert next(d for d in report.domains if d.id == "syn").note.endswith("syn*")


def test_every_fault_of_pacs_is_named_at_once(tmp_path, write_pictures):
    tree = write_pictures(tmp_path / "PACS", domains=("art_painting", "cartoon", "photo"))
    broken = tree / "photo" / "dog" / "pic_01.jpg"
    broken.write_bytes(broken.read_bytes()[:-60])
    (tree / "photo" / "horse" / "pic_00.jpg").write_bytes(b"no picture")
    for file in (tree / "cartoon" / "guitar").iterdir():
        file.unlink()
    (tree / "art_painting" / "Dog").mkdir()
    (tree / "splits").mkdir()
    (tree / "splits" / "photo_train_kfold.txt").write_text("photo/dog/gone.jpg 1\nphoto/dog/pic_00.jpg 2\n")
    (tree / "splits" / "photo_crossval_kfold.txt").write_text("photo/dog/pic_00.jpg 9\n")
    report = check(PACS_SUITE, tmp_path)
    found = said(report)
    assert found["sketch"] == ["the folder of this domain is not there"]
    assert "cannot be decoded" in found["pic_01.jpg"][0]
    assert "not a picture" in found["pic_00.jpg"][0]
    assert found["guitar"] == ["this class has no pictures"]
    assert found["Dog"] == ["this folder is none of the classes"]
    assert found["photo_train_kfold.txt"] == [
        "line 1: names photo/dog/gone.jpg, which is not there",
        "line 2: photo/dog/pic_00.jpg has the label of elephant, not of dog",
    ]
    assert "the label 8 is not in 0–6" in found["photo_crossval_kfold.txt"][0]
    assert not report.ok
    assert report.fingerprint == ""


def test_quick_leaves_the_decoding_out(tmp_path, write_pictures):
    tree = write_pictures(tmp_path / "PACS")
    (tree / "photo" / "dog" / "pic_00.jpg").write_bytes(b"no picture")
    assert check(PACS_SUITE, tmp_path, quick=True).ok
    assert not check(PACS_SUITE, tmp_path).ok


def test_every_fault_of_domainnet_is_named_at_once(tmp_path, write_pictures):
    styles, classes = tuple(d.name for d in DOMAINNET_SUITE.domains), tuple(DOMAINNET_SUITE.classes[:2])
    tree = write_pictures(tmp_path / "DomainNet", styles[:-1], classes, each=2)
    for style in styles:
        (tree / f"{style}_train.txt").write_text(
            "".join(f"{style}/{c}/pic_00.jpg {k}\n" for k, c in enumerate(classes))
        )
        (tree / f"{style}_test.txt").write_text("".join(f"{style}/{c}/pic_01.jpg {k}\n" for k, c in enumerate(classes)))
    (tree / "quickdraw_test.txt").unlink()
    with (tree / "clipart_test.txt").open("a") as file:
        file.write(f"clipart/{classes[0]}/none.jpg 0\n")
    (tree / "real_test.txt").write_text("")
    (tree / "infograph_train.txt").write_text("one two three\n")
    found = said(check(DOMAINNET_SUITE, tmp_path))
    assert found["sketch"] == ["the folder of this domain is not there"]
    assert "is not there" in found["quickdraw_train.txt"][0]
    assert found["clipart_test.txt"] == [f"line 3: names clipart/{classes[0]}/none.jpg, which is not there"]
    assert found["real_test.txt"] == ["the list is empty"]
    assert "expected 'name label'" in found["infograph_train.txt"][0]


def test_a_missing_folder_is_one_fault_and_says_how_to_get_it(tmp_path):
    report = check(PACS_SUITE, tmp_path)
    assert [(f.file, f.fault) for f in report.faults] == [(str(tmp_path / "PACS"), "the folder is not there")]
    assert report.next == f"To get them: python -m benchmark data fetch --suite pacs --data-root {tmp_path}"


@pytest.mark.parametrize(("options", "sizes"), [({}, (70, 70)), ({"reading": "split"}, (63, 7))])
def test_counts_and_fingerprint_are_those_of_a_run(tmp_path, write_pictures, options, sizes):
    write_pictures(tmp_path / "PACS", each=10)
    report = check(PACS_SUITE, tmp_path, options)
    assert {(d.train, d.test) for d in report.domains} == {sizes}
    assert report.fingerprint == data.fingerprint(PACS_SUITE, "lite", "all", tmp_path, options)
    assert ("held-out" in report.reading) == bool(options)


def test_a_part_of_a_published_set_is_sound_and_not_called_whole(tmp_path, write_pictures):
    write_pictures(tmp_path / "PACS", each=2)
    report = check(PACS_SUITE, tmp_path)
    assert report.ok
    assert report.unlike == ["A 14 of 2,048", "C 14 of 2,344", "S 14 of 3,929", "P 14 of 1,670"]
    said = report.words("all", quick=False)
    assert said.startswith("Every picture is sound, but the counts are not the published ones: A 14 of 2,048, C")
    assert "All is well" not in said
    assert report.words("all", quick=True).startswith("Nothing is wrong, but")


def test_lists_are_counted_together_where_the_published_count_is_of_both(tmp_path, write_pictures):
    styles, classes = tuple(d.name for d in DOMAINNET_SUITE.domains), tuple(DOMAINNET_SUITE.classes)
    tree = write_pictures(tmp_path / "DomainNet", styles, classes, each=1, size=(8, 8))
    for style in styles:
        lines = [f"{style}/{c}/pic_00.jpg {k}\n" for k, c in enumerate(classes)]
        (tree / f"{style}_train.txt").write_text("".join(lines))
        (tree / f"{style}_test.txt").write_text("".join(lines[:5]))
    report = check(DOMAINNET_SUITE, tmp_path, {"lists": "original"})
    assert report.ok, report.faults
    assert report.unlike[:2] == ["clp 350 of 48,837", "inf 345 / 5 of 36,023 / 15,582"]


def test_weights_of_a_tier_that_are_not_there_are_a_fault(tmp_path, write_pictures, monkeypatch):
    write_pictures(tmp_path / "PACS")

    def missing(*_: object) -> str:
        raise UserError("The suite's network starts from weights that are not there.")

    monkeypatch.setattr("benchmark.data.get.check.fingerprint", missing)
    assert said(check(PACS_SUITE, tmp_path))["PACS"] == ["The suite's network starts from weights that are not there."]


@pytest.mark.parametrize(
    ("domain", "total"), [("art_painting", 2048), ("cartoon", 2344), ("photo", 1670), ("sketch", 3929)]
)
def test_the_published_class_counts_add_up_to_the_published_totals(domain, total):
    assert published(PACS_SUITE, domain) == total


def test_the_published_domainnet_counts_add_up():
    totals = {name: sum(parts) for name, parts in DOMAINNET_SUITE.folders.readings[0].counts.items()}
    assert totals == {
        "clipart": 48_129,
        "infograph": 51_605,
        "painting": 72_266,
        "quickdraw": 172_500,
        "real": 172_947,
        "sketch": 69_128,
    }
