"""Losses without waiting: sums stay on the device and are read at evaluation points, with a watch for NaN and Inf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class NotFinite(Exception):
    """A loss or a weight is NaN or infinite."""

    def __init__(self, term: str, update: int) -> None:
        super().__init__(f"{term} was not finite at update {update}")
        self.term = term


class Meter:
    """Means of the terms since the last reading; remembers for each term the first update that was not finite."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}  # by the joined names: (k, 3) of sum, number, first bad update (or −1)
        self._pseudo: Tensor | None = None

    def add(self, terms: Mapping[str, Tensor], update: int) -> None:
        """Add one update's 0-d tensors."""
        if not terms:
            return
        key = "\n".join(terms)
        values = torch.stack([v.detach().float() for v in terms.values()]).double()
        fresh = torch.zeros(len(values), 3, dtype=torch.float64, device=values.device)
        fresh[:, 2] = -1
        sums = self._sums.setdefault(key, fresh)
        sums[:, 0] += values
        sums[:, 1] += 1
        first = (sums[:, 2] < 0) & ~values.isfinite()
        sums[:, 2] = torch.where(first, float(update), sums[:, 2])

    def count(self, pseudo: Tensor) -> None:
        """Add (batch size, assigned, correct) of the pseudo labels."""
        self._pseudo = pseudo if self._pseudo is None else self._pseudo + pseudo

    def check(self) -> None:
        """Raise NotFinite with the first offending term."""
        worst: tuple[float, str] | None = None
        for key, sums in self._sums.items():
            for name, bad in zip(key.split("\n"), sums[:, 2].tolist(), strict=True):
                if bad >= 0 and (worst is None or bad < worst[0]):
                    worst = (bad, name)
        if worst is not None:
            raise NotFinite(worst[1], int(worst[0]))

    @staticmethod
    def check_parameters(module: nn.Module, update: int) -> None:
        """Raise NotFinite when a weight is not finite: a gradient was not."""
        named = [(n, p) for n, p in module.named_parameters() if p.is_floating_point()]
        good = torch.stack([p.isfinite().all() for _, p in named]) if named else torch.ones(0, dtype=torch.bool)
        if not bool(good.all()):
            raise NotFinite(f"weight {named[int((~good).float().argmax())][0]}", update)

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
        """For the checkpoint."""
        return {"sums": dict(self._sums), "pseudo": self._pseudo}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self._sums, self._pseudo = dict(state["sums"]), state["pseudo"]
