"""Thousands of malformed inputs: each is refused with a sentence. None gives a traceback, hangs, or is accepted."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import shutil
import signal
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from benchmark import records
from benchmark.__main__ import main
from benchmark.data import decoded, digits, lists
from benchmark.errors import UserError
from benchmark.files import write_bytes
from benchmark.launch.cluster import load_profile
from benchmark.launch.status import states
from benchmark.records import Record, bundle, schema, study
from benchmark.records.audit import audit
from benchmark.records.merge import merge
from benchmark.report import handover, publish
from benchmark.run import checkpoint
from benchmark.run.model import loading
from benchmark.spec import load_suite
from tests.safety import bundles
from tests.safety import malformed as bad
from tests.safety.small import SUITE, Small

EXAMPLES = {
    "suites": 300, "profiles": 250, "records": 400, "curves": 200, "checkpoints": 150, "npz": 200, "images": 200,
    "lists": 200, "commands": 300, "studies": 150, "bundles": 150,
}  # fmt: skip
HANG_SECONDS = 60


def test_the_malformed_inputs_of_a_test_run_are_at_least_2000() -> None:
    assert sum(EXAMPLES.values()) >= 2000


def fuzz(name: str, inputs: st.SearchStrategy[Any], refuse: Callable[[Any], None], count: int = 0) -> int:
    """Call `refuse` on so many inputs, and give their number; it fails when an input is accepted or hangs."""
    seen, count = 0, count or EXAMPLES[name]

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs)
    def all_inputs(value: Any) -> None:
        nonlocal seen
        seen += 1
        with no_hang():
            refuse(value)

    all_inputs()
    assert seen >= count
    return seen


@contextlib.contextmanager
def no_hang() -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError(f"not answered within {HANG_SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_sentence(error: Exception) -> None:
    """Words for people: not empty, not a dump."""
    words = str(error)
    assert words
    assert "Traceback" not in words
    assert len(words) < 5000


def refused_by(reader: Callable[[Path], Any], path: Path) -> Callable[[bytes], None]:
    """Write the input to `path` and expect a UserError from the reader."""

    def refuse(content: bytes) -> None:
        path.write_bytes(content)
        with pytest.raises(UserError) as caught:
            reader(path)
        is_sentence(caught.value)

    return refuse


# -- what a user writes ---------------------------------------------------------------------------------------------

SUITE_DOCUMENT = tomllib.loads(SUITE)
REQUIRED = [
    ("name",), ("title",), ("protocol",), ("reader",), ("classes",), ("columns",), ("domains",), ("tiers",),
    ("domains", 0, "id"), ("domains", 1, "name"), ("domains", 2, "title"), ("tiers", "lite", "data"),
    ("tiers", "lite", "batch"), ("tiers", "lite", "updates"), ("tiers", "lite", "network"),
    ("tiers", "lite", "optimiser"), ("tiers", "lite", "network", "name"), ("tiers", "lite", "optimiser", "lr_extractor"),
]  # fmt: skip
OUT_OF_RANGE: list[tuple[bad.Path, Any]] = [
    (("tiers", "lite", "batch"), 1), (("tiers", "lite", "batch"), 10**9), (("tiers", "lite", "updates"), 0),
    (("tiers", "lite", "updates"), 10**12), (("tiers", "lite", "eval_points"), 10**9), (("tiers", "lite", "val_images"), 0),
    (("tiers", "lite", "network", "width"), 0.0), (("tiers", "lite", "network", "width"), 7.0),
    (("tiers", "lite", "network", "name"), "resnet19"), (("tiers", "lite", "optimiser", "lr_extractor"), -1.0),
    (("tiers", "lite", "optimiser", "lr_classifier"), float("inf")), (("protocol",), 0), (("name",), "../up"),
    (("name",), "Small"), (("domains", 0, "id"), "../m"), (("domains", 0, "id"), "sv"), (("domains", 0, "name"), "a/b"),
    (("columns",), ["mt", "up"]), (("columns",), ["mt", "up", "up"]), (("classes",), ["0"]), (("classes",), ["0", "0"]),
    (("title",), "\x1b[2J"), (("reader",), "os.system"), (("default_tier",), "huge"), (("tiers",), {}),
]  # fmt: skip


def suite_files() -> st.SearchStrategy[bytes]:
    document = SUITE_DOCUMENT
    tables = [(), ("tiers", "lite"), ("tiers", "lite", "network"), ("tiers", "lite", "optimiser"), ("domains", 0)]
    unknown_key = st.tuples(st.sampled_from(tables), bad.text.map(lambda t: "x-" + t)).map(
        lambda pair: bad.put(document, (*pair[0], pair[1]), 1)
    )
    documents = st.one_of(
        st.sampled_from(REQUIRED).map(lambda path: bad.without(document, path)),
        bad.wrong_types(document, list(bad.paths(document))),
        st.sampled_from(OUT_OF_RANGE).map(lambda pair: bad.put(document, *pair)),
        unknown_key,
    )
    whole = SUITE.encode()
    return st.one_of(
        documents.map(bad.toml_file),
        bad.torn(whole, whole.index(b"optimiser =") + 10),
        st.binary(min_size=1).filter(lambda b: b.strip()),
        st.integers(1000, 100_000).map(lambda n: b"a = " + b"[" * n),
    )


def test_malformed_suite_files(tmp_path: Path) -> None:
    load_suite.cache_clear()

    def read(path: Path) -> None:
        load_suite.cache_clear()
        load_suite(str(path))

    fuzz("suites", suite_files(), refused_by(read, tmp_path / "suite.toml"))


def test_every_network_of_ours_that_a_suite_may_name_is_there() -> None:
    from benchmark.run.networks import NETWORKS
    from benchmark.spec.network import OURS

    assert set(OURS) == set(NETWORKS)


PROFILE: dict[str, Any] = {
    "title": "ours", "partition": "gpu", "gpus": 1, "cpus": 4, "memory_gb": 8.5, "time": "1:00:00", "parallel": 8,
    "pack_minutes": 30, "pack_runs": 10, "margin": 1.5, "max_requeues": 3, "retries": 1, "signal_seconds": 60,
    "setup": ["module load x"], "device": "auto", "allow_changed_code": False, "sbatch": {"nice": 5},
    "tiers": {"paper": {"gpus": 1, "time": "2-00:00:00"}},
}  # fmt: skip


def test_malformed_cluster_profiles(tmp_path: Path) -> None:
    ranges: list[tuple[bad.Path, Any]] = [
        (("gpus",), -1), (("gpus",), 99), (("cpus",), 0), (("memory_gb",), 0.0), (("memory_gb",), float("inf")), (("time",), 0),
        (("time",), "soon"), (("time",), "1:2:3:4"), (("parallel",), 0), (("margin",), 0.5), (("retries",), 99),
        (("signal_seconds",), 1), (("device",), "tpu"), (("sbatch",), {"array": "1-5"}), (("sbatch",), {"wrap": "rm"}),
        (("tiers", "huge"), {}), (("tiers", "paper", "gpus"), -3), (("tiers", "paper", "time"), "never"),
    ]  # fmt: skip
    # a time may be a number or a text; an option of sbatch may be of any plain type
    typed = [p for p in bad.paths(PROFILE) if "time" not in p and p[0] != "sbatch"]
    unknown_key = st.tuples(st.sampled_from([(), ("tiers", "paper")]), bad.text.map(lambda t: "x-" + t)).map(
        lambda pair: bad.put(PROFILE, (*pair[0], pair[1]), 1)
    )
    documents = st.one_of(
        bad.wrong_types(PROFILE, typed),
        st.sampled_from(ranges).map(lambda pair: bad.put(PROFILE, *pair)),
        unknown_key,
    )
    contents = st.one_of(documents.map(bad.toml_file), st.binary(min_size=1).filter(_no_toml))
    fuzz("profiles", contents, refused_by(load_profile, tmp_path / "profile.toml"))


def _no_toml(content: bytes) -> bool:
    try:
        return bool(tomllib.loads(content.decode()))
    except ValueError:
        return True


# -- what a run leaves, from a stranger -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Record:
    return small.execute(small.spec("tsvdnet"), tmp_path_factory.mktemp("runs"))


RECORD_RANGES: list[tuple[bad.Path, Any]] = [
    (("format",), 2), (("format",), None), (("run_id",), "../../etc/passwd"), (("run_id",), "0" * 15),
    (("accuracy", "last"), 100.1), (("accuracy", "oracle"), -1e-9), (("accuracy", "unsup"), 1e308),
    (("cost", "updates"), 0), (("cost", "updates"), 10**40), (("cost", "seconds"), -1.0), (("title",), "\x1b]0;owned\x07"),
    (("title",), "x" * 100_000), (("spec", "tier"), "../.."), (("spec", "seed"), 2**80), (("spec", "target"), "\u202egnp"),
    (("warnings",), ["\ud800"]), (("losses",), {"\x00": 1.0}), (("diagnostics",), {"x": 2**70}), (("per_class",), [101.0]),
]  # fmt: skip


def test_malformed_records(record: Record, tmp_path: Path) -> None:
    document = json.loads((record.path / "record.json").read_text())
    folder = tmp_path / "small" / "lite" / record.run_id
    folder.mkdir(parents=True)
    needed = [
        ("run_id",), ("spec",), ("accuracy",), ("cost",), ("data",), ("provenance",), ("hashes",), ("accuracy", "last"),
        ("spec", "suite"), ("spec", "tier"), ("spec", "method"), ("spec", "target"), ("hashes", "record"), ("hashes", "spec"),
    ]  # fmt: skip
    typed = [p for p in bad.paths(document) if schema.record_fault(bad.put(document, p, object())) and len(p) < 3]
    typed = [p for p in typed if not (isinstance(at := bad.at(document, p), list | dict) and not at)]

    def resealed(changed: dict[str, Any]) -> dict[str, Any]:
        with contextlib.suppress(Exception):
            changed["hashes"]["record"] = records.document_hash(changed)
        return changed

    nested: Any = []
    for _ in range(500):
        nested = [nested]
    strangers = st.one_of(
        st.sampled_from(needed).map(lambda p: bad.without(document, p)),
        bad.wrong_types(document, typed),
        st.sampled_from(RECORD_RANGES).map(lambda pair: bad.put(document, *pair)),
        st.just(bad.put(document, ("diagnostics",), {"deep": nested})),
    ).map(resealed)
    careless = st.sampled_from([p for p in bad.paths(document) if p[0] != "hashes"]).map(
        lambda p: bad.put(document, p, "changed by hand")
    )
    whole = (record.path / "record.json").read_bytes()
    contents = st.one_of(
        strangers.map(lambda d: json.dumps(d).encode()),
        careless.map(lambda d: json.dumps(d).encode()),
        bad.torn(whole, len(whole) - 3),
        bad.flipped(whole),
        st.binary(),
        st.integers(1000, 200_000).map(lambda n: b"[" * n),
        st.sampled_from([b"null", b"[]", b"{}", b"NaN", b"1e999", b'{"format": 1}']),
    )

    def refuse(content: bytes) -> None:
        (folder / "record.json").write_bytes(content)
        try:
            accepted = records.read(folder)
        except UserError as error:
            is_sentence(error)
            row = records.load(tmp_path).iloc[0]
            assert (row.status, row.run_id) == ("damaged", record.run_id)
        else:  # a flipped bit in the file's white space
            assert accepted is not None
            assert accepted.document == document

    fuzz("records", contents, refuse)


def test_malformed_curves(record: Record, tmp_path: Path) -> None:
    rows = record.curve
    row = rows[1]
    typed = [p for p in bad.paths(row) if schema.row_fault(bad.put(row, p, object())) and len(p) == 1]
    spoiled = st.one_of(
        bad.wrong_types(row, [p for p in typed if bad.at(row, p) not in ([], {})]),
        st.sampled_from([("update",), ("target",), ("source_val",), ("unsup",)]).map(lambda p: bad.without(row, p)),
        st.sampled_from(
            [(("target",), 101.0), (("update",), -1), (("unsup",), float("nan")), (("stage",), "\x1b[0m")]
        ).map(lambda pair: bad.put(row, *pair)),
    ).map(lambda r: json.dumps(r).encode())
    lines = st.one_of(spoiled, st.binary(min_size=1).filter(_no_row), bad.torn(json.dumps(row).encode(), 200))
    first, last = json.dumps(rows[0]).encode(), json.dumps(rows[2]).encode()

    def refuse(line: bytes) -> None:
        (tmp_path / "curve.jsonl").write_bytes(first + b"\n" + line + b"\n" + last + b"\n")
        found = records.read_curve(tmp_path)
        blank = not line.strip()
        assert found in ([rows[0]], []) or blank  # a file that is no text has no rows at all

    fuzz("curves", lines, refuse)


def _no_row(content: bytes) -> bool:
    return b"\n" not in content and b"\r" not in content and bool(content.strip())


def test_malformed_studies(record: Record, tmp_path: Path) -> None:
    publish.pack(tmp_path, [record.path], {str(record.path)})
    whole = {file: (tmp_path / file).read_bytes() for file in study.PARTS}
    run = tmp_path.joinpath(*record.path.parts[-3:])
    contents = st.sampled_from(sorted(whole)).flatmap(
        lambda file: st.tuples(
            st.just(file),
            st.one_of(bad.torn(whole[file], len(whole[file]) - 1), bad.flipped(whole[file]), st.binary()),
        )
    )

    def refuse(damaged: tuple[str, bytes]) -> None:
        file, content = damaged
        (tmp_path / file).write_bytes(content)
        study._read.cache_clear()  # the clock of a file system is too slow for this test
        try:
            seen = records.read(run)
            changed = seen is None or seen.changed_files()
        except UserError as error:
            is_sentence(error)
        else:  # a flipped bit that carries nothing, or one that leaves nothing of the run, or one that the seal finds
            left = study.names(run)
            assert changed or all(study.read_bytes(run / n) == (record.path / n).read_bytes() for n in left)
        (tmp_path / file).write_bytes(whole[file])

    fuzz("studies", contents, refuse)


@pytest.fixture
def handed(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, bytes], Path]:
    """The members of a sound bundle, of two runs, one failed run and a model; and a folder in which it lay."""
    monkeypatch.setattr(handover, "pictures", lambda root: {"figures/small-lite-curves.png": b"a picture"})
    monkeypatch.setattr(handover, "rendered", lambda root: {"tables/small-lite-cost.md": b"| a |", "tables.tex": b"%"})
    monkeypatch.setattr(handover.page, "write", lambda results, path, **_: path.write_text("<html>"))
    small.execute(small.spec("tsvdnet"), tmp_path / "runs")
    record = small.execute(small.spec("source-only"), tmp_path / "runs", keep_model="last")
    (failed := record.path.with_name("0" * 16)).mkdir()
    (failed / "spec.json").write_bytes((record.path / "spec.json").read_bytes())
    (failed / "failure.json").write_text('{"reason": "the trap was there"}')
    handover.hand_over(tmp_path / "runs", tmp_path / "sound.zip", models=True)
    with zipfile.ZipFile(tmp_path / "sound.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}, tmp_path


def read_every_way(handed: tuple[dict[str, bytes], Path], count: int = 0) -> int:
    """Malformed bundles, each read as the verbs read it: a sentence or the right bits; no file appears anywhere else."""
    members, home = handed
    runs, place = home / "runs", home / "place" / "deep" / "b.zip"
    place.parent.mkdir(parents=True)
    (home / "sound.zip").unlink()
    before = files_below(home)
    mark = home / "code-ran"
    sound = {p.name: (p / "record.json").read_bytes() for p in runs.glob("*/*/*") if (p / "record.json").exists()}
    assert len(sound) == 2
    (kept,) = (p.parent for p in runs.glob("*/*/*/model-last.safetensors"))
    weights = loading.sound(loading.find(kept), "last", "running")[1].weights

    turn = itertools.count()

    def predict(archive: Path) -> None:
        """As the verb begins: the record, then its model. What passes is the model that was trained."""
        assert loading.sound(loading.find(kept.name, archive), "last", "running")[1].weights == weights

    def refuse(content: bytes) -> None:
        place.write_bytes(content)
        bundle._opened.cache_clear()  # the clock of a file system is too slow for this test
        study._read.cache_clear()
        out = home / "out"
        try:
            for run in records.load(place).itertuples():
                if run.status == "done":
                    assert study.read_bytes(Path(run.path) / "record.json") == sound[run.run_id]
        except UserError as error:
            is_sentence(error)
        ways = (audit, states, study.missing, lambda p: study.unpack(p, out), lambda p: merge([p, p], out), predict)
        for read in ways:
            try:
                read(place)
            except UserError as error:
                is_sentence(error)
            if out.exists():
                assert all(p.name in bundle.UNFINISHED or p.is_dir() or known(p) for p in out.rglob("*"))
                shutil.rmtree(out)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert main(["status", "--results", str(place)]) in (0, 1, 2)
            if next(turn) % 10 == 0:  # it takes longer than all the others together
                assert main(["table", "--results", str(place)]) in (0, 1, 2)
        place.unlink()
        assert files_below(home) == before, "a file was written, or is gone"
        assert not mark.exists(), "code ran"

    def known(path: Path) -> bool:
        return path.name in (*study.HOME, *study.PARTS, "study.json", "merged.json") or bool(
            bundle.MODEL.fullmatch(path.name)
        )

    return fuzz("bundles", bundles.malformed(members, mark), refuse, count)


def files_below(root: Path) -> dict[str, int]:
    return {str(p): p.stat().st_size for p in root.rglob("*") if p.is_file()}


def test_malformed_bundles(handed: tuple[dict[str, bytes], Path]) -> None:
    read_every_way(handed)


@pytest.mark.soak
def test_2000_malformed_bundles(handed: tuple[dict[str, bytes], Path]) -> None:
    print(f"\n{read_every_way(handed, 2000)} malformed bundles: no traceback, no file beside, no code run")


def test_malformed_checkpoints(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = small.spec("source-only")
    monkeypatch.setenv("BENCHMARK_FAULT", "update=interrupt@6")
    with pytest.raises(KeyboardInterrupt):
        small.execute(spec, tmp_path / "runs", checkpoint_seconds=0.0)
    monkeypatch.delenv("BENCHMARK_FAULT")
    path = small.directory(spec, tmp_path / "runs") / "checkpoint.pt"
    whole = path.read_bytes()
    state = torch.load(path, weights_only=True)

    def spoiled(change: tuple[str, Any]) -> bytes:
        buffer = io.BytesIO()
        torch.save({**state, change[0]: change[1]}, buffer)
        return buffer.getvalue()

    keys = st.sampled_from(sorted(state))
    contents = st.one_of(
        bad.torn(whole, len(whole) - 1),
        bad.flipped(whole),
        st.binary(),
        st.tuples(keys, st.one_of(bad.text, st.integers(), st.none(), st.lists(st.integers()))).map(spoiled),
    )

    def refuse(content: bytes) -> None:
        path.write_bytes(content)
        run = fresh_run(small, spec, path.parent)
        try:
            checkpoint.restore(path, run.take)
        except checkpoint.Damaged as error:
            is_sentence(error)
        else:  # bits that mean nothing (a date in the archive): then the state is the right one
            assert run.update == state["update"]
            for name, tensor in run.method.state_dict()["modules"].items():
                assert torch.equal(tensor, state["method"]["modules"][name])

    fuzz("checkpoints", contents, refuse)


def fresh_run(small: Small, spec: Any, directory: Path) -> Any:
    from benchmark import data
    from benchmark.records.lease import Lease
    from benchmark.run.loop import Run
    from benchmark.spec import resolve

    bound = small.bound(spec)
    resolved = resolve(bound)
    dataset = data.load(resolved.suite, bound.tier, bound.split, small.data, {})
    return Run(resolved, dataset, directory, Lease(directory), device="cpu", data_root=small.data)


# -- data -------------------------------------------------------------------------------------------------------------


def test_malformed_npz(small: Small, tmp_path: Path) -> None:
    whole = (small.data / "digits" / "usps.npz").read_bytes()
    with np.load(small.data / "digits" / "usps.npz") as stored:
        arrays = dict(stored)

    def packed(changes: dict[str, Any]) -> bytes:
        buffer = io.BytesIO()
        kept = {k: v for k, v in {**arrays, **changes}.items() if v is not None}
        np.savez(buffer, **kept)
        return buffer.getvalue()

    x, y = arrays["x_train"], arrays["y_train"]
    wrong: list[dict[str, Any]] = [
        {"x_train": None}, {"y_test": None}, {"x_train": x.astype(float)}, {"x_train": x[:-1]}, {"x_train": x[:, 0]},
        {"y_train": y + 1}, {"y_train": y.astype(np.int64) - 1}, {"y_train": y.astype(str)},
        {"y_train": y[:, None]}, {"x_test": arrays["x_test"][:0], "y_test": arrays["y_test"][:0]},
        {"x_train": np.array([object()] * 60)}, {"x_train": x.astype(object)}, {"y_train": np.array([{}] * 60)},
    ]  # fmt: skip
    contents = st.one_of(
        st.sampled_from(wrong).map(packed), bad.torn(whole, len(whole) - 1), st.binary(), bad.flipped(whole),
        st.binary().map(lambda b: _npz_of({"x_train.npy": b, "y_train.npy": b})),
    )  # fmt: skip
    path = tmp_path / "digits" / "usps.npz"
    path.parent.mkdir()

    def refuse(content: bytes) -> None:
        path.write_bytes(content)
        try:
            found = digits._sound(path)
        except UserError as error:
            is_sentence(error)
        else:
            assert all(np.array_equal(found[key], arrays[key]) for key in arrays)

    fuzz("npz", contents, refuse)


def _npz_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_malformed_images(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    whole = {}
    for kind in ("jpeg", "png"):
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, kind)
        whole[kind] = buffer.getvalue()
    bomb = whole["png"][:16] + (60_000).to_bytes(4, "big") * 2 + whole["png"][24:]
    contents = st.one_of(
        bad.torn(whole["jpeg"], len(whole["jpeg"]) // 2), bad.torn(whole["png"], len(whole["png"]) // 2), st.binary(),
        st.binary(min_size=8).map(lambda b: whole["png"][:33] + b), st.binary().map(lambda b: whole["jpeg"][:20] + b),
        st.binary().map(lambda b: b"GIF89a" + b), st.just(bomb),
    )  # fmt: skip
    fuzz("images", contents, refused_by(lambda p: decoded.read_image(p, 32), tmp_path / "picture.jpg"))


def test_malformed_split_lists(tmp_path: Path) -> None:
    good = "dog/one.jpg 1"
    name = bad.text.filter(lambda t: t.split() == [t])
    lines = st.one_of(
        name,  # no label
        st.tuples(name, name.filter(lambda t: not t.lstrip("-").isdigit())).map(" ".join),
        st.tuples(name, st.integers(max_value=0)).map(lambda p: f"{p[0]} {p[1]}"),  # labels of PACS start at 1
        name.map(lambda n: f"../{n} 1"),
        name.map(lambda n: f"a/../../{n} 1"),
        name.map(lambda n: f"/{n} 1"),
        st.integers(10**6, 10**30).map(lambda n: f"a.jpg {n}"),
        st.sampled_from(["a.jpg ²", "a.jpg ١٢", "a.jpg --1", "a.jpg 1-", "a.jpg " + "9" * 5000]),
    ).filter(lambda t: len(t.splitlines()) == 1 and t.strip())  # fmt: skip
    path = tmp_path / "list.txt"

    def refuse(line: str) -> None:
        write_bytes(path, f"{good}\n{line}\n".encode("utf-8", "surrogatepass"), durable=False)
        with pytest.raises(UserError) as caught:
            lists.read_list(path, first_label=1)
        is_sentence(caught.value)

    fuzz("lists", lines, refuse)


# -- the command line -------------------------------------------------------------------------------------------------

WORD = bad.text.filter(lambda t: not t.startswith("-") and t.strip() and "," not in t)
MISTAKES = st.one_of(
    st.tuples(st.just("--suite"), WORD.map(lambda t: f"no {t}")),
    st.tuples(st.just("--suite"), WORD.map(lambda t: f"{t}.toml")),
    st.tuples(st.just("--tier"), WORD.map(lambda t: f"no {t}")),
    st.tuples(st.just("--methods"), WORD.map(lambda t: f"no {t}")),
    st.tuples(st.just("--methods"), WORD.map(lambda t: f"{t}.py:Class")),
    st.tuples(st.just("--methods"), WORD.map(lambda t: f"tsvdnet:no {t}")),
    st.tuples(st.just("--targets"), WORD.map(lambda t: f"no {t}")),
    st.tuples(st.just("--standards"), WORD.map(lambda t: f"no {t}")),
    st.tuples(st.just("--split"), WORD.map(lambda t: f"no {t}")),
    st.tuples(st.just("--seeds"), st.one_of(WORD.map(lambda t: f"x{t}"), st.sampled_from(["5-1", "0-99999999999", "-1", "1e3"]))),
    st.tuples(st.just("--set"), st.one_of(WORD.filter(lambda t: "=" not in t), WORD.map(lambda t: f"tsvdnet.no {t}=1"))),
    st.tuples(st.just("--set"), st.sampled_from(["run.batch=0", "run.nothing=1", "tsvdnet.lam=nan", "tsvdnet.lam=x",
                                                 "run.precision=7", "run.optimiser.lr_extractor=1e999",
                                                 "dann.x=1", "run.updates=2.5"])),
    st.tuples(st.just("--limit-steps"), st.one_of(WORD.map(lambda t: f"x{t}"), st.integers(max_value=0).map(str))),
    st.tuples(st.just("--stage-budget"), WORD.map(lambda t: f"no {t}")),
    st.tuples(st.just("--threads"), st.sampled_from(["0", "-3", "many", "1.5"])),
    st.tuples(st.just("--tuned"), WORD.map(lambda t: f"/no/such/{t}")),
    st.tuples(bad.text.map(lambda t: f"--no-{t}"), st.just("1")),
)  # fmt: skip
VERBS = ["status", "audit", "methods", "doctor", "verify", "publish", "plan", "run"]
OTHERS = st.one_of(
    WORD.map(lambda t: (f"no {t}",)),  # no such verb
    st.tuples(st.sampled_from(VERBS), bad.text.map(lambda t: f"--no-{t}")),
    WORD.map(lambda t: ("methods", f"no {t}")),
    WORD.map(lambda t: ("audit", f"/no/such/{t}")),
    WORD.map(lambda t: ("verify", f"no {t}", "--results", "/no/such/folder")),
    WORD.map(lambda t: ("publish", f"../{t}", "--results", "/no/such/folder")),
    WORD.map(lambda t: ("explain", f"no {t}")),
    st.just(("plan",)),
    st.just(("run", "--suite")),
)  # fmt: skip


def test_malformed_command_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    valid = ["--suite", "digits", "--methods", "tsvdnet", "--results", str(tmp_path / "runs")]
    requests = MISTAKES.map(lambda words: ["plan", *valid, *words])

    def refuse(words: Any) -> None:
        said, complained = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
            code = main(list(words))
        assert code in (1, 2), (words, said.getvalue())
        assert complained.getvalue().strip()
        assert "Traceback" not in complained.getvalue()

    fuzz("commands", st.one_of(requests, requests, OTHERS), refuse)
    assert not (tmp_path / "runs").exists()
