"""Verbs that look after records: audit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from benchmark.cli import RESULTS, Json, app, out, say_json
from benchmark.files import shown


@app.command(
    epilog="Examples:\n\n`python -m benchmark audit runs`\n\n`python -m benchmark audit results --repair`\n\n"
    "Exit code 0 when every record can be trusted, 1 when one cannot."
)
def audit(
    root: Annotated[
        Path,
        typer.Argument(envvar="BENCHMARK_RESULTS", help="A results folder, a study, or one run.", show_default="runs"),
    ] = RESULTS,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Remove what dead processes left; move runs that cannot be trusted to .quarantine/. No evidence is deleted.",
        ),
    ] = False,
    json: Json = False,
) -> int:
    """Check every record: hashes, curve, identity, place; find duplicates, orphans, leftovers, mixed revisions."""
    from benchmark.launch.status import sent
    from benchmark.records import audit as auditing

    result = auditing.audit(root, sent(root))
    if repair:
        result = auditing.repair(result)
    left = [f for f in result.findings if not f.repaired]
    if json:
        say_json(
            {
                "root": str(root),
                "runs": result.runs,
                "states": result.states,
                "sound": result.sound,
                "findings": [dataclasses.asdict(f) for f in result.findings],
            }
        )
    else:
        for f in result.findings:
            ending = "  (repaired)" if f.repaired else ""
            out.print(shown(f"{f.level:7s} {f.kind}: {f.path}{': ' if f.path else ''}{f.words}{ending}"), markup=False)
        repairable = sum(bool(f.repair) for f in left)
        hint = f" {repairable} can be repaired: --repair" if repairable and not repair else ""
        count = f"{len(left)} {'finding' if len(left) == 1 else 'findings'}"
        out.print(f"{result.runs} runs in {root}, {result.sound} sound records, {count}.{hint}", markup=False)
    return 1 if any(f.level == "error" for f in left) else 0
