"""Pictures on disk as one array: decoded once into a memory-mapped uint8 file, or decoded batch by batch.

A data set of files is read thousands of times; a JPEG costs about a millisecond each time, a row of a memory map some
microseconds. The map is made once, under a name that stands for the files, the size and the decoder, and is shared by
all processes. When the disk has no room for it, the same pictures come from a pool of decoding threads: slower, same
pixels, same order.
"""

from __future__ import annotations

import errno
import os
import shutil
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from filelock import FileLock
from PIL import Image, UnidentifiedImageError, features

from benchmark.data.base import Indexed
from benchmark.data.cache import make_folder, replacing
from benchmark.data.prepared import combine
from benchmark.errors import UserError
from benchmark.machine import cores

RULE = "rgb, shorter side bilinear to the size, centre square"  # part of the cache's name: another rule, another file
SPARE = 0.95  # share of the free disk that the cache may take


class Rows:
    """Some rows of an array, picked when they are asked for."""

    def __init__(self, base: Indexed, rows: np.ndarray) -> None:
        self.base, self.rows = base, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> np.ndarray:
        return self.base[self.rows[index]]


class Files:
    """Pictures decoded when they are asked for, by several threads (the decoder lets go of Python's lock)."""

    def __init__(self, files: Sequence[Path], size: int, workers: int | None = None) -> None:
        self.files, self.size = files, size
        self.workers = workers or cores()

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: Any) -> np.ndarray:
        """(B, 3, size, size) for an array of indices; the order is the index's, whatever the number of workers."""
        wanted = [self.files[i] for i in np.atleast_1d(np.arange(len(self.files))[index])]
        out = np.empty((len(wanted), 3, self.size, self.size), np.uint8)
        decode_into(out, wanted, self.workers)
        return out


def read_image(file: Path, size: int | None) -> np.ndarray:
    """One picture as (3, size, size) uint8: RGB, shorter side to `size` (None: as it is), centre square."""
    try:
        with warnings.catch_warnings(), Image.open(file) as image:
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            rgb = image.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UserError(f"The picture {file} cannot be read: {reason(error)}.") from None
    w, h = rgb.size
    side = min(w, h)
    size = size or side
    box = ((w - side) // 2, (h - side) // 2, (w - side) // 2 + side, (h - side) // 2 + side)
    if (w, h) != (size, size):
        rgb = rgb.resize((size, size), Image.Resampling.BILINEAR, box=box)
    return np.asarray(rgb).transpose(2, 0, 1)


def reason(error: BaseException) -> str:
    """The decoder's complaint in a few words, without its object addresses."""
    if isinstance(error, UnidentifiedImageError):
        return "it is not a picture"
    if isinstance(error, (Image.DecompressionBombError, Image.DecompressionBombWarning)):
        return "it claims to be so large that it would fill the memory"
    return str(error).rstrip(".") or type(error).__name__


def decode_into(out: np.ndarray, files: Sequence[Path], workers: int) -> None:
    """Decode `files` into the rows of `out` (N, 3, S, S)."""
    size = out.shape[-1]

    def one(i: int) -> None:
        out[i] = read_image(files[i], size)

    if workers == 1 or len(files) == 1:
        for i in range(len(files)):
            one(i)
    else:
        with ThreadPoolExecutor(workers) as pool:
            for _ in pool.map(one, range(len(files))):
                pass  # the first broken picture raises here


def cache_name(fingerprint: str, size: int) -> str:
    """The name of a decoded file: which pictures, which size, which rule, which decoder."""
    decoder = (PIL.__version__, features.version("jpg"), features.version("libjpeg_turbo"))
    return f"{combine(fingerprint, size, RULE, decoder)}-{size}.npy"


def decoded(
    files: Sequence[Path],
    size: int,
    fingerprint: str,
    cache: Path,
    *,
    workers: int | None = None,
    room: int | None = None,
) -> np.ndarray | Files:
    """The pictures as (N, 3, size, size) uint8: a memory map when it fits on the disk, else decoded on demand.

    `room` is the number of bytes that the cache may take (default: what is free). Several processes may call this at
    once: one decodes, the others wait for it; the file appears under its name whole or not at all.
    """
    path = make_folder(cache / "decoded") / cache_name(fingerprint, size)
    found = _open(path, len(files), size)
    if found is not None:
        return found
    free = SPARE * shutil.disk_usage(path.parent).free if room is None else room
    if len(files) * 3 * size * size > free:
        return Files(files, size, workers)
    with FileLock(f"{path}.lock"):
        found = _open(path, len(files), size)
        if found is not None:
            return found
        try:
            with replacing(path) as temporary:
                out = np.lib.format.open_memmap(temporary, "w+", np.uint8, (len(files), 3, size, size))
                _reserve(temporary)
                decode_into(out, files, workers or cores())
                out.flush()
                del out
        except _DiskFull:
            return Files(files, size, workers)
    made = _open(path, len(files), size)
    assert made is not None
    return made


def is_decoded(count: int, size: int, fingerprint: str, cache: Path) -> bool:
    """Whether `decoded` would find its map."""
    return _open(cache / "decoded" / cache_name(fingerprint, size), count, size) is not None


class _DiskFull(Exception):
    """The disk, or a quota that does not show in the free space, has no room for the map."""


def _reserve(path: Path) -> None:
    """Take the room on the disk now: a memory map that finds the disk full later dies without a word (SIGBUS)."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise _DiskFull from None
                raise


def _open(path: Path, n: int, size: int) -> np.ndarray | None:
    """The memory map if it is there and whole; a file of another shape or length counts as not there."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        return None
    return array if array.shape == (n, 3, size, size) and array.dtype == np.uint8 else None
