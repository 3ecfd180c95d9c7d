"""What a method remembers, and where two states differ: a checkpoint must hold the one, and give the other back."""

from __future__ import annotations

import collections
import functools
import io
import random
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from methods.contract import Method

OWN = {*vars(nn.Module())}  # torch's own attributes of every module
GIVEN = {"task", "hparams", "optimisers", "stage"}  # of the method: restored by the contract, or never changed
DEPTH = 6  # of what is nested in what
# without a state of its own, though Python lets one be hung on it; an object with `__call__` is a helper like any other
CODE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType, functools.partial)


def remembered(method: Method) -> dict[str, Any]:
    """{path: value} of everything outside the modules' parameters and buffers: what `state_dict` does not see by itself."""
    seen = {id(module) for module in method.modules()}
    found: dict[str, Any] = {}
    for prefix, module in method.named_modules():
        path = f"self.{prefix}." if prefix else "self."
        for key, value in vars(module).items():
            if key not in OWN and not (module is method and key in GIVEN):
                found.update(_leaves(f"{path}{key}", value, seen, DEPTH))
        for key in module._non_persistent_buffers_set:
            found.update(_leaves(f"{path}{key}", module._buffers[key], seen, DEPTH))
    for (role, _), module in method.task._extractors.items():
        if id(module) not in seen:
            found.update(_leaves(f"task.extractor({role!r})", module, seen, DEPTH))
    return found


def _leaves(path: str, value: Any, seen: set[int], depth: int) -> Iterator[tuple[str, Any]]:
    """The plain values below `value`; tensors are copied, since training changes them in place."""
    if isinstance(value, Tensor):
        yield path, value.detach().clone()
    elif isinstance(value, np.ndarray):
        yield path, value.tobytes()
    elif value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield path, repr(value)
    elif isinstance(value, torch.Generator):
        yield path, value.get_state()
    elif isinstance(value, random.Random):
        yield path, repr(value.getstate())
    elif isinstance(value, np.random.Generator):
        yield path, repr(value.bit_generator.state)
    elif isinstance(value, set | frozenset):
        yield path, repr(sorted(map(repr, value)))
    elif depth and id(value) not in seen and not isinstance(value, type | torch.optim.Optimizer):
        seen.add(id(value))
        yield from _parts(path, value, seen, depth - 1)


def _parts(path: str, value: Any, seen: set[int], depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, nn.Module):  # one that torch does not know of: in a plain list, in a helper
        for key, tensor in value.state_dict().items():
            yield from _leaves(f"{path}.{key}", tensor, seen, depth)
    elif isinstance(value, Mapping):
        yield f"{path}, its keys", repr([*value])
        for key, part in value.items():
            yield from _leaves(f"{path}[{key!r}]", part, seen, depth)
    elif isinstance(value, list | tuple | collections.deque):
        yield f"{path}, its length", repr(len(value))
        for i, part in enumerate(value):
            yield from _leaves(f"{path}[{i}]", part, seen, depth)
    elif hasattr(value, "__dict__") and not isinstance(value, CODE):
        for key, part in vars(value).items():
            yield from _leaves(f"{path}.{key}", part, seen, depth)


def difference(a: Any, b: Any, path: str = "") -> str:
    """Where two nested values differ in a bit, by its path; "": nowhere."""
    here = path or "the whole"
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        equal = isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a, b)
        return "" if equal else here
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.keys() != b.keys():
            return f"{path}.{sorted(map(str, a.keys() ^ b.keys()))[0]}".removeprefix(".")
        return next(filter(None, (difference(a[k], b[k], f"{path}.{k}".removeprefix(".")) for k in a)), "")
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if len(a) != len(b):
            return here
        return next(filter(None, (difference(x, y, f"{path}.{i}") for i, (x, y) in enumerate(zip(a, b)))), "")  # noqa: B905
    return "" if repr(a) == repr(b) else here


def snapshot(value: Any) -> Any:
    """A copy that further training leaves alone."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {key: snapshot(part) for key, part in value.items()}
    return type(value)(map(snapshot, value)) if isinstance(value, list | tuple) else value


def through_a_file(state: Mapping[str, Any]) -> dict[str, Any]:
    """As a checkpoint keeps it: tensors and plain values only."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    loaded: dict[str, Any] = torch.load(buffer, weights_only=True)
    return loaded
