"""Suites of the field that are files only: their facts, the layouts in which they come, and what `data check` says of them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmark import data
from benchmark.data.get.check import check
from benchmark.data.get.prepare import prepare
from benchmark.data.get.sources import manual, sources, things
from benchmark.errors import UserError
from benchmark.spec import load_suite

FACTS = {  # classes, pictures by domain, as the data sets' own papers print them
    "office-31": (31, {"amazon": 2817, "dslr": 498, "webcam": 795}),
    "office-caltech10": (10, {"amazon": 958, "caltech": 1123, "dslr": 157, "webcam": 295}),
    "office-home": (65, {"Art": 2427, "Clipart": 4365, "Product": 4439, "Real World": 4357}),
    "image-clef": (12, {"b": 600, "c": 600, "i": 600, "p": 600}),
}


def picture(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (20, 24, 3), dtype=np.uint8)).save(out, "JPEG")
    path.write_bytes(out.getvalue())


@pytest.mark.parametrize("name", FACTS)
def test_classes_domains_and_counts_are_those_of_the_data_set(name: str) -> None:
    suite, (classes, domains) = load_suite(name), FACTS[name]
    assert len(suite.classes) == classes
    assert {d.name: d.images for d in suite.domains} == domains
    assert [t.value for t in suite.tiers] == ["mini", "lite", "paper"]


@pytest.mark.parametrize("name", FACTS)
def test_where_to_get_them_is_known_for_every_domain_and_marked_as_read(name: str, tmp_path: Path) -> None:
    found = sources(name)
    by_hand = name == "image-clef"  # its pictures lie where no program may fetch them
    assert ({t.name for t in things(found)} >= {*FACTS[name][1]}) is not by_hand
    assert load_suite(name).tier("paper").network.name in {t.name for t in things(found)}
    assert bool(manual(name, tmp_path)) or not by_hand
    assert not any(s.confirmed for s in found)


@pytest.mark.parametrize("name", FACTS)
def test_check_says_what_is_missing(name: str, tmp_path: Path) -> None:
    suite = load_suite(name)
    (fault,) = check(suite, tmp_path).faults
    assert (fault.file, fault.fault) == (str(tmp_path / name), "the folder is not there")
    (tmp_path / name / suite.domains[0].name).mkdir(parents=True)
    faults = [f.fault for f in check(suite, tmp_path).faults]
    assert faults.count("the folder of this domain is not there") == len(suite.domains) - 1
    with pytest.raises(UserError, match=r"data (check|fetch) --suite"):
        data.load(suite, "lite", "all", tmp_path)


@pytest.mark.parametrize(
    ("name", "layout"), [("office-31", "{domain}/images/{kind}"), ("office-home", "OfficeHome/{domain}/{kind}")]
)
def test_the_layouts_of_others_are_prepared_and_load(name: str, layout: str, tmp_path: Path) -> None:
    suite = load_suite(name)
    for n, domain in enumerate(suite.domains):
        for kind in suite.classes:
            place = layout.format(domain=(domain.also or [domain.name])[0], kind=kind)
            picture(tmp_path / "theirs" / place / "frame_0001.jpg", n)
    done = prepare(suite, tmp_path / "root", tmp_path / "theirs")
    assert {*done.made} == {*FACTS[name][1]}
    report = check(suite, tmp_path / "root")
    assert report.ok, report.faults
    assert report.domains[0].note == f"as published: {suite.domains[0].images:,}"
    found = data.load(suite, "mini", "all", tmp_path / "root", {"subset": "1"})
    assert [len(d.train) for d in found.domains.values()] == [len(suite.classes)] * len(suite.domains)


def test_imageclef_has_its_classes_in_lists_and_its_pictures_in_one_folder_a_domain(tmp_path: Path) -> None:
    suite, theirs = load_suite("image-clef"), tmp_path / "image_CLEF"
    for n, domain in enumerate("bcip"):
        lines = []
        for label in range(12):
            for k in range(2):
                picture(theirs / domain / f"{label:02}{k}.jpg", 100 * n + 2 * label + k)
                lines.append(f"{domain}/{label:02}{k}.jpg {label}")
        (theirs / f"{domain}List.txt").write_text("\n".join(lines))
    done = prepare(suite, tmp_path / "root", theirs)
    assert done.lists == [f"{domain}List.txt" for domain in "bcip"]
    assert "24 pictures, whose classes stand in the lists" in done.made["b"]
    assert prepare(suite, tmp_path / "root", theirs).refused == []
    report = check(suite, tmp_path / "root")
    assert report.ok, report.faults
    found = data.load(suite, "lite", "all", tmp_path / "root")
    assert all(len(d.train) == len(d.test) == 24 for d in found.domains.values())
    assert sorted(found.domains["p"].train.labels.tolist()) == sorted([*range(12), *range(12)])
    assert "transductive" in found.note
