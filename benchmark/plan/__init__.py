"""From a request to run specs: who runs on what, in which standard, with which values; and what it will cost.

`make(Request(...))` gives the plan; `estimate` its cost, `states` what of it is done; `plan.tune` looks for values.
"""

from __future__ import annotations

from benchmark.plan.cost import estimate, states
from benchmark.plan.flops import Count
from benchmark.plan.request import Plan, Request, make, parse_seeds, split_name, wanted_rows

__all__ = [
    "Count",
    "Plan",
    "Request",
    "estimate",
    "make",
    "parse_seeds",
    "split_name",
    "states",
    "wanted_rows",
]
