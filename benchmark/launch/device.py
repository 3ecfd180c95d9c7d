"""Whether a GPU can do the work: what this torch was built for, one kernel, free memory.

`torch.cuda.is_available()` is true for a GPU that is too old for this torch, that fails at its first kernel, or that
others have filled. All is asked in a forked child: a process that has used CUDA can no longer be forked, and a driver that
hangs must not take the task with it.

For tests, BENCHMARK_PRETEND_GPUS plays GPUs that are not there; runs on them compute on the CPU. A word a GPU: its free
memory in MB, `old` (of a kind this torch was not built for), `turing` (works, without bfloat16) or `dead` (fails at its
first kernel); `n1=old` is on the node n1 only.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import select
import signal
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from benchmark.errors import UserError
from benchmark.machine import cores
from benchmark.run.speed import AMPERE, needs_precision
from benchmark.spec import RunSpec, TierSettings, resolve

PRETEND = "BENCHMARK_PRETEND_GPUS"
PATIENCE = 120.0  # seconds for the driver; a healthy one takes a few
# MB an image in training, everything but CUDA's own part: of the method that takes most (MDDA, a network a source), as
# counted on fake tensors at tier paper: digits 5.6 GB (640 images), PACS 2.2 (128), DomainNet 18.2 (96)
_MB_AN_IMAGE = {
    "conv3fc2": (8.5, 32),
    "resnet18": (45.0, 224),
    "resnet101": (190.0, 224),
    "effnet-lite0-tail": (10.0, 224),
}
_OF_OTHERS = _MB_AN_IMAGE["resnet101"]  # networks of libraries: assumed, as the deepest of ours
SHARED = 4  # runs on one GPU: a small one leaves most of it idle, waiting for Python; more gain nothing
FILLED = 0.9  # of a GPU's free memory
_CONTEXT_MB = 800  # CUDA's own part of each process, with its libraries


@dataclass(frozen=True)
class Gpu:
    """One GPU as torch counts them; `fault` says why it cannot work."""

    index: int
    name: str = ""
    free_mb: int = 0
    total_mb: int = 0
    fault: str = ""
    capability: tuple[int, int] = (0, 0)


def survey(patience: float = PATIENCE, only: str = "") -> list[Gpu]:
    """Every GPU that this process may see, each asked to compute something; [] without any.

    `only` one of them, as CUDA_VISIBLE_DEVICES names it.
    """
    if PRETEND not in os.environ:
        importlib.import_module("torch")  # here, so that the child need not wait for it
    listen, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(listen)
        try:
            os.write(tell, json.dumps([asdict(gpu) for gpu in _look(only)]).encode())
        finally:
            os._exit(0)
    os.close(tell)
    said, fault, deadline = b"", "the process that asked it crashed", time.monotonic() + patience
    while select.select([listen], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(listen, 65536)
        if not part:
            break
        said += part
    else:
        fault = f"it did not answer within {patience:.0f} s"
        os.kill(child, signal.SIGKILL)
    os.close(listen)
    os.waitpid(child, 0 if said else os.WNOHANG)  # one that hangs in the driver may be beyond even SIGKILL
    try:
        return [Gpu(**{**each, "capability": tuple(each["capability"])}) for each in json.loads(said)]
    except ValueError:
        return [Gpu(0, "GPU", fault=fault)]


def complaint(gpus: Sequence[Gpu], need_mb: float = 0.0, capability: tuple[int, int] = (0, 0)) -> str:
    """Why a task that needs `need_mb` of free memory and this compute capability of each of its GPUs cannot work with
    these; "" when it can."""
    if not gpus:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return f"it gave a GPU (CUDA_VISIBLE_DEVICES={visible}) that torch cannot use"
    for gpu in gpus:
        if gpu.fault:
            return f"{gpu.name}: {gpu.fault}"
        if gpu.capability < capability:
            has, asked = (".".join(map(str, pair)) for pair in (gpu.capability, capability))
            return f"{gpu.name}: its compute capability is {has}, the precision of the runs needs {asked}"
        if gpu.free_mb < need_mb:
            return f"{gpu.name}: {gpu.free_mb} MB of its {gpu.total_mb} MB are free, {need_mb:.0f} MB are needed"
    return ""


def covers(architectures: Iterable[str], capability: tuple[int, int]) -> bool:
    """Whether code for `architectures` (sm_86, compute_90, sm_90a) runs on a GPU of this compute capability.

    Machine code runs on its own generation, from its own step on; what is kept as text for the driver to compile
    (compute_*) runs on everything younger.
    """
    major, minor = capability
    for kind, digits, only in re.findall(r"\b(sm|compute)_(\d+)([af]?)\b", " ".join(architectures)):
        made = divmod(int(digits), 10)
        if only == "a":
            fits = made == capability
        else:
            fits = made <= capability if kind == "compute" else made[0] == major and made[1] <= minor
        if fits:
            return True
    return False


def need_mb(settings: TierSettings, domains: int) -> float:
    """Memory that one run may take on a GPU, roughly and to the safe side."""
    network = settings.network
    of_an_image, side = _MB_AN_IMAGE.get(network.name, _OF_OTHERS)
    images = settings.batch * domains
    return _CONTEXT_MB + images * of_an_image * network.width * (network.image_size / side) ** 2


def default_workers(specs: Sequence[RunSpec], gpus: Sequence[Gpu], per_device: int = 0) -> int:
    """Runs at the same time: the cores divided by the threads of a run; with GPUs `per_device` on each of them.

    0 of these means as many as fit into the least free memory of them, up to `SHARED`.
    """
    fit = max(1, cores() // max((spec.threads for spec in specs), default=1))
    if not gpus:
        return fit
    if per_device:
        return per_device * len(gpus)
    free = min(gpu.free_mb for gpu in gpus)
    shapes = {(spec.suite, spec.tier, spec.overrides): resolve(spec) for spec in specs}
    need = max((need_mb(shape.settings, len(shape.suite.domains)) for shape in shapes.values()), default=1.0)
    each = max(1, min(SHARED, int(FILLED * free / need)))
    return max(len(gpus), min(fit, each * len(gpus)))


def check_precision(precision: str, device: str) -> None:
    """A sentence when one of the devices does not compute so. This process must not touch CUDA: its children could not."""
    if not device.startswith("cuda"):
        return needs_precision(precision, device)
    for place in visible(device):
        lacks = complaint(survey(only=place), capability=AMPERE)
        if lacks:
            raise UserError(
                f"run.precision={precision} is not for every GPU here. {lacks}. Leave the GPU or the setting out."
            )


def visible(device: str) -> list[str]:
    """CUDA_VISIBLE_DEVICES of each GPU in `cuda:0,2`, for a process that is to see that one only; [] for the CPU."""
    given = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    places = [int(index) for index in device.partition(":")[2].split(",") if index]
    return [given[index] if index < len(given) else str(index) for index in places]


def spelled(gpus: Sequence[Gpu]) -> str:
    """GPUs as a pool is told of them: `cuda:0,2`; none of them is `cpu`."""
    return f"cuda:{','.join(str(gpu.index) for gpu in gpus)}" if gpus else "cpu"


def torch_device(device: str) -> str:
    """The device of a process that sees its GPU only: `cuda`, or `cpu` for a GPU that is played."""
    return "cuda" if device.startswith("cuda") and PRETEND not in os.environ else "cpu"


def _look(only: str) -> list[Gpu]:
    """In the child: all GPUs, or `only` one."""
    played = os.environ.get(PRETEND)
    if played is not None:
        return [gpu for gpu in _played(played) if only in ("", str(gpu.index))]
    if only:
        os.environ["CUDA_VISIBLE_DEVICES"] = only
    import torch

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            return [_examined(index) for index in range(torch.cuda.device_count())]
    # a driver too old for this torch says so in a warning
    return [Gpu(0, "GPU", fault=str(each.message).splitlines()[0][:300]) for each in told[:1]]


def _examined(index: int) -> Gpu:
    import torch

    name = f"GPU {index}"
    try:
        major, minor = torch.cuda.get_device_capability(index)
        name = f"GPU {index} ({torch.cuda.get_device_name(index)})"
        built = torch.cuda.get_arch_list()
        if not covers(built, (major, minor)):
            return Gpu(index, name, fault=_too_old(major, minor, built))
        x = torch.ones(64, 64, device=f"cuda:{index}")
        if float((x @ x).sum()) != 64.0**3:
            return Gpu(index, name, fault="it computed 64 · 64 · 64 wrongly")
        free, total = torch.cuda.mem_get_info(index)
        return Gpu(index, name, free >> 20, total >> 20, capability=(major, minor))
    except RuntimeError as error:
        return Gpu(index, name, fault=str(error).splitlines()[0][:300])


def _too_old(major: int, minor: int, built: Sequence[str]) -> str:
    return f"its compute capability {major}.{minor} is none that this torch was built for ({', '.join(built)})"


def _played(words: str) -> list[Gpu]:
    pairs = (word.rpartition("=")[::2] for word in words.split())
    kinds = [kind for node, kind in pairs if node in ("", os.environ.get("SLURMD_NODENAME", ""))]
    faults = {"old": _too_old(7, 0, ["sm_75", "sm_80"]), "dead": "CUDA error: unspecified launch failure"}
    free = {"turing": 8000}
    return [
        Gpu(
            i, f"GPU {i} (pretended)", free.get(k, int(k) if k.isdigit() else 0), 24_000, faults.get(k, ""),
            (7, 5) if k == "turing" else (8, 0),
        )
        for i, k in enumerate(kinds)
    ]  # fmt: skip
