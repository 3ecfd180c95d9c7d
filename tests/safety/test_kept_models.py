"""Kept models of runs that are killed, stopped, told otherwise, or short of disk; and what audit and publish make of them."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

import benchmark
from benchmark import records
from benchmark.errors import Interrupted, RunFailed, UserError
from benchmark.launch import slurm
from benchmark.launch.cluster import Profile
from benchmark.launch.submissions import Submission, new_folder, submissions
from benchmark.records import audit, bundle, models, study
from benchmark.records.merge import merge
from benchmark.records.selection import STATISTICS
from benchmark.report import handover, publish
from tests.records.test_bundle import draw_nothing
from tests.records.test_merge import forge
from tests.safety import bundles
from tests.safety.small import Small, bits, fork, wait

NOTHING_ELSE = ["artifacts.npz", "curve.jsonl", "heartbeat.json", "record.json", "spec.json"]


def content(record: records.Record | None) -> dict[str, str]:
    """Each kept file's bytes, hashed."""
    assert record is not None
    return {rule: hashlib.sha256(p.read_bytes()).hexdigest() for rule, p in models.kept(record.path).items()}


def names(record: records.Record) -> list[str]:
    passing = ("lease.json",)
    return sorted(p.name for p in record.path.iterdir() if p.name not in passing and not p.name.endswith(".tmp"))


@pytest.mark.parametrize("method", ["source-only", "mdda", "tsvdnet"])
def test_a_run_killed_at_random_moments_keeps_the_same_models_byte_for_byte(
    method: str, small: Small, tmp_path: Path
) -> None:
    spec = small.spec(method)
    whole = small.execute(spec, tmp_path / "whole", keep_model="selected")
    dice, kills, results = random.Random(7), 0, tmp_path / "killed"
    environment = {"BENCHMARK_CHECKPOINT_SECONDS": "0"}
    while True:
        point = dice.choice(["update", "evaluate", "replace:candidate*", "write:candidate*", "replace:checkpoint.pt"])
        fault = {"BENCHMARK_FAULT": f"{point}=kill@{dice.randint(1, 4)}"} if kills < 8 else {}
        child = fork(lambda: small.execute(spec, results, keep_model="selected"), {**environment, **fault})
        code = wait(child)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        kills += 1
    killed = records.read(small.directory(spec, results))
    assert killed is not None
    assert kills >= 1
    assert bits(killed) == bits(whole)
    assert content(killed) == content(whole)
    assert killed["models"] == whole["models"]
    assert names(killed) == sorted([*NOTHING_ELSE, *(models.model_file(rule) for rule in whole["models"])])


@pytest.mark.parametrize("point", ["replace:model*", "write:model*", "replace:record.json", "replace:artifacts.npz"])
def test_a_run_killed_at_its_end_keeps_its_models(point: str, small: Small, tmp_path: Path) -> None:
    spec = small.spec("dann")
    whole = small.execute(spec, tmp_path / "whole", keep_model="selected")
    environment = {"BENCHMARK_CHECKPOINT_SECONDS": "0", "BENCHMARK_FAULT": f"{point}=kill"}
    child = fork(lambda: small.execute(spec, tmp_path / "killed", keep_model="selected"), environment)
    assert wait(child) == -signal.SIGKILL
    killed = small.execute(spec, tmp_path / "killed", keep_model="selected")
    assert content(killed) == content(whole)
    assert bits(killed) == bits(whole)


def test_candidates_of_points_that_come_again_go_with_their_part_of_the_curve(small: Small, tmp_path: Path) -> None:
    spec = small.spec()
    folder = small.directory(spec, tmp_path)
    environment = {"BENCHMARK_CHECKPOINT_SECONDS": "1000", "BENCHMARK_FAULT": "evaluate=kill@3"}
    assert wait(fork(lambda: small.execute(spec, tmp_path, keep_model="selected"), environment)) == -signal.SIGKILL
    assert set(models.candidates(folder)) <= {4, 8}
    assert models.candidates(folder)
    seen: list[set[int]] = []

    def look() -> bool:
        seen.append(set(models.candidates(folder)))
        return False

    small.execute(spec, tmp_path, keep_model="selected", should_stop=look)
    assert seen[0] == set(), "without a checkpoint the run begins anew, and so do its candidates"


def test_a_run_stopped_in_the_middle_of_keeping_goes_on_where_it_was(small: Small, tmp_path: Path) -> None:
    spec = small.spec("mcd")
    whole = small.execute(spec, tmp_path / "whole", keep_model="selected")
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked % 23 == 0

    stopped = 0
    while True:
        try:
            record = small.execute(spec, tmp_path / "stopped", keep_model="selected", should_stop=stop)
            break
        except Interrupted:
            stopped += 1
    assert stopped >= 3
    assert content(record) == content(whole)


def test_the_last_command_decides_what_is_kept(small: Small, tmp_path: Path) -> None:
    spec, whole = small.spec(), small.execute(small.spec(), tmp_path / "whole", keep_model="selected")

    def stop_after(updates: int) -> Any:
        calls = iter(range(10_000))
        return lambda: next(calls) >= updates

    with pytest.raises(Interrupted):
        small.execute(spec, tmp_path / "a", keep_model="selected", should_stop=stop_after(20))
    record = small.execute(spec, tmp_path / "a", keep_model="none")
    assert names(record) == NOTHING_ELSE
    folder = small.directory(spec, tmp_path / "b")
    with pytest.raises(Interrupted):
        small.execute(spec, tmp_path / "b", should_stop=lambda: len(records.read_curve(folder)) >= 2)
    late = small.execute(spec, tmp_path / "b", keep_model="selected")
    early = {r for r in whole["models"] for s in STATISTICS if whole["models"][r][s]["update"] < 12}
    assert early, "else this test shows nothing"
    assert set(late["models"]) == set(whole["models"]) - early
    assert sum("was not kept: that of update" in w for w in late["warnings"]) == len(early)


def test_a_disk_that_is_full_for_a_while_costs_a_model_and_not_the_run(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = small.spec()
    whole = small.execute(spec, tmp_path / "whole", keep_model="selected")
    monkeypatch.setenv("BENCHMARK_FAULT", "open:candidate*=enospc")
    record = small.execute(spec, tmp_path / "full", keep_model="selected")
    assert bits(record) == bits(whole)
    assert any("a candidate for --keep-model could not be written" in w for w in record["warnings"])
    assert benchmark.load_model(record).run_id == record.run_id


def test_a_disk_that_is_full_at_the_end_fails_the_run_which_goes_on_from_its_checkpoint(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHMARK_FAULT", "write:model-last.safetensors=enospc")
    with pytest.raises(RunFailed, match="No space left"):
        small.execute(small.spec(), tmp_path, keep_model="last")
    monkeypatch.delenv("BENCHMARK_FAULT")
    record = small.execute(small.spec(), tmp_path, keep_model="last")
    assert benchmark.load_model(record).run_id == record.run_id


# -- audit, publish, unpack ------------------------------------------------------------------------------------------------


@pytest.fixture
def record(small: Small, tmp_path: Path) -> records.Record:
    return small.execute(small.spec(), tmp_path / "runs", keep_model="selected")


def kinds(root: Path) -> list[tuple[str, str, str]]:
    found = audit.audit(root).findings
    return [(f.level, f.kind, Path(f.path).name) for f in found if f.kind not in ("dirty", "commits")]


def test_audit_knows_models_and_finds_one_that_was_changed(record: records.Record, tmp_path: Path) -> None:
    assert kinds(tmp_path / "runs") == []
    (record.path / "model-dev.safetensors").unlink()  # as artifacts may be
    assert kinds(tmp_path / "runs") == []
    with (record.path / "model-bnm.safetensors").open("ab") as file:
        file.write(b"\0")
    shutil.copy(record.path / "model-last.safetensors", record.path / "model-oracle.safetensors")
    (record.path / "candidate-4.safetensors").write_bytes(b"")
    os.symlink("/dev/zero", record.path / "model-dev.safetensors")
    found = kinds(tmp_path / "runs")
    assert found == [
        ("error", "link", "model-dev.safetensors"),
        ("error", "model", "model-bnm.safetensors"),
        ("error", "model", "model-oracle.safetensors"),
        ("warning", "leftover", "candidate-4.safetensors"),
    ]


def test_publish_and_unpack_leave_models_out_and_their_record_still_seals_them(
    record: records.Record, small: Small, tmp_path: Path
) -> None:
    publish.pack(tmp_path / "study", [record.path])
    assert not list((tmp_path / "study").rglob("*.safetensors"))
    study.unpack(tmp_path / "study", tmp_path / "tree")
    there = tmp_path / "tree" / record.path.relative_to(tmp_path / "runs")
    assert models.kept(there) == {}
    assert kinds(tmp_path / "tree") == []
    shutil.copy(record.path / "model-last.safetensors", there)  # handed over beside the study
    assert benchmark.load_model(there).run_id == record.run_id


# -- in bundles, and put together ------------------------------------------------------------------------------------------


def bundled(root: Path, out: Path, **options: bool) -> Path:
    """The bundle of a results folder, models included, without pictures."""
    with pytest.MonkeyPatch.context() as patch:
        draw_nothing(patch)
        return handover.hand_over(root, out, **{"models": True, **options}).path


def with_large_model(run: Path, size: int) -> bytes:
    """A run whose record seals a model of so many bytes; gives them."""
    weights = os.urandom(size)
    (run / "model-last.safetensors").write_bytes(weights)
    told = {kind: {"update": 1, "weights": "0" * 64} for kind in ("running", "target")}
    sealed = {"last": {"sha256": hashlib.sha256(weights).hexdigest(), **told}}
    forge(run, lambda document: document.update(models=sealed))
    return weights


def test_a_model_larger_than_any_other_file_goes_every_way_and_is_never_whole_in_memory(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = small.execute(small.spec(), tmp_path / "runs").path
    weights = with_large_model(run, 30_000_000)
    place = run.relative_to(tmp_path / "runs") / "model-last.safetensors"
    archive = bundled(tmp_path / "runs", tmp_path / "b.zip")
    monkeypatch.setattr(study, "LARGEST", 10_000_000)
    monkeypatch.setattr("benchmark.files.LARGEST", 10_000_000)
    audit.audit(archive)  # what it imports counts for nothing
    tracemalloc.start()
    study.unpack(archive, tmp_path / "tree")
    merge([archive, tmp_path / "tree"], tmp_path / "merged")
    with models.on_disk(archive / place) as copy:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert copy.read_bytes() == weights
    assert peak < 15_000_000
    for home in ("tree", "merged"):
        assert (tmp_path / home / place).read_bytes() == weights
    monkeypatch.setattr(bundle, "LARGEST_MODEL", 20_000_000)
    with pytest.raises(UserError, match=r"cannot go into a bundle: it has more than 20,000,000 bytes"):
        bundled(tmp_path / "runs", tmp_path / "c.zip")
    with pytest.raises(OSError, match="more than 20000000"):
        study.unpack(archive, tmp_path / "again")


def test_audit_and_merge_find_forged_and_superfluous_models_inside_a_bundle(
    record: records.Record, tmp_path: Path
) -> None:
    archive = bundled(tmp_path / "runs", tmp_path / "b.zip")
    assert kinds(archive) == []
    with zipfile.ZipFile(archive) as source:
        members = {name: source.read(name) for name in source.namelist()}
    last = next(name for name in members if name.endswith("model-last.safetensors"))
    nobody = last.replace(record.run_id, "f" * 16)

    def found(changed: dict[str, bytes]) -> list[tuple[str, str, str]]:
        (tmp_path / "c.zip").write_bytes(bundles.packed(changed))
        bundle._opened.cache_clear()
        with pytest.raises(UserError, match=r"c\.zip is refused: .*safetensors"):
            merge([tmp_path / "c.zip", tmp_path / "runs"], tmp_path / "out")
        return kinds(tmp_path / "c.zip")

    forged = members[last][:-1] + b"x"
    error = ("error", "model", "model-last.safetensors")
    assert found(bundles.sealed({**members, last: forged})) == [error]
    assert found({**members, last: forged}) == [error], "not even the one that bundle.json lists"
    assert found(bundles.sealed({**members, nobody: members[last]})) == [error]
    evil = last.replace("model-last", "model-evil")
    assert found(bundles.sealed({**members, evil: b"x"})) == [("error", "model", "model-evil.safetensors")]


def test_a_bundle_without_the_models_that_its_records_seal_says_so_once(record: records.Record, tmp_path: Path) -> None:
    archive = bundled(tmp_path / "runs", tmp_path / "b.zip", models=False)
    (note,) = (f for f in audit.audit(archive).findings if f.kind == "model")
    assert note.level == "note"
    assert note.words.startswith(f"{len(record['models'])} models that records seal are not in the bundle")
    assert merge([archive, tmp_path / "runs"], tmp_path / "out").twice == 1, "it is no worse for that"


def test_of_equal_records_the_one_that_seals_a_model_stands_and_no_other_model_comes_along(
    small: Small, tmp_path: Path
) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    bare = small.execute(small.spec(), a)
    last = small.execute(small.spec(), b, keep_model="last")
    (last.path / "artifacts.npz").unlink()
    assert merge([a, b], tmp_path / "ab").twice == 1
    there = tmp_path / "ab" / bare.path.relative_to(a)
    assert records.read(there)["models"] == last["models"]  # type: ignore[index]
    assert kinds(tmp_path / "ab") == []
    assert benchmark.load_model(there).run_id == bare.run_id
    # a model that another record of the same run seals, with other bytes, is not the one of the record that stands
    shutil.copytree(b, c)
    with_large_model(c / bare.path.relative_to(a), 1000)
    merge([b, c], tmp_path / "bc")
    assert kinds(tmp_path / "bc") == []
    (last.path / "model-last.safetensors").unlink()
    merge([b, c], tmp_path / "none")
    assert kinds(tmp_path / "none") == []
    assert models.kept(tmp_path / "none" / bare.path.relative_to(a)) == {}


def test_of_equal_records_without_models_one_with_arrays_stands_and_else_the_first_named(
    small: Small, tmp_path: Path
) -> None:
    first = small.execute(small.spec(), tmp_path / "a")
    second = small.execute(small.spec(), tmp_path / "b")
    for out, stands in (("ab", first), ("without", second)):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / out)
        there = records.read(tmp_path / out / first.path.relative_to(tmp_path / "a"))
        assert there is not None
        assert there["hashes"] == stands["hashes"]
        (first.path / "artifacts.npz").unlink(missing_ok=True)


def test_an_unpacking_that_fails_leaves_nothing_and_the_next_one_works(
    record: records.Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = bundled(tmp_path / "runs", tmp_path / "b.zip")
    monkeypatch.setenv("BENCHMARK_FAULT", "write:model-last.safetensors=enospc")
    with pytest.raises(OSError, match="No space left"):
        study.unpack(archive, tmp_path / "tree")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.zip", "runs"]
    monkeypatch.delenv("BENCHMARK_FAULT")
    assert study.unpack(archive, tmp_path / "tree") == 1
    assert kinds(tmp_path / "tree") == []


def test_a_submission_remembers_which_models_its_runs_keep(small: Small, tmp_path: Path) -> None:
    spec = small.bound(small.spec())
    sent = Submission(
        folder=new_folder(tmp_path), jobs={}, specs={spec.run_id: spec.to_json()}, profile={}, data_root=None, code="",
        keep_model="selected",
    )  # fmt: skip
    sent.save()
    (found,) = submissions(tmp_path)  # what `retry` reads
    pack = slurm._pack([spec.run_id], Profile(), Profile().resources("mini"), tmp_path, found)
    assert pack.keep_model == "selected"
