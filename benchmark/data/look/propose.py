"""The suite file for a folder of pictures: classes that every domain has, ids, counts, networks and budgets for its size.

Every number says beside it where it comes from: the paper's table for the nearest of its data sets, or ours and why. Nothing
was tuned on the pictures.
"""

from __future__ import annotations

import json
import re
import statistics
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from benchmark.data.look.odd import some
from benchmark.data.look.survey import Survey
from benchmark.errors import UserError

TEMPLATE = Path(__file__).with_name("suite.toml.j2")
BATCH = 16  # Table 5, PACS and DomainNet
SECONDS = 0.08 / 3  # of an update a domain at tier mini: 11.9 CPU seconds of 150 updates with three domains
MINI_IMAGES = 1500  # ours: of all domains together, decoded in seconds
MANY_CLASSES, MANY_IMAGES = 100, 100_000  # from there on DomainNet's settings of Table 5 are nearer than those of PACS
# Table 5 by the data set that is nearest
PACS = {
    "near": "PACS", "network": "resnet18", "features": 512, "lam": 1000.0, "eta_max": 0.1,
    "lr_extractor": "3e-5", "lr_classifier": "1e-3", "gpu_seconds": 0.06,
}  # fmt: skip
DOMAINNET = {
    "near": "DomainNet", "network": "resnet101", "features": 2048, "lam": 100.0, "eta_max": 1.0,
    "lr_extractor": "5e-5", "lr_classifier": "5e-4", "gpu_seconds": 0.35,
}  # fmt: skip
LEFT_OUT = 200  # files that are no pictures: more of them than a suite file should list


@dataclass(frozen=True)
class Proposal:
    """What goes into the file."""

    name: str
    root: str
    survey: Survey
    classes: list[str]
    ids: dict[str, str]  # domain → id
    left_out: list[str]

    @property
    def images(self) -> int:
        """Pictures of all domains."""
        return sum(map(sum, self.by_class().values()))

    def by_class(self) -> dict[str, list[int]]:
        """domain → pictures of each class."""
        counts = self.survey.counts()
        return {domain: [counts[domain][kind] for kind in self.classes] for domain in self.ids}

    @property
    def side(self) -> int:
        """The shorter side of a typical picture."""
        return int(statistics.median(s.side for s in self.survey.pictures if not s.fault))


def propose(name: str, root: str, found: Survey) -> Proposal:
    """Classes and ids for what was seen; a sentence when too little is left to compare."""
    counts = found.counts()
    shared = set.intersection(*({kind for kind, n in own.items() if n} for own in counts.values()))
    if len(shared) < 2:
        poor = min(counts, key=lambda d: sum(n > 0 for n in counts[d].values()))
        there = sorted(kind for kind, n in counts[poor].items() if n)
        has = f"has {len(there)} class{'' if len(there) == 1 else 'es'} ({some(there) or 'none'})"
        raise UserError(
            f"The {len(counts)} domains of {found.root} have {len(shared) or 'no'} class{'' if len(shared) == 1 else 'es'} in "
            f"common, and two are wanted: {poor!r} {has}. Move {poor!r} away, or give its classes the names of the others."
        )
    classes = sorted(
        shared, key=lambda kind: (0, int(kind), kind) if kind.isascii() and kind.isdigit() else (1, 0, kind)
    )
    broken = [*found.gone, *(s.entry.name for s in found.pictures if s.fault)]
    if len(broken) > LEFT_OUT:
        total, what = len(found.pictures) + len(found.gone), "not there or no pictures" if found.gone else "no pictures"
        raise UserError(
            f"{len(broken):,} of {total:,} files below {found.root} are {what}, {some(broken, 2)}: too many to leave out one "
            f"by one. {'Mend the table' if found.gone else 'Move them away'} first."
        )
    every = {kind for own in counts.values() for kind in own} | {s.kind for s in found.pictures}
    return Proposal(name, root, found, classes, ids(list(counts)), [*sorted(every - shared), *broken])


def ids(domains: Sequence[str]) -> dict[str, str]:
    """Short ids for the columns of tables: the first letters of a name, as many as tell it from the others."""
    slugs = {d: re.sub(r"[^a-z0-9]", "", unicodedata.normalize("NFKD", d).lower()) for d in domains}
    found: dict[str, str] = {}
    for place, (domain, slug) in enumerate(slugs.items(), start=1):
        others = [s for d, s in slugs.items() if d != domain]
        short = next(
            (slug[:n] for n in range(3, len(slug) + 1) if not any(o.startswith(slug[:n]) for o in others)), slug
        )
        numbers, taken = (f"d{n}" for n in count(place)), {*found.values()}
        found[domain] = short if short and short not in taken else next(id for id in numbers if id not in taken)
    return found


# -- as TOML --------------------------------------------------------------------------------------------------------------


def toml(p: Proposal, audit: Sequence[str] = ()) -> str:
    """The file. `audit` is what the method says of its settings here (`explain`), as a comment beside them."""
    page = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)
    page.filters |= {"text": _text, "list_of": _list, "comment": _comment}
    by_class = p.by_class()
    domains = [
        {"id": id, "name": d, "title": _title(d), "by_class": by_class[d], "total": f"{sum(by_class[d]):,}"}
        for d, id in p.ids.items()
    ]
    return page.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        name=p.name, title=_title(p.name.replace("-", " ")), root=p.root, form=p.survey.form, images=f"{p.images:,}",
        classes=p.classes, columns=list(p.ids.values()), domains=domains, left_out=p.left_out, audit=audit,
        lists=p.survey.lists, side=64 if p.side >= 48 else 32,
        subset=max(5, min(40, MINI_IMAGES // (len(p.ids) * len(p.classes)))),
        seconds=round(SECONDS * len(p.ids), 2),
        lite_updates=_epochs(p, 20, 1000, 6000), paper_updates=_epochs(p, 100, 5000, 60000),
        **(DOMAINNET if len(p.classes) >= MANY_CLASSES or p.images >= MANY_IMAGES else PACS),
    )  # fmt: skip


def _epochs(p: Proposal, epochs: int, low: int, high: int) -> int:
    """Updates that show every picture of a domain of middling size so often, within bounds, to a round number."""
    return max(low, min(high, 100 * round(epochs * p.images / len(p.ids) / BATCH / 100)))


def _title(name: str) -> str:
    words = name.replace("_", " ")
    return words[0].upper() + words[1:]


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)  # a JSON string is a TOML string


def _list(values: Sequence[object]) -> str:
    """A list on one line, or on as many as it takes."""
    texts = [_text(v) if isinstance(v, str) else str(v) for v in values]
    line = f"[{', '.join(texts)}]"
    if len(line) <= 100:
        return line
    whole = ", ".join(text.replace(" ", "\0") for text in texts)  # a name with spaces stays on one line
    filled = textwrap.wrap(whole, 114, break_long_words=False, break_on_hyphens=False)
    return "\n".join(["[", *(f"    {row}" for row in filled), "]"]).replace("\0", " ")


def _comment(line: str) -> str:
    return textwrap.fill(line, 118, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)


def write(path: Path, text: str) -> None:
    """The file, never over one that is there."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(
            f"{path} is there already, and nothing is written over it. Choose another name, or move it."
        ) from None
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror}). Go to a folder of your own, or: --out FOLDER"
        ) from None
