"""The loop: same spec, same bits; interrupted or not; target labels never reach a method."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmark import data, records
from benchmark.errors import Interrupted, RunFailed
from benchmark.records import Record
from benchmark.records.selection import RULES, VALIDATORS
from benchmark.run import execute, provenance
from benchmark.run.stages import divide
from benchmark.run.usage import Usage
from methods.contract import registry
from tests.tiny import tiny


def bits(record: Record) -> tuple:
    """What must be equal between two runs of one spec."""
    return record["weights"], record.accuracy, (record.path / "curve.jsonl").read_bytes()


def test_a_run_leaves_one_whole_record(tmp_path: Path) -> None:
    record = execute(tiny(), results=tmp_path)
    assert record.path == tmp_path / "digits" / "mini" / record.run_id
    assert sorted(p.name for p in record.path.iterdir()) == [
        "artifacts.npz", "curve.jsonl", "heartbeat.json", "record.json", "spec.json",
    ]  # fmt: skip
    assert [row["update"] for row in record.curve] == [5, 10, 15, 20]
    assert record.run_id == tiny().run_id
    assert record["cost"]["updates"] == 20
    assert record["data"]["target_forwarded"] is False
    assert set(record.accuracy) == set(RULES)
    assert record["data"]["target_share"] == 0.0
    assert set(record["statistics"]["target"]["accuracy"]) == set(RULES)
    assert record.accuracy["oracle"] == max(row["target"] for row in record.curve)
    assert record.accuracy["last"] == record.curve[-1]["target"]
    assert all(np.isfinite(v) for v in record["losses"].values())
    with np.load(record.path / "artifacts.npz", allow_pickle=False) as arrays:
        assert arrays["features_mm"].dtype == np.float16
        assert len(arrays["features_mm"]) <= 300
        assert arrays["similarity_mt"].shape == (10, 10)
    assert (record.path / "artifacts.npz").stat().st_size < 1_000_000


def test_the_same_spec_gives_the_same_bits_and_is_not_run_twice(tmp_path: Path) -> None:
    first = execute(tiny(), results=tmp_path / "a")
    assert bits(first) == bits(execute(tiny(), results=tmp_path / "b"))
    stamp = (first.path / "record.json").stat().st_mtime_ns
    assert execute(tiny(), results=tmp_path / "a").run_id == first.run_id
    assert (first.path / "record.json").stat().st_mtime_ns == stamp


@pytest.mark.parametrize("method", ["source-only:bn", "tsvdnet", "mdda", "dctn", "mcd"])
def test_a_resumed_run_equals_the_uninterrupted_run_bit_for_bit(tmp_path: Path, method: str) -> None:
    whole = execute(tiny(method), results=tmp_path / "whole")
    polls = starts = 0

    def now_and_then() -> bool:  # a little later each time: an evaluation that was stopped begins again
        nonlocal polls
        polls += 1
        return polls >= 7 * starts

    while True:
        polls, starts = 0, starts + 1
        try:
            resumed = execute(tiny(method), results=tmp_path / "parts", should_stop=now_and_then)
            break
        except Interrupted:
            assert (
                records.run_directory(tmp_path / "parts", tiny(method), tiny(method).run_id) / "checkpoint.pt"
            ).exists()
    assert starts >= 3
    assert bits(resumed) == bits(whole)
    assert not (resumed.path / "checkpoint.pt").exists()


@pytest.mark.parametrize("method", [m for m in registry()])
def test_permuting_all_target_labels_leaves_every_weight_bit_identical(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = execute(tiny(method, target="up"), results=tmp_path / "honest")
    load, loaded = data.load, []

    def permuted(*args, **kwargs):
        dataset = load(*args, **kwargs)
        loaded.append(dataset)
        up = dataset.domains["up"]
        order = torch.Generator().manual_seed(1)

        def shuffle(images):
            return dataclasses.replace(images, labels=images.labels[torch.randperm(len(images), generator=order)])

        changed = dataclasses.replace(up, train=shuffle(up.train), test=shuffle(up.test))
        return dataclasses.replace(dataset, domains={**dataset.domains, "up": changed})

    monkeypatch.setattr(data, "load", permuted)
    lied = execute(tiny(method, target="up"), results=tmp_path / "lied")
    assert lied["weights"] == honest["weights"]
    for mine, theirs in zip(honest.curve, lied.curve, strict=True):  # the statistics read no label either
        for validator in VALIDATORS:
            assert mine["statistics"]["target"][validator] == theirs["statistics"]["target"][validator]
    assert loaded
    if (
        method == "source-only"
    ):  # the evaluator did see other labels; a method that still predicts one class cannot show it
        assert lied["accuracy"] != honest["accuracy"]


def test_threads_are_set_by_the_run_and_put_back(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    record = execute(tiny(threads=2), results=tmp_path)
    assert record["provenance"]["threads"] == 2
    assert torch.get_num_threads() == before


def test_a_failing_method_is_written_down_and_can_be_run_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import os\nfrom methods.source_only import SourceOnly\n"
        "class Fragile(SourceOnly):\n    name = 'fragile'\n"
        "    def update(self, *args):\n"
        "        if os.path.exists(os.path.join(os.path.dirname(__file__), 'trap')):\n"
        "            raise ValueError('the trap was there')\n"
        "        return super().update(*args)\n"
    )
    (tmp_path / "trap").touch()
    spec = dataclasses.replace(tiny(), method=f"{file}:Fragile")
    with pytest.raises(RunFailed, match="the trap was there"):
        execute(spec, results=tmp_path)
    frame = records.load(tmp_path)
    assert frame.status.tolist() == ["failed"]
    assert "the trap was there" in frame.reason[0]
    failure = json.loads((Path(frame.path[0]) / "failure.json").read_text())
    assert "Traceback" in failure["traceback"]
    (tmp_path / "trap").unlink()
    assert execute(spec, results=tmp_path).accuracy
    assert records.load(tmp_path).status.tolist() == ["done"]


def test_nan_in_a_loss_fails_the_run_with_step_and_term(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHMARK_FAULT", "loss=nan@3")
    with pytest.raises(RunFailed, match="injected was not finite at update"):
        execute(tiny(overrides={"run.eval_points": 2}), results=tmp_path)


def test_stages_divide_the_budget_or_get_it_whole() -> None:
    stages = [("a", 0.5), ("b", 0.3), ("c", 0.2)]
    assert [(s.start, s.stop) for s in divide(stages, 10, "shared")] == [(0, 5), (5, 8), (8, 10)]
    assert [(s.start, s.stop) for s in divide(stages, 10, "full")] == [(0, 10), (10, 20), (20, 30)]


def test_combined_hands_over_one_concatenated_batch(tmp_path: Path) -> None:
    file = tmp_path / "spy.py"
    file.write_text(
        "from methods.source_only import SourceOnly\n"
        "class Spy(SourceOnly):\n    name = 'spy'\n    seen = []\n"
        "    def update(self, sources, target, progress):\n"
        "        self.seen.append([len(s.images) for s in sources])\n"
        "        return super().update(sources, target, progress)\n"
    )
    for standard, shapes in (("combined", [32]), ("multi-source", [8, 8, 8, 8]), ("upper-bound", [8])):
        spec = dataclasses.replace(tiny(), method=f"{file}:Spy", standard=standard, sources=())
        execute(spec, results=tmp_path)
        from methods.contract import load_method

        assert load_method(f"{file}:Spy").seen[-1] == shapes


def test_data_that_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="fingerprint"):
        execute(dataclasses.replace(tiny(), data="0" * 64), results=tmp_path)


def test_a_record_names_the_hardware_of_every_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU also its driver, CUDA and cuDNN, and the most memory that tensors took there."""
    spec, asked = tiny(overrides={"run.updates": 6}), iter([False, False, True])
    with pytest.raises(Interrupted):
        execute(spec, results=tmp_path, should_stop=lambda: next(asked))
    monkeypatch.setattr(provenance, "cpu_name", lambda: "another processor")
    record = execute(spec, results=tmp_path)
    first, second = record["provenance"]["starts"]
    assert (first["update"], second["update"]) == (0, 2)
    assert second["hardware"] == "another processor" != first["hardware"]
    assert records.load(tmp_path).hardware[0] == f"{first['hardware']} and another processor"
    assert "peak_device_memory_mb" not in record["cost"]

    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA A100-SXM4-40GB")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    found = provenance.start("cuda", 7)
    assert (found["hardware"], found["cudnn"], found["update"]) == ("NVIDIA A100-SXM4-40GB", "91002", 7)
    assert {"driver", "cuda"} <= found.keys()
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3 * 2**20)
    gpu = Usage(torch.device("cuda"))
    assert gpu.read()["peak_device_memory_mb"] == 3
    gpu.load_state_dict({"seconds": 1, "cpu_seconds": 1, "peak_device_memory_mb": 5.0})
    assert gpu.read()["peak_device_memory_mb"] == 5
