"""The network of a suite file: its name, its own words on size and normalisation, its weights, and what identifies it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from benchmark.errors import UserError
from benchmark.spec import NetworkSettings, RunSpec, load_suite, resolve, settings_json
from benchmark.spec.network import describe, with_weights
from benchmark.spec.suite import SUITES
from tests import needs

pytestmark = needs.timm


def suite_with(folder: Path, network: str) -> str:
    """The digits with another network at tier mini."""
    load_suite.cache_clear()
    text = (SUITES / "digits.toml").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("network"))
    (folder / "own.toml").write_text(text.replace(line, f"network = {network}"), encoding="utf-8")
    return str(folder / "own.toml")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("resnet5O", "Did you mean 'resnet50'"),
        ("torchvision:resnet5O", "There is no network 'resnet5O'"),
        ("timm:vit_small_patch16_244", "'timm:vit_small_patch16_224'"),
        ("timm:test_vit.none", "'timm:test_vit.r160_in1k'"),
        ("timm:no", r"as timm:NAME \(pip install timm\)"),
    ],
)
def test_a_name_that_nobody_has_is_answered_with_the_nearest(name: str, said: str) -> None:
    with pytest.raises((UserError, ValueError), match=said):
        NetworkSettings(name=name).described()


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    describe.cache_clear()
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UserError, match=r"is not installed\. Type: pip install timm"):
        NetworkSettings(name="timm:test_resnet").described()


def test_size_and_normalisation_are_the_networks_own_unless_the_suite_says_otherwise() -> None:
    own = NetworkSettings(name="timm:test_vit").described()
    assert (own.image_size, own.mean, own.std) == (160, [0.5] * 3, [0.5] * 3)
    own = NetworkSettings(name="inception_v3").described()
    assert (own.image_size, own.mean) == (299, [0.485, 0.456, 0.406])
    said = NetworkSettings(name="timm:test_vit", image_size=64, mean=[0.1, 0.2, 0.3]).described()
    assert (said.image_size, said.mean, said.std) == (64, [0.1, 0.2, 0.3], [0.5] * 3)
    assert NetworkSettings(name="resnet18").described() == NetworkSettings(name="resnet18", image_size=32)


def test_a_suite_that_names_the_networks_of_today_has_the_identity_of_today() -> None:
    assert settings_json(load_suite("pacs").tier("paper"))["network"] == {
        "name": "resnet18", "width": 1.0, "weights": "imagenet", "image_size": 224,
    }  # fmt: skip
    assert settings_json(load_suite("digits").tier("mini"))["network"] == {
        "name": "conv3fc2", "width": 0.125, "weights": "", "image_size": 32,
    }  # fmt: skip


def test_one_network_has_one_identity_and_its_own_words_are_part_of_it(tmp_path: Path) -> None:
    def identity(network: str) -> dict[str, Any]:
        load_suite.cache_clear()
        return resolve(RunSpec(suite_with(tmp_path, network), "mini", "dann", target="mm", data="x")).identity()

    assert identity('{ name = "torchvision:resnet50" }') == identity('{ name = "resnet50" }')
    own = identity('{ name = "resnet50" }')["settings"]["network"]
    assert (own["image_size"], own["mean"]) == (224, [0.485, 0.456, 0.406])
    assert identity('{ name = "resnet50", image_size = 224 }')["settings"]["network"] == own
    assert identity('{ name = "resnet50", image_size = 64 }')["settings"]["network"] != own


def test_a_file_of_weights_is_known_by_what_it_holds_and_not_by_where_it_lies(tmp_path: Path) -> None:
    suite = suite_with(tmp_path, '{ name = "timm:test_resnet", image_size = 32, weights = "weights/w.safetensors" }')
    states = [{"w": torch.full((2,), float(i))} for i in (0, 1, 0)]
    for root, state in zip("abc", states, strict=True):
        (tmp_path / root / "weights").mkdir(parents=True)
        save_file(state, tmp_path / root / "weights" / "w.safetensors")

    def mark(**overrides: str) -> tuple[str, ...]:
        renamed = tuple((f"run.network.{key}", value) for key, value in overrides.items())
        spec = RunSpec(suite, "mini", "source-only", target="mm", overrides=renamed)
        network = resolve(spec).settings.network
        assert resolve(spec).identity()["settings"]["network"]["weights"] == ("file" if network.weights else "")
        return tuple(with_weights("images", network, tmp_path / root) for root in "abc")

    a, b, c = mark()
    assert a == c != b
    assert mark(weights=str(tmp_path / "a" / "weights" / "w.safetensors")) == (a, a, a)
    assert mark(weights="") == ("images",) * 3
    with pytest.raises(UserError, match=r"starts from weights that are not at .*none\.pth"):
        mark(weights="none.pth")
