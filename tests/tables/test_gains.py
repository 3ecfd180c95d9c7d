"""The table of gains: paired differences to Source-Only:bn, or to the row that is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
import scipy.stats

from benchmark import records, tables
from benchmark.errors import UserError
from tests.synthetic import write_study
from tests.tables.study import rows


def test_gains_are_paired_differences_to_source_only_bn(tmp_path: Path):
    write_study(tmp_path, ["source-only:bn", "dann"], seeds=(0, 1, 2))
    frame = records.load(tmp_path)
    table = tables.gains(frame, "digits")
    (row,) = table.rows
    cells = dict(zip([column.key for column in table.columns], row.cells, strict=True))
    scores = frame.pivot(index="seed", columns=["method", "target"], values="target_last").astype(float)
    for target in ("mm", "sv"):
        difference = scores["dann", target] - scores["source-only", target]
        wanted = scipy.stats.t.interval(0.95, 2, difference.mean(), difference.sem())
        assert cells[target].value == pytest.approx(difference.mean())
        assert (cells[f"{target}_interval"].low, cells[f"{target}_interval"].high) == pytest.approx(wanted)
        assert (cells[target].mark == "best") == (wanted[0] > 0)
    assert cells["average"].value == pytest.approx((scores["dann"] - scores["source-only"]).mean().mean())
    with pytest.raises(UserError, match="compares with source-only:bn"):
        tables.gains(frame[frame["method"] == "dann"], "digits")


def test_gains_can_be_over_any_row_and_say_over_which(tmp_path: Path):
    write_study(tmp_path, ["source-only", "dann", "tsvdnet:code"])
    write_study(tmp_path, ["dann"], standard="combined")
    frame = records.load(tmp_path)
    table = tables.gains(frame, "digits", over="dann")
    scores = frame[frame.standard == "multi-source"].pivot_table(index="seed", columns="method", values="target_last")
    found = rows(table)
    assert set(found) == {"Multi-Source/Source-Only", "Source Combination/DANN", "Multi-Source/T-SVDNet:code"}
    difference = scores["tsvdnet"] - scores["dann"]
    assert found["Multi-Source/T-SVDNet:code"]["average"].value == pytest.approx(difference.mean())
    assert "gain over DANN in points" in table.title
    assert "Difference to DANN of the block Multi-Source: per-seed" in " ".join(table.conditions)
    write_study(tmp_path, ["dann"], split="all", seeds=[0])
    with pytest.raises(UserError, match=r"on the splits part and all\. Add --split"):
        tables.gains(records.load(tmp_path), "digits", over="dann")
    with pytest.raises(UserError, match="compares with mcd"):
        tables.gains(frame, "digits", over="mcd")
