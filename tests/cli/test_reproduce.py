"""`reproduce` as a user meets it: what a table needs is run, once, and stands beside the printed numbers, cell by cell."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmark import records, tables
from benchmark.__main__ import main
from benchmark.cli.parts import session
from benchmark.launch.local import Outcome
from benchmark.paper import answers, folders, wanted
from benchmark.spec import RunSpec
from tests.synthetic import write_run
from tests.tiny import ARGUMENTS


def write(results: Path, spec: RunSpec, **fields: Any) -> None:
    """A finished run with the identity of a planned one."""
    write_run(
        results, spec.method, spec.target, spec.seed, suite=spec.suite, tier=spec.tier, preset=spec.preset,
        standard=spec.standard, sources=spec.sources, split=spec.split, overrides=dict(spec.overrides),
        fingerprint=spec.data, run_id=spec.run_id, **fields,
    )  # fmt: skip


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[RunSpec]:
    """A launcher that trains nothing: it writes the records, and notes what it was asked for."""
    asked: list[RunSpec] = []

    def launch(specs: Sequence[RunSpec], *, results: Path, **_: Any) -> Outcome:
        asked.extend(specs)
        for spec in specs:
            write(results, spec, artifacts=spec.target in ("mm", "C") and spec.standard == "multi-source")
        return Outcome(done=[spec.run_id for spec in specs])

    monkeypatch.setattr(session, "launch", launch)
    return asked


def say(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["reproduce", *words]) == code
    return capsys.readouterr().out


def test_table_4_ends_with_ours_beside_printed_in_all_its_cells(
    tmp_path: Path, launched: list[RunSpec], capsys: pytest.CaptureFixture[str]
):
    words = ["table4", "--tier", "mini", "--results", str(tmp_path)]
    document = json.loads(say(capsys, *words, "--json"))
    assert len(launched) == 35
    (item,) = document["items"]
    assert (item["done"], item["total"]) == (35, 35)
    frame = records.load(tmp_path)
    table = tables.reproduction(frame, 4)
    lines = {(row.block, row.cells[0].detail or row.cells[0].words): row.cells[1:7] for row in table.rows}
    assert [column.key for column in table.columns[1:7]] == ["mm", "mt", "up", "sv", "syn", "Avg"]
    assert [cell.value for cell in lines["T-SVDNet (+E)", "printed"]] == [73.85, 98.96, 97.87, 77.86, 92.44, 88.19]
    for row in answers.rows(4):
        there = lines[row.row, "printed"]
        for name in row.answers:
            ours = lines[row.row, name]
            assert all(cell.measured for cell in ours)
            own = frame[(frame.method + ":" + frame.preset.fillna("")).str.rstrip(":") == name].set_index("target")
            assert ours[0].value == pytest.approx(own["last"]["mm"])  # as the loop left it: the paper's statistics
        differences = [r.cells[1:7] for r in table.rows if r.block == row.row and r.cells[0].words == "ours − printed"]
        assert differences[0][0].value == pytest.approx(lines[row.row, row.answers[0]][0].value - there[0].value)
        assert {cell.words for cell in lines[row.row, "verdict"]} == {"direction only"}
    claims = {v["id"]: v["answer"] for v in item["verdicts"]}
    assert claims["tensor-adds-four"] == "not seen at this tier"  # one seed
    assert all(Path(file).is_file() for file in item["files"])

    text = say(capsys, *words)  # a second time nothing is run
    assert len(launched) == 35
    assert "35 done already, 0 to do" in text
    assert "ours − printed" in text
    assert "Table 4 (Digits-Five): ours below printed" in text
    assert "tsvdnet-mini-table4.csv" in text


def test_verdicts_of_cells_are_given_at_tier_paper(tmp_path: Path):
    for seed in range(3):
        write_run(
            tmp_path, "source-only", "mm", seed, tier="paper", split="all", accuracy=67.2 + seed / 20, generated=()
        )
        write_run(tmp_path, "tsvdnet", "mm", seed, tier="paper", split="all", accuracy=50.0 + seed / 20, generated=())
    table = tables.reproduction(records.load(tmp_path), 4)
    lines = {(row.block, row.cells[0].words): row.cells for row in table.rows}
    assert lines["Source-Only", "verdict"][1].words == "reproduced"
    assert lines["T-SVDNet (+E+T+U)", "verdict"][1].words == "differs"
    assert lines["T-SVDNet (+E+T+U)", "verdict"][2].words == "not measured"
    assert {cell.words for cell in lines["T-SVDNet (+E)", "tsvdnet:e"][1:7]} == {"not run"}
    assert "Cells: 10 not measured" in table.sentences


def test_a_printed_row_that_nothing_of_ours_answers_stands_there_with_its_reason(tmp_path: Path):
    folder = tmp_path / "other"
    shutil.copytree(folders.DEFAULT, folder)
    text = (folder / "rows.toml").read_text()
    (folder / "rows.toml").write_text(text.replace('MDDA = ["mdda"]', 'MDDA = "no such method here"'))
    write_run(tmp_path / "runs", "dctn", "A", 0, suite="pacs")
    table = tables.reproduction(records.load(tmp_path / "runs"), 2, folder)
    rows = [row for row in table.rows if row.block == "MDDA"]
    assert [row.cells[0].words for row in rows] == ["printed", "–"]
    assert {cell.words for cell in rows[1].cells} == {"–"}
    assert rows[1].notes == ("Nothing of ours answers MDDA: no such method here.",)


def test_a_figure_is_drawn_into_the_results_with_the_claims_about_it(
    tmp_path: Path, launched: list[RunSpec], capsys: pytest.CaptureFixture[str]
):
    text = say(capsys, "figure3", "--seeds", "0-2", "--results", str(tmp_path))
    assert len(launched) == 6
    assert "Figure 3: tensor nuclear norm and accuracy over training" in text
    assert "(Figure 3; The effect of TLR constraint)" in " ".join(text.split())
    for suffix in ("png", "pdf"):
        assert (tmp_path / "figures" / f"tsvdnet-mini-figure3.{suffix}").stat().st_size > 1000


def test_all_that_is_asked_for_is_shown_and_shared_runs_are_run_once(
    tmp_path: Path, launched: list[RunSpec], capsys: pytest.CaptureFixture[str]
):
    document = json.loads(say(capsys, "all", "--tier", "mini", "--results", str(tmp_path), "--json"))
    assert len(launched) == len({spec.run_id for spec in launched}) == 490
    assert [item["item"] for item in document["items"]] == [
        "table1", "table2", "table3", "table4", "figure3", "figure4", "figure5", "figure6",
    ]  # fmt: skip
    assert all(item["done"] == item["total"] and "problem" not in item for item in document["items"])


def test_one_figure_for_real_from_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = say(capsys, "figure6", "--results", str(tmp_path), "--workers", "1", *ARGUMENTS)
    assert "1 runs, 0 done already" in text
    assert (tmp_path / "figures" / "tsvdnet-mini-figure6.png").is_file()
    (row,) = records.load(tmp_path).itertuples()
    assert (row.method, row.target, row.split, row.status) == ("tsvdnet", "mm", "all", "done")


def test_a_dry_run_lists_every_run_with_its_gpu_hours_and_needs_no_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = ["all", "--tier", "paper", "--dry-run", "--results", str(tmp_path / "none"), "--data-root", str(tmp_path)]
    text = say(capsys, *words)
    lines = text.splitlines()
    assert sum(" GPU h  " in line for line in lines) == 490
    assert "digits part  single-best  dann → mm from sv seed 0  absent" in text
    assert any(line.startswith("digits all  multi-source  tsvdnet → mm seed 0") for line in lines)
    assert "figure3: 2 runs, 2 to do," in text
    assert "figure6: 1 run, 1 to do," in text
    assert "digits is counted without its data." in text
    assert not (tmp_path / "none").exists()
    document = json.loads(say(capsys, *words, "--json"))
    assert document["total"] == len(document["runs"]) == 490
    assert document["hours"] == pytest.approx(sum(run["hours"] for run in document["runs"]))
    shared = next(r for r in document["runs"] if (r["method"], r["split"], r["target"]) == ("tsvdnet", "all", "mm"))
    assert shared["for"] == ["table1", "table4", "figure5", "figure6"]
    assert document["items"]["table3"]["hours"] > document["items"]["table1"]["hours"]


def test_what_is_done_costs_nothing(tmp_path: Path, launched: list[RunSpec], capsys: pytest.CaptureFixture[str]):
    say(capsys, "figure6", "--results", str(tmp_path))
    assert "1 run, 0 to do, 0 core hours" in say(capsys, "figure6", "--results", str(tmp_path), "--dry-run")


def test_failed_runs_do_not_hide_the_other_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def launch(specs: Sequence[RunSpec], *, results: Path, **_: Any) -> Outcome:
        for spec in specs:
            write(results, spec, status="failed" if spec.suite == "pacs" else "done", artifacts=True)
        return Outcome(failed={spec.run_id: "NotFinite" for spec in specs if spec.suite == "pacs"})

    some = [wanted.items()[name] for name in ("table2", "figure4", "figure6")]
    monkeypatch.setattr(wanted, "chosen", lambda *_: some)
    monkeypatch.setattr(session, "launch", launch)
    capsys.readouterr()
    assert main(["reproduce", "all", "--results", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "Table 2 cannot be shown. None of the 24 runs of suite pacs" in err
    assert "Figure 4 cannot be shown." in err
    assert "tsvdnet-mini-figure6.png" in out


def test_an_interruption_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(session, "launch", lambda *_, **__: Outcome(interrupted=True))
    text = say(capsys, "figure6", "--results", str(tmp_path), "--json", code=130)
    assert json.loads(text)["items"] == []


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["table9"], "There is no table or figure 'table9'."),
        (["table4", "--paper", "tsvd"], "There is no paper 'tsvd'. Did you mean 'tsvdnet'?"),
        (["table4", "--executor", "cloud"], "There is no executor 'cloud'."),
        (["table4", "--set", "tsvdnet.lam=1"], "--set tsvdnet.lam=1 would change a method"),
        (["table4", "--executor", "slurm"], "--executor slurm needs a cluster profile"),
    ],
)
def test_mistakes_are_sentences(words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["reproduce", *words, "--results", str(tmp_path)]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
