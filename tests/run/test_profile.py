"""`profile` times the real loop, and its parts add up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmark.__main__ import main
from benchmark.plan import flops
from benchmark.run.count import GROUPED
from benchmark.run.profile import PARTS, Clock
from benchmark.spec import RunSpec, resolve


def test_the_clock_counts_nested_parts_once() -> None:
    clock = Clock(torch.device("cpu"))
    began = clock.mark()
    with clock.part("outer"), clock.part("inner"):
        sum(range(100_000))
    whole, spent = clock.mark() - began, clock.spent()
    assert spent["inner"] > spent["outer"] >= 0
    assert sum(spent.values()) == pytest.approx(whole, rel=0.5)


def test_on_a_gpu_the_clock_leaves_events_and_waits_once_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """With CUDA's events faked: each is a millisecond after the one before."""
    said: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            self.at = 0

        def record(self) -> None:
            said.append("event")
            self.at = len(said)

        def elapsed_time(self, later: Event) -> float:
            return later.at - self.at

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: said.append("wait"))
    clock = Clock(torch.device("cuda"))
    with clock.part("outer"), clock.part("inner"):
        pass
    assert said == ["event"] * 4
    assert clock.spent() == {"inner": pytest.approx(1e-3), "outer": pytest.approx(2e-3)}
    assert said[4:] == ["wait"]


def test_profile_gives_every_part_and_a_picture_and_plan_reads_its_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ["profile", "--suite", "digits", "--method", "mcd", "--steps", "2", "--picture", str(tmp_path / "p.png")]
    assert main([*words, "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert set(document["parts"]) == set(PARTS)
    assert all(document["parts"][p] > 0 for p in PARTS)
    assert document["step_ms"] == pytest.approx(sum(document["parts"].values()))
    assert 0 < document["share_of_peak"] < 1
    assert (tmp_path / "p.png").stat().st_size > 5_000
    assert document["launches"] > 100
    assert document["precision"] == "fp32"
    mini = ["--suite", "digits", "--methods", "mcd", "--results", str(tmp_path / "none"), "--json"]
    assert main(["plan", *mini]) == 0
    run = json.loads(capsys.readouterr().out)["runs"][0]
    assert "profiled on" in run["speed"]
    counts = flops.counted(resolve(RunSpec("digits", "mini", "mcd", target="mm")))
    computed = flops.work(resolve(RunSpec("digits", "mini", "mcd", target="mm")), counts).flops
    assert run["seconds"] == pytest.approx(computed / document["run_gflops_per_s"] / 1e9, rel=0.1)
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
