"""A run small enough for a test: the mini digits with a network of a few channels and a few updates."""

from __future__ import annotations

from typing import Any

from benchmark.spec import RunSpec

TINY: dict[str, Any] = {
    "run.network.width": 1 / 32,
    "run.batch": 8,
    "run.updates": 20,
    "run.eval_points": 4,
    "run.val_images": 20,
    "run.unsup_images": 40,
}
ARGUMENTS = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]


def tiny(method: str = "source-only", target: str = "mm", **fields: Any) -> RunSpec:
    """A spec of the mini digits with the tiny settings; `overrides` add to them."""
    overrides = {**TINY, **fields.pop("overrides", {})}
    name, _, preset = method.partition(":")
    return RunSpec("digits", "mini", name, preset, target=target, overrides=tuple(overrides.items()), **fields)
