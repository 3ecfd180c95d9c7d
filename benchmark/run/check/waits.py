"""Where an update would wait for the device: seen on the CPU, by the questions that only a device's answer can settle.

found = {}
with watching(found):
    method.update(sources, target, 0.0)
found → {"my_method.py:31": "item"}
"""

from __future__ import annotations

import contextlib
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

# what is asked of a tensor in Python; on the CPU most of it never reaches an operator
ASKED = {
    "item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__", "__index__", "__array__", "__repr__",
    "__format__",
}  # fmt: skip
# operators whose result, or its size, is a matter of values
READS = {
    "_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "_unique", "_unique2", "unique_dim",
    "unique_consecutive", "unique_dim_consecutive", "bincount",
}  # fmt: skip
TORCH = str(Path(torch.__file__).parent)
# step counts of optimisers are kept on the host; what the backward pass does was asked for by a line of the forward pass
SILENT = (
    str(Path(TORCH) / "optim"),
    str(Path(TORCH) / "autograd" / "__init__.py"),
    str(Path(TORCH) / "autograd" / "graph.py"),
)
HOST_ALONE = "# cpu only"  # a line that says so is not reached on a GPU
CHECK = str(Path(__file__).parent)


@contextlib.contextmanager
def watching(found: dict[str, str]) -> Iterator[None]:
    """Everything within that would wait goes into `found`: {line: what it asks}."""
    with _Operators(found) as operators, _Calls(operators):
        yield


class _Calls(TorchFunctionMode):
    """What Python asks of tensors."""

    def __init__(self, operators: _Operators) -> None:
        super().__init__()
        self.operators = operators

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in ASKED or (name == "to" and _to_the_host(args, kwargs or {})):
            _note(self.operators.found, name)
        # `one_hot` with a number of classes looks at its labels on the CPU alone
        self.operators.deaf = name == "one_hot" and (len(args) > 1 or bool(kwargs))
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.operators.deaf = False


class _Operators(TorchDispatchMode):
    """What reaches an operator, from Python or from within torch."""

    def __init__(self, found: dict[str, str]) -> None:
        super().__init__()
        self.found, self.deaf = found, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.partition(".")[0]
        masks = name in ("index", "index_put", "index_put_", "_index_put_impl_") and any(
            x is not None and x.dtype in (torch.bool, torch.uint8) for x in args[1]
        )
        # how often each row comes is a matter of values, unless the caller knows the sum
        counts = name == "repeat_interleave" and (kwargs or {}).get("output_size") is None
        if (name in READS or masks or counts) and not self.deaf:
            _note(self.found, "a mask as an index" if masks else name)
        return func(*args, **(kwargs or {}))


def _to_the_host(args: Any, kwargs: Any) -> bool:
    """Is "cpu" asked for by name? A device that was taken from a tensor is another one on a GPU."""
    named = [x for x in (*args[1:], kwargs.get("device")) if isinstance(x, str)]
    return any(name.startswith("cpu") for name in named) and not kwargs.get("non_blocking", False)


def _note(found: dict[str, str], what: str) -> None:
    """Under the line outside torch that it came from; the first name stands, which is the one that Python used."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(SILENT):
            return
        if not file.startswith((TORCH, CHECK)):
            if HOST_ALONE in linecache.getline(file, frame.f_lineno):
                return
            found.setdefault(f"{Path(file).name}:{frame.f_lineno}", what)
            return
        frame = frame.f_back  # type: ignore[assignment]
