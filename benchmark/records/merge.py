"""Results of several people in one study: every run once, every source named, nothing that `audit` would not trust.

Two records of one run are the same run when their results are the same bits: curve, weights, accuracies, values. Time and
machine may differ. Of such records one stands: the one that seals the most models, of those one that has its arrays, of
those the one that was named first. `merged.json` beside the study says which run came from where.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark import records
from benchmark.errors import UserError
from benchmark.files import check_new, new_folder, shown, write_bytes, write_json
from benchmark.records import StateName, bundle, models, study
from benchmark.records.audit import audit

if TYPE_CHECKING:
    import pandas as pd

KEPT = ("spec.json", "curve.jsonl", "record.json")  # no checkpoint, no heartbeat, no lease
TRIALS = (".tuning", "trials")  # where `tune` keeps its trials among results, and where a study has them
MERGED = "merged.json"
RESULT = ("weights", "accuracy", "selected", "per_class", "statistics", "resolved", "protocol", "revision")
NAMED = 10  # conflicts that are named one by one

Place = tuple[str, ...]  # suite, tier, run_id


# -- runs from several places into one study --------------------------------------------------------------------------


def finished(root: Path) -> pd.DataFrame:
    """The runs of a folder that are done; none when there is no such folder."""
    frame = records.load(root)
    return frame[frame.status == "done"]


def trials(root: Path) -> Path:
    """Where the trials of `tune` lie: those of a study beside its files, those of a tree out of the way of its tables."""
    return root / TRIALS[1] if study.is_study(root) else root / TRIALS[0]


def choices(root: Path) -> list[str]:
    """The files in which `tune` has written down what it chose."""
    return [name for name in bundle.names(root) if name.startswith("tuned-") and name.endswith(".toml")]


def pack(home: Path, sources: Iterable[Path | str], with_arrays: Container[str] = ()) -> list[Mapping[str, Any]]:
    """Make a study of finished runs, wherever they lie, and give their records; of a run in two places the later stands."""
    runs, documents = [], []
    for place, source in sorted({source.parts[-3:]: source for source in map(Path, sources)}.items()):
        record = records.read(source)
        changed = record.changed_files() if record else ["record.json"]
        if record is None or changed:
            raise UserError(
                f"{', '.join(changed)} of {source} changed after the run. Type: python -m benchmark audit {source}"
            )
        files = {name: study.read_bytes(source / name) for name in KEPT}
        if arrays := _arrays(record, home.joinpath(*place), str(source) in with_arrays):
            files["artifacts.npz"] = arrays
        runs.append((study.columns(record.document, source), files))
        documents.append(record.document)
    study.pack(home, runs)
    return documents


def _arrays(record: records.Record, there: Path, wanted: bool) -> bytes:
    """artifacts.npz of a run when it is asked for, or when the study has it already; else nothing."""
    try:
        arrays = study.read_bytes((record.path if wanted else there) / "artifacts.npz")
    except FileNotFoundError:
        return b""
    sealed = record["hashes"].get("artifacts") in (None, hashlib.sha256(arrays).hexdigest())
    return arrays if wanted or sealed else b""


# -- merge ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Merged:
    """What was put together."""

    runs: int
    twice: int  # that several sources have, alike
    left: int  # that are not done, and were left out
    sources: list[dict[str, Any]]


def merge(sources: Sequence[Path], out: Path) -> Merged:
    """Put the finished runs of trees, studies and bundles into a new study at `out`, all of them or nothing at all."""
    if len(sources) < 2:
        raise UserError("merge puts two or more results together. Type: python -m benchmark merge A B --out FOLDER")
    check_new(out)
    for source in sources:
        check(source)
    runs, tried = _together(sources), _together([trials(source) for source in sources])
    chosen, conflicts = _choices(sources)
    conflicts += _conflicts(runs) + _conflicts(tried)
    if conflicts:
        more = f" and {len(conflicts) - NAMED} more" if len(conflicts) > NAMED else ""
        raise UserError(
            f"{len(conflicts)} of the same name and not the same content: {'; '.join(conflicts[:NAMED])}{more}. Nothing was "
            "written. Find out which is right (python -m benchmark verify RUN_ID --results A), and leave the other out."
        )
    told = [_told(source, i, runs) for i, source in enumerate(sources)]
    with new_folder(out) as home:
        _write(home, sources, runs, tried, chosen)
        came = {"/".join(place): [i for i, _ in found] for place, found in sorted(runs.items())}
        write_json(home / MERGED, {"sources": told, "runs": came})
    left = sum(state.name is not StateName.DONE for source in sources for _, state in records.surveyed(source))
    return Merged(len(runs), sum(len(found) > 1 for found in runs.values()), left, told)


def check(source: Path) -> None:
    """A UserError when `audit` finds a record that cannot be trusted, or nothing that is finished."""
    places = [source]
    if any(records.run_directories(trials(source))) and not study.is_study(source):
        places.append(trials(source))  # hidden in a tree, where audit does not look by itself
    for place in places:
        result = audit(place)
        wrong = [f for f in result.findings if f.level == "error"]
        if wrong:
            more = f" ({len(wrong)} such findings)" if len(wrong) > 1 else ""
            raise UserError(
                f"{source} is refused: {shown(wrong[0].path)}: {shown(wrong[0].words)}{more}. Nothing was written. "
                f"Type: python -m benchmark audit {place}"
            )
        if place == source and not result.sound:
            raise UserError(
                f"{source} holds no finished run to merge. Type: python -m benchmark status --results {source}"
            )


def _together(roots: Sequence[Path]) -> dict[Place, list[tuple[int, Path]]]:
    """Every finished run by its place, with the number of each root that has it and its folder there."""
    found: dict[Place, list[tuple[int, Path]]] = {}
    for i, root in enumerate(roots):
        for place, state in records.surveyed(root):
            if state.name is StateName.DONE:
                found.setdefault(Path(place).parts, []).append((i, root / place))
    return found


def _conflicts(runs: Mapping[Place, Sequence[tuple[int, Path]]]) -> list[str]:
    """A phrase for every run whose records do not say the same."""
    found = []
    for place, there in runs.items():
        first, *others = (_read(path) for _, path in there) if len(there) > 1 else [None]
        for (_, path), other in zip(there[1:], others, strict=True):
            assert first is not None
            assert other is not None
            differs = [key for key in RESULT if first.document.get(key) != other.document.get(key)]
            differs += ["curve"] if first["hashes"]["curve"] != other["hashes"]["curve"] else []
            if differs:
                spec = first["spec"]
                run = f"run {place[-1]} ({spec['method']} → {spec['target']}, seed {spec.get('seed', 0)})"
                found.append(shown(f"{run}: {there[0][1]} and {path} differ in {', '.join(differs)}"))
    return found


def _choices(sources: Sequence[Path]) -> tuple[dict[str, bytes], list[str]]:
    """(what `tune` chose, by file; a phrase for every file that two sources have and that differs)."""
    found: dict[str, bytes] = {}
    conflicts = []
    for source in sources:
        for name in choices(source):
            content = bundle.read_bytes(source / name)
            if found.setdefault(name, content) != content:
                conflicts.append(shown(f"{name} of {source} is not that of a source before it"))
    return found, conflicts


def _told(source: Path, number: int, runs: Mapping[Place, Sequence[tuple[int, Path]]]) -> dict[str, Any]:
    """Where runs came from: the source's name and kind, its commits, and hashes that say which results they were."""
    held = [_read(path) for found in runs.values() for i, path in found if i == number]
    seals = sorted(f"{record.run_id} {record['hashes']['record']}" for record in held)
    told: dict[str, Any] = {
        "name": shown(source.resolve().name),
        "kind": "bundle" if bundle.is_bundle(source) else "study" if study.is_study(source) else "tree",
        "runs": len(held),
        "commits": sorted({str(record["provenance"]["commit"]) for record in held}),
        "records": hashlib.sha256("\n".join(seals).encode()).hexdigest(),
    }
    if bundle.is_bundle(source):
        about = bundle.about(source)
        with source.open("rb") as stream:
            told["sha256"] = hashlib.file_digest(stream, "sha256").hexdigest()
        told |= {"name": about["name"], "code": about.get("code")}
    if before := study.read_object(source / MERGED).get("sources"):
        told["merged"] = before  # it was put together itself
    return told


def _write(
    home: Path,
    sources: Sequence[Path],
    runs: Mapping[Place, Sequence[tuple[int, Path]]],
    tried: Mapping[Place, Sequence[tuple[int, Path]]],
    chosen: Mapping[str, bytes],
) -> None:
    """The study's files, of every run those of the record that stands; its models from whichever source has them."""
    incomplete = "; ".join(dict.fromkeys(filter(None, map(study.missing, sources))))[:1000]
    for place, together, words in ((home, runs, incomplete), (home / TRIALS[1], tried, "")):
        if together:
            paths = [_standing(found) for found in together.values()]
            study.describe(place, pack(place, paths, {str(path) for path in paths}), words)
    for run, found in runs.items():
        _models(home.joinpath(*run), _read(_standing(found)), [path for _, path in found])
    for name, content in chosen.items():
        write_bytes(home / name, content)


def _standing(found: Sequence[tuple[int, Path]]) -> Path:
    """Of the records of one run the one that keeps the most of it usable: a model that no record seals is lost."""
    paths = [path for _, path in found]
    if len(paths) == 1:
        return paths[0]
    return max(
        paths, key=lambda path: (len(_read(path).document.get("models", {})), study.exists(path / "artifacts.npz"))
    )


def _models(there: Path, record: records.Record, sources: Iterable[Path]) -> None:
    """The models that a record seals, from the first source that has each; another run's, or another's, stay where they are."""
    for source in sources:
        for rule, path in models.kept(source).items():
            wanted = models.sealed(record, rule)
            if wanted and not (there / path.name).exists() and models.digest(path) == wanted:
                bundle.transfer(path, there / path.name)


def _read(path: Path) -> records.Record:
    record = records.read(path)
    assert record is not None  # it was listed as done
    return record
