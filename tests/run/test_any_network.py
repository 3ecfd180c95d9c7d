"""Any network of torchvision and timm: what its library computes, normalised by domain, drawn from the seed, identified."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path

import pytest
import torch
import torchvision
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from benchmark import data, records
from benchmark.__main__ import main
from benchmark.errors import UserError
from benchmark.plan.cost import estimate
from benchmark.plan.counting import count
from benchmark.run import execute, networks
from benchmark.run.check import check
from benchmark.run.check.toy import Toy
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task, make_task
from benchmark.spec import NetworkSettings, RunSpec, resolve
from benchmark.spec.network import weights_file
from tests import needs
from tests.gpu.pretend import gpu, make_run
from tests.spec.test_network import suite_with

if needs.NEEDS["timm"].here:
    import timm

pytestmark = needs.timm
METHODS = ("source-only", "dann", "mcd", "m3sda", "tsvdnet")
# timm's own small networks: BatchNorm2d, BatchNormAct2d, patches in a BatchNorm1d, windows in a BatchNorm2d
NORMED = (
    "resnet18", "mobilenet_v3_small", "timm:test_resnet", "timm:test_efficientnet", "timm:levit_128s",
    "timm:efficientvit_m0",
)  # fmt: skip


def side_of(name: str) -> int:
    return {"timm:levit_128s": 64, "timm:efficientvit_m0": 128}.get(
        name, 32
    )  # more than one patch, more than one window


def task(name: str, seed: int = 0, weights: str = "", width: float = 1.0) -> Task:
    network = NetworkSpec(name, width, weights, side_of(name))
    return Task(num_classes=5, num_sources=2, network=network, optimiser=OptimiserSpec(), budget=10, seed=seed)


# -- the features of the library's own network --------------------------------------------------------------------------


def plain(name: str) -> nn.Module:
    """The network as its library makes it, with its head."""
    if name.startswith("timm:"):
        return (
            timm.create_model(name.removeprefix("timm:"), img_size=32) if "vit" in name else timm.create_model(name[5:])
        )
    return torchvision.models.get_model(name, weights=None)


def features(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What its head is given, by the library's own way of saying so."""
    if hasattr(network, "forward_head"):
        return network.forward_head(network.forward_features(x), pre_logits=True)
    head = network.classifier if hasattr(network, "classifier") else network.fc
    last = head[-1] if isinstance(head, nn.Sequential) else head
    seen: list[torch.Tensor] = []
    last.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    network(x)
    return seen[0]


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
@pytest.mark.parametrize(
    "name", ["resnet50", "mobilenet_v3_small", "timm:test_vit", "timm:test_convnext", "timm:test_efficientnet"]
)
def test_features_with_weights_of_a_file_are_those_of_the_library(name: str, ending: str, tmp_path: Path) -> None:
    theirs = plain(name).eval()
    file = tmp_path / f"w.{ending}"
    state = {key: value.clone() for key, value in theirs.state_dict().items()}
    save_file(state, file) if ending == "safetensors" else torch.save({"state_dict": state}, file)
    made = task(name, weights=str(file))
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        found, wanted = made.extractor().eval()(x), features(theirs, x)
    assert found.shape == (2, made.feature_dim)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)  # one keeps its maps channels last


def test_an_early_split_gives_the_hidden_layer_of_a_head_to_the_classifier(tmp_path: Path) -> None:
    theirs = plain("mobilenet_v3_small").eval()
    torch.save(theirs.state_dict(), tmp_path / "w.pth")
    made = task("mobilenet_v3_small", weights=str(tmp_path / "w.pth"))
    assert (made.cut_dim, made.feature_dim) == (576, 1024)
    trunk, (last, linear) = made.extractor(cut=1).eval(), made.classifier(cut=1).eval()
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert trunk(x).shape == (2, 576)
        torch.testing.assert_close(last(trunk(x)), features(theirs, x), rtol=1e-4, atol=1e-5)
    assert linear.in_features == 1024
    for name in ("resnet50", "timm:test_vit"):  # no such layer: early and late are the same
        assert task(name).cut_dim == task(name).feature_dim


def test_a_transformer_takes_weights_that_were_trained_on_other_sizes(tmp_path: Path) -> None:
    theirs = timm.create_model("test_vit")  # 160 pixels
    save_file(theirs.state_dict(), tmp_path / "w.safetensors")
    ours = task("timm:test_vit", weights=str(tmp_path / "w.safetensors")).extractor()
    assert ours.trunk.pos_embed.shape[1] < theirs.pos_embed.shape[1]
    assert torch.equal(ours.trunk.blocks[0].mlp.fc1.weight, theirs.blocks[0].mlp.fc1.weight)


def test_weights_that_do_not_fit_are_a_sentence(tmp_path: Path) -> None:
    state = torchvision.models.mobilenet_v3_small(weights=None).state_dict()
    torch.save({**state, "more.weight": torch.zeros(1)}, tmp_path / "more.pth")
    torch.save({k: v for k, v in state.items() if k != "features.0.0.weight"}, tmp_path / "less.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    for file, words in (("more", "more.weight"), ("less", "features.0.0.weight"), ("list", "no dictionary of tensors")):
        with pytest.raises(UserError, match=f"does not hold the weights of mobilenet_v3_small: .*{words}"):
            task("mobilenet_v3_small", weights=str(tmp_path / f"{file}.pth")).extractor()
    for name, words in (("timm:test_vit", "Get timm's weights"), ("mobilenet_v3_small", "Download torchvision's")):
        with pytest.raises(UserError, match=f"are not at .*none.pth. {words}"):
            task(name, weights=str(tmp_path / "none.pth")).extractor()


# -- batch normalisation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interleaved", [False, True], ids=["by-domain", "in-turn"])
@pytest.mark.parametrize("name", NORMED)
def test_one_pass_over_all_domains_equals_separate_passes(name: str, interleaved: bool) -> None:
    made = task(name, width=1 / 8 if name == "resnet18" else 1.0)
    made.interleaved = interleaved
    apart = made.extractor().double().train()
    assert any(isinstance(m, _BatchNorm) for m in apart.modules())
    for m in apart.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.0
        if isinstance(m, _BatchNorm):  # some start at zero, which would hide what comes before them
            nn.init.uniform_(m.weight, 0.5, 1.5)
    fused = copy.deepcopy(apart)
    sizes = (4, 4, 4) if interleaved else (4, 3, 5)
    side = side_of(name)
    batches = [torch.randn(n, 3, side, side, dtype=torch.float64) * (i + 1) + i for i, n in enumerate(sizes)]
    found, wanted = made.forward_domains(batches, fused), [apart(x) for x in batches]
    sum(f.square().sum() for f in found).backward()
    sum(f.square().sum() for f in wanted).backward()
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    for (key, p), q in zip(fused.named_parameters(), apart.parameters(), strict=True):
        if q.grad is not None:
            torch.testing.assert_close(
                p.grad, q.grad, rtol=1e-6, atol=1e-6 * max(1.0, float(q.grad.abs().max())), msg=key
            )
    for (key, a), b in zip(fused.state_dict().items(), apart.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6, msg=key)


SHAPES = {"vectors": (), "sequences": (5,), "maps": (4, 3)}


@pytest.mark.parametrize(
    "layout", [torch.contiguous_format, torch.channels_last], ids=["channels-first", "channels-last"]
)
@pytest.mark.parametrize("tokens", [1, 6], ids=["images", "windows"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("interleaved", [False, True], ids=["by-domain", "in-turn"])
def test_a_layer_normalises_by_domain_whatever_its_images_were_cut_into(
    interleaved: bool, shape: str, tokens: int, layout: torch.memory_format
) -> None:
    kind = nn.BatchNorm2d if shape == "maps" else nn.BatchNorm1d
    apart = nn.Sequential(kind(7)).double()
    nn.init.uniform_(apart[0].weight), nn.init.uniform_(apart[0].bias)
    fused = copy.deepcopy(apart)
    networks.per_domain_norms(fused)
    domains = [torch.randn(4, tokens, 7, *SHAPES[shape], dtype=torch.float64) * (i + 1) + i for i in range(3)]
    rows = (networks.interleave(domains) if interleaved else torch.cat(domains)).flatten(0, 1)
    if shape == "maps":
        rows = rows.contiguous(memory_format=layout)
    for _ in range(2):  # the second time on running statistics that have moved
        with networks.per_domain(fused, [4, 4, 4], interleaved):
            found = fused(rows).unflatten(0, (-1, tokens))
        wanted = [apart(x.flatten(0, 1)).unflatten(0, (-1, tokens)) for x in domains]
        by_domain = [found[i::3] for i in range(3)] if interleaved else found.split(4)
        for ours, theirs in zip(by_domain, wanted, strict=True):
            torch.testing.assert_close(ours, theirs)
    for (key, a), b in zip(fused.state_dict().items(), apart.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, msg=key)
    fused.eval(), apart.eval()
    with networks.per_domain(fused, [4, 4, 4], interleaved):
        torch.testing.assert_close(fused(rows), apart(rows))


def passed_together(apart: nn.Module, interleaved: bool) -> tuple[nn.Module, torch.Tensor]:
    """The same layer with statistics per domain, after a pass over two domains that equals two passes; and the images."""
    fused = copy.deepcopy(apart)
    networks.per_domain_norms(fused)
    x = torch.randn(8, 3, 4, 4)
    parts = [x[0::2], x[1::2]] if interleaved else list(x.split(4))
    with networks.per_domain(fused, [4, 4], interleaved):
        found = fused(x)
    found = torch.cat([found[0::2], found[1::2]]) if interleaved else found
    torch.testing.assert_close(found, torch.cat([apart(p) for p in parts]), rtol=1e-6, atol=1e-6)
    return fused, x


@pytest.mark.parametrize("interleaved", [False, True], ids=["by-domain", "in-turn"])
def test_activation_and_drop_of_timms_layer_survive(interleaved: bool) -> None:
    class Halve(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / 2

    apart = nn.Sequential(timm.layers.BatchNormAct2d(3, act_layer=nn.SiLU, drop_layer=Halve))
    fused, x = passed_together(apart, interleaved)
    assert torch.allclose(fused.eval()(x), apart.eval()(x), atol=1e-6)


class Odd(nn.BatchNorm2d):
    """A batch normalisation with a `forward` of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) ** 3


@pytest.mark.parametrize("interleaved", [False, True], ids=["by-domain", "in-turn"])
def test_a_batch_norm_of_any_kind_is_kept_and_goes_domain_by_domain(interleaved: bool) -> None:
    apart = nn.Sequential(Odd(3))
    fused, _ = passed_together(apart, interleaved)
    torch.testing.assert_close(fused[0].running_var, apart[0].running_var, rtol=1e-6, atol=1e-6)


def test_layers_that_keep_statistics_in_another_way_are_refused() -> None:
    with pytest.raises(UserError, match="layers of the kind EvoNorm2dB0"):
        networks.per_domain_norms(nn.Sequential(timm.layers.EvoNorm2dB0(4)))
    networks.per_domain_norms(nn.Sequential(torchvision.ops.FrozenBatchNorm2d(4), nn.LayerNorm(4)))  # nothing moves


# -- initial weights ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["timm:test_vit", "timm:test_convnext", "timm:levit_128s", "mobilenet_v3_small"])
def test_every_initial_weight_comes_from_seed_and_role(name: str) -> None:
    torch.manual_seed(1)
    first = task(name)
    a, other = first.extractor(), first.extractor("other")
    torch.manual_seed(2)
    b, reseeded = task(name).extractor(), task(name, seed=1).extractor()
    for (key, p), q in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
        assert torch.equal(p, q), key
    drawn = [key for key, p in a.named_parameters() if bool((p != p.flatten()[0]).any())]  # no constants
    assert drawn
    for key in drawn:  # no weight is left that the seed does not reach
        for q in (other, reseeded):
            assert not torch.equal(dict(a.named_parameters())[key], dict(q.named_parameters())[key]), key


# -- the contract -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["timm:test_vit", "timm:test_convnext"])
def test_methods_keep_their_contract_on_it(name: str, method: str) -> None:
    toy = Toy.of(NetworkSettings(name=name, image_size=32))
    assert [f for f in check(method, toy=toy, in_the_loop=False) if not f.holds] == []


SOAKED = {
    "conv3fc2": (1 / 32, (3, 32, 32)), "resnet18": (1 / 8, (3, 32, 32)), "effnet-lite0-tail": (1.0, (192, 2, 2)),
    "resnet50": (1.0, (3, 32, 32)), "resnet101": (1.0, (3, 32, 32)), "timm:test_efficientnet": (1.0, (3, 32, 32)),
}  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SOAKED)
def test_methods_keep_their_contract_on_larger_ones_and_on_ours(name: str, method: str) -> None:
    width, shape = SOAKED[name]
    toy = Toy(NetworkSpec(name, width, "", 32), shape=shape, size=4)
    assert [f for f in check(method, toy=toy, in_the_loop=False) if not f.holds] == []


def test_the_verb_checks_a_method_on_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["methods", "check", "source-only:bn", "--network", "timm:test_vit", "--image-size", "16", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["holds"]
    for words, said in (
        ("--network effnet-lite0-tail", "fed activations"),
        ("--network resnet50 --image-size 5", "sides of 8 to 1024 pixels."),
        ("--network squeezenet1_0 --image-size 32", "has no linear layer as its head"),
        ("--network vit_b_16 --image-size 40", "does not work on images of 40 × 40 pixels"),
        ("--image-size 32", "no network is named: add --network NAME."),
    ):
        assert main(["methods", "check", "dann", *words.split()]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
    assert main(["methods", "dann", "--network", "resnet50"]) == 2
    assert "methods check dann --network resnet50" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "verb",
    [
        "plan --suite pacs --methods source-only",
        "run --suite pacs --methods source-only",
        "tune --suite pacs --methods source-only --target A --trials 2",
        "reproduce table2",
    ],
    ids=lambda verb: verb.split()[0],
)
def test_a_network_that_cannot_be_is_said_before_any_run(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = [*verb.split(), "--results", str(tmp_path)]
    for words, said in (
        ("run.network.name=timm:test_vit", "timm:test_vit has no narrow version, and the width 0.125"),
        ("run.network.name=squeezenet1_0", "squeezenet1_0 has no narrow version"),
        ("run.network.name=vit_b_16 --set run.network.width=1.0 --set run.network.image_size=40", "40 × 40 pixels"),
    ):
        assert main([*wanted, "--set", *words.split()]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.rglob("*.json"))


def test_weights_that_are_not_there_are_said_before_any_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["--suite", "pacs", "--methods", "source-only", "--set", "run.network.weights=imagenet"]
    places = ["--results", str(tmp_path / "runs"), "--data-root", str(tmp_path)]
    assert main(["run", *wanted, "--set", "run.network.width=1.0", *places]) == 2
    assert "data fetch --suite pacs --only weights" in " ".join(capsys.readouterr().err.split())
    assert not list((tmp_path / "runs").rglob("*.json"))
    assert main(["plan", *wanted, *places]) == 0  # counted before they can be run


# -- what cannot be ----------------------------------------------------------------------------------------------------


def test_what_a_network_cannot_be_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"resnet50 has no narrow version, and the width 0\.5"):
        networks.shape("resnet50", 0.5, 32)
    with pytest.raises(UserError, match="does not work on images of 40 × 40 pixels"):
        networks.shape("vit_b_16", 1.0, 40)
    with pytest.raises(UserError, match="no linear layer as its head"):
        networks.shape("squeezenet1_0", 1.0, 64)
    monkeypatch.setattr(timm, "create_model", lambda *_, **__: nn.Conv2d(3, 4, 3))
    with pytest.raises(UserError, match="gives no features, one vector an image"):
        networks.shape("timm:test_resnet", 1.0, 48)


# -- runs ---------------------------------------------------------------------------------------------------------------

TINY = (("run.batch", 4), ("run.eval_points", 1), ("run.unsup_images", 8), ("run.updates", 2), ("run.val_images", 4))


def test_a_run_on_a_network_of_a_library_from_suite_file_to_record(tmp_path: Path) -> None:
    suite = suite_with(tmp_path, '{ name = "timm:test_vit", image_size = 16 }')
    spec = RunSpec(suite, "mini", "dann", target="mm", overrides=(*TINY, ("run.statistics_images", 8)))
    execute(spec, results=tmp_path / "runs")
    assert list(records.load(tmp_path / "runs").status) == ["done"]
    dataset = data.load(resolve(spec).suite, "mini", "part")
    assert (dataset.preprocess.size, dataset.preprocess.mean) == (16, (0.5, 0.5, 0.5))


def test_images_follow_a_network_that_is_set_for_one_run() -> None:
    spec = RunSpec(
        "pacs", "mini", "source-only", target="S", overrides=(("run.network.image_size", 48), ("run.augment", False))
    )
    preprocess = data.load(resolve(spec).suite, "mini", "all").preprocess
    assert (preprocess.size, preprocess.flip) == (48, False)


def test_a_run_from_a_file_of_weights_finds_it_in_the_data_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = NetworkSettings(name="timm:test_resnet", weights="imagenet")
    assert weights_file(network, tmp_path) == tmp_path / "weights" / "test_resnet.pth"
    (tmp_path / "weights").mkdir()
    save_file(timm.create_model("test_resnet").state_dict(), tmp_path / "weights" / "test_resnet.safetensors")
    assert weights_file(network, tmp_path) == tmp_path / "weights" / "test_resnet.safetensors"
    monkeypatch.setenv("BENCHMARK_DATA_ROOT", str(tmp_path))
    suite = suite_with(tmp_path, '{ name = "timm:test_resnet", image_size = 32, weights = "imagenet" }')
    made = make_task(resolve(RunSpec(suite, "mini", "source-only", target="mm", data="x")), 10, "cpu")
    theirs = load_file(tmp_path / "weights" / "test_resnet.safetensors")
    assert torch.equal(made.extractor().trunk.conv1[0].weight, theirs["conv1.0.weight"])


# -- counted, and on a GPU that is not there ----------------------------------------------------------------------------


def test_the_flops_of_a_transformer_are_counted() -> None:
    overrides = (("run.network.name", "timm:test_vit"), ("run.network.width", 1.0), ("run.network.image_size", 32))
    resolved = resolve(RunSpec("pacs", "mini", "source-only", target="S", overrides=overrides))
    counted = count(resolved)
    network = networks.build("timm:test_vit", 1.0, 32).trunk
    tokens, width, depth = network.pos_embed.shape[1], network.embed_dim, len(network.blocks)
    linear = sum(math.prod(m.weight.shape) for b in network.blocks for m in b.modules() if isinstance(m, nn.Linear))
    patches = network.patch_embed.num_patches * math.prod(network.patch_embed.proj.weight.shape)
    attention = depth * 2 * tokens**2 * width  # queries with keys, weights with values
    head = width * len(resolved.suite.classes)
    assert counted["image"] == 2 * (tokens * linear + patches + attention + head)
    assert counted["stages"][0][2] > resolved.settings.batch * counted["image"]  # FLOPs of an update


@pytest.mark.parametrize("name", ["timm:test_vit", "timm:test_efficientnet"])
def test_a_step_on_a_gpu_that_is_not_there(name: str, tmp_path: Path) -> None:
    with gpu() as seen:
        run = make_run(
            "pacs", "tsvdnet", "", tmp_path,
            **{"run.network.name": name, "run.network.weights": "", "run.network.image_size": 64},
        )  # fmt: skip
        run.step(0.1)
        seen.restart()
        run.step(0.5)
        assert seen.tally.launches > 0
        assert seen.tally.synchronisations == []


def test_hours_that_were_assumed_of_another_network_are_said_to_be(tmp_path: Path) -> None:
    overrides = (("run.network.name", "timm:test_resnet"), ("run.network.width", 1.0))
    specs = [RunSpec("pacs", "mini", "source-only", target="S", overrides=o) for o in ((), overrides)]
    (_, own), (_, other) = estimate(specs, records.load(tmp_path))
    assert own == "assumed"
    assert "of the suite's own network" in other
