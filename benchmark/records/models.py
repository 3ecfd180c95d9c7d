"""The models that runs kept (`run --keep-model`): which files a run may have beside its record, and whether they are its own.

| file of a run's directory | what |
|---|---|
| model-<rule>.safetensors | the model that a rule chose, with what is needed to use it; `models` of the record has its hash |
| candidate-<update>.safetensors | of a run under way: a model that a rule may yet choose; gone when the run is done |

A model may be deleted at any time, as artifacts may: its record stays what it is. What is inside such a file is the
business of `benchmark.run.model`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmark.errors import UserError, unknown
from benchmark.records import bundle
from benchmark.records.bundle import MODEL
from benchmark.records.selection import VALIDATORS
from benchmark.records.store import Record

CHOICES = ("none", "last", "selected")  # of --keep-model
RULES = ("last", *VALIDATORS)  # those that read no label of the target: `selected` keeps the model of each
ALWAYS = {"last": {"last"}, "selected": {"last", "unsup"}}  # of a run that kept its models: these rules always choose
CANDIDATE = re.compile(r"candidate-(\d{1,18})\.safetensors")


def check_choice(word: str) -> str:
    """The word after --keep-model, if it is one."""
    if word not in CHOICES:
        raise unknown("choice of models to keep", word, CHOICES)
    return word


def model_file(rule: str) -> str:
    """`model-source-val.safetensors`: the name of a rule's model in the run's directory."""
    return f"model-{rule.replace('_', '-')}.safetensors"


def candidate_file(update: int) -> str:
    """The name of a model that a rule may yet choose."""
    return f"candidate-{update}.safetensors"


def kept(directory: Path | str) -> dict[str, Path]:
    """{rule: file} of the models that lie in a run's directory, whether they are sound or not."""
    found = {match[1].replace("-", "_"): path for match, path in _matching(directory, MODEL)}
    return {rule: found[rule] for rule in sorted(found)}


def candidates(directory: Path | str) -> dict[int, Path]:
    """{update: file} of the candidates that lie in a run's directory."""
    return {int(match[1]): path for match, path in _matching(directory, CANDIDATE)}


def lacks(directory: Path | str, choice: str) -> bool:
    """Whether a finished run has not what `--keep-model` asks for."""
    return not ALWAYS.get(choice, set()) <= set(kept(directory))


def sealed(record: Record, rule: str) -> str:
    """sha256 of a rule's model file as the record has it; empty when the run kept none."""
    return str(record.document.get("models", {}).get(rule, {}).get("sha256", ""))


def digest(path: Path) -> str:
    """sha256 of a plain file, on disk or in a bundle, read piece by piece; empty when it is absent or something else."""
    seen = hashlib.sha256()
    try:
        for piece in bundle.pieces(path):
            seen.update(piece)
    except OSError:
        return ""
    return seen.hexdigest()


def faults(record: Record, names: Iterable[str]) -> dict[str, str]:
    """What is wrong with the models among the files of a finished run, in words, by file. The record is none the worse."""
    found = {}
    for rule, path in kept(record.path).items():
        if path.name in names and not path.is_symlink():
            try:
                other = digest(path) != sealed(record, rule)
            except UserError as error:  # of a bundle whose member is not the one that it lists
                found[path.name] = str(error)
                continue
            if other:
                found[path.name] = (
                    "not the model that the run kept: `predict` refuses it. Take it away, or put the right one there"
                )
    return found


def absent(record: Record) -> list[str]:
    """The models that a record seals and that do not lie beside it; they may be deleted, or were not handed over."""
    there = kept(record.path)
    return [model_file(rule) for rule in record.document.get("models", {}) if rule not in there]


@contextlib.contextmanager
def on_disk(path: Path) -> Iterator[Path]:
    """The file itself, or a copy of the one in the bundle that the path leads through, for as long as it is read."""
    if os.path.lexists(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="model-") as folder:
        copy = Path(folder) / path.name
        bundle.transfer(path, copy, durable=False)
        yield copy


def _matching(directory: Path | str, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], Path]]:
    try:
        names = os.listdir(directory)
    except NotADirectoryError:
        names = bundle.names(directory)
    except OSError:
        return
    for name in sorted(names):
        if match := pattern.fullmatch(name):
            yield match, Path(directory) / name
