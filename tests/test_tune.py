"""Equal tuning: the same trials for everyone, a rule without target labels, a file that `run --tuned` reads."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from benchmark import plan as planning
from benchmark import records, tune
from benchmark.__main__ import main
from benchmark.errors import UserError
from benchmark.selection import RULES as ALL_RULES
from methods.contract import BUILT_IN, Range, load_method
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
    by_method = {name: [t for t in found if t.method == name] for name, _, _ in BUILT_IN}
    assert {len(own) for own in by_method.values()} == {3}
    scales = {tuple(t.values["lr_scale"] for t in own[1:]) for own in by_method.values()}  # the first are the defaults
    assert len(scales) == 1
    for name, own in by_method.items():
        assert all(t.values.keys() == load_method(name).ranges.keys() for t in own)
        assert len({t.spec.run_id for t in own}) == 3


# -- the rule ---------------------------------------------------------------------------------------------------------

ROW = {"update": 9, "progress": 1.0, "stage": "train", "target": 50.0, "per_class": [1.0], "source_val": 80.0,
       "unsup": 1.5, "losses": {}, "pseudo": {"precision": 0.9}, "probes": {"similarity_to_target": 0.3}}  # fmt: skip


def test_the_rule_is_given_no_column_that_target_labels_went_into() -> None:
    (seen,) = tune.label_free([ROW])
    assert not {"target", "per_class", "pseudo", "probes", "diagnostics"} & seen.keys()
    assert tune.score([seen], "unsup") == 1.5
    assert tune.score([seen], "source_val") == 80.0
    with pytest.raises(KeyError):
        tune.score([seen], "target")


def test_rules_that_read_target_labels_are_refused() -> None:
    assert set(ALL_RULES) - set(tune.RULES) == {"last", "oracle"}
    for rule in ("oracle", "last"):
        with pytest.raises(UserError, match=rf"There is no tuning rule '{rule}'"):
            study(rule=rule)


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


def test_the_file_holds_the_trial_with_the_best_label_free_score(tuned: Path) -> None:
    document = tomllib.loads((tuned / "tuned-digits-mini-up.toml").read_text())
    assert (document["format"], document["suite"], document["tier"], document["target"]) == (1, "digits", "mini", "up")
    assert (document["trials"], document["rule"]) == (3, "unsup")
    assert list(document["methods"]) == ["source-only:bn", "dann"]
    s = study(methods=("source-only:bn", "dann"), trials=3)
    for name, values in document["methods"].items():
        own = [t for t in tune.trials(s) if t.method == name]
        curves = [records.read_curve(records.run_directory(tuned / ".tuning", t.spec, t.spec.run_id)) for t in own]
        scores = [curve[-1]["unsup"] for curve in curves]
        assert document["chosen"][name]["scores"] == scores
        assert values == own[scores.index(max(scores))].values


def test_trials_are_kept_apart_from_the_records_that_tables_read(tuned: Path) -> None:
    assert len(records.load(tuned)) == 0
    assert sorted(records.load(tuned / ".tuning").status) == ["done"] * 6


def test_a_second_call_runs_nothing_and_writes_the_same_bytes(tuned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tuned / "tuned-digits-mini-up.toml"
    before = file.read_bytes()
    stamps = {p: p.stat().st_mtime_ns for p in tuned.glob(".tuning/digits/mini/*/record.json")}
    capsys.readouterr()
    assert main(command(tuned, "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["file"] == str(file)
    assert document["failed"] == {}
    assert file.read_bytes() == before
    assert {p: p.stat().st_mtime_ns for p in tuned.glob(".tuning/digits/mini/*/record.json")} == stamps


def test_target_labels_in_the_curves_do_not_move_the_choice(tuned: Path, tmp_path: Path) -> None:
    """Turn every score that labels went into upside down: the same file."""
    s = study(methods=("source-only:bn", "dann"), trials=3)
    found = tune.trials(s)
    before = tune.choose(s, found, tuned / ".tuning")
    for trial in found:
        directory = records.run_directory(tuned / ".tuning", trial.spec, trial.spec.run_id)
        copy = records.run_directory(tmp_path, trial.spec, trial.spec.run_id)
        copy.mkdir(parents=True)
        (copy / "record.json").write_bytes((directory / "record.json").read_bytes())
        rows = [{**row, "target": 100 - row["target"], "per_class": []} for row in records.read_curve(directory)]
        (copy / "curve.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert tune.choose(s, found, tmp_path) == before


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
    file = Path(__file__).parents[1] / "results" / "lite" / "tuned-digits-lite-up.toml"
    chosen = tomllib.loads(file.read_text())["methods"]["tsvdnet"]
    names = ["tsvdnet:paper", "tsvdnet:active"]
    request = planning.Request("digits", "lite", methods=names, targets=["mm"], tuned=file)
    paper, active = planning.make(request, tmp_path / "no data", bind=False).specs
    assert dict(active.overrides) == chosen
    assert dict(paper.overrides) == {key: value for key, value in chosen.items() if key != "entropy_weight"}


def test_a_failed_trial_is_left_out_and_a_method_without_any_is_said(tmp_path: Path, tuned: Path) -> None:
    s = study(methods=("source-only:bn", "dann"), trials=3)
    found = tune.trials(s)
    for trial in found:
        if trial.method == "dann" or trial.number == 1:
            continue  # as if it had failed: no record
        directory = records.run_directory(tuned / ".tuning", trial.spec, trial.spec.run_id)
        copy = records.run_directory(tmp_path, trial.spec, trial.spec.run_id)
        copy.mkdir(parents=True)
        for name in ("record.json", "curve.jsonl"):
            (copy / name).write_bytes((directory / name).read_bytes())
    (choice,) = tune.choose(s, found, tmp_path)
    assert choice.method == "source-only:bn"
    assert choice.scores[1] is None
    assert choice.trial.number in (0, 2)
    path = tmp_path / "tuned.toml"
    tune.write(path, s, [choice])
    scores = tomllib.loads(path.read_text())["chosen"]["source-only:bn"]["scores"]
    assert scores[1] != scores[1]  # nan
