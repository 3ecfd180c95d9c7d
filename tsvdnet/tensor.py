"""The algebra of third-order tensors under the t-product: T-SVD, tensor nuclear norm, shrinkage, rotation.

All tensors are real, (n1, n2, n3), of any float dtype, on any device. The third axis is transformed by the
unnormalised FFT, G_f = FFT(G, 3); the k-th *slice* is the matrix G_f[:, :, k]. A real tensor has conjugate slices
k and n3 − k, so half of the spectrum holds everything: one `rfft`, one batched decomposition, no loop over slices.
Computed in float64, returned in the dtype of the input.

References: Kilmer & Martin 2011 (t-product), Kilmer et al. 2013 (tensor rank), Lu et al. 2019 (nuclear norm).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

Threshold = float | Callable[[Tensor], Tensor]

# From this ratio of the sides on, the Gram matrices of the slices cost less than the slices do (345×6: 1.5 times).
_TALL = 4
# The largest error of the way over Gram matrices, as a share of σ_1, that is let pass in float64.
_SHARP = 1e-11
_FEW = 16  # frequencies that a sum of waves brings back sooner than an FFT
_NOT_FINITE = "The tensor holds NaN or infinite entries; it has no singular value decomposition."
_space = threading.local()  # see `_room`


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

    Slices at least four times as long as wide go by the eigenvectors of their Gram matrices, all at once: 345×6×345 by 173
    matrices of 6×6. On a GPU so do all in single precision, and the host waits for the device once, in `eigh`.

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
    exact = g.dtype is torch.float64
    if g.device.type == "cpu":  # numpy, on shared memory: its FFT and batched LAPACK calls cost about half of torch's

        def rule(sigma: Any) -> Any:
            return torch.as_tensor(t(torch.from_numpy(sigma))).numpy() if callable(t) else t  # cpu only

        shared = x.numpy().transpose(there)  # cpu only
        out = torch.from_numpy(_shrink(np, shared, rule, again, exact).transpose(back))
    else:
        out = _shrink(torch, x.permute(there), t if callable(t) else (lambda sigma: t), again, exact).permute(back)
    return out if exact else out.to(g.dtype)


def _shrink(xp: Any, g: Any, threshold: Callable[[Any], Any], again: int | None, exact: bool = True) -> Any:
    """`shrink` of (n3, n, m), n ≥ m, in the words that numpy and torch share; `xp` is one of the two."""
    n3, n, m = g.shape
    slices = _slices(xp, g)
    # on a GPU, where torch computes, an `eigh` waits once, an SVD several times
    gram = n >= _TALL * m or (xp is torch and not exact)
    if not gram:
        u, sigma, vh = _svd(xp, slices, full_matrices=False)
        return xp.fft.irfft((u * _kept(sigma, threshold, again)[:, None, :]) @ vh, n3, 0)
    sigma, v = _by_gram(xp, slices)
    if exact and not _sharp(sigma, threshold(sigma)):
        _, sigma, vh = _svd(xp, _triangle(xp, slices), full_matrices=False)  # σ and V of R in Q R are the slice's
        v = vh.conj().swapaxes(1, 2)
    # U diag(kept) V^H = slice · V diag(kept/σ) V^H: U is never formed; the error stays at rounding because kept ≤ σ.
    factor = _kept(sigma, threshold, again) / xp.where(sigma > 0, sigma, 1.0)
    p = (v * factor[:, None, :]) @ v.conj().swapaxes(1, 2)
    if xp is torch:
        return xp.fft.irfft(slices @ p, n3, 0)
    alive = factor.any(1).nonzero()[0]
    if len(alive) <= _FEW:
        return _from_few(slices[alive] @ p[alive], alive, n3)
    return np.fft.irfft(_times(slices, p), n3, 0)


def _kept(sigma: Any, threshold: Callable[[Any], Any], again: int | None) -> Any:
    """(σ − t(σ))_+, twice at the frequency `again`."""
    kept = (sigma - threshold(sigma)).clip(0)
    if again is not None:
        kept[again] = (kept[again] - threshold(kept[again])).clip(0)
    return kept


# -- tall slices: σ and V from their Gram matrices -----------------------------------------------------------------


def _by_gram(xp: Any, slices: Any) -> tuple[Any, Any]:
    """σ (k, m) and V (k, m, m) of the slices (k, n, m), from S^H S = V diag(σ²) V^H. On a GPU it waits once, in `eigh`."""
    if xp is np:  # complex numbers as pairs of reals: half of what a complex product and its conjugate cost here
        pairs, m = torch.from_numpy(slices.view(np.float64)), slices.shape[2]
        w = torch.bmm(pairs.mT, pairs).view(-1, m, 2, m, 2)
        gram = torch.complex(w[:, :, 0, :, 0] + w[:, :, 1, :, 1], w[:, :, 0, :, 1] - w[:, :, 1, :, 0])
    else:
        gram = slices.mH @ slices
    try:
        squares, v = torch.linalg.eigh(gram)
    except torch.linalg.LinAlgError:
        raise ValueError(_NOT_FINITE) from None
    if xp is np:
        squares, v = squares.numpy(), v.numpy()
        if not np.isfinite(squares).all():
            raise ValueError(_NOT_FINITE)
    return xp.sqrt(squares.clip(0)), v


def _sharp(sigma: Any, t: Any) -> bool:
    """Whether the error of the way over Gram matrices is far below `_SHARP`·σ_1 for what survives t.

    Squares round at eps·σ_1², so σ is uncertain by eps·σ_1²/2σ and σ·(1 − t/σ) by t/σ of that: much only where values
    near rounding survive, which a threshold near rounding lets happen.
    """
    top, error = sigma.max(), np.finfo(np.float64).eps / 2 * sigma.max() ** 2 * t
    return bool(((sigma <= t) | (error <= _SHARP * top * sigma**2)).all())


def _times(slices: np.ndarray, p: np.ndarray) -> np.ndarray:
    """slices (k, n, m) times p (k, m, m)."""
    k, _, m = slices.shape
    pairs = np.empty((k, m, 2, m, 2))
    pairs[:, :, 0, :, 0] = pairs[:, :, 1, :, 1] = p.real
    pairs[:, :, 0, :, 1], pairs[:, :, 1, :, 0] = p.imag, -p.imag
    out = _room("times", slices.shape)
    np.matmul(slices.view(np.float64), pairs.reshape(k, 2 * m, 2 * m), out=out.view(np.float64))
    return out


def _from_few(slices: np.ndarray, which: np.ndarray, n3: int) -> np.ndarray:
    """The inverse FFT (n3, n, m) of a half spectrum that is zero but for these slices: a sum of a few waves.

    At the published λ and η of 345 classes only frequency 0 survives: a tenth of the work of the FFT.
    """
    weight = np.where((which == 0) | (2 * which == n3), 1.0, 2.0) / n3  # the other half of the spectrum is its mirror
    angle = 2 * np.pi / n3 * (np.outer(np.arange(n3), which) % n3)
    waves = np.concatenate([weight * np.cos(angle), -weight * np.sin(angle)], 1)
    n, m = slices.shape[1:]
    flat = slices.reshape(len(which), n * m)
    return (waves @ np.concatenate([flat.real, flat.imag])).reshape(n3, n, m)


def _slices(xp: Any, g: Any) -> Any:
    """The half spectrum (n3 // 2 + 1, n, m) of (n3, n, m)."""
    n3, n, m = g.shape
    if xp is np and n >= _TALL * m:
        return np.fft.rfft(g, None, 0, out=_room("slices", (n3 // 2 + 1, n, m)))
    return xp.fft.rfft(g, None, 0)


def _room(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Memory for complex numbers that this thread's next call with this shape uses again: on 345×6×345 the page faults
    of fresh memory cost as much as the FFT."""
    kept = getattr(_space, name, None)
    if kept is None or kept.shape != shape:
        kept = torch.empty(shape, dtype=torch.complex128).numpy()  # torch's are aligned alike: the same bits every time
        setattr(_space, name, kept)
    return kept


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
            raise ValueError(_NOT_FINITE) from None
        warnings.warn("An SVD did not converge; repeated with a jitter of 1e-12 of the largest entry.", stacklevel=3)
        ramp = np.cos(np.arange(slices[0].size if xp is np else slices[0].numel())).reshape(slices.shape[1:])
        jitter = ramp if xp is np else torch.from_numpy(ramp).to(slices.device)
        return xp.linalg.svd(slices + 1e-12 * xp.abs(slices).max() * jitter, full_matrices=full_matrices)
