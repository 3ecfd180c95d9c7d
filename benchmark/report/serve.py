"""The report while a sweep runs: a page on this machine alone that is rendered again when the records have changed.

The server knows two paths, the page and its version, both in memory: no file is served. It listens on the loopback
address and answers only who asks for it by a loopback name; a page of the web that has its own name lead here (DNS
rebinding) is refused.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NoReturn

from benchmark import records
from benchmark.errors import UserError
from benchmark.files import shown
from benchmark.records import study
from benchmark.report.page import Live, render

ADDRESS = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost", "[::1]")  # by which a browser on this machine, or behind a tunnel, asks
LOOK_SECONDS = 2.0  # between two looks at the records
SHARE = 4  # at most one part in this many of a core's time goes into looking and rendering: the sweep needs the cores
WAITING = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2"><link rel="icon" href="data:,">
<meta name="color-scheme" content="light dark"><title>{title}</title></head>
<body style="font-family: system-ui; margin: 2rem"><h1>{title}</h1><p>{words}</p></body></html>
"""


@dataclass(frozen=True)
class Page:
    """What the server gives: the page and the version that it asks for; replaced as a whole."""

    content: bytes
    version: str


@dataclass
class Watched:
    """The records below a folder as a page that is rendered again only when they have changed."""

    results: Path
    title: str = "Benchmark report"
    figures: bool = False
    sheets: bool = False
    page: Page = field(init=False)
    rendered: int = 0  # how often
    _seen: tuple[object, ...] | None = None
    _name: str = field(default_factory=lambda: uuid.uuid4().hex[:8])  # another server's pages are others

    def __post_init__(self) -> None:
        self.page = self._waiting("The records are being read.", "")

    def _waiting(self, words: str, version: str) -> Page:
        """A page that asks for itself again until there is something to show."""
        return Page(WAITING.format(title=escape(self.title), words=escape(shown(words))).encode("utf-8"), version)

    def look(self) -> bool:
        """Render the page if the records are not those that it shows; whether it did."""
        version = f"{self._name}-{self.rendered + 1}"
        try:
            now = stamps(self.results)
            page = self._render(version) if now != self._seen else self.page
        except OSError:  # a file went while it was read: the next look finds what is there then
            return False
        except UserError as error:  # a damaged study, or one that is being copied here: the page waits for a sound one
            now, page = (str(error),), self._waiting(str(error), version)
        if now == self._seen:
            return False
        self._seen, self.page = now, page
        self.rendered += 1
        return True

    def _render(self, version: str) -> Page:
        frame = records.load(self.results)
        if frame.empty:
            words = f"There are no records in {self.results} yet. This page shows them as soon as there are."
            return self._waiting(words, version)
        live = Live(version, f"{len(frame)} runs, {time.strftime('%H:%M:%S')}")
        text = render(frame, figures=self.figures, sheets=self.sheets, title=self.title, live=live)
        return Page(text.encode("utf-8"), version)


def stamps(results: Path) -> tuple[object, ...]:
    """Changes when something changes that the report shows: a run, its state, its record, its curve."""
    found: list[object] = [study.stamp(results)]
    for place, state in records.surveyed(results):
        folder = results / place
        found.append((place, state.name, state.reason, *(_file(folder / n) for n in ("record.json", "curve.jsonl"))))
    return tuple(found)


def _file(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


class Server(ThreadingHTTPServer):
    """Answers with what `watched` holds, on a thread of its own."""

    daemon_threads = True
    allow_reuse_address = True  # a port whose last connections are still closing; one that has a listener is refused
    allow_reuse_port = False  # else two servers could share one

    def __init__(self, watched: Watched, port: int = 0) -> None:
        self.watched = watched
        try:
            super().__init__((ADDRESS, port), Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UserError(
                f"The report cannot be served on port {port}: {reason}. Leave out --port, and a free one is taken."
            ) from None

    @property
    def url(self) -> str:
        """Where a browser finds the page."""
        return f"http://{ADDRESS}:{self.server_address[1]}/"

    def __enter__(self) -> Server:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD of the two paths there are."""

    server: Server
    timeout = 10  # seconds for a request that comes in pieces
    server_version, sys_version = "benchmark", ""

    def do_GET(self) -> None:
        """The page, or its version."""
        host = self.headers.get("Host", "")
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        page = self.server.watched.page
        if name.lower() not in NAMES:
            words = f"This report is served to this machine alone: {self.server.url}"
            self._answer(403, words.encode(), "text/plain")
        elif self.path == "/":
            self._answer(200, page.content, "text/html")
        elif self.path == "/version":
            self._answer(200, page.version.encode(), "text/plain")
        else:
            self._answer(404, b"There is nothing here but the report: /", "text/plain")

    do_HEAD = do_GET

    def _answer(self, code: int, content: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for key, value in (
            ("Cache-Control", "no-store"),
            ("Content-Security-Policy", "frame-ancestors 'none'"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: the terminal is the reader's."""


def serve(watched: Watched, *, port: int = 0, ready: Callable[[str], None]) -> NoReturn:
    """Serve until Ctrl-C; `ready` is told the address as soon as there is a page."""
    with Server(watched, port) as server:
        watched.look()
        ready(server.url)
        took = 0.0
        while True:
            time.sleep(max(LOOK_SECONDS, (SHARE - 1) * took))
            began = time.process_time()
            watched.look()
            took = time.process_time() - began
