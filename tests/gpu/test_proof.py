"""Every method and preset on a GPU that is not there, at tier paper's sizes: nothing on the wrong device, nothing waits,
a ceiling on launches, memory of a card one can have, and no operator without a deterministic form.

DomainNet is in `make soak`. The ceilings are in `launches.json`; BENCHMARK_UPDATE_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from benchmark.run.count import Counter
from methods import jan
from tests.gpu.pretend import gpu
from tests.gpu.walk import walk
from tests.trajectories import names

TABLE = Path(__file__).parent / "launches.json"
SLACK = 1.02  # another version of torch may divide an operator otherwise
CARD_GB = 24.0  # what the cluster profiles ask for
RESERVE_GB = 4.0  # CUDA's context, cuDNN's workspaces, what the allocator keeps between blocks: only a GPU can show it
DECOMPOSITIONS = {"_linalg_svd", "_linalg_eigh", "linalg_qr"}  # of the A-step and the nuclear norm
SMALL = {
    "active",
    "tnn",
}  # presets with a decomposition on few classes too: of A as it lives, of a norm with a gradient
EVALUATED = {"source-only", "mdda", "tsvdnet"}  # one network, several, and one with σ and prototypes

# "The following normally-nondeterministic operations will throw a RuntimeError": the documentation of
# torch.use_deterministic_algorithms, torch 2.4 to 2.15, those of a CUDA tensor, as operators of ATen.
WITHOUT_DETERMINISTIC_FORM = {
    "avg_pool3d_backward", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward", "max_pool3d_with_indices_backward",
    "adaptive_max_pool2d_backward", "fractional_max_pool2d_backward", "fractional_max_pool3d_backward",
    "max_unpool2d", "max_unpool3d", "upsample_linear1d_backward", "upsample_bilinear2d_backward",
    "_upsample_bilinear2d_aa_backward", "upsample_bicubic2d_backward", "_upsample_bicubic2d_aa_backward",
    "upsample_trilinear3d_backward", "reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward",
    "replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward", "nll_loss2d_forward",
    "_ctc_loss_backward", "_embedding_bag_dense_backward", "embedding_dense_backward", "put_", "histc", "bincount",
    "kthvalue", "median.dim", "nanmedian.dim", "grid_sampler_2d_backward", "grid_sampler_3d_backward", "scatter_reduce",
    "scatter_reduce_", "index_reduce", "index_reduce_", "cumsum", "cumsum_",
}  # fmt: skip


@pytest.mark.parametrize("suite", ["digits", "pacs", pytest.param("domainnet", marks=pytest.mark.soak)])
@pytest.mark.parametrize("name, preset", names(), ids=lambda part: part or "-")
def test_a_gpu_can_run_it_without_waiting(suite: str, name: str, preset: str, tmp_path: Path) -> None:
    found = walk(suite, name, preset, tmp_path, evaluate=suite == "digits" and name in EVALUATED and not preset)
    ceiling = ceilings(suite, f"{name}:{preset}" if preset else name, found.launches)

    waits = [w for _, w in found.waits if w.operator not in DECOMPOSITIONS]
    assert waits == []
    decomposed = [w for _, w in found.waits if w.operator in DECOMPOSITIONS]
    assert len(decomposed) <= (1 if name == "tsvdnet" and (suite == "domainnet" or preset in SMALL) else 0), decomposed

    bad = {o for o in found.operators if {o, o.partition(".")[0]} & WITHOUT_DETERMINISTIC_FORM}
    assert bad == set()

    assert found.peak_gb < CARD_GB - RESERVE_GB

    above = {stage: n for stage, n in found.launches.items() if n > SLACK * ceiling[stage]}
    assert above == {}, (
        f"more launches an update than the ceiling {ceiling}; if that is meant, BENCHMARK_UPDATE_GOLDEN=1"
    )


def ceilings(suite: str, key: str, found: dict[str, int]) -> dict[str, int]:
    """Launches an update by stage, from the table; written into it first when that is asked for."""
    if os.environ.get("BENCHMARK_UPDATE_GOLDEN"):
        with FileLock(Path(tempfile.gettempdir()) / "launches.lock"):  # tests run side by side
            table = json.loads(TABLE.read_text(encoding="utf-8"))
            table.setdefault(suite, {})[key] = found
            lines = json.dumps(table, indent=1).replace("{\n   ", "{").replace(",\n   ", ", ").replace("\n  }", "}")
            TABLE.write_text(lines + "\n", encoding="utf-8")
    rows: dict[str, dict[str, int]] = json.loads(TABLE.read_text(encoding="utf-8"))[suite]
    assert key in rows, f"{TABLE.name} has no ceiling for {key} on {suite} yet: BENCHMARK_UPDATE_GOLDEN=1"
    return rows[key]


@pytest.mark.parametrize("profile", ["one-gpu", "preemptible", "a100"])
def test_a_cluster_profile_says_which_card_tier_paper_needs(profile: str) -> None:
    text = (Path(__file__).parents[2] / "slurm" / f"{profile}.toml").read_text(encoding="utf-8")
    assert f"{CARD_GB:.0f} GB" in text


# -- that the proof can fail ----------------------------------------------------------------------------------------


def test_a_tensor_left_on_the_cpu_is_found() -> None:
    with gpu(), pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="cuda") + torch.ones(3)


def test_a_gradient_is_where_its_parameter_is() -> None:
    with gpu():
        layer = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(inplace=True)).to(
            "cuda"
        )
        layer(torch.ones(2, 3, 8, 8, device="cuda")).sum().backward()
        assert {p.grad.device for p in layer.parameters()} == {torch.device("cuda", 0)}


def waits_of(counter: Counter) -> list[str]:
    return [w.operator for w in counter.restart().synchronisations]


def test_what_waits_for_the_device_is_found() -> None:
    with gpu() as counter:
        x = torch.ones(3, 4, device="cuda")
        counter.restart()
        x.sum().item()
        assert waits_of(counter) == ["_local_scalar_dense"]
        x.cpu()
        assert waits_of(counter) == ["_to_copy"]
        torch.tensor([1.0, 2.0], device="cuda")
        assert waits_of(counter) == ["_to_copy"]
        x.copy_(torch.ones(3, 4))
        assert waits_of(counter) == ["copy_"]
        x[x > 0]
        assert waits_of(counter) == ["index"]
        torch.linalg.svd(x)
        assert waits_of(counter) == ["_linalg_svd"]
        x.clone().requires_grad_().prod(0)  # its backward pass asks for zeros
        assert waits_of(counter) == ["prod"]


def test_what_does_not_wait_is_not_blamed() -> None:
    with gpu() as counter:
        host = torch.ones(3, 4)
        x = torch.ones(3, 4, device="cuda")
        counter.restart()
        host.pin_memory().to("cuda", non_blocking=True)
        x.masked_fill(x > 0, 1.0).where(x > 0, 2.0)
        x[torch.zeros(2, dtype=torch.long, device="cuda")]
        x.prod(0)
        torch.full((), 3.0, device="cuda")
        assert waits_of(counter) == []
        host.to("cuda", non_blocking=True)  # from memory that is not page-locked
        assert waits_of(counter) == ["_to_copy"]


def test_a_wait_is_told_with_the_line_that_caused_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jan, "reduce", lambda _, kernels: torch.stack(kernels).prod(0))  # as JAN once did it
    (where,) = {w.where for _, w in walk("digits", "jan", "", tmp_path).waits}
    assert where.startswith("jan.py:")
