"""Kernels and the maximum mean discrepancy: the mathematics that DAN, JAN and RTN share.

MMD² between two samples x and y under a kernel k is the squared distance of their mean embeddings,
E k(x, x′) + E k(y, y′) − 2 E k(x, y). A kernel here is a function of two samples and a flag: all pairs, or row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from methods.errors import unknown

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # 2^−2 … 2^2, as in the authors' releases of DAN, JAN and RTN
ESTIMATORS = ("biased", "unbiased", "linear")
Estimator = Literal["biased", "unbiased", "linear"]
Sample = Sequence[Tensor]  # the same N rows seen in one or several spaces: [(N, F_1), (N, F_2), …]
Kernel = Callable[[Sample, Sample, bool], Tensor]  # (x, y, paired) → (N, M), or (N,) if paired


def single(x: Tensor) -> Tensor:
    """x in single precision, or in double if it is double."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def inner_products(x: Tensor, y: Tensor) -> Tensor:
    """⟨x_i, y_j⟩: (N, F), (M, F) → (N, M), in single precision at least, inside autocast too.

    A distance is a small difference of such products: half precision has no digits for it.
    """
    with torch.autocast(x.device.type, enabled=False):
        return single(x) @ single(y).T


def squared_distances(x: Tensor, y: Tensor, paired: bool = False) -> Tensor:
    """‖x_i − y_j‖²: (N, F), (M, F) → (N, M), never below 0; `paired`: ‖x_i − y_i‖², (N, F), (N, F) → (N,).

    All pairs by ‖x‖² + ‖y‖² − 2 x·y, one matrix product; the mean of y is taken off first, which changes no distance
    and saves the digits that a large common offset would eat.
    """
    x, y = single(x), single(y)
    if paired:
        return (x - y).square().sum(1)
    centre = y.detach().mean(0)
    x, y = x - centre, y - centre
    return (x.square().sum(1)[:, None] + y.square().sum(1)[None, :] - 2 * inner_products(x, y)).clamp_min(0)


def mean_bandwidth(joint: Tensor) -> Tensor:
    """b = mean of ‖z_i − z_j‖² over i ≠ j of the joint batch (N, F), in linear time: 0-d, without gradient."""
    joint, n = single(joint.detach()), len(joint)
    return 2 / (n - 1) * (joint - joint.mean(0)).square().sum()


def gaussian_kernel(distances: Tensor, bandwidth: Tensor | float, factors: Sequence[float] = (1.0,)) -> Tensor:
    """Σ_a exp(−d² / (a · b)) over the factors a: squared distances d² (any shape) → the same shape."""
    if not isinstance(bandwidth, Tensor):  # made on the device: a copy from the host would wait for it
        bandwidth = torch.full((), bandwidth, dtype=distances.dtype, device=distances.device)
    scale = bandwidth.to(distances.dtype)
    scale = scale.clamp_min(torch.finfo(distances.dtype).tiny)  # equal rows only: k is constant, not 0/0
    return torch.stack([torch.exp(-distances / (a * scale)) for a in factors]).sum(0)


def mmd(x: Sample, y: Sample, kernel: Kernel, estimator: str = "biased") -> Tensor:
    """MMD² between x (N rows) and y (M rows): a 0-d tensor.

    biased:    mean_ij k(x_i, x_j) + mean_ij k(y_i, y_j) − 2 mean_ij k(x_i, y_j): a squared norm, so never below 0
    unbiased:  the same without i = j in the first two means; its expectation is exact, its value may be below 0
    linear:    mean over i of k(x_2i−1, x_2i) + k(y_2i−1, y_2i) − k(x_2i−1, y_2i) − k(x_2i, y_2i−1), in linear time;
               unbiased if the rows come in random order; the smaller sample is run through again
    """
    if estimator == "linear":
        odd = torch.arange(0, max(len(x[0]), len(y[0])) - 1, 2, device=x[0].device)
        (x1, x2), (y1, y2) = ([[z[i % len(z)] for z in sample] for i in (odd, odd + 1)] for sample in (x, y))
        return (kernel(x1, x2, True) + kernel(y1, y2, True) - kernel(x1, y2, True) - kernel(x2, y1, True)).mean()
    within = [kernel(x, x, False), kernel(y, y, False)]
    cross = kernel(x, y, False).mean()
    if estimator == "biased":
        return (within[0].mean() + within[1].mean() - 2 * cross).clamp_min(0)  # the floor only takes off rounding
    if estimator == "unbiased":
        means = [(k.sum() - k.diagonal().sum()) / (len(k) * (len(k) - 1)) for k in within]
        return means[0] + means[1] - 2 * cross
    raise unknown("MMD estimator", estimator, ESTIMATORS)
