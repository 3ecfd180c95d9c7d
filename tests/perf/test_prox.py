"""How fast the proximal step is, side by side with a numpy loop over all slices of the full FFT.

`pytest tests/perf/test_prox.py -m perf`: the two are timed in turn, round by round, so that a busy machine slows both.
The ratio, in `extra_info`, must reach 1.8; the results must agree to 1e-10 in float64.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from tsvdnet.tensor import shrink

pytestmark = pytest.mark.perf
NEEDED = 1.8


def loop_over_slices(g: np.ndarray, t: float) -> np.ndarray:
    gf = np.fft.fft(g, axis=2)
    for k in range(g.shape[2]):
        u, s, vh = np.linalg.svd(gf[:, :, k], full_matrices=False)
        gf[:, :, k] = (u * np.maximum(s - t, 0)) @ vh
    return np.fft.ifft(gf, axis=2).real


@pytest.mark.parametrize(
    "shape, rounds, calls", [((345, 6, 345), 15, 1), ((10, 5, 10), 300, 2)], ids=["345x6x345", "10x5x10"]
)
def test_shrink_is_faster_than_a_loop_over_slices(benchmark, shape, rounds, calls):
    g = torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    array, t = g.numpy(), 2.0
    np.testing.assert_allclose(shrink(g, t).numpy(), loop_over_slices(array, t), rtol=0, atol=1e-10)
    loop: list[float] = []

    def one_round_of_the_loop() -> None:
        start = time.perf_counter()
        for _ in range(calls):
            loop_over_slices(array, t)
        loop.append((time.perf_counter() - start) / calls)

    def ours() -> None:
        for _ in range(calls):
            shrink(g, t)

    benchmark.pedantic(ours, setup=one_round_of_the_loop, rounds=rounds, warmup_rounds=3)
    # the best round of each: what the machine can do when nothing else interrupts
    before, now = min(loop), benchmark.stats.stats.min / calls
    benchmark.extra_info.update(loop_ms=1e3 * before, ratio=before / now)
    print(f"\n{shape}: loop {1e3 * before:.3f} ms, shrink {1e3 * now:.3f} ms, {before / now:.2f} times as fast")
    assert before / now >= NEEDED
