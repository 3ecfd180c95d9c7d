"""Batches: a pure function of (domain, seed, t), each image once an epoch, no labels for the target."""

from __future__ import annotations

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmark.data.base import ImageSet, Preprocess
from benchmark.data.batches import Stream, ahead, batch_index, batches_of, hold_out, supply
from methods.contract import LabeledBatch, UnlabeledBatch

CPU = torch.device("cpu")


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


# -- one update ahead ---------------------------------------------------------------------------------------------------


def same(a: tuple[list[LabeledBatch], UnlabeledBatch], b: tuple[list[LabeledBatch], UnlabeledBatch]) -> bool:
    pairs = [(x.images, y.images) for x, y in zip([*a[0], a[1]], [*b[0], b[1]], strict=True)]
    return all(
        map(torch.equal, *zip(*pairs, *((x.labels, y.labels) for x, y in zip(a[0], b[0], strict=True)), strict=True))
    )


@pytest.mark.parametrize("combined", [False, True])
def test_read_ahead_or_when_asked_for_the_batches_are_the_same_in_any_order(combined: bool) -> None:
    """From the start, resumed at 7, going back, the same once more, and the last one."""
    read = batches_of([_stream(labelled=True), _stream(labelled=True)], _stream(labelled=False), combined)
    with ahead(read, CPU, 12) as given:
        for t in (0, 1, 2, 7, 8, 3, 3, 4, 11):
            assert same(given(t), read(t))


def test_the_next_batch_is_read_while_the_update_computes_by_another_thread_and_none_after_the_last() -> None:
    asked: list[tuple[int, bool]] = []
    next_one = threading.Event()

    def read(t: int) -> tuple[list[LabeledBatch], UnlabeledBatch]:
        asked.append((t, threading.current_thread() is threading.main_thread()))
        if t:
            next_one.set()
        return [], UnlabeledBatch(torch.full((1,), t))

    with ahead(read, CPU, 2) as given:
        assert given(0)[1].images == 0
        assert next_one.wait(60)  # nobody asked for it yet
        assert given(1)[1].images == 1
    assert asked == [(0, False), (1, False)]


def test_an_error_in_reading_ahead_is_raised_where_the_batch_is_asked_for() -> None:
    def read(t: int) -> tuple[list[LabeledBatch], UnlabeledBatch]:
        if t == 1:
            raise OSError("the disk is gone")
        return [], UnlabeledBatch(torch.zeros(1))

    with ahead(read, CPU, 5) as given:
        given(0)
        with pytest.raises(OSError, match="the disk is gone"):
            given(1)
        given(2)


def test_a_cpu_reads_when_asked() -> None:
    read = batches_of([], _stream(labelled=False), combined=False)
    with supply(read, CPU, 5) as given:
        assert given is read


@pytest.mark.parametrize("grey", [False, True])
def test_a_set_that_lives_on_the_device_gives_the_same_batches(grey: bool) -> None:
    pixels = torch.arange(20 * 3, dtype=torch.uint8).view(20, 3, 1, 1)
    images = ImageSet(pixels[:, :1].expand(-1, 3, -1, -1) if grey else pixels, torch.arange(20))
    pool = torch.arange(3, 20)
    here, there = (
        Stream(images, pool, "mm", seed=0, size=6, preprocess=Preprocess(), device=CPU, labelled=True) for _ in range(2)
    )
    there._live_on(CPU, images.images)
    for t in range(5):
        assert torch.equal(here.labels(t), there.labels(t))
        assert torch.equal(here.images(t), there.images(t))
    for a, b in zip(here.full_pass([0]), there.full_pass([0]), strict=True):
        assert torch.equal(a.images, b.images)
        assert torch.equal(a.labels, b.labels)


def test_small_sets_live_on_a_device_and_large_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """On torch's device without memory, which is no CPU: the places are sent, the images are there."""
    sent: list[torch.Size] = []
    monkeypatch.setattr("benchmark.data.batches.send", lambda x, d: sent.append(x.shape) or x.to(d))
    images = ImageSet(torch.zeros(20, 3, 4, 4, dtype=torch.uint8), torch.zeros(20, dtype=torch.int64))

    def stream() -> Stream:
        preprocess, pool = Preprocess(), torch.arange(20)
        device = torch.device("meta")
        return Stream(images, pool, "mm", seed=0, size=6, preprocess=preprocess, device=device, labelled=True)

    assert stream().images(0).device.type == "meta"
    assert sent == [(6,)]
    sent.clear()
    monkeypatch.setattr("benchmark.data.batches.RESIDENT_MB", 0)
    assert stream()._take(torch.arange(6)).device.type == "cpu"
    assert sent == []
