"""The trackers of one run: told of its points while it trains, given a few seconds at its end, warned about in its record.

A run never waits for a tracker before its end, and then for `LAST_WORDS` seconds at most.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from benchmark.errors import RunFailed
from benchmark.records.track.channel import Channel
from benchmark.records.track.names import label
from benchmark.records.track.protocol import about, scalars, sign_of_life
from benchmark.records.track.turn import take

FOLDER = "tracked"  # of a results folder: what trackers without a server write, and their logs
MARK = "tracker "  # begins the warnings about them
LAST_WORDS = 5.0  # seconds
ROOM = 32 * 2**20  # bytes kept free for the run's own last files, should a tracker fill their disk
BEAT_SECONDS = 30.0  # between two signs of life: a day has thousands


class Trackers:
    """Those of one run, in their processes; without any, every call returns at once."""

    def __init__(self, told: list[str]) -> None:
        self.channels: list[Channel] = []
        self.told = told  # the run's warnings
        self._room: IO[bytes] | None = None  # without a name: it goes with this process, however that ends
        self.last_beat = time.monotonic()

    def start(self, names: Sequence[str], run_id: str, spec: Mapping[str, Any], results: Path) -> None:
        """Start a process for each, and have the run opened in it."""
        folder = results.absolute() / FOLDER
        if names:
            self._keep_room(folder)
        for name in names:
            place = folder / label(name)
            channel = Channel(name, folder / "logs" / f"{run_id}-{label(name)}.log")
            self.channels.append(channel)
            try:
                channel.tell({"start": asdict(about(run_id, spec, place)), "turn": take(place, run_id)})
            except OSError as error:
                channel.give_up(channel.failed or f"its folder cannot be written ({error.strerror or error})")
        self._note()

    def point(self, row: Mapping[str, Any]) -> None:
        """An evaluation point."""
        self._tell({"point": [int(row["update"]), scalars(row)]})

    def beat(self, beat: Mapping[str, Any]) -> None:
        """A heartbeat: now and then one is passed on; what is waiting goes out with each."""
        now = time.monotonic()
        if now - self.last_beat >= BEAT_SECONDS:
            self.last_beat = now
            self._tell({"point": [int(beat["update"]), sign_of_life(beat)]})
        for channel in self.channels:
            channel.exchange()
        self._note()

    def _keep_room(self, folder: Path) -> None:
        with contextlib.suppress(OSError):  # a disk that has no room even now says so to the run itself
            folder.mkdir(parents=True, exist_ok=True)
            self._room = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (held until the run ends)
            os.posix_fallocate(self._room.fileno(), 0, ROOM)

    def make_room(self) -> None:
        """The run's own last files come now: what was kept for them is theirs, and who has filled the disk goes first."""
        if self._room is None:
            return
        with contextlib.suppress(OSError):
            disk = os.fstatvfs(self._room.fileno())
            if disk.f_bavail * disk.f_frsize < ROOM:
                for channel in self.channels:
                    channel.give_up("the disk is full, and the run's own files come first")
                self._note()
        self._room.close()
        self._room = None

    def end(self, state: str) -> None:
        """The run ends: all have the same few seconds. Who needs longer goes on alone, if it has all it needs."""
        self.make_room()
        self._tell({"end": state})
        deadline = time.monotonic() + LAST_WORDS
        for channel in self.channels:
            if not channel.wait(1, deadline):
                if channel.waiting:
                    channel.give_up(f"it had not taken the run's points {LAST_WORDS:.0f} s after its end")
                else:
                    self._warn(channel.label, f"it was still writing {LAST_WORDS:.0f} s after the run's end")
            self._note()
            channel.close()
        self.channels = []

    def _tell(self, message: dict[str, Any]) -> None:
        for channel in self.channels:
            channel.tell(message)
        self._note()

    def _note(self) -> None:
        """What failed is written down once and told no more."""
        for channel in [channel for channel in self.channels if channel.failed]:
            self._warn(channel.label, channel.failed)
            channel.close()
        self.channels = [channel for channel in self.channels if not channel.failed]

    def _warn(self, name: str, words: str) -> None:
        warning = f"{MARK}{name}: {words}"
        if warning not in self.told:
            self.told.append(warning)


@contextlib.contextmanager
def tracking(
    names: Sequence[str],
    run_id: str,
    spec: Mapping[str, Any],
    results: Path,
    curve: Sequence[Mapping[str, Any]],
    told: list[str],
) -> Iterator[Trackers]:
    """Trackers that know the curve so far; whatever ends the run ends them. Warnings are added to `told`."""
    trackers, state = Trackers(told), "interrupted"
    try:
        trackers.start(names, run_id, spec, results)
        for row in curve:
            trackers.point(row)
        yield trackers
    except RunFailed:
        state = "failed"
        raise
    finally:
        trackers.end(state)
