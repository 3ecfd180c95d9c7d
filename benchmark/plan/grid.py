"""Values of a request: `--set` as a grid, and the file that `tune` wrote."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmark.errors import UserError
from benchmark.files import read_toml


@dataclass
class Grid:
    """The `--set` options: for each target (a method's name, or `run`) its keys with their values."""

    entries: list[tuple[str, str, list[Any]]]
    used: set[int] = field(default_factory=set)

    @classmethod
    def parse(cls, settings: Sequence[str], limit_steps: int | None = None, stage_budget: str = "") -> Grid:
        """`tsvdnet.lam=1,10`, `tsvdnet:code.lam=1`, `run.updates=60`."""
        entries = []
        for text in settings:
            key, equals, values = text.partition("=")
            owner, dot, name = key.partition(".") if key.startswith("run.") else key.rpartition(".")
            if not (equals and dot and values and owner and name):
                raise UserError(
                    f"--set {text!r} is not of the form method.key=value[,value…], as in: --set tsvdnet.lam=1,10"
                )
            entries.append((owner, name, [literal(v) for v in values.split(",")]))
        if limit_steps is not None:
            entries.append(("run", "updates", [limit_steps]))
        if stage_budget:
            entries.append(("run", "stage_budget", [stage_budget]))
        return cls(entries)

    def overrides(self, name: str, method: str, tuned: dict[str, Any]) -> list[tuple[tuple[str, Any], ...]]:
        """Every combination of values for one row of the table; `--set` wins over tuned values."""
        keys, lists = [], []
        for i, (owner, key, values) in enumerate(self.entries):
            if owner in ("run", method, name):
                self.used.add(i)
                keys.append(f"run.{key}" if owner == "run" else key)
                lists.append(values)
        return [
            tuple({**tuned, **dict(zip(keys, combination, strict=True))}.items())
            for combination in itertools.product(*lists)
        ]

    def check_all_used(self) -> None:
        """An option that no run sees is a mistake."""
        for i, (owner, key, _) in enumerate(self.entries):
            if i not in self.used:
                raise UserError(f"--set {owner}.{key}: no method {owner!r} is in this request. Add it with --methods.")


def literal(text: str) -> Any:
    """A number, a switch, or text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def read_tuned(path: Path, suite: str, tier: str) -> tuple[dict[str, dict[str, Any]], str]:
    """({method: {key: value}}, short hash) of a file that `tune` wrote."""
    if not path.is_file():
        raise UserError(
            f"The tuning file {path} does not exist. Make it with: python -m benchmark tune --suite {suite}"
        )
    document = read_toml(path, "The tuning file")
    try:
        if document["format"] != 1:
            raise ValueError("another format")
        values = {str(k): dict(v) for k, v in document["methods"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is not a file written by `tune`: {error}.") from None
    if document.get("suite") != suite:
        raise UserError(f"{path} was tuned on suite {document.get('suite')!r}, not on {suite!r}.")
    if document.get("tier", tier) != tier:
        raise UserError(
            f"{path} was tuned on tier {document['tier']!r}, not on {tier!r}: rates found there say little here. Type: "
            f"python -m benchmark tune --suite {suite} --tier {tier}"
        )
    return values, hashlib.sha256(path.read_bytes()).hexdigest()[:12]
