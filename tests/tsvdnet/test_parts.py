"""The parts with a network of one's own: the example at the head of the package, as it stands there; and the terms."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tsvdnet
from tsvdnet import objective
from tsvdnet.auxiliary import Auxiliary, NuclearNorm, proximal
from tsvdnet.prototypes import Prototypes, entropy


def example() -> str:
    """The code between the first indented line of the docstring and the next paragraph of prose."""
    lines = (tsvdnet.__doc__ or "").splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("    "))
    last = next(i for i, line in enumerate(lines) if i > first and line and not line.startswith(" "))
    return textwrap.dedent("\n".join(lines[first:last]))


def batches(number: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Three clusters; those of the target are moved a little."""
    g = torch.Generator().manual_seed(0)
    centres, found = 3 * torch.randn(3, 5, generator=g), []
    for _ in range(number):
        y, y_target = (torch.randint(3, (24,), generator=g) for _ in range(2))
        x, noise = (0.3 * torch.randn(24, 5, generator=g) for _ in range(2))
        found.append((centres[y] + x, y, centres[y_target] + 0.2 + noise))
    return found


def test_the_example_of_the_package_runs_as_it_stands_and_trains():
    torch.manual_seed(0)
    network, classifier = nn.Sequential(nn.Linear(5, 8), nn.ReLU()), nn.Linear(8, 3)
    optimiser = torch.optim.Adam([*network.parameters(), *classifier.parameters()], lr=0.05)
    names: dict[str, Any] = {
        "network": network, "classifier": classifier, "optimiser": optimiser, "batches": batches(120),
    }  # fmt: skip
    exec(example(), names)
    low_rank, prototypes, g = names["low_rank"], names["prototypes"], names["g"]
    assert low_rank.steps == 120
    assert low_rank.eta == pytest.approx(1e-5 * 1.1**120)
    assert prototypes.seen.tolist() == [1, 1]  # the target had confident samples
    torch.testing.assert_close(low_rank.A, proximal(g.detach(), "paper", 0.01, 1e-5 * 1.1**119))
    assert (low_rank.A != 0).any()
    assert names["loss"] < 0.5
    x, y, _ = names["batches"][-1]
    assert (classifier(network(x)).argmax(1) == y).float().mean() > 0.9


def test_the_example_is_about_ten_lines_within_its_loop_and_imports_the_package_alone():
    lines = example().splitlines()
    assert sum(line.startswith("    ") for line in lines) <= 10
    assert [line for line in lines if "import" in line] == [
        "from torch.nn import functional as F", "from tsvdnet import Auxiliary, Prototypes",
    ]  # fmt: skip


# -- the terms -----------------------------------------------------------------------------------------------------


def seen(labels: list[int]) -> objective.Seen:
    p = torch.tensor([[0.7, 0.3], [0.9, 0.1]], dtype=torch.float64)
    logits = [torch.tensor([[2.0, 0.0], [0.0, 1.0]], dtype=torch.float64), p.log()]
    return objective.Seen(torch.zeros(4, 3), logits, (), [torch.tensor([0, 0]), torch.tensor(labels)], p)


def test_entropy_is_that_of_the_confident_or_of_all():
    both, nobody = seen([0, -1]), seen([-1, -1])
    h = entropy(both.p)
    confident = objective.TargetEntropy(2.0, confident_only=True, over_classes=False, epsilon=0.0)
    torch.testing.assert_close(confident(both, h), 2 * h[0])
    assert confident(nobody, h) == 0
    every = objective.TargetEntropy(1.0, confident_only=False, over_classes=True, epsilon=0.0)
    torch.testing.assert_close(every(nobody, h), h.mean() / 2)


def test_cross_entropy_is_of_the_sources_alone():
    found = objective.CrossEntropy(torch.sum)(seen([0, 0]), torch.zeros(()))
    torch.testing.assert_close(found, nn.functional.cross_entropy(seen([]).logits[0], torch.tensor([0, 0])))


@pytest.mark.parametrize("target, moves", [([-1, -1], False), ([0, 1], True)])
def test_a_gated_tensor_term_tells_its_value_and_moves_nothing_before_the_first_pseudo_label(target, moves):
    for penalty in (NuclearNorm(1.0), Auxiliary(2, 2, lam=1.0)):
        f, found = torch.rand(4, 3, generator=torch.Generator().manual_seed(0)).requires_grad_(), {}
        for gate in (False, True):
            memory = Prototypes(2, 2, 3, kernel_dim=0, gamma=1.0)
            prototypes = memory.update(f, [torch.tensor([0, 1]), torch.tensor(target)])
            found[gate] = objective.TensorTerm(memory, penalty, gate)(seen(target), prototypes)
        assert found[True] == found[False]
        (gradient,) = torch.autograd.grad(found[True], f, retain_graph=True)
        assert bool(gradient.any()) == moves
