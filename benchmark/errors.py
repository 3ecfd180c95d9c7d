"""Errors that are sentences: what was asked, what is wrong, what is allowed, what to type next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A request that cannot be met as it stands. The message is shown as it is; exit code 2; no traceback."""


class RunFailed(Exception):
    """The run ended without a record; the reason stands in its failure.json. Exit code 1."""


class Interrupted(Exception):
    """The run was asked to stop; it has saved itself and goes on when it is called again. Exit code 130."""


class RunHeld(Exception):
    """Another live process has this run. Exit code 1."""


class LeaseLost(Exception):
    """A newer lease has taken this run over; this copy stops and writes nothing more. Exit code 1."""


def unknown(what: str, name: object, allowed: Iterable[str], hint: str = "") -> UserError:
    """«There is no suite 'digtis'. Did you mean 'digits'? Allowed: …»: the nearest name first."""
    names = list(allowed)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    ordered = near + [n for n in names if n not in near]
    did = f" Did you mean {near[0]!r}?" if near else ""
    return UserError(
        f"There is no {what} {str(name)!r}.{did} Allowed: {', '.join(ordered) or 'none'}.{' ' + hint if hint else ''}"
    )
