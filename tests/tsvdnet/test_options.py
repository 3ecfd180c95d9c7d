"""Every option of T-SVDNet is seen in what a run computes: in weights, in A, in predictions, or in σ."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import pytest
import torch

from benchmark.errors import UserError
from methods.contract import HParams, build_hparams
from tests.tsvdnet.small import BATCH, batches, build, equal, train
from tsvdnet.disputes import DISPUTES
from tsvdnet.method import TSVDNet
from tsvdnet.options import CHOICES, PRESETS, TSVDNetHParams
from tsvdnet.tensor import rotate, tensor_nuclear_norm

ALIVE = {"lam": 0.05, "eta_ramp": 0.1}  # A ≠ 0 after two updates

# field → (base changes, the other value); together every field of the hyper-parameters
OTHER: dict[str, tuple[dict[str, Any], Any]] = {
    "lam": (ALIVE, 0.5),
    "eta_max": ({}, 3.0),
    "eta0": ({}, 1e-2),
    "eta_ramp": ({}, 0.6),
    "rho": ({"eta_schedule": "released", "eta0": 0.1}, 1.5),
    "gamma": ({}, 0.02),
    "kernel_dim": ({}, 0),
    "unit_scale": ({}, 4.0),
    "alpha": ({}, 0.9),
    "tau": ({"pseudo": "probability"}, 0.1),
    "max_entropy": ({}, 2.0),
    "entropy_weight": ({"entropy": "all"}, 0.1),
    "tnn_weight": ({"tensor": "tnn"}, 1.0),
    "normalise": ({}, "never"),
    "distance": ({}, "sum"),
    "pseudo": ({"tau": 0.2}, "probability"),
    "source_loss": ({}, "sum"),
    "prototype_loss": ({}, True),
    "entropy": ({"max_entropy": 0.0}, "all"),
    "entropy_mean": ({"entropy": "all"}, "samples"),
    "uncertainty": ({}, "exact"),
    "sigma_link": ({}, "exp"),
    "sigma_floor": ({}, 0.5),
    "tensor": ({}, "off"),
    "prox": (ALIVE, "code"),
    "repeat_top": (ALIVE, True),
    "rotation": (ALIVE, False),
    "aux_every": (ALIVE, 4),
    "aux_restart": ({**ALIVE, "aux_every": 4}, 3),
    "eta_schedule": ({}, "released"),
    "lam_rule": ({"eta_ramp": 0.1}, "active"),
    "gate": ({"max_entropy": 0.0}, False),
    "a_init": ({"eta0": 1.0}, "random"),
    "extra_linear": ({}, True),
    "single_lr": ({}, True),
}


def test_every_hyper_parameter_stands_in_the_table_above():
    own = {f.name for f in dataclasses.fields(TSVDNetHParams)} - {f.name for f in dataclasses.fields(HParams)}
    assert set(OTHER) == own


@pytest.mark.parametrize("field", OTHER)
def test_the_option_changes_what_is_learned(field):
    base, value = OTHER[field]
    one, two = build(**{"max_entropy": 2.3, **base}), build(**{"max_entropy": 2.3, **base, field: value})
    train(one), train(two)
    changed = {n for n, p in one.extractor.state_dict().items() if not torch.equal(p, two.extractor.state_dict()[n])}
    assert changed


def test_unknown_values_are_refused_with_the_allowed_ones():
    with pytest.raises(UserError, match="'paper'"):
        build_hparams(TSVDNet, {"prox": "papper"})
    with pytest.raises(UserError, match="above zero"):
        build_hparams(TSVDNet, {"lam": 0.0})
    with pytest.raises(UserError, match="aux_every"):
        build_hparams(TSVDNet, {"aux_every": 0})


@pytest.mark.parametrize("field, value", [(f, v) for f, values in CHOICES.items() for v in values])
def test_every_value_of_every_option_trains(field, value):
    method = build(**{field: value})
    for terms in train(method, 3):
        assert all(torch.isfinite(v).all() for v in terms.values())


@functools.lru_cache
def trained(preset: str, **changes: Any) -> TSVDNet:
    method = build(preset, max_entropy=2.3, eta_ramp=0.1, **changes)
    train(method, 3)
    return method


@pytest.mark.parametrize("a, b", list(itertools.combinations(["", *PRESETS], 2)))
def test_no_two_presets_compute_the_same(a, b):
    # at λ = 1000 A is zero with and without rotation: that pair differs once λ is small
    changes = {"lam": 0.05} if {a, b} == {"", "no-rotation"} else {}
    assert not equal(trained(a, **changes), trained(b, **changes))


def test_every_dispute_is_an_option_with_an_effect_or_says_where_it_is_settled():
    assert [d.id for d in DISPUTES] == [f"D{i}" for i in range(1, 27)]
    for d in DISPUTES:
        assert bool(d.changes) != bool(d.settled), d.id
        assert set(d.changes) <= set(OTHER), d.id
        default = build_hparams(TSVDNet)
        assert all(getattr(default, key) != value for key, value in d.changes.items()), d.id
        build_hparams(TSVDNet, d.changes)


def test_presets_set_switches_and_no_number_of_a_dataset():
    dataset = {"lam", "eta_max", "gamma", "rho", "eta_ramp", "kernel_dim"}
    assert not any(dataset & set(preset) for preset in PRESETS.values())


# -- single claims -------------------------------------------------------------------------------------------------


def first(method: TSVDNet) -> dict[str, torch.Tensor]:
    return train(method, 1)[0]


def test_sources_are_averaged_as_printed_or_summed_as_released():
    """D8"""
    assert (first(build(source_loss="sum"))["cls"] / first(build())["cls"]).item() == pytest.approx(4)


def test_normalisation_in_training_only_trains_the_same_weights_and_predicts_otherwise():
    """D11"""
    always, training = build(), build(normalise="training")
    train(always), train(training)
    assert equal(always, training)
    images = batches(0)[1].images
    assert not torch.allclose(always.predict(images), training.predict(images))
    raw = training.features(images)
    torch.testing.assert_close(training.predict(images), training.classifier(raw).softmax(1).detach())
    unit = torch.nn.functional.normalize(raw)
    torch.testing.assert_close(always.predict(images), always.classifier(unit).softmax(1).detach())


def test_the_length_of_normalised_features_changes_the_heads_and_not_the_kernel():
    one, four = build("et"), build("et", unit_scale=4.0)
    first(one), first(four)
    torch.testing.assert_close(one.G, four.G)
    torch.testing.assert_close(4 * one.prototypes, four.prototypes)
    assert one.lam == four.lam
    assert build("active").lam == pytest.approx(build("active", unit_scale=4.0).lam)


def test_longer_features_make_predictions_confident_sooner():
    short, long = ([t["confident"].item() for t in train(build(unit_scale=s), 20)] for s in (1.0, 16.0))
    assert sum(long) > sum(short)


def test_entropy_over_classes_too_is_one_c_th_of_the_entropy_per_sample():
    """D10"""
    ratio = first(build(entropy="all", entropy_mean="samples"))["entropy"] / first(build(entropy="all"))["entropy"]
    assert ratio.item() == pytest.approx(10, rel=1e-5)


def test_entropy_of_confident_samples_is_zero_when_there_are_none_and_off_is_absent():
    assert first(build(max_entropy=0.0))["entropy"] == 0
    assert "entropy" not in first(build(entropy="off"))


def test_the_gate_keeps_the_tensor_term_out_until_the_first_target_pseudo_label():
    """D20: without any pseudo label training equals training without +T, bit for bit."""
    gated, off, open_ = (build(max_entropy=0.0, **c) for c in ({}, {"tensor": "off"}, {"gate": False}))
    for method in (gated, off, open_):
        train(method, 8)
    assert all(torch.equal(p, q) for p, q in zip(gated.parameters(), off.parameters(), strict=True))
    assert not all(torch.equal(p, q) for p, q in zip(gated.parameters(), open_.parameters(), strict=True))
    assert gated.seen.tolist() == [1, 1, 1, 1, 0]
    assert (gated.G[:, :, -1] == 0).all()


def test_without_uncertainty_there_is_no_head_and_no_sigma():
    """D1"""
    method = build("code")
    assert not hasattr(method, "head")
    assert method.sigma(batches(0)[1].images) is None
    assert build().sigma(batches(0)[1].images).shape == (BATCH,)


def test_the_nuclear_norm_preset_descends_the_rotated_norm():
    method = build("tnn", max_entropy=2.3)
    term = first(method)["tensor"]
    assert term.item() == pytest.approx(0.01 * tensor_nuclear_norm(rotate(method.G)).item())


def test_the_a_step_comes_every_so_many_updates_and_the_count_restarts():
    """D7, and the released counter that begins anew with every epoch."""

    def steps(**changes: int) -> list[int]:
        method, found = build(**ALIVE, a_init="random", max_entropy=2.3, gate=False, **changes), []
        for t in range(9):
            before = method.A
            train(method, 1, start=t)
            if method.A is not before:
                found.append(t)
        return found

    assert steps() == list(range(9))
    assert steps(aux_every=4) == [0, 4, 8]
    assert steps(aux_every=4, aux_restart=5) == [0, 4, 5]


def test_rotation_shrinks_the_other_slices():
    method, flat = build(**ALIVE, max_entropy=2.3), build(**ALIVE, max_entropy=2.3, rotation=False)
    train(method, 4), train(flat, 4)
    assert len(method.diagnostics()["a_rank"]) == 10
    assert len(flat.diagnostics()["a_rank"]) == 5


def test_the_extra_layer_comes_before_the_classifier_and_single_lr_gives_heads_the_extractors_rate():
    """D17"""
    method = build(extra_linear=True)
    assert [m.out_features for m in method.classifier] == [16, 10]
    rates = {n: o.param_groups[0]["lr"] for n, o in build(single_lr=True).optimisers.items()}
    assert rates == {"extractor": 0.01, "classifier": 0.01, "uncertainty": 0.01}
    assert build().optimisers["classifier"].param_groups[0]["lr"] == 0.02


def test_a_random_first_a_is_gone_after_the_first_a_step():
    """D16"""
    method = build(a_init="random")
    assert method.A.min() >= 0
    assert method.A.max() > 0.9
    train(method, 1)
    assert (method.A == 0).all()
