"""TensorBoard's event files, a folder a run; an event holds a whole point, so that a killed process leaves all of it or none."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from benchmark.records.track.protocol import About


class TensorBoard:
    """Each start of a run adds a file to its folder; TensorBoard reads the files of a folder as one."""

    writer: Any

    def start(self, about: About) -> int:
        """The last step of the files that are there; one that was torn ends before the tear."""
        folder = Path(about.folder) / about.place
        last = max((event.step for file in folder.glob("events.*") for event in steps(file)), default=0)
        self.writer = EventFileWriter(str(folder))
        return last

    def point(self, update: int, values: Mapping[str, float]) -> None:
        """One event, written through: a live page reads it at once."""
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        self.writer.add_event(Event(step=update, wall_time=time.time(), summary=summary))
        self.writer.flush()

    def end(self, state: str) -> None:
        """Close the file."""
        self.writer.close()


def steps(file: Path) -> Any:
    """The events of a file, as far as they are whole."""
    return LegacyEventFileLoader(str(file)).Load()
