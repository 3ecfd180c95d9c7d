"""FLOPs and launches of a method, counted on the method itself; and the table of them for the built-in suites."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from benchmark.files import read_object, write_text
from benchmark.plan.flops import TABLE, Stage, key_of
from benchmark.plan.request import Request, make
from benchmark.run.count import kind, of_updates
from benchmark.spec import Resolved, Tier, load_suite, resolve, suite_names

CORES = ("digits", "pacs-frozen")
NARROW = ("run.network.width=0.125",)  # the digits of the older published studies


def count(resolved: Resolved) -> dict[str, Any]:
    """The counts of a method as they are kept; {} for one that does not run on tensors without memory."""
    kinds: dict[str, Stage] = {}
    image = 0.0
    try:
        for one in of_updates(resolved):
            before = kinds.get(kind(one.stage), Stage(0, 0.0, 0.0, 0))
            kinds[kind(one.stage)] = Stage(
                before.number + 1, before.share + one.share, one.update.flops, one.update.launches,
                one.source_flops, one.target_flops,
            )  # fmt: skip
            image = one.predict_flops
    except Exception:  # a method of the user's own may want real values
        return {}
    return {"stages": [list(dataclasses.astuple(stage)) for stage in kinds.values()], "image": image}


def wanted() -> Iterator[tuple[str, Resolved]]:
    """Every row of `--methods all` in every paper tier of the paper's suites, and in all tiers of those that are run on a few
    cores; each with the words that the table has for it. Other suites are counted when somebody asks."""
    for suite in filter(lambda name: load_suite(name).reported, suite_names()):
        for tier in load_suite(suite).tiers:
            if tier != Tier.paper and suite not in CORES:
                continue
            grids = [(), NARROW] if (suite, tier) == ("digits", "lite") else [()]
            for settings in grids:
                target = load_suite(suite).columns[:1]
                request = Request(suite, tier, methods=["all"], targets=target, settings=settings)
                single = dataclasses.replace(request, methods=["source-only"], standards=["single-best"])
                for spec in (*make(request, bind=False).specs, *make(single, bind=False).specs[:1]):
                    yield f"{suite} {tier} {spec.name} {spec.standard}{' narrow' if settings else ''}", resolve(spec)


def write_table(only: str = "") -> None:
    """Count what the table lacks (of the suites and tiers whose words begin with `only`), drop what nobody asks for."""
    kept = read_object(TABLE)
    asked = []
    for words, resolved in wanted():
        key = key_of(resolved)
        asked.append(key)
        if key not in kept and words.startswith(only):
            print(words, flush=True)
            kept[key] = {"of": words, **count(resolved)}
            _write(kept)
    _write({key: kept[key] for key in dict.fromkeys(asked) if key in kept})


def _write(table: dict[str, Any]) -> None:
    lines = [f"  {json.dumps(key)}: {json.dumps(entry)}" for key, entry in table.items()]
    write_text(TABLE, "{\n" + ",\n".join(lines) + "\n}\n")
