"""Results of several people in one study: halves make the whole, conflicts are named, forgeries refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmark import records
from benchmark.__main__ import main
from benchmark.errors import UserError
from benchmark.records import audit, bundle, study
from benchmark.records.merge import MERGED, merge, pack
from benchmark.records.selection import accuracies
from benchmark.report import handover, publish
from tests.forge import forge
from tests.quiet import quiet
from tests.records.test_bundle import PUBLISHED, draw_nothing
from tests.synthetic import write_run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten real runs, as their folders: the study grows."""
    root = tmp_path_factory.mktemp("whole") / "whole"
    study.unpack(PUBLISHED, root)
    for record in sorted(root.glob("*/*/*/record.json"))[10:]:
        shutil.rmtree(record.parent)
    return root


@pytest.fixture
def halves(whole: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Every second run in a tree of its own; one run is in both."""
    runs = sorted(p.parent for p in whole.glob("*/*/*/record.json"))
    for name, part in (("a", runs[::2]), ("b", [*runs[1::2], runs[0]])):
        for run in part:
            shutil.copytree(run, tmp_path / name / run.relative_to(whole))
    return tmp_path / "a", tmp_path / "b"


def hashes(root: Path) -> dict[str, str]:
    found = (records.read(Path(run.path)) for run in records.run_directories(root))
    return {record.run_id: record["hashes"]["record"] for record in found if record}


# -- halves -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tree", "study", "bundle"])
def test_two_halves_make_the_whole(
    halves: tuple[Path, Path], whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    draw_nothing(monkeypatch)
    one, two = halves
    if kind == "study":
        pack(tmp_path / "s", records.load(two).path)
        two = tmp_path / "s"
    elif kind == "bundle":
        two = handover.hand_over(two, tmp_path / "b.zip").path
    made = merge([one, two], tmp_path / "out")
    assert (made.runs, made.twice, made.left) == (10, 1, 0)
    assert hashes(tmp_path / "out") == hashes(whole)
    pack(tmp_path / "packed", records.load(whole).path)
    for file in ("records.parquet", "curves.parquet"):
        assert (tmp_path / "out" / file).read_bytes() == (tmp_path / "packed" / file).read_bytes()
    assert publish.rendered(tmp_path / "out") == publish.rendered(whole)
    assert audit.audit(tmp_path / "out").sound == 10


def test_where_every_run_came_from_is_kept(
    halves: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_nothing(monkeypatch)
    theirs = handover.hand_over(halves[1], tmp_path / "theirs.zip").path
    assert main(["merge", str(halves[0]), str(theirs), "--out", str(tmp_path / "out")]) == 0
    told = json.loads((tmp_path / "out" / MERGED).read_text())
    first, second = told["sources"]
    assert (first["name"], first["kind"], first["runs"]) == ("a", "tree", 5)
    assert (second["name"], second["kind"], second["runs"]) == ("b", "bundle", 6)
    assert second["sha256"] == records.file_hash(theirs)
    assert second["code"] == bundle.about(theirs)["code"]
    assert second["commits"] == sorted(set(records.load(theirs).commit))
    assert sorted(map(tuple, told["runs"].values())) == [(0,)] * 4 + [(0, 1)] + [(1,)] * 5
    # it goes along: into a bundle, through another merge, into a published study
    again = handover.hand_over(tmp_path / "out", tmp_path / "again.zip").path
    assert study.read_object(again / MERGED) == told
    merge([again, halves[0]], tmp_path / "more")
    assert study.read_object(tmp_path / "more" / MERGED)["sources"][0]["merged"] == told["sources"]
    monkeypatch.setattr(publish, "render", lambda study: [])
    publish.publish(tmp_path / "out", tmp_path / "published")
    assert study.read_object(tmp_path / "published" / MERGED) == told


def test_what_a_study_lacks_is_still_said(whole: Path, tmp_path: Path) -> None:
    merge([PUBLISHED.with_name("bits"), whole], tmp_path / "out")
    assert study.missing(tmp_path / "out") == study.missing(PUBLISHED.with_name("bits")) != ""


def test_runs_that_are_not_done_are_left_out_and_counted(
    halves: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(halves[0], status="failed")
    assert main(["merge", *map(str, halves), "--out", str(tmp_path / "out")]) == 0
    assert "10 runs from 2 sources" in (said := capsys.readouterr().out)
    assert "1 that are not done were left out" in said
    assert main(["merge", *map(str, halves), "--out", str(tmp_path / "again"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["twice"] == 1


def test_trials_choices_and_models_come_along(halves: tuple[Path, Path], tmp_path: Path) -> None:
    one, two = halves
    shutil.copytree(two, two / ".tuning")
    (one / "tuned-x.toml").write_text("x = 1\n")
    run = next(two.glob("*/*/*/record.json")).parent
    (run / "model-last.safetensors").write_bytes(b"weights")
    told = {kind: {"update": 1, "weights": "0" * 64} for kind in ("running", "target")}
    sealed = {"last": {"sha256": hashlib.sha256(b"weights").hexdigest(), **told}}
    forge(run, lambda document: document.update(models=sealed))
    merge(halves, tmp_path / "out")
    assert len(records.load(tmp_path / "out" / "trials")) == 6
    assert (tmp_path / "out" / "tuned-x.toml").read_text() == "x = 1\n"
    kept = tmp_path / "out" / run.relative_to(two) / "model-last.safetensors"
    assert kept.read_bytes() == b"weights"
    assert audit.audit(tmp_path / "out").runs == 16, "the run beside whose packed record the model lies counts once"
    assert len(records.load(tmp_path / "out")) == 10
    study.unpack(tmp_path / "out", tmp_path / "tree")
    assert (tmp_path / "tree" / run.relative_to(two) / "model-last.safetensors").read_bytes() == b"weights"


def test_another_machine_and_another_hour_are_no_conflict(halves: tuple[Path, Path], tmp_path: Path) -> None:
    run = next(p for p in sorted(halves[1].glob("*/*/*")) if (halves[0] / p.relative_to(halves[1])).exists())

    def elsewhere(document: dict[str, Any]) -> None:
        document["provenance"]["hardware"] = "an abacus"
        document["cost"]["seconds"] = 1.0

    forge(run, elsewhere)
    assert merge(halves, tmp_path / "out").twice == 1
    assert hashes(tmp_path / "out")[run.name] == hashes(halves[0])[run.name], "the one that was named first stands"


# -- conflicts --------------------------------------------------------------------------------------------------------


def worse(row: dict[str, Any]) -> None:
    row["target"] = 1.0


def test_a_run_with_two_results_is_a_conflict_that_is_named_and_nothing_is_written(
    halves: tuple[Path, Path], tmp_path: Path
) -> None:
    run = next(p for p in sorted(halves[1].glob("*/*/*")) if (halves[0] / p.relative_to(halves[1])).exists())

    def follows(document: dict[str, Any]) -> None:
        document["accuracy"] = {
            k: v for k, v in accuracies(records.read_curve(run)).items() if k in document["accuracy"]
        }

    forge(run, follows, worse)
    spec = json.loads((run / "record.json").read_text())["spec"]
    assert audit.audit(halves[1]).sound == 6, "each by itself can be believed"
    code, said = quiet("merge", *map(str, halves), "--out", str(tmp_path / "out"))
    said = " ".join(said.split())
    assert code == 2
    assert f"run {run.name} ({spec['method']} →" in said
    assert "differ in accuracy, curve" in said
    assert f"{halves[0]}/" in said
    assert f"{halves[1]}/" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_choices_that_differ_are_a_conflict(halves: tuple[Path, Path], tmp_path: Path) -> None:
    for i, half in enumerate(halves):
        (half / "tuned-x.toml").write_text(f"x = {i}\n")
    with pytest.raises(UserError, match=r"tuned-x\.toml of .* is not that of a source before it"):
        merge(halves, tmp_path / "out")


# -- forgeries --------------------------------------------------------------------------------------------------------


def better(document: dict[str, Any]) -> None:
    document["accuracy"]["last"] = 99.0


def better_with_target_statistics(document: dict[str, Any]) -> None:
    document["statistics"]["target"]["accuracy"]["last"] = 99.0


def another_spec(run: Path) -> None:
    spec = {**json.loads((run / "spec.json").read_text()), "seed": 77}
    (run / "spec.json").write_text(json.dumps(spec))
    forge(run, lambda d: d.update(spec=spec, hashes={**d["hashes"], "spec": records.file_hash(run / "spec.json")}))


def changed(run: Path) -> None:
    path = run / "record.json"
    document = json.loads(path.read_text())
    better(document)
    path.write_text(json.dumps(document))


def another_curve(run: Path) -> None:
    rows = records.read_curve(run)
    worse(rows[-1])
    records.write_curve(run, rows)


FORGERIES: list[tuple[Callable[[Path], None], str]] = [
    (changed, "its content does not match its own hash"),
    (another_curve, r"curve\.jsonl is not the file that the record was made from"),
    (lambda run: forge(run, better), "its accuracies are not those of its curve"),
    (
        lambda run: forge(run, better_with_target_statistics),
        "its accuracies with target statistics are not those of its curve",
    ),
    (lambda run: forge(run, lambda d: None, worse), "its accuracies are not those of its curve"),
    (another_spec, "its run_id is not the hash of its spec"),
]


@pytest.mark.parametrize("forgery, words", FORGERIES, ids=[words for _, words in FORGERIES])
def test_a_strangers_forgery_is_refused_with_a_sentence(
    halves: tuple[Path, Path], tmp_path: Path, forgery: Callable[[Path], None], words: str
) -> None:
    forgery(next(halves[1].glob("*/*/*/record.json")).parent)
    with pytest.raises(UserError, match=rf"is refused: .*{words}"):
        merge(halves, tmp_path / "out")
    assert quiet("audit", str(halves[1]))[0] == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_a_forgery_is_refused_in_a_bundle_and_what_breaks_a_seal_is_not_even_packed(
    halves: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_nothing(monkeypatch)
    run = next(halves[1].glob("*/*/*/record.json")).parent
    forge(run, better)
    theirs = handover.hand_over(halves[1], tmp_path / "b.zip").path
    with pytest.raises(UserError, match=r"b\.zip is refused: .*b\.zip/.* its accuracies are not those of its curve"):
        merge([halves[0], theirs], tmp_path / "out")
    another_curve(run)
    with pytest.raises(UserError, match=r"curve\.jsonl of .* changed after the run"):
        handover.hand_over(halves[1], tmp_path / "c.zip")
    (run / "record.json").write_text("{}")
    with pytest.raises(UserError, match="cannot be trusted"):
        handover.hand_over(halves[1], tmp_path / "c.zip")
    assert not (tmp_path / "c.zip").exists()


def test_a_forged_trial_is_refused_too(halves: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(halves[1], halves[1] / ".tuning")
    forge(next((halves[1] / ".tuning").glob("*/*/*/record.json")).parent, better)
    with pytest.raises(UserError, match=r"is refused: .*\.tuning"):
        merge(halves, tmp_path / "out")


def test_merge_says_what_it_cannot_do(halves: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="puts two or more results together"):
        merge(halves[:1], tmp_path / "out")
    with pytest.raises(UserError, match="is there already and not empty"):
        merge(halves, tmp_path)
    write_run(tmp_path / "failed", status="failed")
    with pytest.raises(UserError, match="holds no finished run to merge"):
        merge([halves[0], tmp_path / "failed"], tmp_path / "out")
    with pytest.raises(UserError, match="There is no folder"):
        merge([halves[0], tmp_path / "nothing"], tmp_path / "out")


@pytest.mark.parametrize("verb", ["merge", "unpack"])
def test_a_folder_that_cannot_be_replaced_is_said_before_the_work(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr("benchmark.records.merge.audit", work)
    monkeypatch.setattr(study, "places", work)
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "dead").symlink_to("nothing")
    monkeypatch.chdir(tmp_path / "empty")
    sources = [str(PUBLISHED)] * (2 if verb == "merge" else 1)
    for out, words in ((".", "is the folder you stand in"), ("../link", "is a link"), ("../dead", "is a link")):
        code, said = quiet(verb, *sources, "--out", out)
        assert (code, words in said, "Name a new folder: --out FOLDER" in " ".join(said.split())) == (2, True, True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dead", "empty", "link"]
