"""Importers: every published form, in small, written by the test as its publishers write it."""

from __future__ import annotations

import bz2
import gzip
import pickle
import re
import struct
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from benchmark import data
from benchmark.data import digits
from benchmark.data.get import importers
from benchmark.data.get.prepare import prepare
from benchmark.data.get.sources import downloads
from benchmark.errors import UserError
from benchmark.spec import load_suite

DIGITS, PACS, DOMAINNET = load_suite("digits"), load_suite("pacs"), load_suite("domainnet")
N, M = 30, 20
RNG = np.random.default_rng(0)
Y = {"train": np.arange(N) % 10, "test": np.arange(M) % 10}


def images(part: str, *shape: int) -> np.ndarray:
    return RNG.integers(0, 256, (len(Y[part]), *shape), dtype=np.uint8)


def one_hot(part: str) -> np.ndarray:
    return np.eye(10)[Y[part]]


def result(root: Path, domain: str) -> dict[str, np.ndarray]:
    with np.load(root / "digits" / f"{domain}.npz", allow_pickle=False) as stored:
        return dict(stored)


def assert_stored(root: Path, domain: str, x_train: np.ndarray, x_test: np.ndarray, tolerance: int = 0) -> None:
    found = result(root, domain)
    assert digits.faults(found) == []
    assert np.array_equal(found["y_train"], Y["train"])
    assert np.array_equal(found["y_test"], Y["test"])
    for name, x in (("x_train", x_train), ("x_test", x_test)):
        assert found[name].shape == x.shape
        assert np.abs(found[name].astype(int) - x.astype(int)).max() <= tolerance


@pytest.fixture
def origin(tmp_path) -> Path:
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def test_mnist_data_mat_of_m3sda(tmp_path, origin):
    x = {p: images(p, 32, 32) for p in Y}
    savemat(
        origin / "mnist_data.mat",
        {
            "train_32": x["train"],
            "test_32": x["test"],
            "train_28": images("train", 28, 28, 1),
            "test_28": images("test", 28, 28, 1),
            "label_train": one_hot("train"),
            "label_test": one_hot("test"),
        },
    )
    prepare(DIGITS, tmp_path, origin)
    assert_stored(tmp_path, "mnist", x["train"], x["test"])


def test_mnistm_with_label_mat_of_m3sda(tmp_path, origin):
    x = {p: images(p, 28, 28, 3) for p in Y}
    variables = {"train": x["train"], "test": x["test"], "label_train": one_hot("train"), "label_test": one_hot("test")}
    savemat(origin / "mnistm_with_label.mat", variables)
    prepare(DIGITS, tmp_path, origin)
    assert_stored(tmp_path, "mnistm", x["train"], x["test"])


def test_usps_28x28_mat_of_m3sda(tmp_path, origin):
    x = {p: images(p, 28, 28) for p in Y}
    cell = np.empty((2, 2), dtype=object)
    for i, part in enumerate(Y):
        cell[i, 0], cell[i, 1] = x[part][:, None] / 255.0, Y[part][:, None].astype(np.uint8)
    savemat(origin / "usps_28x28.mat", {"dataset": cell})
    prepare(DIGITS, tmp_path, origin)
    assert_stored(tmp_path, "usps", x["train"], x["test"])


def test_syn_number_mat_of_m3sda(tmp_path, origin):
    x = {p: images(p, 32, 32, 3) for p in Y}
    variables = {f"{p}_data": x[p] for p in Y} | {f"{p}_label": Y[p][:, None] for p in Y}
    savemat(origin / "syn_number.mat", variables)
    prepare(DIGITS, tmp_path, origin)
    assert_stored(tmp_path, "syn", x["train"], x["test"])


@pytest.mark.parametrize(
    ("names", "domain"),
    [
        (("train_32x32.mat", "test_32x32.mat"), "svhn"),
        (("svhn_train_32x32.mat", "svhn_test_32x32.mat"), "svhn"),
        (("synth_train_32x32.mat", "synth_test_32x32.mat"), "syn"),
    ],
)
def test_svhn_style_mat_whose_tens_are_zeros(tmp_path, origin, names, domain):
    x = {p: images(p, 32, 32, 3) for p in Y}
    for part, name in zip(Y, names, strict=True):
        y = np.where(Y[part] == 0, 10, Y[part])[:, None]
        savemat(origin / name, {"X": x[part].transpose(1, 2, 3, 0), "y": y.astype(np.uint8)})
    prepare(DIGITS, tmp_path, origin)
    assert_stored(tmp_path, domain, x["train"], x["test"])


def write_idx(path: Path, array: np.ndarray) -> None:
    raw = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


@pytest.mark.parametrize("ending", ["-idx{}-ubyte.gz", "-idx{}-ubyte", ".idx{}-ubyte"])
def test_mnist_idx_files(tmp_path, origin, ending):
    x = {p: images(p, 28, 28) for p in Y}
    for part, name in (("train", "train"), ("test", "t10k")):
        write_idx(origin / f"{name}-images{ending.format(3)}", x[part])
        write_idx(origin / f"{name}-labels{ending.format(1)}", Y[part].astype(np.uint8))
    prepare(DIGITS, tmp_path, origin)
    assert_stored(tmp_path, "mnist", x["train"], x["test"])


@pytest.mark.parametrize("ending", [".bz2", ""])
def test_usps_libsvm_text(tmp_path, origin, ending):
    x = {p: images(p, 16, 16) for p in Y}
    for part, name in (("train", "usps"), ("test", "usps.t")):
        lines = [
            f"{label + 1} " + " ".join(f"{i}:{v / 127.5 - 1:.6f}" for i, v in enumerate(row.reshape(-1), 1)) + " \n"
            for row, label in zip(x[part], Y[part], strict=True)
        ]
        text = "".join(lines).encode()
        (origin / (name + ending)).write_bytes(bz2.compress(text) if ending else text)
    prepare(DIGITS, tmp_path, origin)
    assert_stored(tmp_path, "usps", x["train"], x["test"])


def test_usps_h5(tmp_path, origin):
    x = {p: images(p, 16, 16) for p in Y}
    with h5py.File(origin / "usps.h5", "w") as file:
        for part in Y:
            file[f"{part}/data"] = x[part].reshape(-1, 256) / 255.0
            file[f"{part}/target"] = Y[part]
    prepare(DIGITS, tmp_path, origin)
    assert_stored(tmp_path, "usps", x["train"], x["test"])


def test_mnistm_pictures_of_dann_in_an_archive(tmp_path, origin):
    x = {p: images(p, 32, 32, 3) for p in Y}
    with zipfile.ZipFile(origin / "mnist_m.zip", "w") as out:
        for part in Y:
            lines = []
            for i, (pixels, label) in enumerate(zip(x[part], Y[part], strict=True)):
                Image.fromarray(pixels).save(origin / "x.png")
                out.write(origin / "x.png", f"mnist_m/mnist_m_{part}/{i:08}.png")
                lines.append(f"{i:08}.png {label}")
            out.writestr(f"mnist_m/mnist_m_{part}_labels.txt", "\n".join(lines))
    prepare(DIGITS, tmp_path, origin)
    assert_stored(tmp_path, "mnistm", x["train"], x["test"])


def test_dassls_digit5_pictures(tmp_path, origin):
    for domain in ("mnist", "mnist_m", "svhn", "syn", "usps"):
        for part in Y:
            folder = origin / "digit5" / domain / f"{part}_images"
            folder.mkdir(parents=True)
            for i, label in enumerate(Y[part], 1):
                Image.fromarray(np.full((32, 32, 3), 20 * label, np.uint8)).save(folder / f"{i:06}_{label}.jpg")
    done = prepare(DIGITS, tmp_path, origin)
    assert sorted(done.made) == ["mnist", "mnistm", "svhn", "syn", "usps"], done
    grey = {p: np.broadcast_to(20 * Y[p][:, None, None, None], (len(Y[p]), 32, 32, 3)) for p in Y}
    for domain in done.made:
        assert_stored(tmp_path, domain, grey["train"], grey["test"], tolerance=2)


def test_prepared_files_are_taken_over_and_can_be_trained_on(tmp_path, origin, write_digits):
    write_digits(origin)
    done = prepare(DIGITS, tmp_path, origin)
    assert len(done.made) == 5
    mark = data.load(DIGITS, "lite", "all", tmp_path).fingerprint
    assert mark == data.load(DIGITS, "lite", "all", origin).fingerprint


def test_a_pickle_is_refused_in_words_and_never_loaded(tmp_path, origin):
    class Trap:
        def __reduce__(self):
            return (Path(tmp_path / "sprung").touch, ())

    with gzip.open(origin / "keras_mnistm.pkl.gz", "wb") as out:
        pickle.dump(Trap(), out)
    done = prepare(DIGITS, tmp_path, origin)
    assert "keras_mnistm.pkl.gz is a Python pickle" in done.refused[0]
    assert "mnistm_with_label.mat" in done.refused[0]
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("mnist_data.mat", b"not a mat file at all" * 20, r"mnist_data\.mat cannot be read as a MATLAB file"),
        ("usps.h5", b"nothing", r"usps\.h5 is not USPS in HDF5"),
        ("syn_number.mat", None, r"syn_number\.mat has no variable train_data; it has: other"),
        ("mnist.npz", b"PK nothing", r"mnist\.npz is not right: it cannot be read as \.npz"),
    ],
)
def test_a_damaged_file_is_named_and_the_others_are_made(tmp_path, origin, write_digits, name, content, words):
    write_digits(origin, names=("svhn",))
    if content is None:
        savemat(origin / name, {"other": np.zeros(3)})
    else:
        (origin / name).write_bytes(content)
    done = prepare(DIGITS, tmp_path, origin)
    assert list(done.made) == ["svhn"]
    assert len(done.refused) == 1
    assert re.search(words, done.refused[0]), done.refused
    assert not (tmp_path / "digits" / f"{name.split('.')[0].removesuffix('_data')}.npz").exists()


def test_truncated_idx_is_named(tmp_path):
    write_idx(tmp_path / "x", images("train", 28, 28))
    (tmp_path / "x").write_bytes((tmp_path / "x").read_bytes()[:-5])
    with pytest.raises(UserError, match=r"claims the shape \(30, 28, 28\) but holds 23,515 bytes"):
        importers.idx(tmp_path / "x")


def test_what_is_there_is_kept_unless_asked_for_again(tmp_path, origin, write_digits):
    write_digits(origin, names=("usps",))
    prepare(DIGITS, tmp_path, origin)
    before = result(tmp_path, "usps")
    write_digits(origin, names=("usps",), seed=5)
    assert prepare(DIGITS, tmp_path, origin).kept == ["usps"]
    assert np.array_equal(result(tmp_path, "usps")["x_train"], before["x_train"])
    prepare(DIGITS, tmp_path, origin, again=True)
    assert not np.array_equal(result(tmp_path, "usps")["x_train"], before["x_train"])


def test_a_missing_origin_says_what_to_type(tmp_path):
    with pytest.raises(UserError, match=r"does not exist.*--from FOLDER.*data fetch --suite digits"):
        prepare(DIGITS, tmp_path)


def test_an_evil_archive_among_the_downloads_is_refused_and_the_rest_is_made(tmp_path, origin, write_digits):
    write_digits(origin, names=("svhn",))
    with zipfile.ZipFile(origin / "evil.zip", "w") as out:
        out.writestr("../../svhn.npz", b"x")
    done = prepare(DIGITS, tmp_path, origin)
    assert list(done.made) == ["svhn"]
    assert "evil.zip is refused" in done.refused[0]


# -- folders of pictures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", ["pacs_data", "PACS", "pacs/images", "a/b/kfold"])
def test_pacs_trees_of_several_makers(tmp_path, origin, write_pictures, inside):
    write_pictures(origin / inside)
    done = prepare(PACS, tmp_path, origin)
    assert sorted(done.made) == ["art_painting", "cartoon", "photo", "sketch"]
    found = data.load(PACS, "lite", "all", tmp_path)
    assert all(len(d.train) == 21 for d in found.domains.values())


def test_dassls_pacs_brings_its_k_fold_lists(tmp_path, origin, write_pictures):
    write_pictures(origin / "pacs" / "images", each=4)
    (origin / "pacs" / "splits").mkdir()
    for d in PACS.domains:
        names = [f"{d.name}/{c}/pic_{i:02}.jpg {label}" for label, c in enumerate(PACS.classes, 1) for i in range(4)]
        for part, lines in (("train", names[:-2]), ("crossval", names[-2:]), ("test", names)):
            (origin / "pacs" / "splits" / f"{d.name}_{part}_kfold.txt").write_text("\n".join(lines))
    prepare(PACS, tmp_path, origin)
    found = data.load(PACS, "lite", "all", tmp_path, {"reading": "split"})
    assert len(found.domains["P"].test) == 2
    assert "official k-fold lists" in found.note


def test_a_users_own_folder_is_linked_and_left_as_it_was(tmp_path, origin, write_pictures):
    write_pictures(origin / "PACS")
    before = sorted(str(p) for p in origin.rglob("*"))
    prepare(PACS, tmp_path, origin)
    assert (tmp_path / "PACS" / "photo" / "dog").is_symlink()
    assert sorted(str(p) for p in origin.rglob("*")) == before


def test_fetched_archives_are_unpacked_and_moved_into_place(tmp_path, write_pictures):
    folder = downloads(tmp_path, "pacs")
    folder.mkdir(parents=True)
    write_pictures(tmp_path / "made")
    for domain in ("art_painting", "cartoon", "sketch", "photo"):
        with zipfile.ZipFile(folder / f"{domain}.zip", "w") as out:
            for file in (tmp_path / "made" / domain).rglob("*.jpg"):
                out.write(file, file.relative_to(tmp_path / "made"))
    done = prepare(PACS, tmp_path)
    assert len(done.made) == 4
    assert not (tmp_path / "PACS" / "photo" / "dog").is_symlink()
    assert len(data.load(PACS, "lite", "all", tmp_path).domains["A"].train) == 21
    assert sorted(prepare(PACS, tmp_path).kept) == ["art_painting", "cartoon", "photo", "sketch"]


@pytest.mark.parametrize(
    "names",
    [
        ("clipart", "infograph", "painting", "quickdraw", "real", "sketch"),
        ("clip", "info", "paint", "quick", "real", "sketch"),
    ],
)
def test_domainnet_trees_and_lists(tmp_path, origin, write_pictures, names):
    classes = tuple(DOMAINNET.classes[:3])
    write_pictures(origin / "domain_net", names, classes)
    for where in ("splits", "groundtruth/txt"):
        (origin / where).mkdir(parents=True)
        for d in DOMAINNET.domains:
            for part, numbers in (("train", (0, 1) if where == "splits" else (0,)), ("test", (2,))):
                lines = [f"{d.name}/{c}/pic_{i:02}.jpg {k}" for k, c in enumerate(classes) for i in numbers]
                (origin / where / f"{d.name}_{part}.txt").write_text("\n".join(lines))
    done = prepare(DOMAINNET, tmp_path, origin)
    assert "clipart_train.txt" in done.lists
    assert "cleaned/clipart_train.txt" in done.lists
    found = data.load(DOMAINNET, "lite", "all", tmp_path)
    assert len(found.domains["clp"].train) == 3
    found = data.load(DOMAINNET, "lite", "all", tmp_path, {"lists": "original"})
    assert len(found.domains["clp"].train) == 6


def test_missing_domains_are_listed(tmp_path, origin, write_pictures):
    write_pictures(origin / "PACS", domains=("photo",))
    done = prepare(PACS, tmp_path, origin)
    assert done.missing == ["art_painting", "cartoon", "sketch"]
