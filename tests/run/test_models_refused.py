"""What is no kept model of the run, or no picture for it, is refused with a sentence, and nothing in it runs."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import benchmark
from benchmark import records
from benchmark.errors import Interrupted, UserError
from benchmark.run.model import kept, loading, pictures
from tests.safety.fuzz import no_hang
from tests.safety.small import Small

# -- what is refused ------------------------------------------------------------------------------------------------------


def changed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def reworded(path: Path) -> None:
    content = path.read_bytes()
    assert content.count(b'mean\\": [0.5') == 1
    path.write_bytes(content.replace(b'mean\\": [0.5', b'mean\\": [0.4'))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def cut_to_nothing(path: Path) -> None:
    path.write_bytes(b"")


class Trap:
    """Unpickled, it leaves a mark."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path("trap").touch, ())


def pickled(path: Path) -> None:
    torch.save(Trap(), path)


def pickled_plainly(path: Path) -> None:
    torch.save(Trap(), path, _use_new_zipfile_serialization=False)


def foreign(path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, path)


def senseless(path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, path, {kept.ENTRY: json.dumps({"format": kept.FORMAT, "parts": {}})})


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.parent / "pipe")
    path.unlink()
    path.symlink_to("pipe")


@pytest.mark.parametrize(
    "harm, words",
    [
        (changed, "not the file that the run kept"),
        (reworded, "not the file that the run kept"),
        (cut, "cut off, damaged"),
        (cut_to_nothing, "cut off, damaged"),
        (pickled, "it is a pickle, which is never loaded"),
        (pickled_plainly, "it is a pickle, which is never loaded"),
        (foreign, "no model that this suite kept"),
        (senseless, "makes no sense"),
        (a_folder, "not a plain file"),
        (a_pipe, "not a plain file"),
        (a_link_to_a_pipe, "not a plain file"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_file_that_is_not_the_runs_own_is_refused_with_a_sentence_and_nothing_runs(
    harm: Callable[[Path], None], words: str, copy: records.Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    harm(copy.path / "model-last.safetensors")
    with no_hang(), pytest.raises(UserError, match=words) as refused:
        benchmark.load_model(copy)
    assert "model-last.safetensors is not used" in str(refused.value)
    assert not Path("trap").exists()


def test_600_malformed_files_are_refused_without_a_traceback(copy: records.Record) -> None:
    path = copy.path / "model-last.safetensors"
    whole, dice = path.read_bytes(), random.Random(0)
    header = 8 + int.from_bytes(whole[:8], "little")
    for number in range(600):
        content = bytearray(whole)
        place = dice.randrange(8 if number % 4 == 0 else header if number % 4 < 3 else len(whole))
        kind = dice.choice(["flip", "cut", "insert", "zero"])
        if kind == "flip":
            content[place] ^= 1 << dice.randrange(8)
        elif kind == "cut":
            del content[place:]
        elif kind == "insert":
            content[place:place] = dice.randbytes(dice.randrange(1, 40))
        else:
            content[place : place + 30] = b"0" * 30
        path.write_bytes(content)
        if bytes(content) != whole:
            with pytest.raises(UserError, match="is not used"):
                loading.sound(copy, "last", "running")


def test_the_model_of_another_run_is_refused(small: Small, copy: records.Record, tmp_path: Path) -> None:
    other = small.execute(small.spec(seed=1), tmp_path / "other", keep_model="last")
    (copy.path / "model-last.safetensors").write_bytes((other.path / "model-last.safetensors").read_bytes())
    with pytest.raises(UserError, match="belongs to another"):
        benchmark.load_model(copy)


def test_a_run_that_kept_no_such_model_says_what_to_type(small: Small, copy: records.Record, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"kept no model of the rule unsup \(it kept: last\).*--keep-model selected"):
        benchmark.load_model(copy, rule="unsup")
    (copy.path / "model-last.safetensors").unlink()
    with pytest.raises(UserError, match=r"is not there\. Published studies leave models out"):
        benchmark.load_model(copy)
    with pytest.raises(UserError, match="no rule of kept models 'oracle'"):
        benchmark.load_model(copy, rule="oracle")
    with pytest.raises(UserError, match="no kind of statistics at test 'batch'"):
        benchmark.load_model(copy, statistics="batch")
    with pytest.raises(UserError, match=r"No run in .* begins with 'zz'"):
        benchmark.load_model("zz", results=tmp_path)
    with pytest.raises(UserError, match="no choice of models to keep 'best'"):
        small.execute(small.spec(), tmp_path, keep_model="best")


def test_a_run_is_found_by_the_beginning_of_its_id_or_by_its_folder(copy: records.Record, tmp_path: Path) -> None:
    by_id = benchmark.load_model(copy.run_id[:5], results=tmp_path)
    by_folder = benchmark.load_model(copy.path)
    assert by_id.run_id == by_folder.run_id == copy.run_id


def test_a_run_that_is_not_done_has_no_model_yet(small: Small, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        small.execute(small.spec(), tmp_path, should_stop=lambda: True)
    with pytest.raises(UserError, match="is not done: its models come with its record"):
        benchmark.load_model(small.directory(small.spec(), tmp_path))


def test_files_that_cannot_be_predicted_are_named(record: records.Record, tmp_path: Path, small: Small) -> None:
    model = benchmark.load_model(record)

    def refuse(words: str, *paths: Path, how: dict[str, Any] = model.preprocess) -> None:
        with pytest.raises(UserError, match=words):
            pictures.found(paths, how, model.classes)

    (tmp_path / "empty").mkdir()
    refuse("has no pictures", tmp_path / "empty")
    refuse("There is no file", tmp_path / "a.png")
    np.savez(tmp_path / "a.npz", z=np.zeros(3))
    refuse("no array x_test or images", tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", images=np.zeros((3, 5), np.uint8))
    refuse("not uint8", tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", images=np.zeros((3, 5, 5), np.uint8), labels=np.array([1, 2, 10]))
    refuse("labels is no list of 3 classes", tmp_path / "c.npz")
    refuse("a suite of pictures", small.data / "digits" / "mnist.npz", how={"reader": "pacs"})


def test_other_images_than_the_runs_own_are_not_taken_for_them(record: records.Record, tmp_path: Path) -> None:
    model = benchmark.load_model(record)
    (tmp_path / "other").mkdir()
    other = Small(tmp_path / "other")
    with np.load(other.data / "digits" / "mnist.npz") as arrays:
        changed = {name: arrays[name] for name in arrays.files}
    changed["x_test"] = 255 - changed["x_test"]
    np.savez(other.data / "digits" / "mnist.npz", **changed)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="its accuracy cannot be had from them"):
        pictures.own(model.resolved, other.data)
