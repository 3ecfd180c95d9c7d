"""The verbs of `python -m benchmark data`, from the user's side."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmark.__main__ import main
from benchmark.data import digits
from benchmark.data.get import sources
from benchmark.data.get.sources import size_words
from tests.data import own


def ask(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(["data", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("verb", ["list", "fetch", "prepare", "check", "sheet"])
def test_every_verb_has_help_with_an_example_and_the_shared_options(capsys, verb):
    code, out, _ = ask(capsys, verb, "--help")
    assert code == 0
    for option in ("--suite", "--data-root", "--json"):
        assert option in out
    assert f"python -m benchmark data {verb}" in " ".join(out.replace("│", " ").split())


def test_list_says_what_is_here_and_what_is_to_be_done_by_hand(capsys, tmp_path):
    place = tmp_path / "downloads" / "digits"
    place.mkdir(parents=True)
    (place / "usps.bz2").write_bytes(b"x")
    code, out, _ = ask(capsys, "list", "--suite", "digits", "--data-root", str(tmp_path))
    assert code == 0
    assert "usps.bz2  [here]" in out
    assert "By hand: Digits-Five" in out
    code, out, _ = ask(capsys, "list", "--suite", "pacs-frozen", "--data-root", str(tmp_path), "--json")
    assert {f["suite"] for f in json.loads(out)["files"]} == {"pacs"}


def test_prepare_then_check_then_the_data_is_there(capsys, tmp_path, write_digits):
    write_digits(tmp_path / "mine")
    root = str(tmp_path / "root")
    code, out, _ = ask(capsys, "prepare", "--suite", "digits", "--data-root", root, "--from", str(tmp_path / "mine"))
    assert code == 0
    assert "svhn: made from prepared .npz (svhn.npz): 40 / 20 images" in out
    code, out, _ = ask(capsys, "check", "--suite", "digits", "--data-root", root)
    assert code == 0
    assert (
        "Every picture is sound, but the counts are not the published ones: mt 40 / 20 of 60,000 / 10,000, or in" in out
    )
    assert "(tier lite, split part)" in out
    assert f"run --suite digits --tier lite --data-root {root}" in out


def test_check_of_broken_data_ends_with_code_1_and_names_everything(capsys, tmp_path, write_digits):
    write_digits(tmp_path)
    (tmp_path / "digits" / "mnist.npz").unlink()
    np.savez(tmp_path / "digits" / "usps.npz", x_train=np.zeros(3))
    code, _, err = ask(capsys, "check", "--suite", "digits", "--data-root", str(tmp_path))
    assert code == 1
    assert "mnist.npz: the file is not there" in err
    assert "usps.npz: it has no array y_train" in err
    assert "2 faults" in err
    code, out, _ = ask(capsys, "check", "--suite", "digits", "--data-root", str(tmp_path), "--json")
    assert code == 1
    document = json.loads(out)
    assert document["ok"] is False
    assert len(document["faults"]) == 2


def test_check_of_a_tier_makes_what_its_runs_would_make(capsys, tmp_path, write_pictures):
    write_pictures(tmp_path / "PACS")
    ask(capsys, "check", "--suite", "pacs", "--data-root", str(tmp_path))
    assert not (tmp_path / "cache" / "decoded").exists()
    code, _, _ = ask(capsys, "check", "--suite", "pacs", "--data-root", str(tmp_path), "--tier", "lite")
    assert code == 0
    assert len(list((tmp_path / "cache" / "decoded").glob("*.npy"))) == 4


@pytest.mark.parametrize(
    ("suite", "words"),
    [
        ("office-31", "To get them: python -m benchmark data fetch --suite office-31"),
        ("image-clef", "Where to get them by hand: python -m benchmark data list --suite image-clef"),
    ],
)
def test_what_is_not_there_comes_with_what_to_type(capsys, tmp_path, suite, words):
    root = str(tmp_path)
    assert words in ask(capsys, "check", "--suite", suite, "--data-root", root)[2]
    assert words in ask(capsys, "prepare", "--suite", suite, "--data-root", root)[2]
    (tmp_path / suite / "amazon").mkdir(parents=True)
    assert words in ask(capsys, "check", "--suite", suite, "--data-root", root)[2]


def test_nobody_is_sent_to_fetch_pictures_of_their_own(capsys, tmp_path):
    own.tree(tmp_path / "mine", each=1)
    assert main(["suite", "new", "mine", "--from", str(tmp_path / "mine"), "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    file, empty = str(tmp_path / "mine.toml"), tmp_path / "empty"
    empty.mkdir()
    code, _, err = ask(capsys, "prepare", "--suite", file, "--data-root", str(empty))
    assert code == 2
    assert "Give the folder with your files: --from FOLDER." in err
    assert "data fetch" not in err
    _, _, err = ask(capsys, "check", "--suite", file, "--data-root", str(empty))
    assert "Name the folder with mine in it: --data-root FOLDER" in err


def test_fetch_that_fails_ends_with_code_1_and_the_steps_by_hand(capsys, tmp_path, monkeypatch):
    dead = sources.Source(suite="digits", file="usps.bz2", about="USPS", urls=["http://127.0.0.1:9/x"], hash="")
    monkeypatch.setattr(sources, "sources", lambda reader, lists: [dead])
    code, out, err = ask(capsys, "fetch", "--suite", "digits", "--data-root", str(tmp_path))
    assert code == 1
    assert "usps.bz2 (USPS) could not be fetched" in err
    assert "By hand: Digits-Five" in out
    assert "Traceback" not in err


def test_a_misspelt_suite_gets_the_nearest_name(capsys):
    code, _, err = ask(capsys, "check", "--suite", "digtis")
    assert code == 2
    assert "Did you mean 'digits'?" in err


def test_the_sheet_of_real_images_is_not_drawn_for_publishing(capsys, tmp_path, write_digits, monkeypatch):
    monkeypatch.setattr(digits, "GENERATED", {"lite": (20, 10)})
    write_digits(tmp_path, names=("mnist", "mnistm", "usps", "svhn", "syn"))
    arguments = [
        "sheet",
        "--suite",
        "digits",
        "--tier",
        "lite",
        "--data-root",
        str(tmp_path),
        "--out",
        str(tmp_path / "s.png"),
    ]
    code, _, err = ask(capsys, *arguments, "--generated-only")
    assert code == 2
    assert "not for publishing" in err
    assert not (tmp_path / "s.png").exists()
    assert ask(capsys, *arguments)[0] == 0
    assert (tmp_path / "s.png").stat().st_size > 1000


def test_sizes_are_written_for_people():
    assert [size_words(n) for n in (0, 4_542, 46_830_571, 5_600_000_000)] == [
        "",
        "about 1 MB",
        "about 47 MB",
        "about 5.6 GB",
    ]
