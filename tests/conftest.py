"""Fixtures that all tests share: one data cache for the session, no user environment, one thread."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest
import torch

from tests import needs
from tests.safety import sites as _sites
from tests.safety.small import Small

# The shell of a background job switches SIGINT off for all that it starts, and what the tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Three domains of a few pictures and a suite file: see tests/safety/small.py."""
    return Small(tmp_path_factory.mktemp("small"))


@pytest.fixture(autouse=True)
def _no_user_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a developer has set must not change what a test sees (real images are asked for by their own fixture)."""
    for name in ("BENCHMARK_RESULTS", "BENCHMARK_FAULT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def paper_tex() -> str:
    """The paper's LaTeX, for tests that check against it."""
    if not needs.NEEDS["paper"].here:
        needs.skip("paper")
    return Path(os.environ["BENCHMARK_PAPER_TEX"]).read_text(encoding="utf-8")


# -- every public error is met by a test: checked at the end of a whole run ------------------------------------------

_sites.watch()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The pretended GPU comes last: a process that has seen a backward pass on a device cannot fork one that trains."""
    items.sort(key=lambda item: item.path.parent.name == "gpu")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the workers of a parallel run report to their parent, which counts
        config.pluginmanager.register(needs.Tally())
    if _sites.VARIABLE not in os.environ:  # not a worker of a parallel run, which has it from its parent
        os.environ[_sites.VARIABLE] = tempfile.mkdtemp(prefix="error-sites-")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Only when everything ran: no file or keyword chosen, and nothing failed before."""
    config = session.config
    everything = not config.option.keyword and config.args == config.getini("testpaths")
    if hasattr(config, "workerinput") or not everything or exitstatus != 0 or config.option.collectonly:
        return
    missing = _sites.unmet(Path(os.environ[_sites.VARIABLE]))
    if missing:
        config.get_terminal_writer().line("\nNo test meets these public errors:", red=True)
        for site in missing:
            config.get_terminal_writer().line(f"  {site.file}:{site.first} in {site.function}: {site.words}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
