"""A cluster profile: what a sweep asks SLURM for, read from a TOML file; every mistake is one sentence.

The keys of the file are the fields below. Keys of `Resources` stand at the top for all tiers and may be repeated in
`[tiers.mini]`, `[tiers.lite]`, `[tiers.paper]`, where they win. `[sbatch]` takes any other long option of sbatch.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from benchmark.errors import UserError, unknown
from benchmark.files import read_toml

TIERS = ("mini", "lite", "paper")
Model = TypeVar("Model", bound=BaseModel)

# options of sbatch that the launcher sets itself, and where a profile says the same thing
OWNED = {
    "account": "account", "array": "parallel", "constraint": "constraint", "cpus-per-task": "cpus", "error": "",
    "gpus": "gpus", "gpus-per-node": "gpus", "gres": "gpus and gpu_type", "job-name": "", "mem": "memory_gb",
    "nodes": "", "no-requeue": "max_requeues", "ntasks": "", "ntasks-per-node": "", "open-mode": "", "output": "",
    "partition": "partition", "qos": "qos", "requeue": "max_requeues", "signal": "signal_seconds", "time": "time",
    "wrap": "",
}  # fmt: skip


class Resources(BaseModel):
    """What one task asks for."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    partition: str | None = Field(None, description="partition, or several with commas; the site's default if absent")
    account: str | None = Field(None, description="account that is charged")
    qos: str | None = Field(None, description="quality of service")
    constraint: str | None = Field(None, description="features a node must have, for example 'a100&nvlink'")
    gpus: int = Field(0, ge=0, le=16, description="GPUs; a run uses one, so more than 1 is seldom right")
    gpu_type: str | None = Field(None, description="kind of GPU as the site names it, for example 'a100'")
    device: Literal["auto", "cpu"] = Field(
        "auto", description="auto: a task that asks for a GPU must find it; cpu: never use it"
    )
    gpu_memory_gb: float = Field(
        1.0, ge=0, le=1024, description="GB that must be free on a task's GPU; a node with less is left for another"
    )
    share: int = Field(
        1, ge=1, le=64, description="runs at once in a task, all on its GPU; they share its memory_gb too"
    )
    cpus: int = Field(1, ge=1, le=1024, description="CPU cores")
    memory_gb: float = Field(4.0, gt=0, le=16384, description="memory in GB")
    time: int = Field(
        240, ge=1, le=525_600, description="the longest a task may last: minutes, 'H:MM:SS' or 'D-HH:MM:SS'"
    )
    sbatch: dict[str, str | int | bool] = Field({}, description="any other long option of sbatch, without the dashes")

    @field_validator("time", mode="before")
    @classmethod
    def _minutes(cls, value: Any) -> Any:
        return minutes(value) if isinstance(value, str) else value

    @field_validator("sbatch")
    @classmethod
    def _free_options(cls, value: dict[str, Any]) -> dict[str, Any]:
        for key in value:
            name = key.lstrip("-").replace("_", "-")
            if name in OWNED:
                instead = f"use the key {OWNED[name]} of the profile" if OWNED[name] else "the launcher sets it"
                raise ValueError(f"--{name} cannot stand in [sbatch]: {instead}")
        return {key.lstrip("-").replace("_", "-"): option for key, option in value.items()}


class Profile(Resources):
    """A cluster: resources, how a sweep is cut into tasks, and what happens to runs that stop."""

    title: str = Field("", description="a name for people")
    tiers: dict[Literal["mini", "lite", "paper"], dict[str, Any]] = Field({}, description="resources of one tier")
    decode: dict[str, Any] = Field(
        {},
        description="resources of the CPU job that decodes pictures before a sweep on GPUs; else a task's, without GPU",
    )
    parallel: int = Field(64, ge=1, le=10000, description="tasks of one array that may run at once")
    pack_minutes: float = Field(60, ge=0, le=525_600, description="short runs share a task until it has this much work")
    pack_runs: int = Field(50, ge=1, le=1000, description="the most runs that share a task")
    margin: float = Field(1.5, ge=1, le=100, description="time asked for = measured time × margin")
    max_requeues: int = Field(
        20, ge=0, le=10_000, description="how often a task that was stopped goes back to the queue"
    )
    retries: int = Field(1, ge=0, le=10, description="how often a run that failed is tried again")
    signal_seconds: int = Field(120, ge=10, le=86_400, description="warning before the time limit, to save and requeue")
    setup: list[str] = Field([], description="lines of shell before the runs: modules, environment, proxies")
    python: str | None = Field(None, description="command that starts Python on a node; this one if absent")
    allow_changed_code: bool = Field(False, description="run although the code changed after the submission")

    def resources(self, tier: str) -> Resources:
        """What a task of this tier asks for: the top of the file, with `[tiers.<tier>]` over it."""
        base = {name: getattr(self, name) for name in Resources.model_fields}
        own = self.tiers.get(tier, {})  # type: ignore[call-overload]
        return Resources.model_validate({**base, **own, "sbatch": {**base["sbatch"], **own.get("sbatch", {})}})


def load_profile(path: str | Path) -> Profile:
    """Read and check a profile; a `UserError` names file, key and what is allowed."""
    file = Path(path)
    if not file.is_file():
        near = sorted(str(p) for p in (file.parent if file.parent.is_dir() else Path("slurm")).glob("*.toml"))
        hint = f" Profiles there: {', '.join(near)}." if near else " See docs/cluster.md for one to start from."
        raise UserError(f"The cluster profile {file} does not exist.{hint}")
    document = read_toml(file, "The cluster profile")
    profile = _validate(Profile, document, f"the cluster profile {file}")
    for tier in TIERS:
        table = document.get("tiers", {}).get(tier)
        if table is not None:
            _validate(Resources, table, f"[tiers.{tier}] of the cluster profile {file}")
    _validate(Resources, profile.decode, f"[decode] of the cluster profile {file}")
    return profile


def _validate(model: type[Model], document: Any, where: str) -> Model:
    """`document` as `model`; the first mistake becomes a sentence that lists every valid key."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise unknown(f"key in {where}:", key, model.model_fields) from None
        if key.startswith("tiers.") and key.endswith(".[key]"):
            raise unknown(f"tier in {where}:", first["loc"][1], TIERS) from None
        reason = first["msg"].removeprefix("Value error, ")
        description = model.model_fields[str(first["loc"][0])].description if first["loc"] else ""
        meaning = f" ({first['loc'][0]}: {description})" if description else ""
        raise UserError(f"{key} = {first['input']!r} is not right in {where}: {reason}.{meaning}") from None


def minutes(text: str) -> int:
    """Minutes of a time as sbatch writes it: 'M', 'M:SS', 'H:MM:SS', 'D-H', 'D-H:MM', 'D-H:MM:SS'; rounded up."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text.strip())
    if match is None:
        raise ValueError("a time is minutes, 'H:MM:SS' or 'D-HH:MM:SS'")
    days, *parts = (None if part is None else int(part) for part in match.groups())
    first, second, third = parts
    if days is not None:
        total = days * 1440 + (first or 0) * 60 + (second or 0) + (third or 0) / 60
    elif third is not None:
        total = (first or 0) * 60 + (second or 0) + third / 60
    else:
        total = (first or 0) + (second or 0) / 60
    return -int(-total // 1)
