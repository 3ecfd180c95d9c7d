"""DomainNet's size, whole: 345 classes, six domains, 2,048 features, λ and η_max of Table 5, on generated features."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

from benchmark.run.networks import Extractor
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task
from benchmark.spec import load_suite
from methods.contract import LabeledBatch, UnlabeledBatch, build_hparams
from tsvdnet.method import TSVDNet

CLASSES, SOURCES, FEATURES, BATCH, UPDATES = 345, 5, 2048, 16, 24


def features() -> Extractor:
    """Features pass through one linear layer that starts as the identity: trained, and as good as ImageNet's at once."""
    layer = nn.Linear(FEATURES, FEATURES)
    return Extractor(nn.Identity(), layer, FEATURES, FEATURES)


@functools.cache
def trained(preset: str) -> TSVDNet:
    """`UPDATES` updates on 345 clusters, each domain moved by its own offset."""
    given = load_suite("domainnet").hparams["tsvdnet"]
    rates = OptimiserSpec(lr={"extractor": 1e-5, "classifier": 1e-3})
    task = Task(
        num_classes=CLASSES, num_sources=SOURCES, network=NetworkSpec(), optimiser=rates, budget=UPDATES, seed=0,
        batch_size=BATCH, extractor_factory=features,
    )  # fmt: skip
    method = TSVDNet(task, build_hparams(TSVDNet, given, TSVDNet.presets[preset] if preset else {})).train()
    with torch.no_grad():
        layer = next(m for m in method.modules() if isinstance(m, nn.Linear) and m.in_features == m.out_features)
        layer.weight.copy_(torch.eye(FEATURES))
        layer.bias.zero_()
    g = torch.Generator().manual_seed(0)
    centres = torch.randn(CLASSES, FEATURES, generator=g)
    offsets = 0.3 * torch.randn(SOURCES + 1, 1, FEATURES, generator=g)
    for t in range(UPDATES):
        labels = (t * BATCH + torch.arange(BATCH)).expand(SOURCES + 1, BATCH) % CLASSES  # every class in 22 batches
        x = centres[labels] + offsets + 0.3 * torch.randn(SOURCES + 1, BATCH, FEATURES, generator=g)
        sources = [LabeledBatch(x[i], labels[i]) for i in range(SOURCES)]
        losses = method.update(sources, UnlabeledBatch(x[-1]), t / UPDATES)
        assert all(torch.isfinite(torch.as_tensor(v)).all() for v in losses.values())
    return method


@pytest.mark.parametrize("preset", ["", "active"])
def test_the_path_of_345_classes_runs_at_full_size(preset: str) -> None:
    method = trained(preset)
    assert tuple(method.G.shape) == (CLASSES, CLASSES, SOURCES + 1)
    assert torch.isfinite(method.A).all()
    said = method.diagnostics()
    assert said["eta"] == pytest.approx(method.hparams.eta_max)
    assert said["share_a_nonzero"] > 0.5


def test_at_the_published_lambda_only_the_zero_frequency_survives() -> None:
    """A is not zero on DomainNet, but all it holds is what every column has in common; `:active` keeps every frequency."""
    published, active = (trained(preset).diagnostics()["a_rank"] for preset in ("", "active"))
    assert published[0] > 0
    assert not any(published[1:])
    assert all(active)
