"""Errors of methods that are sentences for the user. Light: reading this imports nothing, torch takes seconds."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class MethodError(ValueError):
    """A method, preset, option or value that does not exist. The message is shown as it is; exit code 2; no traceback."""


def unknown(what: str, name: object, allowed: Sequence[str]) -> MethodError:
    """«There is no prox rule 'papper'. Did you mean 'paper'? Allowed: …»: the nearest name first."""
    near = difflib.get_close_matches(str(name), allowed, n=1, cutoff=0.5)
    did = f" Did you mean {near[0]!r}?" if near else ""
    ordered = [*near, *(n for n in allowed if n not in near)]
    return MethodError(f"There is no {what} {str(name)!r}.{did} Allowed: {', '.join(ordered)}.")
