"""The contract, for every method and every preset: what the loop relies on and no single method may break."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from benchmark.__main__ import main
from benchmark.run.check import CLAIMS, check, toy
from benchmark.run.check.memory import difference
from benchmark.run.check.runs import Worlds, labels_cannot_matter, runs_in
from benchmark.run.check.toy import UPDATES
from benchmark.run.stages import divide
from methods.contract import BUILT_IN, Method, build_hparams, load_method
from tests.methods.small import TOY, batches

FEWER_ROUNDS = {"dctn": {"rounds": 2}}  # DCTN has two stages a round; two rounds have one of every kind twice
# every target image has a label by either rule, so A ≠ 0 from update 1
AT_ONCE = {"tsvdnet": {"tau": 0.0, "max_entropy": 10.0, "lam": 0.01}, "ltc-msda": {"max_entropy": 10.0}}
CHANGES = {**FEWER_ROUNDS, **AT_ONCE}

NAMES = [name for name, _, _ in BUILT_IN]
ROWS = [(name, preset) for name in NAMES for preset in ("", *load_method(name).presets)]
every_row = pytest.mark.parametrize("name, preset", ROWS, ids=[f"{n}:{p}" if p else n for n, p in ROWS])


class Trainer(toy.Trainer):
    """A method of this repository on the small task of these tests."""

    def __init__(self, name: str, preset: str, *, seed: int = 0, shift: float = 0.0) -> None:
        cls = load_method(name)
        hparams = build_hparams(cls, CHANGES.get(name, {}), cls.presets.get(preset, {}))
        sources = 3 if cls.standards[0] == "multi-source" else 1
        super().__init__(lambda task: cls(task, hparams), TOY, sources, seed=seed, shift=shift)


@cache
def trained(name: str, preset: str) -> Method:
    """Trained once for all tests that only look at the end of it."""
    return Trainer(name, preset).train().method


def weights(method: Method) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in nn.Module.state_dict(method).items()}


# -- the check that anyone can run on a method of their own -----------------------------------------------------------


@every_row
def test_it_passes_the_check(name: str, preset: str) -> None:
    changes = {k: v for k, v in CHANGES.get(name, {}).items() if k not in load_method(name).presets.get(preset, {})}
    found = [*check(name, preset, toy=TOY, changes=changes, in_the_loop=False)]
    assert [f for f in found if not f.holds] == []
    several = {"sources"} if "multi-source" in load_method(name).standards else set()
    assert {f.claim for f in found} == set(CLAIMS) - {"standards", "labels", "sources"} | several


# -- updates ----------------------------------------------------------------------------------------------------------


@every_row
def test_terms_hold_no_graph(name: str, preset: str) -> None:
    def look(terms: dict[str, Tensor]) -> None:
        assert terms
        assert not any(value.requires_grad for value in terms.values())

    Trainer(name, preset).train(look)


@every_row
def test_every_trained_parameter_moves_and_no_other_does(name: str, preset: str) -> None:
    """Trained is what an optimiser holds; a copy that a stage begins with (a labeller) changes in `begin` alone."""
    trainer = Trainer(name, preset)
    method = trainer.method
    trained = {id(p) for o in method.optimisers.values() for group in o.param_groups for p in group["params"]}
    names = {n: id(p) in trained for n, p in method.named_parameters()}
    moved: set[str] = set()
    for stage, _ in method.stages():
        trainer.enter(stage)
        before = weights(method)
        for i in range(UPDATES):
            trainer.update(i / UPDATES)
        moved |= {n for n in names if not torch.equal(before[n], method.get_parameter(n))}
    assert moved == {n for n, wanted in names.items() if wanted}


@every_row
def test_target_images_reach_the_weights_unless_the_method_says_they_do_not(name: str, preset: str) -> None:
    plain, shifted = trained(name, preset), Trainer(name, preset, shift=0.5).train().method
    assert bool(difference(weights(plain), weights(shifted))) is plain.forwards_target


# -- declarations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_it_has_its_name_its_title_and_a_learning_rate_to_tune(name: str) -> None:
    cls = load_method(name)
    assert cls.name == name
    assert cls.title
    assert "lr_scale" in cls.ranges


@pytest.mark.parametrize("name, preset", [row for row in ROWS if row[1]], ids=[f"{n}:{p}" for n, p in ROWS if p])
def test_a_preset_changes_what_comes_out(name: str, preset: str) -> None:
    """No dead switches."""
    images = batches(seed=9)[1].images
    assert not torch.equal(trained(name, "").predict(images), trained(name, preset).predict(images))


def test_stages_of_every_method_get_their_share_of_a_small_budget() -> None:
    for name in NAMES:
        stages = Trainer(name, "").method.stages()
        parts = divide(stages, 30, "shared")
        assert [p.start for p in parts[1:]] == [p.stop for p in parts[:-1]]
        assert parts[-1].stop == 30
        assert all(p.stop > p.start for p in parts), name


# -- the real loop ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    """Two data folders, the same to the last pixel; in one of them all labels of the target are permuted."""
    return Worlds(tmp_path_factory.mktemp("worlds"), domains=3)


@every_row
def test_permuted_target_labels_change_no_weight_and_no_label_free_score(
    name: str, preset: str, worlds: Worlds
) -> None:
    """Through the loop itself, data reader to record: only the scores that may read target labels differ."""
    standard = load_method(name).standards[0]
    assert [*labels_cannot_matter(worlds, name, preset, standard, overrides=FEWER_ROUNDS.get(name, {}))] == []


@pytest.mark.parametrize("name", [name for name in NAMES if len(load_method(name).standards) > 1])
def test_a_run_succeeds_in_every_standard_that_is_named(name: str, worlds: Worlds) -> None:
    standards = load_method(name).standards[1:]  # the first stands above
    assert [*runs_in(worlds, name, "", standards, overrides=FEWER_ROUNDS.get(name, {}))] == []


# -- what stands outside the harness ----------------------------------------------------------------------------------

EVERY_MODULE = """
import importlib, pkgutil, sys
import methods, tsvdnet
for package in (methods, tsvdnet):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
print(*sorted(name for name in sys.modules if name.partition(".")[0] == "benchmark"))
"""


def test_methods_and_tsvdnet_import_nothing_of_the_benchmark() -> None:
    found = subprocess.run([sys.executable, "-c", EVERY_MODULE], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_an_option_that_a_method_refuses_is_a_sentence_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "--suite", "digits", "--methods", "tsvdnet", "--targets", "mm", "--set", "tsvdnet.prox=papper"]
    assert main(arguments) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("There is no value of tsvdnet.prox 'papper'. Did you mean 'paper'? Allowed: paper, code,")
    assert "Traceback" not in said
