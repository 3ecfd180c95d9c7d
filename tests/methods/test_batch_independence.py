"""What a method predicts for an image never depends on which images share its batch: every method, every preset."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from methods.contract import Method
from methods.source_only import SourceOnly, SourceOnlyHParams
from tests.methods.small import batches, task
from tests.methods.test_contract import Trainer, every_row, trained

SIZE = 8
Predict = Callable[[Tensor], Tensor]


def pool() -> Tensor:
    """Images of the target and of the sources, in no order that means anything."""
    sources, target = batches(seed=77, size=24)
    return torch.cat([target.images, *(batch.images for batch in sources)])


def depends_on_its_batch(predict: Predict) -> str:
    """How a prediction depends on the other images of its batch; empty: not at all."""
    images = pool()
    first, others = images[:1], images[1:]
    order = torch.arange(len(others)).flip(0)
    batch = torch.cat([first, others[: SIZE - 1]])
    neighbours = torch.cat([first, others[order[: SIZE - 1]]])  # other images beside it
    copies = first.expand(SIZE, -1)  # itself alone, as often as the batch is long
    last = torch.cat([others[: SIZE - 1], first])  # another place in the batch
    alone = predict(batch)[0]
    if not torch.equal(predict(neighbours)[0], alone) or not torch.equal(predict(copies)[0], alone):
        return "other neighbours, other bits"
    if not torch.allclose(predict(last)[-1], alone, rtol=0, atol=1e-5):
        return "another place, another prediction"
    for size in (1, 2, 3, 5, len(images)):
        if not torch.allclose(predict(images[:size])[0], alone, rtol=0, atol=1e-5):
            return f"a batch of {size}, another prediction"
    return ""


@every_row
def test_a_prediction_is_the_same_whoever_shares_the_batch(name: str, preset: str) -> None:
    method = trained(name, preset)
    assert depends_on_its_batch(method.predict) == ""
    if method.features(pool()[:2]) is not None:
        assert depends_on_its_batch(lambda images: method.features(images)) == ""  # type: ignore[arg-type, return-value]


@every_row
def test_a_prediction_is_the_same_in_every_stage(name: str, preset: str) -> None:
    trainer = Trainer(name, preset)
    for stage, _ in trainer.method.stages():
        trainer.enter(stage)
        trainer.update(0.0)
        assert depends_on_its_batch(trainer.method.predict) == "", stage


# -- methods that are wrong, each in its own way ----------------------------------------------------------------------


class Mixing(SourceOnly):
    """A graph over the batch: each image takes a little from its neighbours, as an unrolled graph network does."""

    share = 1e-4

    def probabilities(self, images: Tensor) -> Tensor:
        own = super().probabilities(images)
        return (1 - self.share) * own + self.share * own.mean(0, keepdim=True)


class BatchStatistics(SourceOnly):
    """Batch norm that stays in training mode at test: the batch's own statistics."""

    def probabilities(self, images: Tensor) -> Tensor:
        for module in self.modules():
            module.train("BatchNorm" in type(module).__name__)
        return super().probabilities(images)


class Counting(SourceOnly):
    """The same for every image of the batch, but by its length: the sum in place of the mean."""

    def probabilities(self, images: Tensor) -> Tensor:
        return super().probabilities(images) * (1 + 1e-3 * len(images))


def planted(cls: type[Method]) -> Method:
    return cls(task(), SourceOnlyHParams())


@pytest.mark.parametrize(
    ("cls", "words"),
    [(Mixing, "other neighbours"), (BatchStatistics, "other neighbours"), (Counting, "a batch of 1, another")],
)
def test_a_method_that_mixes_its_batch_is_found(cls: type[Method], words: str) -> None:
    assert words in depends_on_its_batch(planted(cls).predict)
