"""`python -m benchmark …`. Exit codes: 0 done, 1 something failed, 2 bad request, 130 interrupted."""

from __future__ import annotations

import sys

import click


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
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        command = error.ctx.command_path if getattr(error, "ctx", None) else "benchmark"
        name = command.removeprefix("benchmark").strip()
        err.print(f"{error.format_message()} Type: python -m benchmark {name} --help".replace("  ", " "), markup=False)
        return 2
    except (KeyboardInterrupt, click.exceptions.Abort):
        err.print("Interrupted. Nothing is lost: the same command goes on where it stopped.")
        return 130


if __name__ == "__main__":
    sys.exit(main())
