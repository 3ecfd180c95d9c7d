"""A tree, a CSV and parquet of the same images are the same data; what is wrong with a form is said in a sentence."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmark import data
from benchmark.data.forms import table_of
from benchmark.data.get.check import check
from benchmark.data.look.propose import propose, toml
from benchmark.data.look.survey import survey
from benchmark.errors import UserError
from benchmark.spec import Suite, load_suite
from tests.data import own


def suite_for(folder: Path, root: str = "mine") -> Suite:
    """The suite file of the pictures in `folder/root`."""
    file = folder / "mine.toml"
    file.write_text(toml(propose("mine", root, survey(folder / root, folder))), encoding="utf-8")
    load_suite.cache_clear()
    return load_suite(str(file))


@pytest.fixture
def forms(tmp_path: Path) -> dict[str, Path]:
    """Three data roots, each with the folder `mine`."""
    tree = own.tree(tmp_path / "tree" / "mine")
    own.table(tree, tmp_path / "csv" / "mine")
    own.shards(tree, tmp_path / "parquet" / "mine")
    return {form: tmp_path / form for form in ("tree", "csv", "parquet")}


@pytest.mark.parametrize("options", [{}, {"reading": "split"}, {"subset": "3"}])
def test_the_same_images_are_the_same_data_in_every_form(forms: dict[str, Path], options: dict[str, str]) -> None:
    suite = suite_for(forms["tree"])
    found = {form: data.load(suite, "lite", "all", root, options) for form, root in forms.items()}
    marks = {data.fingerprint(suite, "lite", "all", root, options) for root in forms.values()}
    assert marks == {d.fingerprint for d in found.values()}
    assert len(marks) == 1
    first = found["tree"]
    for other in found.values():
        for id, domain in first.domains.items():
            for part in ("train", "test"):
                mine, theirs = getattr(domain, part), getattr(other.domains[id], part)
                rows = torch.arange(len(mine))
                assert torch.equal(mine.labels, theirs.labels)
                assert torch.equal(mine.take(rows), theirs.take(rows))


def test_another_image_is_other_data_and_another_name_is_not(forms: dict[str, Path]) -> None:
    root = forms["tree"]
    suite = suite_for(root)
    before = data.fingerprint(suite, "lite", "all", root)
    file = root / "mine" / "ink" / "circle" / "pic_00.jpg"
    file.rename(file.with_name("zz.jpg"))
    assert data.fingerprint(suite, "lite", "all", root) == before
    file.with_name("zz.jpg").write_bytes(own.picture("ink", "circle", 99))
    assert data.fingerprint(suite, "lite", "all", root) != before


def test_lists_and_a_column_split_hold_out_the_same_images(tmp_path: Path) -> None:
    tree = own.tree(tmp_path / "tree" / "mine")
    own.table(tree, tmp_path / "csv" / "mine", split=True)
    own.shards(tree, tmp_path / "parquet" / "mine", split=True)
    own.lists(tree)
    roots = [tmp_path / form for form in ("tree", "csv", "parquet")]
    suites = [suite_for(root) for root in roots]
    assert {s.tier("mini").options["reading"] for s in suites} == {"split"}
    found = [data.load(s, "lite", "all", root) for s, root in zip(suites, roots, strict=True)]
    assert len({d.fingerprint for d in found}) == 1
    assert [(len(d.train), len(d.test)) for d in found[0].domains.values()] == [(32, 8)] * 3
    assert "the lists that came with it" in found[0].note


def test_a_subset_takes_so_many_of_each_class_and_decodes_no_others(forms: dict[str, Path]) -> None:
    root = forms["tree"]
    found = data.load(suite_for(root), "lite", "all", root, {"subset": "2"})
    assert all(torch.bincount(d.train.labels).tolist() == [2] * 4 for d in found.domains.values())
    assert "at most 2 pictures of a class" in found.note
    with pytest.raises(UserError, match="The option subset is a number of pictures, not 'few'"):
        data.load(suite_for(root), "lite", "all", root, {"subset": "few"})


def test_what_the_suite_leaves_out_is_not_read(forms: dict[str, Path]) -> None:
    for form in ("tree", "csv"):
        root = forms[form]
        name = "ink/circle/pic_00.jpg" if form == "tree" else "all/0000.jpg"
        before = suite_for(root)
        assert len(data.load(before, "lite", "all", root).domains["ink"].train) == 40
        file = root / "mine.toml"
        file.write_text(file.read_text() + f'\n[folders]\nleft_out = ["{name}"]\n')
        load_suite.cache_clear()
        assert len(data.load(load_suite(str(file)), "lite", "all", root).domains["ink"].train) == 39


@pytest.mark.parametrize("what", ["an empty file", "a class that a domain lacks"])
def test_lists_that_name_what_is_left_out_are_read_and_checked_without_it(tmp_path: Path, what: str) -> None:
    root = own.tree(tmp_path / "mine")
    own.lists(root, sorted(own.KINDS))
    if what == "an empty file":
        (root / "ink" / "cross" / "pic_00.jpg").write_bytes(b"")
    else:
        shutil.rmtree(root / "ink" / "cross")
        for part in ("train", "test"):
            lines = (root / f"ink_{part}.txt").read_text().splitlines()
            (root / f"ink_{part}.txt").write_text("\n".join(line for line in lines if "/cross/" not in line))
    suite = suite_for(tmp_path)
    report = check(suite, tmp_path)
    assert report.ok, report.faults
    found = data.load(suite, "lite", "all", tmp_path)
    sizes = [(len(d.train), len(d.test)) for d in found.domains.values()]
    assert sizes == ([(31, 8), (32, 8), (32, 8)] if what == "an empty file" else [(24, 6)] * 3)


def test_a_list_that_names_what_is_gone_and_not_left_out_is_still_refused(tmp_path: Path) -> None:
    root = own.tree(tmp_path / "mine")
    own.lists(root, sorted(own.KINDS))
    (root / "ink" / "cross" / "pic_00.jpg").write_bytes(b"")
    suite = suite_for(tmp_path)
    (root / "ink" / "cross" / "pic_01.jpg").unlink()
    with pytest.raises(UserError, match=r"ink_train\.txt names ink/cross/pic_01\.jpg, which is not in"):
        data.load(suite, "lite", "all", tmp_path)
    assert any("names ink/cross/pic_01.jpg, which is not there" in f.fault for f in check(suite, tmp_path).faults)


def test_shards_are_unpacked_once(forms: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    root = forms["parquet"]
    suite = suite_for(root)
    data.fingerprint(suite, "lite", "all", root)
    (folder,) = (root / "cache" / "shards").iterdir()
    assert len(list(folder.iterdir())) == 121  # 120 pictures and the index
    monkeypatch.setattr("benchmark.data.forms._unpack", None)
    data.load(suite, "lite", "all", root)


def table_says(root: Path, change: Callable[[str], str]) -> str:
    """What loading says after a change of the CSV."""
    suite = suite_for(root)
    file = root / "mine" / "pictures.csv"
    before = file.read_text()
    file.write_text(change(before))
    with pytest.raises(UserError) as caught:
        data.load(suite, "lite", "all", root)
    assert f"data check --suite {suite.address}" in str(caught.value)
    report = check(suite, root)
    assert not report.ok
    file.write_text(before)
    return " ".join([str(caught.value), *(f.fault for f in report.faults)])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("../up.jpg,ink,circle", "leads out of the table's folder"),
        ("all/0000.jpg,ink,", "path, domain and class are wanted, found 'all/0000.jpg,ink,'"),
        ("all/0000.jpg,chalk,circle", r"has the domain 'chalk' \(1 pictures\), which the suite has not"),
        ("all/0000.jpg,ink,triangle", "has the class 'triangle'"),
    ],
)
def test_a_bad_line_of_a_table_is_named(forms: dict[str, Path], line: str, words: str) -> None:
    said = table_says(forms["csv"], lambda text: text + line + "\n")
    assert re.search(words, said), said


def test_a_table_that_names_what_is_not_there_is_checked(forms: dict[str, Path]) -> None:
    root = forms["csv"]
    suite = suite_for(root)
    (root / "mine" / "all" / "0003.jpg").unlink()
    with pytest.raises(UserError, match=r"0003\.jpg is named in a list, but it is not there"):
        data.load(suite, "lite", "all", root)
    assert "the table names it, and it is not there" in [f.fault for f in check(suite, root).faults]


def test_a_file_that_a_table_names_and_is_gone_is_left_out_and_the_suite_runs(tmp_path: Path) -> None:
    root = own.table(own.tree(tmp_path / "tree"), tmp_path / "mine")
    (root / "all" / "0003.jpg").unlink()
    suite = suite_for(tmp_path)
    assert suite.folders.left_out == ["all/0003.jpg"]
    assert check(suite, tmp_path).ok
    assert [len(d.train) for d in data.load(suite, "lite", "all", tmp_path).domains.values()] == [39, 40, 40]


def test_a_split_that_is_neither_train_nor_test_is_in_neither_part_in_every_form(tmp_path: Path) -> None:
    tree = own.tree(tmp_path / "tree")
    files = sorted(tree.glob("*/*/*"))
    parts = ["val" if "_00" in f.name else own.part(f.name) for f in files]
    own.bare(tree, tmp_path / "parquet" / "mine", str, split=parts)
    root = own.table(tree, tmp_path / "csv" / "mine", split=True)
    (root / "pictures.csv").write_text(
        "path,domain,class,split\n"
        + "".join(f"all/{i:04}{f.suffix},{f.parts[-3]},{f.parts[-2]},{parts[i]}\n" for i, f in enumerate(files))
    )
    marks = set()
    for form in ("csv", "parquet"):
        suite = suite_for(tmp_path / form)
        found = data.load(suite, "lite", "all", tmp_path / form)
        assert [(len(d.train), len(d.test)) for d in found.domains.values()] == [(28, 8)] * 3
        marks.add(found.fingerprint)
    assert len(marks) == 1


def test_numbers_without_names_are_classes_even_with_gaps(tmp_path: Path) -> None:
    tree = own.tree(tmp_path / "tree")
    own.bare(tree, tmp_path / "from-0" / "mine", own.KINDS.index)
    own.bare(tree, tmp_path / "from-1" / "mine", lambda kind: own.KINDS.index(kind) + 1)
    own.bare(tree, tmp_path / "gaps" / "mine", lambda kind: [2, 3, 5, 7][own.KINDS.index(kind)])
    marks, names = set(), []
    for folder in ("from-0", "from-1", "gaps"):
        suite = suite_for(tmp_path / folder)
        names.append(suite.classes)
        marks.add(data.fingerprint(suite, "lite", "all", tmp_path / folder))
    assert names == [["0", "1", "2", "3"], ["1", "2", "3", "4"], ["2", "3", "5", "7"]]
    assert len(marks) == 1, "the same pictures with the same labels"


def test_numbers_are_places_where_the_suite_has_names(tmp_path: Path) -> None:
    own.bare(own.tree(tmp_path / "tree"), tmp_path / "mine", own.KINDS.index)
    before = suite_for(tmp_path)
    file = tmp_path / "mine.toml"
    file.write_text(file.read_text().replace('["0", "1", "2", "3"]', '["circle", "cross", "square", "stripes"]'))
    load_suite.cache_clear()
    named = load_suite(str(file))
    assert named.classes == list(own.KINDS)
    assert data.fingerprint(named, "lite", "all", tmp_path) == data.fingerprint(before, "lite", "all", tmp_path)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_class_that_is_left_out_and_named_like_a_domain_leaves_the_domain_alone(tmp_path: Path, form: str) -> None:
    tree = own.tree(tmp_path / "tree")
    (tree / "ink" / "street").mkdir()
    (tree / "ink" / "street" / "pic_00.jpg").write_bytes(own.picture("ink", "circle", 77))
    if form == "csv":
        own.table(tree, tmp_path / "mine")
    else:
        own.bare(tree, tmp_path / "mine", str)
    suite = suite_for(tmp_path)
    assert suite.folders.left_out == ["street"]
    assert [len(d.train) for d in data.load(suite, "lite", "all", tmp_path).domains.values()] == [40, 40, 40]


@pytest.mark.parametrize("image", [b"", None, b"Dear reader, this is a letter."])
def test_an_image_of_a_shard_that_is_none_is_left_out(tmp_path: Path, image: bytes | None) -> None:
    tree = own.tree(tmp_path / "tree")
    images = [image, *(f.read_bytes() for f in sorted(tree.glob("*/*/*"))[1:])]
    own.bare(tree, tmp_path / "mine", str, image=images)
    suite = suite_for(tmp_path)
    assert suite.folders.left_out == ["all.parquet, row 1"]
    assert [len(d.train) for d in data.load(suite, "lite", "all", tmp_path).domains.values()] == [39, 40, 40]


def test_a_row_of_a_shard_without_a_domain_is_refused(tmp_path: Path) -> None:
    tree = own.tree(tmp_path / "tree")
    domains = [None, *(f.parts[-3] for f in sorted(tree.glob("*/*/*"))[1:])]
    own.bare(tree, tmp_path / "mine", str, domain=domains)
    with pytest.raises(UserError, match=r"all\.parquet, row 1: it has no domain"):
        survey(tmp_path / "mine", tmp_path)


def test_a_link_to_nothing_and_a_folder_that_is_named_like_a_picture_are_left_out(tmp_path: Path) -> None:
    root = own.tree(tmp_path / "mine")
    (root / "ink" / "cross" / "link.jpg").symlink_to("nowhere.jpg")
    (root / "ink" / "cross" / "folder.jpg").mkdir()
    suite = suite_for(tmp_path)
    assert suite.folders.left_out == ["ink/cross/folder.jpg", "ink/cross/link.jpg"]
    assert check(suite, tmp_path).ok
    assert len(data.load(suite, "lite", "all", tmp_path).domains["ink"].train) == 40
    (root / "ink" / "cross" / "later.jpg").symlink_to("nowhere.jpg")
    with pytest.raises(UserError, match=r"later\.jpg is named in a list, but it is not there"):
        data.load(suite, "lite", "all", tmp_path)


def test_a_second_table_is_refused(tmp_path: Path) -> None:
    root = own.table(own.tree(tmp_path / "tree"), tmp_path / "mine", split=True)
    suite = suite_for(tmp_path)
    file = root / "pictures.csv"
    shutil.copyfile(file, root / "again.csv")
    with pytest.raises(UserError, match=r"two tables of pictures, again\.csv and pictures\.csv"):
        data.load(suite, "lite", "all", tmp_path)
    (fault,) = check(suite, tmp_path).faults
    assert "two tables" in fault.fault


def test_semicolons_a_mark_of_order_and_capital_letters_make_a_table_too(forms: dict[str, Path]) -> None:
    root = forms["csv"]
    suite = suite_for(root)
    before = data.fingerprint(suite, "lite", "all", root)
    file = root / "mine" / "pictures.csv"
    text = file.read_text().replace(",", ";").replace("path;domain;class", "Path;Domain;Class")
    file.write_text("\ufeff" + text, encoding="utf-8")
    assert data.fingerprint(suite, "lite", "all", root) == before


def test_a_broken_shard_and_one_that_cannot_be_unpacked_are_said(
    forms: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = forms["parquet"]
    suite = suite_for(root)
    shutil.rmtree(root / "cache")
    with monkeypatch.context() as patch:
        patch.setattr("os.rename", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(UserError, match=r"cannot be unpacked into .*No space left"):
            data.load(suite, "lite", "all", root)
    shard = next((root / "mine" / "data").glob("*.parquet"))
    shard.write_bytes(shard.read_bytes()[:-50])
    with pytest.raises(UserError, match="cannot be read as parquet"):
        data.load(suite, "lite", "all", root)
    assert not check(suite, root).ok


def test_a_sound_folder_is_checked_in_every_form(forms: dict[str, Path]) -> None:
    marks = set()
    for root in forms.values():
        report = check(suite_for(root), root)
        assert report.ok, report.faults
        assert {d.note for d in report.domains} == {"as the suite file says, class by class"}
        marks.add(report.fingerprint)
    assert len(marks) == 1


def test_a_class_that_a_domain_lost_is_a_fault_in_every_form(forms: dict[str, Path]) -> None:
    suites = {form: suite_for(root) for form, root in forms.items()}
    shutil.rmtree(forms["tree"] / "mine" / "ink" / "cross")
    file = forms["csv"] / "mine" / "pictures.csv"
    file.write_text("\n".join(line for line in file.read_text().splitlines() if "ink,cross" not in line))
    for form, words in (("tree", "this class has no pictures"), ("csv", "it has no pictures of cross")):
        assert words in [f.fault for f in check(suites[form], forms[form]).faults]
        with pytest.raises(UserError, match="has no picture of cross"):
            data.load(suites[form], "lite", "all", forms[form])


@pytest.mark.parametrize("form", ["tree", "csv", "parquet"])
def test_other_counts_than_those_of_the_file_are_a_fault(forms: dict[str, Path], form: str) -> None:
    root = forms[form]
    suite = suite_for(root)
    file = root / "mine.toml"
    file.write_text(file.read_text().replace("by_class = [10, 10, 10, 10]", "by_class = [10, 12, 10, 9]", 1))
    load_suite.cache_clear()
    (fault,) = check(load_suite(str(file)), root).faults
    assert fault.file.endswith("mine/ink")
    assert "not those that the suite file counts: cross 10, not 12; stripes 10, not 9. If that is meant" in fault.fault
    images = re.sub(r"by_class = \[.*", "images = 41", file.read_text(), count=1)
    file.write_text(images)
    load_suite.cache_clear()
    (fault,) = check(load_suite(str(file)), root).faults
    assert "40, not 41" in fault.fault
    assert suite.domains[0].by_class == [10] * 4


def test_the_check_of_a_tier_counts_as_its_runs_do(forms: dict[str, Path]) -> None:
    root = forms["tree"]
    suite_for(root)
    file = root / "mine.toml"
    file.write_text(file.read_text().replace('subset = "40"', 'subset = "3", reading = "split"'))
    load_suite.cache_clear()
    suite = load_suite(str(file))
    report = check(suite, root, tier="mini")
    found = data.load(suite, "mini", "all", root)
    assert [(d.train, d.test) for d in report.domains] == [(12, 4)] * 3
    assert [(len(d.train), len(d.test)) for d in found.domains.values()] == [(12, 4)] * 3
    assert report.fingerprint == found.fingerprint != check(suite, root).fingerprint


def test_pictures_of_ones_own_have_no_generator(forms: dict[str, Path]) -> None:
    file = forms["tree"] / "mine.toml"
    suite_for(forms["tree"])
    file.write_text(file.read_text().replace('data = "prepared"', 'data = "embedded"', 1))
    load_suite.cache_clear()
    with pytest.raises(UserError, match="There is no generator of pictures 'mine'"):
        data.load(load_suite(str(file)), "mini", "all", forms["tree"])


def test_a_folder_that_is_gone_says_what_to_type(forms: dict[str, Path]) -> None:
    suite = suite_for(forms["tree"])
    with pytest.raises(
        UserError, match=r"real images of mine are wanted, but .* has no folder mine.*--data-root FOLDER\.$"
    ):
        data.load(suite, "lite", "all", forms["tree"] / "mine")


def test_a_table_that_cannot_be_opened_is_said(forms: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    suite = suite_for(forms["csv"])

    def closed(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", closed)
    with pytest.raises(UserError, match=r"pictures\.csv cannot be read: Permission denied"):
        table_of(forms["csv"] / suite.root)
