"""Every option of T-SVDNet is seen in what a run computes: in weights, in A, in predictions, or in σ."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import pytest
import torch

from methods.contract import HParams, build_hparams
from methods.errors import MethodError
from tests.tsvdnet.small import BATCH, batches, build, equal, train
from tsvdnet.disputes import DISPUTES
from tsvdnet.method import TSVDNet
from tsvdnet.options import CHOICES, PRESETS, TSVDNetHParams
from tsvdnet.prototypes import entropy, pseudo_labels
from tsvdnet.tensor import rotate, tensor_nuclear_norm

ALIVE = {"lam": 0.05, "eta_ramp": 0.1}  # A ≠ 0 after two updates
LABELS = {"tau": 0.12, "max_entropy": 2.3}  # pseudo labels from the first update, by either rule
NO_LABELS = {"tau": 1.0}  # none ever

# field → (base changes, the other value); together every field of the hyper-parameters
OTHER: dict[str, tuple[dict[str, Any], Any]] = {
    "lam": (ALIVE, 0.5),
    "eta_max": ({}, 3.0),
    "eta0": ({}, 1e-2),
    "eta_ramp": ({}, 0.6),
    "rho": ({"eta_schedule": "released", "eta0": 0.1}, 1.5),
    "gamma": ({}, 0.02),
    "kernel_dim": ({}, 0),
    "alpha": ({}, 0.9),
    "tau": ({}, 0.3),
    "max_entropy": ({"pseudo": "entropy"}, 2.0),
    "entropy_weight": ({"entropy": "all"}, 0.1),
    "tnn_weight": ({"tensor": "tnn"}, 1.0),
    "normalise": ({}, "never"),
    "distance": ({}, "sum"),
    "pseudo": ({"tau": 0.2}, "entropy"),
    "epsilons": ({}, "released"),
    "source_loss": ({}, "sum"),
    "prototype_loss": ({}, True),
    "entropy": (NO_LABELS, "all"),
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
    "gate": (NO_LABELS, False),
    "a_init": ({"eta0": 1.0}, "zero"),
    "extra_linear": ({}, True),
    "single_lr": ({}, True),
}


def test_every_hyper_parameter_stands_in_the_table_above():
    own = {f.name for f in dataclasses.fields(TSVDNetHParams)} - {f.name for f in dataclasses.fields(HParams)}
    assert set(OTHER) == own


@pytest.mark.parametrize("field", OTHER)
def test_the_option_changes_what_is_learned(field):
    base, value = OTHER[field]
    one, two = build(**{**LABELS, **base}), build(**{**LABELS, **base, field: value})
    train(one), train(two)
    changed = {n for n, p in one.extractor.state_dict().items() if not torch.equal(p, two.extractor.state_dict()[n])}
    assert changed


def test_unknown_values_are_refused_with_the_allowed_ones():
    with pytest.raises(MethodError, match="'paper'"):
        build_hparams(TSVDNet, {"prox": "papper"})
    with pytest.raises(MethodError, match="above zero"):
        build_hparams(TSVDNet, {"lam": 0.0})
    with pytest.raises(MethodError, match="aux_every"):
        build_hparams(TSVDNet, {"aux_every": 0})


@pytest.mark.parametrize("field, value", [(f, v) for f, values in CHOICES.items() for v in values])
def test_every_value_of_every_option_trains(field, value):
    method = build(**{field: value})
    for terms in train(method, 3):
        assert all(torch.isfinite(v).all() for v in terms.values())


@functools.lru_cache
def trained(preset: str, **changes: Any) -> TSVDNet:
    method = build(preset, **LABELS, eta_ramp=0.1, **changes)
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
        assert d.decision.startswith(("paper: ", "release: ", "ours: ")), d.id
        default = build_hparams(TSVDNet)
        assert all(getattr(default, key) != value for key, value in d.changes.items()), d.id
        build_hparams(TSVDNet, d.changes)


def test_the_rows_of_table_4_exist_in_the_releases_weights_and_each_adds_one_part():
    """+E → + prototype loss → +T → +U: the terms of the objective, and nothing else between two rows."""
    steps = [set(first(build(p, **LABELS))) - {"pseudo_labels", "confident"} for p in ("code-e", "code-p", "code")]
    assert steps == [{"cls", "entropy"}, {"cls", "entropy", "prototype"}, {"cls", "entropy", "prototype", "tensor"}]
    rows = {p: dataclasses.asdict(build_hparams(TSVDNet, PRESETS[p])) for p in ("code-e", "code-p", "code", "code-u")}

    def changed(a: str, b: str) -> set[str]:
        return {key for key in rows[a] if rows[a][key] != rows[b][key]}

    assert changed("code-e", "code-p") == {"prototype_loss"}
    assert changed("code-p", "code") == {"tensor"}
    assert changed("code", "code-u") == {"uncertainty"}
    assert rows["code-u"]["uncertainty"] == "approximate"


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
    always, training = build(normalise="always"), build()
    train(always), train(training)
    assert equal(always, training)
    images = batches(0)[1].images
    assert not torch.allclose(always.predict(images), training.predict(images))
    raw = training.features(images)
    torch.testing.assert_close(training.predict(images), training.classifier(raw).softmax(1).detach())
    unit = torch.nn.functional.normalize(raw)
    torch.testing.assert_close(always.predict(images), always.classifier(unit).softmax(1).detach())


def test_sigma_is_read_from_features_as_the_loss_saw_them():
    """D11: at test the classifier gets raw features, the uncertainty head those of training."""
    method = build()
    train(method, 2)
    images = batches(0)[1].images
    unit = torch.nn.functional.normalize(method.features(images))
    torch.testing.assert_close(method.sigma(images), (method.head(unit).exp().log1p() + 0.1).sqrt().detach())


@pytest.mark.parametrize("classes, probability", [(10, 0.863), (345, 0.926)])
def test_the_released_entropy_is_this_probability_when_the_rest_is_spread_evenly(classes, probability):
    """D6: what 0.7 nat asks of the most probable class; two classes alone share the mass at ½ each and pass."""

    def labels(p: float) -> list[int]:
        rest = torch.full((classes - 1,), (1 - p) / (classes - 1), dtype=torch.float64)
        return pseudo_labels(torch.cat([torch.tensor([p]), rest])[None], "entropy", 0.7).tolist()

    assert labels(probability - 0.001) == [-1]
    assert labels(probability + 0.001) == [0]
    assert pseudo_labels(torch.tensor([[0.5001, 0.4999, 0.0]]), "entropy", 0.7).tolist() == [0]


def test_the_released_epsilons_stand_in_the_divisor_and_in_the_logarithm():
    sure = {"pseudo": "entropy", "max_entropy": 3.0, "alpha": 1.0}
    plain, released = build(**sure), build(**sure, epsilons="released")
    one, two = first(plain), first(released)
    sources, _ = batches(0)
    for d, batch in enumerate(sources):
        count = torch.bincount(batch.labels, minlength=10)[:, None]
        torch.testing.assert_close(
            released.prototypes[d], plain.prototypes[d] * count / (count + 1e-5), rtol=1e-6, atol=0
        )
    p = torch.tensor([[1.0, 0.0], [0.25, 0.75]], dtype=torch.float64)
    torch.testing.assert_close(entropy(p, 1e-8), -(p * (p + 1e-8).log()).sum(1), rtol=0, atol=0)
    assert one["entropy"].item() == pytest.approx(two["entropy"].item(), rel=1e-5)


def test_entropy_over_classes_too_is_one_c_th_of_the_entropy_per_sample():
    """D10"""
    ratio = first(build(entropy="all", entropy_mean="samples"))["entropy"] / first(build(entropy="all"))["entropy"]
    assert ratio.item() == pytest.approx(10, rel=1e-5)


def test_entropy_of_confident_samples_is_zero_when_there_are_none_and_off_is_absent():
    assert first(build(**NO_LABELS))["entropy"] == 0
    assert "entropy" not in first(build(entropy="off"))


def test_the_gate_keeps_the_tensor_term_out_until_the_first_target_pseudo_label():
    """D20: without any pseudo label training equals training without +T, bit for bit."""
    gated, off, open_ = (build(**NO_LABELS, **c) for c in ({}, {"tensor": "off"}, {"gate": False}))
    for method in (gated, off, open_):
        train(method, 8)
    assert all(torch.equal(p, q) for p, q in zip(gated.parameters(), off.parameters(), strict=True))
    assert not all(torch.equal(p, q) for p, q in zip(gated.parameters(), open_.parameters(), strict=True))
    assert gated.memory.seen.tolist() == [1, 1, 1, 1, 0]
    assert (gated.G[:, :, -1] == 0).all()


def test_without_uncertainty_there_is_no_head_and_no_sigma():
    """D1"""
    method = build("code")
    assert not hasattr(method, "head")
    assert method.sigma(batches(0)[1].images) is None
    assert build().sigma(batches(0)[1].images).shape == (BATCH,)


def test_the_nuclear_norm_preset_descends_the_rotated_norm():
    method = build("tnn", **LABELS)
    term = first(method)["tensor"]
    assert term.item() == pytest.approx(0.01 * tensor_nuclear_norm(rotate(method.G)).item())


def test_the_a_step_comes_every_so_many_updates_and_the_count_restarts():
    """D7, and the released counter that begins anew with every epoch."""

    def steps(**changes: int) -> list[int]:
        method, found = build(**ALIVE, **LABELS, gate=False, **changes), []
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
    method, flat = build(**ALIVE, **LABELS), build(**ALIVE, **LABELS, rotation=False)
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
    method = build()
    assert method.A.min() >= 0
    assert method.A.max() > 0.9
    train(method, 1)
    assert (method.A == 0).all()
