"""What a method is: the one contract between the harness and every algorithm.

A method owns its modules, its optimisers, and what one update does. The loop owns data, time, evaluation,
checkpoints and seeds. A target batch has no labels field: what a method never gets it cannot leak.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.util
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from methods import BUILT_IN as BUILT_IN
from methods import installed, is_built_in
from methods.errors import MethodError as MethodError
from methods.explain import Dispute, Explanation, Facts

if TYPE_CHECKING:
    from benchmark.run.task import Task


@dataclass(frozen=True)
class UnlabeledBatch:
    """Images of the target: (B, C, H, W) float, normalised, on the task's device."""

    images: Tensor


@dataclass(frozen=True)
class LabeledBatch:
    """Images (B, C, H, W) and labels (B,) of one entry of `sources`."""

    images: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Views:
    """Full passes over the training data, each image once, in order; handed to `begin`. Passes are counted."""

    sources: Sequence[FullPass]
    target: FullPass


class FullPass:
    """An iterable over one domain: LabeledBatch for a source, UnlabeledBatch for the target."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def __len__(self) -> int:
        """Number of images."""
        raise NotImplementedError


@dataclass(frozen=True)
class HParams:
    """Hyper-parameters that every method has. Subclasses add their own, each with its source in a comment.

    Precedence of values: this default < suite < tier < preset < tuned < `--set`.
    """

    lr_scale: float = 1.0  # ours: multiplies the suite's learning rates; the one knob that all methods are tuned on


@dataclass(frozen=True)
class Range:
    """A tuning range, declared beside HParams: log- or linearly uniform between low and high, or a list of choices."""

    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[Any, ...] = ()


class Method(nn.Module):
    """Base of all methods. Subclasses set the class attributes and write `update`, `probabilities`, `embed`.

    Modules are ordinary nn.Module attributes; optimisers go into `self.optimisers`; tensors that persist between
    updates are buffers. All of it is saved and restored by `state_dict` / `load_state_dict`.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""  # as the paper's tables spell it
    revision: ClassVar[int] = 1  # raise it when the numbers a run gives change
    HParams: ClassVar[type[HParams]] = HParams
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # switches only, never numbers of a dataset
    standards: ClassVar[tuple[str, ...]] = ("multi-source",)  # the first is the default
    ranges: ClassVar[Mapping[str, Range]] = {"lr_scale": Range(0.3, 3.0, log=True)}
    card: ClassVar[bool] = False  # one of the design card's seven
    relative_cost: ClassVar[float] = 1.0  # step time against Source-Only, for `plan` before anything was measured
    disputes: ClassVar[Sequence[Dispute]] = ()  # where its paper and its released code disagree, and what is done
    forwards_target: bool = True  # do target images pass through a network in training? The record says it

    def __init__(self, task: Task, hparams: Any) -> None:
        super().__init__()
        self.task = task
        self.hparams: Any = hparams  # an instance of this class's own HParams
        self.optimisers: dict[str, torch.optim.Optimizer] = {}
        self.stage = self.stages()[0][0]

    # -- what a subclass writes ---------------------------------------------------------------------------------

    def update(self, sources: Sequence[LabeledBatch], target: UnlabeledBatch, progress: float) -> dict[str, Tensor]:
        """One training step. `progress` in [0, 1) is the share of the current stage that is done.

        Returns 0-d tensors by name (losses, diagnostics); may also return `pseudo_labels` (B,) with −1 for none.
        Nothing here may wait for the device: no `.item()`, no printing of tensors.
        """
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def probabilities(self, images: Tensor) -> Tensor:
        """(N, C) class probabilities; called by `predict` in eval mode without gradients."""
        raise NotImplementedError(f"{type(self).__name__} has no probabilities")

    def embed(self, images: Tensor) -> Tensor | None:
        """(N, F) features for the probes that compare all methods alike; None when there is no single space."""
        return None

    def stages(self) -> list[tuple[str, float]]:
        """Names of the stages and their shares of the budget."""
        return [("train", 1.0)]

    def begin(self, stage: str, views: Views) -> None:
        """A stage starts. Full passes over the data are possible here (MDDA, DCTN)."""

    def diagnostics(self) -> dict[str, Any]:
        """What a reader of the record should know about the state now: JSON-able; read at evaluation points only."""
        return {}

    def remarks(self, diagnostics: Mapping[str, Any]) -> list[str]:
        """Sentences that a reader of a table must see, from the diagnostics of a whole run; the record keeps them."""
        return []

    @classmethod
    def explain(cls, facts: Facts) -> Explanation | None:
        """What follows from the settings, and from finished runs among the facts; None: this method has nothing to say."""
        return None

    def uncertainty(self, images: Tensor) -> Tensor | None:
        """(N,) σ of each image, for methods that estimate one."""
        return None

    # -- what the loop calls ------------------------------------------------------------------------------------

    def predict(self, images: Tensor) -> Tensor:
        """(N, C) probabilities: eval mode, no gradient, no RNG; defined in every stage."""
        with frozen(self):
            return self.probabilities(images)

    def features(self, images: Tensor) -> Tensor | None:
        """(N, F) features, or None."""
        with frozen(self):
            return self.embed(images)

    def sigma(self, images: Tensor) -> Tensor | None:
        """(N,) uncertainty, or None."""
        with frozen(self):
            return self.uncertainty(images)

    def enter(self, stage: str, views: Views) -> None:
        """Remember the stage, then let the method begin it."""
        self.stage = stage
        self.begin(stage, views)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """Everything that a bit-exact resume needs."""
        return {
            "modules": super().state_dict(*args, **kwargs),
            "optimisers": {name: o.state_dict() for name, o in self.optimisers.items()},
            "stage": self.stage,
            "extra": self.extra_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Inverse of `state_dict`."""
        result = super().load_state_dict(state["modules"], strict=strict, assign=assign)
        for name, optimiser in self.optimisers.items():
            optimiser.load_state_dict(state["optimisers"][name])
        self.stage = state["stage"]
        self.load_extra_state(state["extra"])
        return result

    def extra_state(self) -> dict[str, Any]:
        """State that is neither module, buffer nor optimiser (plain numbers, strings, tensors)."""
        return {}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Inverse of `extra_state`."""

    # -- a helper for `update` ----------------------------------------------------------------------------------

    def descend(self, loss: Tensor, *names: str) -> None:
        """One step of the named optimisers (default: all) down the gradient of `loss`."""
        chosen = [self.optimisers[n] for n in names] if names else list(self.optimisers.values())
        for optimiser in chosen:
            optimiser.zero_grad(set_to_none=True)
        loss.backward()
        for optimiser in chosen:
            optimiser.step()


@contextlib.contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; the training flags are put back as they were."""
    flags = [(m, m.training) for m in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for m, flag in flags:
            m.training = flag


def registry() -> dict[str, type[Method]]:
    """All built-in methods by name, in the order of the paper's tables."""
    return {name: getattr(importlib.import_module(module), cls) for name, module, cls in BUILT_IN}


def load_method(name: str) -> type[Method]:
    """A built-in by name, a user's own class by `path/file.py:Class`, or what an installed package offers by this name."""
    if ".py:" in name:
        return _user_class(name)
    for known, module, cls in BUILT_IN:
        if known == name:
            return getattr(importlib.import_module(module), cls)
    found = installed.load(installed.METHODS, name)
    if not (isinstance(found, type) and issubclass(found, Method)):
        package = installed.whose(installed.offered(installed.METHODS)[name])
        raise MethodError(
            f"The method {name!r} of the package {package} is no class made from methods.contract.Method."
        )
    return found


def _user_class(name: str) -> type[Method]:
    file, _, cls = name.rpartition(":")
    path = Path(file).expanduser().resolve()
    if not path.is_file():
        raise MethodError(f"the method file {file} does not exist")
    module_name = "user_method_" + hashlib.sha256(path.read_bytes() + str(path).encode()).hexdigest()[:12]
    module = sys.modules.get(module_name)
    if module is None:
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[module_name]
            raise MethodError(
                f"the method file {file} could not be imported: {type(error).__name__}: {error}"
            ) from error
    found = getattr(module, cls, None)
    if not (isinstance(found, type) and issubclass(found, Method)):
        classes = [
            n for n, c in vars(module).items() if isinstance(c, type) and issubclass(c, Method) and c is not Method
        ]
        raise MethodError(f"{file} has no method class {cls!r}; it has: {', '.join(classes) or 'none'}")
    return found


def method_revision(name: str) -> str:
    """The number that stands for the method's mathematics in run_id: for a user's file, the hash of the file; for a
    package's method, the package with its version and the hash of the file."""
    if ".py:" in name:
        file = name.rpartition(":")[0]
        return "file:" + hashlib.sha256(Path(file).expanduser().read_bytes()).hexdigest()[:16]
    cls = load_method(name)
    return str(cls.revision) if is_built_in(name) else installed.identity(name)


def build_hparams(cls: type[Method], *layers: Mapping[str, Any]) -> HParams:
    """HParams of `cls` with the layers applied in order, later ones winning; unknown keys and wrong types are errors."""
    fields = {f.name: f for f in dataclasses.fields(cls.HParams)}
    values: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if key not in fields:
                raise MethodError(f"{cls.name} has no hyper-parameter {key!r}")
            values[key] = _coerce(cls, key, fields[key].default, value)
    return cls.HParams(**values)


def _coerce(cls: type[Method], key: str, default: Any, value: Any) -> Any:
    """`value` as the type of `default`; text from the command line is parsed."""
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        text = str(value).lower()
        if text in ("true", "1", "yes", "on"):
            return True
        if text in ("false", "0", "no", "off"):
            return False
        raise MethodError(f"{cls.name}.{key} is a switch: true or false, not {value!r}")
    kind = type(default)
    try:
        found = kind(value)
        if kind in (int, float) and (not math.isfinite(found) or (isinstance(value, float) and found != value)):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise MethodError(f"{cls.name}.{key} takes a {kind.__name__}, not {value!r}") from None
    return found
