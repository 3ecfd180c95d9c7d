"""What a run costs: wall and CPU seconds over all its starts, peak memory of process and device; and the hash of its weights."""

from __future__ import annotations

import contextlib
import hashlib
import json
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from benchmark.run.provenance import start
from methods.contract import Method


class Usage:
    """Clocks that go on over restarts, and on what each start ran."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._device_mb = 0.0  # the peak of earlier starts
        self.starts: list[dict[str, Any]] = []
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        self._wall, self._cpu = time.monotonic(), time.process_time()
        self._before = {"seconds": 0.0, "cpu_seconds": 0.0}
        with contextlib.suppress(OSError):  # start the peak anew: workers are used for many runs
            Path("/proc/self/clear_refs").write_text("5")

    def begins(self, update: int) -> None:
        """The run begins, or goes on, at this update on this machine."""
        self.starts.append(start(str(self._device), update))

    def seconds(self) -> float:
        """Wall time of all starts."""
        return self._before["seconds"] + time.monotonic() - self._wall

    def read(self) -> dict[str, float]:
        """Seconds, CPU seconds, peak memory of this process in MB; on a GPU also the most that tensors took there."""
        found = {
            "seconds": self.seconds(),
            "cpu_seconds": self._before["cpu_seconds"] + time.process_time() - self._cpu,
            "peak_memory_mb": peak_memory_mb(),
        }
        if self._device.type == "cuda":
            now = torch.cuda.max_memory_allocated(self._device) / 2**20
            found["peak_device_memory_mb"] = max(self._device_mb, now)
        return found

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {**{k: v for k, v in self.read().items() if k != "peak_memory_mb"}, "starts": json.dumps(self.starts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self._before = {k: float(state[k]) for k in ("seconds", "cpu_seconds")}
        self.starts = json.loads(state.get("starts", "[]"))
        self._device_mb = float(state.get("peak_device_memory_mb", 0.0))


def peak_memory_mb() -> float:
    """Peak resident memory since the last `Usage` began."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def state_hash(method: Method) -> str:
    """sha256 over every weight and buffer: two runs are the same run when these are equal."""
    return weights_hash(method.state_dict()["modules"])


def weights_hash(modules: Mapping[str, Any]) -> str:
    """The same of weights and buffers by name; what is no tensor among them does not count."""
    digest = hashlib.sha256()
    for name, tensor in sorted(modules.items()):
        if hasattr(tensor, "detach"):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:32]
