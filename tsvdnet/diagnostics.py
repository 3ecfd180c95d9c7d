"""What a record says about T-SVDNet's state: the tensors G and A, and σ by domain, as plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tsvdnet.tensor import rotate, tensor_nuclear_norm, tensor_rank

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
A_TOLERANCE = 1e-6  # A is kept in float32: a singular value below this is rounding


def describe_similarity(g: Tensor) -> dict[str, Any]:
    """G (C, C, D): its norm, and its nuclear norm rotated and as stacked."""
    g = g.double()
    return {
        "g_norm": g.norm().item(),
        "tnn_rotated": tensor_nuclear_norm(rotate(g)).item(),
        "tnn_unrotated": tensor_nuclear_norm(g).item(),
    }


def describe_auxiliary(a: Tensor, g: Tensor, rotation: bool) -> dict[str, Any]:
    """A (C, C, D): norm, distance to G, rank by frequency, and the share of singular values that survived the shrinkage.

    The zero frequency stands apart: there A is the part of G that is constant along the transformed axis.
    """
    turned = rotate(a) if rotation else a
    rank, full = tensor_rank(turned, tol=A_TOLERANCE), min(turned.shape[:2])
    return {
        "a_norm": a.double().norm().item(),
        "a_minus_g": (a - g).double().norm().item(),
        "a_rank": rank.tolist(),
        "survive_zero_frequency": rank[0].item() / full,
        "survive_other_frequencies": rank[1:].double().mean().item() / full if len(rank) > 1 else 0.0,
    }


def describe_sigma(sigmas: Sequence[Tensor]) -> dict[str, Any]:
    """σ of the last batch of each domain, sources S1 … SM and target T: quantiles 5, 25, 50, 75 and 95 %."""
    names = [f"S{m + 1}" for m in range(len(sigmas) - 1)] + ["T"] * bool(sigmas)
    return {
        f"sigma_{name}": torch.quantile(
            s.double(), torch.tensor(QUANTILES, dtype=torch.float64, device=s.device)
        ).tolist()
        for name, s in zip(names, sigmas, strict=True)
    }
