"""PACS from ImageNet with a frozen trunk. Needs the optional packages; skips, visibly, without them."""

from __future__ import annotations

import copy
import importlib

import numpy as np
import pytest
import torch
from torch import nn

from benchmark import data
from benchmark.data import frozen
from benchmark.errors import UserError
from benchmark.run import networks
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task
from benchmark.spec import load_suite
from tests import needs

SUITE = load_suite("pacs-frozen")


@pytest.fixture(scope="module")
def network() -> nn.Module:
    if not needs.NEEDS["frozen"].here:
        needs.skip("frozen")
    return frozen.pretrained()


def task(seed: int = 0) -> Task:
    return Task(
        num_classes=7,
        num_sources=3,
        network=NetworkSpec("effnet-lite0-tail", 1.0, "", 112),
        optimiser=OptimiserSpec(),
        budget=10,
        seed=seed,
    )


def test_trunk_and_tail_together_are_the_whole_network(network):
    pixels = torch.randint(0, 256, (3, 3, 112, 112), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    tail = task().extractor().eval()
    with torch.no_grad():
        halves = tail(frozen.trunk(network, pixels))
        whole = network.extract_features((pixels.float() - 127) / 128).mean((2, 3))
    assert halves.shape == (3, 1280)
    assert torch.allclose(halves, whole, atol=1e-5)


def test_the_network_recognises_what_imagenet_taught_it(network):
    """scikit-learn's photograph of a flower (a dahlia; ImageNet's nearest classes are flowers): 985 is daisy."""
    from sklearn.datasets import load_sample_image

    flower = torch.from_numpy(load_sample_image("flower.jpg").copy()).permute(2, 0, 1)[None]
    square = flower[:, :, :, 106:533].float()
    pixels = nn.functional.interpolate(square, (224, 224), mode="bilinear", antialias=True)
    with torch.no_grad():
        whole = frozen.pretrained(224)((pixels - 127) / 128)
    assert 985 in whole[0].topk(5).indices.tolist()


def test_a_task_starts_from_imagenets_weights_for_every_seed_and_role(network):
    first, second = task(0).extractor("main"), task(1).extractor("other")
    wanted = network._conv_head.weight
    for extractor in (first, second):
        assert torch.equal(next(p for p in extractor.parameters() if p.shape == wanted.shape), wanted)


def test_batch_norm_is_the_suites_with_the_weights_of_imagenet(network):
    tail = task().extractor()
    norms = [m for m in tail.modules() if isinstance(m, nn.BatchNorm2d)]
    assert norms
    assert all(isinstance(m, networks.BatchNorm2d) for m in norms)
    assert torch.equal(norms[-1].running_var, network._bn1.running_var)
    assert norms[-1].eps == network._bn1.eps
    x = [torch.randn(4, 192, 4, 4), 3 + torch.randn(6, 192, 4, 4)]
    t = task()
    together = t.forward_domains(x, t.extractor())
    apart = task().extractor()
    assert torch.allclose(together[1], [apart(b) for b in x][1], atol=1e-4)


def test_the_tail_can_be_copied_and_trained(network):
    tail = copy.deepcopy(task().extractor())
    before = [p.detach().clone() for p in tail.parameters()]
    optimiser = torch.optim.SGD(tail.parameters(), lr=0.1)
    tail(torch.randn(4, 192, 4, 4)).square().mean().backward()
    optimiser.step()
    assert any(not torch.equal(a, b) for a, b in zip(before, tail.parameters(), strict=True))


@pytest.fixture
def tree(tmp_path, write_pictures, network):
    write_pictures(tmp_path / "PACS", each=1, size=(40, 40))
    return tmp_path


def test_the_suite_gives_activations_made_once(tree, monkeypatch):
    found = data.load(SUITE, "lite", "all", tree)
    images = found.domains["A"].train.images
    assert images.shape == (7, 192, 4, 4)
    assert images.dtype == np.float16
    assert found.note.startswith("pacs-frozen:")
    batch = found.preprocess.train(found.domains["A"].train.take(torch.arange(2)), "cpu", torch.Generator())
    assert batch.dtype == torch.float32
    assert torch.equal(batch, torch.from_numpy(np.array(images[:2])).float())
    monkeypatch.setattr(frozen, "trunk", lambda *_: pytest.fail("computed again"))
    again = data.load(SUITE, "lite", "all", tree)
    assert np.array_equal(again.domains["A"].train.images, images)
    assert again.fingerprint == found.fingerprint == data.fingerprint(SUITE, "lite", "all", tree)


def test_activations_are_other_data_than_pixels(tree):
    assert data.fingerprint(SUITE, "lite", "all", tree) != data.fingerprint(load_suite("pacs"), "lite", "all", tree)


def test_there_is_no_narrow_version():
    with pytest.raises(UserError, match="no narrow version"):
        networks.NETWORKS["effnet-lite0-tail"](0.5)


def test_without_the_packages_a_sentence_says_what_to_install(monkeypatch):
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UserError, match=r"efficientnet_lite_pytorch, which is not installed. Type: pip install"):
        networks.NETWORKS["effnet-lite0-tail"](1.0)
