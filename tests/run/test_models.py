"""Models that stay: what `predict` gives is what the record says, for every method, rule and kind of statistics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open

import benchmark
from benchmark import records
from benchmark.data import frozen
from benchmark.errors import UserError
from benchmark.records import models, study
from benchmark.records.selection import STATISTICS
from benchmark.report import handover
from benchmark.run.model import kept, loading, pictures, predicting, size
from benchmark.run.model.keeping import Keeping
from benchmark.run.score.statistics import target_statistics
from methods.contract import BUILT_IN, MethodError
from tests import needs
from tests.safety.small import Small, bits

METHODS = [name for name, _, _ in BUILT_IN]


def printed(record: records.Record, statistics: str) -> Any:
    return record if statistics == "running" else record["statistics"][statistics]


def test_there_are_seventeen_methods_below() -> None:
    assert len(METHODS) == 17


@pytest.mark.parametrize("name", METHODS)
def test_a_kept_model_gives_the_records_accuracy_and_the_probabilities_of_the_run_bit_for_bit(
    name: str, small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = torch.rand(30, 3, 32, 32, generator=torch.Generator().manual_seed(0)) * 2 - 1
    seen: dict[str, torch.Tensor] = {}
    parts = Keeping._parts

    def looking(self: Keeping, method: Any, update: int) -> dict[str, kept.Part]:
        seen["running"] = method.predict(images)
        with target_statistics(method, self.batches()):
            seen["target"] = method.predict(images)
        return parts(self, method, update)

    monkeypatch.setattr(Keeping, "_parts", looking)
    record = small.execute(small.spec(name), tmp_path, keep_model="selected")
    assert set(record["models"]) == set(models.kept(record.path)) >= {"last", "source_val", "unsup", "snd", "bnm"}
    assert record["models"]["last"]["running"]["weights"] == record["weights"]
    assert record["warnings"] == []
    for rule in record["models"]:
        for statistics in STATISTICS:
            model = benchmark.load_model(record, rule=rule, statistics=statistics)
            table = predicting.predict(model, [pictures.own(model.resolved, small.data)])
            assert predicting.accuracy(table) == printed(record, statistics)["accuracy"][rule]
            assert model.update == printed(record, statistics)["selected"][rule]
    for statistics in STATISTICS:
        assert torch.equal(benchmark.load_model(record, statistics=statistics)(images), seen[statistics])
    last = benchmark.load_model(record, statistics="running")
    per_class = predicting.predict(last, [pictures.own(last.resolved, small.data)]).groupby("truth")
    assert [100 * (g.label == g.truth).mean() for _, g in per_class] == record["per_class"]


def test_keeping_models_moves_no_bit_of_the_run(small: Small, tmp_path: Path) -> None:
    found = [small.execute(small.spec("mdda"), tmp_path / word, keep_model=word) for word in models.CHOICES]
    assert bits(found[0]) == bits(found[1]) == bits(found[2])
    assert len({r.run_id for r in found}) == 1
    assert [sorted(models.kept(r.path)) for r in found[:2]] == [[], ["last"]]
    assert "models" not in found[0].document


def test_the_file_says_whose_model_it_is_and_what_it_takes(record: records.Record) -> None:
    with safe_open(record.path / "model-source-val.safetensors", "pt") as file:
        facts = json.loads(file.metadata()["model"])
    assert facts["run_id"] == record.run_id
    assert facts["rule"] == "source_val"
    assert (facts["method"], facts["preset"], facts["target"]) == ("tsvdnet", "", "mt")
    assert facts["update"] == record["selected"]["source_val"]
    assert facts["classes"] == record["classes"]
    assert facts["preprocess"]["mean"] == [0.5, 0.5, 0.5]


def test_the_last_model_has_the_hash_of_the_record_in_its_metadata(record: records.Record) -> None:
    with safe_open(record.path / "model-last.safetensors", "pt") as file:
        assert json.loads(file.metadata()["model"])["weights"] == record["weights"]


# -- what a model takes --------------------------------------------------------------------------------------------------


def test_a_model_takes_pixels_or_normalised_floats(record: records.Record, small: Small) -> None:
    model = benchmark.load_model(record)
    raw = pictures.own(model.resolved, small.data).raw.take(torch.arange(5))
    p = model(raw)
    assert raw.dtype == torch.uint8
    assert p.shape == (5, len(model.classes))
    assert torch.allclose(p.sum(1), torch.ones(5))
    assert torch.equal(p, model(raw.float() / 127.5 - 1)) or torch.allclose(
        p, model(raw.float() / 127.5 - 1), atol=1e-5
    )
    assert not p.requires_grad
    assert model.uncertainty(raw).shape == (5,)
    with pytest.raises(UserError, match=r"shape \(N, 3, 32, 32\), not \(1, 3, 28, 28\)"):
        model(torch.zeros(1, 3, 28, 28, dtype=torch.uint8))


def test_loading_a_model_draws_no_random_number(record: records.Record) -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    benchmark.load_model(record)
    assert torch.equal(before, torch.random.get_rng_state())


def test_pictures_arrays_and_test_images_of_the_same_digits_get_the_same_probabilities(
    record: records.Record, small: Small, tmp_path: Path
) -> None:
    model = benchmark.load_model(record)
    own = predicting.predict(model, [pictures.own(model.resolved, small.data)])
    npz = small.data / "digits" / "mnist.npz"
    with np.load(npz) as arrays:
        for i, (x, y) in enumerate(zip(arrays["x_test"], arrays["y_test"], strict=True)):
            (tmp_path / str(y)).mkdir(exist_ok=True)
            Image.fromarray(x).save(tmp_path / str(y) / f"{i:03}.png")
    columns = [f"p_{name}" for name in model.classes]
    arrays_too = predicting.predict(model, pictures.found([npz], model.preprocess, model.classes))
    assert (arrays_too[columns].to_numpy() == own[columns].to_numpy()).all()
    files = predicting.predict(model, pictures.found([tmp_path], model.preprocess, model.classes))
    files = files.sort_values("image", key=lambda names: names.map(lambda n: Path(n).stem)).reset_index()
    assert files[columns].to_numpy() == pytest.approx(own[columns].to_numpy(), abs=1e-6)
    assert predicting.accuracy(files) == predicting.accuracy(own) == predicting.accuracy(arrays_too)
    assert "uncertainty" in files


def test_pictures_of_unknown_class_have_no_accuracy(record: records.Record, tmp_path: Path) -> None:
    Image.fromarray(np.zeros((40, 50), np.uint8)).save(tmp_path / "a.png")
    model = benchmark.load_model(record)
    table = predicting.predict(model, pictures.found([tmp_path / "a.png"], model.preprocess, model.classes))
    assert predicting.accuracy(table) is None
    assert "truth" not in table
    assert torch.equal(model(model.read(tmp_path / "a.png"))[0], torch.tensor(table.filter(like="p_").to_numpy()[0]))


def test_a_model_of_pictures_reads_them_as_its_suite_does(tmp_path: Path) -> None:
    how = {"reader": "pacs", "side": 20}
    Image.fromarray(np.arange(30 * 40, dtype=np.uint8).reshape(30, 40)).save(tmp_path / "a.png")
    assert pictures.Decoded([tmp_path / "a.png"], how).take(torch.tensor([0])).shape == (1, 3, 20, 20)


def test_importing_the_benchmark_brings_no_torch() -> None:
    code = "import sys, benchmark; assert 'torch' not in sys.modules; assert callable(benchmark.load_model)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = benchmark.nothing  # type: ignore[attr-defined]


OWN = """
from methods.source_only import SourceOnly
class Own(SourceOnly):
    def extra_state(self):
        return {"seen": SEEN}
"""


def test_a_users_own_method_is_kept_too_and_refused_unexecuted_once_its_file_has_changed(
    small: Small, tmp_path: Path
) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN.replace("SEEN", "[1, 2.5, 'a', None]"))
    record = small.execute(small.spec(f"{file}:Own"), tmp_path / "runs", keep_model="last")
    assert benchmark.load_model(record).run_id == record.run_id
    trap = tmp_path / "executed"
    file.write_text(f"open({str(trap)!r}, 'w').close()\n" + OWN.replace("SEEN", "[]"))
    with pytest.raises(UserError, match="changed after run"):
        benchmark.load_model(record)
    assert not trap.exists()
    file.unlink()
    with pytest.raises(MethodError, match="does not exist"):
        benchmark.load_model(record)


def test_a_state_that_is_no_tensor_and_no_plain_value_costs_the_model_not_the_run(small: Small, tmp_path: Path) -> None:
    file = tmp_path / "odd.py"
    file.write_text(OWN.replace("SEEN", "1j"))
    record = small.execute(small.spec(f"{file}:Own"), tmp_path / "runs", keep_model="selected", checkpoint_seconds=1e9)
    assert models.kept(record.path) == {}
    assert any("its model was not kept: extra.seen of the method's state is a complex" in w for w in record["warnings"])


def test_a_model_that_does_not_fit_its_method_any_more_names_the_commit(
    copy: records.Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    from methods.source_only import SourceOnly

    built = SourceOnly.__init__

    def more(self: Any, task: Any, hparams: Any) -> None:
        built(self, task, hparams)
        self.another = torch.nn.Linear(2, 2)

    monkeypatch.setattr(SourceOnly, "__init__", more)
    with pytest.raises(UserError, match=r"does not fit the method source-only as it is now .*Missing.*commit"):
        benchmark.load_model(copy)


def test_a_model_survives_the_bundle_and_is_used_from_it(record: records.Record, tmp_path: Path) -> None:
    results = record.path.parents[2]
    bundled = handover.hand_over(results, tmp_path / "handed.zip", models=True)
    images = torch.rand(5, 3, 32, 32, generator=torch.Generator().manual_seed(1)) * 2 - 1
    for statistics in STATISTICS:
        here = benchmark.load_model(record, statistics=statistics)
        there = benchmark.load_model(record.run_id, statistics=statistics, results=bundled.path)
        assert torch.equal(here(images), there(images))
    study.unpack(bundled.path, tmp_path / "unpacked")
    again = benchmark.load_model(record.run_id, statistics=statistics, results=tmp_path / "unpacked")
    assert torch.equal(here(images), again(images))


def test_what_a_bundle_without_models_advises_gives_the_model(copy: records.Record, tmp_path: Path) -> None:
    bundled = handover.hand_over(tmp_path, tmp_path / "handed.zip")
    with pytest.raises(UserError) as refused:
        benchmark.load_model(copy.run_id, results=bundled.path)
    (unpack,) = re.findall(r"unpack (\S+) --out FOLDER;", str(refused.value))
    (place,) = re.findall(r"put the file at FOLDER/(\S+);", str(refused.value))
    study.unpack(Path(unpack), tmp_path / "FOLDER")
    shutil.copy(copy.path / "model-last.safetensors", tmp_path / "FOLDER" / place)
    assert benchmark.load_model(copy.run_id, results=tmp_path / "FOLDER").run_id == copy.run_id


@needs.frozen
def test_a_frozen_suites_model_takes_pixels_through_the_trunk_that_made_its_activations() -> None:
    """`pacs-frozen` trains on stored activations; pictures of a user's go through the same frozen part, rounded alike."""
    method = torch.nn.Module()
    method.weight = torch.nn.Parameter(torch.zeros(1))
    how = {
        "reader": "pacs",
        "pixels": "float16",
        "side": 112,
        "shape": [192, 4, 4],
        "mean": [0.5] * 3,
        "std": [0.5] * 3,
    }
    facts = {"run_id": "", "rule": "last", "classes": ["a"], "preprocess": how}
    model = loading.Model(method, kept.Part(1, "", {}, {}), facts, None)  # type: ignore[arg-type]
    pixels = torch.randint(0, 256, (2, 3, 112, 112), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        stored = frozen.trunk(frozen.pretrained(112), pixels).half()
    assert torch.equal(model.input(pixels), stored.float())
    assert torch.equal(model.input(stored), stored.float())


# -- disk ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["source-only", "mdda", "tsvdnet"])
def test_the_disk_that_models_take_is_known_beforehand(name: str, small: Small, tmp_path: Path) -> None:
    spec = small.spec(name)
    for choice in ("last", "selected"):
        ((most,), (beside,)) = size.disk([spec], choice)
        record = small.execute(spec, tmp_path / choice, keep_model=choice)
        taken = sum(path.stat().st_size for path in models.kept(record.path).values())
        assert taken <= most
        assert choice == "selected" or most <= 1.3 * taken
        assert (beside > 0) == (choice == "selected")


def test_a_method_that_cannot_be_built_without_memory_is_not_counted(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size, "_bytes", lambda spec: int("no number"))
    assert size.disk([small.spec()], "selected") == ([0], [0])
