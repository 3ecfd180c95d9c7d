"""What every network is here: images → features in two parts, with initial weights drawn by role.

The cut between the parts, `trunk` and `last`, is where methods that split the network earlier (MCD's official digit
network) put the border between extractor and classifier.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from benchmark.spec.seeds import seed_of

M = TypeVar("M", bound=nn.Module)


class Extractor(nn.Module):
    """images (N, 3, H, W) → features (N, feature_dim); `last` is the block that an early split gives to the classifier."""

    def __init__(self, trunk: nn.Module, last: nn.Module, cut_dim: int, feature_dim: int) -> None:
        super().__init__()
        self.trunk, self.last = trunk, last
        self.cut_dim, self.feature_dim = cut_dim, feature_dim
        self.origin: dict[str, str] = {"trunk.": ""}  # where the names of a part begin in a file of weights
        self.head: tuple[str, ...] = ("fc.",)  # names in such a file that belong to the head, which is left out
        self.compiled = False  # training passes through `torch.compile`
        self.bf16 = False  # the pass in bfloat16 where autocast finds it safe

    def forward(self, x: Tensor) -> Tensor:
        # evaluation comes in many batch sizes, each a compilation of its own, and is a small part of a run
        through = _compiled() if self.compiled and self.training else _through
        if not self.bf16:
            return through(self, x)
        # around the forward pass and nothing else: the features leave it in single precision, so heads, losses, kernels
        # and the A-step compute in it, and the backward pass follows the types of the forward one
        with torch.autocast(x.device.type, torch.bfloat16):
            return through(self, x).float()


def _through(extractor: Extractor, x: Tensor) -> Tensor:
    return extractor.last(extractor.trunk(x))


@functools.lru_cache(maxsize=1)
def _compiled() -> Callable[[Extractor, Tensor], Tensor]:
    """`_through`, compiled. One graph for each shape, so that the code that runs does not depend on what ran before it
    (a resumed run is the same run); dropout drawn as without compilation; what cannot be compiled is an error."""
    return torch.compile(_through, dynamic=False, fullgraph=True, options={"fallback_random": True})


def drawn(factory: Callable[[], M], seed: int, role: str) -> M:
    """A new module, its weights drawn from (seed, role).

    Layers that can draw their weights anew do so by their name. What no such layer holds (a class token, an embedding of
    positions) is drawn as its library draws it, while the module is built, from the same seed.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("init", seed, role))
        module = factory()
    initialise(module, seed, role)
    return module


def initialise(module: nn.Module, seed: int, role: str) -> None:
    """Draw the initial weights of every layer from (seed, role, the layer's name): equal for all methods."""
    with torch.random.fork_rng(devices=[]):
        for name, layer in module.named_modules():
            reset = getattr(layer, "reset_parameters", None)
            if callable(reset):
                torch.manual_seed(seed_of("init", seed, role, name))
                reset()
    restore = getattr(module, "restore_pretrained", None)  # a network that starts from weights of its own
    if callable(restore):
        restore()
