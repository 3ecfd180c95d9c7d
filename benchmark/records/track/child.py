"""The process of one tracker: lines of JSON come in, the tracker is called, one line goes out when it has ended or failed.

Everything that a tracker may do to a process (random states, threads, environment, hanging, dying) it does here. The
process ignores the signals that its run gets; it ends when it is told to, or when the run's process is gone, and then it
has `GRACE` seconds to write what it has.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmark.records.track.names import BUILT_IN, load, not_installed
from benchmark.records.track.protocol import About
from benchmark.records.track.turn import GRACE, alone

DEAF = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2")  # a run's signals mean: save; the tracker hears of it from its run


def serve(lines: Iterable[bytes], say: Callable[[dict[str, Any]], None]) -> None:
    """Call a tracker as the lines ask for: {"tracker"}, then for each run {"start"}, {"point"} …, {"end"}.

    Lines that end without an {"end"} are a run whose process was killed.
    """
    name, made, there, held = "", None, 0, contextlib.ExitStack()
    try:
        for line in lines:
            message = json.loads(line)
            if "tracker" in message:
                name = message["tracker"]
            elif "start" in message:
                run = About(**message["start"])
                if held.enter_context(alone(Path(run.folder), run.run_id, message.get("turn"))):
                    made = load(name)()
                    there = made.start(run) or 0
            elif "point" in message and made is not None:
                update, values = message["point"]
                if update > there:  # each update once, whoever wrote it
                    made.point(update, values)
                    there = update
            elif "end" in message:
                if made is not None:  # else the run's next start has overtaken this one
                    made.end(message["end"])
                made = None
                held.close()
                say({"ended": True})
        if made is not None:
            made.end("killed")
    except Exception as error:
        traceback.print_exc()
        say({"failed": reason(name, error)})
    finally:
        held.close()


def reason(name: str, error: Exception) -> str:
    """What is wrong, in one line."""
    package = BUILT_IN[name][0] if name in BUILT_IN else ""
    if package and isinstance(error, ModuleNotFoundError) and error.name == package:
        return not_installed(package)
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0][:300]}" if words else type(error).__name__


def _leave_with(parent: int, over: threading.Event, scratch: str) -> None:
    """End this process `GRACE` seconds after its run's, or after the last line, whatever the tracker is at."""
    while os.getppid() == parent and not over.wait(0.5):
        pass
    time.sleep(GRACE)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(1)


def _until_closed(over: threading.Event) -> Iterator[bytes]:
    yield from sys.stdin.buffer
    over.set()


def main() -> None:
    """What `python -m benchmark.records.track.child` does."""
    for name in DEAF:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    os.nice(5)  # the run comes first
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints goes to the log
    over = threading.Event()
    # what a library leaves here it cannot take away: this process ends at once
    tempfile.tempdir = scratch = tempfile.mkdtemp(prefix="tracker-")
    threading.Thread(target=_leave_with, args=(os.getppid(), over, scratch), daemon=True).start()

    def say(answer: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more
            print(json.dumps(answer), file=answers, flush=True)

    serve(_until_closed(over), say)
    sys.stderr.flush()
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)  # nobody waits for what a library does at the end of a process


if __name__ == "__main__":
    main()
