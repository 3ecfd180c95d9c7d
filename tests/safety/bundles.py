"""Ways of spoiling a bundle: its bytes, its table of contents, its list, its members, also as a stranger would seal them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import re
import stat
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.safety import malformed as bad

EVIL_NAMES = [
    "../evil", "/etc/evil", "a/../../evil", "..\\evil", "C:\\evil", "\\\\host\\evil", "digits/mini/../../../evil",
    "evil.py", "x.pkl", ".bashrc", "tables/.md/../x.md", "digits/mini/0000000000000000/checkpoint.pt", "tables",
    "digits/mini/0000000000000000/record.json", "trials/trials/records.parquet", "figures/x.png/y.png", "tables//x.md",
    "digits/mini/" + "f" * 16 + "/model-../x.safetensors", "tables/\u202etxt.md", "tables/\x1b[2J.md", "", " ", "\x00", "con",
    "tables/../../evil.md", "tables/" + "x" * 5000, "./report.html",
]  # fmt: skip


class Bomb:
    """What a malicious pickle does when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return os.mkdir, (str(self.mark),)


def sealed(members: dict[str, bytes], **about: Any) -> dict[str, bytes]:
    """The members with a bundle.json that lists them as they are: what a stranger with this code can make."""
    rest = {name: content for name, content in members.items() if name != "bundle.json"}
    listed = {name: {"bytes": len(c), "sha256": hashlib.sha256(c).hexdigest()} for name, c in rest.items()}
    document = {**json.loads(members["bundle.json"]), "files": listed, **about}
    return {"bundle.json": json.dumps(document).encode(), **rest}


def packed(members: dict[str, bytes], twice: str = "", link: str = "", method: int = zipfile.ZIP_STORED) -> bytes:
    """An archive of the members; one of them there twice, or a link."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, content in [*members.items(), *((n, c) for n, c in members.items() if n == twice)]:
            info = zipfile.ZipInfo(name or "x")
            if name == link:
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, content, method)
    return buffer.getvalue()


def field(content: bytes, entry: int, offset: int, form: str, value: int) -> bytes:
    """Another number in the table of contents, at an offset into the header of one of its entries."""
    places = [found.start() for found in re.finditer(b"PK\x01\x02", content)]
    place = places[entry % len(places)] + offset
    return content[:place] + struct.pack(form, value) + content[place + struct.calcsize(form) :]


def malformed(members: dict[str, bytes], mark: Path) -> st.SearchStrategy[bytes]:
    """Bundles none of which is the sound one; some can still be read, and then say what the sound one says."""
    whole = packed(members)
    directory = whole.index(b"PK\x01\x02")
    names, evil = st.sampled_from(sorted(members)), st.sampled_from(EVIL_NAMES)
    inner = st.sampled_from(sorted(set(members) - {"bundle.json"}))
    document = json.loads(members["bundle.json"])
    pickled = pickle.dumps(Bomb(mark))
    # (offset, form) of flags, method, crc, both sizes, length of the name and of the extra field, attributes, place
    numbers = st.sampled_from(
        [
            (8, "<H"),
            (10, "<H"),
            (16, "<L"),
            (20, "<L"),
            (24, "<L"),
            (28, "<H"),
            (30, "<H"),
            (32, "<H"),
            (38, "<L"),
            (42, "<L"),
        ]
    )

    def listed(changed: Any) -> bytes:
        return packed({**members, "bundle.json": json.dumps(changed).encode()})

    def replaced(pair: tuple[str, bytes]) -> bytes:
        return packed(sealed({**members, pair[0]: pair[1]}))

    return st.one_of(
        bad.torn(whole, len(whole) - 1),
        bad.flipped(whole),
        bad.flipped(whole[directory:]).map(lambda tail: whole[:directory] + tail),
        st.binary(),
        st.binary().map(lambda b: b"PK\x03\x04" + b),
        st.binary(min_size=1).map(lambda b: whole + b),
        st.binary(min_size=1).map(lambda b: b"PK\x03\x04" + b + whole),
        st.tuples(st.integers(0, 50), numbers, st.integers(0, 2**16 - 1)).map(
            lambda t: field(whole, t[0], *t[1], t[2])
        ),
        st.tuples(st.integers(1, 22), st.binary(min_size=1, max_size=4)).map(
            lambda t: whole[: -t[0]] + t[1] + whole[len(whole) - t[0] + len(t[1]) :]
        ),
        evil.map(lambda name: packed({**members, name: b"x"})),
        evil.map(lambda name: packed(sealed({**members, name or "x": b"x"}))),
        st.tuples(names, evil).map(lambda t: packed({t[1] if n == t[0] else n: c for n, c in members.items()})),
        names.map(lambda name: packed(members, twice=name)),
        names.map(lambda name: packed(members, link=name)),
        st.sampled_from([zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]).map(
            lambda m: packed(members, method=m)
        ),
        st.just(packed(sealed({**members, "report.html": bytes(10_000_000)}), method=zipfile.ZIP_DEFLATED)),
        names.map(lambda name: packed({n: c for n, c in members.items() if n != name})),
        bad.wrong_types(document, list(bad.paths(document))).map(listed),
        st.sampled_from(["format", "name", "files"]).map(lambda key: listed(bad.without(document, (key,)))),
        st.sampled_from([b"null", b"[]", b"{}", b"NaN", b"1e999", b"[" * 50_000, b"\xff"]).map(
            lambda b: packed({**members, "bundle.json": b})
        ),
        # what a stranger has sealed again: the members themselves
        st.tuples(inner, st.binary()).map(replaced),
        inner.map(lambda name: replaced((name, pickled))),
        inner.flatmap(lambda name: bad.flipped(members[name]).map(lambda c: (name, c))).map(replaced),
        inner.flatmap(lambda name: bad.torn(members[name], len(members[name]) - 1).map(lambda c: (name, c))).map(
            replaced
        ),
        inner.map(lambda name: packed(sealed({n: c for n, c in members.items() if n != name}))),
        st.tuples(inner, inner).map(lambda t: replaced((t[0], members[t[1]]))),
    )
