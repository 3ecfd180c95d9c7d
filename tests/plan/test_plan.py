"""Plans: a request becomes exactly the runs that were meant, and mistakes are found before anything starts."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmark import plan as planning
from benchmark import records
from benchmark.errors import UserError
from benchmark.plan import Request, make
from benchmark.run import execute
from methods import BUILT_IN
from tests.tiny import TINY, tiny


def names(request: Request) -> list[str]:
    return list(dict.fromkeys(s.name + ("!" if s.standard == "upper-bound" else "") for s in make(request).specs))


def test_the_default_is_the_card_with_the_honest_rows() -> None:
    assert names(Request("digits")) == [
        "source-only", "source-only:bn", "dan", "dann", "mcd", "m3sda", "mdda", "tsvdnet", "tsvdnet:code", "source-only!",
    ]  # fmt: skip
    assert len(make(Request("digits")).specs) == 50


def test_a_group_is_its_methods_and_all_is_everything() -> None:
    assert names(Request("digits", methods=["paper"])) == [
        "source-only", "dan", "dann", "coral", "adda", "mcd", "jan", "rtn", "mdan", "mdda", "dctn", "m3sda", "tsvdnet",
    ]  # fmt: skip
    assert names(Request("digits", methods=["card"])) == [
        "source-only", "dan", "dann", "mcd", "m3sda", "mdda", "tsvdnet",
    ]  # fmt: skip
    assert names(Request("digits", methods=["card", "dann", "coral"]))[-2:] == ["tsvdnet", "coral"]
    found = names(Request("digits", methods=["all"]))
    assert {n.partition(":")[0].rstrip("!") for n in found} == {name for name, _, _ in BUILT_IN}
    assert set(names(Request("digits"))) <= set(found)


def test_a_row_that_reads_anothers_runs_plans_those_once() -> None:
    alone = make(Request("digits", methods=["adabn"]))
    assert alone.specs == make(Request("digits", methods=["source-only"])).specs
    assert alone.readings == ("adabn",)
    assert make(Request("digits", methods=["adabn", "source-only"])).specs == alone.specs
    assert make(Request("digits", methods=["adabn"], standards=["combined"])).specs[0].standard == "combined"
    assert make(Request("digits", methods=["all"])).readings == ("adabn",)
    assert make(Request("digits")).readings == make(Request("digits", methods=["paper"])).readings == ()


def test_standards_make_the_papers_blocks() -> None:
    plan = make(Request("digits", methods=["dan", "m3sda"], targets=["mm"], standards=["combined", "single-best"]))
    assert [(s.standard, s.sources) for s in plan.specs] == [
        ("combined", ("mt", "up", "sv", "syn")), *[("single-best", (s,)) for s in ("mt", "up", "sv", "syn")],
    ]  # fmt: skip
    assert plan.skipped[0][0] == "m3sda"


def test_several_values_make_a_grid_and_idle_values_are_no_new_run() -> None:
    request = Request(
        "digits", methods=["tsvdnet", "dan"], targets=["mm"], settings=["tsvdnet.lam=1,10", "run.batch=32,16"]
    )
    plan = make(request)
    assert [dict(s.overrides) for s in plan.specs if s.method == "tsvdnet"] == [
        {"lam": 1}, {"lam": 1, "run.batch": 16}, {"lam": 10}, {"lam": 10, "run.batch": 16},
    ]  # fmt: skip
    assert len([s for s in plan.specs if s.method == "dan"]) == 2


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request("digits", methods=["sourceonly"]), "Did you mean 'source-only'"),
        (Request("digits", methods=["papers"]), "Groups: paper, card, all"),
        (Request("digits", methods=["adabn:bn"]), "There is no method 'adabn'"),
        (Request("digits", methods=["tsvdnet:papper"]), "Did you mean 'paper'"),
        (Request("digits", methods=["mine.py"]), "mine.py:ClassName"),
        (Request("digits", targets=["mnist"]), "Allowed: "),
        (Request("digits", tier="lit"), "Did you mean 'lite'"),
        (Request("digits", split="most"), "Allowed: part, all"),
        (Request("digits", standards=["combind"]), "Did you mean 'combined'"),
        (Request("digits", settings=["lam=3"]), "method.key=value"),
        (Request("digits", settings=["mine.lam=3"]), "no method 'mine' is in this request"),
        (Request("digits", methods=["tsvdnet"], settings=["tsvdnet.lamm=3"]), "Did you mean 'lam'"),
        (Request("digits", methods=["tsvdnet"], settings=["tsvdnet.lam=much"]), "takes a float"),
        (Request("digits", settings=["run.updatse=3"]), "Did you mean 'run.updates'"),
        (Request("digits", tuned=Path("absent.toml")), "does not exist"),
    ],
)
def test_mistakes_are_sentences(request_: Request, words: str) -> None:
    with pytest.raises((UserError, ValueError)) as caught:
        make(request_)
    assert words in str(caught.value)


def test_tuned_values_stand_below_set(tmp_path: Path) -> None:
    file = tmp_path / "tuned.toml"
    file.write_text('format = 1\nsuite = "digits"\n[methods.dan]\nlr_scale = 0.5\n[methods.tsvdnet]\nlr_scale = 2.0\n')
    request = Request("digits", methods=["dan", "tsvdnet"], targets=["mm"], tuned=file, settings=["tsvdnet.lr_scale=3"])
    dan, tsvd = make(request).specs
    assert dict(dan.overrides) == {"lr_scale": 0.5}
    assert dan.tuned.endswith(":lr_scale")
    assert dict(tsvd.overrides) == {"lr_scale": 3}
    assert not tsvd.tuned
    (preset,) = make(Request("digits", methods=["tsvdnet:code"], targets=["mm"], tuned=file)).specs
    assert dict(preset.overrides) == {"lr_scale": 2.0}
    assert preset.tuned
    with pytest.raises(UserError, match="was tuned on suite"):
        make(Request("pacs", tuned=file))
    file.write_text('format = 1\nsuite = "digits"\ntier = "lite"\n[methods.dan]\nlr_scale = 0.5\n')
    with pytest.raises(UserError, match="was tuned on tier 'lite', not on 'mini'"):
        make(Request("digits", tuned=file))
    file.write_text("format = 2\n")
    with pytest.raises(UserError, match="not a file written by"):
        make(Request("digits", tuned=file))


def test_seeds() -> None:
    assert planning.parse_seeds(["0-2", "7"]) == [0, 1, 2, 7]
    for wrong in (["x"], ["1-"], ["3-1"], ["0-99999"]):
        with pytest.raises(UserError):
            planning.parse_seeds(wrong)


def test_states_and_estimates_come_from_records(tmp_path: Path) -> None:
    specs = make(
        Request("digits", methods=["source-only"], targets=["mm", "up"], settings=[f"{k}={v}" for k, v in TINY.items()])
    ).specs
    execute(tiny(), results=tmp_path)
    frame = records.load(tmp_path)
    states = planning.states(specs, tmp_path, frame)
    assert [states[s.run_id][0] for s in specs] == ["done", "absent"]
    (seconds, kind), _ = planning.estimate(specs, frame)
    assert kind == "measured"
    assert seconds == pytest.approx(frame.cpu_seconds[0])  # what a busy machine does not lengthen
    assert planning.estimate(specs, pd.DataFrame(columns=frame.columns))[0][1] == "assumed"
