"""From a folder of pictures to table, LaTeX and report; as CSV and as parquet it is the same runs with the same numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from benchmark import records
from benchmark.__main__ import main
from benchmark.data.look.survey import survey
from benchmark.spec import load_suite
from tests.data import own

SMALL = ["run.network.width=0.03125", "run.network.image_size=32", "run.batch=8", "run.updates=8", "run.eval_points=2"]
ARGUMENTS = [word for text in SMALL for word in ("--set", text)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home-cache"))
    monkeypatch.delenv("BENCHMARK_DATA_ROOT", raising=False)
    load_suite.cache_clear()
    return tmp_path


def ran(folder: Path, *methods: str) -> pd.DataFrame:
    """`suite new`, then the command that it prints, small."""
    root = folder / "mine"
    assert main(["suite", "new", "mine", "--from", str(root), "--out", str(folder)]) == 0
    command = ["run", "--suite", str(folder / "mine.toml"), "--tier", "mini", "--methods", ",".join(methods)]
    places = ["--data-root", str(folder), "--results", str(folder / "runs"), "--workers", "1"]
    assert main([*command, *places, *ARGUMENTS]) == 0
    return records.load(folder / "runs").set_index("run_id").sort_index()


def test_pictures_of_ones_own_become_a_table_latex_and_a_report_in_every_form(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = own.tree(here / "tree" / "mine")
    own.table(tree, here / "csv" / "mine")
    own.shards(tree, here / "parquet" / "mine")
    first = ran(here / "tree", "source-only", "tsvdnet")
    said = capsys.readouterr()
    assert f"python -m benchmark run --suite {here / 'tree' / 'mine.toml'} --tier mini --methods card" in said.out
    assert "tsvdnet: So A = 0 at every update" in said.out
    assert (here / "tree" / "runs" / "report.html").is_file()
    assert "T-SVDNet" in (here / "tree" / "runs" / "tables" / "mine-mini-comparison.tex").read_text()
    assert (first.status == "done").all()
    assert len(first) == 6
    for form in ("csv", "parquet"):
        other = ran(here / form, "source-only", "tsvdnet")
        same = ["target", "data_fingerprint", "last", "source_val", "unsup", "oracle", "weights"]
        pd.testing.assert_frame_equal(first[same], other[same])  # the same ids, the same bits


def test_the_audit_stands_beside_lambda_in_the_file(here: Path) -> None:
    own.tree(here / "mine")
    assert main(["suite", "new", "mine", "--from", "mine"]) == 0
    text = (here / "mine.toml").read_text(encoding="utf-8")
    audit, _, numbers = text.partition("[hparams.tsvdnet]")
    assert "# So A = 0 at every update, since" in audit
    assert "# The escape: A ≠ 0 needs η_max >" in audit
    assert numbers.lstrip().startswith("lam = 1000.0")


def test_programs_get_what_was_found_and_people_what_is_odd(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own.tree(here / "data" / "sets" / "mine")
    (here / "data" / "sets" / "mine" / "ink" / "cross" / "pic_00.jpg").write_bytes(b"")
    words = ["suite", "new", "mine", "--from", "data/sets/mine", "--data-root", "data"]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["root"], document["data_root"], document["form"]) == ("sets/mine", "data", "tree")
    assert document["images"] == {"ink": 39, "str": 40, "stu": 40}
    assert main(["data", "check", "--suite", "mine.toml", "--data-root", "data"]) == 0
    assert "All is well" in capsys.readouterr().out
    (here / "mine.toml").unlink()
    assert main(words) == 0
    said = capsys.readouterr()
    assert "odd: 1 file is no picture although named so, it is empty" in said.err
    assert "10 a class" in said.out


@pytest.mark.parametrize(
    ("name", "words"),
    [("Mine", "small letters and digits"), ("pacs", "that is a built-in suite"), ("taken", "is there already")],
)
def test_a_name_that_cannot_be_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    (here / "taken.toml").write_text("")
    own.tree(here / "mine", each=1)
    assert main(["suite", "new", name, "--from", "mine"]) == 2
    assert words in capsys.readouterr().err


def test_lists_beside_the_domains_are_found_and_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own.lists(own.tree(here / "mine"), sorted(own.KINDS))
    assert survey(here / "mine").lists
    assert main(["suite", "new", "mine", "--from", "mine"]) == 0
    assert "There are train and test lists" in capsys.readouterr().out


def test_images_of_ones_own_cannot_be_fetched(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own.tree(here / "mine")
    assert main(["suite", "new", "mine", "--from", "mine"]) == 0
    for verb in ("list", "links", "fetch"):
        assert main(["data", verb, "--suite", "mine.toml"]) == 2
        assert "The images of mine are your own: nobody else has them to fetch" in capsys.readouterr().err


def test_every_suite_is_listed_with_what_is_here(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "data" / "office-home" / "Art").mkdir(parents=True)
    (here / "data" / "image-clef").mkdir()
    assert main(["data", "list"]) == 0
    said = capsys.readouterr().out
    states = ("office-home: here]", "image-clef: empty]", "PACS: not here")
    for words in ("digits", "Office-31", "2,533 images", "suite new NAME --from FOLDER", *states):
        assert words in said
    assert main(["data", "list", "--json"]) == 0
    rows = {row["suite"]: row for row in json.loads(capsys.readouterr().out)["suites"]}
    assert rows["office-home"]["images"] == 15_588
    assert rows["pacs"]["mini_offline"]
    assert not rows["image-clef"]["here"]
    assert rows["image-clef"]["empty"]
