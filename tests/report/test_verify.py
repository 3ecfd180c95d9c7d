"""A finished run again: the same bits on its kind of machine; elsewhere rounding is borne, in the curve alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmark.records import Record
from benchmark.report import verify
from benchmark.run import execute
from tests.forge import forge
from tests.tiny import tiny

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def run(tmp_path: Path) -> Record:
    return execute(tiny(), results=tmp_path, data_root=None)


def verdicts(run: Record) -> dict[str, tuple[bool, str]]:
    found = verify.rerun(run.path, data_root=None)
    return {finding.what.split()[-1]: (finding.same, finding.words) for finding in found}


def times(share: float) -> Edit:
    return lambda row: row.update(dev=row["dev"] * share)


def elsewhere(document: dict[str, Any]) -> None:
    document["provenance"]["hardware"] = "Another kind ×2"


def test_a_run_again_gives_the_same_bits(run: Record) -> None:
    assert verdicts(run) == dict.fromkeys(("accuracies", "curve", "weights"), (True, "the same bits"))


def test_rounding_is_a_difference_on_the_same_kind_of_machine(run: Record) -> None:
    forge(run.path, curve=times(1 + 1e-9))
    assert verdicts(run)["curve"] == (False, "different")


def test_rounding_is_borne_on_another_kind_of_machine_and_both_are_named(run: Record) -> None:
    forge(run.path, elsewhere, times(1 + 1e-9))
    same, words = verdicts(run)["curve"]
    assert same
    assert words.startswith(
        "the same but for rounding, at most 1e-09 of a number, in dev (made on Another kind ×2; this is "
    )


@pytest.mark.parametrize(
    "edit",
    [times(1 + 1e-5), lambda row: row.update(dev=None), lambda row: row.update(target=row["target"] + 0.5)],
    ids=["more than rounding", "no number", "an accuracy"],
)
def test_more_than_rounding_is_a_difference_everywhere(run: Record, edit: Edit) -> None:
    forge(run.path, elsewhere, edit)
    same, words = verdicts(run)["curve"]
    assert not same
    assert words.startswith("different (made on Another kind")


def test_accuracies_and_weights_have_no_rounding(run: Record) -> None:
    def nearly(document: dict[str, Any]) -> None:
        elsewhere(document)
        document["accuracy"]["last"] += 1e-9
        document["weights"] = "0" * len(document["weights"])

    forge(run.path, nearly)
    found = verdicts(run)
    assert not found["accuracies"][0]
    assert not found["weights"][0]
    assert found["curve"] == (True, "the same bits")
