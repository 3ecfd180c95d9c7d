"""What a run costs: wall and CPU seconds over all its starts, peak memory; and the hash of its weights."""

from __future__ import annotations

import contextlib
import hashlib
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from methods.contract import Method


class Usage:
    """Clocks that go on over restarts."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.monotonic(), time.process_time()
        self._before = {"seconds": 0.0, "cpu_seconds": 0.0}
        with contextlib.suppress(OSError):  # start the peak anew: workers are used for many runs
            Path("/proc/self/clear_refs").write_text("5")

    def seconds(self) -> float:
        """Wall time of all starts."""
        return self._before["seconds"] + time.monotonic() - self._wall

    def read(self) -> dict[str, float]:
        """Seconds, CPU seconds, peak memory of this process in MB."""
        return {
            "seconds": self.seconds(),
            "cpu_seconds": self._before["cpu_seconds"] + time.process_time() - self._cpu,
            "peak_memory_mb": peak_memory_mb(),
        }

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {k: v for k, v in self.read().items() if k != "peak_memory_mb"}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self._before = {k: float(state[k]) for k in ("seconds", "cpu_seconds")}


def peak_memory_mb() -> float:
    """Peak resident memory since the last `Usage` began."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def state_hash(method: Method) -> str:
    """sha256 over every weight and buffer: two runs are the same run when these are equal."""
    digest = hashlib.sha256()
    for name, tensor in sorted(method.state_dict()["modules"].items()):
        if hasattr(tensor, "detach"):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:32]
