"""The state of a run: one function that every verb and every launcher asks. Nothing is kept in memory.

The first line that fits a run's folder `<suite>/<tier>/<run_id>` is its state:

| state | rests on |
|---|---|
| damaged | record.json is there and is torn, no record, changed after the run, or another run's |
| done | record.json |
| damaged | spec.json is there and is no spec |
| running | lease.json, and its owner lives: its process, or on another host the age of the file, or the queue vouches for it |
| queued | the queue has the run, and no failure.json is younger than the run's sending |
| failed | failure.json, with its reason |
| failed | lease.json or heartbeat.json, and the queue says that the run's task was killed |
| queued | the run was sent, nothing of it is there, and the queue does not answer |
| interrupted | spec.json: a beginning, and nobody at it; the next start goes on from checkpoint.pt, if there is one |
| absent | neither record.json nor spec.json: the next start begins it |

The queue is plain data, `{run_id: Sent}`: who asks a scheduler (`benchmark.launch.status`) puts its words into these.
A run that a study has packed (`benchmark.records.study`) has its files there: it is done, or damaged.
Whether the files beside a sound record are those it was made from is the question of `benchmark.records.audit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from benchmark.files import shown
from benchmark.records import schema
from benchmark.records.lease import is_stale, number, same_machine
from benchmark.records.store import Record, complaint, examine
from benchmark.records.study import exists, read_json, read_object


class StateName(StrEnum):
    """What a run can be."""

    ABSENT = "absent"
    QUEUED = "queued"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    DAMAGED = "damaged"
    DONE = "done"


@dataclass(frozen=True)
class Sent:
    """What a scheduler says of a run that was sent to it."""

    job: str
    says: Literal["waiting", "running", "killed", "ended", "unknown"]
    reason: str = ""  # why it waits, how it ended
    time: float = 0.0  # of its sending
    node: str = ""  # where its task is


@dataclass(frozen=True)
class State:
    """One run's state, why, and what was read to know it."""

    name: StateName
    reason: str = ""
    fault: str = ""  # damaged: what is wrong with the file, without its name
    spec: Mapping[str, Any] = field(default_factory=dict)  # {} when there is none, or none that can be trusted
    record: Record | None = None  # done, if it was read now
    failure: Mapping[str, Any] = field(default_factory=dict)  # failed: failure.json


def state(directory: Path | str, queue: Mapping[str, Sent] | None = None, now: float | None = None) -> State:
    """The state of the run in `directory`, which need not exist, by the table above.

    `queue` is what a scheduler says, by run_id; `now` the file server's time, asked for when it is needed and not given.
    """
    directory = Path(directory)
    document, fault = examine(directory)
    if document is not None and not fault:
        return State(StateName.DONE, spec=document["spec"], record=Record(directory, document))
    spec, wrong = _spec(directory / "spec.json")
    if fault:
        return State(StateName.DAMAGED, complaint(directory, fault), fault, spec)
    if wrong:
        words = f"{directory / 'spec.json'} is no spec of this suite: {wrong}."
        return State(StateName.DAMAGED, words, wrong)
    sent = (queue or {}).get(directory.name)
    lease = read_object(directory / "lease.json")
    if lease and _alive(lease, directory / "lease.json", sent, now):
        return State(StateName.RUNNING, spec=spec)
    failure = read_object(directory / "failure.json")
    earlier = sent is not None and number(failure.get("time")) < sent.time  # the failure of another sending
    if sent is not None and sent.says in ("waiting", "running") and (earlier or not failure):
        return State(StateName.QUEUED, sent.reason, spec=spec)
    if failure:
        reason = text(failure.get("reason")) or "no reason was written down"
        return State(StateName.FAILED, reason, spec=spec, failure=failure)
    if sent is None:
        return State(StateName.INTERRUPTED if spec else StateName.ABSENT, spec=spec)
    began = bool(lease or read_object(directory / "heartbeat.json"))
    if sent.says == "killed" and began:
        return State(StateName.FAILED, sent.reason, spec=spec)
    if sent.says == "unknown":  # the disk alone tells
        name = StateName.QUEUED if not began else StateName.INTERRUPTED if spec else StateName.ABSENT
        return State(name, "" if began else sent.reason, spec=spec)
    if spec:
        return State(StateName.INTERRUPTED, sent.reason if began else f"job {sent.job} ended", spec=spec)
    return State(StateName.ABSENT, f"job {sent.job} ended before this run began")


def _spec(path: Path) -> tuple[dict[str, Any], str]:
    """(the spec, what is wrong with it in words); ({}, "") when there is none."""
    if not exists(path):
        return {}, ""
    content = read_json(path)
    fault = schema.spec_fault(content)
    return ({}, fault) if fault else (content or {}, "")


def _alive(lease: dict[str, Any], path: Path, sent: Sent | None, now: float | None) -> bool:
    """Whether the owner of a lease is at work. Another host's owner is known by the age of the file alone."""
    if not is_stale(lease, path, now):
        return True
    # a file server may be slow to show the owner's touch: the queue vouches for it
    vouched = sent is not None and sent.says == "running" and lease.get("job") == sent.job
    return vouched and not same_machine(lease)


def text(value: Any) -> str:
    """Text from a file whose shape nobody checked, fit for a table."""
    return shown(value or "")[:4096]
