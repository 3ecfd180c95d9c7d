"""The claims that a training on the toy decides: the same bits, a whole state, no waiting, sound predictions."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmark.run.check.memory import difference, remembered, snapshot, through_a_file
from benchmark.run.check.toy import Toy, Trainer
from benchmark.run.check.waits import watching
from benchmark.run.task import Task
from benchmark.spec import STANDARDS
from methods.contract import Method, MethodError, build_hparams

CLOSE = 1e-6  # between predictions of one image in two batches: rounding may differ with the batch's size


@dataclasses.dataclass
class Course:
    """One training, looked on: the state after t updates is `states[t]`, what else it remembered `memories[t]`."""

    build: Callable[[Task], Method]
    toy: Toy
    sources: int
    states: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    memories: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    terms: list[dict[str, Tensor]] = dataclasses.field(default_factory=list)
    draws: set[str] = dataclasses.field(default_factory=set)
    outside: set[str] = dataclasses.field(default_factory=set)  # optimisers that stepped and are not in `optimisers`
    lost: dict[str, None] = dataclasses.field(default_factory=dict)
    broken: str = ""
    resumed: bool = False
    unsound: dict[str, None] = dataclasses.field(default_factory=dict)  # what was wrong with terms and batches

    def trainer(self, **changes: Any) -> Trainer:
        """A method at its beginning."""
        return Trainer(self.build, self.toy, changes.pop("sources", self.sources), **changes)

    def run(self) -> Course:
        """Train to the end, and look at everything on the way."""
        trainer = self.trainer()
        method, stepped = trainer.method, dict[int, torch.optim.Optimizer]()
        hook = register_optimizer_step_post_hook(lambda optimiser, *_: stepped.update({id(optimiser): optimiser}))
        try:
            self._keep(method)
            while trainer.t < trainer.total:
                before = _generators()
                self._judge(trainer.step(), trainer)
                self.draws |= {name for name, state in _generators().items() if state != before[name]}
                self._keep(method)
        finally:
            hook.remove()
        through_a_file(self.states[-1])
        for optimiser in stepped.values():
            if all(optimiser is not known for known in method.optimisers.values()):
                names = [f"self.{key}" for key, value in vars(method).items() if value is optimiser]
                self.outside.add(names[0] if names else f"an optimiser of kind {type(optimiser).__name__}")
        return self

    def resume(self) -> None:
        """From every update: what is forgotten goes into `lost`, the first thing that comes out otherwise into `broken`."""
        for t in range(len(self.states)) if not self.resumed else ():
            trainer = self.trainer()
            method, trainer.t = trainer.method, t
            method.load_state_dict(snapshot(self.states[t]))
            memory = remembered(method)
            for path, value in self.memories[t].items():
                if difference(memory.get(path, repr(None)), value):  # an attribute that is not there yet counts as None
                    self.lost[re.split(r", its|\[|(?<=\))\.", path)[0]] = None
            at = difference(method.state_dict(), self.states[t])
            if at and not self.broken:
                self.broken = f"What a checkpoint gives back is not what was saved after {t} updates: {at} differs."
            while trainer.t < min(t + 2, trainer.total) and not self.broken:
                at = self.differs(trainer)
                if at:
                    self.broken = (
                        f"Resumed after {t} of {trainer.total} updates, update {trainer.t} gives other bits, in {at}."
                    )
        self.resumed = True

    def differs(self, trainer: Trainer) -> str:
        """Where the next update of `trainer` differs from what it was here; "": nowhere."""
        terms = {k: v.detach() for k, v in trainer.step().items() if isinstance(v, Tensor)}
        return difference(terms, self.terms[trainer.t - 1]) or difference(
            trainer.method.state_dict(), self.states[trainer.t]
        )

    def _keep(self, method: Method) -> None:
        self.states.append(snapshot(method.state_dict()))
        self.memories.append(remembered(method))

    def _judge(self, terms: Any, trainer: Trainer) -> None:
        """Terms are 0-d and finite, pseudo labels are labels, batches are as they were."""
        if not isinstance(terms, dict):
            raise TypeError(f"update returns a {type(terms).__name__}, not a dictionary of 0-d tensors")
        for key, value in terms.items():
            if key == "pseudo_labels":
                self._judge_labels(value)
            elif not isinstance(value, Tensor) or value.dim():
                kind = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
                self.unsound[f"update returns {kind} as {key!r}; a term is a 0-d tensor."] = None
            elif not torch.isfinite(value):
                self.unsound[f"The term {key!r} is not finite after {trainer.t} updates."] = None
        self.terms.append({k: v.detach().clone() for k, v in terms.items() if isinstance(v, Tensor)})
        (sources, target), (before, target_before) = trainer.given, trainer.data(trainer.t - 1)
        given = [target.images, *(x for s in sources for x in (s.images, s.labels))]
        if difference(given, [target_before.images, *(x for s in before for x in (s.images, s.labels))]):
            self.unsound["update changes the batches that it is given; others may see them too: work on a copy."] = None

    def _judge_labels(self, labels: Tensor) -> None:
        sound = labels.shape == (self.toy.size,) and labels.dtype == torch.int64
        if not sound or not bool(((labels >= -1) & (labels < self.toy.classes)).all()):
            self.unsound["pseudo_labels are not (B,) int64 with a class, or −1 for none, for each target image."] = None


def _generators() -> dict[str, Any]:
    """Generators that no checkpoint keeps."""
    legacy: Any = np.random.get_state()
    return {"Python's `random`": random.getstate(), "`numpy.random`": (legacy[1].tobytes(), legacy[2])}


# -- the claims: each says what is wrong, sentence by sentence ----------------------------------------------------------


WRITTEN = {
    "update": "update(self, sources, target, progress), the training step",
    "probabilities": "probabilities(self, images), the (N, C) class probabilities",
}


def declared(cls: type[Method]) -> Iterator[str]:
    """What a method must write is written; standards, presets and tuning ranges name what there is."""
    for name, what in WRITTEN.items():
        if getattr(cls, name) is getattr(Method, name):
            yield f"It has no {what}."
    if not cls.standards:
        yield "It names no standard; for example: standards = ('multi-source',)."
    for standard in set(cls.standards) - {*STANDARDS}:
        yield f"There is no standard {standard!r}; allowed: {', '.join(STANDARDS)}."
    defaults = dataclasses.asdict(cls.HParams())
    for preset, values in cls.presets.items():
        try:
            build_hparams(cls, values)
        except MethodError as error:
            yield f"The preset {preset!r} cannot be: {error}."
    for key, span in cls.ranges.items():
        if key not in defaults:
            yield f"It is tuned over {key!r}, which is none of its hyper-parameters: {', '.join(defaults)}."
        elif not (defaults[key] in span.choices if span.choices else span.low <= defaults[key] <= span.high):
            yield f"The default of {key}, {defaults[key]!r}, lies outside the range that it is tuned over."


def staged(method: Method) -> Iterator[str]:
    """The stages divide the budget."""
    shares = [share for _, share in method.stages()]
    if abs(sum(shares) - 1) > 1e-6 or min(shares) <= 0:
        yield f"The shares of its stages are {shares}; they must be positive and sum to one."


def same_bits(course: Course) -> Iterator[str]:
    """Everything again, from the same seed."""
    yield from (
        f"Training draws from {name}, which the loop does not seed and no checkpoint keeps: use torch's functions."
        for name in sorted(course.draws)
    )
    again = course.trainer()
    at = difference(again.method.state_dict(), course.states[0])
    if at:
        yield (
            f"Before the first update {at} differs between two methods of one seed: build modules of your own with "
            "task.build(role, factory), which draws from (seed, role)."
        )
        return
    while again.t < again.total:
        at = course.differs(again)
        if at:
            if not course.draws:
                yield f"Two trainings from one seed differ after {again.t} updates, in {at}."
            return
    other = course.trainer(seed=1).train()
    if not difference(other.method.state_dict()["modules"], course.states[-1]["modules"]):
        yield "Another seed gives the same bits: its weights do not come from the task."


def whole_state(course: Course) -> Iterator[str]:
    """What was remembered after t updates is remembered by a new method that was given the state."""
    course.resume()
    for path in list(course.lost)[:5]:
        yield (
            f"{path} changes in training, and a checkpoint does not keep it: make it a buffer (self.register_buffer), a "
            "module of self (several: nn.ModuleList), or save it in extra_state and load_extra_state."
        )


def optimisers_known(course: Course) -> Iterator[str]:
    """What steps is saved."""
    for name in sorted(course.outside):
        yield (
            f"{name} steps in update and does not stand in self.optimisers, so no checkpoint keeps its state: "
            "self.optimisers['NAME'] = task.optimiser(module)."
        )


def resumes(course: Course) -> Iterator[str]:
    """Saved after every update, loaded into a new method, two more updates: as if nothing had happened."""
    course.resume()
    if course.broken:
        yield course.broken


CALLS = {
    "__bool__": "asks a tensor whether it is true",
    "__repr__": "prints a tensor",
    "__format__": "prints a tensor",
    "_local_scalar_dense": "reads a number from a tensor",
    "to": 'calls .to("cpu")',
    "repeat_interleave": "calls repeat_interleave with a tensor of counts and no output_size",
}


def waits_for_nothing(course: Course) -> Iterator[str]:
    """In a training of its own, since some operators take another way, and round otherwise, when they are looked at."""
    found: dict[str, str] = {}
    trainer = course.trainer()
    trainer.around = lambda: watching(found)
    trainer.train()
    for where, name in sorted(found.items())[:5]:
        what = CALLS.get(name) or (f"calls .{name}()" if "__" not in name and " " not in name else f"uses {name}")
        yield (
            f"{where} {what}: a GPU stands still for it in every update. Keep it a tensor; what people should read "
            "goes into the returned terms or diagnostics()."
        )


def predicts(course: Course) -> Iterator[str]:
    """In every stage: probabilities, and nothing moves for them."""
    trainer = course.trainer()
    method = trainer.method
    images = torch.cat([batch.images for batch in course.toy.batches(3, seed=9)[0]])
    for stage in trainer.stages:
        while trainer.t <= stage.start:
            trainer.step()
        before, flags = snapshot(method.state_dict()), [m.training for m in method.modules()]
        rng = torch.get_rng_state()
        found = method.predict(images)
        where = f" in stage {stage.name}" if len(trainer.stages) > 1 else ""
        wrong = [*_probabilities(found, len(images), course.toy.classes)]
        if not torch.equal(torch.get_rng_state(), rng) or difference(method.predict(images), found):
            wrong.append("A prediction draws random numbers: the same images do not give the same again.")
        if difference(method.state_dict(), before):
            wrong.append("A prediction changes the method's state.")
        if [m.training for m in method.modules()] != flags:
            wrong.append("A prediction leaves modules in another mode than it found them in.")
        features = method.features(images)
        if features is not None and (features.dim() != 2 or len(features) != len(images)):
            wrong.append(f"embed gives {tuple(features.shape)} for {len(images)} images, not (N, F).")
        if wrong:
            yield from (f"{sentence[:-1]}{where}." for sentence in wrong)
            return


def _probabilities(found: Tensor, images: int, classes: int) -> Iterator[str]:
    if found.shape != (images, classes):
        yield f"probabilities gives {tuple(found.shape)} for {images} images and {classes} classes, not (N, C)."
        return
    sums = found.sum(1)
    if not bool(torch.isfinite(found).all()):
        yield "Some of what probabilities gives is not finite."
    elif float((sums - 1).abs().max()) > 1e-4 or float(found.min()) < 0:
        yield (
            f"Rows of probabilities sum to {float(sums.min()):.3g} … {float(sums.max()):.3g}, the least entry is "
            f"{float(found.min()):.3g}: these are not probabilities. Are they logits? Return logits.softmax(1)."
        )


def alone_or_not(course: Course) -> Iterator[str]:
    """An image's prediction beside these images, beside others, in another place, in batches of other sizes."""
    trainer = course.trainer().train()
    sources, target = course.toy.batches(3, seed=77, size=3 * course.toy.size)
    images = torch.cat([target.images, *(batch.images for batch in sources)])
    found = [*_dependences(trainer.method, images, course.toy.size)]
    if found:  # a deep network rounds away more than a shallow one: in double precision only a true dependence is left
        with contextlib.suppress(Exception):  # of a method that keeps numbers outside of its modules
            found = [*_dependences(trainer.method.double(), images.double(), course.toy.size)]
    yield from found


def _dependences(method: Method, images: Tensor, size: int) -> Iterator[str]:
    for what, ask in (("prediction", method.predict), ("feature", method.features)):
        if ask(images) is not None and (how := depends_on_its_batch(ask, images, size)):
            yield f"The {what} of an image depends on the images beside it: {how}."


def depends_on_its_batch(ask: Callable[[Tensor], Any], images: Tensor, size: int) -> str:
    """How what is said of an image depends on the rest of its batch; "": not at all."""
    first, others = images[:1], images[1:]
    alone = ask(torch.cat([first, others[: size - 1]]))[0]
    tries = {
        "other neighbours change it": (torch.cat([first, others.flip(0)[: size - 1]]), 0),
        "copies of itself beside it change it": (torch.cat([first] * size), 0),
        "another place in the batch changes it": (torch.cat([others[: size - 1], first]), size - 1),
        **{f"a batch of {n} changes it": (images[:n], 0) for n in (1, 2, 3, 5, len(images))},
    }
    scale = max(1.0, float(alone.abs().max()))
    for words, (batch, place) in tries.items():
        if not torch.allclose(ask(batch)[place], alone, rtol=0, atol=CLOSE * scale):
            return words
    return ""


def takes_sources(course: Course, numbers: tuple[int, ...] = (2, 5)) -> Iterator[str]:
    """Another number of sources is only another number."""
    for number in numbers:
        try:
            trainer = course.trainer(sources=number).train()
            finite = all(bool(x.isfinite().all()) for x in trainer.method.parameters())
        except Exception as error:  # whatever it is, it is said in a sentence
            yield f"With {number} sources it fails: {failure(error)}."
        else:
            if not finite:
                yield f"With {number} sources its weights are not finite."


def failure(error: BaseException) -> str:
    """«ValueError: … (my_method.py:31)»: the error, and the line of the method nearest to it."""
    lines, trace = [], error.__traceback__
    while trace is not None:
        lines.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    own = [line for line in lines if not line[0].startswith(_NOT_THEIRS)]
    where = f" ({own[-1][0].rpartition('/')[2]}:{own[-1][1]})" if own else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}{where}"


_NOT_THEIRS = (torch.__path__[0], __file__.rpartition("/run/")[0])
