"""`python -m benchmark …`. Exit codes: 0 done, 1 something failed, 2 bad request, 130 interrupted."""

from __future__ import annotations

import contextlib
import os
import sys

import typer

# The base of typer's own complaints about a command line, wherever its version keeps that class.
UsageProblem: type[Exception] = [c for c in typer.BadParameter.__mro__ if c not in (Exception, BaseException, object)][
    -1
]

INTERRUPTED = "Interrupted. Nothing is lost: the same command goes on where it stopped."


def main(arguments: list[str] | None = None) -> int:
    """Run one command; errors of the user's become sentences."""
    from benchmark.cli import app, err
    from benchmark.errors import Interrupted, RunFailed, UserError
    from benchmark.records.lease import LeaseLost, RunHeld
    from methods.errors import MethodError

    for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot show is no reason to fall over
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        result = app(args=arguments, standalone_mode=False)
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
