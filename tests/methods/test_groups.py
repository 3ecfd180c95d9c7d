"""Groups and readings name what there is, and agree with what the methods and the paper's folder say of themselves."""

from __future__ import annotations

from benchmark.paper import answers
from benchmark.records.selection import STATISTICS
from methods import BUILT_IN
from methods.contract import registry
from methods.groups import GROUPS, READINGS, trained

NAMES = [name for name, _, _ in BUILT_IN]


def test_the_papers_group_is_what_its_tables_compare() -> None:
    assert len(GROUPS["paper"]) == 13
    assert set(GROUPS["paper"]) == answers.systems()


def test_the_cards_group_is_what_the_methods_say() -> None:
    assert len(GROUPS["card"]) == 7
    assert set(GROUPS["card"]) == {name for name, cls in registry().items() if cls.card}


def test_groups_keep_the_order_of_the_list_and_share_no_word_with_a_method() -> None:
    for word, names in GROUPS.items():
        assert [n for n in NAMES if n in names] == sorted(names, key=NAMES.index), word
    assert not {*GROUPS, *READINGS, "all", "default"} & set(NAMES)


def test_a_reading_names_a_method_and_statistics_that_every_record_has() -> None:
    for name, reading in READINGS.items():
        assert reading.of in NAMES
        assert reading.statistics in STATISTICS
        assert trained(name) == reading.of
    assert trained("tsvdnet:code") == "tsvdnet:code"
