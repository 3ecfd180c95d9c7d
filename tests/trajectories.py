"""Golden trajectories: the losses of every method and preset over 20 steps on small generated domains.

`python -m tests.trajectories` writes them anew; do it together with raising the method's `revision`.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from methods.contract import Views, registry
from tests.methods.small import batches, build

FILE = Path(__file__).parent / "golden" / "trajectories.json"
STEPS = 20
# pseudo labels within these few steps, and A ≠ 0: without them much of T-SVDNet and its parent would stand unguarded
CHANGES = {"tsvdnet": {"tau": 0.3, "max_entropy": 1.35, "lam": 0.01}, "ltc-msda": {"max_entropy": 1.38}}


class Replay:
    """A full pass over one batch, for stages that look at the whole data."""

    def __init__(self, batch: object, size: int) -> None:
        self.batch, self.size = batch, size

    def __iter__(self):
        yield self.batch

    def __len__(self) -> int:
        return self.size


def trajectory(name: str, preset: str) -> dict[str, object]:
    """Revision, and each term at every fifth step."""
    sources = 1 if registry()[name].standards[0] == "combined" else 3
    method = build(name, preset, sources, **CHANGES.get(name, {}))
    method.train()
    stages = method.stages()
    edges = [round(STEPS * sum(s for _, s in stages[:i])) for i in range(len(stages) + 1)]
    rows = []
    for (stage, _), start, stop in zip(stages, edges, edges[1:], strict=False):
        labelled, unlabelled = batches(sources, seed=0)
        torch.manual_seed(0)
        method.enter(stage, Views([Replay(b, 8) for b in labelled], Replay(unlabelled, 8)))
        for t in range(start, stop):
            torch.manual_seed(t)
            terms = method.update(*batches(sources, seed=t), (t - start) / (stop - start))
            if t % 5 == 4:
                rows.append({k: float(v) for k, v in terms.items() if v.dim() == 0})
    return {"revision": method.revision, "rows": rows}


def names() -> list[tuple[str, str]]:
    """Every method with every preset."""
    return [(name, preset) for name, cls in registry().items() for preset in ("", *cls.presets)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = {f"{n}:{p}" if p else n: trajectory(n, p) for n, p in names()}
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{len(found)} trajectories in {FILE}")
