"""What the project publishes is what its records say: tables, and the texts that quote them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark import records
from benchmark.errors import UserError
from benchmark.records import artifacts
from benchmark.report import publish, verify
from benchmark.spec import RunSpec, load_suite
from methods.contract import method_revision
from tests.synthetic import write_study

ROOT = Path(__file__).resolve().parents[2]
STUDIES = sorted(p.parent for p in ROOT.glob("results/*/records.parquet"))


@pytest.mark.parametrize("study", STUDIES, ids=lambda p: p.name)
def test_every_published_record_is_sealed_and_every_table_is_its_own(study: Path):
    assert [f for f in verify.published(study) if not f.same] == []
    assert (records.load(study)["status"] == "done").all()


@pytest.mark.parametrize("study", STUDIES, ids=lambda p: p.name)
def test_every_table_of_gains_has_its_picture(study: Path):
    tables = {p.stem for p in study.glob("tables/*-gains*.md")}
    assert tables == {p.stem for p in study.glob("figures/*-gains*.png")}


def test_the_texts_quote_what_was_published():
    assert [f for f in verify.texts(ROOT / "results") if not f.same] == []


def test_publishing_fills_the_texts_and_an_old_quote_is_noticed(tmp_path: Path):
    study = tmp_path / "results" / "first"
    name = "results/first/tables/digits-mini-comparison.md"
    readme = tmp_path / "README.md"
    readme.write_text(f"Before.\n<!-- from {name} -->\nold\n<!-- end -->\nAfter.\n", encoding="utf-8")
    write_study(study, ["source-only", "dann"])
    publish.render(study)
    text = readme.read_text(encoding="utf-8")
    assert (tmp_path / name).read_text(encoding="utf-8").strip() in text
    assert text.startswith("Before.\n")
    assert text.endswith("<!-- end -->\nAfter.\n")
    assert verify.texts(tmp_path / "results")[0].same
    readme.write_text(text.replace("DANN", "DANNN"), encoding="utf-8")
    assert not verify.texts(tmp_path / "results")[0].same


def test_a_quote_of_nothing_is_an_error(tmp_path: Path):
    with pytest.raises(UserError, match=r"quotes results/none\.md, which is not there"):
        publish.quoted("<!-- from results/none.md -->\n<!-- end -->", tmp_path)


def test_arrays_are_kept_of_the_rows_that_are_named(tmp_path: Path):
    write_study(tmp_path / "runs", ["dann", "tsvdnet"], targets=["mm", "sv"], seeds=[0], artifacts=True)
    write_study(tmp_path / "runs", ["dann"], targets=["mm"], seeds=[0], artifacts=True, overrides={"weight": 0.5})
    found = records.load(tmp_path / "runs")

    def kept(*names: str) -> list[str]:
        study = tmp_path / ("study" + "".join(names).replace("@", "-"))
        publish.pack(study, map(Path, found.path), publish.with_artifacts(found, names))
        packed = records.load(study)
        runs = packed[[bool(artifacts.read(Path(path))) for path in packed.path]]
        return sorted(runs.method + "@" + runs.target)

    assert kept() == []
    assert kept("tsvdnet@mm") == ["tsvdnet@mm"]
    assert kept("dann", "tsvdnet@sv") == ["dann@mm", "dann@sv", "tsvdnet@sv"]  # the method as it comes, once
    assert len(kept("all")) == 5
    with pytest.raises(UserError, match="--artifacts mcd: there is no such finished run"):
        kept("mcd")


def test_every_published_run_of_this_protocol_has_the_identity_of_its_spec():
    checked = 0
    for study in STUDIES:
        for path in map(Path, records.load(study)["path"]):
            record = records.read(path)
            spec = RunSpec.from_json(record["spec"])
            same = (record["protocol"], record["revision"]) == (
                load_suite(spec.suite).protocol,
                method_revision(spec.method),
            )
            if same:
                assert spec.run_id == record.run_id
                checked += 1
    assert checked or not (ROOT / "results" / "study" / "records.parquet").exists()
