"""T-SVDNet as a Method: Algorithm 2, the released code's fixtures, resuming, diagnostics."""

from __future__ import annotations

import io
import json
import math

import pytest
import torch

from benchmark.run import execute
from benchmark.run.task import NetworkSpec, OptimiserSpec, Task
from methods.contract import LabeledBatch, UnlabeledBatch, build_hparams, registry
from tests.tiny import tiny
from tests.tsvdnet.small import BATCH, batches, build, equal, train, weights
from tsvdnet.method import TSVDNet
from tsvdnet.options import PRESETS
from tsvdnet.prototypes import class_means, gaussian_similarity
from tsvdnet.tensor import rotate, shrink, unrotate

ALL = ["", *PRESETS]
# A ≠ 0 after two updates, pseudo labels from the first by either rule
ALIVE = {"lam": 0.05, "eta_ramp": 0.1, "tau": 0.12, "max_entropy": 2.3}


def test_it_stands_in_the_registry_with_its_title_and_standard():
    cls = registry()["tsvdnet"]
    assert cls is TSVDNet
    assert (cls.title, cls.standards, cls.card) == ("T-SVDNet", ("multi-source",), True)


@pytest.mark.parametrize("preset", ALL)
def test_update_returns_detached_scalars_and_pseudo_labels(preset):
    for terms in train(build(preset), 2):
        labels = terms.pop("pseudo_labels")
        assert labels.shape == (BATCH,)
        assert ((labels >= -1) & (labels < 10)).all()
        assert all(v.shape == () and not v.requires_grad and torch.isfinite(v) for v in terms.values())


@pytest.mark.parametrize("preset", ["", "paper", "code", "et"])
def test_training_learns_the_target(preset):
    """Fifty updates on easy clusters: far above chance, from unlabelled target batches."""
    method = build(preset)
    train(method, 50, total=50)
    right = [method.predict(batches(t)[0][0].images).argmax(1) == batches(t)[0][0].labels for t in range(100, 104)]
    assert torch.cat(right).float().mean() > 0.8


# -- Algorithm 2 ---------------------------------------------------------------------------------------------------


def test_one_update_is_algorithm_2_step_by_step():
    """L_alm with the old A; θ moves; then A is the shrunk G from before the move, with the η that was in force."""
    method = build("et", **ALIVE)
    train(method, 4)
    old_a, old_prototypes, t = method.A.clone(), method.prototypes.clone(), 4
    sources, target = batches(t)
    clone = build("et", **ALIVE)
    clone.load_state_dict(method.state_dict())
    with torch.no_grad():
        found = clone.task.forward_domains([*(s.images for s in sources), target.images])
        unit = [torch.nn.functional.normalize(f) for f in found]
    terms = method.update(sources, target, t / 20)
    labels = [*(s.labels for s in sources), terms["pseudo_labels"]]
    g = []
    for f, y, old in zip(unit, labels, old_prototypes, strict=True):
        mean, present = class_means(f, y, 10)
        new = torch.where(present[:, None], 0.5 * mean + 0.5 * old, old)
        g.append(gaussian_similarity(new, 0.05, "mean", scale=16 / 2048))
    expected = torch.stack(g, dim=2)
    torch.testing.assert_close(method.G, expected)
    assert method.eta == 1.0
    assert terms["tensor"].item() == pytest.approx(0.5 * (expected - old_a).square().sum().item(), rel=1e-4)
    torch.testing.assert_close(method.A, unrotate(shrink(rotate(expected), 0.05)), atol=1e-5, rtol=1e-4)
    assert (old_a != method.A).any()


def test_the_tensor_term_moves_the_extractor_and_not_the_heads():
    """∂((η/2)‖A − G‖²) stands in the update of θ_f only."""
    with_t, without = build("et", entropy="off", **ALIVE, eta0=1.0), build("e", entropy="off", **ALIVE)
    train(with_t, 1), train(without, 1)
    same = {n for n in weights(without) if torch.equal(weights(with_t)[n], weights(without)[n])}
    assert {n for n in same if n.startswith("classifier")} == {"classifier.weight", "classifier.bias"}
    assert "extractor.last.0.weight" not in same


def test_absent_classes_keep_their_prototypes():
    method = build()
    train(method, 3)
    before = method.prototypes.clone()
    sources, target = batches(3)
    only = [LabeledBatch(s.images, torch.zeros_like(s.labels)) for s in sources]
    method.update(only, target, 0.2)
    moved = (method.prototypes != before).any(2)
    assert moved[:-1, 0].all()
    assert not moved[:-1, 1:].any()


# -- the released code's fixtures ----------------------------------------------------------------------------------


def released(**changes: object) -> TSVDNet:
    """`tsvdnet:code` on the digit network, narrow, with the released schedule instead of the budget's."""
    task = Task(
        num_classes=10,
        num_sources=4,
        network=NetworkSpec("conv3fc2", width=1 / 16),
        optimiser=OptimiserSpec(),
        budget=12349,
        seed=1,
        batch_size=64,
    )
    literal = {"eta_schedule": "released", "aux_restart": 233}  # 29,752 images in batches of 128
    return TSVDNet(task, build_hparams(TSVDNet, PRESETS["code"], literal, changes)).train()


def test_first_losses_of_the_released_log_come_out():
    """L_src and L_dom 4·ln 10 (9.207 and 9.209 in the log), L_alm four sources · ~99 · η0/2 = 0.00198."""
    g = torch.Generator().manual_seed(0)
    draw = lambda: torch.randn(64, 3, 32, 32, generator=g)  # noqa: E731
    sources = [LabeledBatch(draw(), torch.arange(64) % 10) for _ in range(4)]
    torch.manual_seed(0)  # dropout: the loop seeds it before each update
    terms = released().update(sources, UnlabeledBatch(draw()), 0.0)
    assert terms["cls"].item() == pytest.approx(4 * math.log(10), abs=0.03)
    assert terms["prototype"].item() == pytest.approx(4 * math.log(10), abs=0.03)
    assert terms["tensor"].item() == pytest.approx(0.00198, abs=0.00002)
    assert terms["entropy"] == 0
    assert terms["confident"] == 0


def test_eta_of_the_released_log_comes_out():
    """4.177248e-05 after the fifteen A-steps of epoch 0; 1 at the 121st, the first iteration of epoch 8."""
    method, eta, steps = released(), [], []
    for t in range(233 * 8 + 1):  # the A-steps of `update`, without the forward passes between them
        before = method.eta
        method.low_rank.step(method.G)
        eta.append(method.eta)
        if method.eta != before:
            steps.append(t)
    assert sum(t < 233 for t in steps) == 15
    assert eta[232] == pytest.approx(4.177248e-05, rel=1e-6)
    assert len(steps) == 121
    assert steps[-1] == 8 * 233
    assert eta[8 * 233 - 1] < 1 == eta[8 * 233]
    assert method.diagnostics()["a_zero_whole_run"]


def test_without_the_released_schedule_eta_follows_the_progress_of_the_budget():
    method = build("code", eta_max=0.1)
    train(method, 4, total=20)
    assert method.eta == pytest.approx(0.1)
    assert method.diagnostics()["share_eta_max"] == 0.25


@pytest.mark.parametrize("preset", ["", "e", "code-u"])
def test_the_state_has_the_names_that_hashes_of_earlier_records_were_taken_over(preset):
    """`verify` compares hashes over names and values: moving a tensor into a part must not rename it."""
    method = build(preset)
    own = {n for n in method.state_dict()["modules"] if not n.startswith(("extractor.", "classifier.", "head."))}
    assert own == {"prototypes", "seen", "G", "A", "a_alive", "a_nonzero", "confident"}
    heads = {n for n in method.state_dict()["modules"] if n.startswith("head.")}
    assert heads == (set() if preset == "e" else {"head.weight", "head.bias"})


# -- resuming, prediction, devices ---------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ALL)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(preset):
    whole = build(preset, **ALIVE)
    train(whole, 6)
    half = build(preset, **ALIVE)
    train(half, 3)
    file = io.BytesIO()
    torch.save(half.state_dict(), file)
    file.seek(0)
    resumed = build(preset, **ALIVE)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert resumed.diagnostics() == half.diagnostics()
    train(resumed, 3, start=3)
    assert equal(resumed, whole)
    assert resumed.diagnostics() == whole.diagnostics()


@pytest.mark.parametrize("preset", ["", "paper", "code"])
def test_prediction_is_a_distribution_and_changes_nothing(preset):
    method = build(preset)
    train(method, 2)
    before, images = weights(method), batches(9)[1].images
    p = method.predict(images)
    torch.testing.assert_close(p.sum(1), torch.ones(BATCH))
    assert torch.equal(p, method.predict(images))
    assert method.features(images).shape == (BATCH, 16)
    assert all(torch.equal(v, before[k]) for k, v in weights(method).items())
    assert method.training


@pytest.mark.parametrize("preset", ALL)
def test_an_update_never_waits_for_the_device(preset):
    """On the device "meta" tensors have shapes and no values: whatever reads one fails."""
    method = build(preset, device="meta", **ALIVE)
    for name, optimiser in method.optimisers.items():  # the fused ones of a task do not know this device
        method.optimisers[name] = torch.optim.SGD(optimiser.param_groups[0]["params"], lr=0.1)
    sources, target = batches(0)
    there = [LabeledBatch(s.images.to("meta"), s.labels.to("meta")) for s in sources]
    for t in (0, 10):
        terms = method.update(there, UnlabeledBatch(target.images.to("meta")), t / 20)
    assert {v.device.type for v in terms.values()} == {"meta"}


def test_half_precision_of_the_extractor_leaves_similarities_in_float32():
    method = build(**ALIVE)
    sources, target = batches(0)
    with torch.autocast("cpu", torch.bfloat16):
        method.update(sources, target, 0.5)
    assert method.G.dtype == method.A.dtype == torch.float32
    assert (method.G.diagonal() == 1).all()


# -- diagnostics ---------------------------------------------------------------------------------------------------


def test_diagnostics_are_json_and_say_what_the_record_promises():
    method = build(**ALIVE)
    train(method, 6)
    found = method.diagnostics()
    assert json.loads(json.dumps(found)) == found
    assert len(found["a_rank"]) == 10
    assert found["survive_zero_frequency"] == found["a_rank"][0] / 5
    assert found["a_minus_g"] == pytest.approx((method.A - method.G).norm().item())
    assert found["sigma_bound"] == pytest.approx(70.71, abs=0.01)
    assert found["threshold"] == pytest.approx(0.05)
    assert found["share_a_nonzero"] == pytest.approx(5 / 6)  # the first η is too small
    assert not found["a_zero_whole_run"]
    assert set(found) >= {"sigma_S1", "sigma_S2", "sigma_S3", "sigma_S4", "sigma_T"}
    assert all(sorted(found[f"sigma_{d}"]) == found[f"sigma_{d}"] for d in ("S1", "T"))


def test_presets_without_a_tensor_term_say_nothing_of_a():
    method = build("e")
    train(method, 2)
    assert "a_zero_whole_run" not in method.diagnostics()
    assert "a_norm" not in build("tnn").diagnostics()


# -- what a reader of a table must know --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "preset, changes, parts",
    [
        ("", {}, "+E and +T did"),
        ("code", {"max_entropy": 0.0}, "+E and +T did"),
        ("e", {}, "+E did"),
        ("paper", {}, "+T did"),  # +E acts on all of the target there
    ],
)
def test_a_run_without_a_pseudo_label_says_which_parts_did_not_act(preset, changes, parts):
    method = build(preset, **{"tau": 1.0, **changes})
    train(method, 3)
    said = method.remarks(method.diagnostics())
    assert (
        f"no target image was confident enough for a pseudo label at any update: {parts} not act on the target" in said
    )
    assert ("A was zero at every update: the low-rank term had no low-rank tensor" in said) == (preset != "e")


def test_one_pseudo_label_is_enough_to_say_nothing_and_the_share_is_of_the_whole_run():
    method = build(**ALIVE)
    shares = [t["confident"].item() for t in train(method, 4)]
    found = method.diagnostics()
    assert found["share_confident"] == pytest.approx(sum(shares) / 4)
    assert 0 < found["share_confident"] < 1
    assert method.remarks(found) == []
    assert build("e", entropy="off", tau=1.0).remarks({"share_confident": 0.0}) == []  # nothing rests on pseudo labels


def test_the_record_of_a_run_keeps_what_its_method_remarks(tmp_path):
    silent = execute(tiny("tsvdnet", overrides={"tau": 1.0}), results=tmp_path)
    assert [words.split(":")[0] for words in silent["remarks"]] == [
        "A was zero at every update", "no target image was confident enough for a pseudo label at any update",
    ]  # fmt: skip
    acting = execute(tiny("tsvdnet", overrides={"tau": 0.0, "lam": 0.001}), results=tmp_path)
    assert acting["remarks"] == []
    assert acting["diagnostics"]["share_confident"] == 1
    assert execute(tiny("source-only"), results=tmp_path)["remarks"] == []
