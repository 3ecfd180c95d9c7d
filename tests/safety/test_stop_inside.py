"""Told to stop in the middle of a long pass (`begin`, an evaluation, the artifacts at the end), a run stops at the next
batch, and goes on later to the bits of one that nobody stopped."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmark.errors import Interrupted
from benchmark.records import read_curve
from tests.safety.small import Small, bits

METHOD = "mdda"  # three stages; its last one begins with passes over everything
PLACES = ["begin", "scores", "target_statistics", "artifacts"]


class Told:
    """`should_stop` that says yes from the `nth` time on that it is asked from within `place`."""

    def __init__(self, place: str, nth: int) -> None:
        self.place, self.nth, self.asked, self.after = place, nth, 0, 0

    def __call__(self) -> bool:
        frame, names = sys._getframe(1), set()
        while frame is not None:
            names.add(frame.f_code.co_name)
            frame = frame.f_back  # type: ignore[assignment]
        self.after += self.asked >= self.nth
        self.asked += self.place in names
        return self.asked >= self.nth


@pytest.fixture(scope="module")
def whole(small: Small, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    return bits(small.execute(small.spec(METHOD), tmp_path_factory.mktemp("whole")))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_run_stopped_between_two_batches_of_a_pass_goes_on_to_the_same_bits(
    small: Small, whole: tuple, tmp_path: Path, place: str, nth: int
) -> None:
    told = Told(place, nth)
    with pytest.raises(Interrupted):
        small.execute(small.spec(METHOD), tmp_path, should_stop=told)
    assert told.asked == nth
    assert told.after == 0, "it was not asked again: no batch came after the stop"
    directory = small.directory(small.spec(METHOD), tmp_path)
    assert (directory / "checkpoint.pt").exists()
    assert not (directory / "failure.json").exists()
    record = small.execute(small.spec(METHOD), tmp_path)
    assert bits(record) == whole
    assert record["warnings"] == []


def test_nothing_that_was_done_before_the_pass_is_done_again(small: Small, tmp_path: Path) -> None:
    """The checkpoint is that of the moment before the pass: periodic ones are a minute apart, and none came."""
    updates: list[int] = []
    watched = {"watch": lambda beat: updates.append(beat["update"])}
    with pytest.raises(Interrupted):
        small.execute(small.spec(METHOD), tmp_path, should_stop=Told("begin", 3))
    small.execute(small.spec(METHOD), tmp_path, **watched)
    directory = small.directory(small.spec(METHOD), tmp_path)
    assert [row["update"] for row in read_curve(directory)] == [4, 8, 12]
    assert updates
    assert min(updates) > 8, "the last stage begins after update 11"


def test_stopped_in_the_same_evaluation_again_and_again_a_run_still_ends_with_the_same_bits(
    small: Small, whole: tuple, tmp_path: Path
) -> None:
    for nth in (3, 2, 1, 2):
        with pytest.raises(Interrupted):
            small.execute(small.spec(METHOD), tmp_path, should_stop=Told("scores", nth))
    assert bits(small.execute(small.spec(METHOD), tmp_path)) == whole
