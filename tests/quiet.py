"""A command of this process, and all that it says."""

from __future__ import annotations

import contextlib
import io

from benchmark.__main__ import main


def quiet(*words: str) -> tuple[int, str]:
    """A command's exit code and everything it said; a traceback would come through here as an exception."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(list(words))
    return code, said.getvalue()
