"""Everything at once, for people: `write` makes the report (one HTML file), `publish` a study of records and all that is
rendered from them; `verify` does either again and compares.
"""

from __future__ import annotations

from benchmark.report.page import render, write

__all__ = ["render", "write"]
