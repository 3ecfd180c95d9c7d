"""The label-free scores against the same numbers computed the slow way, from their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from benchmark.run.score import validators
from benchmark.spec.seeds import seed_of


def predictions(n: int = 12, classes: int = 4, sharp: float = 1.5) -> torch.Tensor:
    """(n, classes) rows of probabilities, double."""
    generator = torch.Generator().manual_seed(seed_of("test", n, classes))
    return (sharp * torch.randn(n, classes, generator=generator, dtype=torch.float64)).softmax(1)


def entropy(p: list[float]) -> float:
    return -sum(x * math.log(x) for x in p if x > 0)


def test_mutual_information_is_the_entropy_of_the_mean_less_the_mean_entropy() -> None:
    p = predictions().tolist()
    mean = [sum(row[c] for row in p) / len(p) for c in range(len(p[0]))]
    slow = entropy(mean) - sum(map(entropy, p)) / len(p)
    assert validators.mutual_information(torch.tensor(p, dtype=torch.float64)) == pytest.approx(slow, abs=1e-12)


def test_mutual_information_is_log_c_when_confident_and_even_and_nothing_when_all_predictions_are_equal() -> None:
    assert validators.mutual_information(torch.eye(5, dtype=torch.float64)) == pytest.approx(math.log(5))
    assert validators.mutual_information(predictions(1).expand(9, -1)) == pytest.approx(0, abs=1e-12)


def test_neighbourhood_density_is_the_mean_entropy_of_the_softmax_over_the_other_predictions() -> None:
    p = predictions().tolist()
    norms = [math.sqrt(sum(x * x for x in row)) for row in p]
    total = 0.0
    for i, a in enumerate(p):
        terms = []
        for j, b in enumerate(p):
            if i != j:
                cosine = sum(x * y for x, y in zip(a, b, strict=True)) / (norms[i] * norms[j])
                terms.append(math.exp(cosine / validators.TEMPERATURE))
        total += entropy([t / sum(terms) for t in terms])
    slow = total / len(p)
    assert validators.neighbourhood_density(torch.tensor(p, dtype=torch.float64)) == pytest.approx(slow, abs=1e-10)


def test_neighbourhood_density_is_highest_when_all_are_neighbours_and_nothing_is_no_neighbour() -> None:
    """n equal predictions: each has n − 1 neighbours of the same weight. Two dense groups: about half as many."""
    alike = validators.neighbourhood_density(predictions(1).expand(9, -1).contiguous())
    assert alike == pytest.approx(math.log(8))
    two = torch.eye(2, dtype=torch.float64).repeat_interleave(10, 0)
    assert validators.neighbourhood_density(two) == pytest.approx(math.log(9), abs=1e-6)
    assert validators.neighbourhood_density(predictions(1)) == 0.0


def test_nuclear_norm_is_the_sum_of_singular_values_scaled_to_one() -> None:
    p = predictions(30, 6)
    eigenvalues = np.linalg.eigvalsh((p.T @ p).numpy())  # σ² of P
    slow = sum(math.sqrt(max(v, 0.0)) for v in eigenvalues) / math.sqrt(30 * 6)
    assert validators.nuclear_norm(p) == pytest.approx(slow, abs=1e-10)
    few = predictions(3, 6)  # fewer images than classes
    slow = sum(math.sqrt(max(v, 0.0)) for v in np.linalg.eigvalsh((few @ few.T).numpy())) / math.sqrt(3 * 3)
    assert validators.nuclear_norm(few) == pytest.approx(slow, abs=1e-10)


def test_nuclear_norm_is_one_when_confident_and_even_and_least_when_nothing_is_known() -> None:
    assert validators.nuclear_norm(torch.eye(5, dtype=torch.float64).repeat(4, 1)) == pytest.approx(1)
    unknown = torch.full((20, 5), 0.2, dtype=torch.float64)  # ‖P‖_* = √(20/5)
    assert validators.nuclear_norm(unknown) == pytest.approx(2 / 10)


# -- DEV --------------------------------------------------------------------------------------------------------------


def test_weighted_risk_is_the_weighted_mean_with_its_control_variate() -> None:
    rng = np.random.default_rng(0)
    errors, weights = (rng.random(40) < 0.3).astype(float), rng.gamma(2.0, 0.5, 40)
    weighted = [w * e for w, e in zip(weights, errors, strict=True)]
    mean, mean_w = sum(weighted) / 40, sum(weights) / 40
    covariance = sum((a - mean) * (w - mean_w) for a, w in zip(weighted, weights, strict=True)) / 39
    eta = -covariance / (sum((w - mean_w) ** 2 for w in weights) / 39)
    slow = mean + eta * mean_w - eta
    assert validators.weighted_risk(torch.tensor(errors), torch.tensor(weights)) == pytest.approx(slow, abs=1e-12)


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_weighted_risk_of_equal_weights_is_the_importance_weighted_mean(weight: float) -> None:
    errors = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    found = validators.weighted_risk(errors, torch.full((5,), weight, dtype=torch.float64))
    assert found == pytest.approx(weight * 0.4)


def test_weighted_risk_is_unbiased_under_a_covariate_shift_and_steadier_than_the_plain_weighted_mean() -> None:
    """x ∈ {0, 1, 2} with p_S and p_T, error probability r(x): the target's risk is Σ p_T r, the source's another."""
    p_s, p_t, r = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.3, 0.6]), np.array([0.1, 0.3, 0.7])
    truth = float(p_t @ r)
    rng = np.random.default_rng(1)
    controlled, plain = [], []
    for _ in range(400):
        x = rng.choice(3, size=300, p=p_s)
        errors, weights = torch.tensor((rng.random(300) < r[x]).astype(float)), torch.tensor((p_t / p_s)[x])
        controlled.append(validators.weighted_risk(errors, weights))
        plain.append(float((errors * weights).mean()))
    assert np.mean(controlled) == pytest.approx(truth, abs=0.01)
    assert abs(truth - float(p_s @ r)) > 0.2  # what the source alone would say is far off
    assert np.std(controlled) < np.std(plain)


def test_importance_recovers_the_density_ratio_of_two_gaussians() -> None:
    """N(0, I) and N(m, I): log p_T/p_S = m·x − |m|²/2 is linear, so logistic regression can find it."""
    generator = torch.Generator().manual_seed(0)
    shift = torch.tensor([0.8, -0.4, 0.0])
    source = torch.randn(2000, 3, generator=generator)
    target = torch.randn(1200, 3, generator=generator) + shift
    weights = validators.importance(source, target, seed=0)
    truth = (source @ shift - shift @ shift / 2).double()
    assert float((weights.log() - truth).abs().mean()) < 0.15
    assert float(torch.corrcoef(torch.stack([weights.log(), truth]))[0, 1]) > 0.98
    assert float(weights.mean()) == pytest.approx(1, abs=0.1)  # Σ p_S · p_T/p_S


def test_importance_is_one_without_a_shift_whatever_the_numbers_of_images() -> None:
    generator = torch.Generator().manual_seed(0)
    source, target = (torch.randn(n, 2, generator=generator) for n in (1000, 250))
    weights = validators.importance(source, target, seed=0)
    assert float(weights.mean()) == pytest.approx(1, abs=0.1)
    assert float(weights.std()) < 0.25


def test_importance_of_wide_features_is_the_same_for_the_same_seed_and_sees_a_shift() -> None:
    """More than 64 numbers are projected first, by directions of the seed."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randn(400, 200, generator=generator)
    target = torch.randn(400, 200, generator=generator) + 0.3
    first, again, other = (validators.importance(source, target, seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    nearer = source.sum(1) > source.sum(1).median()
    assert float(first[nearer].mean()) > 1.5 * float(first[~nearer].mean())
