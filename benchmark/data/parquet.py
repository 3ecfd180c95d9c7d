"""Pictures in parquet files as Hugging Face lays them out, row by row; only bytes, numbers and text are read, never code.

Columns: `image` (or `img`), a struct {bytes, path} or plain binary, each a whole JPEG, PNG or WebP file; `label`, a number
or a name; `domain` and `split`, if there are any; a name of the picture (`image_path`, `file_name`, `filename`), if any.
The names behind numbers stand in the file's own description (`huggingface` in the schema's metadata).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from benchmark.errors import UserError

IMAGE, NAME = ("image", "img"), ("image_path", "file_name", "filename")
BATCH = 64  # rows in memory at once: photographs are large
MARKS = {b"\xff\xd8\xff": ".jpg", b"\x89PNG": ".png", b"RIFF": ".webp"}


@dataclass(frozen=True)
class Row:
    """One picture: its file's bytes, the suffix they deserve (none: no picture), its name if it has one, and what it is."""

    image: bytes
    suffix: str
    name: str
    label: int | str  # the class's name if the file tells it
    domain: str
    split: str


def split_of(file: Path) -> str:
    """`train` or `test`, from the beginning of the file's name or the name of its folder; empty when neither says it."""
    found = re.match(r"train|test", file.name) or re.fullmatch(r"train|test", file.parent.name)
    return found[0] if found else ""


def of_pictures(file: Path) -> bool:
    """It has a column of images, or cannot be read (`rows` says why): tables of other things are nobody's fault."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return bool({*IMAGE} & {*pq.read_schema(file).names})
    except (pa.ArrowException, OSError):
        return True


def count(file: Path) -> int:
    """How many rows a file has, by its own description; 0 when it cannot be read (`rows` says why)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError):
        return 0


def rows(file: Path, wanted: Sequence[str] = ("label",), *, broken: bool = False) -> Iterator[Row]:
    """Every row in order; a sentence when a column of `wanted` is not there or a row is not right.

    `broken` gives rows whose image is no picture too, for who leaves them out by their number.
    """
    import pyarrow as pa  # half a second that nobody else need wait for
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as source:
            image, columns, names = _columns(file, source.schema_arrow, wanted)
            number = 0
            for batch in source.iter_batches(BATCH, columns=[image, *columns.values()]):
                for values in batch.to_pylist():
                    number += 1
                    try:
                        row = _row(values, image, columns, names, wanted, split_of(file))
                        if not (row.suffix or broken):
                            what = (
                                "its image is neither JPEG nor PNG nor WebP" if row.image else "it holds no image bytes"
                            )
                            raise ValueError(what)
                        yield row
                    except (ValueError, IndexError, TypeError) as error:
                        raise UserError(f"{file}, row {number}: {error}.") from None
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{file} cannot be read as parquet: {str(error).splitlines()[0]}.") from None


def _columns(file: Path, schema: Any, wanted: Sequence[str]) -> tuple[str, dict[str, str], dict[str, list[str]]]:
    """The image's column, the others that are there by what they mean, and the names behind their numbers."""
    there = list(schema.names)
    image = next((c for c in IMAGE if c in there), "")
    missing = [c for c in wanted if c not in there] if image else ["image"]
    if missing:
        raise UserError(f"{file} has no column {missing[0]}; it has: {', '.join(there) or 'none'}.")
    columns = {c: c for c in ("label", "domain", "split") if c in there}
    given = next((c for c in NAME if c in there), None)
    columns |= {"name": given} if given else {}
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        names = {c: list(features[c]["names"]) for c in columns.values() if "names" in features.get(c, {})}
    except (KeyError, TypeError, ValueError):
        names = {}
    return image, columns, names


def _row(
    values: dict[str, Any],
    image: str,
    columns: dict[str, str],
    names: dict[str, list[str]],
    wanted: Sequence[str],
    split: str,
) -> Row:
    content: Any = values[image]
    name = ""
    if isinstance(content, dict):
        content, name = content.get("bytes"), content.get("path") or ""
    content = content if isinstance(content, bytes) else b""
    suffix = next((s for mark, s in MARKS.items() if content.startswith(mark)), "")
    found = {what: _word(values[c], names.get(c)) for what, c in columns.items()}
    for what in wanted:
        if found[what] is None:
            raise ValueError(f"it has no {what}")
    given = str(found.get("name") or name)
    return Row(
        content,
        suffix,
        PurePosixPath(given.replace("\\", "/")).name,
        found.get("label", ""),
        str(found.get("domain", "")),
        str(found.get("split") or split),
    )


def _word(value: Any, names: list[str] | None) -> Any:
    """A number as the name it stands for, if the file tells it."""
    if not names or not isinstance(value, int):
        return value
    if not 0 <= value < len(names):
        raise ValueError(f"the number {value} stands for none of its {len(names)} names")
    return names[value]
