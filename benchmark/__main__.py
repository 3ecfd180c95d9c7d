"""`python -m benchmark …`. Exit codes: 0 done, 1 something failed, 2 bad request, 130 interrupted."""

from __future__ import annotations

import sys

import typer

# The base of typer's own complaints about a command line, wherever its version keeps that class.
UsageProblem = [c for c in typer.BadParameter.__mro__ if c not in (Exception, BaseException, object)][-1]


def main(arguments: list[str] | None = None) -> int:
    """Run one command; errors of the user's become sentences."""
    from benchmark.cli import app, err
    from benchmark.errors import UserError
    from methods.contract import MethodError

    try:
        result = app(args=arguments, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except (UserError, MethodError) as error:
        err.print(str(error), markup=False)
        return 2
    except UsageProblem as error:
        context = getattr(error, "ctx", None)
        verb = context.command_path.rpartition("benchmark")[2].strip() if context else ""
        sentence = error.format_message() if hasattr(error, "format_message") else str(error)
        if sentence:  # nothing to say when the help was shown instead
            err.print(f"{sentence} Type: {' '.join(['python -m benchmark', verb, '--help']).replace('  ', ' ')}", markup=False)
        return 2
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        err.print("Interrupted. Nothing is lost: the same command goes on where it stopped.")
        return 130


if __name__ == "__main__":
    sys.exit(main())
