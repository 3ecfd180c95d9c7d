"""What people see on a terminal: tables fitted to 80 and 160 columns, progress, one picture of a sweep; without colour too."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from benchmark.cli.cluster import screen
from benchmark.launch.status import RunState, states
from benchmark.launch.submissions import LOCAL
from tests.synthetic import write_run, write_study
from tests.terminal import STYLE, shown, terminal
from tests.tiny import ARGUMENTS


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("terminal")
    write_study(root, ["source-only", "dann", "tsvdnet"])
    return root


def widest(text: str) -> int:
    return max(cell_len(line.rstrip()) for line in text.splitlines())


# -- table --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns, spreads", [(80, 1), (120, 6), (160, 7)])
def test_a_table_fits_the_screen_and_says_what_it_left_out(results: Path, columns: int, spreads: int):
    text = shown(["table", "--results", str(results)], columns).plain
    assert widest(text) <= columns
    for title in ("→ mm", "→ mt", "→ up", "→ sv", "→ syn*", "Avg"):
        assert title in text
    (row,) = re.findall(r"^ T-SVDNet.*$", text, re.MULTILINE)
    assert row.count("±") == spreads
    said = "The whole table: the same command with --out FOLDER, or with: | less -S"
    assert (f"Left out at {columns} columns: CPU s" in text) is (said in text) is (columns < 160)


def test_a_pipe_has_the_whole_table_without_a_sequence(results: Path):
    command = [sys.executable, "-m", "benchmark", "table", "--results", str(results)]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout
    assert "Left out" not in text
    assert "CPU s" in text
    assert "\x1b" not in text


def test_no_color_leaves_bold_and_a_dumb_terminal_nothing_but_text(results: Path):
    words = ["table", "--results", str(results)]
    bare = shown(words, 80, NO_COLOR="1").text
    codes = {int(code) for style in STYLE.findall(bare) for code in re.findall(r"\d+", style)}
    assert 1 in codes  # bold: the best number
    assert not codes & {*range(30, 50), *range(90, 108)}
    dumb = shown(words, 80, TERM="dumb").text
    assert "\x1b" not in dumb
    assert "Left out at 80 columns" in dumb


# -- run ----------------------------------------------------------------------------------------------------------------


def test_run_ends_with_the_fitted_table_and_the_place_of_the_whole_one(tmp_path: Path):
    words = ["run", "--suite", "digits", "--methods", "source-only", "--targets", "mm", *ARGUMENTS]
    words += ["--results", str(tmp_path)]
    first = shown(words, 80)
    assert first.process.returncode == 0
    assert "source-only → mm seed 0" in first.plain
    assert "\x1b[1A" in first.text  # progress is drawn in its place
    assert "Left out at 80 columns" in first.plain
    assert f"The whole table: {tmp_path}/tables/digits-mini-comparison.md" in first.plain
    table = first.plain[first.plain.index("Digits-Five: target accuracy") : first.plain.index("The whole table")]
    assert widest(table) <= 80
    assert not (tmp_path / LOCAL).exists()
    dumb = shown(words, 80, TERM="dumb")  # nothing to do any more
    assert "\x1b" not in dumb.text
    assert "Left out at 80 columns" in dumb.plain


def test_a_failure_names_the_command_that_shows_where(tmp_path: Path):
    file = tmp_path / "broken.py"
    file.write_text(
        "from methods.source_only import SourceOnly\nclass Broken(SourceOnly):\n    name = 'broken'\n"
        "    def update(self, *args):\n        raise ValueError('a weight is negative')\n"
    )
    words = ["run", "--suite", "digits", "--methods", f"{file}:Broken", "--targets", "mm", *ARGUMENTS]
    found = shown([*words, "--results", str(tmp_path / "runs")], 200)
    assert found.process.returncode == 1
    (command,) = re.findall(r"Where it happened: python -m benchmark (.*)", found.plain)
    assert "raise ValueError('a weight is negative')" in shown(command.split(), 200).plain


def test_a_long_plan_says_its_count_again_where_it_can_be_seen(tmp_path: Path):
    words = ["plan", "--suite", "digits", "--methods", "card", "--results", str(tmp_path)]
    assert shown(words, 80, 24).plain.count("runs, 0 done already") == 2
    assert shown(words, 80, 200).plain.count("runs, 0 done already") == 1


# -- status --watch -----------------------------------------------------------------------------------------------------


def test_watch_draws_one_picture_and_ctrl_c_ends_the_watching_alone(tmp_path: Path):
    running = write_run(tmp_path, "tsvdnet", "mm", 0, status="running")
    beat = {"update": 120, "total": 250, "seconds": 12.0}
    (running / "heartbeat.json").write_text(json.dumps(beat))
    reason = "NotFinite: loss class_loss was not finite at update 120, " + "and so on " * 20
    write_run(tmp_path, "dann", "mt", 1, status="failed", reason=reason)
    with terminal(["status", "--watch", "--results", str(tmp_path)], 80, 24) as found:
        found.until("left\n")
        assert "1 running, 1 failed of 2 runs in" in found.plain or "1 failed, 1 running of 2 runs in" in found.plain
        assert "10.0 updates/s  about 13 s left" in found.plain
        assert re.search(r"tsvdnet → mm seed 0 +step 120/250 +10\.0/s +13 s left", found.plain)
        found.until("NotFinite: loss")
        time.sleep(3)  # drawn again meanwhile
        found.interrupt()
        found.until("")
    assert widest(found.plain) <= 80
    assert "No longer watching; the runs go on." in found.plain
    assert found.process.returncode == 1  # a run failed
    assert states(tmp_path)[0].state == "running" or states(tmp_path)[1].state == "running"


def test_watch_ends_by_itself_when_nothing_runs_or_waits(tmp_path: Path):
    write_run(tmp_path)
    found = shown(["status", "--watch", "--results", str(tmp_path)], 80)
    assert "1 done of 1 runs in" in found.plain
    assert "100%" in found.plain
    assert found.process.returncode == 0
    assert "No run in" in shown(["status", "--watch", "--results", str(tmp_path / "none")], 80).plain


def test_watch_on_a_dumb_terminal_writes_plain_lines(tmp_path: Path):
    write_run(tmp_path)
    assert "\x1b" not in shown(["status", "--watch", "--results", str(tmp_path)], 80, TERM="dumb").text


def sweep(running: int, failed: int, queued: int = 0) -> list[RunState]:
    common = {"suite": "digits", "tier": "mini", "target": "mm", "seed": 0, "total": 100}
    found = [
        RunState(f"{i:016x}", "running", name="tsvdnet:code", update=10, seconds=5.0, seconds_left=45.0 + i, job=f"7_{i}",
                 node="node-1", **common)  # type: ignore[arg-type]
        for i in range(running)
    ]  # fmt: skip
    found += [
        RunState(f"{i:016x}", "failed", name="dann", reason="out of memory " * 30, **common)  # type: ignore[arg-type]
        for i in range(failed)
    ]
    return found + [
        RunState(f"{i:016x}", "queued", name="m3sda", job=f"8_{i}", reason="job 8: pending, Priority", **common)  # type: ignore[arg-type]
        for i in range(queued)
    ]


@pytest.mark.parametrize("width, height", [(40, 12), (80, 24), (160, 40)])
@pytest.mark.parametrize("running, failed", [(0, 60), (60, 0), (60, 60), (3, 60), (60, 2), (1, 1)])
def test_the_picture_never_exceeds_the_screen_and_counts_what_it_leaves_out(
    width: int, height: int, running: int, failed: int
):
    lines = [line.plain for line in screen(sweep(running, failed, 5), Path("runs"), width, height)]
    assert len(lines) < height
    shown_runs = sum("tsvdnet:code" in line for line in lines)
    shown_failures = sum(line.startswith("failed: ") for line in lines)
    for seen, all_, what in ((shown_runs, running, "running"), (shown_failures, failed, "failed or damaged")):
        if seen < all_:
            assert f"… and {all_ - seen} more {what}: python -m benchmark status" in lines
        else:
            assert not any(f"more {what}" in line for line in lines)
    assert not running or shown_runs
    assert not failed or shown_failures


def test_the_picture_has_the_tasks_of_a_cluster_and_why_others_wait():
    lines = [line.plain for line in screen(sweep(2, 0, 5), Path("runs"), 80, 24)]
    assert "tasks: 2 running, 5 waiting" in lines
    assert "queued: job 8: pending, Priority (5)" in lines
    assert any("on node-1" in line for line in lines)


def test_what_a_stranger_wrote_cannot_move_the_cursor():
    nasty = RunState("0" * 16, "failed", name="x\x1b[2J", target="mm", seed=0, reason="\x1b]0;title\x07 gone")
    assert not any("\x1b" in line.plain for line in screen([nasty], Path("ru\x1bns"), 80, 24))
