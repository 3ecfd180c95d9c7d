"""A study is a few files: it reads as the tree that it was made from, and gives it back byte for byte."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from benchmark import figures, records, report
from benchmark.__main__ import main
from benchmark.errors import UserError
from benchmark.launch import status
from benchmark.records import artifacts, audit, study
from benchmark.records.track import export
from benchmark.report import publish, verify
from tests.synthetic import write_run, write_study

RUN_FILES = ("spec.json", "curve.jsonl", "record.json")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs of two suites, one with arrays, and a failed run, which is no part of a study."""
    root = tmp_path_factory.mktemp("tree")
    write_study(root, ["source-only:bn", "dann", "tsvdnet"], seeds=[0, 1], targets=["mm", "sv"])
    write_run(root, "tsvdnet", "mt", artifacts=True)
    write_run(root, "dann", "C", suite="pacs")
    write_run(root, "mcd", "up", status="failed")
    return root


@pytest.fixture(scope="module")
def packed(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("studies") / "first"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publish, "render", lambda study: [])  # pictures take long, and have their own tests
        publish.publish(tree, home, artifacts=["tsvdnet@mt"])
    return home


@pytest.fixture
def unrendered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "render", lambda study: [])


@pytest.fixture
def copy(packed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(packed, tmp_path / "first"))


def contents(root: Path, names: tuple[str, ...] = (*RUN_FILES, "artifacts.npz")) -> dict[str, bytes]:
    found = (p for p in root.glob("*/*/*/*") if p.name in names and (p.parent / "record.json").exists())
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in found}


def done(root: Path) -> pd.DataFrame:
    frame = records.load(root)
    return frame[frame.status == "done"].drop(columns="path").reset_index(drop=True)


def test_a_study_loads_as_the_tree_it_was_made_from(tree: Path, packed: Path) -> None:
    assert len(done(tree)) == 14
    pd.testing.assert_frame_equal(done(packed), done(tree), check_dtype=False)
    assert not list(packed.glob("*/*/*/record.json"))


def test_unpacking_gives_back_every_byte(tree: Path, packed: Path, tmp_path: Path) -> None:
    assert main(["unpack", str(packed), "--out", str(tmp_path / "again")]) == 0
    assert contents(tmp_path / "again") == contents(tree)
    assert audit.audit(tmp_path / "again").runs == 14


def test_every_run_reads_alike_in_both(tree: Path, packed: Path) -> None:
    for entry in records.run_directories(packed):
        there, here = Path(entry.path), tree / Path(entry.path).relative_to(packed)
        one, two = records.read(there), records.read(here)
        assert one is not None
        assert two is not None
        assert one.document == two.document
        assert one.curve == two.curve != []
        assert one.changed_files() == []
        first, second = artifacts.read(there), artifacts.read(here)
        assert first.keys() == second.keys()
        assert all(np.array_equal(first[name], second[name]) for name in first)


def test_tables_figures_and_exports_are_those_of_the_tree(tree: Path, packed: Path, tmp_path: Path) -> None:
    assert publish.rendered(packed) == publish.rendered(tree)
    drawn = [figures.draw("uncertainty", records.load(root), "digits", target="mt") for root in (tree, packed)]
    assert drawn[0].caption == drawn[1].caption
    assert len(pd.read_csv(export.write(packed, "csv", tmp_path / "runs.csv"))) == 14


def test_status_and_audit_see_the_runs_of_a_study(tree: Path, packed: Path) -> None:
    seen = {s.run_id: s for s in status.states(packed)}
    assert {s.state for s in seen.values()} == {"done"}
    assert {s.name for s in seen.values()} == {"source-only:bn", "dann", "tsvdnet"}
    assert audit.audit(packed).runs == len(seen) == 14
    kinds = lambda root: sorted((f.kind, f.words) for f in audit.audit(root).findings)  # noqa: E731
    assert kinds(packed) == kinds(tree)
    one = next(iter(seen.values())).path
    assert audit.audit(Path(one)).runs == 1


def test_a_second_publish_changes_nothing_and_other_order_gives_the_same_bytes(
    tree: Path, packed: Path, tmp_path: Path, unrendered: None
) -> None:
    before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in packed.glob("*.parquet")}
    assert set(before) == set(study.PARTS)
    publish.publish(tree, packed)  # arrays that are there stay, asked for or not
    assert {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in packed.glob("*.parquet")} == before
    runs = [p.parent for p in tree.glob("*/*/*/record.json")]
    publish.pack(tmp_path, reversed(runs), {str(r) for r in runs if (r / "artifacts.npz").exists()})
    assert {p.name: p.read_bytes() for p in tmp_path.glob("*")} == {
        name: content for name, (content, _) in before.items()
    }


def test_a_study_grows_by_what_is_new(copy: Path, tmp_path: Path, unrendered: None) -> None:
    write_run(tmp_path / "more", "mcd", "mm")
    publish.publish(tmp_path / "more", copy)
    assert len(records.load(copy)) == 15
    assert sum("artifacts.npz" in study.names(p.path) for p in study.places(copy)) == 1, "arrays that were there stay"
    assert json.loads((copy / "study.json").read_text())["runs"] == 15


def test_runs_beside_a_study_are_seen_with_it(copy: Path) -> None:
    write_run(copy, "mcd", "mm")
    assert len(records.load(copy)) == 15
    assert audit.audit(copy).runs == 15


def test_the_columns_are_plain_for_anybody_s_pandas(tree: Path, packed: Path) -> None:
    plain = pd.read_parquet(packed / "records.parquet", columns=list(study.COLUMNS)).set_index("run_id")
    ours = done(tree).set_index("run_id").loc[plain.index]
    for column in plain:
        assert (plain[column] == ours[column]).all(), column


def test_a_study_says_first_what_it_lacks(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], unrendered: None
) -> None:
    words = "five seeds of MCD & <two> of DAN are missing."
    request = ["publish", "part", "--results", str(tree), "--studies", str(tmp_path)]
    assert main([*request, "--incomplete", words]) == 0
    home = tmp_path / "part"
    texts = {name: content.decode() for name, content in publish.rendered(home).items()}
    latex = texts.pop("tables.tex")
    assert len(texts) > 5
    for text in texts.values():
        assert "Incomplete study: five seeds of MCD" in text.splitlines()[0]
    assert latex.count("Incomplete study: five seeds of MCD") >= len(texts)  # once more where a table goes on
    page = report.render(records.load(home))
    place = page.index("Incomplete study: five seeds of MCD &amp; &lt;two&gt; of DAN")
    assert page.index("<h1>") < place < page.index('id="summary"')
    assert main(["table", "--kind", "verdicts", "--results", str(home)]) == 0
    assert "Incomplete study" in capsys.readouterr().out
    assert main(request) == 0  # whole now
    assert "incomplete" not in records.load(home).attrs
    assert "Incomplete study" not in report.render(records.load(home))


@pytest.mark.parametrize("words", ["two\nlines", "\x1b[2J", "x" * 1001])
def test_what_is_missing_is_one_plain_sentence(tree: Path, tmp_path: Path, words: str) -> None:
    with pytest.raises(UserError, match="takes one plain sentence"):
        publish.publish(tree, tmp_path / "part", incomplete=words)


def test_a_study_of_an_older_protocol_keeps_the_tables_it_was_published_with(tmp_path: Path) -> None:
    write_study(tmp_path / "runs", ["dann", "source-only"], seeds=[0, 1], protocol=1)
    home = tmp_path / "old"
    documents = publish.pack(home, [Path(p) for p in records.load(tmp_path / "runs").path])
    table = home / "tables" / "digits-mini-comparison.md"
    table.parent.mkdir()
    table.write_text("as it was rendered then\n", encoding="utf-8")
    assert [f.what for f in verify.published(home) if not f.same] == ["old/tables/digits-mini-comparison.md"]
    study.describe(home, documents)
    sealed, kept = verify.published(home)
    assert sealed.same
    assert sealed.words.startswith("20 records, each")
    assert kept.same
    assert kept.words == "as published under protocol 1; the suites have moved on since"
    table.unlink()
    assert [f.words for f in verify.published(home) if not f.same] == ["not as published"]


def test_a_broken_seal_in_a_study_is_found_by_all_who_look(copy: Path) -> None:
    rows = list(study.stored(copy).values())
    victim = rows[3]["run_id"]

    def spoil(row: dict[str, object]) -> dict[str, object]:
        return (
            {**row, "record.json": row["record.json"].replace(b'"cost"', b'"cOst"')} if row["run_id"] == victim else row
        )

    (copy / "records.parquet").write_bytes(study._packed("records.parquet", [spoil(r) for r in rows]))
    frame = records.load(copy).set_index("run_id")
    assert frame.loc[victim, "status"] == "damaged"
    assert (frame.status == "damaged").sum() == 1
    assert [f.what for f in verify.published(copy) if victim in f.what and not f.same]
    assert any(victim in f.path and f.kind == "damaged" and not f.repair for f in audit.audit(copy).findings)


def test_a_curve_that_is_not_the_sealed_one_is_found(copy: Path) -> None:
    rows = list(study.stored(copy, "curves.parquet").values())
    rows[0]["curve.jsonl"] = rows[1]["curve.jsonl"]
    (copy / "curves.parquet").write_bytes(study._packed("curves.parquet", rows))
    wrong = [f for f in verify.published(copy) if not f.same]
    assert wrong[0].words == "curve.jsonl: not what the record was sealed with"
    with pytest.raises(UserError, match=r"curve\.jsonl of .* changed after the run"):
        publish.publish(copy, copy.parent / "second")


def test_a_column_that_flatters_a_record_is_found(copy: Path) -> None:
    rows = list(study.stored(copy).values())
    (copy / "records.parquet").write_bytes(study._packed("records.parquet", [{**rows[0], "last": 99.9}, *rows[1:]]))
    frame = records.load(copy)
    assert "the study's column last says otherwise" in frame.reason[frame.status == "damaged"].iloc[0]
    assert any("column last" in f.words for f in audit.audit(copy).findings)


def test_unpack_says_what_it_cannot_do(packed: Path, tree: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no published study"):
        study.unpack(tree, tmp_path / "out")
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="is there already and not empty"):
        study.unpack(packed, tmp_path)
    with pytest.raises(UserError, match="is there already and not empty"):
        study.unpack(packed, tmp_path / "mine.txt")


def test_more_than_a_study_can_hold_is_refused_before_it_is_written(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "LARGEST", 10_000)
    with pytest.raises(UserError, match="more than a study can"):
        publish.publish(tree, tmp_path / "large")
    assert not (tmp_path / "large" / "records.parquet").exists()


@pytest.mark.parametrize("folder", ["my small", "ψηφία"])
def test_a_folder_that_no_study_can_name_is_refused_before_anything_is_written(
    tree: Path, tmp_path: Path, folder: str
) -> None:
    run = next(tree.glob("digits/mini/*/record.json")).parent
    row = {**study.columns(json.loads((run / "record.json").read_text()), run), "suite": folder}
    with pytest.raises(UserError, match=f"Runs in a folder '{folder}' cannot go into a study"):
        study.pack(tmp_path / "home", [(row, {name: (run / name).read_bytes() for name in RUN_FILES})])
    assert not (tmp_path / "home").exists()


def test_a_study_is_smaller_than_its_tree(tree: Path, packed: Path) -> None:
    size: Callable[[Path, str], int] = lambda root, names: sum(p.stat().st_size for p in root.rglob(names))  # noqa: E731
    whole = sum(len(content) for content in contents(tree, RUN_FILES).values())
    assert size(packed, "records.parquet") + size(packed, "curves.parquet") < whole / 4
    assert pq.ParquetFile(packed / "curves.parquet").metadata.num_rows == 14
