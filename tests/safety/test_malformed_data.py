"""Malformed arrays, pictures and lists: each is refused with a sentence."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from PIL import Image

from benchmark.data import decoded, digits, lists
from benchmark.errors import UserError
from benchmark.files import write_bytes
from tests.safety import malformed as bad
from tests.safety.fuzz import fuzz, is_sentence, refused_by
from tests.safety.small import Small

# -- data -------------------------------------------------------------------------------------------------------------


def test_malformed_npz(small: Small, tmp_path: Path) -> None:
    whole = (small.data / "digits" / "usps.npz").read_bytes()
    with np.load(small.data / "digits" / "usps.npz") as stored:
        arrays = dict(stored)

    def packed(changes: dict[str, Any]) -> bytes:
        buffer = io.BytesIO()
        kept = {k: v for k, v in {**arrays, **changes}.items() if v is not None}
        np.savez(buffer, **kept)
        return buffer.getvalue()

    x, y = arrays["x_train"], arrays["y_train"]
    wrong: list[dict[str, Any]] = [
        {"x_train": None}, {"y_test": None}, {"x_train": x.astype(float)}, {"x_train": x[:-1]}, {"x_train": x[:, 0]},
        {"y_train": y + 1}, {"y_train": y.astype(np.int64) - 1}, {"y_train": y.astype(str)},
        {"y_train": y[:, None]}, {"x_test": arrays["x_test"][:0], "y_test": arrays["y_test"][:0]},
        {"x_train": np.array([object()] * 60)}, {"x_train": x.astype(object)}, {"y_train": np.array([{}] * 60)},
    ]  # fmt: skip
    contents = st.one_of(
        st.sampled_from(wrong).map(packed), bad.torn(whole, len(whole) - 1), st.binary(), bad.flipped(whole),
        st.binary().map(lambda b: _npz_of({"x_train.npy": b, "y_train.npy": b})),
    )  # fmt: skip
    path = tmp_path / "digits" / "usps.npz"
    path.parent.mkdir()

    def refuse(content: bytes) -> None:
        path.write_bytes(content)
        try:
            found = digits._sound(path)
        except UserError as error:
            is_sentence(error)
        else:
            assert all(np.array_equal(found[key], arrays[key]) for key in arrays)

    fuzz("npz", contents, refuse)


def _npz_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_malformed_images(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    whole = {}
    for kind in ("jpeg", "png"):
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, kind)
        whole[kind] = buffer.getvalue()
    bomb = whole["png"][:16] + (60_000).to_bytes(4, "big") * 2 + whole["png"][24:]
    contents = st.one_of(
        bad.torn(whole["jpeg"], len(whole["jpeg"]) // 2), bad.torn(whole["png"], len(whole["png"]) // 2), st.binary(),
        st.binary(min_size=8).map(lambda b: whole["png"][:33] + b), st.binary().map(lambda b: whole["jpeg"][:20] + b),
        st.binary().map(lambda b: b"GIF89a" + b), st.just(bomb),
    )  # fmt: skip
    fuzz("images", contents, refused_by(lambda p: decoded.read_image(p, 32), tmp_path / "picture.jpg"))


def test_malformed_split_lists(tmp_path: Path) -> None:
    good = "dog/one.jpg 1"
    name = bad.text.filter(lambda t: t.split() == [t])
    lines = st.one_of(
        name,  # no label
        st.tuples(name, name.filter(lambda t: not t.lstrip("-").isdigit())).map(" ".join),
        st.tuples(name, st.integers(max_value=0)).map(lambda p: f"{p[0]} {p[1]}"),  # labels of PACS start at 1
        name.map(lambda n: f"../{n} 1"),
        name.map(lambda n: f"a/../../{n} 1"),
        name.map(lambda n: f"/{n} 1"),
        st.integers(10**6, 10**30).map(lambda n: f"a.jpg {n}"),
        st.sampled_from(["a.jpg ²", "a.jpg ١٢", "a.jpg --1", "a.jpg 1-", "a.jpg " + "9" * 5000]),
    ).filter(lambda t: len(t.splitlines()) == 1 and t.strip())  # fmt: skip
    path = tmp_path / "list.txt"

    def refuse(line: str) -> None:
        write_bytes(path, f"{good}\n{line}\n".encode("utf-8", "surrogatepass"), durable=False)
        with pytest.raises(UserError) as caught:
            lists.read_list(path, first_label=1)
        is_sentence(caught.value)

    fuzz("lists", lines, refuse)
