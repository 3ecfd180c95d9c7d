"""Numbers do not move without a new revision: 20 steps of every method and preset against stored trajectories."""

from __future__ import annotations

import json

import pytest

from tests.trajectories import FILE, names, trajectory


@pytest.mark.parametrize(("name", "preset"), names(), ids=lambda v: v or "default")
def test_the_trajectory_is_the_stored_one_or_the_revision_is_new(name: str, preset: str) -> None:
    stored = json.loads(FILE.read_text(encoding="utf-8")).get(f"{name}:{preset}" if preset else name)
    assert stored is not None, "no stored trajectory: python -m tests.trajectories"
    now = trajectory(name, preset)
    hint = "raise the method's revision and run: python -m tests.trajectories"
    assert now["revision"] == stored["revision"], hint
    assert len(now["rows"]) == len(stored["rows"]) == 4
    for ours, theirs in zip(now["rows"], stored["rows"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-3), hint
