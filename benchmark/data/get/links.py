"""Which links live: every address is asked for its size, and nothing is fetched.

HEAD first; a host that refuses HEAD, or answers it without a size, is asked for one byte. Redirects are followed: Hugging
Face answers with the address of a store, clouds with a page when a share is gone, and a page is not the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

import requests

from benchmark.data.get.download import describe
from benchmark.data.get.sources import Source, Thing, things

TIMEOUT = (6.0, 10.0)  # seconds to connect, seconds of silence
AT_ONCE = 16
TOLERANCE = 0.1  # sizes in the list are rounded


@dataclass(frozen=True)
class Link:
    """What one address answered."""

    source: Source
    url: str
    live: bool
    size: int  # bytes; 0: it did not say
    words: str  # why it is dead, or what is odd about it
    answered: bool = True  # by somebody, be it with a refusal

    @property
    def host(self) -> str:
        """Mirrors on one host die together."""
        return urlsplit(self.url).netloc


def ask_all(
    sources: Iterable[Source],
    *,
    timeout: tuple[float, float] = TIMEOUT,
    tell: Callable[[int, int], None] | None = None,
) -> list[Link]:
    """Every address of every source, many at once, in the order of the sources; `tell(asked, of how many)`."""
    wanted = list({url: (source, url) for source in sources for url in source.urls}.values())
    found = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for link in pool.map(lambda pair: ask(pair[0], pair[1], timeout), wanted):
            found.append(link)
            if tell:
                tell(len(found), len(wanted))
    return found


def ask(source: Source, url: str, timeout: tuple[float, float] = TIMEOUT) -> Link:
    """One address: its size, or why it is dead."""
    answered, live, size, words = _answer("HEAD", url, timeout)
    if not live or not size:
        answered, live, size, words = _answer("GET", url, timeout)
    if live and size and source.size and abs(size - source.size) > TOLERANCE * source.size:
        words = f"{source.size:,} bytes were read"
    return Link(source, url, live, size, words, answered)


def _answer(verb: str, url: str, timeout: tuple[float, float]) -> tuple[bool, bool, int, str]:
    headers = {"Accept-Encoding": "identity"} | ({"Range": "bytes=0-0"} if verb == "GET" else {})
    try:
        with requests.request(
            verb, url, headers=headers, timeout=timeout, allow_redirects=True, stream=True
        ) as response:
            if not response.ok:
                return True, False, 0, f"it answers {response.status_code} {response.reason}".strip()
            if response.headers.get("Content-Type", "").startswith("text/html"):
                return True, False, 0, "it gives a web page instead of the file"
            total = response.headers.get("Content-Range", "").rpartition("/")[2]
            size = total if response.status_code == 206 else response.headers.get("Content-Length", "")
            return True, True, int(size) if size.isdigit() else 0, ""
    except requests.RequestException as error:
        return False, False, 0, describe(error)


def without_a_live_link(
    wanted: Mapping[tuple[str, str], Sequence[Source]], links: Sequence[Link]
) -> dict[str, list[str]]:
    """What nobody gives now and the files that would give it; `wanted` by data set and version of its lists."""
    dead = {}
    for (dataset, version), found in wanted.items():
        several = any(s.variant for s in found)
        for thing in unreachable(things(found), links):
            name = f"{dataset}: {thing.name}{f' ({version})' if several else ''}"
            dead[name] = [s.file for way in thing.order() for s in way]
    return dead


def unreachable(wanted: Sequence[Thing], links: Sequence[Link]) -> list[Thing]:
    """Everything for which no route has a live link for each of its files."""
    live = {link.url for link in links if link.live}

    def had(files: Sequence[Source]) -> bool:
        return all(live.intersection(source.urls) for source in files)

    return [thing for thing in wanted if not any(had(files) for files in thing.routes.values())]
