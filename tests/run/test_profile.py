"""`profile` times the real loop, and its parts add up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmark.__main__ import main
from benchmark.run.profile import GROUPED, PARTS, Clock


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


@pytest.mark.parametrize(
    "layer",
    [nn.Conv2d(8, 16, 3), nn.Conv2d(8, 8, 3, groups=8), nn.Conv2d(8, 16, 3, groups=2), nn.ConvTranspose2d(8, 4, 3)],
    ids=["dense", "depthwise", "two groups", "transposed"],
)
def test_a_backward_pass_counts_twice_its_forward_pass_also_for_grouped_convolutions(layer: nn.Module) -> None:
    x = torch.randn(2, 8, 5, 5, requires_grad=True)
    with FlopCounterMode(display=False) as forward:
        y = layer(x)
    with FlopCounterMode(display=False, custom_mapping=GROUPED) as backward:
        y.sum().backward()
    assert backward.get_total_flops() == 2 * forward.get_total_flops() > 0
