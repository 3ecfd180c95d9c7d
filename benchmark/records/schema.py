"""The shape of what a run leaves on disk, so that a results tree from a stranger can be read without surprises.

What is checked here can be put into tables, sorted, formatted and stored without a further look: texts are texts of
bounded length, numbers are finite and fit 64 bits, nothing is nested deeply. Fields that are not named may be there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from benchmark.files import is_plain

RUN_ID = r"^[0-9a-f]{16}$"
DEEPEST = 12  # levels of nesting; a real record has four

Text = Annotated[str, Field(max_length=4096)]
Word = Annotated[str, Field(max_length=255, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")]  # can be the name of a folder
MaybeWord = Annotated[str, Field(max_length=255, pattern=r"^([A-Za-z0-9_][A-Za-z0-9._-]*)?$")]
SuiteName = Annotated[str, Field(max_length=4096, pattern=r"^([A-Za-z0-9_][A-Za-z0-9._-]*|.*\.toml)$")]
MethodName = Annotated[str, Field(max_length=4096, pattern=r"^([A-Za-z0-9_][A-Za-z0-9._-]*|.*\.py:[^/]*)$")]
Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e300, le=1e300)]
Positive = Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e300)]
Percent = Annotated[float, Field(allow_inf_nan=False, ge=0, le=100)]
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Plain = bool | Whole | Number | Text | None


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class Spec(_Part):
    """spec.json, and `spec` of a record. `suite` and `method` may be paths of a user's own files."""

    suite: SuiteName
    tier: Word
    method: MethodName
    preset: MaybeWord = ""
    standard: MaybeWord = ""
    sources: list[Word] = []
    target: Word
    split: MaybeWord = ""
    seed: Whole = 0
    threads: Count = 1
    overrides: dict[Text, Plain] = {}
    tuned: Text = ""
    data: Text = ""


class Accuracy(_Part):
    """Target-test accuracy by selection rule; protocol 1 had fewer rules."""

    last: Percent
    source_val: Percent
    unsup: Percent
    snd: Percent | None = None
    bnm: Percent | None = None
    dev: Percent | None = None
    oracle: Percent


class Scored(_Part):
    """What a record says of one kind of statistics at test."""

    accuracy: Accuracy
    selected: dict[Text, Count] = {}
    per_class: list[Percent | None] = []
    probes: dict[Text, Any] = {}


class Cost(_Part):
    """What a run took."""

    updates: Annotated[int, Field(ge=1, lt=2**63)]
    seconds: Positive
    cpu_seconds: Positive | None = None
    images_per_s: Positive | None = None
    passes: Positive | None = None
    peak_memory_mb: Positive | None = None
    peak_device_memory_mb: Positive | None = None
    eval_points: Count | None = None
    seconds_at: list[Positive] = []


class Data(_Part):
    """Which images."""

    fingerprint: Text
    note: Text = ""
    generated: list[Text] = []
    target_forwarded: bool = False
    target_share: Annotated[float, Field(ge=0, le=1)] | None = None  # in the batch-norm statistics that the loop leaves


class Start(_Part):
    """One start of a run: on what, and at which update."""

    update: Count
    hardware: Text
    node: Text = ""


class Provenance(_Part):
    """Where a number comes from."""

    commit: Text
    dirty: bool
    versions: dict[Text, Text] = {}
    hardware: Text = ""
    device: Text = ""
    precision: Text = ""  # of matrix products and convolutions; empty in records from before it was a setting
    restarts: Count = 0
    starts: list[Start] = []


class Hashes(_Part):
    """sha256 of spec.json, curve.jsonl, artifacts.npz and the record itself."""

    spec: Text
    curve: Text
    artifacts: Text = ""
    record: Text


class Part(_Part):
    """The weights that a kept model has with one kind of statistics at test."""

    update: Count
    weights: Text


class Model(_Part):
    """A model that the run kept: the hash of its file, and of the weights in it."""

    sha256: Text
    running: Part
    target: Part


class Document(_Part):
    """record.json."""

    format: Literal[1]
    run_id: Annotated[str, Field(pattern=RUN_ID)]
    spec: Spec
    resolved: dict[Text, dict[Text, Any]] = {}
    protocol: Whole | None = None
    revision: Text | None = None
    title: Text | None = None
    accuracy: Accuracy
    selected: dict[Text, Count] = {}
    per_class: list[Percent | None] = []
    classes: list[Text] = []
    losses: dict[Text, Number | None] = {}
    pseudo: dict[Text, Number | None] = {}
    diagnostics: dict[Text, Any] = {}
    probes: dict[Text, Any] = {}
    statistics: dict[Text, Scored] = {}  # by statistics at test; those of the loop stand above
    weights: Text = ""
    models: dict[Text, Model] = {}  # by selection rule: what --keep-model left beside the record
    cost: Cost
    data: Data
    provenance: Provenance
    warnings: list[Text] = []  # of the run itself
    remarks: list[Text] = []  # of its method, for readers of a table
    hashes: Hashes


class Scores(_Part):
    """An evaluation point under one kind of statistics at test."""

    target: Percent
    source_val: Percent
    unsup: Number
    snd: Number | None = None
    bnm: Number | None = None
    dev: Number | None = None
    per_class: list[Percent | None] = []
    probes: dict[Text, Any] = {}


class Row(Scores):
    """A line of curve.jsonl: the scores with the loop's own statistics, and what the loop knows."""

    update: Count
    statistics: dict[Text, Scores] = {}
    progress: Number = 0.0
    stage: Text = ""
    losses: dict[Text, Number | None] = {}
    pseudo: dict[Text, Number | None] = {}
    diagnostics: dict[Text, Any] = {}


_SPEC, _DOCUMENT, _ROW = TypeAdapter(Spec), TypeAdapter(Document), TypeAdapter(Row)


def spec_fault(document: Any) -> str:
    """What is wrong with a spec, in words; empty when it is right."""
    return _fault(_SPEC, document)


def record_fault(document: Any) -> str:
    """What is wrong with the shape of a record, in words; empty when it is right. Hashes are not looked at."""
    if not isinstance(document, dict):
        return "it is not a JSON object"
    if document.get("format") != 1:
        return f"its format is {str(document.get('format'))[:40]!r}, not 1"
    return _fault(_DOCUMENT, document)


def row_fault(row: Any) -> str:
    """What is wrong with a row of a curve, in words; empty when it is right."""
    return _fault(_ROW, row)


def _fault(adapter: TypeAdapter[Any], document: Any) -> str:
    fault = _unfit(document)
    if fault:
        return fault
    try:
        adapter.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{_place(first['loc'])}: {first['msg']}"
    return ""


def _place(parts: Sequence[str | int]) -> str:
    """`accuracy.last`; a key from the file is cut to a bounded length."""
    return ".".join(str(part)[:40] for part in parts) or "the document"


def _unfit(value: Any, depth: int = 0) -> str:
    """What no part of a document may be, named or not: too deep, not finite, not to be shown."""
    if depth > DEEPEST:
        return f"it is nested more than {DEEPEST} levels deep"
    if isinstance(value, str) and not is_plain(value):
        return "it holds characters that cannot be shown"
    if isinstance(value, float) and not math.isfinite(value):
        return "it holds a number that is not finite"
    if isinstance(value, int) and abs(value) >= 2**63:
        return "it holds a number of more than 64 bits"
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, (_unfit(part, depth + 1) for part in parts)), "")
