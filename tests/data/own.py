"""Somebody's pictures in each form: a tree of JPEGs and PNGs, and the same bytes as a CSV and as parquet."""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageDraw

DOMAINS = ("ink", "street", "studio")
KINDS = ("circle", "cross", "square", "stripes")
PAPER = {"ink": (255, 250, 220), "street": (90, 110, 90), "studio": (235, 235, 240)}


def picture(domain: str, kind: str, number: int, side: int = 48) -> bytes:
    """A shape on the domain's paper, as a JPEG or, every third one, as a PNG."""
    rng = np.random.default_rng([*domain.encode(), *kind.encode(), number])
    ground = np.array(PAPER.get(domain, (200, 180, 160))) + rng.normal(0, 12, (side, side + 8, 3))
    image = Image.fromarray(np.clip(ground, 0, 255).astype(np.uint8))
    draw, (x, y), size = ImageDraw.Draw(image), rng.integers(2, side // 3, 2).tolist(), side // 2
    ink = tuple(rng.integers(0, 160, 3).tolist())
    box = (x, y, x + size, y + size)
    if kind == "circle":
        draw.ellipse(box, fill=ink)
    elif kind == "square":
        draw.rectangle(box, fill=ink)
    elif kind == "cross":
        draw.line(box, fill=ink, width=4)
        draw.line((x + size, y, x, y + size), fill=ink, width=4)
    else:
        for row in range(y, y + size, 6):
            draw.line((x, row, x + size, row), fill=ink, width=2)
    out = io.BytesIO()
    image.save(out, "PNG" if number % 3 == 2 else "JPEG")
    return out.getvalue()


def tree(
    root: Path, domains: Sequence[str] = DOMAINS, kinds: Sequence[str] = KINDS, each: int = 10, side: int = 48
) -> Path:
    """`<root>/<domain>/<class>/pic_00.jpg|png`."""
    for domain in domains:
        for kind in kinds:
            folder = root / domain / kind
            folder.mkdir(parents=True)
            for i in range(each):
                suffix = "png" if i % 3 == 2 else "jpg"
                (folder / f"pic_{i:02}.{suffix}").write_bytes(picture(domain, kind, i, side))
    return root


def part(name: str) -> str:
    """Every fifth picture is for scoring."""
    return "test" if name.rpartition("_")[2][:2] in ("04", "09") else "train"


def lists(root: Path, kinds: Sequence[str] = KINDS) -> None:
    """Train and test lists beside the domains of a tree."""
    found: dict[Path, list[str]] = {}
    for file in sorted(root.glob("*/*/*")):
        domain, kind, name = file.parts[-3:]
        found.setdefault(root / f"{domain}_{part(name)}.txt", []).append(f"{domain}/{kind}/{name} {kinds.index(kind)}")
    for path, lines in found.items():
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def table(source: Path, root: Path, *, split: bool = False) -> Path:
    """The pictures of a tree under other names, in one folder, with a CSV in another order."""
    (root / "all").mkdir(parents=True)
    rows = []
    for number, file in enumerate(sorted(source.glob("*/*/*"))):
        name = f"all/{number:04}{file.suffix}"
        shutil.copyfile(file, root / name)
        rows.append([name, file.parts[-3], file.parts[-2], *([part(file.name)] if split else [])])
    random.Random(0).shuffle(rows)
    with (root / "pictures.csv").open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([["path", "domain", "class", *(["split"] if split else [])], *rows])
    return root


def bare(source: Path, root: Path, label: Callable[[str], int | str], **columns: list[Any]) -> Path:
    """The pictures of a tree in one parquet file, in order, with whatever labels and no names behind them."""
    files = sorted(source.glob("*/*/*"))
    root.mkdir(parents=True)
    found = {
        "image": [f.read_bytes() for f in files],
        "label": [label(f.parts[-2]) for f in files],
        "domain": [f.parts[-3] for f in files],
        **columns,
    }
    pq.write_table(pa.table(found), root / "all.parquet")
    return root


def shards(source: Path, root: Path, *, split: bool = False, kinds: Sequence[str] = KINDS) -> Path:
    """The pictures of a tree in two parquet shards as Hugging Face lays them out, without their names."""
    files = sorted(source.glob("*/*/*"))
    random.Random(1).shuffle(files)
    (root / "data").mkdir(parents=True)
    features = {"label": {"names": list(kinds), "_type": "ClassLabel"}}
    for number, some in enumerate((files[: len(files) // 2], files[len(files) // 2 :])):
        columns = {
            "image": [{"bytes": f.read_bytes(), "path": None} for f in some],
            "label": [kinds.index(f.parts[-2]) for f in some],
            "domain": [f.parts[-3] for f in some],
            **({"split": [part(f.name) for f in some]} if split else {}),
        }
        found = pa.table(columns).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        pq.write_table(found, root / "data" / f"train-0000{number}-of-00002.parquet")
    return root
