"""LtC-MSDA: the official functions' numbers, slow textbook forms, the dead graph, and what each option does."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from methods.contract import LabeledBatch, UnlabeledBatch
from methods.errors import MethodError
from methods.ltc_audit import LIVE
from methods.ltc_msda import GCN, Graph, LtCMSDA, adjacency, averaged, extend, global_loss, kernel, local_loss
from tests.methods.small import CLASSES, batches, build, moved

SURE = {"max_entropy": 10.0}  # every target image has a pseudo label


def close(value: Tensor, expected: object, digits: float = 1e-6) -> None:
    torch.testing.assert_close(
        value.detach().double(), torch.tensor(expected, dtype=torch.float64), atol=digits, rtol=0
    )


def tensor(*rows: tuple[float, ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64, requires_grad=True)


# -- numbers of the official functions: C = 2, F = 2, D = 2, σ = 1, β = .7 --------------------------------------------


class First:
    """Source features (1, 0), (3, 0), (0, 2) of classes 0, 0, 1 and a target feature (2, 2) of class 0, from zero."""

    def __init__(self) -> None:
        self.features = tensor((1.0, 0.0), (3.0, 0.0), (0.0, 2.0), (2.0, 2.0))
        labels = [torch.tensor([0, 0, 1]), torch.tensor([0])]
        zero = torch.zeros(2, 2, 2, dtype=torch.float64)
        self.means, self.present, self.prototypes = averaged(zero, self.features, labels, 0.7)
        self.a = adjacency(self.prototypes, 1.0)
        self.local = local_loss(self.means, self.prototypes, self.present, 4)


class Second:
    """Then a source feature (4, 0) of class 0, and no target image with a label."""

    def __init__(self) -> None:
        old = First().prototypes.detach()
        labels = [torch.tensor([0]), torch.tensor([-1])]
        self.means, self.present, self.prototypes = averaged(old, tensor((4.0, 0.0), (9.0, 9.0)), labels, 0.7)
        self.a = adjacency(self.prototypes, 1.0)
        self.local = local_loss(self.means, self.prototypes, self.present, 1)


def test_f1_prototypes_adjacency_losses_and_their_gradients() -> None:
    f = First()
    close(f.prototypes.flatten(0, 1), [[0.599997, 0], [0, 0.599994], [0.599994, 0.599994], [0, 0]])
    close(f.a[[0, 0, 1, 2], [1, 2, 2, 3]], [0.835272, 0.913933, 0.913933, 0.835273])
    assert f.present.tolist() == [[True, True], [True, False]]
    close(f.local, 0.979983)
    close(global_loss(f.a, 2), 0.00906326, 1e-8)
    (of_local,) = torch.autograd.grad(f.local, f.features, retain_graph=True)
    close(of_local[[0, 3]], [[0.122499, 0], [0.244995, 0.244995]])
    (of_global,) = torch.autograd.grad(global_loss(f.a, 2), f.features)
    close(of_global[[2, 3]], [[0.000371, 0.008662], [-0.000371, 0.008661]])


def test_f2_absent_classes_keep_their_prototypes() -> None:
    f = Second()
    close(f.prototypes.flatten(0, 1), [[1.619986, 0], [0, 0.599994], [0.599994, 0.599994], [0, 0]])
    close(f.local, 2.832138)
    close(global_loss(f.a, 2), 0.125278)
    s = kernel(f.prototypes.flatten(0, 1), tensor((1.0, 1.0)), 1.0)
    graph = extend(f.a, s, two_way=True, normalised=False)
    close(torch.cat([graph.query[0], graph.own[0]]), [0.707445, 0.748263, 0.923114, 0.606531, 1])


def test_f3_the_graph_network() -> None:
    f, query = Second(), tensor((1.0, 1.0))
    gcn = GCN(2, 2).double().eval()
    weights = (
        {"weight": [[1.0, 0.0], [0.0, 1.0]], "bias": [0.1, -0.1]},
        {"weight": [[1.0, -1.0], [-1.0, 1.0]], "bias": [0.0, 0.5]},
    )
    for layer, values in zip((gcn.first, gcn.second), weights, strict=True):
        layer.load_state_dict({k: torch.tensor(v) for k, v in values.items()})
    prototypes = f.prototypes.flatten(0, 1)
    s = kernel(prototypes, query, 1.0)
    nodes, queries = gcn(extend(f.a, s, two_way=True, normalised=False), prototypes, query)
    close(queries[0], [3.289574, -2.789574])
    close(nodes[0], [3.158981, -2.658981])


@pytest.mark.parametrize(
    "domains, classes, dead, no_target", [(5, 10, 0.133333, 0.613333), (4, 7, 0.190476, 0.761905), (6, 345, 0.00386473, 0.447021)]
)  # fmt: skip
def test_f4_the_global_loss_of_a_dead_graph_is_four_thirds_over_c(domains, classes, dead, no_target) -> None:
    a = torch.eye(domains * classes, dtype=torch.float64)
    close(global_loss(a, classes), dead)
    assert global_loss(a, classes).item() == pytest.approx(4 / (3 * classes), rel=1e-12)
    a[-classes:, -classes:] = 1  # the target's prototypes are all zero vectors
    close(global_loss(a, classes), no_target)


def test_f4_pseudo_labels_by_entropy_with_no_nan_where_a_probability_is_zero() -> None:
    method = build("ltc-msda")
    logits = torch.tensor([[3.0, 0], [1, 0], [0, 2], [0, 2000]])  # the last: p = 0 exactly, dropped by the release (L8)
    assert method._pseudo_labels(logits).tolist() == [0, -1, 1, 1]


# -- slow textbook forms ----------------------------------------------------------------------------------------------


def draw(domains: int, classes: int, features: int, seed: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.rand(domains, classes, features, generator=g, dtype=torch.float64)


def slow_edge(x: Tensor, y: Tensor, sigma: float) -> float:
    return math.exp(-sum((float(a) - float(b)) ** 2 for a, b in zip(x, y, strict=True)) / len(x) / (2 * sigma**2))


def slow_global(a: Tensor, domains: int, classes: int, seen: Tensor) -> float:
    total = 0.0
    at = lambda i, c, j, k: float(a[i * classes + c, j * classes + k])  # noqa: E731
    for i in range(domains):
        for j in range(domains):
            for c in range(classes):
                for k in range(classes):
                    if seen[i, c] and seen[i, k] and seen[j, c] and seen[j, k]:
                        ii, jj, ij = at(i, c, i, k), at(j, c, j, k), at(i, c, j, k)
                        total += ((ii - jj) ** 2 + (ij - ii) ** 2 + (ij - jj) ** 2) / classes**2
    return 2 / (domains * (domains - 1) * 3) * total


SIZES = [(2, 2, 3), (3, 4, 5), (5, 3, 2)]


@pytest.mark.parametrize("domains, classes, features", SIZES)
def test_kernel_adjacency_and_global_loss_equal_the_loops(domains, classes, features) -> None:
    p, q = draw(domains, classes, features), draw(1, 7, features, seed=1)[0]
    rows = p.flatten(0, 1)
    a, s = adjacency(p, 0.4), kernel(rows, q, 0.4)
    close(a, [[slow_edge(x, y, 0.4) for y in rows] for x in rows], 1e-12)
    close(s, [[slow_edge(x, y, 0.4) for y in q] for x in rows], 1e-12)
    assert torch.equal(a.diagonal(), torch.ones(len(a), dtype=torch.float64))
    seen = torch.ones(domains, classes, dtype=torch.float64)
    assert global_loss(a, classes).item() == pytest.approx(slow_global(a, domains, classes, seen), rel=1e-12)
    seen[-1, 0] = seen[0, 1] = 0
    assert global_loss(a, classes, seen).item() == pytest.approx(slow_global(a, domains, classes, seen), rel=1e-12)


@pytest.mark.parametrize("domains, classes, features", SIZES)
def test_prototypes_and_local_loss_equal_the_loops(domains, classes, features) -> None:
    old, g = draw(domains, classes, features), torch.Generator().manual_seed(5)
    labels = [torch.randint(-1, classes, (6,), generator=g) for _ in range(domains)]
    x = torch.rand(6 * domains, features, generator=g, dtype=torch.float64)
    means, present, new = averaged(old, x, labels, 0.7)
    total, counted = 0.0, 0
    for d in range(domains):
        for c in range(classes):
            mine = [x[6 * d + i] for i in range(6) if labels[d][i] == c]
            counted += len(mine)
            assert present[d, c] == bool(mine)
            if not mine:
                assert torch.equal(new[d, c], old[d, c])
                continue
            mean = sum(mine) / (len(mine) + 1e-5)
            close(new[d, c], (0.7 * old[d, c] + 0.3 * mean).tolist(), 1e-12)
            total += float(((mean - new[d, c]) ** 2).sum()) / features
    assert local_loss(means, new, present, counted).item() == pytest.approx(total / counted, rel=1e-12)


@pytest.mark.parametrize("two_way", [True, False])
@pytest.mark.parametrize("normalised", [True, False])
def test_the_graph_network_equals_the_whole_extended_matrix(two_way, normalised) -> None:
    p, q = draw(2, 3, 4), draw(1, 5, 4, seed=1)[0]
    rows = p.flatten(0, 1)
    a, s = adjacency(p, 0.4), kernel(rows, q, 0.4)
    whole = torch.eye(11, dtype=torch.float64)
    whole[:6, :6], whole[6:, :6] = a, s.T
    if two_way:
        whole[:6, 6:] = s
    if normalised:
        whole = torch.stack([row / sum(row) for row in whole])
    gcn = GCN(4, 3).double().eval()
    x = torch.cat([rows, q])
    hidden = (whole @ x @ gcn.first.weight + gcn.first.bias).relu()
    expected = whole @ hidden @ gcn.second.weight + gcn.second.bias
    found = gcn(extend(a, s, two_way=two_way, normalised=normalised), rows, q)
    torch.testing.assert_close(torch.cat(found), expected, atol=1e-12, rtol=0)


def test_initial_weights_and_biases_are_within_one_over_the_root_of_the_outputs() -> None:
    gcn = build("ltc-msda").gcn
    for layer, outputs in ((gcn.first, 6), (gcn.second, CLASSES)):
        largest = max(layer.weight.abs().max(), layer.bias.abs().max()).item()
        assert 0.8 * outputs**-0.5 < largest <= outputs**-0.5


# -- the dead graph ---------------------------------------------------------------------------------------------------


def trained(preset: str = "", updates: int = 10, **changes: object) -> LtCMSDA:
    method = build("ltc-msda", preset, **SURE, **changes).train()
    for t in range(updates):
        torch.manual_seed(t)
        method.update(*batches(seed=t, size=16), t / updates)
    assert isinstance(method, LtCMSDA)
    return method


def identity_logits(method: LtCMSDA, images: Tensor) -> Tensor:
    """What the network says of each image when it is the only node."""
    nodes, number = len(method.adjacency), len(images)
    nothing = torch.zeros(number, nodes)
    alone = Graph(torch.eye(nodes), None, nothing, torch.ones(number, 1))
    return method.gcn(alone, method.prototypes.flatten(0, 1), method.extractor(images))[1]


def test_as_released_a_query_has_the_logits_of_the_identity_bit_for_bit_and_not_in_a_live_graph() -> None:
    images = batches(seed=99, size=32)[1].images
    for preset, dead in (("code", True), ("", False)):
        method = trained(preset).eval()
        with torch.no_grad():
            logits = method._classify(method.extractor(images))[1]
            assert torch.equal(logits, identity_logits(method, images)) is dead


def test_as_released_the_global_loss_is_a_constant_without_gradient_and_the_record_says_so() -> None:
    dead, live = trained("code"), trained()
    assert dead.diagnostics()["global_loss"] == pytest.approx(4 / (3 * CLASSES), rel=1e-6)
    assert dead.diagnostics()["live_edges_most"] == 0
    (remark,) = dead.remarks(dead.diagnostics())
    assert "the graph was dead" in remark
    assert live.diagnostics()["live_edges"] > 0.1
    assert live.remarks(live.diagnostics()) == []
    for method, moves in ((dead, False), (live, True)):
        p = method.prototypes.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(global_loss(adjacency(p, method.hparams.sigma), CLASSES), p)
        assert bool(gradient.any()) is moves


def test_diagnostics_count_edges_between_prototypes_that_images_have_reached() -> None:
    method = build("ltc-msda", "code")  # no target image is ever sure enough
    fresh = method.diagnostics()
    assert (fresh["live_edges"], fresh["delta_same_class"], fresh["share_confident"]) == (0, None, 0)
    method.update(*batches(), 0.0)
    assert method.adjacency[-CLASSES:, -CLASSES:].min() == 1  # zero vectors are equal (L7), and no edge
    of_sources = method.adjacency[:-CLASSES, :-CLASSES]
    alive, number = (of_sources > LIVE).sum().item(), len(of_sources)
    assert method.diagnostics()["live_edges"] == pytest.approx((alive - number) / (number * (number - 1)))
    assert any("no target image was confident" in remark for remark in method.remarks(method.diagnostics()))
    live = trained()
    found, a = live.diagnostics(), live.adjacency
    reached = live.seen.flatten().nonzero().flatten().tolist()
    off = [a[i, j].item() for i in reached for j in reached if i != j]
    assert found["live_edges"] == pytest.approx(sum(e > LIVE for e in off) / len(off))
    assert found["largest_edge"] == pytest.approx(max(off))


# -- what the options do ----------------------------------------------------------------------------------------------


def losses_of(updates: int = 2, **changes: object) -> dict[str, Tensor]:
    """The terms of the last of a few updates on the same batches and draws."""
    method, terms = build("ltc-msda", **changes), {}
    for t in range(updates):
        torch.manual_seed(t)
        terms = method.update(*batches(seed=t, size=16), 0.0)
    return terms


@pytest.mark.parametrize(
    "option",
    [{"sigma": 0.4}, {"degree": "sum"}, {"two_way": True}, {"lagged": True}, {"count_unseen": True}, {"beta": 0.5},
     {"entropy_mean": "samples"}, {"max_entropy": 10.0}],
    ids=lambda option: next(iter(option)),
)  # fmt: skip
def test_every_option_changes_an_update(option) -> None:
    """In two updates of a batch in which no target image is sure, unless the option is that one."""
    base, other = losses_of(max_entropy=0.1), losses_of(**{"max_entropy": 0.1, **option})
    assert any(not torch.equal(base[k], other[k]) for k in base)


@pytest.mark.parametrize("weight", ["global_weight", "local_weight", "entropy_weight"])
def test_every_weight_moves_the_extractor_elsewhere(weight: str) -> None:
    ends = []
    for value in (0.0, 5.0):
        method = build("ltc-msda", **SURE, **{weight: value})
        torch.manual_seed(0)
        method.update(*batches(size=16), 0.0)
        ends.append(method.extractor.last[0].weight.detach().clone())
    assert not torch.equal(*ends)


def test_a_live_global_loss_with_zero_vectors_draws_the_classes_together() -> None:
    """Why a prototype that no image has reached is no node here (L7)."""
    apart = {}
    for counted in (False, True):
        method = build("ltc-msda", count_unseen=counted, max_entropy=0.01)
        for t in range(40):
            torch.manual_seed(t)
            method.update(*batches(seed=t, size=16), t / 40)
        apart[counted] = method.diagnostics()["delta_other_class"]
    assert apart[True] < 0.5 * apart[False]


def test_the_graph_sends_no_gradient_through_its_prototypes() -> None:
    """L1: prototypes of the last update are constants; a second backward pass would fail otherwise."""
    for changes in ({}, {"lagged": True}):
        method = build("ltc-msda", **SURE, **changes)
        for t in range(3):
            method.update(*batches(seed=t), 0.0)
        assert not method.prototypes.requires_grad
        assert not method.adjacency.requires_grad


def test_pseudo_labels_feed_the_targets_prototypes_alone() -> None:
    method = build("ltc-msda", **SURE)
    names = moved(method, lambda: method.update(*batches(), 0.0))
    assert {"prototypes", "seen", "adjacency"} <= names
    assert method.seen[:-1].min() == 1
    assert method.seen[-1].max() == 1
    assert build_unsure().seen[-1].max() == 0


def build_unsure() -> LtCMSDA:
    method = build("ltc-msda", max_entropy=0.001)
    method.update(*batches(), 0.0)
    assert isinstance(method, LtCMSDA)
    return method


@pytest.mark.parametrize("preset", ["", "code"])
@pytest.mark.parametrize("changes", [{}, {"two_way": True, "degree": "sum", "sigma": 0.3}], ids=["preset", "live sums"])
def test_a_prediction_does_not_know_the_rest_of_its_batch(preset, changes) -> None:
    method = trained(preset, **changes)
    images = batches(seed=99, size=32)[1].images
    others = batches(seed=98, size=32)[1].images * 3 + 1
    whole, mixed = method.predict(images), method.predict(torch.cat([images[:1], others[1:]]))
    assert torch.equal(whole[0], mixed[0])
    torch.testing.assert_close(method.predict(images[:1])[0], whole[0], atol=1e-6, rtol=0)


def test_an_update_waits_for_nothing(monkeypatch) -> None:
    """No `.item()`, no `bool` of a tensor, no mask whose number of hits is asked for."""
    method = build("ltc-msda", **SURE)
    data = batches(size=16)

    def refuse(name: str) -> Callable[..., None]:
        def called(*args: object, **kwargs: object) -> None:
            raise AssertionError(f"Tensor.{name} waits for the device")

        return called

    for name in ("item", "tolist", "__bool__", "__int__", "__float__", "nonzero", "numpy", "cpu"):
        monkeypatch.setattr(Tensor, name, refuse(name))
    monkeypatch.setattr(method, "descend", lambda loss: loss.backward())  # the optimiser is torch's
    method.update(*data, 0.0)


def test_one_source_and_missing_classes_are_no_trouble() -> None:
    method = build("ltc-msda", sources=1)
    sources, target = batches(1)
    alone = LabeledBatch(sources[0].images, torch.zeros_like(sources[0].labels))
    terms = method.update([alone], UnlabeledBatch(target.images), 0.0)
    assert all(torch.isfinite(v).all() for v in terms.values())
    assert method.seen[0].tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize(
    "option, message",
    [({"degree": "sqrt"}, r"There is no value of ltc-msda\.degree 'sqrt'.*Allowed: normalised, sum"),
     ({"entropy_mean": "sample"}, "Did you mean 'samples'"),
     ({"sigma": 0.0}, "needs sigma above zero"), ({"beta": 1.0}, "needs sigma above zero")],
)  # fmt: skip
def test_what_no_option_means_is_refused_in_words(option, message) -> None:
    with pytest.raises(MethodError, match=message):
        build("ltc-msda", **option)
