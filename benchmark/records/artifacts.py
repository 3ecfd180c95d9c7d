"""artifacts.npz of a run: what the figures are drawn from. Small plain arrays, each of the shape its name promises.

| name | what |
|---|---|
| features_<domain> | (n, F) floats, n ≤ 300 |
| labels_<domain> | (n,) whole numbers |
| similarity_<domain> | (C, C) floats |
| sigma_<domain>, sigma_noise_<r> | (n,) floats |
| noise_domain | the name of a domain |
"""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np

from benchmark import files
from benchmark.errors import UserError
from benchmark.records import study

LARGEST = 64 * 2**20  # bytes when unpacked; a real one has about one megabyte


def read(directory: Path) -> dict[str, np.ndarray]:
    """The arrays by name, never unpickled; {} when there is no such file, a UserError when it cannot be trusted."""
    path = directory / "artifacts.npz"
    arrays, fault = examine(directory)
    if fault:
        raise UserError(f"{path} is damaged: {fault}. Type: python -m benchmark audit {directory}")
    return arrays


def examine(directory: Path) -> tuple[dict[str, np.ndarray], str]:
    """(the arrays by name, what is wrong with them in words)."""
    path, arrays = directory / "artifacts.npz", dict[str, np.ndarray]()
    try:
        content = io.BytesIO(study.read_bytes(path))
        with zipfile.ZipFile(content) as archive:
            if sum(member.file_size for member in archive.infolist()) > LARGEST:
                raise ValueError("it unpacks to more than any run stores")
            for member in archive.infolist():
                _check_size(archive, member)
        content.seek(0)
        with np.load(content, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        fault = next(filter(None, (_fault(name, array, arrays) for name, array in arrays.items())), "")
    except FileNotFoundError:
        return {}, ""
    except (
        OSError,
        ValueError,
        KeyError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
        SyntaxError,  # the rest: of headers, which numpy reads as Python's literals
        tokenize.TokenError,
        TypeError,
        MemoryError,
        OverflowError,
    ) as error:
        fault = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return arrays, fault


def _check_size(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """A ValueError when the header of an array claims more than follows it: numpy takes the memory before it reads."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(stream)
    if math.prod(shape) * dtype.itemsize > member.file_size or min(shape, default=0) < 0:
        raise ValueError(f"{files.shown(member.filename)} claims to be of shape {str(shape)[:60]}, and is smaller")


def _fault(name: str, array: np.ndarray, arrays: dict[str, np.ndarray]) -> str:
    """What is wrong with one array, in words."""
    kind, _, rest = name.partition("_")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return f"{name} holds a number that is not finite"
    if rest.startswith("noise_"):
        float(rest.removeprefix("noise_"))
    if name == "noise_domain":
        return "" if array.dtype.kind == "U" and array.ndim == 0 else "noise_domain is no name"
    if kind == "labels":
        good = array.dtype.kind in "iu" and array.ndim == 1
    elif kind == "features":
        labels = arrays.get(f"labels_{rest}")
        good = array.dtype.kind == "f" and array.ndim == 2 and labels is not None and len(labels) == len(array)
    elif kind == "similarity":
        good = array.dtype.kind == "f" and array.ndim == 2 and array.shape[0] == array.shape[1]
    else:
        good = kind == "sigma" and array.dtype.kind == "f" and array.ndim == 1
    return "" if good else f"{name} is a {array.dtype} array of shape {array.shape}"
