"""The paper's tier on DomainNet, end to end on a CPU: a tree of the real shape, the real network, two updates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image

from benchmark import records, tables
from benchmark.__main__ import main
from benchmark.errors import UserError
from benchmark.spec import load_suite

METHODS = ("source-only", "mcd", "mdda", "tsvdnet")
TEST = 2  # pictures of each test list


@pytest.fixture
def domainnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six domains, 345 classes, a training picture of each, lists in the official form, weights by torchvision's names."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    suite, draw = load_suite("domainnet"), np.random.default_rng(0)
    tree = tmp_path / "data" / "DomainNet"
    for domain in suite.domains:
        lines: dict[str, list[str]] = {"train": [], "test": []}
        for label, name in enumerate(suite.classes):
            folder = tree / domain.name / name
            folder.mkdir(parents=True)
            for part in ("train", "test") if label < TEST else ("train",):
                Image.fromarray(draw.integers(0, 256, (24, 32, 3), dtype=np.uint8)).save(folder / f"{part}.jpg")
                lines[part].append(f"{domain.name}/{name}/{part}.jpg {label}")
        for part, rows in lines.items():
            (tree / f"{domain.name}_{part}.txt").write_text("\n".join(rows) + "\n")
    (tmp_path / "data" / "weights").mkdir()
    torch.save(torchvision.models.resnet101(weights=None).state_dict(), tmp_path / "data" / "weights" / "resnet101.pth")
    return tmp_path / "data"


@pytest.mark.soak
def test_the_paper_tier_runs_two_updates_end_to_end_and_no_table_takes_them_for_whole_runs(
    domainnet: Path, tmp_path: Path
) -> None:
    where = ["--suite", "domainnet", "--tier", "paper", "--data-root", str(domainnet)]
    assert main(["data", "check", "--suite", "domainnet", "--tier", "paper", "--data-root", str(domainnet)]) == 0
    # the paper's network and pictures; a batch that ten ResNet-101s and their optimisers (MDDA) leave room for in 12 GB
    few = [
        "--set",
        "run.batch=2",
        "--set",
        "run.eval_points=1",
        "--set",
        "run.val_images=2",
        "--set",
        "run.unsup_images=4",
    ]
    few += ["--set", "run.statistics_images=4", "--targets", "clp", "--methods", ",".join(METHODS), "--workers", "1"]
    results = tmp_path / "runs"
    assert main(["run", *where, "--limit-steps", "2", *few, "--device", "cpu", "--results", str(results)]) == 0
    frame = records.load(results)
    assert sorted(frame.method) == sorted(METHODS)
    assert (frame.status == "done").all()
    assert (frame.updates == 2).all()
    for path in frame.path:
        record = records.read(Path(path))
        assert record["resolved"]["settings"]["network"]["name"] == "resnet101"
        assert record["spec"]["overrides"]["run.updates"] == 2  # the mark of a run that was cut short
    table = tables.comparison(frame, "domainnet")
    assert "Settings changed for all runs:" in table.sentences
    assert "run.updates = 2" in table.sentences
    with pytest.raises(UserError, match="no runs of suite domainnet with"):
        tables.comparison(frame, "domainnet", settings={})
