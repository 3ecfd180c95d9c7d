"""Batches: a pure function of (domain, seed, t), each image once an epoch, no labels for the target."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmark.data.base import ImageSet, Preprocess
from benchmark.data.batches import Stream, batch_index, hold_out


@given(n=st.integers(1, 50), size=st.integers(1, 70), seed=st.integers(0, 5), batches=st.integers(1, 8))
def test_batches_run_through_every_image_once_an_epoch(n: int, size: int, seed: int, batches: int) -> None:
    sequence = torch.cat([batch_index(n, size, "mm", seed, t) for t in range(batches)])
    for start in range(0, len(sequence) - n + 1, n):
        assert sorted(sequence[start : start + n].tolist()) == list(range(n))


def test_batches_do_not_depend_on_what_was_asked_before() -> None:
    late = batch_index(100, 7, "sv", 3, 41)
    for t in range(60):
        batch_index(100, 7, "sv", 3, t)
    assert torch.equal(late, batch_index(100, 7, "sv", 3, 41))
    assert not torch.equal(late, batch_index(100, 7, "sv", 4, 41))
    assert not torch.equal(late, batch_index(100, 7, "mt", 3, 41))


@given(n=st.integers(1, 400), wanted=st.integers(1, 500))
def test_held_out_images_are_never_trained_on(n: int, wanted: int) -> None:
    train, held = hold_out(n, wanted, "mm")
    assert len(held) == min(wanted, n // 5)
    assert sorted([*train.tolist(), *held.tolist()]) == list(range(n))


def _stream(labelled: bool) -> Stream:
    images = ImageSet(torch.arange(20 * 3, dtype=torch.uint8).view(20, 3, 1, 1), torch.arange(20))
    return Stream(
        images, torch.arange(20), "mm", seed=0, size=6, preprocess=Preprocess(), device=torch.device("cpu"), labelled=labelled
    )  # fmt: skip


def test_a_stream_made_without_labels_cannot_give_any() -> None:
    stream = _stream(labelled=False)
    assert stream.unlabeled(0).images.shape == (6, 3, 1, 1)
    with pytest.raises(PermissionError):
        stream.labels(0)


def test_labels_belong_to_their_images() -> None:
    batch = _stream(labelled=True).labeled(5)
    pixels = ((batch.images * 0.5 + 0.5) * 255).round().long()
    assert torch.equal(pixels[:, 0, 0, 0] // 3, batch.labels)


def test_a_full_pass_gives_each_image_once_and_is_counted() -> None:
    count = [0]
    labels = torch.cat([b.labels for b in _stream(labelled=True).full_pass(count)])
    assert torch.equal(labels, torch.arange(20))
    assert count == [20]
