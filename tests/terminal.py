"""A terminal of a given size for tests: the command line at the end of a pseudo-terminal, and what it writes there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
_UP = re.compile(r"\x1b\[\d*A")
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)")
STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """A program on a screen of `columns` × `rows`; `text` is all that it has written so far."""

    def __init__(self, words: list[str], columns: int, rows: int = 24, **environment: str) -> None:
        self._end, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        unset = {"COLUMNS", "LINES", "CI", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "PYTEST_CURRENT_TEST"}
        kept = {key: value for key, value in os.environ.items() if key not in unset}
        kept |= {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **environment}
        command = [sys.executable, "-m", "benchmark", *words]
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=kept, start_new_session=True, cwd=ROOT
        )
        os.close(theirs)
        self.text = ""

    def until(self, wanted: str, seconds: float = 600) -> str:
        """Read until `wanted` has been written, or the program ended where it is empty; gives all text so far."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if wanted and wanted in self.plain:
                return self.text
            if not select.select([self._end], [], [], 0.2)[0]:
                continue
            try:
                piece = os.read(self._end, 1 << 16)
            except OSError:  # the other end is closed
                piece = b""
            if not piece:
                if wanted:
                    raise AssertionError(f"the program ended without {wanted!r}:\n{self.plain}")
                self.process.wait(60)
                return self.text
            self.text += piece.decode("utf-8", "replace")
        raise TimeoutError(f"{wanted!r} was not written:\n{self.plain}")

    @property
    def plain(self) -> str:
        """What was written, without the sequences that colour it; a picture that is drawn again begins a new line."""
        return _SEQUENCE.sub("", _UP.sub("\n", self.text)).replace("\r", "")

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """End the program, if it lives."""
        with contextlib.suppress(OSError):
            os.close(self._end)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)


@contextlib.contextmanager
def terminal(words: list[str], columns: int, rows: int = 24, **environment: str) -> Iterator[Terminal]:
    """A program that is gone afterwards."""
    found = Terminal(words, columns, rows, **environment)
    try:
        yield found
    finally:
        found.close()


def shown(words: list[str], columns: int, rows: int = 24, **environment: str) -> Terminal:
    """A program that has ended by itself."""
    with terminal(words, columns, rows, **environment) as found:
        found.until("")
    return found
