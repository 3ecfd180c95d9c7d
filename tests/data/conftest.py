"""Small data sets in the prepared form, written where a test wants them; a cache of its own for every test."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmark.__main__ import main
from benchmark.data.get import sources
from tests.data.hosts import HF_PACS, SHARES, TLL, Hosts, hf_pacs, playing, tll_pacs

PACS_CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
PACS_DOMAINS = ("art_painting", "cartoon", "sketch", "photo")
NATIVE = {"mnist": (28, 28), "mnistm": (32, 32, 3), "usps": (16, 16), "svhn": (32, 32, 3), "syn": (32, 32, 3)}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a test goes to the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home-cache"))


@pytest.fixture
def write_digits() -> Callable[..., Path]:
    """write_digits(root, names=…, train=…, test=…): small .npz files of random pixels; returns the root."""

    def write(
        root: Path, names: tuple[str, ...] = tuple(NATIVE), train: int = 40, test: int = 20, seed: int = 0
    ) -> Path:
        (root / "digits").mkdir(parents=True, exist_ok=True)
        for name in names:
            rng = np.random.default_rng([seed, len(name)])
            arrays = {}
            for part, n in (("train", train), ("test", test)):
                arrays[f"x_{part}"] = rng.integers(0, 256, (n, *NATIVE[name]), dtype=np.uint8)
                arrays[f"y_{part}"] = (np.arange(n) % 10).astype(np.uint8)
            np.savez(root / "digits" / f"{name}.npz", **arrays)
        return root

    return write


@pytest.fixture
def write_pictures() -> Callable[..., Path]:
    """write_pictures(folder, domains, classes, each=…, size=…): JPEG files `<domain>/<class>/pic_00.jpg`."""

    def write(
        folder: Path,
        domains: tuple[str, ...] = PACS_DOMAINS,
        classes: tuple[str, ...] = PACS_CLASSES,
        each: int = 3,
        size: tuple[int, int] = (24, 20),
        seed: int = 0,
    ) -> Path:
        rng = np.random.default_rng(seed)
        for domain in domains:
            for kind in classes:
                place = folder / domain / kind
                place.mkdir(parents=True, exist_ok=True)
                for i in range(each):
                    pixels = rng.integers(0, 256, (size[1] // 4, size[0] // 4, 3), dtype=np.uint8)
                    Image.fromarray(pixels).resize(size).save(place / f"pic_{i:02}.jpg")
        return folder

    return write


# -- the public hosts, played on loopback (hosts.py) --------------------------------------------------------------------


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """The server."""
    with playing() as server:
        yield server


@pytest.fixture
def ask(hosts, tmp_path, monkeypatch, capsys):
    """ask("fetch", …): a verb of `data`, with the list of sources leading to the played hosts."""
    real = sources.sources

    def verb(name: str, *arguments: str) -> tuple[int, str, str]:
        played = hosts.write_list(tmp_path / "sources.toml")
        sources._document.cache_clear()
        monkeypatch.setattr(sources, "sources", functools.partial(real, file=played))
        code = main(["data", name, *arguments])
        said = capsys.readouterr()
        return code, " ".join(said.out.split()), " ".join(said.err.split())

    yield verb
    sources._document.cache_clear()


@pytest.fixture
def pacs(hosts) -> Hosts:
    """PACS on both of its hosts, and ResNet-18 with torchvision."""
    for domain, share in SHARES.items():
        hosts.files[f"{TLL}/f/{share}/?dl=1"] = tll_pacs(domain)
    hosts.files[HF_PACS] = hf_pacs()
    hosts.files["download.pytorch.org/models/resnet18-f37072fd.pth"] = b"weights"
    return hosts
