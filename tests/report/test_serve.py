"""The served report: it follows the records, keeps the reader's place, and speaks to this machine alone."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmark import records, report
from benchmark.__main__ import main
from benchmark.errors import UserError
from benchmark.report import publish
from benchmark.report.serve import Server, Watched, stamps
from tests import needs
from tests.browser import Page, browser
from tests.synthetic import write_run, write_study


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write_study(tmp_path / "runs", ["source-only", "tsvdnet"])
    return tmp_path / "runs"


@pytest.fixture
def server(results: Path) -> Iterator[Server]:
    watched = Watched(results)
    watched.look()
    with Server(watched) as found:
        yield found


def ask(server: Server, path: str = "/", verb: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    try:
        connection.request(verb, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8"), dict(answer.getheaders())
    finally:
        connection.close()


# -- what is rendered -------------------------------------------------------------------------------------------------


def test_the_page_is_rendered_again_only_when_the_records_changed(results: Path):
    watched = Watched(results)
    assert watched.look()
    first = watched.page
    assert not watched.look()
    assert watched.page is first
    (results / "digits" / "mini" / "notes.txt").write_text("no record")
    assert not watched.look()
    new = write_run(results, "dann", "mm", 0)
    assert watched.look()
    assert watched.page.version != first.version
    for changed in ("failure.json", "record.json", "curve.jsonl"):  # a state, a record, a curve
        before = stamps(results)
        if changed == "failure.json":
            write_run(results, "mdda", "mm", 0, status="failed")
        else:
            path = new / changed
            path.write_bytes(path.read_bytes())
        assert stamps(results) != before
    assert watched.look()
    assert watched.rendered == 3


def test_before_the_first_record_the_page_waits_for_it(tmp_path: Path):
    watched = Watched(tmp_path / "<b>none")
    assert b"being read" in watched.page.content
    watched.look()
    page = watched.page.content.decode("utf-8")
    assert "There are no records in" in page
    assert "&lt;b&gt;none" in page
    assert 'http-equiv="refresh"' in page


def test_a_tree_that_goes_while_it_is_read_leaves_the_page_as_it_was(results: Path, monkeypatch: pytest.MonkeyPatch):
    watched = Watched(results)
    watched.look()
    page = watched.page
    write_run(results, "dann", "mm", 0)

    def gone(root: Path) -> None:
        raise FileNotFoundError(root)

    monkeypatch.setattr("benchmark.report.serve.records.load", gone)
    assert not watched.look()
    assert watched.page is page


def test_a_study_that_is_damaged_is_said_on_the_page_until_it_is_whole_again(results: Path, tmp_path: Path):
    publish.pack(tmp_path / "study", [Path(e.path) for e in records.run_directories(results)])
    file = tmp_path / "study" / "records.parquet"
    whole = file.read_bytes()
    watched = Watched(tmp_path / "study")
    assert watched.look()
    file.write_bytes(whole[: len(whole) // 2])  # as while it is copied
    assert watched.look()
    page = watched.page
    assert "records.parquet" in page.content.decode("utf-8")
    assert 'http-equiv="refresh"' in page.content.decode("utf-8")
    assert not watched.look()
    assert watched.page is page
    file.write_bytes(whole)
    assert watched.look()
    assert "Digits-Five" in watched.page.content.decode("utf-8")


def test_the_file_that_report_writes_has_nothing_of_the_served_page(results: Path, tmp_path: Path):
    text = report.write(results, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "connect-src" not in text
    assert "fetch(" not in text
    assert 'id="live"' not in text


# -- who is answered, and with what ----------------------------------------------------------------------------------


def test_the_server_has_the_page_and_its_version_and_no_file(server: Server, results: Path):
    code, page, headers = ask(server)
    assert code == 200
    assert "Digits-Five" in page
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    version = ask(server, "/version")[1]
    assert f'data-version="{version}"' in page
    (results / "secret.txt").write_text("secret")
    for path in (
        "/secret.txt",
        "/report.html",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "//etc/passwd",
        "/version/..",
        "/?x",
    ):
        code, text, _ = ask(server, path)
        assert (code, text) == (404, "There is nothing here but the report: /")
    code, text, headers = ask(server, verb="HEAD")
    assert (code, text, int(headers["Content-Length"])) == (200, "", len(page.encode()))
    assert ask(server, verb="POST")[0] == 501


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "", "[::2]", "localhost.x:1"]
)
def test_a_foreign_name_is_refused_as_in_dns_rebinding(server: Server, host: str):
    for path in ("/", "/version"):
        code, text, _ = ask(server, path, Host=host.format(port=server.server_address[1]))
        assert code == 403
        assert text == f"This report is served to this machine alone: {server.url}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9999", "LOCALHOST", "[::1]", "[::1]:8000"])
def test_names_of_this_machine_are_answered_behind_a_tunnel_too(server: Server, host: str):
    assert ask(server, "/version", Host=host)[0] == 200


def test_it_listens_on_the_loopback_address_alone_and_a_taken_port_is_a_sentence(server: Server, results: Path):
    address, port = server.socket.getsockname()
    assert address == "127.0.0.1"
    for taken in (port, 99999):
        with pytest.raises(UserError, match=f"cannot be served on port {taken}: .* Leave out --port"):
            Server(Watched(results), taken)


def test_a_port_can_be_had_again_as_soon_as_its_server_has_ended(results: Path):
    watched = Watched(results)
    with Server(watched) as first:
        port = first.server_address[1]
        with socket.create_connection(("127.0.0.1", port), timeout=30) as reader:
            reader.sendall(b"GET /version HTTP/1.0\r\nHost: localhost\r\n\r\n")
            while reader.recv(4096):  # to the end: the side that closes first has the connection linger
                pass
    with Server(watched, port) as second:
        assert ask(second)[0] == 200


def test_options_that_do_not_go_together_are_sentences(results: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", "--results", str(results), "--port", "8000"]) == 2
    assert "--port goes with --serve." in capsys.readouterr().err
    assert main(["report", "--results", str(results), "--serve", "--out", "x.html"]) == 2
    assert "--serve writes no file" in capsys.readouterr().err


@pytest.mark.parametrize("as_json", [False, True])
def test_the_verb_says_where_and_ctrl_c_ends_it_with_a_sentence(results: Path, as_json: bool):
    command = [sys.executable, "-m", "benchmark", "report", "--serve", "--results", str(results)]
    process = subprocess.Popen(
        [*command, *(["--json"] if as_json else [])], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4 if as_json else 2)]
        url = json.loads("".join(lines))["url"] if as_json else re.findall(r"http://\S+", lines[0])[0]
        with socket.create_connection(("127.0.0.1", int(url.rstrip("/").rpartition(":")[2])), timeout=10):
            pass
        process.send_signal(signal.SIGINT)
        _, problems = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert problems == f"No longer served. For a file that stays: python -m benchmark report --results {results}\n"
    assert not (results / "report.html").exists()


# -- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    with browser() as found:
        yield found


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(RuntimeError):  # a page that is on its way has no body yet
            if condition():
                return
        assert time.monotonic() < end
        time.sleep(0.1)


@needs.chromium
@pytest.mark.browser
class TestInABrowser:
    @pytest.fixture
    def opened(self, tab: Page, server: Server) -> Page:
        tab.problems.clear()
        tab.call("Emulation.setDeviceMetricsOverride", width=1200, height=800, deviceScaleFactor=1, mobile=False)
        tab.call("Page.navigate", url=server.url)
        self.loaded(tab, server)
        return tab

    def version(self, tab: Page) -> str:
        return str(tab.run('document.getElementById("live")?.dataset.version ?? ""'))

    def loaded(self, tab: Page, server: Server) -> None:
        """Until the page is the one that the server has, whole, and where the reader was."""

        def there() -> bool:
            try:
                return (
                    bool(tab.run("document.readyState") == "complete")
                    and self.version(tab) == server.watched.page.version
                )
            except RuntimeError:  # the page that was asked has just gone
                return False

        until(there)
        tab.run("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")

    def test_the_page_takes_new_records_and_the_reader_stays_where_he_was(
        self, opened: Page, server: Server, results: Path
    ):
        before = self.version(opened)
        opened.run(
            """{
            document.querySelector("#digits-mini-comparison details").open = true;
            document.querySelector("#digits-mini-comparison thead th button").click();
            const select = document.querySelector("#filters select[data-key=row]");
            select.value = "tsvdnet";
            select.dispatchEvent(new Event("input", { bubbles: true }));
            location.hash = "#verdicts";
            document.getElementById("runs").scrollIntoView({ behavior: "instant" });
            scrollBy({ top: 35, behavior: "instant" });
            }"""
        )
        top = 'document.getElementById("runs").getBoundingClientRect().top'
        seen, height = opened.run(top), opened.run("document.body.scrollHeight")
        shown = opened.run('document.getElementById("runs-count").textContent')
        assert shown == "15 of 30 runs"
        write_study(results, ["dann", "m3sda", "source-only:bn"])  # more rows and more tables above
        server.watched.look()
        self.loaded(opened, server)
        assert self.version(opened) != before
        assert opened.run("document.body.scrollHeight") > height
        assert abs(opened.run(top) - seen) < 2
        assert opened.run('document.querySelector("#digits-mini-comparison details").open') is True
        assert opened.run('document.querySelectorAll("details[open]").length') == 1
        order = 'document.querySelector("#digits-mini-comparison thead th").getAttribute("aria-sort")'
        assert opened.run(order) == "descending"
        assert opened.run('document.getElementById("runs-count").textContent') == "15 of 75 runs"
        assert "Live: 75 runs" in opened.run('document.getElementById("live").textContent')
        assert opened.problems == []

    def test_nothing_is_asked_for_but_the_page_and_its_version(self, opened: Page, server: Server):
        opened.requests.clear()
        until(lambda: len(opened.requests) > 1 or opened.run("0"))
        assert set(opened.requests) <= {server.url, f"{server.url}version"}

    def test_an_open_run_is_not_taken_away(self, opened: Page, server: Server, results: Path):
        before = self.version(opened)
        opened.run('document.querySelector("#runs-table button.open").click()')
        write_run(results, "dann", "mm", 0)
        server.watched.look()
        until(lambda: "New records" in opened.run('document.getElementById("live").textContent'))
        assert self.version(opened) == before
        assert opened.run('document.getElementById("run").open') is True
        opened.run('document.getElementById("close").click()')
        self.loaded(opened, server)
        assert opened.run('document.getElementById("run").open') is False

    def test_a_page_that_waited_for_records_shows_the_first(self, tab: Page, tmp_path: Path):
        watched = Watched(tmp_path / "runs")
        watched.look()
        with Server(watched) as server:
            tab.call("Page.navigate", url=server.url)
            until(lambda: "There are no records" in str(tab.run("document.body.textContent")))
            write_run(tmp_path / "runs")
            watched.look()
            self.loaded(tab, server)
            assert "Live: 1 runs" in tab.run('document.getElementById("live").textContent')

    def test_when_the_server_has_ended_the_page_stays_and_says_so(self, tab: Page, results: Path):
        watched = Watched(results)
        watched.look()
        with Server(watched) as server:
            tab.call("Page.navigate", url=server.url)
            self.loaded(tab, server)
        until(lambda: "the server has ended" in tab.run('document.getElementById("live").textContent'))
        assert tab.run('document.querySelectorAll("#runs-table tbody tr").length') == 30
