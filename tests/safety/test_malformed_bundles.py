"""Malformed bundles: each is refused with a sentence, or gives the right bits; nothing appears beside it."""

from __future__ import annotations

import contextlib
import io
import itertools
import shutil
import zipfile
from pathlib import Path

import pytest

from benchmark import records
from benchmark.__main__ import main
from benchmark.errors import UserError
from benchmark.launch.status import states
from benchmark.records import bundle, study
from benchmark.records.audit import audit
from benchmark.records.merge import merge
from benchmark.report import handover
from benchmark.run.model import loading
from tests.safety import bundles
from tests.safety.fuzz import fuzz, is_sentence
from tests.safety.small import Small


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
