"""Record trees as the loop writes them, without the training: for tests of what reads records, at any size.

Every file has the real form (spec.json, curve.jsonl, artifacts.npz, failure.json, lease.json, record.json with its
hashes); the numbers come from a small model of methods and targets, so that every expectation can be computed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmark import records
from benchmark.spec import canonical_json, load_suite
from methods.contract import BUILT_IN

TITLES = {
    "source-only": "Source-Only", "dan": "DAN", "dann": "DANN", "coral": "CORAL", "adda": "ADDA", "mcd": "MCD", "jan": "JAN",
    "rtn": "RTN", "mdan": "MDAN", "mdda": "MDDA", "dctn": "DCTN", "m3sda": "M³SDA", "tsvdnet": "T-SVDNet",
}  # fmt: skip
LEVEL = {name: 60.0 + 1.5 * i for i, (name, _, _) in enumerate(BUILT_IN)}  # each method 1.5 points above the one before
PRESET = {"bn": 3.0, "e": -6.0, "et": -1.5, "paper": -2.0, "active": 0.3}
PRESET |= {"code-e": -5.0, "code-p": -3.0, "code": -0.4, "code-u": -1.4}
HARD = {"mm": -12.0, "mt": 12.0, "up": 8.0, "sv": -9.0, "syn": 1.0, "A": 0.0, "C": -3.0, "S": -8.0, "P": 11.0}
STANDARD = {"multi-source": 0.0, "combined": -1.0, "single-best": -4.0, "upper-bound": 20.0}
TARGET_GAIN = 2.0  # points that statistics of the target give, all rows alike
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def _rng(*key: object) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8], "big"))


def expected(
    method: str, preset: str, standard: str, target: str, sources: Sequence[str] = (), noise: float = 0.0
) -> float:
    """The accuracy of a run before its seed's noise."""
    level = LEVEL.get(method, 70.0) + PRESET.get(preset, 0.0) + STANDARD[standard] + HARD.get(target, 0.0)
    if standard == "single-best":
        level += {"mt": 2.0, "mm": 1.0, "sv": -3.0, "syn": 3.0}.get(sources[0], 0.0)
    return float(np.clip(level + noise, 1.0, 99.5))


def write_run(
    root: Path,
    method: str = "tsvdnet",
    target: str = "mm",
    seed: int = 0,
    *,
    suite: str = "digits",
    tier: str = "mini",
    preset: str = "",
    standard: str = "multi-source",
    sources: Sequence[str] | None = None,
    split: str | None = None,
    status: str = "done",
    overrides: Mapping[str, Any] | None = None,
    tuned: str = "",
    threads: int = 1,
    revision: str = "1",
    protocol: int = 2,
    fingerprint: str | None = None,
    commit: str = COMMIT,
    dirty: bool = False,
    title: str | None = None,
    accuracy: float | None = None,
    generated: Sequence[str] = ("syn",),
    note: str = "made offline & <small>",
    reason: str = "NotFinite: loss is NaN at update 120",
    a_zero: bool | None = None,
    artifacts: bool = False,
    points: int = 10,
    updates: int = 350,
    salt: str = "",
    weights: str = "",
    run_id: str = "",
) -> Path:
    """One run directory; gives its path.

    `run_id` is that of a planned run, by default one of its own.
    `salt` stands for settings that are in the run's identity and not in its spec; `weights` for their hash (by default
    every run has its own).
    """
    s = load_suite(suite)
    split = split or s.default_split
    if sources is None:
        sources = [target] if standard == "upper-bound" else [d for d in s.columns if d != target]
    spec = {
        "suite": suite, "tier": tier, "method": method, "preset": preset, "standard": standard, "sources": list(sources),
        "target": target, "split": split, "seed": seed, "threads": threads, "overrides": dict(overrides or {}),
        "tuned": tuned, "data": fingerprint or f"fp-{suite}-{tier}-{split}",
    }  # fmt: skip
    identity = canonical_json([spec, revision, protocol, salt])
    run_id = run_id or hashlib.sha256(identity.encode()).hexdigest()[:16]
    directory = root / suite / tier / run_id
    directory.mkdir(parents=True, exist_ok=True)
    _write(directory / "spec.json", canonical_json(spec))
    rng = _rng(method, preset, standard, target, tuple(sources), seed, spec["overrides"])
    shared = _rng("seed", target, seed).normal(0, 0.8)  # all methods share batches and weights of a seed
    if accuracy is None:
        accuracy = expected(method, preset, standard, target, sources, shared + rng.normal(0, 0.3))
    zero = (method == "tsvdnet" and preset not in ("active", "e", "code-e", "code-p")) if a_zero is None else a_zero
    curve = _curve(rng, accuracy, len(s.classes), points, method, preset, zero, sources, standard, updates)
    if protocol == 1:  # scored once, by four rules
        curve = [{k: v for k, v in row.items() if k not in ("statistics", "snd", "bnm", "dev")} for row in curve]
    if status == "done" or points:
        _write(directory / "curve.jsonl", "".join(canonical_json(row) + "\n" for row in curve))
    if status == "failed":
        _write(
            directory / "failure.json",
            json.dumps({"reason": reason, "kind": "NotFinite", "commit": commit, "update": 120}),
        )
    elif status == "running":
        from benchmark.records.lease import process_start

        owner = {"token": "t", "pid": os.getpid(), "started": process_start(os.getpid()), "host": os.uname().nodename}
        _write(directory / "lease.json", json.dumps(owner))
    elif status == "done":
        if artifacts:
            _artifacts(directory, rng, s.columns, target, len(s.classes), method)
        given = {
            "protocol": protocol,
            "revision": revision,
            "note": note,
            "generated": list(generated),
            "commit": commit,
            "weights": weights or hashlib.sha256(run_id.encode()).hexdigest()[:32],
        }
        document = _document(
            spec, run_id, curve, title or TITLES.get(method, method), s, rng, {**given, "dirty": dirty}
        )
        _seal(directory, document)
    return directory


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _curve(
    rng: np.random.Generator,
    accuracy: float,
    classes: int,
    points: int,
    method: str,
    preset: str,
    zero: bool,
    sources: Sequence[str],
    standard: str,
    updates: int,
) -> list[dict[str, Any]]:
    rows = []
    for i in range(1, points + 1):
        share = i / points
        value = accuracy * (1 - 0.5 * np.exp(-4 * share)) if i < points else accuracy
        value = min(99.9, float(value + (0.0 if i == points else rng.normal(0, 0.4))))
        by_class = np.clip(value + np.linspace(-8, 8, classes), 0, 100)
        tnn = 120 - (40 if preset != "e" and method == "tsvdnet" else 20) * share
        diagnostics: dict[str, Any] = {}
        if method == "tsvdnet":
            diagnostics = {
                "eta": float(min(1.0, share * 7)),
                "a_norm": 0.0 if zero else 3.5,
                "a_zero_whole_run": zero,
            }
            if preset not in ("e", "code-e", "code-p"):  # those have no tensor term
                diagnostics |= {
                    "a_rank": [0] * classes if zero else [2] + [1] * (classes - 1),
                    "g_norm": 7.0,
                    "lam": 1000.0 if zero else 62.5,
                    "share_a_nonzero": 0.0 if zero else 0.85,
                }
        scored = {
            "target": round(value, 4),
            "per_class": [round(float(v), 3) for v in by_class],
            "source_val": round(min(99.9, value + 8), 4),
            "unsup": round(1.2 + share + (0.5 if standard == "single-best" and sources[0] == "mt" else 0), 4),
            "snd": round(4.0 + share, 4),
            "bnm": round(0.3 + 0.2 * share, 4),
            "dev": None if method == "mdda" else round(-0.5 + 0.3 * share, 4),
            "probes": {},
        }
        other = {**scored, "target": round(min(99.9, value + TARGET_GAIN), 4)}
        other["per_class"] = [round(min(100.0, float(v) + TARGET_GAIN), 3) for v in by_class]
        rows.append(
            {
                "update": int(updates * share),
                "progress": share,
                "stage": "train",
                **scored,
                "statistics": {"target": other},
                "losses": {"class": round(float(2.3 * np.exp(-3 * share)), 5), "tensor": round(0.2 * share, 5)},
                "probes": {
                    "tnn_rotated": round(tnn + rng.normal(0, 0.5), 4),
                    "tnn_unrotated": round(tnn - 10, 4),
                    "similarity_to_target": round(0.5 + 0.4 * share, 4),
                },
                "pseudo": {"rate": round(share, 3), "precision": round(0.6 + 0.3 * share, 3)}
                if method == "tsvdnet"
                else {},
                "diagnostics": diagnostics,
            }
        )
    return rows


def _document(
    spec: dict[str, Any], run_id: str, curve: list[dict[str, Any]], title: str, s: Any, rng: Any, given: dict[str, Any]
) -> dict[str, Any]:
    from benchmark.records.selection import accuracies, selected

    last = curve[-1]
    passes = {"mcd": 3.0, "m3sda": 3.5, "mdda": 2.2}.get(spec["method"], 1.0)
    seconds = float(12.0 * passes + rng.normal(0, 0.2))
    zero = last["diagnostics"].get("a_zero_whole_run")
    remarks = ["A was zero at every update: the low-rank term had no low-rank tensor"] if zero else []
    return {
        "format": 1,
        "run_id": run_id,
        "spec": spec,
        "resolved": {"hparams": {"lr_scale": 1.0, "lam": 1000.0, "eta_max": 1.0}, "settings": {"batch": 32, "updates": 350}},
        "protocol": given["protocol"],
        "revision": given["revision"],
        "title": title,
        "tuned": spec["tuned"],
        "accuracy": accuracies(curve),
        "selected": selected(curve),
        "statistics": {
            kind: {
                "accuracy": accuracies(curve, kind),
                "selected": selected(curve, kind),
                "per_class": last["statistics"][kind]["per_class"],
                "probes": {},
            }
            for kind in last.get("statistics", {})
        },
        "per_class": last["per_class"],
        "classes": list(s.classes) if len(s.classes) < 50 else [],
        "losses": last["losses"],
        "pseudo": last["pseudo"],
        "diagnostics": last["diagnostics"],
        "probes": last["probes"],
        "weights": given["weights"],
        "data": {
            "fingerprint": spec["data"], "note": given["note"], "generated": given["generated"], "target_forwarded": True,
            "target_share": 0.2442,
        },
        "cost": {
            "seconds": round(seconds, 3), "cpu_seconds": round(seconds * 1.05, 3), "peak_memory_mb": 512.5, "updates": 350,
            "eval_points": len(curve), "images_per_s": round(56000 / seconds, 2), "passes": passes,
            "seconds_at": [round(seconds * (i + 1) / len(curve), 3) for i in range(len(curve))],
        },
        "provenance": {
            "commit": given["commit"], "dirty": given["dirty"], "versions": {"python": "3.11.9", "torch": "2.4.0"},
            "hardware": "a processor ×2", "device": "cpu", "threads": spec["threads"], "started": "2024-05-01T10:00:00+00:00",
            "finished": "2024-05-01T10:00:12+00:00", "host_kind": "local", "restarts": 0,
        },
        "warnings": remarks if given["protocol"] == 1 else [],
        **({} if given["protocol"] == 1 else {"remarks": remarks}),
    }  # fmt: skip


def _seal(directory: Path, document: dict[str, Any]) -> None:
    """As records.write seals it, without waiting for the disk."""
    hashes = {"spec": records.file_hash(directory / "spec.json"), "curve": records.file_hash(directory / "curve.jsonl")}
    document = {**document, "hashes": hashes}
    document["hashes"] = {**hashes, "record": records.document_hash(document)}
    _write(directory / "record.json", json.dumps(document))


def _artifacts(
    directory: Path, rng: np.random.Generator, domains: Sequence[str], target: str, classes: int, method: str
) -> None:
    stored: dict[str, np.ndarray] = {}
    centres = rng.normal(0, 3, (classes, 16))
    order = [*(d for d in domains if d != target), target]
    for k, domain in enumerate(order):
        labels = rng.integers(0, classes, 60)
        stored[f"features_{domain}"] = (centres[labels] + rng.normal(0, 1, (60, 16)) + 0.4 * k).astype(np.float16)
        stored[f"labels_{domain}"] = labels.astype(np.int16)
        base = np.exp(-np.abs(np.subtract.outer(range(classes), range(classes))) / 2)
        stored[f"similarity_{domain}"] = np.clip(base + rng.normal(0, 0.03, base.shape), 0, 1).astype(np.float32)
        if method == "tsvdnet":
            width = {"mt": 0.02, "sv": 0.12}.get(domain, 0.05)
            stored[f"sigma_{domain}"] = rng.normal(0.6, width, 60).astype(np.float32)
    if method == "tsvdnet":
        stored["noise_domain"] = np.array(order[0])
        for r in (0, 0.1, 0.5, 1):
            stored[f"sigma_noise_{r:g}"] = rng.normal(0.6 + 0.1 * r, 0.03 + 0.08 * r, 60).astype(np.float32)
    np.savez_compressed(directory / "artifacts.npz", **stored)  # type: ignore[arg-type]


def write_study(
    root: Path,
    methods: Iterable[str] = (
        "source-only",
        "source-only:bn",
        "dann",
        "m3sda",
        "tsvdnet",
        "tsvdnet:code",
        "tsvdnet:e",
        "tsvdnet:et",
    ),
    *,
    seeds: Sequence[int] = (0, 1, 2),
    targets: Sequence[str] | None = None,
    suite: str = "digits",
    standard: str = "multi-source",
    **fields: Any,
) -> None:
    """All methods × targets × seeds; `single-best` runs every source alone."""
    columns = load_suite(suite).columns
    for request in methods:
        method, _, preset = request.partition(":")
        for target in targets or columns:
            alone = [[d] for d in columns if d != target] if standard == "single-best" else [None]
            for sources in alone:
                for seed in seeds:
                    write_run(
                        root,
                        method,
                        target,
                        seed,
                        suite=suite,
                        preset=preset,
                        standard=standard,
                        sources=sources,
                        **fields,
                    )
