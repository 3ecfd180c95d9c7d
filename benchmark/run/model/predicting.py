"""A kept model over many images: a table of probabilities, labels and, where the method has it, uncertainty.

Batches, threads and arithmetic are those of the run's evaluation: on its own test images the accuracy is the record's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
import torch

from benchmark.run.model.loading import Model
from benchmark.run.model.pictures import Pictures
from benchmark.run.speed import arithmetic, quiet_torch
from methods import is_built_in

BATCH = 250  # as in the evaluator: what shares a batch moves the last bit of a sum


def predict(
    model: Model, pictures: Sequence[Pictures], watch: Callable[[int, int], None] = lambda done, total: None
) -> pd.DataFrame:
    """A row an image: image, label, probability, truth and uncertainty where they are known, then p_<class> of each class.

    `watch` is told how many of how many images are done.
    """
    spec, settings = model.resolved.spec, model.resolved.settings
    total, done, parts = sum(map(len, pictures)), 0, list[pd.DataFrame]()
    strict = is_built_in(spec.method)
    with quiet_torch(spec.threads, str(model.device), strict=strict), arithmetic(settings.precision, str(model.device)):
        for group in pictures:
            for places in torch.arange(len(group)).split(BATCH):
                parts.append(_rows(model, group, places))
                done += len(places)
                watch(done, total)
    table = pd.concat(parts, ignore_index=True)
    empty = [name for name in ("truth", "uncertainty") if table[name].isna().all()]
    return table.drop(columns=empty)


def _rows(model: Model, group: Pictures, places: torch.Tensor) -> pd.DataFrame:
    x = model.input(group.raw.take(places))
    p = model.method.predict(x)
    sigma = model.method.sigma(x)
    truth = [group.truth[i] for i in places.tolist()]
    rows = pd.DataFrame({
        "image": [group.names[i] for i in places.tolist()],
        "label": [model.classes[i] for i in p.argmax(1).tolist()],
        "probability": p.max(1).values.cpu().numpy(),
        "truth": pd.Series([model.classes[t] if t >= 0 else None for t in truth], dtype=object),
        "uncertainty": pd.Series([None] * len(truth) if sigma is None else sigma.cpu().tolist(), dtype=float),
    })  # fmt: skip
    return pd.concat([rows, pd.DataFrame(p.cpu().numpy(), columns=[f"p_{name}" for name in model.classes])], axis=1)


def accuracy(table: pd.DataFrame) -> float | None:
    """Percent of the images whose class is known that got it; None when none is known."""
    if "truth" not in table:
        return None
    known = table[table.truth.notna()]
    return 100.0 * int((known.label == known.truth).sum()) / len(known)
