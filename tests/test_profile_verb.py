"""`profile` times the real loop, and its parts add up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmark.__main__ import main
from benchmark.profile import PARTS, Clock


def test_the_clock_counts_nested_parts_once() -> None:
    clock = Clock(torch.device("cpu"))
    began = clock.now()
    with clock.part("outer"), clock.part("inner"):
        sum(range(100_000))
    whole = clock.now() - began
    assert clock.spent["inner"] > clock.spent["outer"] >= 0
    assert sum(clock.spent.values()) == pytest.approx(whole, rel=0.5)


def test_profile_gives_every_part_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["profile", "--suite", "digits", "--method", "mcd", "--steps", "2", "--picture", str(tmp_path / "p.png")]
    assert main([*words, "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert set(document["parts"]) == set(PARTS)
    assert all(document["parts"][p] > 0 for p in PARTS)
    assert document["step_ms"] == pytest.approx(sum(document["parts"].values()))
    assert 0 < document["share_of_peak"] < 1
    assert (tmp_path / "p.png").stat().st_size > 5_000
    assert torch.Tensor.backward.__name__ == "backward"  # the hooks are gone
