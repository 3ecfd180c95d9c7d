"""The sentences of the parts: each says what it was given and what it takes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from benchmark import figures, records, tables
from benchmark.analysis import stats
from benchmark.cli.explain import facts_of
from benchmark.errors import RunFailed, UserError
from benchmark.launch import queue
from benchmark.paper import claims as paper_claims
from benchmark.plan import parse_seeds
from benchmark.report import publish, verify
from benchmark.run.networks import NETWORKS, conv3fc2, load_weights
from benchmark.spec import RunSpec, load_suite
from methods.contract import MethodError, build_hparams, load_method
from methods.kernels import mmd
from methods.source_only import SourceOnly
from tests import synthetic
from tests.forge import forge
from tests.quiet import quiet
from tests.safety.small import Small

# -- messages of the parts --------------------------------------------------------------------------------------------


def raises(words: str, call: Callable[[], Any], kind: type[Exception] = UserError) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_methods_name_what_they_do_not_know(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    raises("there is no method 'dnan'", lambda: load_method("dnan"), MethodError)
    raises("does not exist", lambda: load_method(f"{tmp_path}/none.py:X"), MethodError)
    raises("could not be imported: ModuleNotFoundError", lambda: load_method(f"{tmp_path}/broken.py:X"), MethodError)
    raises("has no method class 'X'; it has: none", lambda: load_method(f"{tmp_path}/empty.py:X"), MethodError)
    raises("has no hyper-parameter 'x'", lambda: build_hparams(SourceOnly, {"x": 1}), MethodError)
    raises("is a switch: true or false", lambda: build_hparams(SourceOnly, {"bn": "perhaps"}), MethodError)
    raises("takes a float, not 'much'", lambda: build_hparams(SourceOnly, {"lr_scale": "much"}), MethodError)


CHOICES = [
    ("dctn", "loss", "loss of dctn"), ("dctn", "vote", "vote of dctn"), ("m3sda", "form", "form of m3sda"),
    ("mdan", "form", "form of mdan"), ("mdda", "interpolation", "interpolation of mdda"),
    ("tsvdnet", "pseudo", "value of tsvdnet.pseudo"),
]  # fmt: skip


@pytest.mark.parametrize("method, key, words", CHOICES)
def test_a_choice_that_a_method_does_not_have_is_answered_with_those_it_has(
    small: Small, tmp_path: Path, method: str, key: str, words: str
) -> None:
    with pytest.raises((MethodError, RunFailed), match=f"There is no {re.escape(words)} 'neither'"):
        small.execute(small.spec(method, overrides={key: "neither"}), tmp_path)


def test_values_of_tsvdnet_that_mean_nothing_are_refused() -> None:
    from tsvdnet import auxiliary, prototypes, uncertainty
    from tsvdnet.options import TSVDNetHParams

    one = torch.ones(2, 3)
    raises("tsvdnet.lam must be above zero", lambda: TSVDNetHParams(lam=-1.0), MethodError)
    raises("aux_every ≥ 1", lambda: TSVDNetHParams(aux_every=0), MethodError)
    raises("There is no prox rule", lambda: auxiliary.threshold("other", 1.0, 1.0, 3), MethodError)
    raises("There is no rule for pseudo labels", lambda: prototypes.pseudo_labels(one, "other", 0.5), MethodError)
    raises("There is no reduction", lambda: prototypes.gaussian_similarity(one, 1.0, reduction="max"), MethodError)
    raises("There is no link of the uncertainty head", lambda: uncertainty.variance(one[0], "other"), MethodError)
    raises(
        "There is no form of the uncertainty loss",
        lambda: uncertainty.weighted_loss(one, one[:, 0].long(), one[0], "other"),
        MethodError,
    )
    kernel = lambda x, y, paired: torch.eye(2)  # noqa: E731
    raises("There is no MMD estimator", lambda: mmd([one], [one], kernel, estimator="other"), MethodError)


def test_networks_say_what_they_cannot_be(tmp_path: Path) -> None:
    raises("has no narrow version", lambda: NETWORKS["resnet101"](0.5))
    raises("are not at", lambda: load_weights(conv3fc2(1 / 64), "resnet18", tmp_path / "none.pth"))


def test_specs_and_records_say_what_is_wrong(small: Small, tmp_path: Path) -> None:
    raises("unknown fields: colour", lambda: RunSpec.from_json({"suite": "digits", "colour": 1}))
    raises("the spec was made for", lambda: small.execute(small.spec(data="0" * 16), tmp_path), RunFailed)
    raises("only a finished run can be verified", lambda: verify.rerun(tmp_path, data_root=None))
    raises("holds no records", lambda: verify.published(tmp_path))
    raises("More than 10,000 seeds", lambda: parse_seeds(["0-20000"]))
    raises("names no seed", lambda: parse_seeds([]))
    run = synthetic.write_run(tmp_path)
    (run / "record.json").write_text("{}")
    raises("is not a record of this suite", lambda: records.read(run))
    (run / "record.json").write_text("{")
    raises("is damaged", lambda: records.read(run))


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    from benchmark.files import read_toml

    raises("cannot be read", lambda: read_toml(tmp_path, "The suite file"))
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    raises("nested too deeply", lambda: read_toml(tmp_path / "deep.toml", "The suite file"))


def test_rank_tests_refuse_what_they_cannot_compare() -> None:
    matrix = pd.DataFrame(np.random.default_rng(0).random((12, 4)), columns=list("abcd"))
    raises("needs at least 10 independent blocks", lambda: stats.friedman(matrix[:5]))
    raises("compares three or more methods", lambda: stats.friedman(matrix[["a", "b"]]))
    raises("compares two methods", lambda: stats.wilcoxon(matrix))


def test_the_claims_file_says_what_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "claims.toml"
    raises("does not exist", lambda: paper_claims.claims(tmp_path / "none.toml"))
    file.write_text("[[claim]]\nid = 'x'\n")
    raises("lacks text, where, test", lambda: paper_claims.claims(file))
    (tmp_path / "torn.toml").write_text("[[claim")
    raises("is not valid TOML", lambda: paper_claims.claims(tmp_path / "torn.toml"))
    raises("lacks the key 'k'", lambda: paper_claims.Claim("i", "t", "w", "test")["k"])


@pytest.mark.parametrize(
    "other, words",
    [
        ({"tier": "lite"}, "mix tiers"), ({"protocol": 1}, "mix protocol numbers"), ({"threads": 2}, "mix numbers of threads"),
        ({"fingerprint": "other"}, "mix data fingerprints"),
    ],
)  # fmt: skip
def test_a_table_refuses_to_mix(tmp_path: Path, other: dict[str, Any], words: str) -> None:
    synthetic.write_run(tmp_path)
    synthetic.write_run(tmp_path, seed=1, **other)
    raises(words, lambda: tables.make("comparison", records.load(tmp_path), load_suite("digits")))


def test_tables_refuse_what_is_not_one_condition(tmp_path: Path) -> None:
    digits = load_suite("digits")

    def table(folder: str, kind: str = "comparison") -> None:
        tables.make(kind, records.load(tmp_path / folder), digits)

    for name, runs in {
        "settings": [{"overrides": {"run.batch": 8}}, {"overrides": {"run.batch": 16}}],
        "revisions": [{}, {"revision": "2", "seed": 1}],
        "splits": [{"split": "part"}, {"split": "all"}],
        "tuned": [{}, {"tuned": "abc", "seed": 1}],
        "failed": [{"status": "failed"}],
    }.items():
        for fields in runs:
            synthetic.write_run(tmp_path / name, **fields)
    raises("mix settings", lambda: table("settings"))
    raises("of the revisions 1 and 2", lambda: table("revisions", "ablation"))
    raises("splits part and all", lambda: table("splits", "ablation"))
    raises("tuned and untuned runs", lambda: table("tuned", "ablation"))
    raises("None of the 1 runs", lambda: table("failed"))
    raises("There is no kind of table 'best'", lambda: table("failed", "best"))
    raises("on part and on all of the data", lambda: figures.draw("curves", records.load(tmp_path / "splits"), digits))


def test_without_slurm_its_commands_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    raises("scancel did not work", lambda: queue.cancel(["1"]))
    raises("sbatch is not on PATH", lambda: queue.check([], "the profile"))


def commands(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """A PATH with these commands only, each a line of shell."""
    folder.mkdir(exist_ok=True)
    for name, line in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_what_slurm_answers_to_a_launch_is_passed_on(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmark.launch import slurm
    from benchmark.launch.cluster import Profile

    no = "echo 'sbatch: error: invalid qos' >&2; exit 1"
    commands(tmp_path / "refuses", monkeypatch, sbatch=no, srun="exit 0", sinfo="echo main")
    raises("There is no partition .* 'mian'", lambda: queue.check(["--partition=mian"], "the profile"))
    raises("SLURM refuses what the profile asks for .*invalid qos", lambda: queue.check(["--qos=x"], "the profile"))

    commands(tmp_path / "away", monkeypatch, sbatch=no, srun="exit 0", sinfo="exit 1")
    raises("controller does not answer", lambda: queue.check(["--qos=x"], "the profile"))

    def submit() -> None:
        slurm.submit([small.bound(small.spec())], results=tmp_path / "runs", data_root=small.data, profile=Profile())

    only_tests = f'case "$*" in *--test-only*) exit 0;; esac; {no}'
    commands(tmp_path / "silent", monkeypatch, sbatch=only_tests, srun="exit 0", squeue="exit 1")
    raises("controller does not answer", submit)
    commands(tmp_path / "full", monkeypatch, sbatch=only_tests, srun="exit 0", squeue="exit 0", scontrol="exit 0")
    raises("sbatch did not take the sweep: .*invalid qos", submit)


def test_a_run_that_shares_its_task_is_not_cancelled_without_a_word(tmp_path: Path) -> None:
    folder = tmp_path / ".slurm" / "20240101-000000-abcdef"
    folder.mkdir(parents=True)
    known = {
        "jobs": {"7_0": ["a" * 16, "b" * 16]},
        "specs": {},
        "profile": {},
        "data_root": None,
        "code": "c",
        "time": 1.0,
    }
    (folder / "submission.json").write_text(json.dumps(known))
    code, said = quiet("cancel", "aaaa", "--results", str(tmp_path))
    assert code == 2
    assert "1 other runs share a task with these" in said


def test_a_launch_waits_for_another_and_says_whose(tmp_path: Path) -> None:
    from benchmark.launch.submissions import launching

    def second() -> None:
        with launching(tmp_path, patience=0.1):
            pass

    with launching(tmp_path):
        raises("is launching into", second)


def test_explain_and_publish_refuse_in_words(tmp_path: Path) -> None:
    raises("There is no hyper-parameter of tsvdnet 'x'", lambda: facts_of("digits", "tsvdnet", tier="mini", x=1))
    run = synthetic.write_run(tmp_path)
    (run / "curve.jsonl").write_text("{}")
    raises("changed after the run", lambda: publish.publish(tmp_path, tmp_path / "study"))
    raises("A study's name", lambda: publish.check_name("a/b"))


def test_figures_say_what_they_have_nothing_to_draw_from(tmp_path: Path) -> None:
    digits = load_suite("digits")

    def draw(folder: str, kind: str, **options: Any) -> None:
        figures.draw(kind, records.load(tmp_path / folder), digits, **options)

    def arrays(folder: str, **kept: np.ndarray) -> None:
        for run in (tmp_path / folder).glob("*/*/*"):
            np.savez(run / "artifacts.npz", **kept)  # type: ignore[arg-type]

    for method, target, seed in (("source-only", "mm", 0), ("tsvdnet", "up", 0)):
        synthetic.write_run(tmp_path / "targets", method, target, seed)
    for method, seed in (("source-only", 0), ("tsvdnet", 1)):
        synthetic.write_run(tmp_path / "seeds", method, "mm", seed)
    for preset in ("e", "et", ""):
        synthetic.write_run(tmp_path / "bare", "tsvdnet", "mm", 0, preset=preset)
    arrays("bare", noise_domain=np.array("mt"))
    both = ["source-only", "tsvdnet"]
    raises("have no target in common", lambda: draw("targets", "tsne", methods=both))
    raises("have no seed in common", lambda: draw("seeds", "tsne", methods=both))
    raises("has no single feature space", lambda: draw("bare", "tsne", methods=["tsvdnet"]))
    raises("no matrices of the same domains", lambda: draw("bare", "similarity"))
    raises("holds no uncertainty", lambda: draw("bare", "uncertainty"))
    for run in (tmp_path / "bare").glob("*/*/*"):
        rows = [{**row, "probes": {}} for row in records.read_curve(run)]
        records.write_curve(run, rows)
    raises("hold no probe of the tensor nuclear norm", lambda: draw("bare", "tnn"))
    empty = records.load(tmp_path / "none")
    raises("There are no finished runs to rank", lambda: figures.draw("critical-difference", empty, None))


def test_tables_say_what_they_have_nothing_to_show_of(tmp_path: Path, small: Small) -> None:
    small.execute(small.spec(), tmp_path / "small")
    own = load_suite(str(small.suite))
    raises("No printed numbers are known", lambda: tables.make("reported", records.load(tmp_path / "small"), own))
    run = synthetic.write_run(tmp_path / "bare")

    def without_classes(document: dict[str, Any]) -> None:
        document["per_class"] = document["statistics"]["target"]["per_class"] = []

    forge(run, without_classes)
    raises(
        "holds accuracies by class",
        lambda: tables.make("per-class", records.load(tmp_path / "bare"), load_suite("digits")),
    )


def test_a_claim_with_an_unknown_test_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmark.analysis import verdict

    claim = paper_claims.Claim("x", "a sentence", "Table 1", "astrology", suite="digits")
    monkeypatch.setattr(verdict, "claims", lambda: [claim])
    raises("There is no test", lambda: verdict.judge(records.load(tmp_path)))


def test_a_tracker_that_cannot_take_finished_runs_is_said(tmp_path: Path) -> None:
    from benchmark.records.track import export

    synthetic.write_run(tmp_path)
    bad = f"{Path(__file__).parent / 'watchers.py'}:Raises"
    raises("The tracker Raises could not take the runs: ValueError", lambda: export.write(tmp_path, bad))
