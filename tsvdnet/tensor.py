"""The algebra of third-order tensors under the t-product: T-SVD, tensor nuclear norm, shrinkage, rotation.

All tensors are real, (n1, n2, n3), of any float dtype, on any device. The third axis is transformed by the
unnormalised FFT, G_f = FFT(G, 3); the k-th *slice* is the matrix G_f[:, :, k]. A real tensor has conjugate slices
k and n3 − k, so half of the spectrum holds everything: one `rfft`, one batched decomposition, no loop over slices.
Computed in float64, returned in the dtype of the input.

References: Kilmer & Martin 2011 (t-product), Kilmer et al. 2013 (tensor rank), Lu et al. 2019 (nuclear norm).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

Threshold = float | Callable[[Tensor], Tensor]

# From this ratio of the sides on, a QR step that makes the slices square costs less than it saves (345×6: 2.5 times).
_TALL = 4


def _double(g: Tensor) -> Tensor:
    """`g` in float64, checked to be a real third-order tensor."""
    if g.ndim != 3 or not g.is_floating_point():
        raise ValueError(
            f"Expected a real tensor (n1, n2, n3) of a float dtype, got shape {tuple(g.shape)} of {g.dtype}."
        )
    return g if g.dtype is torch.float64 else g.to(torch.float64)


def identity(n: int, n3: int, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Tensor:
    """The n×n×n3 tensor I with I * A = A: the first frontal slice is the unit matrix, the others are zero."""
    out = torch.zeros(n, n, n3, dtype=dtype, device=device)
    out[:, :, 0] = torch.eye(n, dtype=dtype, device=device)
    return out


def t_product(a: Tensor, b: Tensor) -> Tensor:
    """A * B: C(i, j, :) = Σ_l A(i, l, :) ∘ B(l, j, :), ∘ the circular convolution; C_f^(k) = A_f^(k) B_f^(k).

    (n1, n2, n3), (n2, n4, n3) → (n1, n4, n3). Differentiable.
    """
    af, bf = (torch.fft.rfft(_double(x), dim=2).permute(2, 0, 1) for x in (a, b))
    return torch.fft.irfft((af @ bf).permute(1, 2, 0), n=a.shape[2], dim=2).to(torch.promote_types(a.dtype, b.dtype))


def t_transpose(a: Tensor) -> Tensor:
    """Aᵀ: each frontal slice transposed, the first kept in place, the order of the others reversed.

    (n1, n2, n3) → (n2, n1, n3). The paper's sentence reverses *all* slices; then (A * B)ᵀ = Bᵀ * Aᵀ and the
    orthogonality of U and V fail (D23). In Fourier this is the conjugate transpose of each slice (D24).
    """
    return torch.cat([a[:, :, :1], a[:, :, 1:].flip(2)], dim=2).transpose(0, 1)


def rotate(g: Tensor) -> Tensor:
    """Rotate(G): (i, j, d) → R[j, d, i], C×C×D → C×D×C, so that each frontal slice holds all domains."""
    return g.permute(1, 2, 0)


def unrotate(r: Tensor) -> Tensor:
    """The inverse of `rotate`, C×D×C → C×C×D. Algorithm 2 prints "Rotate" here, which would not lead back (D25)."""
    return r.permute(2, 0, 1)


def t_svd(g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Algorithm 1: G = U * S * Vᵀ, U (n1, n1, n3) and V (n2, n2, n3) orthogonal, S (n1, n2, n3) f-diagonal, all real.

    Slices 0 and n3/2 of a real tensor are real and are decomposed as real matrices: a complex phase in them would
    make the inverse transform of U and V complex.
    """
    n1, n2, n3 = g.shape
    gf = torch.fft.rfft(_double(g), dim=2).permute(2, 0, 1)
    k = torch.arange(len(gf), device=g.device)
    real = (k == 0) | (2 * k == n3)
    uf, vf = gf.new_zeros(len(gf), n1, n1), gf.new_zeros(len(gf), n2, n2)
    sf = torch.zeros(len(gf), n1, n2, dtype=torch.float64, device=g.device)
    for which, slices in ((real, gf[real].real), (~real, gf[~real])):
        u, s, vh = _svd(torch, slices, full_matrices=True)
        uf[which], vf[which] = u.to(gf.dtype), vh.mH.to(gf.dtype)
        sf.diagonal(dim1=1, dim2=2)[which] = s
    u, s, v = (torch.fft.irfft(x, n=n3, dim=0).permute(1, 2, 0).to(g.dtype) for x in (uf, sf, vf))
    return u, s, v


def singular_values(g: Tensor) -> Tensor:
    """σ of every slice of G_f, largest first: (n3, min(n1, n2)), frequencies 0 … n3−1. Differentiable."""
    n3 = g.shape[2]
    half = torch.linalg.svdvals(torch.fft.rfft(_double(g), dim=2).permute(2, 0, 1))
    return torch.cat([half, half[1 : (n3 + 1) // 2].flip(0)])


def tensor_nuclear_norm(g: Tensor) -> Tensor:
    """‖G‖_TNN = Σ_k Σ_i σ_i(G_f^(k)), a 0-d tensor: the paper's definition, without 1/n3.

    Differentiable, by singular values only: the gradient of U and V, undefined where singular values repeat, is never
    asked for.
    """
    return singular_values(g).sum().to(g.dtype)


def tensor_rank(g: Tensor, tol: float | None = None) -> Tensor:
    """The multi-rank: an int vector (n3,), entry k the rank of slice k. Singular values up to `tol` count as zero.

    The default, max(n1, n2)·eps·σ_max, takes eps from the dtype of `g` and σ_max over all slices: a slice that is
    zero but for rounding has rank 0.
    """
    sigma = singular_values(g.detach())
    bound = max(g.shape[:2]) * torch.finfo(g.dtype).eps * sigma.max() if tol is None else tol
    return (sigma > bound).sum(1)


def shrink(g: Tensor, t: Threshold, *, repeat_top: bool = False) -> Tensor:
    """Takes t from every singular value of every slice: A_f^(k) = U diag((σ_i − t)_+) V^H, and back by the inverse FFT.

    (n1, n2, n3) → (n1, n2, n3), equal to argmin_A ½‖A − G‖_F² + (t/n3)·‖A‖_TNN. No gradient flows through it.

    Args:
        g: the tensor.
        t: a number, or a function that takes σ, a float64 tensor of any shape, to thresholds of that shape.
        repeat_top: shrink the frequencies ⌊n3/2⌋+1 and n3−⌊n3/2⌋−1 a second time, as the released code does (D4).
    """
    n1, n2, n3 = g.shape
    x = _double(g.detach())
    # tall slices first: (n3, n, m) with n ≥ m; a transposed slice has the same σ
    there, back = ((2, 0, 1), (1, 2, 0)) if n1 >= n2 else ((2, 1, 0), (2, 1, 0))
    # index in the half spectrum of the pair that the released loop visits twice; there is none for n3 < 3
    again = (n3 + 1) // 2 - 1 if repeat_top and n3 > 2 else None
    if g.device.type == "cpu":  # numpy, on shared memory: its FFT and batched LAPACK calls cost about half of torch's
        rule = (lambda sigma: torch.as_tensor(t(torch.from_numpy(sigma))).numpy()) if callable(t) else (lambda sigma: t)
        out = torch.from_numpy(_shrink(np, x.numpy().transpose(there), rule, again).transpose(back))
    else:
        out = _shrink(torch, x.permute(there), t if callable(t) else (lambda sigma: t), again).permute(back)
    return out if g.dtype is torch.float64 else out.to(g.dtype)


def _shrink(xp: Any, g: Any, threshold: Callable[[Any], Any], again: int | None) -> Any:
    """`shrink` of (n3, n, m), n ≥ m, in the words that numpy and torch share; `xp` is one of the two."""
    n3, n, m = g.shape
    slices = xp.fft.rfft(g, None, 0)
    tall = n >= _TALL * m
    u, sigma, vh = _svd(xp, _triangle(xp, slices) if tall else slices, full_matrices=False)
    kept = _minus(sigma, threshold(sigma))
    if again is not None:
        kept[again] = _minus(kept[again], threshold(kept[again]))
    if tall:
        # σ and V of a slice are those of R in its decomposition Q R, and U diag(kept) V^H = slice · V diag(kept/σ) V^H.
        # Neither Q nor U is formed; the error stays at rounding of σ_1 because kept ≤ σ.
        factor = kept / xp.where(sigma > 0, sigma, 1.0)
        shrunk = slices @ ((vh.conj().swapaxes(1, 2) * factor[:, None, :]) @ vh)
    else:
        shrunk = (u * kept[:, None, :]) @ vh
    return xp.fft.irfft(shrunk, n3, 0)


def _minus(sigma: Any, t: Any) -> Any:
    """(σ − t)_+"""
    return (sigma - t).clip(0)


def _triangle(xp: Any, slices: Any) -> Any:
    """R of the QR decomposition of each slice."""
    found = xp.linalg.qr(slices, mode="r")
    return found if xp is np else found.R


def _svd(xp: Any, slices: Any, full_matrices: bool) -> Any:
    """Batched SVD (u, s, vh). Where LAPACK or cuSOLVER does not converge, once more with a jitter far below rounding
    in float32, and a warning; what is not finite is an error, not a wait."""
    try:
        return xp.linalg.svd(slices, full_matrices=full_matrices)
    except (np.linalg.LinAlgError, torch.linalg.LinAlgError):
        if not bool(xp.isfinite(slices).all()):
            raise ValueError(
                "The tensor holds NaN or infinite entries; it has no singular value decomposition."
            ) from None
        warnings.warn("An SVD did not converge; repeated with a jitter of 1e-12 of the largest entry.", stacklevel=3)
        ramp = np.cos(np.arange(slices[0].size if xp is np else slices[0].numel())).reshape(slices.shape[1:])
        jitter = ramp if xp is np else torch.from_numpy(ramp).to(slices.device)
        return xp.linalg.svd(slices + 1e-12 * xp.abs(slices).max() * jitter, full_matrices=full_matrices)
