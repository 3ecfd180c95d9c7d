"""Losses without waiting: sums stay on the device and are read at evaluation points, with a watch for NaN and Inf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn


class NotFinite(Exception):
    """A loss, a gradient, a weight or another part of a method's state is NaN or infinite."""

    def __init__(self, term: str, update: int) -> None:
        super().__init__(f"{term} was not finite at update {update}")
        self.term, self.update = term, update


class Meter:
    """Means of the terms since the last reading; remembers for every term, gradient and buffer its first bad update."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}  # by the joined names: (k, 3) of sum, number, first bad update (or −1)
        self._pseudo: Tensor | None = None
        self._state: tuple[list[str], Tensor] | None = None  # names, (n,) first bad update of each (or −1)

    def add(self, terms: Mapping[str, Tensor], update: int) -> None:
        """Add one update's 0-d tensors."""
        if not terms:
            return
        key = "\n".join(terms)
        values = torch.stack([v.detach().float() for v in terms.values()]).double()
        if key not in self._sums:
            self._sums[key] = torch.zeros(len(values), 3, dtype=torch.float64, device=values.device)
            self._sums[key][:, 2] = -1
        sums = self._sums[key]
        sums[:, 0] += values
        sums[:, 1] += 1
        sums[:, 2] = _first_bad(sums[:, 2], values, update)

    def count(self, pseudo: Tensor) -> None:
        """Add (batch size, assigned, correct) of the pseudo labels."""
        self._pseudo = pseudo if self._pseudo is None else self._pseudo + pseudo

    def watch(self, method: nn.Module, update: int) -> None:
        """Look at every gradient and buffer after an update: a number each, a few tenths of a percent of a step."""
        parts = {f"gradient of {n}": p.grad for n, p in method.named_parameters()}
        parts |= {f"state {n}": b for n, b in method.named_buffers() if b.is_floating_point()}
        found = {n: x.detach() for n, x in parts.items() if x is not None}
        if not found:
            return
        values, names = torch.stack(_one_number_each(list(found.values()))), list(found)
        if self._state is None or self._state[0] != names:  # another stage may train other modules
            self.check()
            self._state = names, torch.full_like(values, -1.0)
        self._state = names, _first_bad(self._state[1], values, update)

    def check(self) -> None:
        """Raise NotFinite with everything that was not finite at the first bad update.

        A loss that is not finite makes every gradient so: then the gradients are not worth a word.
        """
        bad = [(n, u) for key, sums in self._sums.items() for n, u in _bad(key.split("\n"), sums[:, 2])]
        state = _bad(*self._state) if self._state is not None else []
        if not bad and not state:
            return
        first = min(u for _, u in [*bad, *state])
        names = [f"loss {n}" for n, u in bad if u == first]
        names = [n for n, u in state if u == first and (n.startswith("state ") or not names)] + names
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise NotFinite(", ".join(names[:3]) + more, int(first))

    def cause(self, error: Exception) -> Exception:
        """An error in an update that comes after something was not finite is only the symptom."""
        try:
            self.check()
        except NotFinite as first:
            first.__cause__ = error
            return first
        except RuntimeError:  # the device answers no more: what it said first counts
            return error
        return error

    def read(self) -> tuple[dict[str, float], dict[str, float]]:
        """(mean of each term, pseudo-label rate and precision) since the last reading; raises when not finite."""
        self.check()
        means = {}
        for key, sums in self._sums.items():
            for name, (total, n, _) in zip(key.split("\n"), sums.tolist(), strict=True):
                means[name] = total / n
        pseudo = {}
        if self._pseudo is not None:
            seen, given, right = self._pseudo.tolist()
            pseudo = {"rate": given / seen, "precision": right / given if given else None}
        self._sums, self._pseudo = {}, None
        return means, pseudo

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint, which is written only while everything is finite: nothing of the watch to keep."""
        return {"sums": dict(self._sums), "pseudo": self._pseudo}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self._sums, self._pseudo = dict(state["sums"]), state["pseudo"]


def check_finite(state: Mapping[str, Any], update: int) -> None:
    """Raise NotFinite when a tensor anywhere in a state dictionary is not finite; waits for the device."""
    named = [(n, x) for n, x in _tensors(state) if x.is_floating_point()]
    if not named:
        return
    good = torch.stack([x.isfinite().all() for _, x in named])
    if not bool(good.all()):
        raise NotFinite(named[int((~good).float().argmax())][0], update)


def _tensors(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _tensors(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from _tensors(part, f"{name}.{i}")


def _one_number_each(tensors: list[Tensor], together: bool | None = None) -> list[Tensor]:
    """A 0-d float32 of each tensor that is finite when all of it is.

    Together on a GPU, the largest magnitudes from a few kernels for all; on the CPU sums, which cost a twentieth of it.
    """
    if tensors[0].device.type != "cpu" if together is None else together:
        return list(torch._foreach_norm(tensors, torch.inf, dtype=torch.float32))
    return [x.sum(dtype=torch.float32) for x in tensors]


def _first_bad(before: Tensor, values: Tensor, update: int) -> Tensor:
    return torch.where((before < 0) & ~values.isfinite(), float(update), before)


def _bad(names: list[str], first: Tensor) -> list[tuple[str, float]]:
    return [(n, u) for n, u in zip(names, first.tolist(), strict=True) if u >= 0]
