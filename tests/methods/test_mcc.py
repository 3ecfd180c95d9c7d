"""MCC: the worked examples, the textbook's loops, the floor of absent classes, and what the record and `explain` say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmark.__main__ import main
from benchmark.cli.explain import facts_of
from methods.contract import build_hparams, load_method
from methods.errors import MethodError
from methods.mcc import MCC, class_confusion, histogram, pushes
from methods.source_only import source_loss
from tests.methods.small import batches, build

LOGITS = [[2.0, 0, 0], [0, 1, 0], [0, 0.5, 1.5], [3, 1, 0]]


def logits(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64, requires_grad=True)


def textbook(z: Tensor, temperature: float) -> Tensor:
    """Entry by entry; every column divided by the sum of the row of that number, as the first release has it."""
    number, classes = z.shape
    y = [[(z[i, c] / temperature).exp() for c in range(classes)] for i in range(number)]
    y = [[e / sum(row) for e in row] for row in y]
    certain = []
    for row in y:
        h = -sum(p.item() * math.log(p.item() + 1e-5) for p in row)
        certain.append(1 + math.exp(-h))
    w = [number * c / sum(certain) for c in certain]
    k = [[sum(w[i] * y[i][c] * y[i][d] for i in range(number)) for d in range(classes)] for c in range(classes)]
    sums = [sum(row) for row in k]
    off = [k[c][d] / sums[d] for c in range(classes) for d in range(classes) if c != d]
    return sum(off) / classes


# -- the formula ------------------------------------------------------------------------------------------------------


def test_worked_example_at_temperature_one_with_its_gradient() -> None:
    z = logits(LOGITS)
    loss = class_confusion(z, 1.0)
    assert loss.item() == pytest.approx(0.480458, abs=5e-7)
    wanted = [
        (-0.036438, 0.016863, 0.019576), (0.036164, -0.065053, 0.028889),
        (0.032481, 0.032660, -0.065141), (-0.033130, 0.021727, 0.011403),
    ]  # fmt: skip
    torch.testing.assert_close(torch.autograd.grad(loss, z)[0], torch.tensor(wanted).double(), atol=5e-7, rtol=0)


def test_worked_example_at_temperature_two_and_a_half() -> None:
    z = logits(LOGITS)
    loss = class_confusion(z, 2.5)
    assert loss.item() == pytest.approx(0.631717, abs=5e-7)
    first = torch.autograd.grad(loss, z)[0][0]
    torch.testing.assert_close(first, torch.tensor([-0.007851, 0.004061, 0.003790]).double(), atol=5e-7, rtol=0)


def test_uniform_certain_and_one_class_batches() -> None:
    assert class_confusion(torch.zeros(4, 3), 1.0).item() == pytest.approx(2 / 3, abs=1e-6)
    assert class_confusion(20 * torch.eye(3).double(), 1.0).item() == pytest.approx(8.2e-9, abs=5e-11)
    for temperature in (1.0, 2.5):
        assert class_confusion(logits([[20, 0, 0]] * 2), temperature).item() == pytest.approx(0.666667, abs=5e-7)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_value_and_gradient_are_those_of_the_textbook_s_loops(temperature: float) -> None:
    z = (3 * torch.randn(7, 5, dtype=torch.float64)).requires_grad_()
    ours, theirs = class_confusion(z, temperature), textbook(z, temperature)
    torch.testing.assert_close(ours, theirs, atol=1e-13, rtol=0)
    gradients = [torch.autograd.grad(loss, z)[0] for loss in (ours, theirs)]
    torch.testing.assert_close(*gradients, atol=1e-13, rtol=0)


def test_a_batch_of_k_certain_classes_costs_c_minus_k_over_c() -> None:
    assert class_confusion(100 * torch.eye(10).double()[:4], 1.0).item() == pytest.approx(0.6, abs=1e-9)
    many = 20 * torch.eye(345).double()[:36]
    assert class_confusion(many, 1.0).item() == pytest.approx(0.8957, abs=5e-5)
    assert class_confusion(many, 2.5).item() == pytest.approx(0.9073, abs=5e-5)


def test_the_floor_pushes_absent_classes_down_and_hardly() -> None:
    own, other, absent = pushes(10, 4, 8, 2.5)
    assert own == pytest.approx(-4.1e-3, abs=5e-5)
    assert other == pytest.approx(9.4e-4, abs=5e-6)
    assert absent == pytest.approx(2.2e-4, abs=5e-6)


def test_a_class_of_probability_zero_is_wholly_confused_and_leaves_finite_gradients() -> None:
    """In single precision exp(−200) is 0: the released form divides 0 by 0 there."""
    z = torch.tensor([[200.0, 0, 0], [0.0, 200, 0]], requires_grad=True)
    loss = class_confusion(z, 1.0)
    assert loss.item() == pytest.approx(1 / 3, abs=1e-6)
    assert bool(torch.isfinite(torch.autograd.grad(loss, z)[0]).all())


def test_half_precision_is_computed_in_single() -> None:
    z = torch.tensor(LOGITS)
    with torch.autocast("cpu", torch.bfloat16):
        loss = class_confusion(z.bfloat16(), 2.5)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, class_confusion(z, 2.5), atol=1e-6, rtol=0)  # these logits are exact in bfloat16


# -- the method -------------------------------------------------------------------------------------------------------


def test_the_update_descends_ce_plus_weight_times_confusion_and_nothing_else() -> None:
    sources, target = batches()
    method = build("mcc", weight=3.0, temperature=1.5)
    torch.manual_seed(0)
    features, f_t = method.forward_all(sources, target)
    loss = source_loss([method.classifier(f) for f in features], sources)
    loss = loss + 3.0 * class_confusion(method.classifier(f_t), 1.5)
    parameters = [*method.extractor.parameters(), *method.classifier.parameters()]
    wanted = torch.autograd.grad(loss, parameters)
    torch.manual_seed(0)
    method.update(sources, target, 0.5)
    for p, g in zip(parameters, wanted, strict=True):
        torch.testing.assert_close(p.grad, g, atol=1e-6, rtol=1e-4)


def test_the_record_has_the_classes_of_the_last_batch_and_the_mean_over_the_run() -> None:
    method = build("mcc")
    assert method.diagnostics()["mean_classes_present"] == 0
    counts = []
    for t in range(4):
        counts.append(method.update(*batches(seed=t), t / 4)["classes_present"].item())
    found = method.diagnostics()
    assert sum(found["predicted"]) == 8
    assert found["classes_present"] == counts[-1] == sum(n > 0 for n in found["predicted"])
    assert found["mean_classes_present"] == pytest.approx(sum(counts) / 4)
    assert found["floor"] == pytest.approx(1 - sum(counts) / 16)
    assert histogram(torch.eye(4)[[2, 2, 0]]).tolist() == [1, 0, 2, 0]


def test_remarks_tell_of_a_floor_and_of_collapse_alone() -> None:
    method = build("mcc")
    assert method.remarks({"floor": 0.4, "classes_present": 3}) == []
    (floor,) = method.remarks({"floor": 0.6, "classes_present": 3})
    assert "more than half of the classes" in floor
    (collapse,) = method.remarks({"floor": 0.4, "classes_present": 1})
    assert "collapsed" in collapse


def test_a_temperature_that_is_not_positive_is_refused() -> None:
    with pytest.raises(MethodError, match="temperature divides the logits: above 0, not 0"):
        build("mcc", temperature=0.0)


# -- before anything is trained ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "suite, classes, batch, least, mean",
    [("digits", 10, 128, 0.0, (9 / 10) ** 128), ("pacs", 7, 16, 0.0, (6 / 7) ** 16),
     ("domainnet", 345, 16, 329 / 345, (344 / 345) ** 16)],
)  # fmt: skip
def test_explain_has_the_floor_at_the_suite_s_classes_and_batch(
    suite: str, classes: int, batch: int, least: float, mean: float
) -> None:
    numbers = MCC.explain(facts_of(suite, "mcc")).numbers
    assert (numbers["classes"], numbers["batch"]) == (classes, batch)
    assert numbers["least_floor"] == pytest.approx(least)
    assert numbers["mean_floor"] == pytest.approx(mean)
    assert numbers["row_weight"] == pytest.approx(1 / classes)
    assert numbers["weight_that_makes_up"] == pytest.approx(1 / (1 - mean))


def test_the_mean_floor_is_that_of_drawn_batches() -> None:
    drawn = [len(set(torch.randint(12, (16,)).tolist())) for _ in range(4000)]
    numbers = MCC.explain(facts_of("domainnet", "mcc", tier="mini")).numbers
    assert (numbers["classes"], numbers["batch"]) == (12, 16)
    assert numbers["mean_present"] == pytest.approx(sum(drawn) / 4000, abs=0.1)


def test_the_verb_speaks_draws_and_names_the_disputes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["explain", "mcc", "--suite", "domainnet", "--results", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    said = " ".join(found["words"])
    assert "at most 16 of them: 0.9536 that no training can lower" in said
    assert "1/C = 0.0029" in said
    assert len(found["figures"]) == 2
    assert main(["explain", "mcc", "--suite", "digits", "--no-figure", "--set", "temperature=1"]) == 0
    assert "T = 1, μ = 1" in " ".join(capsys.readouterr().out.split())
    assert main(["explain", "mcc", "--choices"]) == 0
    assert "--set mcc.weight=10.0" in " ".join(capsys.readouterr().out.split())
    figure = Figure()
    MCC.explain(facts_of("pacs", "mcc")).draw(figure)
    assert figure.axes[0].get_title() == "C = 7 classes"


@pytest.mark.parametrize("name", ["mcc", "cdan", "simpal"])
def test_every_disputed_option_exists_and_is_not_the_default(name: str) -> None:
    cls = load_method(name)
    for dispute in cls.disputes:
        assert bool(dispute.changes) != bool(dispute.settled), dispute.id
        changed = build_hparams(cls, dispute.changes)
        assert (changed != cls.HParams()) == bool(dispute.changes), dispute.id
