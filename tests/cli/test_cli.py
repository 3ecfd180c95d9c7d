"""The command line as a user meets it: one command runs, the second only prints, mistakes are sentences."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmark import records
from benchmark.__main__ import main
from benchmark.report import handover, publish
from methods.contract import BUILT_IN, method_revision
from tests.synthetic import write_run
from tests.tiny import ARGUMENTS

ROOT = Path(__file__).parents[2]


def request(results: Path, *words: str) -> list[str]:
    return [
        "--suite",
        "digits",
        "--methods",
        "source-only,upper-bound",
        "--targets",
        "mm",
        "--results",
        str(results),
        *words,
        *ARGUMENTS,
    ]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs by one worker."""
    results = tmp_path_factory.mktemp("runs")
    assert main(["run", *request(results, "--workers", "1")]) == 0
    return results


def say(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(list(words)) == code
    return capsys.readouterr().out


def test_a_second_run_finds_everything_done_and_only_prints(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stamps = {p: p.stat().st_mtime_ns for p in finished.glob("digits/*/*/record.json")}
    text = say(capsys, "run", *request(finished))
    assert "2 done already, 0 to do" in text
    assert "tier mini" in text
    assert "--tier lite" in text  # what to type for the real thing
    for kind in ("Markdown", "LaTeX", "CSV", "Records", "Report"):
        assert kind in text
    assert {p: p.stat().st_mtime_ns for p in finished.glob("digits/*/*/record.json")} == stamps
    for suffix in ("md", "tex", "csv"):
        assert (finished / "tables" / f"digits-mini-comparison.{suffix}").read_text()
    assert (finished / "report.html").read_text().startswith("<!")


def test_adabn_finds_the_runs_of_source_only_and_trains_nothing(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stamps = {p: p.stat().st_mtime_ns for p in finished.glob("digits/*/*/record.json")}
    words = ["--suite", "digits", "--methods", "adabn", "--targets", "mm", *ARGUMENTS]
    text = say(capsys, "run", *words, "--results", str(finished), "--statistics", "running")
    assert "1 runs, 1 done already, 0 to do" in text
    assert "adabn reads the runs of source-only with statistics of the target; it trains nothing." in text
    assert {p: p.stat().st_mtime_ns for p in finished.glob("digits/*/*/record.json")} == stamps
    table = (finished / "tables" / "digits-mini-comparison.csv").read_text()
    assert "Multi-Source,AdaBN" in table
    assert "Multi-Source,Source-Only" in table
    planned = json.loads(say(capsys, "plan", *words, "--results", str(tmp_path), "--json"))
    assert [(run["method"], run["target"]) for run in planned["runs"]] == [("source-only", "mm")]
    assert planned["readings"] == ["adabn"]
    say(capsys, "run", *request(finished))  # the table of the two runs again, for the tests that follow


def test_one_and_two_workers_give_the_same_bits(finished: Path, tmp_path: Path) -> None:
    assert main(["run", *request(tmp_path, "--workers", "2", "--json")]) == 0
    one, two = records.load(finished).set_index("run_id"), records.load(tmp_path).set_index("run_id")
    assert one["weights"].to_dict() == two["weights"].to_dict()
    for row in records.load(tmp_path).itertuples():
        there = finished / "digits" / "mini" / row.run_id / "curve.jsonl"
        assert (Path(row.path) / "curve.jsonl").read_bytes() == there.read_bytes()


def test_plan_and_dry_run_count_without_running(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(say(capsys, "plan", *request(finished, "--json")))
    assert (document["total"], document["done"], document["hours"]) == (2, 2, 0)
    assert {r["reason"] for r in document["runs"]} == {"its record is there"}
    text = say(capsys, "run", *request(tmp_path, "--dry-run"))
    assert "upper-bound → mm seed 0" in text
    assert not list(tmp_path.glob("digits/*/*"))


def test_plan_counts_before_the_data_is_there_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["plan", "--suite", "domainnet", "--tier", "paper", "--methods", "tsvdnet", "--results", str(tmp_path)]
    wanted += ["--data-root", str(tmp_path / "nothing")]
    text = say(capsys, *wanted)
    assert "6 runs, 0 done already, 6 to do" in text
    assert "Counted without the data. The real images of domainnet are wanted" in text
    document = json.loads(say(capsys, *wanted, "--json"))
    assert document["unbound"].startswith("The real images of domainnet")
    assert {r["run_id"] for r in document["runs"]} == {None}
    assert document["hours"] > 0


def test_status_methods_doctor_and_help_speak(
    finished: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BENCHMARK_DATA_ROOT", raising=False)  # the real images may be on this machine
    assert "2 runs" in say(capsys, "status", "--results", str(finished))
    assert len(json.loads(say(capsys, "status", "--results", str(finished), "--json"))) == 2
    assert "No run in" in say(capsys, "status", "--results", str(finished / "absent"))
    assert len(json.loads(say(capsys, "methods", "--json"))["methods"]) == len(BUILT_IN)
    listed = json.loads(say(capsys, "methods", "--json"))
    assert [len(listed["groups"][word]) for word in ("paper", "card")] == [13, 7]
    assert {m["name"] for m in listed["methods"] if "card" in m["groups"]} == set(listed["groups"]["card"])
    assert "the runs of source-only, read with statistics of the target" in say(capsys, "methods", "adabn")
    assert json.loads(say(capsys, "methods", "adabn", "--json"))["of"] == "source-only"
    assert "lam = 1000.0" in say(capsys, "methods", "tsvdnet")
    assert "tsvdnet" in say(capsys, "methods")
    found = {f["what"]: f for f in json.loads(say(capsys, "doctor", "--json"))}
    assert found["torch"]["ok"]
    assert found["data of digits, tier mini"]["ok"]
    assert not found["data of digits, tier paper"]["ok"]
    assert "data list --suite digits" in found["data of digits, tier paper"]["next"]
    assert "torch" in say(capsys, "doctor")


VERBS = [
    "run", "plan", "status", "table", "figure", "report", "verify",
    "explain", "tune", "publish", "data", "methods", "doctor",
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = say(capsys, verb, "--help")
    assert "Usage" in text


def test_verify_runs_again_and_compares_bit_by_bit(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    findings = json.loads(say(capsys, "verify", "random", "--results", str(finished), "--json"))
    assert {f["words"] for f in findings} == {"the same bits"}


def test_verify_says_which_commit_can_make_a_record_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = write_run(tmp_path, "dan", revision="0").name
    results = ["--results", str(tmp_path)]
    assert main(["verify", run_id, *results]) == 2
    words = " ".join(capsys.readouterr().err.split())
    assert "was made by revision 0 of dan" in words
    assert "git checkout 0123456789ab" in words
    assert main(["verify", "random", *results]) == 2
    assert "of a method and a protocol as they are now" in " ".join(capsys.readouterr().err.split())


def test_verify_leaves_a_run_of_an_older_protocol_to_the_commit_that_made_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = write_run(tmp_path, "source-only", revision=method_revision("source-only"), protocol=1).name
    results = ["--results", str(tmp_path)]
    assert main(["verify", run_id, *results]) == 2
    assert "was made under protocol 1 of suite digits" in " ".join(capsys.readouterr().err.split())
    assert main(["verify", "random", *results]) == 2
    assert "of a method and a protocol as they are now" in " ".join(capsys.readouterr().err.split())


def test_verify_random_sends_nobodys_runs_into_a_published_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish.pack(tmp_path / "study", [write_run(tmp_path / "tree", "source-only", protocol=1)])
    for place, advice in (
        ("tree", f"run --suite digits --results {tmp_path / 'tree'}"),
        ("study", "run --suite digits --results runs, then verify random --results runs"),
    ):
        assert main(["verify", "random", "--results", str(tmp_path / place)]) == 2
        assert advice in " ".join(capsys.readouterr().err.split())


def test_verify_of_a_study_in_the_place_of_a_run_says_what_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish.pack(tmp_path / "all" / "study", [write_run(tmp_path / "tree")])
    handover.hand_over(tmp_path / "all" / "study", tmp_path / "a.zip")
    for study, studies in ((tmp_path / "all" / "study", tmp_path / "all"), (tmp_path / "a.zip", tmp_path / "a.zip")):
        assert main(["verify", str(study)]) == 2
        words = " ".join(capsys.readouterr().err.split())
        assert f"verify --published --studies {studies} (" in words
        assert f"verify {study} --environment (" in words
        main(["verify", "--published", "--studies", str(studies)])
        assert "1 records, each with the files and the hash it was sealed with" in capsys.readouterr().out
        main(["verify", str(study), "--environment"])
        assert "commit" in capsys.readouterr().out


def test_publish_renders_and_verify_notices_a_stale_table(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    studies = ["--studies", str(tmp_path)]
    say(capsys, "publish", "study", "--results", str(finished), *studies)
    packed = {"records.parquet", "curves.parquet", "study.json"}
    assert {p.name for p in tmp_path.glob("study/*")} == packed | {"tables", "tables.tex", "figures", "report.html"}
    assert "current" in say(capsys, "verify", "--published", *studies)
    again = json.loads(say(capsys, "verify", "random", "--results", str(tmp_path / "study"), "--json"))
    assert {f["words"] for f in again} == {"the same bits"}
    table = tmp_path / "study" / "tables" / "digits-mini-comparison.md"
    table.write_text(table.read_text() + "edited by hand\n")
    assert "not what the records say" in say(capsys, "verify", "--published", *studies, code=1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "--suite", "digtis"], "Did you mean 'digits'"),
        (["run", "--suite", "digits", "--selection", "best"], "Allowed: "),
        (["run", "--suite", "digits", "--statistics", "best"], "Allowed: running, target"),
        (["run", "--suite", "digits", "--executor", "cloud"], "Allowed: local, slurm"),
        (["run", "--suite", "digits", "--device", "tpu"], "Allowed: cpu, auto, cuda"),
        (["run", "--suite", "digits", "--results", "/dev/null/x"], "Choose another with --results"),
        (["run", "--suite", "digits", "--tier", "lite", "--data-root", "/dev/null"], "data"),
        (["run", "--suite", "digits", "--seeds", "few"], "--seeds takes numbers"),
        (["run"], "--suite"),
        (["rum"], "Did you mean"),
        (["verify", "zzz", "--results", "/nowhere"], "No run in /nowhere begins with 'zzz'"),
        (["verify", "--published", "--studies", "/nowhere"], "no published study"),
        (["publish", "a/b"], "letters, digits"),
        (["publish", "s", "--results", "/nowhere"], "no finished run"),
        (["methods", "tsvdnt"], "Did you mean 'tsvdnet'"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    text = capsys.readouterr().err
    assert sentence in text
    assert "Traceback" not in text


def test_ctrl_c_stops_cleanly_and_the_next_call_goes_on(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmark",
        "run",
        *request(tmp_path, "--workers", "1"),
        "--set",
        "run.updates=4000",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a shell's background job has switched off
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("digits/*/*/heartbeat.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, text = process.communicate(timeout=90)
    assert process.returncode == 130
    assert "goes on where it stopped" in text
    assert "Traceback" not in text
    (directory,) = {p.parent for p in tmp_path.glob("digits/*/*/checkpoint.pt")}
    assert not (directory / "lease.json").exists()
    assert not (directory / "failure.json").exists()


def test_a_killed_worker_costs_its_run_only(tmp_path: Path) -> None:
    import dataclasses

    from benchmark.launch.local import launch
    from tests.tiny import tiny

    file = tmp_path / "suicide.py"
    file.write_text(
        "import os, signal\nfrom methods.source_only import SourceOnly\n"
        "class Suicide(SourceOnly):\n    name = 'suicide'\n"
        "    def update(self, *args):\n        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    bad = dataclasses.replace(tiny(), method=f"{file}:Suicide")
    outcome = launch([bad, tiny()], results=tmp_path / "runs", workers=1)
    assert list(outcome.failed) == [bad.run_id]
    assert "SIGKILL" in outcome.failed[bad.run_id]
    assert outcome.done == [tiny().run_id]
    assert sorted(records.load(tmp_path / "runs").status) == ["done", "failed"]


def test_a_tracker_that_fails_is_a_line_for_the_user_and_one_that_is_not_installed_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmark.records.track import names

    monkeypatch.setitem(names.BUILT_IN, "wandb", ("nowhere_installed", "benchmark.records.track.wandb", "None"))
    watchers = ROOT / "tests" / "safety" / "watchers.py"
    words = ["--methods", "source-only", "--track", f"{watchers}:Raises", "--track", "wandb", "--json"]
    assert main(["run", "--suite", "digits", "--targets", "mm", "--results", str(tmp_path), *words, *ARGUMENTS]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "not tracked with wandb: nowhere_installed is not installed. Type: pip install" in said
    assert "tracker Raises: ValueError: the server said no (1 of 1 runs; nothing else changed)" in said
