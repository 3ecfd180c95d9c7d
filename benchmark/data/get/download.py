"""One file from one address into `<name>.part`, going on where an earlier attempt stopped.

Rules: the bytes of a part file belong to the address and the version (ETag or date) noted beside it; they are continued
from another address only if the file's hash is known, because then a wrong mixture is found out at the end. A part file
is never under the good name: pooch gives the name after the hash is right.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

Tell = Callable[[int, int], None]  # bytes done, bytes in all (0: unknown)
BLOCK = 1 << 13  # when a connection breaks, at most this much of what came is lost


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server, in seconds; `rate` in bytes a second over `window` is too slow to stay."""

    connect: float = 15.0
    silence: float = 30.0
    window: float = 60.0
    rate: float = 2048.0


class MirrorFailed(Exception):
    """This address did not give the file; another may."""


class DiskFull(Exception):
    """No address can help: there is no room for the file."""


def is_full(error: OSError) -> bool:
    """No space, over quota, or larger than files may be here."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Resumable:
    """A pooch downloader: `url` → `output_file`, by way of a part file that outlives an interruption."""

    def __init__(
        self,
        part: Path,
        *,
        hashed: bool,
        verify: Callable[[Path], None],
        patience: Patience,
        impatient: bool,
        tell: Tell | None = None,
    ) -> None:
        self.part, self.note = part, part.with_name(part.name + ".json")
        self.hashed, self.verify = hashed, verify
        self.patience, self.impatient = patience, impatient
        self.tell = tell or (lambda done, total: None)

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        """Fill the part file, verify it, put it in pooch's place; `MirrorFailed` or `DiskFull` in words."""
        try:
            self._fill(url)
            try:
                self.verify(self.part)
            except MirrorFailed:
                self.forget()
                raise
            os.replace(self.part, output_file)
            self.note.unlink(missing_ok=True)
        except requests.RequestException as error:
            raise MirrorFailed(describe(error)) from None
        except OSError as error:
            if is_full(error):
                raise DiskFull(error.strerror) from None
            raise

    def forget(self) -> None:
        """Throw away what was received."""
        self.part.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    # -- one request ------------------------------------------------------------------------------------------------

    def _fill(self, url: str) -> None:
        start, validator = self._start(url)
        headers = {"Accept-Encoding": "identity"}  # the bytes as stored: a .gz must stay one, and lengths must be true
        if start:
            headers["Range"] = f"bytes={start}-"
            if validator:
                headers["If-Range"] = validator
        timeout = (self.patience.connect, self.patience.silence)
        with requests.get(url, headers=headers, stream=True, timeout=timeout) as response:
            if response.status_code == 416 and response.headers.get("Content-Range", "").endswith(f"*/{start}"):
                return  # all of it was here already
            if response.status_code == 416:
                self.forget()
                raise MirrorFailed("the part that was here does not belong to its file; it is thrown away")
            if not response.ok:
                raise MirrorFailed(f"it answers {response.status_code} {response.reason}")
            if response.status_code != 206 or not self._continues(response, start):
                start = 0
            total = (
                start + int(response.headers.get("Content-Length") or 0) if "Content-Length" in response.headers else 0
            )
            self._room(total - start)
            self.note.write_text(json.dumps({"url": url, "validator": _validator(response)}), encoding="utf-8")
            self._receive(response, start, total)

    def _start(self, url: str) -> tuple[int, str]:
        """How many bytes are here that this address can continue, and which version they are of."""
        try:
            size = self.part.stat().st_size
            note = json.loads(self.note.read_text(encoding="utf-8"))
            known = {"url": str(note["url"]), "validator": str(note["validator"])}
        except (OSError, ValueError, KeyError, TypeError):
            return 0, ""
        if known["url"] == url:
            return (size, known["validator"]) if known["validator"] or self.hashed else (0, "")
        return (size, "") if self.hashed else (0, "")

    def _continues(self, response: requests.Response, start: int) -> bool:
        return response.headers.get("Content-Range", "").replace(" ", "").startswith(f"bytes{start}-")

    def _room(self, wanted: int) -> None:
        free = shutil.disk_usage(self.part.parent).free
        if wanted > free:
            raise DiskFull(f"{wanted:,} bytes are to come and {free:,} are free")

    def _receive(self, response: requests.Response, start: int, total: int) -> None:
        done = start
        with self.part.open("r+b" if start else "wb") as out:
            out.truncate(start)
            out.seek(start)
            for block in self._blocks(response):
                out.write(block)
                done += len(block)
                self.tell(done, total)
            out.flush()
            os.fsync(out.fileno())
        if total and done != total:
            raise MirrorFailed(f"it ends after {done:,} of {total:,} bytes")

    def _blocks(self, response: requests.Response) -> Iterator[bytes]:
        """The body; gives up on a trickle when there is another address to turn to."""
        mark, received = time.monotonic(), 0
        for block in response.iter_content(BLOCK):
            yield block
            received += len(block)
            waited = time.monotonic() - mark
            if self.impatient and waited > self.patience.window:
                if received < self.patience.rate * waited:
                    raise MirrorFailed(f"it gives {received / waited:,.0f} bytes a second, which is too slow")
                mark, received = time.monotonic(), 0


def _validator(response: requests.Response) -> str:
    """What identifies this version of the file: a strong ETag, or the date."""
    tag = response.headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified", "")


def describe(error: requests.RequestException) -> str:
    """The network's complaint in a few words."""
    if isinstance(error, requests.ConnectTimeout):
        return "it does not answer"
    if isinstance(error, requests.ReadTimeout) or "timed out" in str(error):
        return "it fell silent"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke half-way"
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not right"
    if isinstance(error, requests.ConnectionError):
        return "it cannot be reached"
    return str(error)
