"""The verbs table, figure, report, export: what they print, write and answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmark.__main__ import main
from tests.synthetic import write_run, write_study


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("look")
    write_study(root, ["source-only", "tsvdnet", "tsvdnet:e"])
    return root


def test_table_prints_the_comparison(results: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["table", "--results", str(results)]) == 0
    text = capsys.readouterr().out
    assert "Digits-Five: target accuracy in %, tier mini, selection last" in text
    assert "T-SVDNet" in text


@pytest.mark.parametrize(
    "format, sign", [("markdown", "|:--"), ("latex", r"\toprule"), ("csv", "block,method"), ("html", "<!doctype html>")]
)
def test_table_prints_each_format(results: Path, capsys: pytest.CaptureFixture[str], format: str, sign: str):
    assert main(["table", "--results", str(results), "--suite", "digits", "--format", format]) == 0
    assert sign in capsys.readouterr().out


def test_table_writes_every_form(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["table", "--results", str(results), "--kind", "ablation", "--out", str(tmp_path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f"digits-mini-ablation.{s}" for s in ("csv", "html", "md", "tex")
    ]


def test_table_shows_the_rows_asked_for(results: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["table", "--results", str(results), "--methods", "tsvdnet,adabn", "--format", "csv"]) == 0
    text = capsys.readouterr().out
    assert "AdaBN" in text
    assert "T-SVDNet:e" not in text
    assert "Multi-Source,Source-Only," not in text
    assert main(["table", "--results", str(results), "--kind", "verdicts", "--methods", "all"]) == 2
    assert "--methods does not go with --kind verdicts" in capsys.readouterr().err
    where = ["--results", str(results), "--kind", "curves", "--target", "mm", "--json"]
    assert main(["figure", *where, "--methods", "paper"]) == 0  # of the thirteen, Source-Only and T-SVDNet were run
    assert "with 2 methods" in json.loads(capsys.readouterr().out)["alt"]


def test_table_gives_json(results: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["table", "--results", str(results), "--kind", "selection", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "selection"


@pytest.mark.parametrize("verb", [["table"], ["report", "--no-sheets"], ["export", "--format", "csv"]])
def test_reading_records_does_not_wait_for_torch(results: Path, tmp_path: Path, verb: list[str]):
    command = [sys.executable, "-X", "importtime", "-m", "benchmark", *verb, "--results", str(results)]
    command += ["--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "pandas" in imported
    assert "torch" not in imported


def test_averages_and_verdicts_need_no_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["table", "--results", str(tmp_path), "--kind", "averages"]) == 0
    assert "11 of the 45 printed averages" in capsys.readouterr().out
    assert main(["table", "--results", str(tmp_path), "--kind", "verdicts", "--format", "csv"]) == 0
    assert "not measured: no records" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--kind", "comparisons"], "Did you mean 'comparison'"),
        (["--format", "pdf"], "There is no format of tables 'pdf'"),
        (["--tier", "lite"], "There is no run of suite digits with --tier 'lite'"),
        (["--selection", "best"], "There is no selection rule 'best'"),
        (["--statistics", "batch"], "There is no kind of statistics at test 'batch'. Allowed: running, target"),
        (["--statistics", "target", "--kind", "verdicts"], "--statistics does not go with --kind verdicts"),
        (["--set", "lam=3"], "Write it as --set run.updates=20"),
        (["--target", "mm"], "--target goes with --kind per-class"),
        (["--tuned"], "There are no tuned runs"),
    ],
)
def test_a_request_that_cannot_be_met_is_a_sentence_and_exit_code_2(
    results: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
):
    assert main(["table", "--results", str(results), "--suite", "digits", *arguments]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""


def test_no_records_mixed_tiers_and_several_suites_are_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for verb in ("table", "figure", "report", "export"):
        assert main([verb, "--results", str(tmp_path)]) == 2
        assert "no records" in capsys.readouterr().err
    write_run(tmp_path, "dann", "mm", 0)
    write_run(tmp_path, "dann", "mm", 0, tier="lite")
    assert main(["table", "--results", str(tmp_path)]) == 2
    assert "mix tiers" in capsys.readouterr().err
    write_run(tmp_path, "dann", "A", 0, suite="pacs")
    assert main(["table", "--results", str(tmp_path)]) == 2
    assert "hold the suites digits, pacs. Add --suite digits" in capsys.readouterr().err


def test_settings_pick_the_runs_made_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for updates in (20, 30):
        write_run(tmp_path, "dann", "mm", 0, overrides={"run.updates": updates}, accuracy=float(updates))
    wanted = ["table", "--results", str(tmp_path), "--set", "run.updates=30", "--format", "csv"]
    for statistics, value in (("running", 30), ("target", 32)):
        assert main([*wanted, "--statistics", statistics]) == 0
        assert f"DANN,{value}," in capsys.readouterr().out


def test_figure_writes_png_and_pdf_and_says_what_it_shows(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["figure", "--results", str(results), "--kind", "tnn", "--out", str(tmp_path)]) == 0
    assert "tensor nuclear norm" in capsys.readouterr().out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["digits-tnn.pdf", "digits-tnn.png"]
    assert main(["figure", "--results", str(results), "--kind", "tnn", "--out", str(tmp_path), "--json"]) == 0
    words = json.loads(capsys.readouterr().out)
    assert words["caption"].endswith("Direction only.")
    assert any(sentence.startswith("Tier mini") for sentence in words["conditions"])


def test_report_and_export_say_where_they_are(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = tmp_path / "r.html"
    assert main(["report", "--results", str(results), "--out", str(page), "--no-figures", "--no-sheets"]) == 0
    assert capsys.readouterr().out.strip() == str(page)
    assert page.stat().st_size > 50_000
    assert (
        main(["export", "--results", str(results), "--format", "csv", "--out", str(tmp_path / "a.csv"), "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["path"] == str(tmp_path / "a.csv")
