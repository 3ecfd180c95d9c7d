"""The file of a kept model: safetensors, with everything that is needed to use it. Nothing in it can be executed.

A model is kept in two parts, one for each kind of batch-norm statistics at test. A rule may choose different updates for
the two, so each part has its update, stage and the rest of the method's state; tensors that are equal in both are stored
once, under `running`.

| in the file | what |
|---|---|
| tensors `running.modules.<name>`, `running.extra.<name>` | weights and buffers of the method, and tensors of its extra state |
| tensors `target.…` | those that differ when statistics of the target are used |
| metadata `model`, JSON | run_id, suite, tier, method, preset, target, rule, update, weights, classes, preprocess |
| … its `parts`, by statistics | update, stage, weights, and what of the state is no tensor |

The same run gives the same bytes: the library writes several entries of metadata in any order, so there is one.
"""

from __future__ import annotations

import errno
import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from benchmark.files import replacing
from benchmark.records.selection import STATISTICS
from benchmark.run.usage import weights_hash
from methods.contract import Method

FORMAT, ENTRY = 1, "model"
REFERENCE = "$tensor"  # {"$tensor": name} stands for a tensor among plain values
PICKLES = (b"PK\x03\x04", b"\x80")  # how torch.save and pickle begin


class NotKept(Exception):
    """A file that is no whole model, or a state that none can be made of; in words."""


@dataclass(frozen=True)
class Part:
    """A method as it predicts with one kind of statistics."""

    update: int
    stage: str
    tensors: Mapping[str, Tensor]  # by `modules.<name>` and `extra.<name>`, on the CPU
    plain: Mapping[str, Any]  # what is no tensor

    @property
    def modules(self) -> dict[str, Any]:
        """`modules` of the method's state."""
        start = "modules."
        weights = {k.removeprefix(start): v for k, v in self.tensors.items() if k.startswith(start)}
        return {**weights, **self.plain["modules"]}

    @property
    def weights(self) -> str:
        """The hash of weights and buffers, as records have it."""
        return weights_hash(self.modules)

    @property
    def extra(self) -> Any:
        """`extra` of the method's state."""
        return _joined(self.plain["extra"], self.tensors)


def part_of(method: Method, update: int) -> Part:
    """What a method needs to predict as it does now."""
    state = method.state_dict()
    tensors: dict[str, Tensor] = {}
    others: dict[str, Any] = {}
    for name, value in state["modules"].items():
        if isinstance(value, Tensor):
            tensors[f"modules.{name}"] = _own(value)
        else:
            others[name] = _split(value, f"modules.{name}", {})
    plain = {"modules": others, "extra": _split(state["extra"], "extra", tensors)}
    return Part(update, str(state["stage"]), tensors, plain)


def write(path: Path, parts: Mapping[str, Part], facts: Mapping[str, Any]) -> None:
    """Replace the file, atomically; an OSError leaves the one before."""
    running, target = (parts[kind] for kind in STATISTICS)
    tensors = {f"running.{name}": x for name, x in running.tensors.items()}
    for name, x in target.tensors.items():
        if name not in running.tensors or not _same(x, running.tensors[name]):
            tensors[f"target.{name}"] = x
    told = {
        kind: {"update": p.update, "stage": p.stage, "weights": p.weights, "plain": p.plain, "names": sorted(p.tensors)}
        for kind, p in parts.items()
    }
    own = {"format": FORMAT, "update": running.update, "weights": running.weights, "parts": told}
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, {ENTRY: json.dumps({**facts, **own}, sort_keys=True)})
        except SafetensorError as error:  # its writer says a full disk so
            raise OSError(errno.EIO, str(error).splitlines()[0][:200], str(path)) from error


def read(path: Path) -> tuple[dict[str, Any], dict[str, Part]]:
    """(facts, part by statistics) of a file; `NotKept` in words when it is none. Nothing is unpickled."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):  # asked before it is opened: a pipe would wait for ever
            raise NotKept("it cannot be read (it is a link, a folder, a pipe or a device, not a plain file)")
        with path.open("rb") as file:
            head = file.read(9)
            if head.startswith(PICKLES) and head[8:] != b"{":  # eight bytes of any length, then JSON: safetensors
                raise NotKept("it is a pickle, which is never loaded here: it could run any program")
        with safe_open(path, framework="pt") as stored:
            facts = json.loads((stored.metadata() or {}).get(ENTRY, "{}"))
            if facts.get("format") != FORMAT:
                raise NotKept("it is a safetensors file, but no model that this suite kept")
            told = facts.pop("parts")
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118  # it is no mapping
        return facts, {kind: _part(told[kind], kind, tensors) for kind in STATISTICS}
    except SafetensorError as error:
        words = str(error).splitlines()[0][:200]
        raise NotKept(f"it is cut off, damaged, or no safetensors file ({words})") from None
    except OSError as error:
        raise NotKept(f"it cannot be read ({error.strerror or error})") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotKept(f"what it says of itself makes no sense ({type(error).__name__}: {error})"[:300]) from None


def _part(told: Mapping[str, Any], kind: str, tensors: Mapping[str, Tensor]) -> Part:
    own = {}
    for name in told["names"]:
        place = f"{kind}.{name}"
        own[name] = tensors[place if place in tensors else f"running.{name}"]
    return Part(int(told["update"]), str(told["stage"]), own, told["plain"])


def _own(x: Tensor) -> Tensor:
    """A copy on the CPU that shares its memory with nobody, in the plain order of its elements."""
    return x.detach().to("cpu", copy=True).contiguous()


def _same(x: Tensor, y: Tensor) -> bool:
    return x.dtype == y.dtype and x.shape == y.shape and torch.equal(x, y)


def _split(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Plain values as JSON has them; tensors go to `tensors`, and a reference stays in their place."""
    if isinstance(value, Tensor):
        tensors[name] = _own(value)
        return {REFERENCE: name}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _split(part, f"{name}.{key}", tensors) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_split(part, f"{name}.{i}", tensors) for i, part in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise NotKept(f"{name} of the method's state is a {type(value).__name__}, neither a tensor nor a plain value")


def _joined(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Inverse of `_split`; tuples have become lists."""
    if isinstance(value, Mapping):
        if set(value) == {REFERENCE}:
            return tensors[value[REFERENCE]]
        return {key: _joined(part, tensors) for key, part in value.items()}
    return [_joined(part, tensors) for part in value] if isinstance(value, list) else value
