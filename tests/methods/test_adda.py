"""ADDA: two stages, what moves in each, and the inverted-label loss."""

import copy

import torch
from torch.nn import functional as F

from tests.methods.small import NO_VIEWS, batches, build, moved


def parts(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def test_pretraining_moves_the_source_network_only_and_never_sees_the_target() -> None:
    method = build("adda")
    sources, target = batches()
    assert parts(moved(method, lambda: method.update(sources, target, 0.0))) == {"source_encoder", "source_classifier"}
    by_hand = method.source_classifier.eval()(method.source_encoder.eval()(target.images)).softmax(1)
    torch.testing.assert_close(method.predict(target.images), by_hand.detach())


def test_adaptation_starts_from_the_source_network() -> None:
    method = build("adda")
    sources, target = batches()
    for _ in range(3):
        method.update(sources, target, 0.0)
    before = method.predict(target.images)
    method.enter("adapt", NO_VIEWS)
    assert torch.equal(method.predict(target.images), before)


def test_adaptation_moves_target_encoder_and_discriminator_and_nothing_of_the_source() -> None:
    for preset, expected in (
        ("", {"target_encoder", "discriminator"}),
        ("code", {"target_encoder", "target_classifier", "discriminator"}),
    ):
        method = build("adda", preset)
        sources, target = batches()
        method.update(sources, target, 0.0)
        method.enter("adapt", NO_VIEWS)
        names = moved(method, lambda m=method, s=sources, t=target: m.update(s, t, 0.0))
        assert parts({n for n in names if not n.endswith("num_batches_tracked")}) == expected


def test_target_encoder_descends_the_inverted_label_loss() -> None:
    """−log D(E_t(x_t)), not the discriminator's own loss with its sign turned: the gradients of both are compared."""
    method = build("adda")
    sources, target = batches()
    method.update(sources, target, 0.0)
    method.enter("adapt", NO_VIEWS)
    encoder = copy.deepcopy(method.target_encoder)
    torch.manual_seed(3)
    method.task.forward_domains([s.images for s in sources], method.source_encoder)  # the same dropout draws
    fake = encoder(target.images)
    torch.manual_seed(3)
    method.update(sources, target, 0.0)  # the discriminator has stepped before the encoder's gradient is taken
    scores = method.discriminator(fake)
    inverted = torch.autograd.grad(-F.logsigmoid(scores).mean(), list(encoder.parameters()), retain_graph=True)
    for weight, gradient in zip(method.target_encoder.parameters(), inverted, strict=True):
        torch.testing.assert_close(weight.grad, gradient, atol=1e-7, rtol=1e-4)


def test_second_stage_runs_at_its_own_rate_without_weight_decay() -> None:
    method = build("adda", adapt_lr=0.5)
    for name in ("target", "discriminator"):
        group = method.optimisers[name].param_groups[0]
        assert group["lr"] == 0.5 * method.task.optimiser_spec.lr["extractor"]
        assert group["weight_decay"] == 0
        assert group["betas"][0] == 0.5
    assert method.optimisers["source encoder"].param_groups[0]["weight_decay"] == 5e-4
