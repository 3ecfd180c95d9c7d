"""Does a method keep its contract? `check(name)` tries every claim on it and says in sentences what does not hold.

`toy` is a task of a few images and the loop without data, time and disk; `waits` and `memory` look on while a method
trains; `training` has the claims that this decides, `runs` those that take the real loop from data to record.
"""

from __future__ import annotations

from benchmark.run.check.verdict import CLAIMS, Finding, check

__all__ = ["CLAIMS", "Finding", "check"]
