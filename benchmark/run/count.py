"""What one update asks of a device: kernel launches, synchronisations, FLOPs, memory. Counted, not timed.

    with Counter("cuda") as seen:          # real tensors, fake ones or meta ones: shapes suffice
        run.step(0.5)
    seen.tally.launches, seen.tally.flops, seen.tally.peak_bytes, seen.tally.synchronisations

`of_updates(resolved)` counts on tensors without memory what an update and an image's prediction take in every stage of a
method at its full size: a few seconds for any network on any machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import weakref
from collections import Counter as Counts
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, shape_wrapper

from benchmark.run.task import make_task
from benchmark.spec import Resolved
from methods.contract import FullPass, LabeledBatch, Method, UnlabeledBatch, Views

aten = torch.ops.aten
# what the host cannot go on without: a value, or a size that depends on values
READS = {
    "_local_scalar_dense", "item", "is_nonzero", "equal", "allclose", "nonzero", "masked_select",
    "_unique", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive", "bincount", "histc",
    # decompositions whose success is read back from the device, or whose algorithm runs on the host
    "_linalg_svd", "linalg_svd", "linalg_svdvals", "_linalg_eigh", "linalg_eigh", "linalg_eigvalsh", "linalg_eig",
    "linalg_eigvals", "linalg_qr", "linalg_lstsq", "linalg_cholesky", "cholesky", "linalg_inv", "linalg_solve",
}  # fmt: skip
READS_BACKWARDS = {"prod", "cumprod"}  # how many zeros are there? Fake tensors take a way without the question
COPIES = {"_to_copy", "copy_", "_copy_from", "copy"}
NO_KERNEL = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted", "_unsafe_view",
    "detach", "detach_", "alias", "lift_fresh", "lift", "_local_scalar_dense", "item", "is_pinned", "_pin_memory",
    "pin_memory", "set_", "resize_", "record_stream", "_has_compatible_shallow_copy_type", "is_same_size",
    "_reshape_alias", "requires_grad_", "device", "squeeze_", "unsqueeze_", "transpose_", "t_", "as_strided_",
}  # fmt: skip
# tensors that one launch of a multi-tensor kernel takes, by the number of its lists (ATen's MultiTensorApply.cuh)
LISTED = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}
OURS = {str(Path(__file__).parents[2] / package) for package in ("benchmark", "methods", "tsvdnet")}


class Wait(NamedTuple):
    """A synchronisation: the operator, and the line of ours that it came from."""

    operator: str
    where: str


@dataclasses.dataclass
class Tally:
    """The sums so far. An operator counts as one launch, a multi-tensor one as many as its lists need: a lower bound."""

    launches: int = 0
    flops: int = 0
    peak_bytes: int = 0
    synchronisations: list[Wait] = dataclasses.field(default_factory=list)
    operators: Counts[str] = dataclasses.field(default_factory=Counts)  # launches by operator and overload


class Counter(TorchDispatchMode):
    """Within: every operator that touches `device` is counted. Memory is that of the tensors it has seen and that live."""

    def __init__(self, device: str | torch.device) -> None:
        super().__init__()
        self.device = torch.device(device).type
        self.tally = Tally()
        self._live = 0
        self._known: set[int] = set()
        self._pinned: weakref.WeakSet[Any] = weakref.WeakSet()

    def restart(self) -> Tally:
        """The tally so far; a new one begins, at the memory that is in use now."""
        done, self.tally = self.tally, Tally(peak_bytes=self._live)
        return done

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func.namespace != "aten":
            return out
        given, made = list(_tensors((args, kwargs))), list(_tensors(out))
        name = func.__name__.partition(".")[0]
        if name == "_pin_memory":
            self._pinned.update(x.untyped_storage() for x in made)
        if any(x.device.type == self.device for x in (*given, *made)):
            self._count(func, name, args, kwargs, given, made, out)
        return out

    def _count(self, func: Any, name: str, args: Any, kwargs: Any, given: Any, made: Any, out: Any) -> None:
        for x in (*given, *made):
            self._see(x)
        if name not in NO_KERNEL and not func.is_view:
            kernels = _kernels(name, args)
            self.tally.launches += kernels
            self.tally.operators[func.__name__] += kernels
        formula = FORMULAS.get(func._overloadpacket)
        if formula is not None:
            self.tally.flops += formula(*args, **kwargs, out_val=out)
        if self.device != "cpu" and self._waits(name, args, kwargs, given, made):
            self.tally.synchronisations.append(Wait(name, _where()))

    def _see(self, x: Tensor) -> None:
        if x.device.type != self.device:
            return
        storage = x.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            self._live += size
            self.tally.peak_bytes = max(self.tally.peak_bytes, self._live)
            weakref.finalize(storage, self._gone, key, size).atexit = False

    def _gone(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._live -= size

    def _waits(self, name: str, args: Any, kwargs: Any, given: list[Tensor], made: list[Tensor]) -> bool:
        """Does the host stand still until the device has done this?"""
        if name in READS:
            return True
        if name in ("index", "index_put", "index_put_", "_index_put_impl_"):  # a mask: how many are true?
            return any(x.dtype in (torch.bool, torch.uint8) for x in args[1] if x is not None)
        if name in READS_BACKWARDS:
            return torch.is_grad_enabled() and given[0].requires_grad
        if name == "repeat_interleave":
            return kwargs.get("output_size") is None
        if name in COPIES:
            source, target = (args[1], args[0]) if name == "copy_" else (given[0], made[0])
            if source.device.type == target.device.type:
                return False
            host = source if source.device.type == "cpu" else target
            waiting = args[2] if len(args) > 2 and name == "copy_" else kwargs.get("non_blocking", False)
            return not (waiting and (host.untyped_storage() in self._pinned or host.is_pinned()))
        return False


def _tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for part in tree:
            yield from _tensors(part)
    elif isinstance(tree, dict):
        yield from _tensors(tuple(tree.values()))


def _kernels(name: str, args: Any) -> int:
    if not name.startswith(("_foreach", "_fused", "_amp_foreach")):
        return 1
    lists = [a for a in args if isinstance(a, list | tuple) and a and isinstance(a[0], Tensor)]
    return max(1, math.ceil(len(lists[0]) / LISTED[min(len(lists), 5)])) if lists else 1


def _where() -> str:
    """`file:line` of our own code nearest to the operator; the backward pass has none."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file != __file__ and any(file.startswith(folder) for folder in OURS):
            return f"{Path(file).name}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    return "?"


# -- FLOPs ----------------------------------------------------------------------------------------------------------


def convolution_backward_flops(grad: list[int], x: list[int], weight: list[int], *rest: Any, **_: Any) -> int:
    """FLOPs of a convolution's backward pass; torch's own count takes a grouped convolution for a dense one."""
    transposed, wanted = rest[4], rest[7]  # … bias, stride, padding, dilation, transposed, output padding, groups, mask
    forward = 2 * math.prod(x if transposed else grad) * math.prod(weight[1:])
    return forward * sum(wanted[:2])  # one such product for the input's gradient, one for the weight's


GROUPED = {aten.convolution_backward: convolution_backward_flops}
FORMULAS: dict[Any, Any] = flop_registry | {op: shape_wrapper(formula) for op, formula in GROUPED.items()}


# -- without memory -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class StageCount:
    """One update of a stage, and the share of the run's updates that the stage has."""

    stage: str
    share: float
    update: Tally
    predict_flops: float  # of one image
    source_flops: float = 0.0  # of one image of a source in the full pass with which the stage begins
    target_flops: float = 0.0  # likewise, of the target


def of_updates(resolved: Resolved, num_classes: int | None = None) -> list[StageCount]:
    """Every stage's update at the spec's own sizes, on tensors without memory: nothing is read, computed or kept."""
    settings, spec = resolved.settings, resolved.spec
    classes = num_classes or len(resolved.suite.classes)
    random_start = settings.model_copy(update={"network": settings.network.model_copy(update={"weights": ""})})
    with without_memory(), Guess(), Counter("cpu") as seen:
        task = make_task(dataclasses.replace(resolved, settings=random_start), classes, "cpu")
        method: Method = resolved.method(task, resolved.hparams)
        method.train()
        side, size = settings.network.image_size, settings.batch
        frozen = (
            settings.network.name == "effnet-lite0-tail"
        )  # it is given maps of the frozen part: 192, a 32nd as wide
        shape = (192, math.ceil(side / 32), math.ceil(side / 32)) if frozen else (3, side, side)
        images, labels = torch.zeros(size, *shape), torch.zeros(size, dtype=torch.long)
        sources = [LabeledBatch(images, labels) for _ in spec.sources]
        if spec.standard == "combined":
            sources = [LabeledBatch(torch.cat([s.images for s in sources]), torch.cat([s.labels for s in sources]))]
        target = UnlabeledBatch(images)
        found: dict[str, tuple[Tally, float, float, float]] = {}
        for stage, _ in method.stages():
            if kind(stage) in found:
                continue
            passes, last = [Once(s, seen) for s in sources], Once(target, seen)
            method.enter(stage, Views(passes, last))
            method.update(sources, target, 0.0)  # the optimisers make their state in their first step
            seen.restart()
            method.update(sources, target, 0.999)
            update = seen.restart()
            method.predict(images)
            begun = sum(p.flops for p in passes) / len(passes), last.flops
            found[kind(stage)] = update, seen.restart().flops / size, *begun
    return [StageCount(stage, share, *found[kind(stage)]) for stage, share in method.stages()]


def kind(stage: str) -> str:
    """A stage's name without its number: stages that are numbered repeat the first of their kind."""
    return stage.rstrip("-0123456789")


class Guess(TorchDispatchMode):
    """Within: a number read from a tensor without memory is 1, or ½ where it may be a fraction."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is aten._local_scalar_dense.default:
            dtype = args[0].dtype
            return 0.5 if dtype.is_floating_point else dtype == torch.bool or 1
        return func(*args, **(kwargs or {}))


class Once(FullPass):
    """A pass over one batch; notes what is computed of an image of it before the next is asked for."""

    def __init__(self, batch: LabeledBatch | UnlabeledBatch, seen: Counter) -> None:
        self._batch, self._seen = batch, seen
        self.flops = 0.0

    def __iter__(self) -> Iterator[Any]:
        before = self._seen.tally.flops
        yield self._batch
        self.flops += (self._seen.tally.flops - before) / len(self)

    def __len__(self) -> int:
        return len(self._batch.images)


@contextlib.contextmanager
def without_memory() -> Iterator[None]:
    """Within: tensors have shapes and no contents. Modules move by taking new parameters (torch exchanges the contents of
    fake ones instead, and refuses where anything remembers them); numpy is given zeros."""

    def apply(self: nn.Module, fn: Any, recurse: bool = True) -> nn.Module:
        for child in self.children():
            apply(child, fn)
        for name, old in self._parameters.items():
            if old is not None:
                with torch.no_grad():
                    new = fn(old)
                if (new.device, new.dtype, new.stride()) != (old.device, old.dtype, old.stride()):
                    self._parameters[name] = nn.Parameter(new, old.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
        if not isinstance(self, FakeTensor):
            return given(self, force=force)
        return np.zeros(tuple(self.shape), str(self.dtype).removeprefix("torch."))

    before, given = nn.Module._apply, Tensor.numpy
    nn.Module._apply, Tensor.numpy = apply, numpy  # type: ignore[method-assign, assignment]
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            yield
    finally:
        nn.Module._apply, Tensor.numpy = before, given  # type: ignore[method-assign]
