"""Digits as others publish them → arrays of the prepared form. One function a format; nothing is ever unpickled.

Each reader takes a folder's files by name and gives x_train, y_train, x_test, y_test: uint8 at native size, labels 0–9.
"""

from __future__ import annotations

import bz2
import gzip
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from benchmark.data.digits import KEYS, faults, read
from benchmark.data.parquet import rows
from benchmark.errors import UserError

Arrays = dict[str, np.ndarray]
Found = Mapping[str, Path]  # lower-case file or folder name → path


@dataclass(frozen=True)
class Format:
    """A published form of one domain: which files it takes (any spelling of each), and how they are read."""

    domain: str
    title: str
    needs: tuple[tuple[str, ...], ...]
    read: Callable[..., Arrays]

    def files(self, found: Found) -> list[Path] | None:
        """The files if all are there."""
        picked = [next((found[n] for n in names if n in found), None) for names in self.needs]
        return None if any(p is None for p in picked) else [p for p in picked if p is not None]


def parts(x_train: np.ndarray, y_train: np.ndarray, x_test: np.ndarray, y_test: np.ndarray) -> Arrays:
    """The four arrays: pixels as uint8, labels as uint8, one number an image."""
    return {
        "x_train": pixels(x_train),
        "y_train": labels(y_train),
        "x_test": pixels(x_test),
        "y_test": labels(y_test),
    }


def pixels(x: np.ndarray) -> np.ndarray:
    """(n, h, w[, 3]) uint8; floats in [0, 1] or [0, 255] are scaled and rounded; a single channel is dropped."""
    if x.ndim == 4 and x.shape[3] == 1:
        x = x[..., 0]
    if x.dtype != np.uint8:
        if x.dtype.kind not in "fiu":
            raise ValueError(f"pixels of type {x.dtype} are not numbers")
        scale = 255.0 if x.dtype.kind == "f" and x.size and float(x.max()) <= 1.0 else 1.0
        x = np.clip(np.rint(x.astype(np.float32) * scale), 0, 255).astype(np.uint8)
    return np.ascontiguousarray(x)


def labels(y: np.ndarray) -> np.ndarray:
    """(n,) uint8 in 0–9, from one-hot rows, columns, or numbers; a 10 stands for 0 (SVHN's files)."""
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 10:
        y = y.argmax(1)
    y = y.reshape(-1).astype(np.int64)
    return np.where(y == 10, 0, y).astype(np.uint8)


# -- MATLAB files ---------------------------------------------------------------------------------------------------


def matlab(path: Path) -> dict[str, np.ndarray]:
    """The variables of a .mat file (versions 4 to 7.2), in words when it cannot be read."""
    from scipy.io import loadmat

    try:
        return {k: v for k, v in loadmat(path).items() if not k.startswith("__")}
    except NotImplementedError:
        raise UserError(f"{path} is a MATLAB 7.3 file; save it again in MATLAB with -v7.") from None
    except Exception as error:  # scipy raises many kinds for damaged files
        raise UserError(f"{path} cannot be read as a MATLAB file: {error or type(error).__name__}.") from None


def variable(variables: Mapping[str, np.ndarray], name: str, path: Path) -> np.ndarray:
    """A variable by name, or a sentence with those that are there."""
    if name not in variables:
        raise UserError(f"{path} has no variable {name}; it has: {', '.join(variables) or 'none'}.")
    return variables[name]


def m3sda_mnist(path: Path) -> Arrays:
    """mnist_data.mat: train_32 (55000, 32, 32) and one-hot labels; the 32×32 arrays, as the official code reads them."""
    v = matlab(path)
    x = {part: variable(v, f"{part}_32", path).reshape(-1, 32, 32) for part in ("train", "test")}
    y = {part: variable(v, f"label_{part}", path) for part in ("train", "test")}
    return parts(x["train"], y["train"], x["test"], y["test"])


def m3sda_mnistm(path: Path) -> Arrays:
    """mnistm_with_label.mat: train (55000, 28, 28, 3) and one-hot labels."""
    v = matlab(path)
    return parts(*(variable(v, name, path) for name in ("train", "label_train", "test", "label_test")))


def m3sda_usps(path: Path) -> Arrays:
    """usps_28x28.mat: a cell array [[train, labels], [test, labels]], images (n, 1, 28, 28) in [0, 1]."""
    cell = variable(matlab(path), "dataset", path)
    if cell.shape != (2, 2):
        raise UserError(f"{path}: `dataset` has the shape {cell.shape}, not two by two cells.")
    return parts(cell[0, 0][:, 0], cell[0, 1], cell[1, 0][:, 0], cell[1, 1])


def m3sda_syn(path: Path) -> Arrays:
    """syn_number.mat: train_data (25000, 32, 32, 3), train_label (25000, 1)."""
    v = matlab(path)
    return parts(*(variable(v, name, path) for name in ("train_data", "train_label", "test_data", "test_label")))


def svhn(train: Path, test: Path) -> Arrays:
    """SVHN's and SYN's own files: X (32, 32, 3, n), y (n, 1) with 10 for 0."""
    found = []
    for path in (train, test):
        v = matlab(path)
        found += [variable(v, "X", path).transpose(3, 0, 1, 2), variable(v, "y", path)]
    return parts(*found)


# -- other containers -------------------------------------------------------------------------------------------------


def idx(path: Path) -> np.ndarray:
    """An IDX file of bytes, gzipped or not: 00 00 08 ndim, big-endian sizes, data."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from None
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise UserError(f"{path} is not an IDX file of bytes (its first bytes are {raw[:4].hex(' ')}).")
    shape = tuple(np.frombuffer(raw, ">u4", raw[3], 4).tolist())
    body = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
    if body.size != int(np.prod(shape)):
        raise UserError(f"{path} claims the shape {shape} but holds {body.size:,} bytes.")
    return body.reshape(shape)


def mnist_idx(*paths: Path) -> Arrays:
    """MNIST's four files."""
    return parts(*(idx(p) for p in paths))


def usps_libsvm(train: Path, test: Path) -> Arrays:
    """usps.bz2 / usps.t.bz2: lines `label 1:v … 256:v`, labels 1–10 for digits 0–9, values in [−1, 1]."""
    from sklearn.datasets import load_svmlight_file

    found = []
    for path in (train, test):
        try:
            with bz2.open(path) if path.suffix == ".bz2" else path.open("rb") as stream:
                x, y = load_svmlight_file(stream, n_features=256)
        except (OSError, EOFError, ValueError) as error:
            raise UserError(f"{path} cannot be read as LIBSVM text: {error}.") from None
        found += [((x.toarray().astype(np.float32) + 1) / 2).reshape(-1, 16, 16), y.astype(np.int64) - 1]
    return parts(*found)


def usps_h5(path: Path) -> Arrays:
    """usps.h5: groups train and test, each with data (n, 256) in [0, 1] and target (n,)."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            found = [np.asarray(file[f"{part}/{name}"]) for part in ("train", "test") for name in ("data", "target")]
    except (OSError, KeyError) as error:
        raise UserError(
            f"{path} is not USPS in HDF5 (train/data, train/target, test/data, test/target): {error}."
        ) from None
    return parts(found[0].reshape(-1, 16, 16), found[1], found[2].reshape(-1, 16, 16), found[3])


def mnistm_png(train: Path, test: Path, train_labels: Path, test_labels: Path) -> Arrays:
    """MNIST-M as released with DANN: folders of PNG and text files with lines `name label`."""
    found = []
    for folder, listing in ((train, train_labels), (test, test_labels)):
        lines = [line.split() for line in listing.read_text().splitlines() if line.strip()]
        names, numbers = [line[0] for line in lines], [int(line[-1]) for line in lines]
        found += [_pictures(folder, names), np.array(numbers)]
    return parts(*found)


def dassl(train: Path) -> Arrays:
    """Dassl's digit5: `<domain>/train_images/000001_7.jpg`, the label after the underscore (JPEG: a little lossy)."""
    found = []
    for folder in (train, train.with_name("test_images")):
        if not folder.is_dir():
            raise UserError(f"{train} is there, but {folder} is not.")
        names = sorted(p.name for p in folder.iterdir() if re.fullmatch(r"\d+_\d+\.(jpg|png)", p.name))
        found += [_pictures(folder, names), np.array([int(re.split("[_.]", name)[1]) for name in names])]
    return parts(*found)


def parquet(folder: Path) -> Arrays:
    """Hugging Face's digits: shards `train*.parquet` and `test*.parquet`, columns image and label; grey stays grey."""
    found = []
    for part in ("train", "test"):
        images: list[np.ndarray] = []
        numbers: list[int] = []
        for shard in sorted(folder.glob(f"{part}*.parquet")):
            for row in rows(shard):
                grey = row.image[:4] == b"\x89PNG" and row.image[25] == 0  # colour type of a PNG's header
                images.append(
                    _picture(f"{shard}, row {len(numbers) + 1}", io.BytesIO(row.image), "L" if grey else "RGB")
                )
                numbers.append(int(row.label))
        found += [_stack(f"{folder}/{part}*.parquet", images), np.array(numbers)]
    return parts(*found)


def _pictures(folder: Path, names: Sequence[str]) -> np.ndarray:
    """Pictures of one size as (n, h, w, 3)."""
    return _stack(folder, [_picture(folder / name, folder / name, "RGB") for name in names])


def _picture(name: Path | str, file: Path | io.BytesIO, mode: str) -> np.ndarray:
    try:
        with Image.open(file) as image:
            return np.asarray(image.convert(mode))
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(f"The picture {name} cannot be read: {error}.") from None


def _stack(place: Path | str, images: Sequence[np.ndarray]) -> np.ndarray:
    if len({x.shape for x in images}) != 1:
        raise UserError(f"{place} holds {'pictures of several sizes' if images else 'no pictures'}.")
    return np.stack(images)


def prepared(path: Path) -> Arrays:
    """An .npz that is in the prepared form already."""
    try:
        arrays = read(path)
        wrong = faults(arrays)
    except ValueError as error:
        wrong = [str(error)]
    if wrong:
        raise UserError(f"{path} is not right: {'; '.join(wrong)}.")
    return {key: arrays[key] for key in KEYS}


def _spellings(*names: str) -> tuple[str, ...]:
    return tuple(n + end for n in names for end in (".gz", ""))


HUGGING_FACE = {  # folders of fetched or cloned shards: ours, and the publishers'
    "mnist": ("hf-mnist", "mnist"),
    "mnistm": ("hf-mnistm", "mnist-m"),
    "usps": ("hf-usps", "usps"),
    "svhn": ("hf-svhn", "cropped_digits"),
}
DASSL = {"mnist": "mnist", "mnistm": "mnist_m", "usps": "usps", "svhn": "svhn", "syn": "syn"}
# In order of preference: what the paper's code read comes first.
FORMATS = (
    Format("mnist", "Digits-Five .mat", (("mnist_data.mat",),), m3sda_mnist),
    Format("mnistm", "Digits-Five .mat", (("mnistm_with_label.mat",),), m3sda_mnistm),
    Format("usps", "Digits-Five .mat", (("usps_28x28.mat",),), m3sda_usps),
    Format("syn", "Digits-Five .mat", (("syn_number.mat",),), m3sda_syn),
    Format(
        "svhn",
        "SVHN .mat",
        (("svhn_train_32x32.mat", "train_32x32.mat"), ("svhn_test_32x32.mat", "test_32x32.mat")),
        svhn,
    ),
    Format("syn", "SYN .mat", (("synth_train_32x32.mat",), ("synth_test_32x32.mat",)), svhn),
    Format(
        "mnist",
        "MNIST idx",
        (
            _spellings("train-images-idx3-ubyte", "train-images.idx3-ubyte"),
            _spellings("train-labels-idx1-ubyte", "train-labels.idx1-ubyte"),
            _spellings("t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"),
            _spellings("t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte"),
        ),
        mnist_idx,
    ),
    Format(
        "mnistm",
        "MNIST-M pictures",
        (("mnist_m_train",), ("mnist_m_test",), ("mnist_m_train_labels.txt",), ("mnist_m_test_labels.txt",)),
        mnistm_png,
    ),
    Format("usps", "USPS LIBSVM", (("usps.bz2", "usps"), ("usps.t.bz2", "usps.t")), usps_libsvm),
    Format("usps", "USPS HDF5", (("usps.h5",),), usps_h5),
    *(
        Format(d, "Hugging Face parquet", (tuple(f"{name}/*.parquet" for name in names),), parquet)
        for d, names in HUGGING_FACE.items()
    ),
    *(Format(d, "Dassl digit5 pictures", ((f"{folder}/train_images",),), dassl) for d, folder in DASSL.items()),
    *(Format(d, "prepared .npz", ((f"{d}.npz",),), prepared) for d in DASSL),
)
PICKLES = (".pkl", ".pkl.gz", ".pickle", ".pickle.gz")


def refuse_pickle(path: Path) -> str:
    """Why a pickle is not read, and what to do instead."""
    return (
        f"{path} is a Python pickle, and loading one runs whatever code is in it: it is not read. For MNIST-M take the "
        f"pictures of DANN (mnist_m_train, mnist_m_test and their labels) or mnistm_with_label.mat instead."
    )


def arrays_of(found: Found, domain: str) -> tuple[Arrays, str] | None:
    """The first published form of a domain that is wholly there, read; None when there is none."""
    for form in FORMATS:
        files = form.files(found) if form.domain == domain else None
        if files:
            try:
                return form.read(*files), f"{form.title} ({', '.join(p.name for p in files)})"
            except (ValueError, IndexError, AttributeError) as error:
                names = ", ".join(str(p) for p in files)
                raise UserError(f"{names} is not {form.title} as published: {error}.") from None
    return None
