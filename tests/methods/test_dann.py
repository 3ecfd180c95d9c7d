"""DANN: the reversal, the schedule, and what they do."""

import torch

from methods.layers import domain_loss, ramp
from methods.source_only import source_loss
from tests.methods.small import batches, build


def test_extractor_climbs_the_domain_loss_by_lambda_p_while_the_discriminator_descends_it() -> None:
    """The gradient that `update` uses equals ∂CE/∂θ − λ_p ∂BCE/∂θ, computed by two separate backward passes."""
    sources, target = batches()
    for progress in (0.0, 0.3):
        method = build("dann")
        torch.manual_seed(0)
        features, f_t = method.forward_all(sources, target)
        source = source_loss([method.classifier(f) for f in features], sources)
        domain = domain_loss(method.discriminator(torch.cat(features)), method.discriminator(f_t))
        weights = list(method.extractor.parameters())
        of_class = torch.autograd.grad(source, weights, retain_graph=True)
        of_domain = torch.autograd.grad(domain, weights, retain_graph=True)
        of_critic = torch.autograd.grad(domain, list(method.discriminator.parameters()))

        torch.manual_seed(0)
        method.update(sources, target, progress)
        for weight, c, d in zip(weights, of_class, of_domain, strict=True):
            torch.testing.assert_close(weight.grad, c - ramp(progress) * d, atol=1e-6, rtol=1e-4)
        for weight, d in zip(method.discriminator.parameters(), of_critic, strict=True):
            torch.testing.assert_close(weight.grad, d, atol=1e-6, rtol=1e-4)


def test_discriminator_learns_even_while_the_reversal_is_zero() -> None:
    method = build("dann")
    sources, target = batches(size=24)
    torch.manual_seed(0)  # dropout
    losses = [method.update(sources, target, 0.0)["domain"].item() for _ in range(200)]
    assert sum(losses[-10:]) < 0.95 * sum(losses[:10])


def test_reversal_keeps_the_discriminator_from_winning() -> None:
    sources, target = batches(size=24)

    def final(progress: float) -> float:
        method = build("dann")
        torch.manual_seed(0)
        return [method.update(sources, target, progress)["domain"].item() for _ in range(60)][-1]

    assert final(1.0) > final(0.0)


def test_discriminator_is_no_wider_than_the_feature() -> None:
    assert build("dann").discriminator[0].weight.shape == (6, 6)
    assert build("dann", hidden=4).discriminator[0].weight.shape == (4, 6)
