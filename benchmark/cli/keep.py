"""Verbs that keep things true: verify, publish, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from benchmark.cli import RESULTS, DataRoot, Json, Results, app, comma_list, err, out, say_json
from benchmark.cli.runs import find_run, pick_device

STUDIES = Path("results")


@app.command(
    epilog="Examples:\n\n`python -m benchmark verify 3f2a` (run it again, compare bit by bit)\n\n"
    "`python -m benchmark verify --published` (render every published table again)"
)
def verify(
    run: Annotated[str, typer.Argument(help="Id of a finished run, or its beginning; `random` picks one.")] = "",
    published: Annotated[
        bool,
        typer.Option(
            "--published", help="Compare every table below results/ with its records, and the texts that quote them."
        ),
    ] = False,
    studies: Annotated[Path, typer.Option(help="Where the published studies are.")] = STUDIES,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "cpu",
    results: Results = RESULTS,
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """Run a finished spec again, or render every published table again, and compare."""
    from benchmark import records
    from benchmark.errors import UserError
    from benchmark.report import verify as verification
    from methods.contract import method_revision

    findings: list[verification.Finding] = []
    if published or not run:
        for study in sorted(p for p in studies.glob("*") if p.is_dir() and any(records.run_directories(p))):
            findings += verification.published(study)
        findings += verification.texts(studies) if findings else []
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
                raise UserError(f"There is no finished run in {results} of a method and a protocol as they are now.")
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


@app.command(epilog="Example: `python -m benchmark publish digits-lite --results runs`")
def publish(
    study: Annotated[str, typer.Argument(help="Name of the study: results/NAME.")],
    studies: Annotated[Path, typer.Option(help="Where the published studies are.")] = STUDIES,
    artifacts: Annotated[
        list[str] | None,
        typer.Option(help="Rows whose arrays (features, uncertainties) are kept for figures: NAME, NAME@TARGET, all."),
    ] = None,
    incomplete: Annotated[
        str, typer.Option(help="One sentence: what the study still lacks. Every table and the report say it first.")
    ] = "",
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Pack the finished runs, and the trials of `tune`, into the few files of results/NAME; render every table.

    The texts that quote a table are filled again too.
    """
    from benchmark.report import publish as publishing

    place = studies / publishing.check_name(study)
    files = publishing.publish(results, place, artifacts=comma_list(artifacts), incomplete=incomplete)
    if json:
        say_json([str(f) for f in files])
    else:
        out.print(f"Published to {studies / study}: {len(files)} files rendered.", markup=False)
    return 0


@app.command(epilog="Example: `python -m benchmark unpack results/lite --out lite`")
def unpack(
    study: Annotated[Path, typer.Argument(help="Folder of a published study.")],
    out_: Annotated[Path, typer.Option("--out", help="New folder for the tree.")],
    json: Json = False,
) -> int:
    """Give a published study's runs back as a tree, a folder a run, byte for byte as they were."""
    from benchmark.records import study as archive

    count = archive.unpack(study, out_)
    if json:
        say_json({"runs": count, "out": str(out_)})
    else:
        out.print(f"{count} runs in {out_}. Check them: python -m benchmark audit {out_}", markup=False)
    return 0


@app.command(epilog="Example: `python -m benchmark doctor`")
def doctor(data_root: DataRoot = None, json: Json = False) -> int:
    """What this machine has: torch, GPU, SLURM, data sets, and what to type to get what is missing."""
    from benchmark.launch import doctor as examination

    findings: list[dict[str, Any]] = examination.examine(data_root)
    if json:
        say_json(findings)
    else:
        for f in findings:
            out.print(
                f"{'ok ' if f['ok'] else '–  '} {f['what']}: {f['found']}" + (f"  → {f['next']}" if f["next"] else ""),
                markup=False,
            )
    return 0
