"""The list of verbs: one screen, nothing heavy imported before a verb is called, completed by a shell."""

from __future__ import annotations

import importlib
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
import typer

from benchmark.__main__ import main
from benchmark.cli import MODULES, VERBS, Verbs, app
from tests.synthetic import write_study

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "pandas", "numpy", "pydantic", "scipy", "matplotlib", "sklearn", "submitit"}
PLAIN = {key: value for key, value in os.environ.items() if key != "FORCE_COLOR"}


def start(
    command: Iterable[str], *, code: int = 0, directory: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, at 80 columns."""
    given = {**PLAIN, "PYTHONPATH": str(ROOT), "COLUMNS": "80", **environment}
    done = subprocess.run([*command], capture_output=True, text=True, timeout=300, cwd=directory, env=given)
    assert done.returncode == code, done.stderr
    return done


def benchmark(*words: str, **environment: str) -> str:
    """What `python -m benchmark …` prints."""
    return start([sys.executable, "-m", "benchmark", *words], **environment).stdout


def imported_by(*words: str, **environment: str) -> set[str]:
    """The packages that `python -m benchmark …` imports."""
    told = start([sys.executable, "-X", "importtime", "-m", "benchmark", *words], **environment).stderr
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in told.splitlines()}


# -- what is imported -----------------------------------------------------------------------------------------------


def test_help_waits_for_nothing_heavy():
    found = imported_by("--help")
    assert "typer" in found
    assert not found & HEAVY


@pytest.mark.parametrize("verb", ["status", "table"])
def test_looking_at_records_does_not_wait_for_torch(tmp_path: Path, verb: str):
    write_study(tmp_path, ["source-only", "tsvdnet"])
    found = imported_by(verb, "--results", str(tmp_path))
    assert "benchmark" in found
    assert "torch" not in found


def test_every_verb_of_the_list_stands_in_the_module_it_names_and_every_command_is_in_the_list():
    for module in set(MODULES.values()):
        importlib.import_module(f"benchmark.cli.{module}")
    whole = typer.main.get_command(app)
    assert isinstance(whole, Verbs)
    assert set(whole.imported) == set(MODULES)
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        assert command.callback.__module__ == f"benchmark.cli.{MODULES[name]}"


# -- what one sees --------------------------------------------------------------------------------------------------


def test_help_has_every_verb_in_one_line_below_its_question_in_the_order_of_the_flow():
    lines = benchmark("--help").splitlines()
    expected = [(question, *verbs) for question, verbs in VERBS.items()]
    first = next(number for number, line in enumerate(lines) if expected[0][0] in line)
    seen = [line.strip("╭╮╰╯─│ ").split("  ")[0].strip() for line in lines[first:]]
    assert [word for word in seen if word][:-1] == [word for group in expected for word in group]  # last: exit codes
    for verbs in VERBS.values():
        for verb, (_, words) in verbs.items():
            assert sum(f" {verb} " in line and words in line for line in lines) == 1
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 55


def test_a_verb_asked_for_help_says_all_of_it():
    text = benchmark("status", "--help")
    assert "Usage: python -m benchmark status" in text
    assert "--watch" in text


# -- a shell completes it -------------------------------------------------------------------------------------------


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The console script as an installation makes it."""
    file = tmp_path / "bin" / "msda-benchmark"
    file.parent.mkdir()
    file.write_text(f"#!{sys.executable}\nimport sys\nfrom benchmark.__main__ import main\nsys.exit(main())\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


ASKED = [
    ([""], list(MODULES)),
    (["st"], ["status"]),
    (["status", "--w"], ["--watch"]),
    (["status", "--"], ["--results", "--watch", "--json", "--help"]),
    (["data", "fe"], ["fetch"]),
    (["data", "fetch", "--s"], ["--suite"]),
    (["nothing", "--"], ["--install-completion", "--show-completion", "--help"]),
]


@pytest.mark.parametrize(("words", "offered"), ASKED)
def test_bash_is_offered_verbs_and_the_options_of_a_verb(words: list[str], offered: list[str]):
    asked = {"COMP_WORDS": " ".join(["msda-benchmark", *words]), "COMP_CWORD": str(len(words))}
    assert benchmark(_MSDA_BENCHMARK_COMPLETE="complete_bash", **asked).split() == offered


def test_zsh_is_offered_verbs_with_their_lines():
    asked = {"_TYPER_COMPLETE_ARGS": "msda-benchmark st"}
    text = benchmark(_MSDA_BENCHMARK_COMPLETE="complete_zsh", **asked)
    assert r'("status":"The state of every run\\: progress, node, time left.")' in text


def test_completing_a_verb_waits_for_nothing_heavy():
    asked = {"COMP_WORDS": "msda-benchmark t", "COMP_CWORD": "1", "_MSDA_BENCHMARK_COMPLETE": "complete_bash"}
    assert benchmark(**asked).split() == ["tune", "table"]
    assert not imported_by(**asked) & (HEAVY - {"pydantic"})  # which typer itself may use to read values


@pytest.mark.parametrize("python_m", [False, True])
def test_a_real_bash_completes_the_console_script_with_what_show_completion_prints(script: Path, python_m: bool):
    """`python -m benchmark` shows the same: a shell completes a command's name, so it is the console script's."""
    asking = [sys.executable, "-m", "benchmark"] if python_m else [str(script)]
    lines = start(["bash", "-c", '"$@"; exit', "-", *asking, "--show-completion"]).stdout
    assert "complete -o default -F _msda_benchmark_completion msda-benchmark" in lines
    ask = (
        "COMP_WORDS=(msda-benchmark pu); COMP_CWORD=1; _msda_benchmark_completion msda-benchmark; echo ${COMPREPLY[@]}"
    )
    path = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
    assert start(["bash", "--norc", "-c", f"{lines}\n{ask}"], PATH=path).stdout.split() == ["publish"]


def test_install_completion_tells_bash_about_the_console_script(tmp_path: Path):
    command = [sys.executable, "-m", "benchmark", "--install-completion"]
    start(["bash", "-c", '"$@"; exit', "-", *command], HOME=str(tmp_path))
    (file,) = (tmp_path / ".bash_completions").iterdir()
    assert file.name == "msda-benchmark.sh"
    assert str(file) in (tmp_path / ".bashrc").read_text()


# -- where it is called from ----------------------------------------------------------------------------------------


def test_main_can_be_called_from_another_thread(tmp_path: Path):
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(main(["status", "--results", str(tmp_path)])))
    thread.start()
    thread.join()
    assert codes == [0]
