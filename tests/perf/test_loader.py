"""What a batch costs, in CPU µs per image, beside a per-image PIL pipeline, both measured in the same run."""

from __future__ import annotations

import io
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms

from benchmark.data.base import ImageSet, Preprocess
from benchmark.data.decoded import decoded
from benchmark.data.digits import to_rgb32
from tests.perf.pairs import holds, ratio

pytestmark = pytest.mark.perf
DIGITS_RATIO, PACS_RATIO = 30.0, 5.0
BATCH = 128


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_digits_cost_a_thirtieth_of_a_per_image_pil_pipeline():
    """Grey 28×28 → RGB 32×32 in [−1, 1]: ours from uint8 in memory; theirs as the usual Dataset.__getitem__ does it."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (4096, 28, 28), dtype=np.uint8), torch.zeros(4096, dtype=torch.int64)
    ours, preprocess = ImageSet(to_rgb32(x), y), Preprocess()
    transform = transforms.Compose(
        [transforms.Resize(32), transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)]
    )

    def index(k: int) -> torch.Tensor:
        return torch.randint(4096, (BATCH,), generator=torch.Generator().manual_seed(k))

    def fast(k: int) -> torch.Tensor:
        return preprocess.train(ours.take(index(k)), "cpu", torch.Generator().manual_seed(k))

    def usual(k: int) -> torch.Tensor:
        return torch.stack([transform(Image.fromarray(x[i]).convert("RGB")) for i in index(k)])

    assert torch.allclose(fast(1), usual(1), atol=0.02), "the two pipelines must give the same images"
    compare("digits", usual, fast, DIGITS_RATIO)


def test_pacs_from_the_cache_costs_a_fifth_of_a_per_image_pil_pipeline(tmp_path):
    """JPEG 227×227 → 64×64, random crop and flip, normalised: ours from the decoded cache; theirs decodes every time."""
    rng = np.random.default_rng(0)
    files = []
    for i in range(256):
        pixels = Image.fromarray(rng.integers(0, 256, (24, 24, 3), dtype=np.uint8)).resize((227, 227))
        stream = io.BytesIO()
        pixels.save(stream, "JPEG", quality=90)
        files.append(tmp_path / f"{i}.jpg")
        files[-1].write_bytes(stream.getvalue())
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    ours = ImageSet(decoded(files, 73, "mark", tmp_path), torch.zeros(256, dtype=torch.int64))
    preprocess = Preprocess(mean=mean, std=std, size=64, flip=True, min_scale=0.7)
    transform = transforms.Compose(
        [
            transforms.RandomResizedCrop(64, (0.7, 1.0)),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(mean, std),
        ]
    )

    def index(k: int) -> torch.Tensor:
        return torch.randint(256, (BATCH,), generator=torch.Generator().manual_seed(k))

    def fast(k: int) -> torch.Tensor:
        return preprocess.train(ours.take(index(k)), "cpu", torch.Generator().manual_seed(k))

    def usual(k: int) -> torch.Tensor:
        return torch.stack([transform(Image.open(files[i]).convert("RGB")) for i in index(k)])

    assert fast(0).shape == usual(0).shape
    assert abs(float(fast(0).mean() - usual(0).mean())) < 0.1, "the two pipelines must give alike images"
    compare("PACS", usual, fast, PACS_RATIO)


def compare(
    name: str, usual: Callable[[int], torch.Tensor], ours: Callable[[int], torch.Tensor], wanted: float
) -> None:
    """Two batches of each in turn, in CPU time: a loader's work is the processor's, not the clock's."""
    speed, theirs_ms, ours_ms = ratio(
        lambda: [usual(k) for k in range(2)], lambda: [ours(k) for k in range(2)], clock=time.process_time
    )
    images = 2 * BATCH / 1e3
    holds(
        f"CPU time an image, {name}: per-image PIL / ours", speed, at_least=wanted,
        pil_us=theirs_ms / images, ours_us=ours_ms / images,
    )  # fmt: skip
