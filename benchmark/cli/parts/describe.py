"""Methods: what there is in words, a file to start one of your own from, and whether one keeps its contract."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import keyword
import re
import time
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from benchmark.cli import out, say_json
from benchmark.errors import UserError
from benchmark.plan import split_name
from benchmark.spec import NetworkSettings, method_class
from methods import installed, is_built_in
from methods.contract import Method, registry
from methods.groups import GROUPS, READINGS

TEMPLATE = Path(installed.__file__).parent / "template.py"


def methods() -> dict[str, Any]:
    """All built-in methods, the groups, the rows that read another row's runs, and what installed packages offer.

    What they offer is not imported for a list.
    """
    rows = [_row(name, cls) for name, cls in registry().items()]
    read = [{"name": name, **dataclasses.asdict(reading)} for name, reading in READINGS.items()]
    offers = installed.offered(installed.METHODS).items()
    return {
        "methods": rows,
        "readings": read,
        "groups": {word: list(names) for word, names in GROUPS.items()},
        "installed": [{"name": name, "package": installed.whose(e), "hidden": is_built_in(name)} for name, e in offers],
    }


def method(name: str) -> dict[str, Any]:
    """One method, whole; or a row that reads another's runs."""
    if name in READINGS:
        return {"name": name, **dataclasses.asdict(READINGS[name])}
    cls = method_class(split_name(name)[0])
    doc = inspect.getdoc(inspect.getmodule(cls)) or ""
    fields = [{"name": f.name, "default": f.default} for f in dataclasses.fields(cls.HParams)]
    ranges = {k: dataclasses.asdict(r) for k, r in cls.ranges.items()}
    return {
        **_row(split_name(name)[0], cls), "about": doc, "hparams": fields, "ranges": ranges,
        "preset_values": {k: dict(v) for k, v in cls.presets.items()},
    }  # fmt: skip


def _row(name: str, cls: type[Method]) -> dict[str, Any]:
    return {
        "name": name, "title": cls.title or cls.__name__, "presets": list(cls.presets), "standards": list(cls.standards),
        "card": cls.card, "groups": [word for word, names in GROUPS.items() if name in names], "revision": cls.revision,
    }  # fmt: skip


def _read(reading: dict[str, Any]) -> str:
    return (
        f"the runs of {reading['of']}, read with statistics of the {reading['statistics']}; nothing is trained for it"
    )


def words(document: dict[str, Any]) -> str:
    """The same for people."""
    if "methods" in document:
        lines = [
            f"{m['name']:12s} {m['title']:12s} {', '.join(m['standards'])}"
            + (f"; presets: {', '.join(m['presets'])}" if m["presets"] else "")
            for m in document["methods"]
        ]
        lines += [f"{r['name']:12s} {r['title']:12s} {_read(r)}" for r in document["readings"]]
        for offer in document["installed"]:
            hidden = "; it cannot be used, the name is built in" if offer["hidden"] else ""
            lines.append(f"{offer['name']:12s} of the package {offer['package']}{hidden}")
        groups = ["", *(f"--methods {word}: {', '.join(names)}" for word, names in document["groups"].items())]
        groups.append(
            "--methods all: every method above, with the rows that keep the card's honest and the upper bound"
        )
        return "\n".join(
            [*lines, *groups, "", "Details: python -m benchmark methods NAME. Your own: --methods path/file.py:Class"]
        )
    if "of" in document:
        return f"{document['title']}: {document['about']}.\n{_read(document)}"
    lines = [document["about"], "", f"standards: {', '.join(document['standards'])}", "hyper-parameters:"]
    lines += [f"  {h['name']} = {h['default']!r}" for h in document["hparams"]]
    for name, values in document["preset_values"].items():
        lines.append(f"preset {document['name']}:{name}: " + ", ".join(f"{k}={v}" for k, v in values.items()))
    for name, r in document["ranges"].items():
        span = (
            ", ".join(map(str, r["choices"]))
            if r["choices"]
            else f"{r['low']:g} … {r['high']:g}{' (log)' if r['log'] else ''}"
        )
        lines.append(f"tuned over {name}: {span}")
    return "\n".join(lines)


# -- one of your own ---------------------------------------------------------------------------------------------------


def new(name: str) -> int:
    """Write NAME.py into this folder, never over a file that is there."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*([-_ ][A-Za-z0-9]+)*", name):
        raise UserError(
            f"A method's name is letters and digits, words joined by -, not {name!r}. "
            "Type: python -m benchmark methods new my-method"
        )
    words = re.split(r"[-_ ]", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name))
    plain, cls = "-".join(words).lower(), "".join(word[0].upper() + word[1:] for word in words)
    file = Path(plain.replace("-", "_") + ".py")
    if is_built_in(plain) or installed.known(installed.METHODS, plain):
        raise UserError(f"There is a method {plain} already: python -m benchmark methods {plain}. Choose another name.")
    if file.exists():
        raise UserError(f"{file} is there already, and nothing is written over it. Choose another name, or move it.")
    if keyword.iskeyword(cls) or importlib.util.find_spec(file.stem) is not None:
        raise UserError(
            f"A file {file} here would stand in the way of what Python calls {file.stem}. Choose another name."
        )
    text = TEMPLATE.read_text(encoding="utf-8")
    text = text.replace("FILE:CLASS", f"{file}:{cls}").replace("Template", cls).replace('"template"', f'"{plain}"')
    with file.open("x", encoding="utf-8") as handle:
        handle.write(text)
    out.print(f"Wrote {file}, a method that runs as it is. Next:", markup=False)
    out.print(f"  python -m benchmark methods check {file}:{cls}", markup=False)
    out.print(f"  python -m benchmark run --suite digits --methods source-only:bn,{file}:{cls}", markup=False)
    return 0


def network(name: str, image_size: int) -> NetworkSettings:
    """A network to check methods on, by its name; what is wrong with it is not charged to the method."""
    from benchmark.run.networks import shape

    if name == "effnet-lite0-tail":
        raise UserError(
            "effnet-lite0-tail is fed activations of its frozen part, not images: check on another network."
        )
    try:
        found = NetworkSettings(name=name, image_size=image_size).described()
    except ValidationError as error:
        raise UserError(f"The network {name!r} cannot be: {error.errors()[0]['msg'].removesuffix('.')}.") from None
    shape(found.name, found.width, found.image_size)
    return found


def check(name: str, json: bool, network: NetworkSettings | None = None) -> int:
    """Try every claim of the contract on a method and its presets, and say what does not hold; 1 when something does not."""
    from benchmark.run.check import CLAIMS
    from benchmark.run.check import check as findings

    method, preset = split_name(name)
    rows = [preset] if preset else ["", *method_class(method).presets]
    began, found = time.monotonic(), list[dict[str, Any]]()
    for row in rows:
        title = f"{name}@{row}" if ".py:" in name else f"{name}:{row}"
        if not json:
            out.print(title if row and not preset else name, markup=False)
        for finding in findings(method, row, network=network, in_the_loop=row == rows[0]):
            found.append({**vars(finding), "preset": row})
            if not json:
                _say(CLAIMS[finding.claim], finding)
    broken = sum(bool(f["wrong"]) for f in found)
    if json:
        say_json({"method": method, "holds": not broken, "findings": found})
        return bool(broken)
    took = f"{time.monotonic() - began:.0f} s"
    if broken:
        out.print(f"{broken} of {len(found)} claims do not hold ({took}).", markup=False)
    else:
        out.print(f"{name} keeps the contract: all {len(found)} claims hold ({took}).", markup=False)
    return bool(broken)


def _say(claim: str, finding: Any) -> None:
    if finding.open:
        out.print(f"  open   {claim} Not decided: {finding.open}.", markup=False)
    elif not finding.wrong:
        out.print(f"  holds  {claim}", markup=False)
    else:
        out.print(f"  WRONG  {claim}", markup=False, style="red")
        for sentence in finding.wrong:
            out.print(f"         {sentence}", markup=False)
