"""`suite new` looks at pictures: what it finds odd, what it leaves out, what it refuses, what it writes."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from benchmark.data.look import propose as proposing
from benchmark.data.look.odd import oddities
from benchmark.data.look.propose import ids, propose, toml
from benchmark.data.look.survey import Survey, survey
from benchmark.errors import UserError
from benchmark.spec import Suite, load_suite
from tests.data import own

GREEK = ("Φωτογραφία", "σκίτσο", "μελάνι")


def look(root: Path) -> tuple[Survey, list[str]]:
    """What is there and what is odd about it."""
    found = survey(root)
    return found, oddities(found, propose("mine", root.name, found).classes)


def written(root: Path) -> Suite:
    """The suite file as it is read back."""
    file = root.parent / "mine.toml"
    file.write_text(toml(propose("mine", root.name, survey(root))), encoding="utf-8")
    load_suite.cache_clear()
    return load_suite(str(file))


def test_a_sound_tree_is_counted_and_nothing_is_odd(tmp_path: Path) -> None:
    root = own.tree(tmp_path / "mine")
    found, said = look(root)
    assert said == []
    assert found.domains == list(own.DOMAINS)
    suite = written(root)
    assert suite.classes == sorted(own.KINDS)
    assert [(d.id, d.by_class) for d in suite.domains] == [(i, [10] * 4) for i in ("ink", "str", "stu")]
    mini = suite.tier("mini")
    assert (mini.network.width, mini.network.image_size, mini.options) == (0.125, 64, {"subset": "40"})
    assert [t.value for t in suite.tiers] == ["mini", "lite", "paper"]
    assert set(suite.hparams["tsvdnet"]) == {"lam", "eta_max", "kernel_dim"}


def test_what_is_no_picture_is_named_and_left_out(tmp_path: Path) -> None:
    root = own.tree(tmp_path / "mine")
    (root / "ink" / "cross" / "pic_00.jpg").write_bytes(b"")
    (root / "ink" / "cross" / "pic_01.jpg").write_text("Dear reader, this is a letter.")
    whole = (root / "street" / "square" / "pic_03.jpg").read_bytes()
    (root / "street" / "square" / "pic_03.jpg").write_bytes(whole[: len(whole) // 2])
    png = (root / "street" / "square" / "pic_02.png").read_bytes()
    (root / "street" / "square" / "pic_02.png").write_bytes(png[: len(png) // 2])
    _, said = look(root)
    assert any("it is empty (0 bytes): ink/cross/pic_00.jpg" in s for s in said)
    assert any("it is not a picture: ink/cross/pic_01.jpg" in s for s in said)
    assert any("it ends too early: street/square/pic_02.png, street/square/pic_03.jpg" in s for s in said)
    suite = written(root)
    assert len(suite.folders.left_out) == 4
    assert suite.domains[0].by_class == [10, 8, 10, 10]


def test_bytes_after_the_end_of_a_picture_are_no_fault(tmp_path: Path) -> None:
    root = own.tree(tmp_path / "mine")
    for name in ("pic_00.jpg", "pic_02.png"):  # a phone's motion photo: a film after the picture
        file = root / "ink" / "cross" / name
        file.write_bytes(file.read_bytes() + b"ftypmp42" * 2000)
    assert look(root)[1] == []
    assert written(root).folders.left_out == []


def test_too_many_files_that_are_no_pictures_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = own.tree(tmp_path / "mine", each=3)
    for file in (root / "ink" / "cross").iterdir():
        file.write_bytes(b"")
    monkeypatch.setattr(proposing, "LEFT_OUT", 2)
    with pytest.raises(UserError, match=r"3 of 36 files below .* are no pictures, .*Move them away first"):
        propose("mine", "mine", survey(root))


def test_a_class_that_a_domain_lacks_is_left_out_for_all(tmp_path: Path) -> None:
    root = own.tree(tmp_path / "mine")
    shutil.rmtree(root / "street" / "cross")
    (root / "street" / "Square").mkdir()
    shutil.copyfile(root / "street" / "square" / "pic_00.jpg", root / "street" / "Square" / "x.jpg")
    _, said = look(root)
    assert any(s.startswith("street has no picture of 1 class: cross. Left out") for s in said)
    assert "Square and square are two classes by their names: are they one?" in said
    suite = written(root)
    assert suite.classes == ["circle", "square", "stripes"]
    assert suite.folders.left_out == ["Square", "cross"]


def test_a_domain_with_one_class_is_named(tmp_path: Path) -> None:
    root = own.tree(tmp_path / "mine")
    for kind in ("circle", "cross", "square"):
        shutil.rmtree(root / "street" / kind)
    with pytest.raises(UserError, match=r"1 class in common, and two are wanted: 'street' has 1 class \(stripes\)"):
        propose("mine", "mine", survey(root))


def test_copies_are_told_by_what_they_spoil(tmp_path: Path) -> None:
    root = own.tree(tmp_path / "mine")
    shutil.copyfile(root / "ink" / "cross" / "pic_00.jpg", root / "ink" / "cross" / "again.jpg")
    shutil.copyfile(root / "ink" / "cross" / "pic_01.jpg", root / "ink" / "circle" / "cross.jpg")
    shutil.copyfile(root / "ink" / "cross" / "pic_03.jpg", root / "studio" / "cross" / "ink.jpg")
    _, said = look(root)
    assert any("1 picture lies in two domains, byte for byte" in s for s in said)
    assert any("1 picture lies in two classes of one domain: one label is wrong" in s for s in said)
    assert any("1 duplicate within a class and domain" in s for s in said)


def test_one_class_with_half_the_images_few_pictures_and_other_files_are_odd(tmp_path: Path) -> None:
    root = own.tree(tmp_path / "mine", each=4, side=24)
    for i in range(50, 70):
        (root / "ink" / "circle" / f"more_{i}.jpg").write_bytes(own.picture("ink", "circle", i, 24))
    (root / "ink" / "circle" / "old.gif").write_bytes(b"GIF89a")
    shutil.copyfile(root / "ink" / "circle" / "pic_00.jpg", root / "ink" / "loose.jpg")
    _, said = look(root)
    assert any(s.startswith("circle is 67 % of ink") for s in said)
    assert any("4 classes have fewer than 10 pictures in a domain" in s for s in said)
    assert any("smaller than 32 pixels" in s for s in said)
    assert any("not read: 1 .gif" in s for s in said)
    assert any("1 picture lies in ink itself, in no class" in s for s in said)
    assert written(root).tier("mini").network.image_size == 32


def test_two_domains_and_very_different_sizes_are_said(tmp_path: Path) -> None:
    root = own.tree(tmp_path / "mine", ("ink", "street"), ("circle", "cross"), each=1)
    for i in range(10, 50):
        (root / "ink" / "circle" / f"more_{i}.jpg").write_bytes(own.picture("ink", "circle", i))
    _, said = look(root)
    assert any("there is one source a target" in s for s in said)
    assert "ink has 42 pictures and street 2." in said


def test_names_in_greek_are_names(tmp_path: Path) -> None:
    root = own.tree(tmp_path / "εικόνες", GREEK, ("κύκλος", "σταυρός 2"), each=10)
    suite = written(root)
    assert suite.root == "εικόνες"
    assert suite.classes == ["κύκλος", "σταυρός 2"]
    assert [d.id for d in suite.domains] == ["d1", "d2", "d3"]
    assert [d.name for d in suite.domains] == sorted(GREEK)


def test_a_name_that_cannot_be_shown_is_refused(tmp_path: Path) -> None:
    root = own.tree(tmp_path / "mine", each=1)
    (root / "ink").rename(root / "in\x1bk")
    with pytest.raises(UserError, match=r"holds characters that cannot be shown\. Rename it"):
        survey(root)
    (root / "in\x1bk").rename(root / "ink ")
    with pytest.raises(UserError, match=r"The name 'ink ' begins or ends with a space, which nobody sees\. Rename it"):
        survey(root)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["art", "clipart", "Real World"], ["art", "cli", "rea"]),
        (["photo", "photocopy"], ["photo", "photoc"]),
        (["été", "ete"], ["ete", "d2"]),
        (["a", "b"], ["a", "b"]),
        (["d2", "ζωγραφική", "φωτό"], ["d2", "d3", "d4"]),
        (["φωτό", "d1", "d2"], ["d1", "d2", "d3"]),
    ],
)
def test_ids_are_short_and_differ(names: list[str], found: list[str]) -> None:
    assert list(ids(names).values()) == found


def test_what_is_no_data_set_says_what_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(root: Path, words: str) -> None:
        with pytest.raises(UserError, match=words):
            survey(root)

    refused(tmp_path / "none", "does not exist. Give the folder")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "is not a folder")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "it has no pictures. Wanted: .*DOMAIN/CLASS")
    shutil.copyfile(
        own.tree(tmp_path / "one", ("ink",), each=1) / "ink/circle/pic_00.jpg", tmp_path / "empty" / "a.jpg"
    )
    refused(tmp_path / "empty", "its 1 pictures lie in no folder")
    refused(tmp_path / "one", "has one domain only, 'ink'")
    refused(tmp_path / "one" / "ink", r"pictures one folder deep .*give the folder above: --from")
    own.tree(tmp_path / "outer" / "my set", each=1)
    refused(tmp_path / "outer", r"the domains one folder further down\. Give that folder: --from '.*/outer/my set'$")
    monkeypatch.setattr("benchmark.data.look.survey.LARGEST_TABLE", 2)
    refused(own.tree(tmp_path / "two", each=1), "more than 2 pictures: is it the right folder")


def test_files_that_a_table_names_and_are_not_there_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = own.table(own.tree(tmp_path / "tree", each=10), tmp_path / "mine")
    with (root / "pictures.csv").open("a") as file:
        file.write("all/none.jpg,ink,circle\n,,\n")
    found, said = look(root)
    assert found.form == "csv"
    assert said == ["The table names 1 file that is not there: all/none.jpg. Left out."]
    monkeypatch.setattr(proposing, "LEFT_OUT", 0)
    with pytest.raises(UserError, match=r"1 of 121 files below .* are not there or no pictures.*Mend the table first"):
        propose("mine", "mine", found)


def test_rows_of_a_table_that_no_run_would_read_are_refused(tmp_path: Path) -> None:
    root = own.table(own.tree(tmp_path / "tree", each=1), tmp_path / "mine")
    with (root / "pictures.csv").open("a") as file:
        file.write(",ink,circle\n../up.jpg,ink,circle\n")
    with pytest.raises(UserError, match=r"line 14: path, domain and class are wanted.* \(and 1 more like it\)\. Mend"):
        survey(root)


def test_pictures_that_a_column_split_puts_in_no_part_are_said(tmp_path: Path) -> None:
    root = own.table(own.tree(tmp_path / "tree"), tmp_path / "mine", split=True)
    file = root / "pictures.csv"
    file.write_text(file.read_text().replace(",train", ",val", 2))
    _, said = look(root)
    assert any(s.startswith("2 pictures are neither train nor test by the column split, so neither") for s in said)


def test_lists_beside_a_table_are_not_used_and_not_announced(tmp_path: Path) -> None:
    tree = own.tree(tmp_path / "tree")
    own.table(tree, tmp_path / "mine")
    own.lists(tree, sorted(own.KINDS))
    for file in tree.glob("*.txt"):
        shutil.copyfile(file, tmp_path / "mine" / file.name)
    assert not survey(tmp_path / "mine").lists
    assert survey(tree).lists


def test_a_label_that_is_a_number_keeps_its_order(tmp_path: Path) -> None:
    root = own.tree(tmp_path / "mine", ("ink", "street"), ("10", "9", "2"), each=1)
    assert propose("mine", "mine", survey(root)).classes == ["2", "9", "10"]


def test_many_files_are_looked_at_in_seconds(tmp_path: Path) -> None:
    """2,000 here in a fraction of a minute, so 40,000 in less than some; headers only."""
    root = tmp_path / "mine"
    bytes_ = [own.picture("ink", "circle", i) for i in range(20)]
    for domain in own.DOMAINS[:2]:
        for kind in own.KINDS:
            (root / domain / kind).mkdir(parents=True)
            for i in range(250):
                (root / domain / kind / f"{i}.jpg").write_bytes(bytes_[i % 20])
    told: list[tuple[int, int]] = []
    began = time.process_time()
    found = survey(root, tell=lambda done, total: told.append((done, total)))
    assert time.process_time() - began < 10
    assert len(found.pictures) == 2000
    assert told[-1] == (2000, 2000)


def test_shards_are_looked_at_with_progress(tmp_path: Path) -> None:
    root = own.shards(own.tree(tmp_path / "tree", each=10), tmp_path / "mine")
    told: list[tuple[int, int]] = []
    found = survey(root, tmp_path, lambda done, total: told.append((done, total)))
    assert (found.form, len(found.pictures)) == ("parquet", 120)
    assert (120, 120) in told


def test_many_classes_get_the_settings_of_domainnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = own.tree(tmp_path / "mine", each=1)
    monkeypatch.setattr(proposing, "MANY_CLASSES", 4)
    suite = written(root)
    assert suite.tier("paper").network.name == "resnet101"
    assert suite.hparams["tsvdnet"]["lam"] == 100.0


def test_nothing_is_written_over_or_where_nothing_can_be(tmp_path: Path) -> None:
    proposing.write(tmp_path / "a.toml", "x = 1\n")
    with pytest.raises(UserError, match="is there already, and nothing is written over it"):
        proposing.write(tmp_path / "a.toml", "x = 2\n")
    with pytest.raises(UserError, match=r"cannot be written \(Not a directory\)"):
        proposing.write(tmp_path / "a.toml" / "b.toml", "x = 2\n")
