"""Trackers for the tests: one that writes lines, and those that do what a tracker must not."""

from __future__ import annotations

import contextlib
import os
import random
import time
from pathlib import Path


class Lines:
    """A text file a run: an update and an accuracy a line, then how the run ended."""

    def start(self, about):
        self.file = Path(about.folder) / f"{about.run_id}.txt"
        lines = [x for x in self.file.read_text().splitlines() if x[0].isdigit()] if self.file.exists() else []
        self.say(f"start {about.title}")
        return int(lines[-1].split()[0]) if lines else None

    def say(self, words):
        with self.file.open("a") as file:
            print(words, file=file)

    def point(self, update, values):
        self.say(f"{update} {values['accuracy/target']!r}")

    def end(self, state):
        self.say(f"end {state}")


class Silent:
    def start(self, about):
        return 0

    def point(self, update, values):
        pass

    def end(self, state):
        pass


class Raises(Silent):
    def point(self, update, values):
        raise ValueError("the server said no\nand more")


class RaisesAtTheEnd(Silent):
    def end(self, state):
        raise RuntimeError("no good-bye")


class Sleeps(Silent):
    def point(self, update, values):
        time.sleep(60)


class SleepsAtTheStart(Silent):
    def start(self, about):
        time.sleep(60)


class FillsTheDisk(Silent):
    def point(self, update, values):
        with open("/dev/full", "w") as file:
            file.write("x" * 100_000)


class FillsTheDiskAndTakesNoNotice(Silent):
    """Takes every byte of the disk that the results are on, and comes back for more."""

    def start(self, about):
        self.file = Path(about.folder) / "filled"
        self.fill()

    def fill(self):
        with contextlib.suppress(OSError), self.file.open("ab", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)

    def point(self, update, values):
        self.fill()

    def end(self, state):
        self.fill()
        time.sleep(60)


class Dies(Silent):
    def point(self, update, values):
        os.kill(os.getpid(), 9)


class Litters(Silent):
    def point(self, update, values):
        import tempfile

        tempfile.mkdtemp()


class Leaves(Silent):
    def point(self, update, values):
        raise SystemExit(7)


class Meddles(Silent):
    """Does to its process what would cost a run its bits."""

    def point(self, update, values):
        random.seed(0)
        os.environ["PYTHONHASHSEED"] = "1"
        import torch

        torch.manual_seed(0)
        torch.set_num_threads(2)
