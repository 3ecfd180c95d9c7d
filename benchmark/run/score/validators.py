"""Label-free scores of a model on the target: what the literature chooses runs and epochs by. High is good in each.

Each is a pure function of predictions (and features) on a sample of target *training* images and held-out source images;
none can see a label of the target.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

TEMPERATURE = 0.05  # of SND's neighbourhoods: its paper and public code
DEV_DIMENSIONS = 64  # ours: the domain classifier sees a seeded projection of the features, so that it cannot memorise


def entropy(p: Tensor) -> Tensor:
    """H(p) = −Σ_c p_c log p_c in nats: (*, C) → (*)."""
    return -(p * p.clamp(min=1e-12).log()).sum(-1)


def mutual_information(p: Tensor) -> float:
    """H(mean p) − mean H(p): confident and diverse is high (rule `unsup`). (N, C) → nats."""
    return float(entropy(p.mean(0)) - entropy(p).mean())


def neighbourhood_density(p: Tensor, temperature: float = TEMPERATURE) -> float:
    """SND (Saito et al., ICCV 2021): mean entropy of softmax_j(cos(p_i, p_j)/T), j ≠ i: (N, C) → nats.

    High when every prediction has many near neighbours, as in a target that falls into dense groups.
    """
    if len(p) < 2:
        return 0.0
    unit = torch.nn.functional.normalize(p, dim=1)
    similarity = (unit @ unit.T) / temperature
    similarity.fill_diagonal_(-torch.inf)
    return float(entropy(similarity.softmax(1)).mean())


def nuclear_norm(p: Tensor) -> float:
    """BNM (Cui et al., CVPR 2020): ‖P‖_* / √(N·min(N, C)), in (0, 1]: (N, C) → 1 when confident and evenly spread."""
    n, c = p.shape
    return float(torch.linalg.svdvals(p).sum() / (n * min(n, c)) ** 0.5)


def weighted_risk(errors: Tensor, weights: Tensor) -> float:
    """DEV (You et al., ICML 2019): mean(wℓ) + η·mean(w) − η, η = −Cov(wℓ, w)/Var(w): (N,), (N,) → the target's risk.

    The control variate takes out what the weights' own spread adds; weights that are all equal give the mean of wℓ.
    """
    weighted = weights * errors
    spread = weights.var()
    eta = -((weighted - weighted.mean()) * (weights - weights.mean())).sum() / (len(weights) - 1) / spread
    eta = torch.where(spread > 0, eta, torch.zeros_like(eta))
    return float(weighted.mean() + eta * weights.mean() - eta)


def importance(source: Tensor, target: Tensor, seed: int) -> Tensor:
    """w(x) = p_T(x)/p_S(x) of source features by a domain classifier: (N, F), (K, F) → (N,).

    Logistic regression on a seeded projection to at most 64 numbers, each half of the source weighed by the classifier
    of the other half, so that no image is weighed by a classifier that has seen it.
    """
    from sklearn.linear_model import LogisticRegression

    both = _projected(torch.cat([source, target]).double(), seed).numpy()
    s, t = both[: len(source)], both[len(source) :]
    weights = np.zeros(len(s))
    for here in (np.arange(len(s)) % 2 == 0, np.arange(len(s)) % 2 == 1):
        seen = np.concatenate([s[~here], t])
        is_target = np.r_[np.zeros((~here).sum()), np.ones(len(t))]
        judge = LogisticRegression(max_iter=200).fit(seen, is_target)
        odds = np.exp(np.clip(judge.decision_function(s[here]), -20, 20))  # J(T|x) / J(S|x)
        weights[here] = odds * (~here).sum() / len(t)
    return torch.from_numpy(weights)


def _projected(features: Tensor, seed: int) -> Tensor:
    """(N, F) → (N, ≤ 64), each number of unit variance."""
    if features.shape[1] > DEV_DIMENSIONS:
        generator = torch.Generator().manual_seed(seed)
        directions = torch.randn(features.shape[1], DEV_DIMENSIONS, generator=generator, dtype=features.dtype)
        features = features @ (directions / features.shape[1] ** 0.5)
    return (features - features.mean(0)) / features.std(0).clamp_min(1e-12)
