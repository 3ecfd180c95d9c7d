"""SLURM as a launcher, through submitit: cut a plan into tasks, send them as job arrays, and let go of the terminal."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmark import records
from benchmark.errors import UserError
from benchmark.files import read_json
from benchmark.launch import decode, queue
from benchmark.launch.cluster import Profile, Resources
from benchmark.launch.status import RunState, states
from benchmark.launch.submissions import Submission, launching, new_folder, submissions
from benchmark.launch.worker import Entry, Pack, code_fingerprint
from benchmark.plan import estimate
from benchmark.run.speed import AMPERE
from benchmark.spec import RunSpec, TierSettings, resolve

START_SECONDS = 180  # interpreter, imports and data of a task, before its first step
SHORTEST_MINUTES = 15  # nothing is won by asking for less
SPREAD_SECONDS = 120  # a task with less work than this is not worth a place in the queue of its own
# USR2 ends a process that has no handler for it yet: until Python has one, the shell ignores it
DEAF_UNTIL_READY = 'sh -c \'trap "" USR2; exec "$@"\' sh'


@dataclass(frozen=True)
class Launched:
    """What was sent, and what was left alone with its state."""

    jobs: dict[str, list[str]] = field(default_factory=dict)  # {"12_3": [run_id, …]}
    left_alone: dict[str, RunState] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def runs(self) -> int:
        """How many runs were sent."""
        return sum(len(runs) for runs in self.jobs.values())


def submit(
    specs: Sequence[RunSpec],
    *,
    results: Path,
    data_root: Path | None,
    profile: Profile,
    where: str = "the cluster profile",
    wanted: Sequence[str] = ("absent", "interrupted", "failed"),
    keep_model: str = "none",
    track: Sequence[str] = (),
) -> Launched:
    """Send the runs whose state is one of `wanted`; return at once. Nothing is sent when anything is wrong.

    Look and submission happen under a lock on the results folder, so of two people who launch the same plan the second
    finds it queued.
    """
    for tier in {spec.tier for spec in specs}:
        resources = profile.resources(tier)
        queue.check(sbatch_options(resources, resources.time), where)
    by_id = {spec.run_id: spec for spec in specs}
    results = results.absolute()
    with launching(results):
        found = {state.run_id: state for state in states(results, by_id)}
        queued = queue.queue()
        if queued is None:
            raise UserError(queue.SILENT)
        # a failed run whose task is still queued has its other attempts coming
        todo = [run for run in by_id if found[run].state in wanted and found[run].job not in queued]
        left = {run: found[run] for run in by_id if run not in todo}
        if not todo:
            return Launched(left_alone=left)
        seconds = _seconds([by_id[run] for run in todo], results, profile)
        tasks: dict[tuple[str, int], list[list[str]]] = {}
        for tier in dict.fromkeys(by_id[run].tier for run in todo):
            of_tier = {run: seconds[run] for run in todo if by_id[run].tier == tier}
            resources = profile.resources(tier)
            for pack in cut(of_tier, profile, resources.share):
                work = at_once([seconds[run] for run in pack], resources.share)
                minutes = ask_minutes(work, profile, resources.time)
                tasks.setdefault((tier, minutes), []).append(pack)
        folder, root = new_folder(results), str(data_root.absolute()) if data_root else None
        first = decode.wanted([by_id[run] for run in todo], root, profile)
        submission = Submission(
            folder=folder,
            jobs={},
            specs={run: by_id[run].to_json() for run in todo},
            profile=profile.model_dump(),
            data_root=root,
            code=code_fingerprint(),
            keep_model=keep_model,
            track=list(track),
            decode=_decode(first, profile, folder, where) if first else "",
        )
        for (tier, minutes), packs in tasks.items():
            _send(packs, minutes, profile, profile.resources(tier), results, submission)
        return Launched(submission.jobs, left, submission.folder)


def _seconds(specs: list[RunSpec], results: Path, profile: Profile) -> dict[str, float]:
    """Expected seconds of each run; a run nobody has timed fills a task."""
    frame, expected = records.load(results), {}
    for tier in dict.fromkeys(spec.tier for spec in specs):
        resources, alike = profile.resources(tier), [spec for spec in specs if spec.tier == tier]
        kind = "cuda" if resources.gpus and resources.device == "auto" else "cpu"
        for spec, (seconds, _) in zip(alike, estimate(alike, frame, kind=kind), strict=True):
            expected[spec.run_id] = seconds or resources.time * 60 / profile.margin
    return expected


def at_once(seconds: Sequence[float], share: int) -> float:
    """The longest that runs may take, `share` at a time: the work divided, and the longest may be the last to begin."""
    return max(seconds) if len(seconds) <= share else sum(seconds) / share + (1 - 1 / share) * max(seconds)


def cut(seconds: Mapping[str, float], profile: Profile, share: int = 1) -> list[list[str]]:
    """Divide runs into tasks of about equal work.

    As many tasks as `pack_minutes` and `pack_runs` need; more, up to `parallel`, while each has work worth its start and
    `share` runs to do at once.
    """
    total, count = sum(seconds.values()) / share, len(seconds)
    wanted = math.ceil(total / max(profile.pack_minutes * 60, 1e-9))
    spread = min(profile.parallel, math.ceil(total / SPREAD_SECONDS))
    number = max(1, math.ceil(count / profile.pack_runs), min(math.ceil(count / share), max(wanted, spread)))
    packs: list[list[str]] = [[] for _ in range(number)]
    work = [0.0] * number
    for run in sorted(seconds, key=lambda r: -seconds[r]):  # the longest first, each to the task with least work
        free = [i for i in range(number) if len(packs[i]) < profile.pack_runs]
        lightest = min(free, key=lambda i: (work[i], len(packs[i])))
        packs[lightest].append(run)
        work[lightest] += seconds[run]
    return packs


def ask_minutes(seconds: float, profile: Profile, longest: int) -> int:
    """Time to ask for: start + work × margin, on a coarse scale (15, 30, 60, …) so that tasks can share an array."""
    wanted = (START_SECONDS + seconds * profile.margin) / 60
    steps = max(0, math.ceil(math.log2(wanted / SHORTEST_MINUTES)))
    return min(longest, SHORTEST_MINUTES * 2**steps)


def parameters(resources: Resources) -> dict[str, Any]:
    """Resources as sbatch names them; what is not said is left to the site."""
    gpus = f"{resources.gpu_type}:{resources.gpus}" if resources.gpu_type else resources.gpus
    values = {
        "partition": resources.partition,
        "account": resources.account,
        "qos": resources.qos,
        "constraint": resources.constraint,
        "gpus_per_node": gpus if resources.gpus else None,
        "cpus_per_task": resources.cpus,
        "mem": f"{memory_mb(resources)}M",
    }
    return {key: value for key, value in values.items() if value is not None}


def memory_mb(resources: Resources) -> int:
    """Memory in SLURM's unit."""
    return math.ceil(resources.memory_gb * 1024)


def sbatch_options(resources: Resources, minutes: int) -> list[str]:
    """The request as options of the sbatch command, to ask whether it is possible."""
    values = {**parameters(resources), **resources.sbatch, "time": minutes}
    named = ((key.replace("_", "-"), value) for key, value in values.items() if value is not False)
    return [f"--{key}" if value is True else f"--{key}={value}" for key, value in named]


def _decode(first: decode.Decode, profile: Profile, folder: Path, where: str) -> str:
    """Send the job that decodes; its id."""
    resources = decode.resources(first.readings[0].tier, profile)
    queue.check(sbatch_options(resources, resources.time), f"[decode] of {where}")
    executor = _executor(profile, resources, resources.time, folder, queue.DECODE)
    return str(executor.submit(first).job_id)


def decoding(results: Path, jobs: AbstractSet[str]) -> set[str]:
    """The decoding jobs in the queue that no task waits for but these."""
    queued = queue.queue() or {}
    return {
        sent.decode
        for sent in submissions(results)
        if sent.decode in queued and sent.jobs.keys() & jobs and not (sent.jobs.keys() & queued.keys()) - jobs
    }


def _executor(profile: Profile, resources: Resources, minutes: int, folder: Path, name: str, **more: Any) -> Any:
    """submitit's, with what every job of a sweep has in common; `more` are options of sbatch."""
    import submitit

    executor = submitit.SlurmExecutor(
        folder, python=f"{DEAF_UNTIL_READY} {profile.python or shlex.quote(sys.executable)}"
    )
    executor.update_parameters(
        job_name=name,
        time=minutes,
        array_parallelism=profile.parallel,
        signal_delay_s=profile.signal_seconds,
        setup=profile.setup or None,
        stderr_to_stdout=True,
        srun_args=[f"--cpus-per-task={resources.cpus}"],  # since SLURM 22.05 srun does not inherit it
        additional_parameters={**{k: v for k, v in resources.sbatch.items() if v is not False}, **more},
        **parameters(resources),
    )
    return executor


def _send(
    packs: list[list[str]],
    minutes: int,
    profile: Profile,
    resources: Resources,
    results: Path,
    submission: Submission,
) -> None:
    """Send tasks that ask for the same as arrays, and note their ids at once. They begin when the decoding job has ended."""
    import submitit

    wait = {"dependency": f"afterany:{submission.decode}"} if submission.decode else {}
    executor = _executor(profile, resources, minutes, submission.folder, queue.NAME, requeue=True, **wait)
    calls = [_pack(runs, profile, resources, results, submission) for runs in packs]
    largest = queue.largest_array()
    for start in range(0, len(calls), largest):
        chunk = calls[start : start + largest]
        try:
            sent = executor.submit_array(chunk)
        except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
            already = f" {len(submission.jobs)} tasks were sent before." if submission.jobs else " Nothing was sent."
            if submission.decode and not submission.jobs:
                queue.cancel([submission.decode])
            raise UserError(f"sbatch did not take the sweep: {str(error).strip().splitlines()[-1]}.{already}") from None
        for job, call in zip(sent, chunk, strict=True):
            submission.jobs[job.job_id] = [entry.run_id for entry in call.runs]
            submission.memory_mb[job.job_id] = memory_mb(resources)
        submission.save()


def _settings(entry: Entry) -> TierSettings:
    return resolve(RunSpec.from_json(entry.spec)).settings


def _pack(runs: list[str], profile: Profile, resources: Resources, results: Path, submission: Submission) -> Pack:
    entries = []
    for run in runs:
        spec = submission.specs[run]
        suite = Path(spec["suite"]).stem if spec["suite"].endswith(".toml") else spec["suite"]
        directory = f"{suite}/{spec['tier']}/{run}"
        before = read_json(results / directory / "failure.json") or {}
        entries.append(Entry(run, directory, spec, int(before.get("attempts", 0))))
    return Pack(
        results=str(results),
        data_root=submission.data_root,
        runs=entries,
        code=submission.code,
        allow_changed_code=profile.allow_changed_code,
        retries=profile.retries,
        max_requeues=profile.max_requeues,
        gpu=resources.gpus > 0 and resources.device == "auto",
        gpu_memory_mb=math.ceil(resources.gpu_memory_gb * 1024),
        capability=AMPERE if any(entry.precision != "fp32" for entry in map(_settings, entries)) else (0, 0),
        share=resources.share,
        keep_model=submission.keep_model,
        track=tuple(submission.track),
    )
