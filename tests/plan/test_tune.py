"""Equal tuning: the same trials for everyone, a rule without target labels, a file that `run --tuned` reads."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from benchmark import plan as planning
from benchmark import records
from benchmark.__main__ import main
from benchmark.cli.study import _report
from benchmark.errors import UserError
from benchmark.plan import tune
from benchmark.records.audit import audit
from benchmark.records.selection import RULES, VALIDATORS
from benchmark.report import publish, verify
from methods.contract import BUILT_IN, Range, load_method
from methods.groups import GROUPS
from tests.synthetic import write_study
from tests.tiny import ARGUMENTS, TINY

SETTINGS = tuple(f"{key}={value}" for key, value in TINY.items())


def study(**changes) -> tune.Study:
    fields = {"methods": ("dann", "mcd"), "trials": 4, "settings": SETTINGS, **changes}
    return tune.Study("digits", "mini", "up", **fields)


# -- draws ------------------------------------------------------------------------------------------------------------


def test_draws_stay_in_their_range_and_fill_it() -> None:
    log, linear, pick = Range(0.01, 10.0, log=True), Range(-2.0, 4.0), Range(choices=("a", "b", "c"))
    drawn = [[tune.draw(r, 0, "x", t) for t in range(300)] for r in (log, linear, pick)]
    assert all(0.01 <= v <= 10 for v in drawn[0])
    assert all(-2 <= v <= 4 for v in drawn[1])
    assert set(drawn[2]) == {"a", "b", "c"}
    below = sum(v < 0.01 * 1000**0.5 for v in drawn[0])  # half of a log-uniform draw lies below the geometric mean
    assert 110 < below < 190
    assert 110 < sum(v < 1 for v in drawn[1]) < 190


def test_a_draw_is_a_function_of_seed_name_and_number() -> None:
    r = Range(0.1, 10.0, log=True)
    assert tune.draw(r, 0, "lr_scale", 3) == tune.draw(r, 0, "lr_scale", 3)
    assert len({tune.draw(r, seed, key, t) for seed in (0, 1) for key in ("a", "b") for t in (1, 2)}) == 8


def test_trial_zero_is_the_defaults_of_suite_and_tier() -> None:
    """T-SVDNet's η_max on digits comes from the suite file; the run of trial 0 is the ordinary run."""
    first = tune.trials(study(methods=("tsvdnet",), trials=1))[0]
    assert first.values["eta_max"] == 1.0
    assert dict(first.spec.overrides).keys() == TINY.keys()
    (plain,) = planning.make(
        planning.Request("digits", "mini", methods=["tsvdnet"], targets=["up"], settings=SETTINGS)
    ).specs
    assert first.spec == plain


def test_every_method_gets_the_same_number_of_trials_and_the_same_learning_rate_scales() -> None:
    s = study(methods=(), trials=3)
    found = tune.trials(s)
    by_method = {name: [t for t in found if t.row == name] for name, _, _ in BUILT_IN}
    assert {len(own) for own in by_method.values()} == {3}
    scales = {tuple(t.values["lr_scale"] for t in own[1:]) for own in by_method.values()}  # the first are the defaults
    assert len(scales) == 1
    for name, own in by_method.items():
        assert all(t.values.keys() == load_method(name).ranges.keys() for t in own)
        assert len({t.spec.run_id for t in own}) == 3


def test_a_group_is_tuned_method_by_method_and_a_reading_through_the_row_that_it_reads() -> None:
    built_in = tuple(name for name, _, _ in BUILT_IN)
    assert study(methods=()).methods == study(methods=("all",)).methods == built_in
    assert study(methods=("card",)).methods == GROUPS["card"]
    assert study(methods=("adabn", "source-only", "dann")).methods == ("source-only", "dann")


# -- the rule ---------------------------------------------------------------------------------------------------------

SCORES = {"target": 50.0, "per_class": [1.0], "source_val": 80.0, "unsup": 1.5, "snd": 3.0, "bnm": 0.5, "dev": None,
          "probes": {"similarity_to_target": 0.3}}  # fmt: skip
ROW = {"update": 9, "progress": 1.0, "stage": "train", "losses": {}, "pseudo": {"precision": 0.9}, **SCORES,
       "statistics": {"target": {**SCORES, "unsup": 1.7}}}  # fmt: skip


def test_the_rule_is_given_no_column_that_target_labels_went_into() -> None:
    for statistics, unsup in (("running", 1.5), ("target", 1.7)):
        (seen,) = tune.label_free([ROW], statistics)
        assert seen.keys() == {"update", "progress", "stage", "losses", *VALIDATORS}
        assert tune.score([seen], "unsup") == unsup
        assert tune.score([seen], "source_val") == 80.0
        assert tune.score([seen], "dev") is None
        with pytest.raises(KeyError):
            tune.score([seen], "target")


def test_rules_that_read_target_labels_are_refused() -> None:
    assert set(RULES) - set(VALIDATORS) == {"last", "oracle"}
    assert [study(rule=rule.replace("_", "-")).rule for rule in VALIDATORS] == list(VALIDATORS)
    for rule in ("oracle", "last"):
        with pytest.raises(UserError, match=rf"There is no tuning rule '{rule}'"):
            study(rule=rule)
    with pytest.raises(UserError, match=r"no kind of statistics at test 'source'.*running, target"):
        study(statistics="source")


@pytest.mark.parametrize(
    "first, again, chosen",
    [
        ((1.0, 1.5, 1.2), (1.1, 1.6), 1),  # ahead by 0.5, the seeds differ by 0.1
        ((1.0, 1.5, 1.2), (1.1, 1.2), 0),  # 0.3 of it was the seed: ahead by 0.3, no more than the spread
        ((1.0, 1.5, 1.2), (1.6, 1.6), 0),  # the defaults move by 0.6
        ((1.0, 1.0, 1.0), (1.0, 1.0), 0),  # equal
        ((1.0, 0.5, 0.6), (1.0, 0.6), 0),  # worse
        ((1.0, 0.98, 0.5), (0.98, 1.02), 0),  # ahead over both seeds, by less than the spread
        ((1.0, None, None), (None, None), 0),  # nothing to compare with
        ((1.0, 1.5, None), (1.0, None), 0),  # the challenger failed the second time
        ((None, 1.5, 1.2), (1.0, 1.5), 1),  # the defaults failed
        ((None, 1.5, 1.2), (None, 1.5), 1),
        ((None, 1.5, 1.2), (None, None), None),
        ((None, None, None), (None, None), None),
    ],
)
def test_a_trial_is_chosen_when_it_beats_the_defaults_by_more_than_the_spread_over_two_seeds(
    first: tuple[float | None, ...], again: tuple[float | None, float | None], chosen: int | None
) -> None:
    assert tune.decide(first, tune.challenger(first), again) == chosen


def test_the_challenger_is_the_best_of_the_others_and_of_equals_the_earliest() -> None:
    assert tune.challenger((9.0, 1.0, 2.0, 2.0, None)) == 2
    assert tune.challenger((9.0, -3.0)) == 1
    assert tune.challenger((9.0, None)) is None
    assert tune.challenger((9.0,)) is None


def test_rows_of_one_method_are_one_family_and_try_the_same_values() -> None:
    """Steps of an ablation differ by what they leave out, not by what was tuned; a preset keeps what it sets itself."""
    s = study(methods=("tsvdnet:e", "dann", "tsvdnet:et", "tsvdnet", "tsvdnet:paper"), trials=3)
    assert s.families == {"tsvdnet": ["tsvdnet:e", "tsvdnet:et", "tsvdnet", "tsvdnet:paper"], "dann": ["dann"]}
    found = {(t.row, t.number): t.values for t in tune.trials(s)}
    for number in range(3):
        assert found["tsvdnet:e", number] == found["tsvdnet:et", number] == found["tsvdnet", number]
        assert found["tsvdnet:paper", number].keys() == found["tsvdnet", number].keys() - {"entropy_weight"}
    assert len({row for row, _ in found}) * 3 == len(found)


def test_mistakes_are_sentences() -> None:
    with pytest.raises(UserError, match="at least 1, not 0"):
        study(trials=0)
    with pytest.raises(UserError, match=r"--set dann.trade_off=1: tuning draws the methods' own values"):
        study(settings=("dann.trade_off=1",))
    with pytest.raises(UserError, match="no method 'dan2'"):
        tune.trials(study(methods=("dan2",)))
    with pytest.raises(UserError, match="no domain of suite digits 'usps'"):
        tune.Study("digits", "mini", "usps", 2)


# -- the whole --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods, three trials each, by one command; the results folder."""
    results = tmp_path_factory.mktemp("tuned")
    assert main(command(results)) == 0
    return results


def command(results: Path, *words: str) -> list[str]:
    return [
        "tune", "--suite", "digits", "--target", "up", "--trials", "3", "--methods", "source-only:bn,dann",
        "--workers", "1", "--results", str(results), *words, *ARGUMENTS,
    ]  # fmt: skip


def both_rounds(s: tune.Study, folder: Path) -> tuple[list[tune.Trial], list[tune.Trial]]:
    first = tune.trials(s)
    return first, tune.finals(s, first, folder)


def test_the_file_holds_the_choice_with_every_number_that_led_to_it(tuned: Path) -> None:
    document = tomllib.loads((tuned / "tuned-digits-mini-up.toml").read_text())
    assert (document["format"], document["suite"], document["tier"], document["target"]) == (1, "digits", "mini", "up")
    assert (document["trials"], document["rule"], document["statistics"]) == (3, "unsup", "target")
    assert document["seeds"] == [0, 1]
    assert list(document["methods"]) == ["source-only:bn", "dann"]
    s = study(methods=("source-only:bn", "dann"), trials=3)
    first, again = both_rounds(s, tuned / ".tuning")

    def score(row: str, number: int, seed: int) -> float:
        (spec,) = [t.spec for t in (*first, *again) if (t.row, t.number, t.seed) == (row, number, seed)]
        curve = records.read_curve(records.run_directory(tuned / ".tuning", spec, spec.run_id))
        return float(curve[-1]["statistics"]["target"]["unsup"])

    for row, values in document["methods"].items():
        chosen = document["chosen"][row.partition(":")[0]]
        assert chosen["rows"] == [row]
        assert chosen["scores"] == [score(row, t, 0) for t in range(3)]
        c = chosen["challenger"]
        assert chosen["scores"][c] == max(chosen["scores"][1:])
        defaults, other = ([score(row, t, seed) for seed in (0, 1)] for t in (0, c))
        assert (chosen["defaults_by_seed"], chosen["challenger_by_seed"]) == (defaults, other)
        assert chosen["margin"] == pytest.approx(sum(other) / 2 - sum(defaults) / 2)
        assert chosen["spread"] == pytest.approx(max(abs(defaults[0] - defaults[1]), abs(other[0] - other[1])))
        assert chosen["kept"] == (chosen["margin"] <= chosen["spread"]) == (chosen["trial"] == 0)
        assert values == next(t.values for t in first if (t.row, t.number) == (row, chosen["trial"]))


def test_trials_are_kept_apart_from_the_records_that_tables_read(tuned: Path) -> None:
    """Two rows: three trials each, and two of them with a second seed."""
    assert len(records.load(tuned)) == 0
    frame = records.load(tuned / ".tuning")
    assert set(frame.status) == {"done"}
    assert frame.groupby(["method", "seed"]).size().tolist() == [3, 2, 3, 2]


def test_trials_and_choices_are_published_with_the_study_and_no_table_is_made_of_them(
    tuned: Path, tmp_path: Path
) -> None:
    shutil.copytree(tuned, tmp_path / "runs")
    write_study(tmp_path / "runs", ["source-only", "dann"], targets=["up"], seeds=[0])
    study = tmp_path / "results" / "first"
    publish.publish(tmp_path / "runs", study)
    assert len(records.load(study)) == 2
    published = records.load(study / "trials")
    assert set(published.run_id) == set(records.load(tuned / ".tuning").run_id)
    file = "tuned-digits-mini-up.toml"
    assert (study / file).read_bytes() == (tuned / file).read_bytes()
    assert not list(study.rglob("record.json")), "trials are packed, too"
    assert [f for f in audit(study / "trials").findings if f.level == "error"] == []
    assert verify.published(study)[0].words.startswith(f"{2 + len(published)} records, each")


def test_a_second_call_runs_nothing_and_writes_the_same_bytes(tuned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tuned / "tuned-digits-mini-up.toml"
    before = file.read_bytes()
    stamps = {p: p.stat().st_mtime_ns for p in tuned.glob(".tuning/digits/mini/*/record.json")}
    capsys.readouterr()
    assert main(command(tuned, "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["file"] == str(file)
    assert document["failed"] == {}
    assert document["chosen"] == tomllib.loads(before.decode())["chosen"]
    assert file.read_bytes() == before
    assert {p: p.stat().st_mtime_ns for p in tuned.glob(".tuning/digits/mini/*/record.json")} == stamps


def copy(trial: tune.Trial, source: Path, target: Path, *, upside_down: bool = False) -> None:
    """The record of a trial elsewhere; `upside_down` turns every score that labels went into."""

    def turned(scores: dict) -> dict:
        return {**scores, "target": 100 - scores["target"], "per_class": []}

    directory, there = (records.run_directory(root, trial.spec, trial.spec.run_id) for root in (source, target))
    there.mkdir(parents=True)
    (there / "record.json").write_bytes((directory / "record.json").read_bytes())
    rows = records.read_curve(directory)
    if upside_down:
        rows = [{**turned(row), "statistics": {k: turned(v) for k, v in row["statistics"].items()}} for row in rows]
    (there / "curve.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("statistics", ["target", "running"])
def test_target_labels_in_the_curves_do_not_move_the_choice(tuned: Path, tmp_path: Path, statistics: str) -> None:
    s = study(methods=("source-only:bn", "dann"), trials=3, statistics=statistics, rule="bnm")
    first = tune.trials(s)
    before = tune.choose(s, first, tune.finals(s, first, tuned / ".tuning"), tuned / ".tuning")
    there = {p.name for p in (tuned / ".tuning").glob("digits/mini/*")}
    everything = [
        tune._trial(s, row, number, seed, None) for row in s.methods for number in range(3) for seed in (0, 1)
    ]
    for trial in everything:
        if trial.spec.run_id in there:
            copy(trial, tuned / ".tuning", tmp_path, upside_down=True)
    assert tune.choose(s, *both_rounds(s, tmp_path), tmp_path) == before


def test_run_uses_the_choice_and_says_so_in_the_identity(tuned: Path) -> None:
    file = tuned / "tuned-digits-mini-up.toml"
    chosen = tomllib.loads(file.read_text())["methods"]
    plain, with_file = (
        planning.make(planning.Request("digits", "mini", methods=["dann"], targets=["mm"], tuned=path)).specs[0]
        for path in (None, file)
    )
    assert with_file.tuned
    assert with_file.run_id != plain.run_id
    from benchmark.spec import resolve

    hparams = resolve(with_file).hparams
    assert {key: getattr(hparams, key) for key in chosen["dann"]} == chosen["dann"]


def test_a_preset_has_its_methods_choice_but_for_what_it_sets_itself(tmp_path: Path) -> None:
    """`:paper` has its own weight of +E, which is on another scale: the tuned one would let its entropy collapse."""
    file = tmp_path / "tuned.toml"
    file.write_text(
        'format = 1\nsuite = "digits"\ntier = "lite"\n[methods.tsvdnet]\nlr_scale = 1.5\neta_max = 0.3\nentropy_weight = 2.0\n'
    )
    chosen = tomllib.loads(file.read_text())["methods"]["tsvdnet"]
    names = ["tsvdnet:paper", "tsvdnet:active"]
    request = planning.Request("digits", "lite", methods=names, targets=["mm"], tuned=file)
    paper, active = planning.make(request, tmp_path / "no data", bind=False).specs
    assert dict(active.overrides) == chosen
    assert dict(paper.overrides) == {key: value for key, value in chosen.items() if key != "entropy_weight"}


def test_a_failed_trial_is_left_out_and_a_method_without_any_is_said(
    tmp_path: Path, tuned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    s = study(methods=("source-only:bn", "dann"), trials=3)
    for trial in tune.trials(s):
        if trial.row != "dann" and trial.number != 1:  # the others: as if they had failed, no record
            copy(trial, tuned / ".tuning", tmp_path)
    first, again = both_rounds(s, tmp_path)
    assert {(t.row, t.number, t.seed) for t in again} == {("source-only:bn", 0, 1), ("source-only:bn", 2, 1)}
    (choice,) = tune.choose(s, first, again, tmp_path)
    assert (choice.method, choice.scores[1], choice.challenger, choice.kept) == ("source-only", None, 2, True)
    path = tmp_path / "tuned.toml"
    tune.write(path, s, [choice], "data")
    chosen = tomllib.loads(path.read_text())["chosen"]["source-only"]
    assert chosen["scores"][1] != chosen["scores"][1]  # nan
    assert chosen["spread"] != chosen["spread"]
    _report(s, [choice], {"0123": "NotFinite"}, path, json=False)
    said = capsys.readouterr()
    assert "defaults stay" in said.out
    assert "a trial failed and is left out: 0123: NotFinite" in said.err
    assert "No trial of dann has a score by unsup; it is not in the file." in said.err


# -- values whose worth is known --------------------------------------------------------------------------------------

# enough for a tiny network to learn something that every rule can see
LEARNS = [
    w for s in ("run.updates=80", "run.network.width=0.0625", "run.batch=16", "run.eval_points=2") for w in ("--set", s)
]
PLANTED = """
from dataclasses import dataclass

from methods.contract import Range
from methods.source_only import SourceOnly, SourceOnlyHParams


@dataclass(frozen=True)
class Zero(SourceOnlyHParams):
    care: float = 0.0


@dataclass(frozen=True)
class One(SourceOnlyHParams):
    care: float = 1.0


class Asleep(SourceOnly):
    name = "asleep"  # learns nothing by default
    HParams = Zero
    ranges = {"care": Range(choices=(0.0, 1.0))}

    def update(self, sources, target, progress):
        return super().update(sources, target, progress) if self.hparams.care else {}


class Busy(Asleep):
    name = "busy"  # learns by default, and every trial is worse
    HParams = One
    ranges = {"care": Range(choices=(0.0,))}
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """Two rows of a method that sleeps by default, and one that is awake: (file, what `tune` chose by each rule)."""
    folder = tmp_path_factory.mktemp("planted")
    file = folder / "planted.py"
    file.write_text(PLANTED, encoding="utf-8")
    names = f"{file}:Asleep,{file}:Asleep@bn,{file}:Busy"
    chosen = {}
    for rule in ("unsup", "source-val"):
        arguments = ["tune", "--suite", "digits", "--target", "mt", "--trials", "3", "--methods", names, "--rule", rule]
        output = folder / f"{rule}.toml"
        arguments += ["--workers", "1", "--results", str(folder / "runs"), "--output", str(output), *ARGUMENTS]
        assert main([*arguments, *LEARNS]) == 0
        chosen[rule] = tomllib.loads(output.read_text())
    return file, chosen


@pytest.mark.parametrize("rule", ["unsup", "source-val"])
def test_a_planted_better_value_is_found_and_goes_to_all_rows_of_its_method(planted, rule: str) -> None:
    file, chosen = planted
    assert chosen[rule]["methods"][f"{file}:Asleep"] == {"care": 1.0}
    assert chosen[rule]["methods"][f"{file}:Asleep@bn"] == {"care": 1.0}
    found = chosen[rule]["chosen"][f"{file}:Asleep"]
    assert found["rows"] == [f"{file}:Asleep", f"{file}:Asleep@bn"]
    assert not found["kept"]
    assert found["margin"] > found["spread"]


@pytest.mark.parametrize("rule", ["unsup", "source-val"])
def test_a_method_whose_defaults_are_best_keeps_them(planted, rule: str) -> None:
    file, chosen = planted
    assert chosen[rule]["methods"][f"{file}:Busy"] == {"care": 1.0}
    found = chosen[rule]["chosen"][f"{file}:Busy"]
    assert (found["trial"], found["kept"]) == (0, True)
    assert found["margin"] < -found["spread"]


# -- how well the validators order runs -------------------------------------------------------------------------------


def test_the_table_of_validators_has_rank_correlations_and_says_how_many_runs_it_rests_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = ["--results", str(tmp_path)]
    rows = ["--methods", "source-only,source-only:bn,dann", "--targets", "mm,up", "--seeds", "0"]
    assert main(["run", "--suite", "digits", *rows, "--workers", "1", *results, *ARGUMENTS]) == 0
    capsys.readouterr()
    assert main(["table", "--kind", "validators", "--json", *results]) == 0
    table = json.loads(capsys.readouterr().out)
    assert "Rests on 6 runs: 3 rows, 2 targets, 1 seed." in table["conditions"]
    assert [row["cells"]["validator"] for row in table["rows"]] == ["source-val", "unsup", "snd", "bnm", "dev"]
    found = {row["cells"]["validator"]: row["cells"] for row in table["rows"]}
    assert found["bnm"]["groups"] == "2"
    assert -1 <= found["bnm"]["methods"]["value"] <= 1
    assert found["bnm"]["lost"]["value"] >= 0
    assert -1 <= found["bnm"]["points"]["value"] <= 1
