"""Seeds that follow from what they are for: the same on every machine, whoever draws."""

from __future__ import annotations

import hashlib


def seed_of(*parts: object) -> int:
    """A 63-bit seed that is a pure function of its parts, on every machine."""
    return int.from_bytes(hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()[:8], "big") >> 1
