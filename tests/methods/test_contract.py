"""The contract, for every method and every preset: what the loop relies on and no single method may break."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchmark.__main__ import main
from benchmark.run import execute
from benchmark.run.stages import divide
from benchmark.spec import RunSpec
from methods.contract import BUILT_IN, FullPass, LabeledBatch, Method, UnlabeledBatch, Views, build_hparams, load_method
from tests.methods.small import batches, task

UPDATES = 3  # of each stage, in these tests
FEWER_ROUNDS = {"dctn": {"rounds": 2}}  # DCTN has two stages a round; two rounds have one of every kind twice
# every target image has a label by either rule, so A ≠ 0 from update 1
AT_ONCE = {"tsvdnet": {"tau": 0.0, "max_entropy": 10.0, "lam": 0.01}}

NAMES = [name for name, _, _ in BUILT_IN]
ROWS = [(name, preset) for name in NAMES for preset in ("", *load_method(name).presets)]
every_row = pytest.mark.parametrize("name, preset", ROWS, ids=[f"{n}:{p}" if p else n for n, p in ROWS])


# -- training by hand, as the loop does it ----------------------------------------------------------------------------


class Pass(FullPass):
    """A full pass over a domain of two batches."""

    def __init__(self, *parts: LabeledBatch | UnlabeledBatch) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __len__(self) -> int:
        return sum(len(part.images) for part in self._parts)


class Trainer:
    """A method, its data and the number of the update: the loop without data, time and disk."""

    def __init__(self, name: str, preset: str, *, seed: int = 0, shift: float = 0.0) -> None:
        cls = load_method(name)
        self.number = 3 if cls.standards[0] == "multi-source" else 1
        layers = (FEWER_ROUNDS.get(name, {}), AT_ONCE.get(name, {}), cls.presets.get(preset, {}))
        self.method = cls(task(self.number, seed), build_hparams(cls, *layers))
        self.shift, self.t = shift, 0

    def data(self, seed: int) -> tuple[list[LabeledBatch], UnlabeledBatch]:
        sources, target = batches(self.number, seed=seed)
        return sources, UnlabeledBatch(target.images * (1 + self.shift) + self.shift)

    def enter(self, stage: str) -> None:
        (s1, t1), (s2, t2) = self.data(1000), self.data(1001)
        torch.manual_seed(0)
        self.method.enter(stage, Views([Pass(a, b) for a, b in zip(s1, s2, strict=True)], Pass(t1, t2)))

    def update(self, progress: float) -> dict[str, Tensor]:
        torch.manual_seed(self.t)
        terms = self.method.update(*self.data(self.t), progress)
        self.t += 1
        return terms

    def train(self, look: Callable[[dict[str, Tensor]], None] = lambda terms: None) -> Trainer:
        """All stages; `look` sees what every update returns."""
        for stage, _ in self.method.stages():
            self.enter(stage)
            for i in range(UPDATES):
                look(self.update(i / UPDATES))
        return self


@cache
def trained(name: str, preset: str) -> Method:
    """Trained once for all tests that only look at the end of it."""
    return Trainer(name, preset).train().method


def weights(method: Method) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in nn.Module.state_dict(method).items()}


def same(a: Any, b: Any) -> bool:
    """Equal to the last bit, whatever is nested in whatever."""
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


# -- updates ----------------------------------------------------------------------------------------------------------


@every_row
def test_every_stage_runs_and_returns_finite_terms_that_hold_no_graph(name: str, preset: str) -> None:
    def look(terms: dict[str, Tensor]) -> None:
        given = terms.pop("pseudo_labels", None)
        assert terms
        for key, value in terms.items():
            assert value.shape == (), key
            assert torch.isfinite(value), key
            assert not value.requires_grad, key
        if given is not None:
            assert given.shape == (8,)
            assert given.dtype == torch.int64
            assert bool(((given >= -1) & (given < 4)).all())

    trainer = Trainer(name, preset).train(look)
    assert all(bool(torch.isfinite(v).all()) for v in weights(trainer.method).values() if v.is_floating_point())


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
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(name: str, preset: str) -> None:
    first, (again, other) = trained(name, preset), (Trainer(name, preset, seed=seed).train().method for seed in (0, 1))
    assert same(first.state_dict(), again.state_dict())
    assert not same(weights(first), weights(other))


@every_row
def test_an_update_leaves_its_batches_alone(name: str, preset: str) -> None:
    trainer = Trainer(name, preset)
    for stage, _ in trainer.method.stages():
        trainer.enter(stage)
        sources, target = trainer.data(0)
        trainer.method.update(sources, target, 0.0)
        fresh, fresh_target = trainer.data(0)
        assert torch.equal(target.images, fresh_target.images)
        assert all(torch.equal(a.images, b.images) for a, b in zip(sources, fresh, strict=True))


@every_row
def test_target_images_reach_the_weights_unless_the_method_says_they_do_not(name: str, preset: str) -> None:
    plain, shifted = trained(name, preset), Trainer(name, preset, shift=0.5).train().method
    assert same(weights(plain), weights(shifted)) is not plain.forwards_target


# -- checkpoints ------------------------------------------------------------------------------------------------------


@every_row
def test_a_checkpoint_in_any_stage_goes_on_bit_for_bit(name: str, preset: str) -> None:
    """After the first and after the last update of every stage: save, load into a new method, take the next step."""
    trainer = Trainer(name, preset)
    stages = [stage for stage, _ in trainer.method.stages()]
    for number, stage in enumerate(stages):
        trainer.enter(stage)
        for i in range(2):
            trainer.update(i / 2)
            resumed = Trainer(name, preset)
            resumed.t = trainer.t
            resumed.method.load_state_dict(through_a_file(trainer.method.state_dict()))
            assert resumed.method.stage == stage
            assert same(resumed.method.state_dict(), trainer.method.state_dict())
            images = batches(seed=5)[1].images
            assert torch.equal(resumed.method.predict(images), trainer.method.predict(images))
            uninterrupted = through_a_file(trainer.method.state_dict())
            if i == 1 and number + 1 < len(stages):
                for t in (trainer, resumed):
                    t.enter(stages[number + 1])
            t_before = trainer.t
            terms = [t.update(0.5) for t in (trainer, resumed)]
            assert same(*terms)
            assert same(resumed.method.state_dict(), trainer.method.state_dict())
            trainer.method.load_state_dict(uninterrupted)  # back to where the stage stood
            trainer.t = t_before


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


# -- predictions ------------------------------------------------------------------------------------------------------


@every_row
def test_predictions_are_probabilities_that_do_not_depend_on_their_batch(name: str, preset: str) -> None:
    """In every stage; nothing moves, no random number is drawn, the training flags stay as they were."""
    trainer = Trainer(name, preset)
    method = trainer.method
    images = torch.cat([b.images for b in batches(seed=9)[0]])
    for stage, _ in method.stages():
        trainer.enter(stage)
        trainer.update(0.0)
        before, flags = through_a_file(method.state_dict()), [m.training for m in method.modules()]
        rng = torch.get_rng_state()
        whole = method.predict(images)
        assert torch.equal(torch.get_rng_state(), rng)
        assert [m.training for m in method.modules()] == flags
        assert same(through_a_file(method.state_dict()), before)
        assert whole.shape == (len(images), 4)
        assert bool((whole >= 0).all())
        assert not whole.requires_grad
        torch.testing.assert_close(whole.sum(1), torch.ones(len(images)), atol=1e-5, rtol=0)
        alone = torch.cat([method.predict(x) for x in images.split(1)])
        torch.testing.assert_close(alone, whole, atol=1e-5, rtol=0)
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(method.predict(images[order]), whole[order], atol=1e-5, rtol=0)
        features = method.features(images)
        if features is not None:
            assert features.shape[0] == len(images)
            assert features.dim() == 2


# -- declarations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_declarations_are_sound(name: str) -> None:
    cls = load_method(name)
    defaults = dataclasses.asdict(cls.HParams())
    assert cls.name == name
    assert cls.title
    assert cls.standards
    assert "lr_scale" in cls.ranges
    for key, range_ in cls.ranges.items():
        assert key in defaults, key
        inside = defaults[key] in range_.choices if range_.choices else range_.low <= defaults[key] <= range_.high
        assert inside, f"the default of {key} lies outside its tuning range"
    shares = [share for _, share in Trainer(name, "").method.stages()]
    assert sum(shares) == pytest.approx(1)
    assert all(share > 0 for share in shares)


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

SUITE = """
name = "small"
title = "Three small domains"
protocol = 1
reader = "digits"
classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
columns = ["a", "b", "c"]
default_tier = "lite"
domains = [
    { id = "a", name = "a", title = "A" }, { id = "b", name = "b", title = "B" }, { id = "c", name = "c", title = "C" },
]
[tiers.lite]
data = "prepared"
batch = 6
updates = 12
eval_points = 2
val_images = 10
unsup_images = 20
network = { name = "conv3fc2", width = 0.03125 }
optimiser = { lr_extractor = 5e-4, lr_classifier = 5e-4 }
"""


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two data folders, the same to the last pixel; in one of them all labels of the target are permuted."""
    root = tmp_path_factory.mktemp("worlds")
    (root / "small.toml").write_text(SUITE)
    for world in ("true", "permuted"):
        (root / world / "digits").mkdir(parents=True)
        for shift, domain in enumerate("abc"):
            rng = np.random.default_rng(shift)
            arrays = {}
            for part, count in (("train", 60), ("test", 30)):
                labels = np.arange(count) % 10
                base = rng.integers(0, 120, (count, 32, 32, 3)) + 10 * labels[:, None, None, None] + 15 * shift
                if world == "permuted" and domain == "c":
                    labels = np.random.default_rng(7).permutation(labels)
                arrays |= {f"x_{part}": base.astype(np.uint8), f"y_{part}": labels.astype(np.int64)}
            np.savez(root / world / "digits" / f"{domain}.npz", **arrays)
    return {
        "suite": root / "small.toml",
        "true": root / "true",
        "permuted": root / "permuted",
        "results": root / "runs",
    }


@every_row
def test_permuted_target_labels_change_no_weight_and_no_label_free_score(
    name: str, preset: str, worlds: dict[str, Path]
) -> None:
    """Through the loop itself, data reader to record: only the scores that may read target labels differ."""
    overrides = tuple(FEWER_ROUNDS.get(name, {}).items())
    spec = RunSpec(str(worlds["suite"]), "lite", name, preset, target="c", overrides=overrides)
    true, permuted = (
        execute(spec, results=worlds["results"] / world, data_root=worlds[world]).document
        for world in ("true", "permuted")
    )
    assert true["weights"] == permuted["weights"]
    assert true["data"]["fingerprint"] != permuted["data"]["fingerprint"]
    assert true["selected"]["unsup"] == permuted["selected"]["unsup"]
    assert true["losses"] == permuted["losses"]


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
