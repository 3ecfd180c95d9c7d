"""Networks: the paper's shapes, weights drawn by role, and per-domain statistics in one fused pass."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torchvision
from torch import nn

from benchmark.errors import UserError
from benchmark.run import networks
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task


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
    networks.load_imagenet(ours, "resnet18", tmp_path / "w.pth")
    theirs.fc = nn.Identity()
    x = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.allclose(ours.eval()(x), theirs(x), atol=1e-5)


def test_missing_or_foreign_weights_are_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="put the file there"):
        networks.load_imagenet(networks.resnet18(1 / 8), "resnet18", tmp_path / "absent.pth")
    (tmp_path / "bad.pth").write_bytes(b"not weights")
    with pytest.raises(UserError, match="does not hold the weights"):
        networks.load_imagenet(networks.resnet18(1 / 8), "resnet18", tmp_path / "bad.pth")
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
