"""Methods in words: what there is, with presets, standards, hyper-parameters and tuning ranges."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from benchmark.spec import method_class
from methods.contract import Method, registry


def methods() -> dict[str, Any]:
    """All built-in methods."""
    rows = [_row(name, cls) for name, cls in registry().items()]
    return {"methods": rows}


def method(name: str) -> dict[str, Any]:
    """One method, whole."""
    from benchmark.plan import split_name

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
        "card": cls.card, "revision": cls.revision,
    }  # fmt: skip


def words(document: dict[str, Any]) -> str:
    """The same for people."""
    if "methods" in document:
        lines = [
            f"{m['name']:12s} {m['title']:12s} {', '.join(m['standards'])}"
            + (f"; presets: {', '.join(m['presets'])}" if m["presets"] else "")
            for m in document["methods"]
        ]
        return "\n".join(
            [*lines, "", "Details: python -m benchmark methods NAME. Your own: --methods path/file.py:Class"]
        )
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
