"""What `plan` says a run costs: counted from the network, at a rate that was measured or is named with its source."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import torch

from benchmark import data, records
from benchmark import plan as planning
from benchmark.__main__ import main
from benchmark.errors import UserError
from benchmark.plan import cost, counting, flops, rates
from benchmark.records.lease import Lease
from benchmark.run.loop import Run
from benchmark.run.networks import Extractor
from benchmark.spec import RunSpec, resolve
from tests.tiny import tiny

ROOT = Path(__file__).resolve().parents[2]
EMPTY = pd.DataFrame(columns=records.load(ROOT / "nothing").columns)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_an_evaluation_forwards_as_many_images_as_its_cost_says(tmp_path: Path) -> None:
    spec = tiny("source-only", target="mm")
    resolved = resolve(spec)
    dataset = data.load(resolved.suite, spec.tier, spec.split)
    run = Run(resolved, dataset, tmp_path, Lease(tmp_path), device="cpu", data_root=None)
    seen = []
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda module, x, out: seen.append(len(x[0])) if isinstance(module, Extractor) else None
    )
    run.evaluator.row(run.method)
    handle.remove()
    assert sum(seen) == flops.evaluation_images(resolved)


def test_a_run_is_its_updates_its_passes_and_its_evaluations() -> None:
    resolved = resolve(tiny("mdda"))
    counts = flops.Counts((flops.Stage(1, 0.4, 100.0, 5), flops.Stage(2, 0.6, 10.0, 7, source=3.0, target=2.0)), 1.0)
    found = flops.work(resolved, counts)
    passes = 2 * (4 * 2000 * 3.0 + 2000 * 2.0)
    assert found.flops == pytest.approx(8 * 100 + 12 * 10 + passes + 4 * flops.evaluation_images(resolved))
    assert found.launches == pytest.approx(8 * 5 + 12 * 7)
    full = resolve(tiny("mdda", overrides={"run.stage_budget": "full"}))
    assert flops.work(full, counts).launches == pytest.approx(20 * 5 + 40 * 7)


def test_the_table_has_every_row_of_the_built_in_suites_as_it_is_counted_now() -> None:
    lacking = [words for words, resolved in counting.wanted() if flops.counted(resolved) is None]
    assert lacking == []
    for method in ("source-only", "mdda"):
        resolved = resolve(RunSpec("digits", "mini", method, target="mm"))
        now = counting.count(resolved)
        kept = flops.counted(resolved)
        assert kept is not None
        assert [stage.update for stage in kept.stages] == [stage[2] for stage in now["stages"]]
        assert kept.image == now["image"]


def test_what_is_not_in_the_table_is_counted_when_asked_for_and_kept(tmp_path: Path) -> None:
    resolved = resolve(tiny())
    assert flops.counted(resolved) is None
    calls = []

    def count(resolved: object) -> dict:
        calls.append(resolved)
        return {"stages": [[1, 1.0, 5.0, 3, 0.0, 0.0]], "image": 2.0}

    for _ in range(2):
        assert flops.counted(resolved, count) == flops.Counts((flops.Stage(1, 1.0, 5.0, 3),), 2.0)
    assert len(calls) == 1
    wants_values = tmp_path / "own.py"
    wants_values.write_text(
        "from methods.source_only import SourceOnly\n"
        "class Own(SourceOnly):\n"
        "    def update(self, sources, target, progress):\n"
        "        raise ValueError('no values here')\n"
    )
    own = RunSpec("digits", "mini", f"{wants_values}:Own", target="mm")
    assert counting.count(resolve(own)) == {}
    assert planning.estimate([own], EMPTY, count=counting.count)[0][1] == "assumed"


def test_a_gpus_rate_is_a_roofline_of_published_figures() -> None:
    assert rates.of_gpu("a100", "fp32").flops == pytest.approx(0.57 * 19.5e12)  # bound by its arithmetic
    assert rates.of_gpu("a100", "bf16").flops == pytest.approx(29.8 * 2.039e12)  # bound by its memory
    assert "assumed for A100 80 GB in bf16" in rates.of_gpu("", "bf16").basis
    many_small = flops.Work(flops=1.0, launches=1000)
    assert rates.of_gpu("h100", "fp32").seconds(many_small) == pytest.approx(8e-3)  # the host starts kernels
    with pytest.raises(UserError, match=r"no GPU 'a10'.*a100"):
        rates.of_gpu("a10", "fp32")
    with pytest.raises(UserError, match="V100 SXM2 has no bf16"):
        rates.of_gpu("v100", "bf16")


def test_plan_says_hours_on_a_gpu_with_their_basis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--suite", "domainnet", "--tier", "paper", "--results", str(tmp_path), "--methods", "all"]
    assert main([*words, "--gpu", "a100"]) == 0
    said = capsys.readouterr().out
    assert "of GPU time (counted FLOPs at 11.1 TFLOP/s, assumed for A100 80 GB in fp32)" in said
    assert "  tsvdnet " in said
    hours = {}
    for gpu, more in (("a100", []), ("h100", []), ("a100", ["--set", "run.precision=bf16"])):
        assert main([*words, "--gpu", gpu, *more, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        hours[gpu, len(more)] = document["hours"]
    assert hours["h100", 0] < hours["a100", 0]
    assert hours["a100", 2] < hours["a100", 0] / 4


@pytest.mark.parametrize(
    ("gpu", "its", "not_its"),
    [
        ("rtx3090", "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090 Ti"),
        ("rtx4090", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090 D"),
        ("a40", "NVIDIA A40", "NVIDIA RTX A4000"),
        ("a100-40", "NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe"),
        ("a100", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB"),
        ("v100", "Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-80GB"),
        ("l40s", "NVIDIA L40S", "NVIDIA L40"),
        ("h100", "NVIDIA H100 80GB HBM3", "NVIDIA H200"),
        ("h200", "NVIDIA H200", "NVIDIA H100 80GB HBM3"),
    ],
)
def test_a_gpu_is_known_by_the_name_that_its_driver_gives(gpu: str, its: str, not_its: str) -> None:
    assert rates.is_gpu(gpu, its)
    assert not rates.is_gpu(gpu, not_its)


def test_every_gpu_of_the_table_is_known_by_a_name() -> None:
    assert rates.gpu_names() == ["v100", "rtx3090", "rtx4090", "a40", "a100-40", "a100", "l40s", "h100", "h200"]


def test_records_of_other_devices_say_nothing_of_a_gpu_and_its_own_records_do() -> None:
    spec = RunSpec("digits", "mini", "dann", target="mm", data="x")
    frame = pd.concat([EMPTY, pd.DataFrame([_run(spec, 30.0, device="cpu", hardware="a processor")])])
    assert planning.estimate([spec], frame)[0] == (pytest.approx(30.0), "measured")
    assert "assumed for A100" in planning.estimate([spec], frame, gpu="a100")[0][1]
    frame = pd.concat([EMPTY, pd.DataFrame([_run(spec, 3.0, device="cuda", hardware="NVIDIA A100-SXM4-80GB")])])
    assert planning.estimate([spec], frame, gpu="a100")[0] == (pytest.approx(3.0), "measured")
    assert "assumed for A100 40 GB" in planning.estimate([spec], frame, gpu="a100-40")[0][1]
    assert "assumed" in planning.estimate([spec], frame, kind="cpu")[0][1]
    other = RunSpec("digits", "mini", "m3sda", target="mm", data="x")
    seconds, basis = planning.estimate([other], frame, gpu="a100")[0]
    assert basis == "counted FLOPs at the rate of the rows measured here"
    assert 1.3 < seconds / 3.0 < 3  # M3SDA computes twice as much an update


def _run(spec: RunSpec, seconds: float, **fields: str) -> dict:
    resolved = resolve(spec)
    return {
        "suite": spec.suite, "tier": spec.tier, "method": spec.method, "preset": spec.preset, "standard": spec.standard,
        "target": spec.target, "split": spec.split, "seed": 0, "threads": 1, "status": "done", "seconds": seconds,
        "cpu_seconds": seconds, "updates": resolved.settings.updates, "sources": ",".join(spec.sources),
        "overrides": "{}", "protocol": resolved.suite.protocol, **fields,
    }  # fmt: skip


def test_the_rate_of_one_row_predicts_the_others_of_the_study_to_30_percent() -> None:
    """A CPU core: GFLOP/s of Source-Only:bn, times what every other row computes, beside the CPU seconds in its records."""
    frame = records.load(ROOT / "results" / "study")
    frame = frame[frame.hardware == frame.hardware.mode()[0]]  # a rate is of one kind of machine
    found: dict[str, tuple[float, float]] = {}
    for (name, preset, standard), runs in frame[frame.tier == "lite"].groupby(["method", "preset", "standard"]):
        computed, seconds = 0.0, 0.0
        for _, run in runs.iterrows():
            resolved = cost.resolved_of(run)
            counts = flops.counted(resolved)
            if counts is not None:  # a preset that the table of counts has
                computed, seconds = computed + flops.work(resolved, counts).flops, seconds + run.cpu_seconds
        if seconds:
            found[f"{name}:{preset} {standard}"] = computed, seconds
    assert len(found) >= 10
    work, took = found["source-only:bn multi-source"]
    for name, (computed, seconds) in found.items():
        assert computed / (work / took) == pytest.approx(seconds, rel=0.3), name
