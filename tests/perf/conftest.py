"""At the end of a run of this folder: the table of ratios, beside the stored ones."""

from __future__ import annotations

import pytest

from tests.perf import pairs


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if pairs.FOUND_NOW:
        pairs.write(pairs.FOUND_NOW)
        terminalreporter.section("ratios")
        terminalreporter.write_line(pairs.table(pairs.FOUND_NOW))
