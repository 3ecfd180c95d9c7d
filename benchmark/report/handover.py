"""A study in one file for whoever asks: its records as they are, and what they show, rendered.

`benchmark.records.bundle` says what the file holds; here it is filled, from a results folder or from a published study.
"""

from __future__ import annotations

import importlib.metadata
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmark import records
from benchmark.errors import UserError
from benchmark.files import shown, write_bytes
from benchmark.records import bundle, study
from benchmark.records.merge import MERGED, TRIALS, choices, finished, pack, trials
from benchmark.report import page
from benchmark.report.publish import pictures, rendered
from benchmark.run.provenance import commit, lock


@dataclass(frozen=True)
class Bundled:
    """What was handed over."""

    path: Path
    runs: int  # that are done
    unfinished: int
    models: int
    models_left: int  # that are kept and were not asked for


def hand_over(source: Path, out: Path | None = None, *, artifacts: bool = True, models: bool = False) -> Bundled:
    """Write the bundle of all runs below `source`; by default `<name of the folder>.zip` where one stands.

    A published study goes as it is, with a report if it has none. Of a results folder everything is rendered.
    """
    frame, out = _runs(source), out or Path(f"{source.resolve().name}.zip")
    if out.exists() and not bundle.is_bundle(out):
        raise UserError(
            f"{out} is there already and is no bundle: it is not written over. Name another file: --out FILE"
        )
    done = frame[frame.status == "done"]
    kept = _models(done)
    if models and not kept:
        raise UserError(f"No run in {source} has kept its model: leave --models out.")
    with tempfile.TemporaryDirectory(prefix="bundle-") as folder:
        home = Path(folder) / shown(source.resolve().name)
        _fill(home, source, done, artifacts)
        members: dict[str, bytes | Path] = {
            path.relative_to(home).as_posix(): path for path in home.rglob("*") if path.is_file()
        }
        members |= _unfinished(frame[frame.status != "done"])
        members |= kept if models else {}
        sha, dirty = commit()
        code = {
            "version": importlib.metadata.version("msda-benchmark"),
            "commit": sha,
            "dirty": dirty,
            "lock": lock()[0],
        }
        bundle.write(out, members, {"name": home.name, "runs": len(done), "code": code})
    return Bundled(out, len(done), len(frame) - len(done), len(kept) if models else 0, 0 if models else len(kept))


def _runs(source: Path) -> pd.DataFrame:
    """Every run of the source, if it can be handed over."""
    if bundle.is_bundle(source):
        raise UserError(
            f"{source} is a bundle already: hand it over as it is, or unpack it: python -m benchmark unpack"
        )
    frame = records.load(source)
    if not (frame.status == "done").any():
        raise UserError(
            f"There is no finished run in {source} to hand over. Type: python -m benchmark run --suite digits"
        )
    damaged = int((frame.status == "damaged").sum())
    if damaged:
        raise UserError(
            f"{damaged} runs in {source} cannot be trusted and are not handed over. Type: python -m benchmark audit {source}"
        )
    return frame


def _fill(home: Path, source: Path, done: pd.DataFrame, artifacts: bool) -> None:
    """The study's folder as it will be in the file."""
    published = study.is_study(source)
    tried = finished(trials(source))
    for name in _published(source) if published else []:
        write_bytes(home / name, (source / name).read_bytes(), durable=False)
    documents = pack(home, done.path, set(done.path) if artifacts else ())  # what the copy holds already stays as it is
    if not artifacts:
        (home / "artifacts.parquet").unlink(missing_ok=True)
    if not tried.empty:
        there = home / TRIALS[1]
        told = pack(there, tried.path)
        if not (there / "study.json").exists():
            study.describe(there, told)
    for name in [*choices(source), *(name for name in bundle.names(source) if name == MERGED)]:
        write_bytes(home / name, (source / name).read_bytes(), durable=False)
    if not (home / "tables").exists():
        for name, content in {**rendered(source), **pictures(source)}.items():
            write_bytes(home / name, content, durable=False)
        study.describe(home, documents, study.missing(source))
    if not (home / "report.html").exists():
        page.write(source, home / "report.html", figures=True, title=f"Study {home.name}")


def _published(source: Path) -> list[str]:
    """The files of a published study that belong into its bundle, by their names there."""
    found = (p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file() and not p.is_symlink())
    return [name for name in found if bundle.NAME.fullmatch(name) and name.count("/") < 2]


def _unfinished(frame: pd.DataFrame) -> dict[str, bytes | Path]:
    """What is told of the runs that are not done, by the name in the bundle."""
    found: dict[str, bytes | Path] = {}
    for run in map(Path, frame.path):
        for name in bundle.UNFINISHED:
            if name in bundle.names(run):  # no link, which may lead anywhere
                found["/".join((*run.parts[-3:], name))] = bundle.read_bytes(run / name)
    return found


def _models(done: pd.DataFrame) -> dict[str, bytes | Path]:
    """The models that runs have kept, by the name in the bundle."""
    return {
        "/".join((*run.parts[-3:], name)): run / name
        for run in map(Path, done.path)
        for name in filter(bundle.MODEL.fullmatch, bundle.names(run))
    }
