"""What a run printed on its node: its part of the log of the task it shared with others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmark.launch.status import RunState
from benchmark.launch.submissions import latest
from benchmark.launch.worker import MARK, log_file
from benchmark.records.study import read_json


def log_of(results: Path, state: RunState, *, whole_task: bool = False) -> tuple[str, str]:
    """(file, text) of the run's latest submission; ("", "") when there is none."""
    submission, job = latest(results).get(state.run_id, (None, ""))
    file = submission.folder / f"{job}_0_log.out" if submission else None
    if file is None or not file.is_file():
        return "", ""
    text = file.read_text(encoding="utf-8", errors="replace")
    text = text if whole_task else section(text, state.run_id)
    own = log_file(file.parent, job, state.run_id)  # of a run that shared its task's time
    return str(file), text + "\n" + own.read_text(encoding="utf-8", errors="replace") if own.is_file() else text


def section(text: str, run_id: str) -> str:
    """The lines from each mark of this run to the next mark of another."""
    kept, ours = [], False
    for line in text.splitlines():
        if line.startswith(MARK):
            ours = line.split()[2:3] == [run_id]
        if ours:
            kept.append(line)
    return "\n".join(kept)


def failure_of(state: RunState) -> dict[str, Any] | None:
    """Why the run failed, as its failure.json or the queue says."""
    if state.state != "failed":
        return None
    written = read_json(Path(state.path) / "failure.json") if state.path else None
    return written if isinstance(written, dict) else {"reason": state.reason}
