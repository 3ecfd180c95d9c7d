"""Where a training step's time goes: data, forward, backward, optimiser, the method's own work; and evaluation.

The real loop is timed, not a copy of it: hooks on the extractor, on `backward` and on the optimisers split its steps. On a
GPU they leave events in its queue, read after the last step: nothing waits in between, so host and device overlap as they
do in a run.
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.optim import optimizer as optimisers

from benchmark import data
from benchmark.data.batches import supply
from benchmark.files import replacing
from benchmark.records.lease import Lease
from benchmark.run import provenance
from benchmark.run.count import Counter
from benchmark.run.loop import Run
from benchmark.run.networks import Extractor
from benchmark.run.speed import arithmetic, quiet_torch
from benchmark.spec import RunSpec, resolve
from methods import is_built_in
from methods.contract import Views

PARTS = ("data", "forward", "backward", "optimiser", "method")


@dataclasses.dataclass(frozen=True)
class Profile:
    """Milliseconds of a median step by part, and what the step makes of the machine."""

    name: str
    hardware: str
    precision: str
    parts: dict[str, float]  # ms a step
    launches: int  # of kernels in a step; on a CPU: operations
    evaluation: float  # ms an evaluation point
    evaluation_share: float  # of a whole run
    images_per_s: float
    gflops: float  # of one step
    peak_gflops_per_s: float  # matrix multiplication measured here, same threads, same precision
    share_of_peak: float
    run_gflops_per_s: float  # of a whole run, evaluations included: what `plan` reckons with
    memory_mb: float  # peak: of tensors on a GPU, else of the process
    steps: int

    @property
    def step(self) -> float:
        """ms of a median step."""
        return sum(self.parts.values())


class Clock:
    """Time by part; nested parts do not count twice. On a GPU the device's own, between events in its queue."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stack: list[tuple[str, Any]] = []
        self._spans: list[tuple[str, str, Any, Any]] = []  # part, the part around it, its two ends

    def mark(self) -> Any:
        """A moment: seconds, or an event that the device passes. Nothing waits."""
        if self._device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def enter(self, part: str) -> None:
        """A part begins."""
        self._stack.append((part, self.mark()))

    def leave(self) -> None:
        """The part ends."""
        part, began = self._stack.pop()
        self._spans.append((part, self._stack[-1][0] if self._stack else "", began, self.mark()))

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """`with clock.part("data"): …`"""
        self.enter(name)
        try:
            yield
        finally:
            self.leave()

    def spent(self) -> dict[str, float]:
        """Seconds by part, each without the parts inside it; waits for the device."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        found: dict[str, float] = defaultdict(float)
        for part, around, began, ended in self._spans:
            took = began.elapsed_time(ended) / 1e3 if self._device.type == "cuda" else ended - began
            found[part] += took
            if around:
                found[around] -= took
        return dict(found)


@contextmanager
def timed(run: Run, clock: Clock) -> Iterator[None]:
    """Hooks that tell the clock when forward, backward and optimiser are at work."""
    handles: list[Any] = []
    for module in run.method.modules():
        if isinstance(module, Extractor):
            handles.append(module.register_forward_pre_hook(lambda *_: clock.enter("forward")))
            handles.append(module.register_forward_hook(lambda *_: clock.leave()))
    handles.append(optimisers.register_optimizer_step_pre_hook(lambda *_: clock.enter("optimiser")))
    handles.append(optimisers.register_optimizer_step_post_hook(lambda *_: clock.leave()))
    backward, batch = torch.Tensor.backward, run.batch

    def timed_backward(self: Any, *args: Any, **kwargs: Any) -> Any:
        with clock.part("backward"):
            return backward(self, *args, **kwargs)

    def timed_batch(t: int) -> Any:
        with clock.part("data"):  # what the step waits for: on a GPU most of the reading is done by then
            return batch(t)

    torch.Tensor.backward, run.batch = timed_backward, timed_batch  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.Tensor.backward, run.batch = backward, batch  # type: ignore[method-assign]
        for handle in handles:
            handle.remove()


def profile(
    spec: RunSpec,
    *,
    data_root: Path | None = None,
    device: str = "cpu",
    steps: int = 30,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> Profile:
    """Time `steps` steps of the spec's last stage, after a few to warm up, and one evaluation point."""
    resolved = resolve(spec)
    precision = resolved.settings.precision
    with (
        quiet_torch(spec.threads, device, strict=is_built_in(spec.method)),
        arithmetic(precision, device),
        tempfile.TemporaryDirectory(prefix="profile-") as folder,
    ):
        dataset = data.load(resolved.suite, spec.tier, spec.split, data_root, resolved.settings.options)
        run = Run(resolved, dataset, Path(folder), Lease(Path(folder)), device=device, data_root=data_root)
        run.method.train()
        for stage in run.stages:
            passes = [s.full_pass(run.handed_out) for s in run.sources]
            run.method.enter(stage.name, Views(passes, run.target.full_pass(run.handed_out)))
            _steps(run, 3 if stage is not run.stages[-1] else 0)
        with supply(run.batch, run.device, run.total) as run.batch:
            _steps(run, 3)
            with Counter(run.device) as counter:
                _steps(run, 1)
            one = counter.restart()
            clocks = []
            for i in range(steps):
                clocks.append(Clock(run.device))
                with timed(run, clocks[-1]), clocks[-1].part("method"):
                    _steps(run, 1)
                watch(i + 1, steps)
            rows = [clock.spent() for clock in clocks]
        with Counter(run.device) as counter:
            run.evaluator.row(run.method)
        began = time.perf_counter()
        run.evaluator.row(run.method)  # reads its scores: when it returns, the device has caught up
        evaluation = (time.perf_counter() - began) * 1e3
        memory = run.usage.read()
        peak = matmul_peak(run.device, precision)
        hardware = provenance.hardware(device)
    parts = {p: statistics.median(r.get(p, 0.0) for r in rows) * 1e3 for p in PARTS}
    step = sum(parts.values())
    images = resolved.settings.batch * (len(spec.sources) + 1)
    training, scoring = step * run.total, evaluation * len(run.points)
    computed = one.flops * run.total + counter.tally.flops * len(run.points)
    return Profile(
        name=spec.name,
        hardware=hardware,
        precision=precision,
        parts=parts,
        launches=one.launches,
        evaluation=evaluation,
        evaluation_share=scoring / (training + scoring),
        images_per_s=images / step * 1e3,
        gflops=one.flops / 1e9,
        peak_gflops_per_s=peak,
        share_of_peak=one.flops / 1e9 / (step / 1e3) / peak,
        run_gflops_per_s=computed / (training + scoring) / 1e6,
        memory_mb=memory.get("peak_device_memory_mb", memory["peak_memory_mb"]),
        steps=steps,
    )


def _steps(run: Run, count: int) -> None:
    for _ in range(count):
        run.step(min(0.999, run.update / run.total))
        run.update += 1


def matmul_peak(device: torch.device, precision: str = "fp32", size: int = 1024, repeats: int = 8) -> float:
    """GFLOP/s of a square matrix multiplication in this precision: what this machine can do, the best of several."""
    size *= 8 if device.type == "cuda" else 1  # a GPU is not full with less
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    clocks = [Clock(device) for _ in range(repeats)]
    for clock in clocks:
        with clock.part("product"):
            a @ b
    return max(2 * size**3 / clock.spent()["product"] / 1e9 for clock in clocks)


def words(profiles: list[Profile]) -> str:
    """One line a method, as a Markdown table."""
    from tabulate import tabulate

    head = [
        "method",
        *[f"{p} ms" for p in PARTS],
        "step ms",
        "launches",
        "images/s",
        "GFLOP",
        "of peak",
        "evaluation",
        "memory MB",
    ]
    rows = [
        [
            p.name, *[f"{p.parts[k]:.1f}" for k in PARTS], f"{p.step:.1f}", p.launches, f"{p.images_per_s:.0f}",
            f"{p.gflops:.2f}", f"{100 * p.share_of_peak:.0f} %", f"{100 * p.evaluation_share:.0f} % of the run",
            f"{p.memory_mb:.0f}",
        ]
        for p in profiles
    ]  # fmt: skip
    return tabulate(rows, head, tablefmt="github", disable_numparse=True)


def picture(profiles: list[Profile], path: Path) -> None:
    """A bar for each method, divided by part."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 0.6 + 0.5 * len(profiles)), layout="constrained")
    left = [0.0] * len(profiles)
    for part, colour in zip(PARTS, ("#8c8c8c", "#4477aa", "#66ccee", "#228833", "#ee6677"), strict=True):
        values = [p.parts[part] for p in profiles]
        axes.barh([p.name for p in profiles], values, left=left, label=part, color=colour)
        left = [a + b for a, b in zip(left, values, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds a step (median)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(ncols=len(PARTS), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize=8)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=160, format=path.suffix[1:] or "png")
    plt.close(figure)
