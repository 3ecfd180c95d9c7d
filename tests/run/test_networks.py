"""Networks: the paper's shapes, weights drawn by role, and per-domain statistics in one fused pass."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmark.errors import UserError
from benchmark.run import networks
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task
from benchmark.run.task import make_task as task_of
from benchmark.spec import RunSpec, resolve


def make_task(**changes) -> Task:
    fields = {
        "num_classes": 5, "num_sources": 3, "network": NetworkSpec("conv3fc2", 1 / 16), "optimiser": OptimiserSpec(),
        "budget": 10, "seed": 0,
    }  # fmt: skip
    return Task(**{**fields, **changes})


def test_torch_and_torchvision_import_without_a_gpu() -> None:
    assert torch.ones(2).sum() == 2
    assert torchvision.ops.nms(torch.tensor([[0.0, 0, 1, 1]]), torch.ones(1), 0.5).tolist() == [0]


def test_digit_network_has_the_papers_shapes() -> None:
    with torch.device("meta"):
        net = networks.conv3fc2()
        assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 2048)
        assert net.trunk(torch.zeros(2, 3, 32, 32)).shape == (2, 3072)
    shapes = {n: tuple(p.shape) for n, p in net.named_parameters() if p.dim() > 1}
    assert list(shapes.values()) == [(64, 3, 5, 5), (64, 64, 5, 5), (128, 64, 5, 5), (3072, 8192), (2048, 3072)]


def test_resnet18_is_torchvisions() -> None:
    with torch.device("meta"):
        ours, theirs = networks.resnet18().trunk.state_dict(), torchvision.models.resnet18().state_dict()
    wanted = {k: v.shape for k, v in theirs.items() if not k.startswith("fc.")}
    assert {k: v.shape for k, v in ours.items()} == wanted


def test_resnet18_computes_what_torchvision_computes(tmp_path: Path) -> None:
    theirs = torchvision.models.resnet18().eval()
    torch.save(theirs.state_dict(), tmp_path / "w.pth")
    ours = networks.resnet18()
    networks.load_weights(ours, "resnet18", tmp_path / "w.pth")
    theirs.fc = nn.Identity()
    x = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.allclose(ours.eval()(x), theirs(x), atol=1e-5)


def test_missing_or_foreign_weights_are_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="put the file there"):
        networks.load_weights(networks.resnet18(1 / 8), "resnet18", tmp_path / "absent.pth")
    (tmp_path / "bad.pth").write_bytes(b"not weights")
    with pytest.raises(UserError, match="does not hold the weights"):
        networks.load_weights(networks.resnet18(1 / 8), "resnet18", tmp_path / "bad.pth")
    with pytest.raises(UserError, match="no narrow version"):
        networks.resnet101(0.5)


def test_resnet101_has_the_papers_feature_size() -> None:
    with torch.device("meta"):
        assert networks.resnet101()(torch.zeros(1, 3, 64, 64)).shape == (1, 2048)


def test_role_main_has_equal_weights_in_every_method_and_split() -> None:
    whole, early = make_task(), make_task()
    early.extractor("other")  # building other modules first changes nothing
    nn.Linear(3, 3)
    a, b = whole.extractor("main"), early.extractor("main", cut=1)
    for name, p in a.trunk.named_parameters():
        assert torch.equal(p, dict(b.trunk.named_parameters())[name])
    head = early.classifier("main", cut=1)
    for p, q in zip(a.last.parameters(), head[0].parameters(), strict=True):
        assert torch.equal(p, q)
    assert torch.equal(whole.classifier("main").weight, head[1].weight)
    assert not torch.equal(early.extractor("other").trunk[0].weight, a.trunk[0].weight)
    assert not torch.equal(make_task(seed=1).extractor().trunk[0].weight, a.trunk[0].weight)


def test_fused_pass_equals_separate_passes_in_double_precision() -> None:
    task = make_task()
    fused = task.extractor().double()
    for m in fused.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.0
    apart = copy.deepcopy(fused)
    batches = [torch.randn(n, 3, 32, 32, dtype=torch.float64) * (i + 1) for i, n in enumerate((6, 4, 5))]
    together = task.forward_domains(batches, fused)
    for one, x in zip(together, batches, strict=True):
        assert torch.allclose(one, apart(x), atol=1e-12)
    for (name, a), b in zip(fused.state_dict().items(), apart.state_dict().values(), strict=True):
        assert torch.allclose(a, b, atol=1e-12), name


# -- the way of a GPU: the domains in turn, one kernel a layer -----------------------------------------------------------


@pytest.mark.parametrize("kind", [networks.BatchNorm1d, networks.BatchNorm2d, networks.NormPoolReLU])
def test_all_domains_in_one_kernel_equal_separate_passes_to_1e_6_running_statistics_included(kind: type) -> None:
    torch.manual_seed(0)
    shape = (8, 5) if kind is networks.BatchNorm1d else (8, 5, 6, 6)
    batches = [(d + 1) * torch.randn(shape) + d for d in range(4)]
    apart = kind(5)
    with torch.no_grad():
        apart.weight.uniform_(0.5, 2)
        apart.bias.normal_()
    together = copy.deepcopy(apart)
    x, y = torch.stack(batches).requires_grad_(), networks.interleave(batches).requires_grad_()
    wanted = torch.stack([apart(part) for part in x])
    with networks.per_domain(together, [8] * 4, interleaved=True):
        found = together(y).unflatten(0, (8, 4)).transpose(0, 1)
    slope = torch.randn(wanted.shape)
    (wanted * slope).sum().backward()
    (found * slope).sum().backward()
    close = {"rtol": 1e-6, "atol": 1e-6}
    torch.testing.assert_close(found, wanted, **close)
    torch.testing.assert_close(y.grad.unflatten(0, (8, 4)).transpose(0, 1), x.grad, **close)
    for (name, ours), theirs in zip(together.named_parameters(), apart.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-5, atol=1e-4, msg=name)  # sums of a few hundred
    for (name, ours), theirs in zip(together.named_buffers(), apart.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, **close, msg=name)
    assert together.num_batches_tracked == 4


@pytest.mark.parametrize(("network", "width"), [("conv3fc2", 1 / 16), ("resnet18", 1 / 8)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_domains_in_turn_equal_separate_passes_in_double_precision(network: str, width: float, layout) -> None:
    task = make_task(network=NetworkSpec(network, width))
    task.interleaved = True
    apart = task.extractor().double()
    for m in apart.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.0
    fused = copy.deepcopy(apart).to(memory_format=layout)
    batches = [torch.randn(6, 3, 32, 32, dtype=torch.float64) * (i + 1) for i in range(3)]
    for _ in range(2):
        found, wanted = task.forward_domains(batches, fused), [apart(x) for x in batches]
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    sum(f.square().sum() for f in found).backward()
    sum(f.square().sum() for f in wanted).backward()
    for (name, p), q in zip(fused.named_parameters(), apart.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-9, atol=1e-9, msg=name)
    for (name, a), b in zip(fused.state_dict().items(), apart.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12, msg=name)


class Kernels(TorchDispatchMode):
    """How often each operator is called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def test_a_gpu_launches_one_normalisation_a_layer_each_way_and_counts_batches_once_for_all() -> None:
    task = make_task(network=NetworkSpec("resnet18", 1 / 8))
    task.interleaved = True
    layers = sum(isinstance(m, nn.BatchNorm2d) for m in task.extractor().modules())
    with Kernels() as kernels:
        features = task.forward_domains([torch.randn(4, 3, 32, 32) for _ in range(6)])
        sum(f.sum() for f in features).backward()
    normalisations = {k: n for k, n in kernels.calls.items() if k.endswith(("batch_norm", "batch_norm_backward"))}
    assert set(normalisations.values()) == {layers}
    assert kernels.calls["_foreach_add_"] == 1
    assert kernels.calls["_foreach_lerp_"] == 6


def test_domains_of_unequal_sizes_are_normalised_one_by_one_wherever_they_are() -> None:
    task, plain = make_task(), make_task()
    task.interleaved = True
    batches = [torch.randn(n, 3, 32, 32) for n in (6, 4)]
    torch.manual_seed(0)
    found = task.forward_domains(batches)
    torch.manual_seed(0)
    for ours, theirs in zip(found, plain.forward_domains(batches), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)  # the two store their maps differently


def test_a_layer_that_a_pass_goes_through_twice_remembers_both_times() -> None:
    x = torch.randn(8, 5)
    twice, apart = networks.BatchNorm1d(5), networks.BatchNorm1d(5)
    with networks.per_domain(twice, [4, 4], interleaved=True):
        twice(twice(x))
    for _ in range(2):
        x = torch.stack([apart(x[d::2]) for d in range(2)], 1).flatten(0, 1)
    torch.testing.assert_close(twice.running_var, apart.running_var, rtol=1e-6, atol=1e-6)
    assert twice.num_batches_tracked == apart.num_batches_tracked == 4


def test_pooled_statistics_are_an_explicit_option_that_differs() -> None:
    x = [torch.randn(4, 3, 32, 32), 5 + 3 * torch.randn(4, 3, 32, 32)]
    torch.manual_seed(0)
    own = make_task().forward_domains(x)
    torch.manual_seed(0)
    pooled = make_task(batch_norm="pooled").forward_domains(x)
    assert not torch.allclose(own[0], pooled[0], atol=1e-3)


def test_task_counts_images_in_training_only() -> None:
    task = make_task()
    task.forward_domains([torch.randn(4, 3, 32, 32), torch.randn(3, 3, 32, 32)])
    assert task.images_forwarded == 7
    task.extractor().eval()(torch.randn(9, 3, 32, 32))
    assert task.images_forwarded == 7


def test_optimiser_takes_the_groups_rate_and_the_methods_scale() -> None:
    spec = OptimiserSpec("adam", {"extractor": 1e-3, "classifier": 1e-2})
    task = make_task(optimiser=spec, lr_scale=0.5)
    assert task.optimiser(task.extractor(), "extractor").param_groups[0]["lr"] == 5e-4
    assert task.optimiser(task.classifier(), "discriminator").param_groups[0]["lr"] == 5e-3
    sgd = task.optimiser(task.classifier().parameters(), "classifier", kind="sgd", lr=0.1, momentum=0.5, weight_decay=0)
    assert isinstance(sgd, torch.optim.SGD)
    assert (sgd.param_groups[0]["lr"], sgd.param_groups[0]["momentum"]) == (0.05, 0.5)


def test_pooling_before_rectifying_and_by_domain_changes_no_bit() -> None:
    """`NormPoolReLU` beside the papers' layers: values, gradients and running statistics are the same to the last bit, also
    where all of a window is below zero and where its maximum is there twice."""
    torch.manual_seed(0)
    x = torch.randn(6, 4, 32, 32).round(decimals=1).requires_grad_()
    ours = networks.NormPoolReLU(4)
    plain = nn.Sequential(nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    with networks.per_domain(ours, [2, 3, 1]):
        found = ours(x)
    wanted = torch.cat([plain(part) for part in x.split([2, 3, 1])])
    weight = torch.randn(found.shape)
    grads = [
        torch.autograd.grad((out * weight).sum(), [x, norm.weight, norm.bias])
        for out, norm in ((found, ours), (wanted, plain[0]))
    ]
    assert torch.equal(found, wanted)
    assert all(map(torch.equal, *grads))
    assert torch.equal(ours.running_var, plain[0].running_var)
    assert torch.equal(ours.eval()(x), plain.eval()(x))


def test_the_imagenet_weights_are_looked_for_where_the_images_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    resolved = resolve(RunSpec("pacs", "paper", "source-only", target="S"))
    monkeypatch.setenv("BENCHMARK_DATA_ROOT", str(tmp_path / "shared"))
    assert task_of(resolved, 7, "cpu").network.weights == str(tmp_path / "shared/weights/resnet18.pth")
    assert task_of(resolved, 7, "cpu", tmp_path).network.weights == str(tmp_path / "weights/resnet18.pth")
    monkeypatch.delenv("BENCHMARK_DATA_ROOT")
    assert task_of(resolved, 7, "cpu").network.weights == "data/weights/resnet18.pth"
