"""What makes the step fast leaves the numbers alone; the same comparison as in the ordinary tests, put into the table."""

from __future__ import annotations

import pytest
import torch

from tests.perf.pairs import holds
from tests.run.test_speed_equal import after_steps, first_gradients, relative

pytestmark = pytest.mark.perf


def test_fused_and_separate_passes_agree() -> None:
    loss, state = after_steps(50, torch.float64)
    holds("fused − separate after 50 steps, float64: loss", loss, at_most=1e-10)
    holds("fused − separate after 50 steps, float64: weights", state, at_most=1e-10)
    loss, ours, theirs = first_gradients(torch.float32)
    holds("fused − separate at the first step, float32: loss", loss, at_most=1e-5)
    holds("fused − separate at the first step, float32: gradients, relative", relative(ours, theirs), at_most=1e-5)
