"""Verbs that hand results over: publish, bundle, merge, unpack, export; and predict, with a model that a run kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmark.cli import RESULTS, DataRoot, Json, Results, app, comma_list, home, out, say_json
from benchmark.cli.parts.progress import counting
from benchmark.cli.runs import pick_device
from benchmark.errors import UserError

STUDIES = Path("results")
SHOWN, NAME = 20, 36  # rows of `predict` on the screen, characters of a picture's name there


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


@app.command(
    epilog="Examples:\n\n`python -m benchmark bundle runs --out mine.zip`\n\n"
    "`python -m benchmark bundle results/study` (writes study.zip)\n\n"
    "`python -m benchmark table --results mine.zip` (every verb that reads takes the file in place of a folder)"
)
def bundle(
    study: Annotated[Path, typer.Argument(help="A results folder, or the folder of a published study.")],
    out_: Annotated[
        Path | None, typer.Option("--out", help="File to write.", show_default="the folder's name, .zip")
    ] = None,
    artifacts: Annotated[
        bool, typer.Option("--artifacts/--no-artifacts", help="Take the arrays that figures are drawn from along.")
    ] = True,
    models: Annotated[bool, typer.Option("--models", help="Take along the models that runs have kept.")] = False,
    json: Json = False,
) -> int:
    """Put a study into one file: records, curves, arrays, tables, figures, report, the code's version.

    The same study gives the same bytes. Nothing in the file is ever executed or unpickled.
    """
    from benchmark.report import handover

    made = handover.hand_over(study, out_, artifacts=artifacts, models=models)
    if json:
        say_json({**vars(made), "path": str(made.path), "bytes": made.path.stat().st_size})
        return 0
    words = [f"{made.runs} finished runs"]
    words += [f"{made.unfinished} that are not done"] if made.unfinished else []
    words += [f"{made.models} models"] if made.models else []
    words += [f"without their {made.models_left} models (--models takes them along)"] if made.models_left else []
    out.print(f"{made.path}: {', '.join(words)}; {made.path.stat().st_size / 1e6:.1f} MB.", markup=False)
    out.print(f"Read it as a folder: python -m benchmark table --results {made.path}", markup=False)
    return 0


@app.command(epilog="Example: `python -m benchmark merge runs theirs.zip results/study --out together`")
def merge(
    sources: Annotated[
        list[Path], typer.Argument(help="Results folders, published studies, bundles.", metavar="A B...")
    ],
    out_: Annotated[Path, typer.Option("--out", help="New folder for the study that holds them all.")],
    json: Json = False,
) -> int:
    """Put results of several people together: each finished run once, with where it came from (merged.json).

    A run that two of them have must be the same bits in both. What `audit` would not trust is refused.
    """
    from benchmark.records import merge as merging

    made = merging.merge(sources, out_)
    if json:
        say_json({**vars(made), "out": str(out_)})
        return 0
    twice = f" {made.twice} were in several sources, with the same results." if made.twice else ""
    left = f" {made.left} that are not done were left out." if made.left else ""
    out.print(f"{made.runs} runs from {len(sources)} sources in {out_}.{twice}{left}", markup=False)
    out.print(f"Look at them: python -m benchmark table --results {out_}", markup=False)
    return 0


@app.command(epilog="Example: `python -m benchmark unpack results/study --out runs/study`")
def unpack(
    study: Annotated[Path, typer.Argument(help="Folder of a published study, or a bundle.")],
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


@app.command(
    epilog="Examples:\n\n`python -m benchmark export --format parquet --out runs.parquet`\n\n"
    "`python -m benchmark export --format tensorboard --out boards` (then: tensorboard --logdir boards)\n\n"
    "`python -m benchmark export --format mlflow --out kept` (a tracker that was not there while the runs trained)"
)
def export(
    format: Annotated[
        str, typer.Option("--format", help="parquet, csv; tensorboard, wandb, mlflow, trackio, path/file.py:Class.")
    ] = "parquet",
    out_: Annotated[Path | None, typer.Option("--out", help="File (parquet, csv) or folder (a tracker's).")] = None,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """All runs in one file for other tools, or their curves for a tracker, as `run --track` tells them live."""
    from benchmark.records.track import export as exports

    path = exports.write(results, format, out_ or home(results) / exports.default(format))
    if json:
        say_json({"format": format, "path": str(path)})
    else:
        out.print(str(path), markup=False)
    return 0


@app.command(
    epilog="Examples:\n\n`python -m benchmark predict 3f2a` (the run's own test images: the accuracy of its record)\n\n"
    "`python -m benchmark predict 3f2a photos/ --out table.csv` · `python -m benchmark predict 3f2a digits.npz --rule unsup`"
)
def predict(
    run: Annotated[str, typer.Argument(help="Run id, or its beginning, or the run's folder.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Pictures, folders of pictures, .npz of digits; default: the run's test images.",
            metavar="[FOLDER|FILES]...",
        ),
    ] = None,
    out_: Annotated[Path | None, typer.Option("--out", help="CSV file to write: a row an image.")] = None,
    rule: Annotated[str, typer.Option(help="Whose model: last, source-val, unsup, snd, bnm, dev.")] = "last",
    statistics: Annotated[str, typer.Option(help="Batch-norm statistics at test: target or running.")] = "target",
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "cpu",
    results: Results = RESULTS,
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """Look at pictures with a model that a run kept (run --keep-model): label, probabilities, uncertainty if it has one."""
    from benchmark.files import write_text
    from benchmark.run.model import loading, pictures, predicting

    if out_ is not None and out_.is_dir():
        raise UserError(f"--out {out_} is a folder. Name a file in it: --out {out_ / 'table.csv'}")
    record = loading.find(run, results)
    model = loading.load_model(record, rule=rule, statistics=statistics, device=pick_device(device))
    groups = (
        pictures.found(files, model.preprocess, model.classes) if files else [pictures.own(model.resolved, data_root)]
    )
    with counting("predicting", hidden=json) as watch:
        table = predicting.predict(model, groups, watch)
    right = predicting.accuracy(table)
    if out_ is not None:
        write_text(out_, table.to_csv(index=False))
    if json:
        said = {"run_id": model.run_id, "rule": model.rule, "update": model.update, "statistics": statistics}
        rows = {"file": str(out_)} if out_ else {"rows": table.to_dict("records")}
        say_json({**said, "images": len(table), "accuracy": right, **rows})
        return 0
    out.print(
        f"{model.resolved.spec.name} → {model.resolved.spec.target}, run {model.run_id}, rule {rule} (update {model.update}), "
        f"statistics {statistics}: {len(table)} images.",
        markup=False,
    )
    if right is not None and files:
        out.print(f"Accuracy where the class is known: {right:.2f} %.", markup=False)
    elif right is not None:
        printed = record["accuracy"] if statistics == "running" else record["statistics"][statistics]["accuracy"]
        same = "as its record has it" if right == printed[model.rule] else f"its record has {printed[model.rule]:.2f} %"
        out.print(f"Accuracy on its test images: {right:.2f} %, {same}.", markup=False)
    if out_ is not None:
        out.print(str(out_), markup=False)
    else:
        shown = [name for name in ("image", "label", "probability", "truth", "uncertainty") if name in table]
        first = table[shown].head(SHOWN)
        ends = first.image.map(lambda name: name if len(name) <= NAME else f"…{name[1 - NAME :]}")  # 80 columns in all
        out.print(first.assign(image=ends).to_string(index=False), markup=False)
        rest = f"{len(table) - SHOWN} more rows, and the" if len(table) > SHOWN else "The"
        out.print(f"{rest} probability of each class: --out table.csv", markup=False)
    return 0
