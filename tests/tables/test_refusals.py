"""What no table is made from: nothing, failures alone, conditions that do not belong together, unknown names."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmark import records, tables
from benchmark.errors import UserError
from tests.synthetic import write_run
from tests.tables.study import rows


def test_no_records_is_a_sentence_that_says_what_to_type(tmp_path: Path):
    with pytest.raises(UserError, match=r"no records of suite digits.*run --suite digits"):
        tables.comparison(records.load(tmp_path), "digits")


def test_failed_runs_alone_make_no_table(tmp_path: Path):
    write_run(tmp_path, "dann", "mm", 0, status="failed")
    with pytest.raises(UserError, match=r"None of the 1 runs .* is done: 1 failed. First reason: NotFinite"):
        tables.comparison(records.load(tmp_path), "digits")


def test_one_record_makes_a_table_that_says_it_is_not_whole(tmp_path: Path):
    write_run(tmp_path, "dann", "mm", 0)
    table = tables.comparison(records.load(tmp_path), "digits")
    assert "INCOMPLETE: 1 of 5 cells measured" in table.sentences
    grid = [line for line in tables.markdown(table).splitlines() if line.startswith("|")]
    assert not any("±" in line for line in grid)  # one seed has no spread


@pytest.mark.parametrize(
    "fields, words_of_refusal",
    [
        ({"tier": "lite"}, "mix tiers: .*Add --tier"),
        ({"fingerprint": "other-data"}, "mix data fingerprints: .*Add --data"),
        ({"protocol": 1}, "mix protocol numbers: .*Add --protocol"),
        ({"threads": 2}, "mix numbers of threads: .*Add --threads"),
    ],
)
def test_mixed_conditions_are_refused_by_name(tmp_path: Path, fields: dict, words_of_refusal: str):
    write_run(tmp_path, "dann", "mm", 0)
    write_run(tmp_path, "dann", "mm", 1, **fields)
    with pytest.raises(UserError, match=words_of_refusal):
        tables.comparison(records.load(tmp_path), "digits")


def test_a_named_condition_picks_its_runs(tmp_path: Path):
    write_run(tmp_path, "dann", "mm", 0, accuracy=40.0)
    write_run(tmp_path, "dann", "mm", 0, tier="lite", accuracy=60.0)
    frame = records.load(tmp_path)
    for tier, value in (("mini", 40.0), ("lite", 60.0)):
        table = tables.comparison(frame, "digits", tier=tier, statistics="running")
        assert rows(table)["Multi-Source/DANN"]["mm"].value == pytest.approx(value)
    with pytest.raises(UserError, match="no run of suite digits with --tier 'paper'"):
        tables.comparison(frame, "digits", tier="paper")


def test_unknown_names_are_answered_with_the_nearest(frame: pd.DataFrame):
    with pytest.raises(UserError, match="Did you mean 'comparison'"):
        tables.make("comparisons", frame, "digits")
    with pytest.raises(UserError, match="There is no selection rule 'best'"):
        tables.comparison(frame, "digits", selection="best")
    with pytest.raises(UserError, match="There are runs of: digits"):
        tables.comparison(frame, "pacs")


def test_a_table_of_several_precisions_or_gpu_kinds_says_so(tmp_path: Path):
    for seed in range(3):
        write_run(tmp_path, "dann", "mm", seed)
    frame = records.load(tmp_path)
    plain = tables.comparison(frame, "digits").sentences
    assert "Precisions" not in plain
    assert "several kinds of devices" not in plain
    frame["device"], frame["precision"] = "cuda", ["fp32", "fp32", "tf32"]
    frame["hardware"] = ["NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB and Tesla V100"]
    said = tables.comparison(frame, "digits").sentences
    assert "Precisions are mixed: fp32 (2 runs), tf32 (1 runs)." in said
    assert "NVIDIA A100-SXM4-40GB (2 runs), NVIDIA A100-SXM4-40GB and Tesla V100 (1 runs)." in said
    frame["precision"], frame["hardware"] = "fp32", "NVIDIA A100-SXM4-40GB"
    frame.loc[0, "device"] = "cpu"
    said = tables.comparison(frame, "digits").sentences
    assert "Precisions" not in said
    assert "which round differently: NVIDIA A100-SXM4-40GB (2 runs), CPU (1 runs)." in said
