"""Digits-Five from the prepared form."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from benchmark import data
from benchmark.data import base, digits
from benchmark.errors import UserError
from benchmark.spec import load_suite
from tests import needs

SUITE = load_suite("digits")


def test_every_domain_becomes_rgb_of_32_by_32(tmp_path, write_digits):
    found = data.load(SUITE, "lite", "all", write_digits(tmp_path))
    for domain in found.domains.values():
        batch = domain.train.take(torch.arange(5))
        assert batch.shape == (5, 3, 32, 32)
        assert batch.dtype == torch.uint8
        assert (len(domain.train), len(domain.test)) == (40, 20)
    assert found.generated == []


def test_native_32_by_32_pixels_are_untouched_and_grey_is_repeated(tmp_path, write_digits):
    root = write_digits(tmp_path)
    found = data.load(SUITE, "lite", "all", root)
    with np.load(root / "digits" / "svhn.npz") as stored:
        assert np.array_equal(found.domains["sv"].train.take(torch.arange(40)).permute(0, 2, 3, 1), stored["x_train"])
    grey = found.domains["up"].train.take(torch.arange(7))
    assert torch.equal(grey[:, 0], grey[:, 1])
    assert torch.equal(grey[:, 0], grey[:, 2])


@pytest.mark.parametrize("side", [16, 28])
def test_upscaling_is_pillows_bilinear_to_within_one_grey_level(side):
    x = np.random.default_rng(0).integers(0, 256, (6, side, side), dtype=np.uint8)
    wanted = np.stack([np.asarray(Image.fromarray(i).resize((32, 32), Image.Resampling.BILINEAR)) for i in x])
    ours = digits.to_rgb32(x)[:, 0].numpy()
    assert np.abs(ours.astype(int) - wanted.astype(int)).max() <= 1


def test_conversion_in_chunks_equals_conversion_at_once():
    x = np.random.default_rng(1).integers(0, 256, (11, 28, 28), dtype=np.uint8)
    assert torch.equal(digits.to_rgb32(x, chunk=4), digits.to_rgb32(x))


def test_normalised_pixels_span_minus_one_to_one(tmp_path, write_digits):
    found = data.load(SUITE, "lite", "all", write_digits(tmp_path))
    x = found.preprocess.eval(torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(-1, 3, 32, 32), "cpu")
    assert x[0].unique().tolist() == pytest.approx([-1.0])
    assert x[1].unique().tolist() == pytest.approx([1.0])


def test_split_part_is_a_seeded_subset_without_repetition_and_all_is_everything(monkeypatch, tmp_path, write_digits):
    root = write_digits(tmp_path)
    monkeypatch.setattr(base, "PART", {"train": 30, "test": 9})
    part, whole = (data.load(SUITE, "lite", split, root) for split in ("part", "all"))
    assert (len(part.domains["sv"].train), len(part.domains["sv"].test)) == (30, 9)
    rows = base.chosen(40, "part", "train", "sv")
    assert len(set(rows.tolist())) == 30
    assert torch.equal(part.domains["sv"].train.take(torch.arange(30)), whole.domains["sv"].train.take(rows))
    assert torch.equal(rows, base.chosen(40, "part", "train", "sv"))
    assert not torch.equal(rows, base.chosen(40, "part", "train", "mm"))
    assert part.fingerprint != whole.fingerprint


def test_the_caps_of_split_part_are_the_protocols():
    assert len(base.chosen(60_000, "part", "train", "mt")) == 25_000
    assert len(base.chosen(10_000, "part", "test", "mt")) == 9_000
    assert base.chosen(7_291, "part", "train", "up") is None


def test_a_subset_without_some_class_can_be_loaded(tmp_path, write_digits):
    found = data.load(SUITE, "lite", "all", write_digits(tmp_path, train=25, test=5))
    assert len(found.domains["mm"].test.labels.unique()) == 5


def test_loading_never_opens_a_connection(tmp_path, write_digits, monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("a connection was opened"))
    data.load(SUITE, "lite", "all", write_digits(tmp_path))
    with pytest.raises(UserError, match="data fetch"):
        data.load(SUITE, "lite", "all", tmp_path / "nothing")


def test_missing_syn_is_generated_under_the_cache_and_marked(monkeypatch, tmp_path, write_digits):
    monkeypatch.setattr(digits, "GENERATED", {"lite": (20, 10)})
    root = write_digits(tmp_path, names=("mnist", "mnistm", "usps", "svhn"))
    found = data.load(SUITE, "lite", "all", root)
    assert found.generated == ["syn"]
    assert found.domains["syn"].label == "syn*"
    assert "syn*" in found.note
    assert len(found.domains["syn"].train) == 20
    assert sorted(p.name for p in (root / "digits").iterdir()) == ["mnist.npz", "mnistm.npz", "svhn.npz", "usps.npz"]


def test_fingerprint_follows_content_and_not_place_or_time(tmp_path, write_digits):
    first, second = write_digits(tmp_path / "a"), write_digits(tmp_path / "b")
    other = write_digits(tmp_path / "c", seed=1)
    marks = [data.fingerprint(SUITE, "lite", "all", root) for root in (first, second, other)]
    assert marks[0] == marks[1] == data.load(SUITE, "lite", "all", first).fingerprint
    assert marks[0] != marks[2]


def test_fingerprint_is_remembered_until_a_file_changes(monkeypatch, tmp_path, write_digits):
    root = write_digits(tmp_path)
    mark = data.fingerprint(SUITE, "lite", "all", root)
    monkeypatch.setattr(digits, "read", lambda file: pytest.fail("read again"))
    assert data.fingerprint(SUITE, "lite", "all", root) == mark
    monkeypatch.undo()
    write_digits(root, names=("usps",), seed=9)
    os.utime(root / "digits" / "usps.npz", ns=(1, 1))
    assert data.fingerprint(SUITE, "lite", "all", root) != mark


def test_missing_files_are_named_together_with_what_to_type(tmp_path, write_digits):
    root = write_digits(tmp_path, names=("mnist", "syn"))
    with pytest.raises(UserError, match=r"no mnistm\.npz and no usps\.npz and no svhn\.npz.*data fetch --suite digits"):
        data.load(SUITE, "lite", "all", root)


def test_missing_folder_says_how_to_get_the_data_and_how_to_do_without(tmp_path):
    with pytest.raises(UserError, match=r"no folder digits.*--data-root FOLDER.*data fetch.*--tier mini"):
        data.load(SUITE, "lite", "all", tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"y_train": (np.arange(40) % 10 + 1).astype(np.uint8)},
            r"y_train has labels 1–10, not 0–9 \(a 10 that means 0",
        ),
        ({"x_train": np.zeros((40, 28, 28), np.float32)}, "x_train is float32, not uint8"),
        ({"x_test": np.zeros((20, 28, 28, 4), np.uint8)}, "x_test has the shape"),
        ({"y_test": np.zeros(19, np.uint8)}, "x_test has 20 images but y_test 19 labels"),
        ({"y_train": np.eye(10, dtype=np.uint8)[np.arange(40) % 10]}, "y_train has the shape"),
        ({"y_train": np.zeros(0, np.uint8), "x_train": np.zeros((0, 28, 28), np.uint8)}, "y_train is empty"),
    ],
)
def test_a_faulty_file_is_refused_in_words(tmp_path, write_digits, change, words):
    root = write_digits(tmp_path)
    file = root / "digits" / "mnist.npz"
    with np.load(file) as stored:
        np.savez(file, **{**stored, **change})
    with pytest.raises(UserError, match=rf"mnist\.npz is not right: .*{words}.*data check --suite digits"):
        data.load(SUITE, "lite", "all", root)


def test_object_arrays_are_never_unpickled(tmp_path, write_digits):
    class Trap:
        def __reduce__(self):
            return (Path(tmp_path / "sprung").touch, ())

    root = write_digits(tmp_path)
    np.savez(root / "digits" / "mnist.npz", x_train=np.array([Trap()], dtype=object))
    with pytest.raises(UserError, match="Python objects"):
        data.load(SUITE, "lite", "all", root)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.realdata
@needs.images
def test_the_real_digits_load(monkeypatch):
    monkeypatch.setattr(digits, "GENERATED", {"lite": (200, 100)})
    found = data.load(SUITE, "lite", "part", Path(os.environ["BENCHMARK_DATA_ROOT"]))
    for domain in found.domains.values():
        pixels = domain.train.take(torch.arange(64)).float()
        assert pixels.std() > 20
        assert len(domain.train.labels.unique()) == 10
