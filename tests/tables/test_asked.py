"""A table shows the rows it is asked for; AdaBN reads the runs of Source-Only and is never counted twice."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmark import records, tables
from benchmark.analysis import asked
from benchmark.errors import UserError
from tests.synthetic import TARGET_GAIN, write_run, write_study
from tests.tables.study import rows

OUTSIDE = "Not a system of the T-SVDNet paper's tables"


def labels(table: tables.Table) -> list[str]:
    return list(rows(table))


def notes(table: tables.Table, label: str) -> list[str]:
    (row,) = [row for row in table.rows if row.cells[0].words == label and row.block == "Multi-Source"]
    return list(row.notes)


def test_a_table_shows_the_rows_it_is_asked_for(frame: pd.DataFrame):
    everything = labels(tables.make("comparison", frame, "digits"))
    more = labels(tables.make("comparison", frame, "digits", methods=["all"]))
    assert [label for label in more if "AdaBN" not in label] == everything
    few = tables.make("comparison", frame, "digits", methods=["tsvdnet:code", "dann"])
    assert {label.split("/")[1].split(" (")[0] for label in labels(few)} == {"DANN", "T-SVDNet:code"}
    card = tables.make("comparison", frame, "digits", methods=["card"])
    found = {label.split("/")[1].split(" (")[0] for label in labels(card)}
    assert found == {"Source-Only", "DAN", "DANN", "MDDA", "M³SDA", "T-SVDNet"}  # of the seven those that were run
    assert not any(label.startswith("Upper bound") for label in labels(card))
    assert labels(tables.make("comparison", frame, "digits", methods=["upper-bound"])) == ["Upper bound/Source-Only"]
    assert len(labels(tables.make("comparison", frame, "digits", methods=["net.py:My_Net"]))) == 1


def test_a_name_without_runs_is_a_mistake_and_a_group_has_what_there_is(frame: pd.DataFrame):
    with pytest.raises(UserError, match=r"There is no row with runs here 'tsvdnett'\. Did you mean 'tsvdnet"):
        tables.make("comparison", frame, "digits", methods=["tsvdnett"])
    assert asked.present(frame, ["card", "adabn", "rtn"])[-1] == "rtn"
    assert "mcd" not in asked.present(frame, ["card"])
    assert "source-only" in asked.present(frame, ["adabn"])


@pytest.mark.parametrize("statistics", ["target", "running"])
def test_adabn_is_source_only_under_the_targets_statistics_whatever_the_table_has(frame: pd.DataFrame, statistics: str):
    table = tables.make("comparison", frame, "digits", methods=["all"], statistics=statistics)
    found = rows(table)
    source = frame[(frame.method == "source-only") & (frame.preset == "") & (frame.standard == "multi-source")]
    mm = source[source.target == "mm"]
    adabn, plain = found["Multi-Source/AdaBN"], found["Multi-Source/Source-Only"]
    assert adabn["mm"].value == pytest.approx(mm["target_last"].mean())
    assert adabn["mm"].runs == plain["mm"].runs
    gain = 0.0 if statistics == "target" else TARGET_GAIN
    assert adabn["average"].value - plain["average"].value == pytest.approx(gain, abs=1e-6)
    assert {label.split("/")[0] for label in found if "AdaBN" in label} == {
        "Single-Best", "Source Combination", "Multi-Source",
    }  # fmt: skip
    assert f"{OUTSIDE}: the runs of source-only, read with batch-norm statistics of the target." in notes(
        table, "AdaBN"
    )
    assert not any(OUTSIDE in note for note in notes(table, "Source-Only"))


def test_adabn_stands_in_no_table_that_did_not_ask_for_it(frame: pd.DataFrame):
    for kind in tables.KINDS:
        if kind not in ("choices", "validators"):
            assert "AdaBN" not in tables.markdown(tables.make(kind, frame, "digits"))


@pytest.mark.parametrize("kind", ["statistics", "selection", "cost"])
def test_where_runs_are_ranked_or_counted_adabn_is_source_only_once(frame: pd.DataFrame, kind: str):
    everything = tables.make(kind, frame, "digits")
    assert labels(tables.make(kind, frame, "digits", methods=["all"])) == labels(everything)
    alone = labels(tables.make(kind, frame, "digits", methods=["adabn"]))
    assert {label.split("/")[1] for label in alone} == {"Source-Only"}


def test_equal_numbers_of_the_same_runs_are_marked_once(tmp_path: Path):
    write_study(tmp_path, ["source-only", "dann"])
    frame = records.load(tmp_path)
    both = tables.make("comparison", frame, "digits", methods=["source-only", "adabn", "dann"])
    assert rows(both)["Multi-Source/Source-Only"]["average"].mark == "second"
    assert rows(both)["Multi-Source/AdaBN"]["average"].mark == ""
    alone = tables.make("comparison", frame, "digits", methods=["adabn", "dann"])
    assert labels(alone) == ["Multi-Source/DANN", "Multi-Source/AdaBN"]
    assert rows(alone)["Multi-Source/AdaBN"]["average"].mark == "second"
    running = tables.make("comparison", frame, "digits", methods=["all"], statistics="running")
    assert rows(running)["Multi-Source/AdaBN"]["average"].mark == "second"  # two points above Source-Only there


def test_adabn_gains_over_source_only_bn(frame: pd.DataFrame):
    table = tables.make("gains", frame, "digits", methods=["all"])
    found = rows(table)
    assert found["Multi-Source/AdaBN"]["average"].value == pytest.approx(
        found["Multi-Source/Source-Only"]["average"].value
    )


def test_runs_that_were_scored_once_have_no_adabn(tmp_path: Path):
    write_study(tmp_path, ["source-only", "dann"], protocol=1)
    frame = records.load(tmp_path)
    assert "AdaBN" not in tables.markdown(tables.make("comparison", frame, "digits", methods=["all"]))
    with pytest.raises(UserError, match="There is no row with runs here 'adabn'"):
        tables.make("comparison", frame, "digits", methods=["adabn"])


def test_a_built_in_system_that_the_paper_lacks_is_marked_and_a_users_own_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(asked, "_NAMES", [*asked._NAMES, "rival"])
    for method in ("dann", "rival", "mine.py:Net"):
        write_run(tmp_path, method, title=method)
    table = tables.make("comparison", records.load(tmp_path), "digits")
    assert notes(table, "rival") == [f"{OUTSIDE}."]
    assert not any(OUTSIDE in note for label in ("dann", "mine.py:Net") for note in notes(table, label))
    assert f"{OUTSIDE}." in tables.markdown(table)


# -- beside what others printed -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def domainnet(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    root = tmp_path_factory.mktemp("domainnet")
    write_study(
        root, ["source-only"], suite="domainnet", tier="paper", standard="combined", accuracy=40.0, generated=()
    )
    write_study(root, ["mcc", "tsvdnet"], suite="domainnet", tier="paper", accuracy=45.0, generated=())
    return records.load(root)


def test_numbers_of_other_origins_stand_beside_rows_that_are_asked_for_only(domainnet: pd.DataFrame):
    def where(*methods: str) -> set[str]:
        table = tables.make("reported", domainnet, "domainnet", methods=methods)
        return {row.cells[-1].words for row in table.rows}

    paper = {"3, Source-Only", "3, T-SVDNet"}
    assert where() == where("paper") == paper
    assert where("all") == {*paper, "Transfer-Learning-Library, ERM", "public result list, MCC"}
    assert where("source-only") == {"3, Source-Only", "Transfer-Learning-Library, ERM"}
    assert where("mcc") == {"public result list, MCC"}


def test_a_number_of_another_origin_says_so_and_where_it_comes_from(domainnet: pd.DataFrame):
    table = tables.make("reported", domainnet, "domainnet", methods=["all"])
    (average,) = [
        r for r in table.rows if r.cells[-1].words == "Transfer-Learning-Library, ERM" and r.cells[1].words == "Avg"
    ]
    assert average.cells[3].value == 47.0
    assert average.cells[4].value == pytest.approx(-7.0)
    assert "Transfer-Learning-Library: not of the T-SVDNet paper but README of that library" in table.sentences
    plain = tables.make("reported", domainnet, "domainnet")
    assert "Transfer-Learning-Library" not in plain.sentences


def test_a_rival_alone_has_nothing_beside_it_until_it_is_asked_for(domainnet: pd.DataFrame):
    with pytest.raises(UserError, match="shown for rows that are asked for: --methods NAME"):
        tables.make("reported", domainnet[domainnet.method == "mcc"], "domainnet")
