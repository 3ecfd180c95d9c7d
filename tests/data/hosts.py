"""A local server that plays the hosts of the list of sources: their paths, their redirects, their refusals.

`/<host>/<path>`: Hugging Face answers `resolve` with 302 to a store that refuses HEAD; Tsinghua's cloud answers a share
with 302 to its file server, which knows no HEAD either, and a share that is gone with a web page; all others are plain.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from benchmark.data.get.sources import FILE
from benchmark.spec import load_suite

HF, TLL, BU = "huggingface.co", "cloud.tsinghua.edu.cn", "csr.bu.edu"
PACS = load_suite("pacs")
CLOSED = "http://127.0.0.1:9"  # nobody listens there: a dead host
HF_PACS = f"{HF}/datasets/flwrlabs/pacs/resolve/main/data/train-00000-of-00001.parquet"
SHARES = {
    "art_painting": "46684292e979402b8d87",
    "cartoon": "7bfa413b34ec4f4fa384",
    "photo": "45f71386a668475d8b42",
    "sketch": "4ba559535e4b4b6981e5",
}
DIGIT_PATHS = {
    "mnist": ("ylecun/mnist/resolve/main/mnist/{}-00000-of-00001.parquet", 28, "L"),
    "usps": ("flwrlabs/usps/resolve/main/data/{}-00000-of-00001.parquet", 16, "L"),
    "svhn": ("ufldl-stanford/svhn/resolve/main/cropped_digits/{}-00000-of-00001.parquet", 32, "RGB"),
    "mnistm": ("Mike0307/MNIST-M/resolve/main/data/{}-00000-of-00001-{}.parquet", 32, "RGB"),
}
MNISTM = {"train": "571b6b1e2c195186", "test": "ba3ad971b105ff65"}


class Hosts:
    """What the server has: {host/path: bytes}; which hosts are dead; what was asked and how many bytes were given."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: dict[str, bytes] = {}
        self.dead: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.given = 0

    def write_list(self, path: Path) -> Path:
        """The real list of sources with the hosts played here; published hashes are of the real files and left out."""

        def here(found: re.Match[str]) -> str:
            return f"{CLOSED if found[1] in self.dead else self.address}/{found[1]}/"

        lines = [
            re.sub(r"https?://([^/\"]+)/", here, line) if line.startswith("urls") else line
            for line in FILE.read_text().splitlines()
            if not line.startswith("hash")
        ]
        path.write_text("\n".join(lines))
        return path


@contextmanager
def playing() -> Iterator[Hosts]:
    """The server, listening on loopback."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Player)
    httpd.daemon_threads = True
    httpd.hosts = hosts = Hosts(f"http://127.0.0.1:{httpd.server_port}")  # type: ignore[attr-defined]
    threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield hosts
    httpd.shutdown()
    httpd.server_close()


class _Player(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    @property
    def hosts(self) -> Hosts:
        return self.server.hosts  # type: ignore[attr-defined,no-any-return]

    def do_HEAD(self) -> None:
        self._answer(head=True)

    def do_GET(self) -> None:
        self._answer(head=False)

    def _answer(self, head: bool) -> None:
        name = self.path.removeprefix("/")
        self.hosts.asked.append(("HEAD" if head else "GET", name))
        host, stored = name.partition("/")[0], self.hosts.files.get(name)
        if host == "store":
            store = {hashlib.sha256(body).hexdigest(): body for body in self.hosts.files.values()}
            self._send(403) if head else self._send(200, store[name.split("/")[1]])
        elif host == TLL and stored is None:
            self._send(200, b"<!DOCTYPE html><p>Link does not exist", kind="text/html; charset=utf-8")
        elif stored is None:
            self._send(404)
        elif host in (HF, TLL):
            sha256 = hashlib.sha256(stored).hexdigest()
            more = {"X-Linked-Size": str(len(stored)), "X-Linked-Etag": f'"{sha256}"'} if host == HF else {}
            self._send(302, headers={"Location": f"/store/{sha256}/file", **more})
        else:
            self._send(200, stored, head=head)

    def _send(
        self,
        code: int,
        body: bytes = b"",
        kind: str = "application/octet-stream",
        head: bool = False,
        headers: Any = None,
    ) -> None:
        asked, total = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")), len(body)
        if asked and code == 200 and not kind.startswith("text/html"):
            body = body[int(asked[1]) : int(asked[2] or total) + 1]
            code = 206
        self.send_response(code)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        if code == 206 and asked:
            self.send_header("Content-Range", f"bytes {asked[1]}-{int(asked[1]) + len(body) - 1}/{total}")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not head:
            self.hosts.given += len(body)
            self.wfile.write(body)


# -- the publishers' formats, in small -----------------------------------------------------------------------------------


def picture(seed: int, side: int = 12, mode: str = "RGB", form: str = "JPEG") -> bytes:
    shape = (side, side, 3) if mode == "RGB" else (side, side)
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, form)
    return stream.getvalue()


def hugging_face(columns: dict[str, list], names: dict[str, Sequence[str]] | None = None) -> bytes:
    """A parquet file as `datasets` writes it: images as {bytes, path}, the names of numbers in the schema's metadata."""
    types = {"image": pa.struct([("bytes", pa.binary()), ("path", pa.string())])}
    table = pa.table({k: pa.array(v, types.get(k)) for k, v in columns.items()})
    features = {k: {"names": list(v), "_type": "ClassLabel"} for k, v in (names or {}).items()}
    features["image"] = {"_type": "Image"}
    meta = json.dumps({"info": {"features": features}})
    stream = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"huggingface": meta}), stream, row_group_size=7)
    return stream.getvalue()


def images(n: int, path: Callable[[int], str | None] = lambda i: None, **how) -> list[dict]:
    return [{"bytes": picture(i, **how), "path": path(i)} for i in range(n)]


def tll_pacs(domain: str) -> bytes:
    """One domain of PACS as the Transfer-Learning-Library's cloud has it, in small."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as out:
        for i, kind in enumerate(PACS.classes):
            info = tarfile.TarInfo(f"{domain}/{kind}/pic_001.jpg")
            info.size = len(picture(i))
            out.addfile(info, io.BytesIO(picture(i)))
    return stream.getvalue()


def hf_pacs() -> bytes:
    """Two pictures of each class of each domain, no file names."""
    where = [(d.name, k) for d in PACS.domains for k in range(7) for _ in range(2)]
    columns = {"image": images(len(where)), "domain": [d for d, _ in where], "label": [k for _, k in where]}
    return hugging_face(columns, {"label": PACS.classes})


def hf_digits(part: int, side: int, mode: str) -> bytes:
    labels = [i % 10 for i in range(part)]
    columns = {"image": images(part, side=side, mode=mode, form="PNG"), "label": labels}
    return hugging_face(columns, {"label": [str(i) for i in range(10)]})
