"""Statistics at test: the target's, by plain averages, for every layer that a prediction passes, and nothing left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.modules.batchnorm import _BatchNorm

from benchmark.run import execute
from benchmark.run.score.evaluate import Evaluator
from benchmark.run.score.share import target_share
from benchmark.run.score.statistics import target_statistics
from benchmark.spec import RunSpec, resolve
from methods.contract import Method
from tests.methods import small
from tests.tiny import tiny

ALL = ["source-only", "dan", "dann", "coral", "adda", "mcd", "jan", "rtn", "mdan", "mdda", "dctn", "m3sda", "tsvdnet"]


def trained(name: str) -> Method:
    """A method after a few updates, in its last stage, so that its running statistics are its loop's."""
    method = small.build(name)
    sources, target = small.batches()
    method.train()
    method.stage = method.stages()[-1][0]
    if name in ("dan", "dann", "coral", "adda", "mcd", "jan", "rtn"):
        method.stage = method.stages()[0][0]
    for step in range(3):
        method.update(sources, target, step / 3)
    return method


def norms(method: Method) -> dict[str, _BatchNorm]:
    return {n: m for n, m in method.named_modules() if isinstance(m, _BatchNorm)}


def target_images(count: int = 3) -> list[torch.Tensor]:
    return [small.batches(seed=10 + i)[1].images for i in range(count)]


@pytest.mark.parametrize("name", ALL)
def test_the_method_is_bit_identical_afterwards_and_no_generator_moved(name: str) -> None:
    method = trained(name)
    before = {k: v.clone() for k, v in torch.nn.Module.state_dict(method).items()}
    flags = [(m.training, getattr(m, "momentum", 0)) for m in method.modules()]
    random, images = torch.get_rng_state(), target_images()
    predicted = method.predict(images[0])
    with target_statistics(method, images) as changed:
        assert changed
        assert not torch.equal(method.predict(images[0]), predicted)
    after = torch.nn.Module.state_dict(method)
    assert all(torch.equal(after[k], before[k]) for k in before)
    assert [(m.training, getattr(m, "momentum", 0)) for m in method.modules()] == flags
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.equal(method.predict(images[0]), predicted)


def test_an_error_within_puts_everything_back() -> None:
    method = trained("mcd")
    before = {k: v.clone() for k, v in torch.nn.Module.state_dict(method).items()}
    with pytest.raises(ZeroDivisionError), target_statistics(method, target_images()):
        raise ZeroDivisionError
    assert all(torch.equal(v, before[k]) for k, v in torch.nn.Module.state_dict(method).items())


def test_the_first_layer_has_the_plain_average_of_means_and_unbiased_variances() -> None:
    method, images = trained("source-only"), target_images()
    linear, norm = method.extractor.trunk[0], method.extractor.trunk[1]  # type: ignore[union-attr, index]
    outputs = [linear(x).detach() for x in images]
    with target_statistics(method, images):
        mean = sum(o.mean(0) for o in outputs) / len(outputs)
        variance = sum(o.var(0, unbiased=True) for o in outputs) / len(outputs)
        torch.testing.assert_close(norm.running_mean, mean)
        torch.testing.assert_close(norm.running_var, variance)


@pytest.mark.parametrize(
    "name, passed",
    [("mcd", ("extractor.trunk", "heads.0", "heads.1")), ("mdda", tuple(f"target_encoders.{m}" for m in range(3)))],
)
def test_heads_and_all_extractors_on_the_way_are_estimated_and_no_other(name: str, passed: tuple[str, ...]) -> None:
    method = trained(name)
    before = {n: m.running_mean.clone() for n, m in norms(method).items()}  # type: ignore[union-attr]
    with target_statistics(method, target_images()):
        moved = {n for n, m in norms(method).items() if not torch.equal(m.running_mean, before[n])}  # type: ignore[arg-type]
    assert moved
    assert all(name.startswith(passed) for name in moved)
    assert {p for p in passed if any(m.startswith(p) for m in moved)} == set(passed)


def test_a_network_without_batch_norm_is_scored_once_and_says_so() -> None:
    method = small.build("source-only")
    for parent in (method.extractor.trunk, method.extractor.last):  # type: ignore[union-attr]
        parent[1] = torch.nn.Identity()  # type: ignore[index]
    with target_statistics(method, target_images()) as changed:
        assert not changed


def test_an_evaluation_twice_gives_the_same_bits_and_the_loop_s_own_statistics_stand_beside(tmp_path: Path) -> None:
    rows = []
    score = Evaluator.row

    def twice(self: Evaluator, method: Method) -> dict:
        rows.append((score(self, method), score(self, method)))
        return rows[-1][0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Evaluator, "row", twice)
        record = execute(tiny("mcd"), results=tmp_path)
    assert len(rows) == 4
    for first, second in rows:
        assert first == second
        assert first["statistics"]["target"]["unsup"] != first["unsup"]
    assert record["statistics"]["target"]["accuracy"]["last"] == rows[-1][0]["statistics"]["target"]["target"]


@pytest.mark.parametrize(
    "name, standard, share",
    [
        ("source-only", "", 0.0), ("source-only:bn", "", 0.2442), ("tsvdnet", "", 0.2442), ("tsvdnet:code", "", 0.2442),
        ("mdan", "", 0.2442), ("dctn", "", 0.2442), ("dan", "", 0.5263), ("dann", "", 0.5263), ("coral", "", 0.5263),
        ("jan", "", 0.5263), ("rtn", "", 0.5263), ("m3sda", "", 0.5188), ("mcd", "", 0.734), ("adda", "", 1.0),
        ("mdda", "", 1.0), ("source-only", "upper-bound", 1.0), ("source-only", "combined", 0.0), ("simpal", "", 0.2442),
        ("mcc", "", 0.5263), ("mcc", "multi-source", 0.2442), ("cdan", "", 0.5263),
    ],
)  # fmt: skip
def test_the_target_s_share_comes_out_of_the_loop(name: str, standard: str, share: float) -> None:
    method, _, preset = name.partition(":")
    spec = RunSpec("digits", "mini", method, preset, standard=standard, target="mm")
    assert target_share(resolve(spec)) == pytest.approx(share, abs=5e-5)


def test_a_share_follows_the_order_of_passes(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from methods.source_only import SourceOnly\n"
        "class First(SourceOnly):\n    name = 'first'\n"
        "    def update(self, sources, target, progress):\n"
        "        self.task.forward_domains([target.images])\n"
        "        return super().update(sources, target, progress)\n"
        "class Lost(First):\n    name = 'lost'\n"
        "    def update(self, sources, target, progress):\n"
        "        raise ValueError('only on real pictures')\n"
    )
    for cls, share in (("First", 0.1 * 0.9**4 / (1 - 0.9**5)), ("Lost", None)):
        found = target_share(resolve(RunSpec("digits", "mini", f"{file}:{cls}", target="mm")))
        assert found == (share if share is None else pytest.approx(share, abs=5e-5))
