"""`python -m benchmark …`. Exit codes: 0 done, 1 something failed, 2 bad request, 130 interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import typer

from benchmark.errors import Interrupted, LeaseLost, RunFailed, RunHeld, UserError
from methods.errors import MethodError

# The base of typer's own complaints about a command line, wherever its version keeps that class.
UsageProblem: type[Exception] = [c for c in typer.BadParameter.__mro__ if c not in (Exception, BaseException, object)][
    -1
]

INTERRUPTED = "Interrupted. Nothing is lost: the same command goes on where it stopped."
# A shell completes the name of a command, never `python -m …`: what is installed is for the console script. The protocol
# itself answers under both names.
SCRIPT = "msda-benchmark"
COMPLETION = {"--install-completion", "--show-completion"}


@contextlib.contextmanager
def stopped_like_ctrl_c() -> Iterator[None]:
    """SIGTERM is Ctrl-C by other means. Only the first counts: `timeout` and others send it twice, to us and our group."""

    def interrupt(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's alone
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@stopped_like_ctrl_c()
def main(arguments: list[str] | None = None) -> int:
    """Run one command; errors of the user's become sentences."""
    from benchmark.cli import app, err  # here, since every worker process imports this module and none needs them

    for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot show is no reason to fall over
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    words = sys.argv[1:] if arguments is None else arguments
    names = {"complete_var": "_MSDA_BENCHMARK_COMPLETE", "prog_name": SCRIPT if {*words} & COMPLETION else None}
    try:
        result = app(args=words, standalone_mode=False, **names)
        code = result if isinstance(result, int) else 0
        if code == 130:  # of a verb that stopped in good order, or as typer passes an interrupt on
            err.print(INTERRUPTED)
        return code
    except (UserError, MethodError) as error:
        err.print(str(error), markup=False)
        return 2
    except UsageProblem as error:
        context = getattr(error, "ctx", None)
        verb = context.command_path.rpartition("benchmark")[2].strip() if context else ""
        sentence = error.format_message() if hasattr(error, "format_message") else str(error)
        if sentence:  # nothing to say when the help was shown instead
            err.print(
                f"{sentence} Type: {' '.join(['python -m benchmark', verb, '--help']).replace('  ', ' ')}", markup=False
            )
        return 2
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (RunFailed, RunHeld, LeaseLost) as error:
        err.print(f"Failed: {error}", markup=False)
        return 1
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        err.print(f"Failed: {error.filename or 'a file'}: {error.strerror or error}", markup=False)
        return 1
    except (KeyboardInterrupt, Interrupted, typer.Abort):
        err.print(INTERRUPTED)
        return 130


if __name__ == "__main__":
    sys.exit(main())
