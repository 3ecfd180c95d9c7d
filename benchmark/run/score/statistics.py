"""Statistics at test: the same weights with batch-norm statistics of the target, then put back.

What a training loop leaves in the running averages depends on its order of passes: the target's share in them runs from
a quarter (T-SVDNet) to the whole (ADDA, MDDA), and the last few batches weigh most. Re-estimated by one function for
every method, from unlabelled images of the target alone, the comparison is one of weights.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from methods.contract import Method, frozen


@contextlib.contextmanager
def target_statistics(method: Method, batches: Iterable[Tensor]) -> Iterator[bool]:
    """Within: every batch-norm layer that a prediction passes has the plain average over `batches` of their statistics.

    Yields whether there was any such layer. Dropout is off, no gradient flows, no generator is drawn from; afterwards
    the method's state is what it was, bit for bit.
    """
    norms = [m for m in method.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]
    before = [[buffer.clone() for buffer in _buffers(norm)] for norm in norms]
    try:
        _estimate(method, norms, batches)
        unused = [(n, b) for n, b in zip(norms, before, strict=True) if not n.num_batches_tracked]
        for norm, kept in unused:
            _put(norm, kept)
        yield len(unused) < len(norms)
    finally:
        for norm, kept in zip(norms, before, strict=True):
            _put(norm, kept)


def _estimate(method: Method, norms: list[_BatchNorm], batches: Iterable[Tensor]) -> None:
    """Batch statistics of each batch, averaged with equal weight by the layers themselves (momentum None)."""
    momenta = [norm.momentum for norm in norms]
    with frozen(method):  # evaluation mode for all, put back at the end; then the norms alone in training mode
        try:
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None
                norm.training = True
            for images in batches:
                method.probabilities(images)
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum


def _buffers(norm: _BatchNorm) -> list[Tensor]:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    return [norm.running_mean, norm.running_var, norm.num_batches_tracked]


def _put(norm: _BatchNorm, kept: list[Tensor]) -> None:
    with torch.no_grad():
        for buffer, value in zip(_buffers(norm), kept, strict=True):
            buffer.copy_(value)
