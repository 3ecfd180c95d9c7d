"""The run's end of the pipe to a tracker's process. Nothing here waits, unless it is asked to."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import benchmark
from benchmark.records.track.names import label

BACKLOG = 8 * 2**20  # bytes that wait for a tracker before it is given up; an evaluation point has a few thousand
_left: list[subprocess.Popen[bytes]] = []  # processes that still write; looked after at the next start


class Channel:
    """A tracker's process: what is still to be told to it, and what it has answered."""

    def __init__(self, name: str, log: Path) -> None:
        for process in [p for p in _left if p.poll() is not None]:
            _left.remove(process)
        self.label, self.failed, self.waiting, self.ends = label(name), "", bytearray(), 0
        self.log, self._heard = log, b""
        root = Path(benchmark.__file__).parents[1]
        path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as file:
                self.process: subprocess.Popen[bytes] | None = subprocess.Popen(
                    [sys.executable, "-P", "-m", "benchmark.records.track.child"],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, start_new_session=True,
                    env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
                )  # fmt: skip
        except OSError as error:
            self.process, self.failed = None, f"it could not be started ({error.strerror or error})"
            return
        for pipe in (self.process.stdin, self.process.stdout):
            os.set_blocking(_number(pipe), False)
        self.tell({"tracker": name})

    def tell(self, message: dict[str, Any]) -> None:
        """Put a message in line, and hand over what the pipe takes."""
        if self.failed:
            return
        self.waiting += json.dumps(message, allow_nan=False).encode() + b"\n"
        self.exchange()
        if len(self.waiting) > BACKLOG and not self.failed:
            self.give_up("it does not keep up with the run")

    def exchange(self) -> None:
        """Write and read what can be written and read at once."""
        if self.failed or self.process is None:
            return
        with contextlib.suppress(OSError):  # full, or nobody there, of which the answer tells more
            while self.waiting:
                del self.waiting[: os.write(_number(self.process.stdin), bytes(self.waiting[:65536]))]
        self._hear()

    def _hear(self) -> None:
        assert self.process is not None
        try:
            while part := os.read(_number(self.process.stdout), 65536):
                self._heard += part
        except BlockingIOError:
            gone = False
        else:
            gone = True
        *lines, self._heard = self._heard.split(b"\n")
        try:
            for answer in map(json.loads, lines):
                self.ends += "ended" in answer
                self.failed = self.failed or str(answer.get("failed", ""))
        except (ValueError, TypeError, AttributeError):  # the process is a stranger's: what it says may be anything
            self.failed = "its process answers with something else than its state"
        if gone and not self.failed:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)
            code = self.process.returncode or 0
            self.failed = f"its process ended by itself ({'signal' if code < 0 else 'exit code'} {abs(code)})"
        if self.failed:
            self.give_up(self.failed)

    def give_up(self, why: str) -> None:
        """End the process, and all that it has started."""
        self.failed = why
        self.waiting.clear()
        if self.process is not None:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # the system has it: not ours to wait for
                self.process.wait(1.0)
            self.close()

    def wait(self, ends: int, deadline: float) -> bool:
        """Until the tracker has ended so many runs, or failed; False when the time is over before that."""
        self.exchange()  # who has answered while others were waited for is in time
        while not self.failed and self.ends < ends:
            left = deadline - time.monotonic()
            if left <= 0 or self.process is None:
                return False
            write = [_number(self.process.stdin)] if self.waiting else []
            select.select([_number(self.process.stdout)], write, [], min(left, 1.0))
            self.exchange()
        return True

    def close(self) -> None:
        """Nothing more will be said. A process that still writes is left to it, for the seconds that it gives itself."""
        if self.process is not None:
            for pipe in (self.process.stdin, self.process.stdout):
                with contextlib.suppress(OSError):
                    assert pipe is not None
                    pipe.close()
            if self.ends:  # it leaves as soon as it hears that nothing more will come
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(0.5)
            if self.process.poll() is None:
                _left.append(self.process)
            else:
                with contextlib.suppress(OSError):
                    if self.log.stat().st_size == 0:
                        self.log.unlink()
            self.process = None


def _number(pipe: IO[bytes] | None) -> int:
    assert pipe is not None
    return pipe.fileno()
