"""A bundle is a study in one file: every verb reads it as the folder, byte for byte, and nothing is written to do so."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmark import records
from benchmark.__main__ import main
from benchmark.errors import UserError
from benchmark.files import read_bytes
from benchmark.launch import status
from benchmark.launch.logs import failure_of
from benchmark.records import artifacts, audit, bundle, merge, study
from benchmark.report import handover, publish, verify
from tests.quiet import quiet
from tests.synthetic import write_run, write_study

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "results" / "study"
OTHERS = sorted(p.parent.name for p in PUBLISHED.parent.glob("*/records.parquet") if p.parent != PUBLISHED)
READING = [
    ("table", "--results", "study"), ("table", "--results", "study", "--kind", "per-class", "--format", "latex"),
    ("table", "--results", "study", "--kind", "verdicts", "--format", "markdown"), ("status", "--results", "study"),
    ("status", "--results", "study", "--json"), ("audit", "study"), ("audit", "study", "--json"),
    ("verify", "--published", "--studies", "."), ("verify", "study", "--environment"),
    ("doctor", "--study", "study", "--data-root", "none", "--json"),  # images that lie about are not the question
    ("report", "--results", "study", "--no-sheets", "--out", "report.html"),
    ("figure", "--results", "study", "--kind", "curves", "--out", "figures"),
    ("export", "--results", "study", "--format", "csv", "--out", "runs.csv"), ("plan", "--suite", "digits", "--results", "study"),
    ("explain", "tsvdnet", "--results", "study", "--no-figure"), ("reproduce", "table4", "--results", "study", "--dry-run"),
    ("unpack", "study", "--out", "tree"), ("logs", "0", "--results", "study"), ("table", "--results", "study", "--tier", "paper"),
]  # fmt: skip


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take long, and have their own tests."""
    draw_nothing(monkeypatch)


def draw_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(handover, "pictures", lambda root: {"figures/digits-mini-curves.png": b"a picture"})
    write = handover.page.write
    patch.setattr(handover.page, "write", lambda *words, **options: write(*words, **{**options, "figures": False}))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs of two suites, one with arrays; one that failed, one that was stopped; trials, and what they chose."""
    root = tmp_path_factory.mktemp("tree") / "runs"
    write_study(root, ["source-only:bn", "dann"], seeds=[0, 1], targets=["mm", "sv"])
    write_run(root, "tsvdnet", "mt", artifacts=True)
    write_run(root, "dann", "C", suite="pacs")
    write_run(root, "mcd", "up", status="failed", reason="the trap was there")
    write_run(root, "mcd", "sv", status="interrupted")
    write_run(root / ".tuning", "dann", "up", overrides={"lr_scale": 2.0})
    (root / "tuned-digits-mini-up.toml").write_text("rule = 'unsup'\n")
    return root


@pytest.fixture(scope="module")
def packed(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of the tree, under the tree's own name."""
    path = tmp_path_factory.mktemp("packed") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        draw_nothing(patch)
        handover.hand_over(tree, path)
    return path


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two folders: in one the published study, in the other its bundle, under the same name."""
    home = tmp_path_factory.mktemp("published")
    shutil.copytree(PUBLISHED, home / "folder" / "study")
    (home / "file").mkdir()
    assert main(["bundle", str(home / "folder" / "study"), "--out", str(home / "file" / "study")]) == 0
    return home / "folder", home / "file"


def files_of(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


# -- reads as the folder ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_the_bundle_of_a_published_study_gives_the_bytes_that_the_folder_gives(
    words: tuple[str, ...], both: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    for root in both:
        here = tmp_path / root.name
        here.mkdir()
        (here / "study").symlink_to(root / "study")
        monkeypatch.chdir(here)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"{root.name}-cache"))
        code, said = quiet(*words)
        (here / "study").unlink()
        told.append((code, said, files_of(here)))
    assert told[0] == told[1]
    assert told[0][0] in (0, 1, 2)
    assert files_of(both[1]).keys() == {"study"}, "reading has written beside the bundle"


@pytest.mark.parametrize("name", OTHERS)
def test_the_bundle_of_every_other_published_study_has_its_tables_and_its_audit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two verbs only: what is read is the same for all of them."""
    monkeypatch.setattr(handover.page, "write", lambda results, path, **_: path.write_text("<html>"))
    handover.hand_over(PUBLISHED.with_name(name), tmp_path / name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    told = []
    for home in (PUBLISHED.parent, tmp_path):
        monkeypatch.chdir(home)
        told.append([quiet("table", "--results", name, "--format", "markdown"), quiet("audit", name)])
    assert told[0] == told[1]
    assert told[0][1][0] == 0


def test_a_bundle_of_a_results_folder_loads_as_the_folder_unfinished_runs_included(tree: Path, packed: Path) -> None:
    one, two = (records.load(root).drop(columns="path") for root in (tree, packed))
    assert sorted(one.status.unique()) == ["done", "failed", "interrupted"]
    pd.testing.assert_frame_equal(one, two, check_dtype=False)
    assert publish.rendered(packed) == publish.rendered(tree)
    shown = [[{**vars(s), "path": ""} for s in status.states(root)] for root in (tree, packed)]
    assert shown[0] == shown[1]
    failed = next(s for s in status.states(packed) if s.state == "failed")
    assert failure_of(failed) == failure_of(next(s for s in status.states(tree) if s.state == "failed"))
    # the trials of a tree are hidden from audit, those of a study are not
    found = [[f for f in audit.audit(root).findings if "trials" not in f.path] for root in (tree, packed)]
    one, two = ([(f.level, f.kind, f.words) for f in findings if f.kind != "commits"] for findings in found)
    assert one == two


def test_a_run_whose_spec_cannot_be_read_does_not_stop_the_table_of_the_others(tmp_path: Path) -> None:
    write_study(tmp_path, ["source-only:bn", "dann"], seeds=[0], targets=["mm"])
    (write_run(tmp_path, "mcd", "up", status="failed") / "spec.json").write_bytes(b"")
    code, said = quiet("table", "--results", str(tmp_path))
    assert (code, "DANN" in said) == (0, True), said


def test_a_bundle_has_everything_and_says_which_code_packed_it(packed: Path) -> None:
    inside = set(bundle.contents(packed))
    assert {*study.PARTS, "study.json", "tables.tex", "report.html", "tables/digits-mini-comparison.md"} <= inside
    assert {"trials/records.parquet", "tuned-digits-mini-up.toml", "figures/digits-mini-curves.png"} <= inside
    about = bundle.about(packed)
    assert about["name"] == "runs"
    assert about["runs"] == 10
    assert set(about["code"]) == {"version", "commit", "dirty", "lock"}
    assert [f.words for f in verify.published(packed) if not f.same] == []


def test_arrays_come_along_unless_they_are_left_out(tree: Path, packed: Path, tmp_path: Path, quick: None) -> None:
    with_arrays = next(p for p in study.places(packed) if "artifacts.npz" in study.names(p.path))
    assert artifacts.read(Path(with_arrays.path))
    assert artifacts.read(Path(next(p.path for p in study.places(packed) if p != with_arrays))) == {}
    assert main(["bundle", str(tree), "--out", str(tmp_path / "less.zip"), "--no-artifacts"]) == 0
    assert "artifacts.parquet" not in bundle.contents(tmp_path / "less.zip")


def test_the_same_study_gives_the_same_bytes_whenever_it_is_bundled(
    tree: Path, packed: Path, tmp_path: Path, quick: None
) -> None:
    copy = Path(shutil.copytree(tree, tmp_path / "runs"))
    os.utime(copy / "tuned-digits-mini-up.toml", (1, 1))
    handover.hand_over(copy, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == packed.read_bytes()


def test_unpacking_gives_back_every_byte_of_every_run(tree: Path, packed: Path, tmp_path: Path) -> None:
    assert main(["unpack", str(packed), "--out", str(tmp_path / "tree")]) == 0
    assert files_of(tmp_path / "tree") == {
        name: content for name, content in files_of(tree).items() if not name.startswith((".tuning", "tuned-"))
    }


def test_a_bundle_that_was_unzipped_is_a_study(packed: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path / "runs")
    one, two = (records.load(root).drop(columns="path") for root in (packed, tmp_path / "runs"))
    pd.testing.assert_frame_equal(one, two, check_dtype=False)


def test_a_run_of_a_bundle_is_verified_and_audited_by_its_id(both: tuple[Path, Path]) -> None:
    archive = both[1] / "study"
    run = study.places(archive)[0]
    assert audit.audit(Path(run.path)).sound == 1
    code, said = quiet("verify", run.name[:8], "--results", str(archive), "--device", "abacus")
    assert (code, "no device" in said) == (2, True), "the run was found"


def test_what_a_verb_writes_by_itself_is_not_written_into_a_bundle(packed: Path) -> None:
    for words in (("report",), ("figure", "--suite", "digits"), ("export",)):
        code, said = quiet(*words, "--results", str(packed))
        assert code == 2
        assert "is one file, and nothing is written into it. Say where to write: --out" in " ".join(said.split())
    code, said = quiet("explain", "tsvdnet", "--results", str(packed))
    assert (code, "--no-figure" in said) == (2, True)
    code, said = quiet("run", "--suite", "digits", "--results", str(packed))
    assert (code, "cannot be written to" in said) == (2, True)


# -- models -----------------------------------------------------------------------------------------------------------


def test_kept_models_come_along_when_they_are_asked_for(
    tree: Path, tmp_path: Path, quick: None, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Path(shutil.copytree(tree, tmp_path / "runs"))
    run = next(home.glob("digits/mini/*/record.json")).parent
    weights = os.urandom(100_000)
    (run / "model-last.safetensors").write_bytes(weights)
    assert main(["bundle", str(home), "--out", str(tmp_path / "without.zip")]) == 0
    assert "without their 1 models (--models takes them along)" in capsys.readouterr().out
    assert main(["bundle", str(home), "--out", str(tmp_path / "with.zip"), "--models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"] == 1
    inside = tmp_path / "with.zip" / run.relative_to(home) / "model-last.safetensors"
    assert study.read_bytes(inside) == weights
    assert not study.exists(tmp_path / "without.zip" / run.relative_to(home) / "model-last.safetensors")
    assert not [f for f in audit.audit(tmp_path / "with.zip").findings if f.kind == "foreign"]
    study.unpack(tmp_path / "with.zip", tmp_path / "tree")
    assert (tmp_path / "tree" / run.relative_to(home) / "model-last.safetensors").read_bytes() == weights


def test_a_link_in_place_of_a_model_or_a_spec_is_not_followed_into_a_bundle(
    tree: Path, tmp_path: Path, quick: None
) -> None:
    home = Path(shutil.copytree(tree, tmp_path / "runs"))
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    (next(home.glob("digits/mini/*/record.json")).parent / "model-last.safetensors").symlink_to(secret)
    (next(home.glob("digits/mini/*/failure.json")).parent / "heartbeat.json").symlink_to(secret)
    with pytest.raises(UserError, match="has kept its model: leave --models out"):
        handover.hand_over(home, tmp_path / "b.zip", models=True)
    handover.hand_over(home, tmp_path / "b.zip")
    assert b"a secret" not in (tmp_path / "b.zip").read_bytes()


# -- what is not bundled ----------------------------------------------------------------------------------------------


def test_bundle_says_what_it_cannot_do(tree: Path, packed: Path, tmp_path: Path, quick: None) -> None:
    def refused(words: str, source: Path, out: Path) -> None:
        with pytest.raises(UserError, match=words):
            handover.hand_over(source, out)
        assert not out.exists() or out.read_bytes() == b"mine"

    refused("There is no finished run in", tmp_path, tmp_path / "b.zip")
    refused("is a bundle already", packed, tmp_path / "b.zip")
    (tmp_path / "mine.txt").write_bytes(b"mine")
    refused("is there already and is no bundle", tree, tmp_path / "mine.txt")
    with pytest.raises(UserError, match="cannot go into a bundle"):
        bundle.write(tmp_path / "b.zip", {"../x": b""}, {"name": "x"})
    home = Path(shutil.copytree(tree, tmp_path / "runs"))
    next(home.glob("digits/mini/*/record.json")).write_text("{}")
    refused("1 runs in .* cannot be trusted", home, tmp_path / "b.zip")


# -- what is no bundle ------------------------------------------------------------------------------------------------


def rezipped(packed: Path, out: Path, change: dict[str, bytes | None], **options: Any) -> Path:
    """A bundle that somebody has packed again, with other members; bundle.json as it was."""
    with zipfile.ZipFile(packed) as old:
        members = {name: old.read(name) for name in old.namelist()} | change
    with zipfile.ZipFile(out, "w", **options) as new:
        for name, content in members.items():
            if content is not None:
                new.writestr(zipfile.ZipInfo(name) if not options else name, content)
    return out


def listing(packed: Path, **changes: Any) -> bytes:
    with zipfile.ZipFile(packed) as archive:
        return json.dumps({**json.loads(archive.read("bundle.json")), **changes}).encode()


def test_every_way_of_spoiling_a_bundle_has_its_sentence(packed: Path, tmp_path: Path) -> None:
    def refused(words: str, path: Path) -> None:
        bundle._opened.cache_clear()
        with pytest.raises(UserError, match=words) as caught:
            records.load(path)
        assert path.name in str(caught.value)
        assert quiet("table", "--results", str(path))[0] == 2
        assert quiet("audit", str(path))[0] == 2

    b = tmp_path / "b.zip"
    spoilt = lambda change, **options: rezipped(packed, b, change, **options)  # noqa: E731
    refused("has no bundle.json", spoilt({"bundle.json": None}))
    refused("is compressed: something else has packed it", spoilt({}, compression=zipfile.ZIP_DEFLATED))
    refused("no study has a file 'evil.py'", spoilt({"evil.py": b"x"}))
    refused("not those that its bundle.json lists", spoilt({"tables.tex": None}))
    refused("not those that its bundle.json lists", spoilt({"tables/more.md": b"x"}))
    refused("leads out of the folder", spoilt({"../evil": b"x"}))
    refused("holds 'tables/x.md' twice", spoilt({"tables/x.md": b"x", "tables/X.md": b"x"}))
    refused("not of a format that this version knows", spoilt({"bundle.json": b"[]"}))
    refused("lists no files, or has no name", spoilt({"bundle.json": listing(packed, name="\x1b[2J")}))
    refused("says no size and sha256 of 'x'", spoilt({"bundle.json": listing(packed, files={"x": {"bytes": True}})}))
    refused("is no bundle that can be read", spoilt({"bundle.json": b"[" * 100_000}))
    content = read_bytes(packed)
    b.write_bytes(content[:-1])
    refused("it is torn: its end is not that of an archive", b)
    b.write_bytes(content[:-10] + struct.pack("<L", 2**31) + content[-6:])
    refused("table of contents is larger than any bundle's", b)
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(UserError, match="does not begin as one"):
        records.load(tmp_path / "notes.txt")
    assert quiet("status", "--results", str(tmp_path / "notes.txt"))[0] == 2
    with pytest.raises(UserError, match="No such file"):
        bundle.contents(tmp_path / "nothing.zip")


def test_a_member_that_was_changed_is_not_used(packed: Path, tmp_path: Path) -> None:
    content = bytearray(packed.read_bytes())
    place = content.index(b"the trap was there")
    content[place : place + 3] = b"no "
    (tmp_path / "b.zip").write_bytes(content)
    with pytest.raises(UserError, match=r"a member is not what its bundle\.json says it was"):
        records.load(tmp_path / "b.zip")
    header = content.index(b"PK\x03\x04", 10)
    (tmp_path / "c.zip").write_bytes(content[:header] + b"XX" + content[header + 2 :])
    with pytest.raises(UserError, match="a member does not begin where it should"):
        bundle.read_bytes(tmp_path / "c.zip" / min(bundle.contents(packed)))


def test_a_large_bundle_is_read_as_a_small_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form that zip has for 4 GB and more, which a limit of a few bytes brings about."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    bundle.write(tmp_path / "b.zip", {"tables.tex": b"x" * 100, "report.html": b"y" * 100}, {"name": "x"})
    assert b"PK\x06\x06" in (tmp_path / "b.zip").read_bytes()
    assert bundle.read_bytes(tmp_path / "b.zip" / "tables.tex") == b"x" * 100
    monkeypatch.setattr(bundle, "DIRECTORY", 100)
    bundle._opened.cache_clear()
    with pytest.raises(UserError, match="table of contents is larger"):
        bundle.contents(tmp_path / "b.zip")


def test_a_file_that_is_too_large_or_absent_is_an_error_of_the_system(packed: Path) -> None:
    with pytest.raises(OSError, match="more than 10"):
        bundle.read_bytes(packed / "tables.tex", 10)
    with pytest.raises(FileNotFoundError):
        bundle.read_bytes(packed / "nothing.tex")
    assert bundle.names(packed / "nothing") == []
    assert merge.choices(packed) == ["tuned-digits-mini-up.toml"]
