"""Exit codes and the sentences of the command line: what was asked, what is wrong, what to type next."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmark.errors import UserError
from tests import needs, synthetic
from tests.quiet import quiet
from tests.safety import sites
from tests.safety.small import Small

# -- exit codes -------------------------------------------------------------------------------------------------------

CODES = {0: "done", 1: "something failed", 2: "bad request", 130: "interrupted"}


def test_every_exit_code_is_documented_where_a_user_looks() -> None:
    words = ", ".join(f"{code} {meaning}" for code, meaning in CODES.items())
    root = Path(__file__).parent.parent.parent
    for text in (quiet("--help")[1], (root / "docs" / "safety.md").read_text()):
        assert words in " ".join(text.replace("│", " ").split())


def test_exit_code_0_done() -> None:
    assert quiet("methods")[0] == 0
    assert quiet("--help")[0] == 0


def test_exit_code_1_something_failed(tmp_path: Path, small: Small) -> None:
    synthetic.write_run(tmp_path / "runs", status="failed", reason="the trap was there")
    code, said = quiet("status", "--results", str(tmp_path / "runs"))
    assert code == 1
    assert "the trap was there" in said
    (tmp_path / "broken.py").write_text(
        "from methods.source_only import SourceOnly\nclass Broken(SourceOnly):\n  update = None\n"
    )
    words = ["--methods", f"{tmp_path / 'broken.py'}:Broken", "--targets", "mt", "--data-root", str(small.data)]
    code, said = quiet("run", "--suite", str(small.suite), *words, "--results", str(tmp_path / "new"), "--workers", "1")
    assert code == 1
    assert re.search("failed: [0-9a-f]{16}: TypeError", said)


def test_exit_code_2_bad_request() -> None:
    assert quiet("run", "--suite", "digist")[0] == 2
    assert quiet("no-such-verb")[0] == 2
    assert quiet("plan")[0] == 2


def test_exit_code_130_interrupted(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = small.execute(small.spec(), tmp_path)
    monkeypatch.setenv("BENCHMARK_FAULT", "evaluate=interrupt")
    code, said = quiet("verify", record.run_id, "--results", str(tmp_path), "--data-root", str(small.data))
    assert code == 130
    assert "Nothing is lost" in said


def test_a_disk_that_refuses_ends_a_command_with_a_sentence_and_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic.write_study(tmp_path, methods=("source-only",), seeds=(0,))
    monkeypatch.setenv("BENCHMARK_FAULT", "write:*=enospc")
    code, said = quiet("table", "--suite", "digits", "--results", str(tmp_path), "--out", str(tmp_path / "tables"))
    assert code == 1
    assert "No space left on device" in said
    assert not list((tmp_path / "tables").glob("*"))


def test_a_failed_verification_run_is_a_sentence_and_code_1(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = small.execute(small.spec(), tmp_path)
    monkeypatch.setenv("BENCHMARK_FAULT", "update=memory")
    code, said = quiet("verify", record.run_id, "--results", str(tmp_path), "--data-root", str(small.data))
    assert code == 1
    assert "Failed: out of memory" in said


# -- messages of the command line -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs of two suites, a failed run, an interrupted one."""
    root = tmp_path_factory.mktemp("study")
    synthetic.write_study(root, methods=("source-only", "tsvdnet"), seeds=(0, 1), targets=("mm", "up"))
    synthetic.write_run(root, suite="pacs", target="C", method="dann", standard="combined")
    synthetic.write_run(root, method="dann", standard="combined", status="failed", seed=7)
    synthetic.write_run(root, method="mcd", standard="combined", status="interrupted", seed=8)
    return root


COMMANDS: list[tuple[str, str]] = [
    ("cancel --results STUDY", "No run is queued or running on SLURM"),
    ("retry --results STUDY", "Say which: retry --failed"),
    ("retry --failed --results STUDY", "was never sent to SLURM"),
    ("logs 0000000000 --results STUDY", "No run that is known begins with '0000000000'"),
    ("logs DONE --results STUDY", "is done and has printed nothing"),
    ("explain tsvdnet --set lam", "is not of the form key=value"),
    ("explain dann", "There is no audit of method 'dann'"),
    ("explain tsvdnet:code --preset paper", "Two presets were named"),
    ("explain tsvdnet --set lmbda=1", "There is no hyper-parameter of tsvdnet 'lmbda'"),
    ("explain tsvdnet --preset e", "has no auxiliary tensor A"),
    ("explain tsvdnet --measure", "needs no run: leave --measure out"),
    ("explain ltc-msda --set sigma=0", "needs sigma above zero"),
    ("verify --published --studies EMPTY", "There is no published study"),
    ("verify random --results EMPTY", "There is no finished run"),
    ("verify 0000000000 --results STUDY", "No run in"),
    ("verify ORPHAN --results STUDY", "is missing or damaged"),
    ("publish ../out --results STUDY", "A study's name is made of letters"),
    ("publish fine --results EMPTY --studies EMPTY", "There is no finished run"),
    ("table --set updates=3 --results STUDY", "does not name settings of runs"),
    ("table --results EMPTY", "There are no records in"),
    ("table --results STUDY", "hold the suites digits, pacs"),
    ("table --suite digits --format word --results STUDY", "There is no format of tables 'word'"),
    ("table --suite digits --kind best --results STUDY", "There is no kind of table 'best'"),
    ("table --suite digits --target mm --results STUDY", "--target goes with --kind per-class"),
    ("table --suite digits --kind cost --over tsvdnet --results STUDY", "--over goes with --kind gains"),
    ("table --suite digits --kind per-class --selection oracle --results STUDY", "stored for the last evaluation point only"),
    ("table --suite digits --selection luck --results STUDY", "There is no selection rule 'luck'"),
    ("table --suite domainnet --results STUDY", "There are no records of suite domainnet"),
    ("table --suite digits --tier paper --results STUDY", "There is no run of suite digits with --tier 'paper'"),
    ("table --suite digits --data feed --results STUDY", "There is no run of suite digits with --data 'feed'"),
    ("table --suite digits --tuned --results STUDY", "There are no tuned runs"),
    ("table --suite digits --set run.updates=3 --results STUDY", "There are no runs of suite digits with"),
    ("table --suite pacs --kind ablation --results STUDY", "ablation"),
    ("export --format word --results STUDY", "There is no export format 'word'"),
    ("export --results EMPTY", "There are no records in"),
    ("report --results EMPTY", "There are no records in"),
    ("figure --suite digits --kind art --results STUDY", "There is no kind of figure 'art'"),
    ("figure --suite digits --kind tsne --results STUDY", "has no artifacts.npz to draw from"),
    ("figure --suite digits --kind tsne --methods dan --results STUDY", "There is no finished run for the method dan"),
    ("figure --suite digits --kind tnn --target sv --results STUDY", "shown rows have run 'sv'"),
    ("figure --suite digits --kind tsne --methods tsvdnet --target sv --results STUDY", "shown rows have run 'sv'"),
    ("figure --suite digits --kind tsne --methods tsvdnet --seed 9 --results STUDY", "seed that all shown rows have run '9'"),
    ("figure --suite digits --kind cost --results STUDY", "has all targets and a time"),
    ("figure --suite pacs --kind curves --results STUDY", "no finished multi-source run"),
    ("figure --kind critical-difference --suite digits --results STUDY", "is refused: it needs at least"),
    ("run --suite digits --selection luck", "There is no selection rule 'luck'"),
    ("run --suite digits --executor cloud", "There is no executor 'cloud'"),
    ("run --suite digits --track wandbb --results EMPTY", "There is no tracker 'wandbb'. Did you mean 'wandb'?"),
    ("run --suite digits --track mine.py:Mine --results EMPTY", "The file mine.py of --track mine.py:Mine cannot be read"),
    ("run --suite digits --track WATCHERS:Nobody --results EMPTY", "has no class 'Nobody', which --track"),
    ("run --suite digits --results FILE", "cannot be written to"),
    ("run --suite digits --seeds 9999999999", "A seed is at most"),
    ("run REQUEST --device abacus", "There is no device 'abacus'"),
    ("run REQUEST --executor slurm", "needs a cluster profile"),
    ("run REQUEST --executor slurm --cluster PROFILE", "sbatch is not on PATH"),
    ("tune --suite digits --target up --rule oracle", "Rules that read target labels are no rules"),
    ("tune --suite digits --target up --trials 0", "--trials takes a number of at least 1"),
    ("tune --suite digits --target up --set dann.lam=1", "tuning draws the methods' own values"),
    ("audit EMPTY/none", "There is no folder"),
]  # fmt: skip


@pytest.mark.parametrize("command, words", COMMANDS, ids=[c for c, _ in COMMANDS])
def test_a_mistake_on_the_command_line_is_answered_with_a_sentence(
    study: Path, small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, words: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "profile.toml").write_text("cpus = 1\n")
    orphan = study / "digits" / "mini" / ("f" * 16)
    orphan.mkdir(exist_ok=True)
    done = next(study.glob("digits/mini/*/record.json")).parent.name
    places = {
        "STUDY": study, "EMPTY": tmp_path / "empty", "FILE": tmp_path / "file", "DONE": done, "ORPHAN": "f" * 16,
        "SMALL": small.suite, "DATA": small.data, "PROFILE": tmp_path / "profile.toml",
        "WATCHERS": Path(__file__).parent / "watchers.py",
    }  # fmt: skip
    command = command.replace("REQUEST", "--suite SMALL --data-root DATA --methods source-only --results EMPTY")
    for name, place in places.items():
        command = re.sub(rf"\b{name}\b", str(place), command)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    code, said = quiet(*command.split())
    assert words in " ".join(said.split())
    assert code == 2


@needs.mark("a machine without a GPU")
def test_a_gpu_that_is_not_there_is_said() -> None:
    from benchmark.cli.runs import pick_device

    with pytest.raises(UserError, match="no GPU that torch can use"):
        pick_device("cuda")
    with pytest.raises(UserError, match="no device 'abacus'"):
        pick_device("abacus")


# -- nobody is forgotten ----------------------------------------------------------------------------------------------


def test_what_is_listed_as_met_elsewhere_exists() -> None:
    keys = {site.key for site in sites.sites()}
    for key, where in sites.ELSEWHERE.items():
        assert key in keys, f"no longer there: {key}"
        assert (sites.ROOT / where.partition("::")[0]).exists(), where


def test_the_watch_notes_the_place_of_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sites.VARIABLE, str(tmp_path))
    before = len(sites.unmet(tmp_path))
    assert before > 100
    code, _ = quiet("run", "--suite", "digits", "--executor", f"cloud {tmp_path.name}")
    assert code == 2
    noted = json.dumps([p.read_text() for p in tmp_path.iterdir()])
    assert "benchmark/cli/runs.py" in noted or len(sites.unmet(tmp_path)) == before  # noted once a process
