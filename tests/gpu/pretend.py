"""A GPU that is not there: fake CUDA tensors on a machine without CUDA, from `.to("cuda")` to the backward pass.

torch's fake tensors know their shapes and their device, and refuse to meet a tensor of another device, as real ones
do. Three things keep them from a whole training step, and are mended here for as long as `gpu()` lasts:
- the autograd engine asks for the streams of a CUDA device. It asks a fake tensor for its device through `prim.device`,
  once when the tensor enters the graph: there it is told "cpu", which has no streams. Everyone else is told the truth;
- page-locked memory is not known to fake tensors;
- numbers read from the device do not exist: they are guessed, and the counter above notes each reading.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmark.data import base, batches
from benchmark.data.base import Dataset, Domain, ImageSet, Preprocess
from benchmark.records.lease import Lease
from benchmark.run import loop, meter, networks
from benchmark.run.count import Counter, Guess, _tensors, without_memory
from benchmark.run.loop import Run
from benchmark.spec import RunSpec, resolve

aten = torch.ops.aten
CUDA, FACE = torch.device("cuda", 0), torch.device("cpu")
IMAGES = 40  # a domain; passes over them are as short as that
TARGET = {"digits": "mm", "pacs": "S", "domainnet": "skt"}


class Pretend(Guess):
    """Above fake tensors: the face that autograd sees, page-locked memory, sizes that depend on values."""

    def __init__(self) -> None:
        super().__init__()
        self.in_backward = self._in_place = False
        self._fresh: list[torch.Tensor] = []  # what the last operator made and autograd has not asked about yet

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.ops.prim.device.default:
            return self._device(args[0])
        if kwargs.get("device") == FACE and self.in_backward:  # a gradient made where autograd thinks its tensor is
            kwargs["device"] = CUDA
        if func is aten._pin_memory.default:
            return args[0].clone()
        if func is aten.nonzero.default:
            return args[0].new_zeros((args[0].numel(), args[0].dim()), dtype=torch.long)
        if func is aten.index.Tensor:
            args = (args[0], [place for index in args[1] for place in _places(index)])
        if func is aten.bincount.default:
            return args[0].new_zeros(args[2] if len(args) > 2 else kwargs["minlength"])
        out = super().__torch_dispatch__(func, types, args, kwargs)
        followed = func is not aten.detach.default and any(x.requires_grad for x in _tensors((args, kwargs)))
        self._fresh = [x for x in _tensors(out) if x.is_floating_point() or x.is_complex()] if followed else []
        self._in_place = func._schema.is_mutable
        return out

    def _device(self, x: torch.Tensor) -> torch.device:
        if self.in_backward:
            return FACE if x.device == CUDA else x.device
        if torch.is_grad_enabled() and x.device == CUDA:
            asked = [i for i, y in enumerate(self._fresh) if y is x and (self._in_place or not x.requires_grad)]
            if asked:  # by autograd: a result that enters the graph
                del self._fresh[asked[0]]
                return FACE
            if x.requires_grad and x.is_leaf:  # by autograd: where the gradient of a parameter will be kept
                return FACE
        return x.device


def _places(index: torch.Tensor | None) -> list[torch.Tensor | None]:
    """A mask as places, as if all of it were true; other indices as they are."""
    if index is None or index.dtype != torch.bool:
        return [index]
    return [index.new_zeros(index.numel(), dtype=torch.long) for _ in range(index.dim())]


@contextlib.contextmanager
def gpu() -> Iterator[Counter]:
    """Within: CUDA tensors without memory; the counter says what was asked of them."""
    pretend = Pretend()
    run_backward = torch.autograd._engine_run_backward

    def backward(*args: Any, **kwargs: Any) -> Any:
        outer, pretend.in_backward = pretend.in_backward, True
        try:
            return run_backward(*args, **kwargs)
        finally:
            pretend.in_backward = outer

    with pytest.MonkeyPatch.context() as patch, torch.autograd.set_multithreading_enabled(False):
        patch.setattr(torch.cuda, "_lazy_init", lambda: None)
        patch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _: None)  # of a driver that is not there
        patch.setattr(torch.autograd, "_engine_run_backward", backward)
        patch.setattr(networks, "load_weights", lambda *_: None)
        patch.setattr(loop, "target_share", lambda _: None)  # of a toy task on the CPU, with values
        patch.setattr(meter, "_bad", lambda names, first: first.tolist() and [])  # read, and found good
        try:
            with without_memory(), pretend, Counter("cuda") as counter:
                yield counter
        finally:
            batches._order.cache_clear()  # fakes: nothing for those who come after
            base._affine.cache_clear()


def make_run(suite: str, name: str, preset: str, folder: Path, **overrides: Any) -> Run:
    """A run at tier paper's sizes on the pretended GPU; within `gpu()`."""
    spec = RunSpec(suite, "paper", name, preset, target=TARGET[suite], overrides=tuple(overrides.items()))
    resolved = resolve(spec)
    side, classes = resolved.settings.network.image_size, resolved.suite.classes
    images = np.broadcast_to(np.uint8(0), (IMAGES, 3, side, side))
    part = ImageSet(images, torch.zeros(IMAGES, dtype=torch.long))
    domains = {d.id: Domain(d.id, d.title, part, part) for d in resolved.suite.domains}
    augmented = {"flip": True, "min_scale": 0.5} if resolved.settings.augment else {}
    dataset = Dataset(domains, "pretended", "", Preprocess(size=side, **augmented), classes)
    run = Run(resolved, dataset, folder, Lease(folder), device="cuda", data_root=None)
    run.method.train()
    return run
