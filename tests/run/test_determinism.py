"""Determinism: an error for the methods of this repository, a line in the record for a user's own."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.utils import deterministic as fresh_memory

from benchmark.run.failure import noting_warnings
from benchmark.run.start import quiet_torch


def state() -> tuple[bool, bool, bool]:
    """(on, only a warning, fresh memory is filled)."""
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        fresh_memory.fill_uninitialized_memory,
    )


@pytest.mark.parametrize(
    "device, strict, only_warns",
    [("cpu", True, False), ("cpu", False, False), ("cuda", True, False), ("cuda:1", False, True)],
)
def test_an_operator_without_a_deterministic_form_is_an_error_except_for_a_users_own_method(
    device: str, strict: bool, only_warns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")  # kept, and put back after the test
    before = state()
    with quiet_torch(1, device, strict=strict):
        assert state() == (True, only_warns, False)
    assert state() == before


def test_what_only_warned_before_only_warns_afterwards() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with quiet_torch(1, "cpu"):
            assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_an_operator_without_a_deterministic_form_is_named_in_the_record() -> None:
    told: list[str] = []
    said = "grid_sampler_2d_backward_cuda does not have a deterministic implementation, but you set …"
    with noting_warnings(told):
        warnings.warn_explicit(said, UserWarning, "/lib/site-packages/torch/autograd/graph.py", 1)
        warnings.warn_explicit("torch speaks of its own future", UserWarning, "/lib/site-packages/torch/x.py", 1)
    assert told == [f"UserWarning: {said}"]
