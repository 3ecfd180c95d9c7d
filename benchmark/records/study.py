"""A study is a few files: all its records and curves, each run still sealed by the hashes in its own record.

| file of `results/<study>/` | a row a run, by suite, tier and run_id |
|---|---|
| records.parquet | `COLUMNS`, for anybody's pandas, and the bytes of `spec.json` and `record.json` |
| curves.parquet | the bytes of `curve.jsonl` |
| artifacts.parquet | the bytes of `artifacts.npz`, of the runs whose arrays are kept |
| study.json | protocols, commits, number of runs, what is missing, hashes of the tables |

A run keeps its place: `<study>/<suite>/<tier>/<run_id>/curve.jsonl` names bytes of a study as it names a file of a tree,
and `read_bytes` gives either; a file on disk comes first. A bundle (`benchmark.records.bundle`) is a folder here. What is
read may come from a stranger: sizes are bounded, nothing is unpickled, and what cannot be what `pack` writes is an error
that names the file.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmark import files
from benchmark.errors import UserError
from benchmark.files import PLACE, write_bytes
from benchmark.records import bundle

PARTS = {  # the files of a run, by the file of the study that holds them
    "records.parquet": ("spec.json", "record.json"),
    "curves.parquet": ("curve.jsonl",),
    "artifacts.parquet": ("artifacts.npz",),
}
RECORDS = "records.parquet"
HOME = {name: file for file, names in PARTS.items() for name in names}
COLUMNS = {
    **dict.fromkeys(("run_id", "suite", "tier", "method", "preset", "standard", "target", "split"), "string"),
    "seed": "int64",
    **dict.fromkeys(("last", "source_val", "unsup", "oracle"), "double"),
    "updates": "int64",
    **dict.fromkeys(("seconds", "images_per_s"), "double"),
    **dict.fromkeys(("commit", "data_fingerprint"), "string"),
}
KEYS = ("run_id", "suite", "tier")
RUN = re.compile(r"[0-9a-f]{16}")
LARGEST = 2**30  # bytes of one file of a study, packed or not; the largest real one has a few megabytes
ROWS = 16  # decoded at once: what few bytes can stand for is bounded by what is counted after each step


class Place(NamedTuple):
    """A run in a study: the path and name that its directory would have."""

    path: str
    name: str


# -- reading --------------------------------------------------------------------------------------------------------


def is_study(root: Path | str) -> bool:
    """Whether a folder, or a bundle, holds a study's files."""
    return bundle.is_file(f"{root}/{RECORDS}")


def places(root: Path | str) -> list[Place]:
    """The runs of the study in this folder, in the order of a tree; none when there is no study."""
    return [Place(os.path.join(root, r["suite"], r["tier"], run), run) for run, r in stored(root).items()]


def stamp(root: Path | str) -> str:
    """Changes when one of the study's files changes; empty without a study."""
    return " ".join(str(bundle.state(f"{root}/{file}")) for file in PARTS) if is_study(root) else ""


def read_bytes(path: Path | str, largest: int = files.LARGEST) -> bytes:
    """The content of a run's file, on disk or in the study that its folder belongs to; an OSError when it is in neither."""
    try:
        return bundle.read_bytes(path, largest)
    except FileNotFoundError:
        content = _content(Path(path))
        if content is None:
            raise
        return content


def read_json(path: Path | str) -> Any | None:
    """The document of a run's file, or None when it is absent, torn, or nothing that this suite can have written."""
    try:
        return files.parse_json(read_bytes(path))
    except (OSError, ValueError, RecursionError):
        return None


def read_object(path: Path | str) -> dict[str, Any]:
    """The JSON object of a file of a run or a study, or {} when there is none."""
    document = read_json(path)
    return document if isinstance(document, dict) else {}


def exists(path: Path | str) -> bool:
    """Whether a run has this file, on disk or in a study; a dead link counts, as something that is there."""
    return os.path.lexists(path) or bundle.is_file(path) or _content(Path(path)) is not None


def names(directory: Path | str) -> list[str]:
    """The files of a run in a study; in a bundle also those that it has apart."""
    apart = [] if os.path.isdir(directory) else bundle.names(directory)
    return sorted({*apart, *(name for name in HOME if _content(Path(directory) / name) is not None)})


def mislabelled(directory: Path, document: Mapping[str, Any]) -> str:
    """What the columns of a study say otherwise than the (sound) record of this run, in words; empty on disk."""
    if len(directory.parents) < 3 or os.path.lexists(directory / "record.json"):
        return ""
    row = stored(directory.parents[2]).get(directory.name, {})
    wanted = columns(document, directory)
    wrong = [key for key in wanted if row and row[key] != wanted[key]]
    return f"the study's column {wrong[0]} says otherwise than the record" if wrong else ""


def missing(root: Path | str) -> str:
    """What an incomplete study lacks, in the words of who published it; empty when it is whole, or no study."""
    words = read_object(f"{root}/study.json").get("incomplete") if is_study(root) else ""
    return files.shown(words)[:1000] if isinstance(words, str) else ""


def _content(path: Path) -> bytes | None:
    """The bytes of `<study>/<suite>/<tier>/<run_id>/<name>` in the study's files."""
    if path.name not in HOME or len(path.parents) < 4 or not is_study(path.parents[3]):
        return None
    root, (suite, tier, run) = path.parents[3], path.parts[-4:-1]
    found = stored(root).get(run)
    if found is None or (found["suite"], found["tier"]) != (suite, tier):
        return None
    return stored(root, HOME[path.name]).get(run, {}).get(path.name)


def stored(root: Path | str, file: str = RECORDS) -> dict[str, dict[str, Any]]:
    """The rows of one file of a study by run_id; {} when it is not there."""
    path = f"{root}/{file}"
    state = bundle.state(path)
    return _read(path, state) if state else {}


@lru_cache(maxsize=12)
def _read(path: str, state: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    """Every row, looked at once for each state of the file; a UserError when it is not what `pack` writes."""
    import pyarrow as pa  # half a second that `status` on a tree need not wait for
    import pyarrow.parquet as pq

    file = os.path.basename(path)
    wanted = _schema(file)
    found: dict[str, dict[str, Any]] = {}
    size = 0
    try:
        content = bundle.read_bytes(path, LARGEST)
        table = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        for field in wanted:
            if field.name not in table.schema_arrow.names:
                raise ValueError(f"it has no column {field.name}")
            if table.schema_arrow.field(field.name).type != field.type:
                raise ValueError(f"its column {field.name} is not {field.type}")
        chunks = [table.metadata.row_group(i) for i in range(table.metadata.num_row_groups)]
        if sum(c.total_byte_size for c in chunks) > LARGEST:
            raise ValueError("it unpacks to more than any study holds")
        for batch in table.iter_batches(ROWS, columns=wanted.names, use_threads=False):
            size += batch.nbytes
            if size > LARGEST:
                raise ValueError("it unpacks to more than any study holds")
            for row in batch.to_pylist():
                _check(row, file, found)
                found[row["run_id"]] = row
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        said = files.shown(str(error).split("\n")[0])[:200].rstrip(". ") or type(error).__name__
        raise UserError(
            f"{path} is damaged: {said}. Fetch the study again, or publish it again from its runs."
        ) from None
    return dict(sorted(found.items(), key=lambda item: [str(item[1].get(key)) for key in ("suite", "tier", "run_id")]))


def _check(row: dict[str, Any], file: str, found: Mapping[str, Any]) -> None:
    """A ValueError in words for a row that no run can have."""
    run = row["run_id"]
    if run is None or not RUN.fullmatch(run):
        raise ValueError(f"{str(run)[:40]!r} is no run_id")
    if run in found:
        raise ValueError(f"it holds run {run} twice")
    if any(row[name] is None or len(row[name]) > files.LARGEST for name in PARTS[file]):
        raise ValueError(f"a file of run {run} is missing or too large")
    if file == RECORDS and not all(PLACE.fullmatch(row[key] or "") for key in ("suite", "tier")):
        raise ValueError(f"run {run} lies in no folder of a suite and a tier")


# -- writing --------------------------------------------------------------------------------------------------------


def columns(document: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """The row of a sound record in records.parquet; `suite` and `tier` are its folders."""
    spec, cost = document["spec"], document["cost"]
    suite, tier, run_id = directory.absolute().parts[-3:]
    row: dict[str, Any] = {"run_id": run_id, "suite": suite, "tier": tier, "seed": spec.get("seed", 0)}
    row |= {key: spec.get(key, "") for key in ("method", "preset", "standard", "target", "split")}
    row |= {key: document["accuracy"][key] for key in ("last", "source_val", "unsup", "oracle")}
    row |= {key: cost.get(key) for key in ("updates", "seconds", "images_per_s")}
    return {**row, "commit": document["provenance"]["commit"], "data_fingerprint": document["data"]["fingerprint"]}


def pack(root: Path, runs: Iterable[tuple[Mapping[str, Any], Mapping[str, bytes]]]) -> None:
    """Write the files of a study: of each run its columns and the bytes of its files. The same runs give the same bytes.

    A file that holds these rows already is left alone, so that another pyarrow changes nothing either. records.parquet
    is replaced last: a study that was cut off while it grew is the one from before.
    """
    rows = {row["run_id"]: {**row, **content} for row, content in runs}
    ordered = sorted(rows.values(), key=lambda row: [row[key] for key in ("suite", "tier", "run_id")])
    for suite in {row["suite"] for row in ordered if not PLACE.fullmatch(row["suite"])}:
        raise UserError(
            f"Runs in a folder {files.shown(suite)!r} cannot go into a study: nobody could read it. Its name would have to be "
            "made of the letters a to z, digits, dots, dashes and underscores. Rename the suite file, and run them again."
        )
    for file, inside in reversed(PARTS.items()):
        kept = [{key: row[key] for key in _schema(file).names} for row in ordered if all(n in row for n in inside)]
        if not kept:
            (root / file).unlink(missing_ok=True)
        elif not _holds(root, file, kept):
            write_bytes(root / file, _packed(file, kept))


def _holds(root: Path, file: str, rows: list[dict[str, Any]]) -> bool:
    try:
        return list(stored(root, file).values()) == rows
    except UserError:
        return False  # damaged: it is written anew


def _packed(file: str, rows: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = sum(len(row[name]) for row in rows for name in PARTS[file])
    if size > LARGEST // 2:  # the columns beside them have their room too
        raise UserError(
            f"{file} would hold {size} bytes, more than a study can: keep fewer --artifacts (bundle: --no-artifacts), or cut it "
            "in two."
        )
    out = io.BytesIO()
    pq.write_table(
        pa.Table.from_pylist(rows, schema=_schema(file)),
        out,
        compression="zstd",
        compression_level=19,
        use_dictionary=False,
        write_statistics=False,  # else the least and the largest record stand in the footer, whole
        write_page_checksum=True,
        row_group_size=len(rows),
        data_page_size=2**26,  # records are alike: in one page the next costs little
    )
    return out.getvalue()


def _schema(file: str) -> Any:
    """The columns of one file of a study, with their types."""
    import pyarrow as pa

    keys = COLUMNS if file == RECORDS else {key: "string" for key in KEYS}
    return pa.schema(
        [
            *((key, pa.type_for_alias(kind)) for key, kind in keys.items()),
            *((n, pa.large_binary()) for n in PARTS[file]),
        ]
    )


def describe(root: Path, documents: Iterable[Mapping[str, Any]], incomplete: str = "") -> None:
    """Write study.json: what the records have in common, what they lack, and the tables that are there now."""
    protocols: dict[str, set[Any]] = {}
    commits, count = set(), 0
    for document in documents:
        protocols.setdefault(document["spec"]["suite"], set()).add(document.get("protocol"))
        commits.add(document["provenance"]["commit"])
        count += 1
    note = {
        "name": root.name,
        "runs": count,
        "protocols": {suite: sorted(found, key=str) for suite, found in protocols.items()},
        "commits": sorted(commits),
        "incomplete": incomplete,
        "tables": tables(root),
    }
    files.write_json(root / "study.json", note)


def tables(root: Path) -> dict[str, str]:
    """sha256 of each table of a study, by its name."""
    found = [f"tables/{name}" for name in bundle.names(root / "tables") if name.endswith(".md")]
    found += ["tables.tex"] if bundle.is_file(root / "tables.tex") else []
    return {name: hashlib.sha256(bundle.read_bytes(root / name)).hexdigest() for name in sorted(found)}


def unpack(root: Path, out: Path) -> int:
    """The tree of a study, byte for byte what the hashes of its records cover; gives the number of runs."""
    if not is_study(root):
        raise UserError(
            f"{root} is no published study: it has no {RECORDS}. Type: python -m benchmark unpack results/NAME"
        )
    files.check_new(out)
    runs = {run.path for run in places(root)} | set(bundle.runs(root) if bundle.is_bundle(root) else [])
    with files.new_folder(out) as home:
        for run in sorted(runs):
            target = home / os.path.relpath(run, root)
            apart = {name for name in bundle.names(run) if bundle.MODEL.fullmatch(name)}  # kept beside a study's files
            for name in sorted({*names(run)} - apart):
                write_bytes(target / name, read_bytes(Path(run) / name, LARGEST), durable=False)
            for name in sorted(apart):
                bundle.transfer(Path(run) / name, target / name, durable=False)
    return len(runs)
