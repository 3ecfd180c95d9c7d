"""Malformed records, curves, studies and checkpoints: each is refused with a sentence."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

from benchmark import records
from benchmark.errors import UserError
from benchmark.records import Record, schema, study
from benchmark.report import publish
from benchmark.run import checkpoint
from tests.safety import malformed as bad
from tests.safety.fuzz import fuzz, is_sentence
from tests.safety.small import Small

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
