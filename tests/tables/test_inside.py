"""The table of what is inside T-SVDNet: pseudo labels, λ, how often A ≠ 0, its rank by frequency, and accuracy beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmark import records, tables
from benchmark.errors import UserError
from benchmark.paper import answers
from tests.methods.small import batches, build
from tests.synthetic import _seal, write_run, write_study
from tests.tables.study import rows


def test_a_changed_reading_is_held_against_its_preset_target_by_target(tmp_path: Path):
    write_study(tmp_path, ["tsvdnet:code", "tsvdnet:code-p"])
    write_study(tmp_path, ["tsvdnet:code"], targets=["mm", "sv"], overrides={"lam": 62.5}, a_zero=False)
    frame = records.load(tmp_path)
    table = tables.make("inside", frame, "digits")
    found = rows(table)
    assert [block for block, _ in table.blocks] == [
        "→ mm",
        "→ sv",
    ]  # what only the presets were run on cannot be compared
    assert "fewer readings were run there: mt, up, syn*." in " ".join(table.conditions)
    changed, plain = found["→ mm/T-SVDNet:code [lam = 62.5]"], found["→ mm/T-SVDNet:code"]
    assert (changed["lam"].words, changed["a_rank"].words) == ("62.5", "2 1 1 1 1 1")
    assert changed["share_a_nonzero"].value == pytest.approx(85.0)
    assert changed["a_norm"].value == pytest.approx(3.5 / 7.0)
    assert (plain["lam"].words, plain["a_norm"].value, plain["a_rank"].words) == ("1000", 0.0, "0 0 0 0 0 0")
    mm = frame[frame.target == "mm"].set_index("seed")
    pair = [mm[(mm.overrides.str.contains("lam") == how) & (mm.preset == "code")].target_last for how in (True, False)]
    assert changed["effect"].value == pytest.approx((pair[0] - pair[1]).mean())
    assert changed["base"].words == "T-SVDNet:code"
    off = mm[mm.preset == "code-p"].target_last
    assert changed["over"].value == pytest.approx((pair[0] - off).mean())
    assert found["→ mm/T-SVDNet:code-p"]["over"].words == "–"
    assert "Over without: the row minus T-SVDNet:code-p, paired" in " ".join(table.conditions)
    alone = tables.make("inside", frame[frame.preset == "code"], "digits")
    assert "over" not in {column.key for column in alone.columns}
    assert plain["base"].words == "–"  # the default was not run


def test_a_mean_of_ranks_that_differ_says_so(tmp_path: Path):
    for seed in (0, 1):
        place = write_run(tmp_path, preset="code", seed=seed, a_zero=False)
        document = json.loads((place / "record.json").read_text(encoding="utf-8"))
        document["diagnostics"]["a_rank"] = [1, seed, 0, 0, 0, 0, 0, 0, 0, seed]
        _seal(place, {k: v for k, v in document.items() if k != "hashes"})
    (row,) = tables.make("inside", records.load(tmp_path), "digits").rows
    assert row.cells[-2].words == "1 0.5 0 0 0 0"


@pytest.mark.parametrize("rank", ["text", [["x"]], [1, None], {"a": 1}, 3])
def test_a_record_that_holds_no_ranks_where_they_should_be_shows_none(tmp_path: Path, rank: object):
    place = write_run(tmp_path, preset="code", a_zero=False)
    document = json.loads((place / "record.json").read_text(encoding="utf-8"))
    document["diagnostics"] |= {"a_rank": rank, "g_norm": 0}
    _seal(place, {k: v for k, v in document.items() if k != "hashes"})
    (row,) = tables.make("inside", records.load(tmp_path), "digits").rows
    assert row.cells[-2].words == "–"
    assert row.cells[-3].words == "–"  # nothing is divided by zero
    assert row.cells[-4].value == pytest.approx(85.0)


def test_pseudo_labels_are_counted_by_the_loop_and_their_precision_is_of_runs_that_gave_any(tmp_path: Path):
    counted = [{"rate": 0.25, "precision": 0.9}, {"rate": 0.75, "precision": 0.7}, {"rate": 0.0, "precision": None}]
    for seed, pseudo in enumerate(counted):
        place = write_run(tmp_path, preset="code", seed=seed, a_zero=False)
        document = json.loads((place / "record.json").read_text(encoding="utf-8")) | {"pseudo": pseudo}
        _seal(place, {k: v for k, v in document.items() if k != "hashes"})
    (row,) = rows(tables.make("inside", records.load(tmp_path), "digits")).values()
    assert row["rate"].value == pytest.approx(100 / 3)
    assert row["precision"].value == pytest.approx(80.0)
    assert (row["rate"].n, row["precision"].n) == (3, 2)


def test_without_the_method_there_is_nothing_inside_it(tmp_path: Path):
    write_study(tmp_path, ["dann"], seeds=[0])
    with pytest.raises(
        UserError,
        match=r"says anything of the pseudo labels and the low-rank tensor A\. Type: .* --methods tsvdnet,tsvdnet:code",
    ):
        tables.make("inside", records.load(tmp_path), "digits")


def test_the_method_gives_every_measure_that_the_table_names():
    method = build("tsvdnet", "code", 3)
    method.update(*batches(3), 0.0)
    said, wanted = method.diagnostics(), answers.inside().measures
    own = [m for m in wanted if m.of == "diagnostics"]
    assert {m.key for m in own} | {m.over for m in own if m.over} <= set(said)
    assert [m.key for m in wanted if m.mirrored] == [key for key, value in said.items() if isinstance(value, list)]


def test_a_row_is_held_against_its_own_kind_or_against_none(tmp_path: Path):
    write_study(tmp_path, ["tsvdnet", "tsvdnet:code"], targets=["mm"])
    write_run(tmp_path, "tsvdnet", "mm", sources=["mt", "up"])
    found = rows(tables.make("inside", records.load(tmp_path), "digits"))
    assert found["→ mm/T-SVDNet"]["base"].words == "–"
    assert found["→ mm/T-SVDNet:code"]["base"].words == found["→ mm/T-SVDNet from mt+up"]["base"].words == "T-SVDNet"
    write_run(tmp_path, "tsvdnet", "mm", split="all")
    with pytest.raises(UserError, match="Add --split all"):
        tables.make("inside", records.load(tmp_path), "digits")
    write_run(tmp_path, "tsvdnet", "mm", revision="2")
    with pytest.raises(UserError, match="revisions 1 and 2"):
        tables.make("inside", records.load(tmp_path), "digits", split="part")
