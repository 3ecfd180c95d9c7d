"""How fast a device computes: what `profile` measured here, or a small table of GPUs with its sources."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmark.errors import UserError, unknown
from benchmark.files import read_object, read_toml, write_json
from benchmark.plan.flops import Work
from benchmark.spec import TierSettings

DEVICES = Path(__file__).parent / "devices.toml"


@dataclass(frozen=True)
class Rate:
    """FLOP/s of a device on a network, seconds that a kernel's launch takes, and where that comes from."""

    flops: float
    launch: float
    basis: str

    def seconds(self, work: Work) -> float:
        """Whichever is longer: the device's work, or the host's who starts it."""
        return max(work.flops / self.flops, work.launches * self.launch)


@lru_cache(maxsize=1)
def _devices() -> dict[str, Any]:
    return read_toml(DEVICES, "The table of devices")


def gpu_names() -> list[str]:
    """What --gpu takes."""
    return list(_devices()["gpus"])


def is_gpu(name: str, hardware: str) -> bool:
    """Whether a record's hardware is the GPU that --gpu calls `name`; only the full name is one of an unknown GPU."""
    known = _devices()["gpus"].get(name, {"is": re.escape(name)})
    return re.search(known["is"], hardware, re.IGNORECASE) is not None


def of_gpu(name: str, precision: str) -> Rate:
    """The rate of a GPU from the table: a roofline with constants from published trainings."""
    table = _devices()
    name = name or table["default"]
    if name not in table["gpus"]:
        raise unknown("GPU", name, gpu_names())
    gpu = table["gpus"][name]
    if precision not in gpu:
        has = ", ".join(p for p in ("fp32", "tf32", "bf16") if p in gpu)
        raise UserError(
            f"{gpu['title']} has no {precision} (it has {has}). Choose another --gpu, or leave the setting out."
        )
    rate = min(table["compute"] * gpu[precision], table["memory"][precision] * gpu["bandwidth"])
    words = f"counted FLOPs at {rate:.1f} TFLOP/s, assumed for {gpu['title']} in {precision}"
    return Rate(rate * 1e12, table["launch"], words)


def profiled(settings: TierSettings, kind: str) -> Rate | None:
    """What `profile` last measured of this network and precision on a device of this kind ("cpu" or "cuda")."""
    found = read_object(_file()).get(_key(settings, kind))
    if not isinstance(found, dict):
        return None
    words = f"counted FLOPs at {found['flops'] / 1e9:.4g} GFLOP/s, profiled on {found['hardware']}"
    return Rate(float(found["flops"]), 0.0, words)


def keep(settings: TierSettings, kind: str, hardware: str, flops: float) -> Path:
    """Write down what `profile` measured; returns where."""
    table = read_object(_file())
    table[_key(settings, kind)] = {"hardware": hardware, "flops": flops}
    write_json(_file(), table, durable=False)
    return _file()


def _key(settings: TierSettings, kind: str) -> str:
    network = settings.network
    return (
        f"{kind} {settings.precision} {network.name} ×{network.width:g} {network.image_size}px batch {settings.batch}"
    )


def _file() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "msda-benchmark" / "rates.json"
