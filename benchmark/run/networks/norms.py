"""Batch normalisation with statistics per domain, in one fused pass: the layers, the pass, and how any network gets them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from benchmark.errors import UserError


class _PerDomain:
    """Mixin: in training, normalise each domain of a fused batch by its own statistics.

    `sizes` holds the number of images of each domain while `per_domain` is active; running statistics are updated
    once for each domain, in order, exactly as separate forward passes would. `interleaved` says that the images are those
    of all domains in turn; `seen` then keeps the statistics of the pass until `per_domain` ends.
    """

    sizes: Sequence[int] | None = None
    interleaved = False
    seen: Tensor | None = None

    def forward(self: Any, x: Tensor) -> Tensor:
        if self.sizes is None or not self.training:
            return self.after(super().forward(x))  # type: ignore[misc]
        if self.interleaved:
            return self.after(self.grouped(x, len(self.sizes)))
        self.num_batches_tracked.add_(len(self.sizes))
        return torch.cat([self.after(self.one(part)) for part in x.split(_rows(x, self.sizes))])

    def one(self: Any, x: Tensor) -> Tensor:
        """The images of one domain, in training; the count of batches is the caller's."""
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, True, self.momentum, self.eps
        )

    def grouped(self: Any, x: Tensor, domains: int) -> Tensor:
        """All domains in one kernel: (B·D, C, …) with the domains in turn is (B, D·C, …), each channel of a domain a channel
        of its own. A view where maps are stored channel by channel."""
        if self.seen is not None:  # a layer that a pass goes through twice
            _remember([self], domains)
        self.seen = x.new_zeros(2, domains * self.num_features, dtype=self.weight.dtype)  # mean, unbiased variance
        tokens = _tokens(x, self.sizes)
        if tokens > 1:  # (B·D·T, C, …) → (B, D·C, T, …): patches are vectors, windows are maps
            wide = x.unflatten(0, (-1, domains, tokens)).transpose(2, 3).flatten(1, 2)
        else:
            wide = x.reshape(-1, domains * self.num_features, *x.shape[2:])
        weight, bias = self.weight.repeat(domains), self.bias.repeat(domains)
        out = F.batch_norm(wide, self.seen[0], self.seen[1], weight, bias, True, 1.0, self.eps)
        if tokens > 1:
            return out.unflatten(1, (domains, -1)).transpose(2, 3).flatten(0, 2)
        # no view in autograd's eyes: a ReLU in place on a view would cost three more kernels on the way back
        return torch.ops.aten._unsafe_view(out.contiguous(), x.shape)

    def after(self, x: Tensor) -> Tensor:
        """What a layer does with the normalised maps."""
        return x


class BatchNorm1d(_PerDomain, nn.BatchNorm1d):
    """Batch normalisation of vectors, statistics per domain."""


class BatchNorm2d(_PerDomain, nn.BatchNorm2d):
    """Batch normalisation of maps, statistics per domain."""


class NormPoolReLU(BatchNorm2d):
    """Batch normalisation, 3×3 pooling by two and ReLU, domain by domain: a domain's maps are still in the cache when they
    are pooled, and only the pooled ones are put together.

    The papers' code rectifies before it pools; the maximum of the rectified is the rectified maximum, bit for bit, at a
    quarter of the work.
    """

    def after(self, x: Tensor) -> Tensor:
        return F.relu(F.max_pool2d(x, 3, 2, 1))


class _NormAct(_PerDomain):
    """Mixin for timm's BatchNormAct2d, which drops and activates in its own `forward` too."""

    def forward(self: Any, x: Tensor) -> Tensor:
        if self.sizes is None or not self.training:
            return super(_PerDomain, self).forward(x)  # type: ignore[misc]
        return super().forward(x)

    def after(self: Any, x: Tensor) -> Tensor:
        activated: Tensor = self.act(self.drop(x))
        return activated


class _Whole(_PerDomain):
    """Mixin for layers of other kinds that are batch normalisations: their own `forward`, one domain after the other."""

    def forward(self: Any, x: Tensor) -> Tensor:
        forward = super(_PerDomain, self).forward  # type: ignore[misc]
        if self.sizes is None or not self.training:
            return forward(x)
        if not self.interleaved:
            return torch.cat([forward(part) for part in x.split(_rows(x, self.sizes))])
        by_domain = x.unflatten(0, (-1, len(self.sizes), _tokens(x, self.sizes))).unbind(1)
        done = [forward(part.flatten(0, 1)).unflatten(0, part.shape[:2]) for part in by_domain]
        return torch.stack(done, 1).flatten(0, 2)


def _tokens(x: Tensor, sizes: Sequence[int] | None) -> int:
    """Rows that an image has in `x`: more than one where a network normalises patches as if they were images."""
    return len(x) // sum(sizes or (len(x),))


def _rows(x: Tensor, sizes: Sequence[int]) -> list[int]:
    """Rows of `x` that each domain has."""
    return [size * _tokens(x, sizes) for size in sizes]


@contextlib.contextmanager
def per_domain(module: nn.Module, sizes: Sequence[int], interleaved: bool = False) -> Iterator[None]:
    """Within: one forward pass over the concatenation of domains of these sizes, statistics per domain.

    `interleaved`: over one image of each domain, then the next of each, and so on; sizes are equal. Running statistics are
    then updated at the end, those of all layers together.
    """
    norms = [m for m in module.modules() if isinstance(m, _PerDomain)]
    for norm in norms:
        norm.sizes, norm.interleaved = sizes, interleaved
    try:
        yield
        _remember([n for n in norms if n.seen is not None], len(sizes))
    finally:
        for norm in norms:  # as the class has them: between two passes nothing is remembered
            for name in ("sizes", "interleaved", "seen"):
                vars(norm).pop(name, None)


@torch.no_grad()
def _remember(norms: Sequence[Any], domains: int) -> None:
    """Running statistics of these layers from what they saw, domain after domain, as separate passes would update them."""
    for momentum in {norm.momentum for norm in norms}:
        same = [norm for norm in norms if norm.momentum == momentum]
        running = [buffer for norm in same for buffer in (norm.running_mean, norm.running_var)]
        found = [part for norm in same for part in norm.seen]
        for parts in zip(*(part.chunk(domains) for part in found), strict=True):
            torch._foreach_lerp_(running, list(parts), momentum)
    if norms:
        torch._foreach_add_([norm.num_batches_tracked for norm in norms], domains)


def interleave(batches: Sequence[Tensor]) -> Tensor:
    """D batches (B, …) → (B·D, …): the first image of each, then the second of each, …"""
    return torch.stack(list(batches), 1).flatten(0, 1)


def per_domain_norms(module: nn.Module) -> None:
    """Make the batch normalisations of `module`, wherever they sit, the suite's (statistics per domain), weights and ε kept.

    The momentum becomes 0.1, as in every network of the suites, so that running statistics mean the same everywhere.
    """
    for layer in module.modules():
        if isinstance(layer, _BatchNorm) and not isinstance(layer, _PerDomain):
            layer.__class__ = _kind_of(type(layer))  # type: ignore[arg-type]  # classes hash
            layer.momentum = 0.1
        elif _keeps_statistics(layer):
            raise UserError(
                f"This network has layers of the kind {type(layer).__name__}, which keep statistics of batches and are no "
                "batch normalisation of torch: the benchmark cannot keep them apart by domain. Name another network."
            )


@functools.cache
def _kind_of(kind: type[_BatchNorm]) -> type[_BatchNorm]:
    """The class with statistics per domain for layers of `kind`."""
    ours: dict[type, type] = {nn.BatchNorm1d: BatchNorm1d, nn.BatchNorm2d: BatchNorm2d}
    if kind in ours:
        return ours[kind]
    mixin = _NormAct if kind.__name__ == "BatchNormAct2d" else _Whole
    return type(f"PerDomain{kind.__name__}", (mixin, kind), {"__doc__": f"{kind.__name__}, statistics per domain."})


def _keeps_statistics(layer: nn.Module) -> bool:
    running = layer._buffers.get("running_var")
    return running is not None and not isinstance(layer, _BatchNorm) and bool(list(layer.parameters(recurse=False)))
