"""Using a model that a run kept: found by its run, held against its record, made again as a module that takes images.

    model = benchmark.load_model("3f2a")           # the beginning of a run_id, or the run's folder
    model(images)                                  # uint8 (N, 3, S, S) or normalised floats → (N, C) probabilities
    model(model.read("a.png", "b.png"))            # pictures, decoded as in training

A file that is not the one its record was sealed with is refused, and nothing in it is ever unpickled. The method itself
is code: a model of a user's own method loads that user's file, if it is still the one that the run was made with.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmark import records
from benchmark.data.base import Preprocess
from benchmark.data.frozen import pretrained, trunk
from benchmark.errors import UserError, unknown
from benchmark.records import Record, models, study
from benchmark.records.selection import STATISTICS, normalise
from benchmark.run.model import kept
from benchmark.run.model.kept import NotKept, Part
from benchmark.run.model.pictures import Decoded
from benchmark.run.task import make_task
from benchmark.spec import Resolved, RunSpec, resolve
from methods.contract import Method, build_hparams, method_revision


class Model(nn.Module):
    """A kept model: images in, class probabilities out, in evaluation mode and without gradients.

    uint8 images are pixels (N, 3, S, S) of the stored size `side`, and are normalised here as in training; floats are
    taken for what they are in the network's own terms, normalised already. `preprocess` says how both hang together.
    """

    def __init__(self, method: Method, part: Part, facts: dict[str, Any], resolved: Resolved) -> None:
        super().__init__()
        self.method, self.resolved = method, resolved
        self.run_id, self.rule, self.update = facts["run_id"], facts["rule"], part.update
        self.classes: list[str] = facts["classes"]
        self.preprocess: dict[str, Any] = facts["preprocess"]
        self.side = int(self.preprocess["side"])
        names = [f.name for f in dataclasses.fields(Preprocess)]
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in self.preprocess.items() if k in names
        }
        self._eval = Preprocess(**values).eval
        self._trunk: list[nn.Module] = []  # of a frozen suite, when pixels come; no part of this module's state

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.method.parameters()).device

    def forward(self, images: Tensor) -> Tensor:
        """(N, C) probabilities in the order of `classes`."""
        return self.method.predict(self.input(images))

    def uncertainty(self, images: Tensor) -> Tensor | None:
        """(N,) the method's own σ of each image; None for a method that has none."""
        return self.method.sigma(self.input(images))

    def read(self, *files: str | Path) -> Tensor:
        """(N, 3, S, S) uint8 from picture files, decoded as in training."""
        paths = [Path(file) for file in files]
        return Decoded(paths, self.preprocess).take(torch.arange(len(paths)))

    def input(self, images: Tensor) -> Tensor:
        """What the network takes, from uint8 pixels; floats as they are."""
        frozen = self.preprocess["pixels"] != "uint8"
        if images.dtype == torch.uint8:
            if images.dim() != 4 or images.shape[1:] != (3, self.side, self.side):
                raise UserError(
                    f"The model takes uint8 images of shape (N, 3, {self.side}, {self.side}), not {tuple(images.shape)}. "
                    "Its method read(FILE, …) makes them from pictures of any size."
                )
            return self._activations(images) if frozen else self._eval(images, self.device)
        return images.to(self.device, torch.float32)

    def _activations(self, pixels: Tensor) -> Tensor:
        """What the frozen trunk of the suite makes of pixels, rounded as it was stored."""
        if not self._trunk:
            self._trunk.append(pretrained(self.side))
        with torch.no_grad():
            return trunk(self._trunk[0], pixels.cpu()).half().float().to(self.device)


def load_model(
    run: str | Path | Record,
    *,
    rule: str = "last",
    statistics: str = "target",
    results: str | Path | None = None,
    device: str = "cpu",
) -> Model:
    """The model that a run kept, as a module that takes images and gives class probabilities.

    `run` is a run_id, or its beginning, within `results` (default: BENCHMARK_RESULTS, else `runs`), or the run's folder.
    `rule` is one of those that the run kept; `statistics` are the batch-norm statistics at test, as in tables: `target`
    or `running`.
    """
    record = run if isinstance(run, Record) else find(run, results)
    rule = normalise(rule)
    if rule not in models.RULES:
        raise unknown("rule of kept models", rule.replace("_", "-"), [r.replace("_", "-") for r in models.RULES])
    if statistics not in STATISTICS:
        raise unknown("kind of statistics at test", statistics, STATISTICS)
    facts, part = sound(record, rule, statistics)
    resolved = _resolved(record)
    with torch.random.fork_rng(devices=[]):  # what is drawn for the first weights is none of the caller's business
        task = make_task(resolved, len(record["classes"]), device)
        method: Method = resolved.method(task, resolved.hparams).to(device)
    optimisers = {name: o.state_dict() for name, o in method.optimisers.items()}
    try:
        method.load_state_dict(
            {"modules": part.modules, "optimisers": optimisers, "stage": part.stage, "extra": part.extra}
        )
    except (RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise UserError(
            f"The model of run {record.run_id} does not fit the method {resolved.spec.name} as it is now "
            f"({' '.join(str(error).split())[:200]}). It was made at commit {record['provenance']['commit']}: use that."
        ) from None
    return Model(method, part, facts, resolved).eval()


def find(run: str | Path, results: str | Path | None = None) -> Record:
    """The record of a finished run: by its folder, or by its id or the beginning of it."""
    directory, root = Path(run), Path(results or os.environ.get("BENCHMARK_RESULTS") or "runs")
    if not study.exists(directory / "spec.json"):
        found = [Path(e.path) for e in records.run_directories(root) if e.name.startswith(str(run))]
        if len(found) != 1:
            what = f"{len(found)} runs in {root} begin" if found else f"No run in {root} begins"
            raise UserError(
                f"{what} with {str(run)!r}, and it is no run's folder. Type: python -m benchmark status --results {root}"
            )
        directory = found[0]
    record = records.read(directory.absolute())
    if record is None:
        raise UserError(
            f"The run {directory} is not done: its models come with its record. The `run` command goes on with it."
        )
    return record


def sound(record: Record, rule: str, statistics: str) -> tuple[dict[str, Any], Part]:
    """(facts, part) of a rule's model whose file is the one that the record was sealed with; else a sentence."""
    path, have = record.path / models.model_file(rule), [r.replace("_", "-") for r in record.document.get("models", {})]
    if not models.sealed(record, rule):
        raise UserError(
            f"Run {record.run_id} kept no model of the rule {rule.replace('_', '-')} (it kept: {', '.join(have) or 'none'}). "
            f"Models are kept while a run trains. To have it: the run command that made it, with --keep-model "
            f"{'last' if rule == 'last' else 'selected'} --results NEW_FOLDER."
        )
    there = os.path.lexists(path) or study.exists(path)
    if not there and not record.path.is_dir():  # of a study's few files, or of a bundle: no file can be put there
        root = record.path.parents[2]
        raise UserError(
            f"Run {record.run_id} kept a model, but {root} has none of it. Ask those who ran it for a bundle with models "
            f"(bundle --models), or for the file alone. Then type: python -m benchmark unpack {root} --out FOLDER; put the "
            f"file at FOLDER/{path.relative_to(root)}; and name FOLDER with --results."
        )
    if not there:
        raise UserError(
            f"Run {record.run_id} kept a model, but {path} is not there. Published studies leave models out: put the file "
            "there, or ask those who ran it."
        )
    try:
        with models.on_disk(path) as file:
            (facts, parts), digest = kept.read(file), models.digest(file)
    except NotKept as reason:
        raise UserError(f"{path} is not used: {reason}.") from None
    part, told = parts[statistics], record["models"][rule][statistics]
    weights = record["weights"] if rule == "last" and statistics == "running" else told["weights"]
    if digest != models.sealed(record, rule) or part.weights != weights:
        raise UserError(
            f"{path} is not used: it is not the file that the run kept. Its hash is another than the record's, so it was "
            f"changed after the run, or belongs to another. Type: python -m benchmark audit {record.path}"
        )
    return facts, part


def _resolved(record: Record) -> Resolved:
    """The run's spec with the values that its record has: defaults of today may be others. No weights are looked for."""
    spec = RunSpec.from_json(record["spec"])
    _check_own_file(spec.method, record)  # before `resolve`, which executes it
    resolved = resolve(spec)
    settings = resolved.settings
    network = settings.network.model_copy(update={"weights": ""})  # the kept ones come in their place
    hparams = build_hparams(resolved.method, record["resolved"]["hparams"])
    plain = settings.model_copy(update={"network": network, "compile": False})  # training alone is compiled
    return dataclasses.replace(resolved, settings=plain, hparams=hparams)


def _check_own_file(method: str, record: Record) -> None:
    """A user's method file is the one that the run was made with; looked at, not executed."""
    file = method.rpartition(":")[0]
    if ".py:" not in method or not Path(file).expanduser().is_file():  # `resolve` has the sentence for one that is gone
        return
    if method_revision(method) != record["revision"]:
        raise UserError(
            f"The method file {file} changed after run {record.run_id}: its model may mean something else in the new one. "
            "It was not executed. Put the file back as it was."
        )
