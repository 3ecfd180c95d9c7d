"""What the paper says: the claims file, and the margin within which a cell counts as reproduced."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmark.errors import UserError

FILE = Path(__file__).with_name("claims.toml")
FIELDS = ("id", "text", "where", "test", "suite", "split")


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper with the test that decides it; `options` are the test's own."""

    id: str
    text: str
    where: str
    test: str
    suite: str = ""
    split: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        try:
            return self.options[key]
        except KeyError:
            raise UserError(f"The claim {self.id!r} lacks the key {key!r} that its test {self.test!r} needs.") from None


@cache
def _document(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"The claims file {file} does not exist.") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"The claims file {file} is not valid TOML: {error}.") from None


def claims(file: Path = FILE) -> list[Claim]:
    """All claims, in the order of the file."""
    found = []
    for row in _document(file).get("claim", []):
        lacking = [key for key in ("id", "text", "where", "test") if not isinstance(row.get(key), str)]
        if lacking:
            raise UserError(f"A claim in {file} lacks {', '.join(lacking)}: {row}.")
        known = {key: row[key] for key in FIELDS if key in row}
        found.append(Claim(**known, options={k: v for k, v in row.items() if k not in FIELDS}))
    return found


def margin(file: Path = FILE) -> float:
    """Points within which a cell counts as reproduced."""
    return float(_document(file)["margin"])
