"""How fast the proximal step is, side by side with a numpy loop over all slices of the full FFT.

`pytest tests/perf/test_prox.py -m perf`: the two are timed in turn, round by round, so that a busy machine slows both.
The ratio must reach 1.8; the results must agree to 1e-10 in float64.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.perf.pairs import holds, ratio
from tsvdnet.tensor import shrink

pytestmark = pytest.mark.perf
NEEDED = 1.8


def loop_over_slices(g: np.ndarray, t: float) -> np.ndarray:
    gf = np.fft.fft(g, axis=2)
    for k in range(g.shape[2]):
        u, s, vh = np.linalg.svd(gf[:, :, k], full_matrices=False)
        gf[:, :, k] = (u * np.maximum(s - t, 0)) @ vh
    return np.fft.ifft(gf, axis=2).real


@pytest.mark.parametrize("shape, pairs, calls", [((345, 6, 345), 15, 1), ((10, 5, 10), 101, 4)], ids=str)
def test_shrink_is_faster_than_a_loop_over_slices(shape: tuple[int, int, int], pairs: int, calls: int) -> None:
    g = torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    array, t = g.numpy(), 2.0
    np.testing.assert_allclose(shrink(g, t).numpy(), loop_over_slices(array, t), rtol=0, atol=1e-10)
    speed, loop, ours = ratio(
        lambda: [loop_over_slices(array, t) for _ in range(calls)], lambda: [shrink(g, t) for _ in range(calls)], pairs
    )
    name = " × ".join(map(str, shape))
    holds(f"prox, {name}: numpy loop / ours", speed, at_least=NEEDED, loop_ms=loop / calls, ours_ms=ours / calls)
