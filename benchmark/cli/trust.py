"""Verbs that ask whether it is true: audit, verify."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from benchmark.cli import RESULTS, DataRoot, Json, Results, app, err, out, say_json
from benchmark.cli.runs import find_run, pick_device
from benchmark.errors import UserError
from benchmark.files import shown

STUDIES = Path("results")


@app.command(
    epilog="Examples:\n\n`python -m benchmark audit runs`\n\n`python -m benchmark audit results --repair`\n\n"
    "Exit code 0 when every record can be trusted, 1 when one cannot."
)
def audit(
    root: Annotated[
        Path,
        typer.Argument(
            envvar="BENCHMARK_RESULTS", help="A results folder, a study, a bundle, or one run.", show_default="runs"
        ),
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


@app.command(
    epilog="Examples:\n\n`python -m benchmark verify 3f2a` (run it again, compare bit by bit)\n\n"
    "`python -m benchmark verify --published` (render every published table again)\n\n"
    "`python -m benchmark verify results/study --environment` (code, packages, processor: the study's and yours)"
)
def verify(
    run: Annotated[str, typer.Argument(help="Id of a finished run, or its beginning; `random` picks one.")] = "",
    published: Annotated[
        bool,
        typer.Option(
            "--published", help="Compare every table below results/ with its records, and the texts that quote them."
        ),
    ] = False,
    environment: Annotated[
        bool, typer.Option("--environment", help="Of a study's folder: what would have to be the same to get its bits.")
    ] = False,
    studies: Annotated[Path, typer.Option(help="Where the published studies are, or one bundle.")] = STUDIES,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "cpu",
    results: Results = RESULTS,
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """Run a finished spec again, or render every published table again, and compare."""
    if environment:
        return _environment(Path(run) if run else results, json)
    from benchmark import records
    from benchmark.records.study import is_study
    from benchmark.report import verify as verification
    from methods.contract import method_revision

    if run and is_study(run):
        raise _no_run(run)
    findings: list[verification.Finding] = []
    if published or not run:
        for study in verification.studies(studies):
            findings += verification.published(study)
        findings += verification.texts(studies) if findings and studies.is_dir() else []
        if not findings and not run:
            raise UserError(
                f"There is no published study in {studies}. Verify a run: python -m benchmark verify RUN_ID"
            )
    if run:
        if run == "random":
            frame = records.load(results)
            done = frame[frame.status == "done"]
            runs = zip(done.method, done.revision, done.suite, done.protocol, strict=True)
            done = done[[r == method_revision(m) and not verification.older(s, p) for m, r, s, p in runs]]
            if done.empty:
                # a published study stays as it was published: no run is put into its folder
                where, then = (
                    (RESULTS, f", then verify random --results {RESULTS}") if is_study(results) else (results, "")
                )
                raise UserError(
                    f"There is no finished run in {results} of a method and a protocol as they are now. "
                    f"Type: python -m benchmark run --suite digits --results {where}{then}"
                )
            run = str(done.sample(1).iloc[0].run_id)
        directory, _ = find_run(results, run)
        if not json:
            err.print(f"Running {run} again; this takes as long as it took the first time.")
        findings += verification.rerun(directory, data_root=data_root, device=pick_device(device))
    if json:
        say_json([vars(f) for f in findings])
    else:
        for f in findings:
            out.print(f"{'ok  ' if f.same else 'DIFF'} {f.what}: {f.words}", markup=False)
    return 0 if all(f.same for f in findings) else 1


def _no_run(study: str) -> UserError:
    """What to type for a study or a bundle in the place of a run."""
    from benchmark.records.bundle import is_bundle

    studies = study if is_bundle(study) else Path(study).parent
    return UserError(
        f"{study} is a study, not a run. Type: python -m benchmark verify --published --studies {studies} (its seals and "
        f"tables); verify {study} --environment (its code, packages and processor beside yours); or verify random "
        f"--results {study} (one of its runs again)."
    )


def _environment(root: Path, json: bool) -> int:
    """Prints the conditions of a study beside this machine's; 1 when one differs."""
    from benchmark.launch.environment import conditions

    found = conditions(root)
    if json:
        say_json([{**vars(c), "same": c.same} for c in found])
    else:
        for c in found:
            words = c.here if c.same else f"{', '.join(c.study)} in {root}; here {c.here}"
            out.print(f"{'ok  ' if c.same else 'DIFF'} {c.what}: {words}", markup=False)
    return 0 if all(c.same for c in found) else 1
