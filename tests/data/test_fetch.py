"""Fetching, against a local web server that plays good and bad mirrors."""

from __future__ import annotations

import hashlib
import io
import json
import os
import resource
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmark.data.get.download import Patience
from benchmark.data.get.fetch import fetch, fetch_all
from benchmark.data.get.sources import FILE, Source, downloads, manual, sources
from benchmark.errors import UserError
from tests import needs
from tests.disk import FORK, may_mount, small_disk

CONTENT = os.urandom(300_000)
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()
QUICK = Patience(connect=2, silence=0.5, window=0.4, rate=200_000)


class Mirror(BaseHTTPRequestHandler):
    """The first part of the path says how this mirror behaves; every request is written down."""

    protocol_version = "HTTP/1.1"
    requests: list[tuple[str, str]] = []
    content = CONTENT
    tag = '"one"'

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        how = self.path.split("/")[1]
        Mirror.requests.append((how, self.headers.get("Range", "")))
        if how == "dead":
            self.send_error(404)
            return
        body, start = (
            {"wrong": self.content[::-1], "empty": b"", "page": b"<!DOCTYPE html><p>Quota exceeded"}.get(
                how, self.content
            ),
            0,
        )
        if how == "cut":  # a truncated file that the mirror believes to be whole
            body = self.content[:-1000]
        asked, unchanged = self.headers.get("Range"), self.headers.get("If-Range") in (None, self.tag)
        if asked and unchanged and how != "norange":
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.send_header("ETag", self.tag)
        self.end_headers()
        self._body(how, body[start:])

    def _body(self, how: str, body: bytes) -> None:
        try:
            if how == "slow":
                for i in range(0, len(body), 4096):
                    self.wfile.write(body[i : i + 4096])
                    time.sleep(0.05)
            elif how == "silent":
                self.wfile.write(body[:1000])
                time.sleep(1.5)
            elif how in ("dying", "short"):
                self.wfile.write(body if len(body) < 40_000 else body[: len(body) // 2])
                self.wfile.flush()
                self.close_connection = True
                self.connection.close()
            else:
                self.wfile.write(body)
        except OSError:
            pass


@pytest.fixture(scope="module")
def server():
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()


@pytest.fixture
def source(server, monkeypatch):
    """source("dead", "good", hash=…): a file with these mirrors; the server's log starts empty."""
    monkeypatch.setattr(Mirror, "requests", [])

    def make(*mirrors: str, hash: str = MD5, file: str = "usps.bz2") -> Source:
        urls = [f"{server}/{how}/{file}" for how in mirrors]
        return Source(suite="digits", file=file, about="a test", urls=urls, hash=hash)

    return make


def left(root: Path) -> list[str]:
    """What lies in the download folder, without locks and notes."""
    folder = downloads(root, "digits")
    return sorted(p.name for p in folder.rglob("*") if p.suffix not in (".lock", ".json")) if folder.exists() else []


def test_a_good_file_gets_its_name_and_its_hash_is_written_down(tmp_path, source):
    got = fetch(source("good"), tmp_path)
    assert got.path.read_bytes() == CONTENT
    assert left(tmp_path) == ["usps.bz2"]
    record = json.loads((tmp_path / "fetch-lock.json").read_text())
    assert record["downloads/digits/usps.bz2"]["sha256"] == got.sha256 == hashlib.sha256(CONTENT).hexdigest()


def test_a_file_that_is_here_is_not_fetched_again(tmp_path, source):
    fetch(source("good"), tmp_path)
    again = fetch(source("good"), tmp_path)
    assert again.url == ""
    assert len(Mirror.requests) == 1


@pytest.mark.parametrize("bad", ["dead", "wrong", "cut", "short", "silent", "dying", "page", "empty"])
def test_after_a_bad_mirror_the_next_one_is_asked(tmp_path, source, bad):
    got = fetch(source(bad, "good"), tmp_path, patience=QUICK)
    assert got.path.read_bytes() == CONTENT
    assert got.url.endswith("/good/usps.bz2")
    assert left(tmp_path) == ["usps.bz2"]


def test_a_slow_mirror_is_left_for_the_next_and_its_bytes_are_used(tmp_path, source):
    got = fetch(source("slow", "good"), tmp_path, patience=QUICK)
    assert got.path.read_bytes() == CONTENT
    assert Mirror.requests[-1][0] == "good"
    assert Mirror.requests[-1][1].startswith("bytes=")


def test_the_last_mirror_may_be_slow(tmp_path, source):
    assert fetch(source("dead", "slow"), tmp_path, patience=Patience(window=0.2, rate=1e9)).path.read_bytes() == CONTENT


def test_an_unreachable_mirror_is_named(tmp_path, source):
    dead = Source(suite="digits", file="usps.bz2", about="a test", urls=["http://127.0.0.1:9/x"], hash=MD5)
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9: it cannot be reached"):
        fetch(dead, tmp_path)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("dead", "it answers 404"),
        ("wrong", "what it gives has another hash"),
        ("cut", "what it gives has another hash"),
        ("silent", "it fell silent"),
        ("dying", "(the connection broke half-way|it ends after)"),
    ],
)
def test_when_all_mirrors_fail_one_sentence_says_why_and_what_to_do(tmp_path, source, bad, words):
    with pytest.raises(UserError, match=rf"could not be fetched\. .*{words}.*put it at .*usps\.bz2") as failure:
        fetch(source(bad), tmp_path, patience=QUICK)
    assert "\n" not in str(failure.value)
    assert "usps.bz2" not in left(tmp_path), "a bad file under a good name"


def test_an_interrupted_download_goes_on_where_it_stopped(tmp_path, source):
    with pytest.raises(UserError):
        fetch(source("dying"), tmp_path, patience=QUICK)
    have = (downloads(tmp_path, "digits") / "usps.bz2.part").stat().st_size
    assert 0 < have < len(CONTENT)
    assert fetch(source("good"), tmp_path).path.read_bytes() == CONTENT
    assert Mirror.requests[-1] == ("good", f"bytes={have}-")


def test_a_mirror_that_dies_half_way_each_time_is_still_made_use_of(tmp_path, source):
    for _ in range(12):
        try:
            fetch(source("dying"), tmp_path, patience=QUICK)
            break
        except UserError:
            continue
    assert (downloads(tmp_path, "digits") / "usps.bz2").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_again(tmp_path, source):
    with pytest.raises(UserError):
        fetch(source("dying"), tmp_path, patience=QUICK)
    assert fetch(source("norange"), tmp_path).path.read_bytes() == CONTENT


def test_a_part_of_a_file_that_changed_meanwhile_is_not_continued(tmp_path, source, monkeypatch):
    with pytest.raises(UserError):
        fetch(source("dying", hash=""), tmp_path, patience=QUICK)
    monkeypatch.setattr(Mirror, "tag", '"two"')
    monkeypatch.setattr(Mirror, "content", CONTENT[::-1])
    assert fetch(source("dying", "good", hash=""), tmp_path, patience=QUICK).path.read_bytes() == CONTENT[::-1]


def test_parts_of_two_mirrors_that_differ_are_found_out(tmp_path, source):
    with pytest.raises(UserError):
        fetch(source("dying"), tmp_path, patience=QUICK)
    part = downloads(tmp_path, "digits") / "usps.bz2.part"
    part.write_bytes(bytes(part.stat().st_size))  # as if the first mirror had held another file
    assert fetch(source("good"), tmp_path).path.read_bytes() == CONTENT


@pytest.mark.parametrize("bad", ["cut", "page", "wrong"])
def test_without_a_known_hash_the_archive_itself_is_verified(tmp_path, source, monkeypatch, bad):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as out:
        out.writestr("a.jpg", os.urandom(5000))
    monkeypatch.setattr(Mirror, "content", stream.getvalue())
    got = fetch(source(bad, "good", hash="", file="clipart.zip"), tmp_path, patience=QUICK)
    assert got.path.read_bytes() == stream.getvalue()
    assert got.sha256 == hashlib.sha256(stream.getvalue()).hexdigest()


def test_a_file_without_a_known_hash_that_changed_on_disk_is_fetched_again(tmp_path, source):
    path = fetch(source("good", hash=""), tmp_path).path
    path.write_bytes(b"something else")
    assert fetch(source("good", hash=""), tmp_path).path.read_bytes() == CONTENT
    assert path.with_name("usps.bz2.bad").read_bytes() == b"something else"


def test_the_beginning_of_a_hash_is_checked(tmp_path, source):
    right = "sha256-prefix:" + hashlib.sha256(CONTENT).hexdigest()[:8]
    assert fetch(source("wrong", "good", hash=right), tmp_path).url.endswith("/good/usps.bz2")


def test_the_other_files_are_fetched_when_one_cannot_be_had(tmp_path, source):
    done = fetch_all([source("dead"), source("good", file="usps.t.bz2")], tmp_path)
    assert [g.path.name for g in done.got] == ["usps.t.bz2"]
    assert len(done.failed) == 1


def test_progress_is_told_in_bytes(tmp_path, source):
    told = []
    fetch_all([source("good")], tmp_path, tell=lambda s, done, total: told.append((s.file, done, total)))
    assert told[-1] == ("usps.bz2", len(CONTENT), len(CONTENT))


def test_a_read_only_data_folder_is_left_alone(tmp_path, source):
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(UserError, match="is read-only"):
            fetch(source("good"), tmp_path)
    finally:
        tmp_path.chmod(0o755)
    assert left(tmp_path) == []


# -- a full disk ------------------------------------------------------------------------------------------------------


def in_a_process(source: Source, root: Path, before: Callable[[], None]) -> tuple[int, list[str]]:
    """`fetch_all` of the file under two names, in a process that first does `before` to itself: (fetched, sentences)."""
    answer = FORK.SimpleQueue()

    def work() -> None:
        before()
        other = source.model_copy(update={"file": "usps.t.bz2"})
        done = fetch_all([source, other], root)
        answer.put((len(done.got), done.failed))

    process = FORK.Process(target=work)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    return answer.get()


def test_a_full_disk_ends_with_one_sentence_and_is_taken_up_again(tmp_path, source):
    limit = (100_000, 100_000)
    got, failed = in_a_process(
        source("good", "good"), tmp_path, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    )
    assert got == 0
    assert len(failed) == 1, "a full disk ends the command at once"
    assert failed[0].startswith("The disk is full:")
    assert left(tmp_path) == ["usps.bz2.part"]
    Mirror.requests.clear()
    assert fetch(source("good"), tmp_path).path.read_bytes() == CONTENT
    assert Mirror.requests[0][1].startswith("bytes=")


def test_a_really_full_disk(tmp_path, source):
    if sys.platform != "linux" or not may_mount(tmp_path):
        needs.skip("disk")
    got, failed = in_a_process(source("good", "good"), tmp_path, lambda: small_disk(tmp_path, "200k"))
    assert got == 0
    assert len(failed) == 1
    assert failed[0].startswith("The disk is full:")


# -- the list of sources ------------------------------------------------------------------------------------------------


def test_every_public_source_of_the_list_is_well_formed():
    for reader in ("digits", "pacs", "domainnet"):
        found = sources(reader)
        assert found
        assert len({s.path(Path()) for s in found}) == len(found)
        assert all(url.startswith(("http://", "https://")) for s in found for url in s.urls)
    assert {s.hash for s in sources("digits")} >= {
        "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "md5:eb5a983be6a315427106f1b164d9cef3",
    }
    assert "drive.google.com" not in "".join(url for s in sources("pacs") for url in s.urls), (
        "no program can fetch these"
    )


def test_domainnet_has_its_two_versions():
    cleaned, original = ({s.file for s in sources("domainnet", v)} for v in ("cleaned", "original"))
    assert {"clipart.zip", "cleaned/clipart_train.txt"} <= cleaned
    assert {"original/clipart.zip", "original/painting_test.txt"} <= original
    assert not cleaned & {"original/clipart.zip"}


def test_manual_steps_name_this_data_folder(tmp_path):
    steps = " ".join(m.steps for m in manual("digits", tmp_path))
    assert str(tmp_path / "downloads" / "digits") in steps
    assert "data prepare --suite digits" in steps


def test_a_broken_list_of_sources_is_named(tmp_path):
    (tmp_path / "s.toml").write_text(FILE.read_text().replace("md5:", "md6:"))
    with pytest.raises(UserError, match=r"s\.toml is not right"):
        sources("digits", file=tmp_path / "s.toml")
