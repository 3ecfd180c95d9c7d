"""Verbs for the images: data list, fetch, prepare, check, sheet."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmark.cli import DataRoot, Json, app, err, out, quiet, say_json

if TYPE_CHECKING:
    from benchmark.data.get.sources import Source
    from benchmark.spec import Suite

data = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="""The images: what there is, getting it, preparing it, checking it, looking at it.

The mini tier needs none of this. The prepared form, under the data root:

- `digits/<mnist|mnistm|usps|svhn|syn>.npz`: x_train, y_train, x_test, y_test; uint8, native size, labels 0–9; without
  syn.npz our generator makes the domain, shown as syn*

- `PACS/<art_painting|cartoon|sketch|photo>/<class>/*.jpg|png` and, if had, `PACS/splits/<domain>_train_kfold.txt` …

- `DomainNet/<clipart|infograph|painting|quickdraw|real|sketch>/<class>/*` with `<domain>_train.txt`, `<domain>_test.txt`
  (cleaned lists of clipart and painting in `cleaned/`)

- `weights/resnet18.pth`, `weights/resnet101.pth`: torchvision's ImageNet weights, for the paper tier
""",
)
app.add_typer(data, name="data")

SuiteName = Annotated[str, typer.Option("--suite", help="digits, pacs, pacs-frozen or domainnet.")]
Lists = Annotated[str, typer.Option("--lists", help="DomainNet: the cleaned or the original version.")]


def _open(suite: str, data_root: Path | None) -> tuple[Suite, Path]:
    from benchmark.data.prepared import data_folder
    from benchmark.spec import load_suite

    return load_suite(suite), data_folder(data_root)


@data.command("list", epilog="Example: `python -m benchmark data list --suite pacs --data-root data`")
def list_(suite: SuiteName = "digits", data_root: DataRoot = None, lists: Lists = "cleaned", json: Json = False) -> int:
    """What can be fetched, what is here already, and what has to be got by hand."""
    from benchmark.data.get.sources import manual, sources

    chosen, root = _open(suite, data_root)
    files = sources(chosen.reader, lists)
    steps = manual(chosen.reader, root)
    if json:
        rows = [{**s.model_dump(), "path": s.path(root), "here": s.path(root).is_file()} for s in files]
        say_json({"suite": suite, "data_root": root, "files": rows, "manual": [m.model_dump() for m in steps]})
        return 0
    out.print(f"{chosen.title}: {len(files)} files can be fetched into {root}", markup=False)
    for s in files:
        state = "here" if s.path(root).is_file() else _size(s.size) or "not here"
        known = s.hash.partition(":")[0].replace("-prefix", " (beginning)") or "no published hash: content is verified"
        mirrors = f"{len(s.urls)} mirror{'s' if len(s.urls) > 1 else ''}"
        out.print(f"  {s.file}  [{state}]  {s.about}; {mirrors}; {known}", markup=False)
    for m in steps:
        out.print(f"By hand: {m.about}\n  from {m.where}\n  {m.steps}", markup=False)
    out.print(f"Next: python -m benchmark data fetch --suite {suite} --data-root {root}", markup=False)
    return 0


@data.command(epilog="Example: `python -m benchmark data fetch --suite digits --data-root data`")
def fetch(suite: SuiteName = "digits", data_root: DataRoot = None, lists: Lists = "cleaned", json: Json = False) -> int:
    """Download what the internet gives, mirror after mirror; an interrupted fetch goes on where it stopped."""
    from benchmark.data.get.fetch import fetch_all
    from benchmark.data.get.sources import manual, sources

    chosen, root = _open(suite, data_root)
    with _bars(json) as tell:
        got, failed = fetch_all(sources(chosen.reader, lists), root, tell=tell)
    steps = manual(chosen.reader, root)
    if json:
        rows = [{"file": g.source.file, "path": g.path, "sha256": g.sha256, "url": g.url} for g in got]
        say_json({"suite": suite, "fetched": rows, "failed": failed, "manual": [m.model_dump() for m in steps]})
        return 1 if failed else 0
    for g in got:
        out.print(f"  {g.path}  {'fetched' if g.url else 'was here'}  sha256 {g.sha256[:16]}…", markup=False)
    for sentence in failed:
        err.print(sentence, markup=False)
    for m in steps:
        out.print(f"By hand: {m.about}\n  from {m.where}\n  {m.steps}", markup=False)
    out.print(f"Next: python -m benchmark data prepare --suite {suite} --data-root {root}", markup=False)
    return 1 if failed else 0


@data.command(
    epilog="Examples:\n\n`python -m benchmark data prepare --suite digits --data-root data` (what was fetched)\n\n"
    "`python -m benchmark data prepare --suite pacs --data-root data --from ~/Downloads/pacs` (what you have)"
)
def prepare(
    suite: SuiteName = "digits",
    data_root: DataRoot = None,
    origin: Annotated[
        Path | None, typer.Option("--from", help="Folder with your files; default: the downloads.", show_default=False)
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Make digits again that are there already.")] = False,
    json: Json = False,
) -> int:
    """Turn downloads, or files of your own, into the prepared form. Folders of your own are linked, not copied."""
    from benchmark.data.get.prepare import prepare as work

    chosen, root = _open(suite, data_root)
    done = work(chosen, root, origin, again=again)
    failed = bool(done.refused or (not done.made and not done.kept))
    if json:
        say_json({"suite": suite, "data_root": root, **dataclasses.asdict(done)})
        return 1 if failed else 0
    for name, words in done.made.items():
        out.print(f"  {name}: made from {words}", markup=False)
    for name in done.kept:
        out.print(f"  {name}: was here", markup=False)
    if done.lists:
        out.print(f"  lists: {', '.join(done.lists)}", markup=False)
    for sentence in done.refused:
        err.print(sentence, markup=False)
    for name in done.missing:
        hint = " (our generator makes syn* when it is wanted)" if name == "syn" else ""
        err.print(f"  {name}: nothing found{hint}", markup=False)
    out.print(f"Next: python -m benchmark data check --suite {suite} --data-root {root}", markup=False)
    return 1 if failed else 0


@data.command(
    epilog="Examples:\n\n`python -m benchmark data check --suite digits --data-root data`\n\n"
    "`python -m benchmark data check --suite pacs-frozen --data-root data --tier lite` (and make the activations now)"
)
def check(
    suite: SuiteName = "digits",
    data_root: DataRoot = None,
    lists: Lists = "cleaned",
    quick: Annotated[bool, typer.Option("--quick", help="Do not decode every picture.")] = False,
    tier: Annotated[
        str, typer.Option("--tier", help="Also load as runs of this tier do: what they make on first use is made now.")
    ] = "",
    json: Json = False,
) -> int:
    """Verify counts, shapes, labels and pictures; name every fault with its file, all at once."""
    from benchmark.data import load
    from benchmark.data.get.check import check as work

    chosen, root = _open(suite, data_root)
    options = {"lists": lists} if chosen.reader == "domainnet" else {}
    report = work(chosen, data_root, options, quick=quick)
    if report.ok and tier:
        report.fingerprint = load(chosen, tier, chosen.default_split, data_root, options).fingerprint
    if json:
        say_json({**dataclasses.asdict(report), "ok": report.ok})
        return 0 if report.ok else 1
    for d in report.domains:
        out.print(f"  {d.id:4} {d.name:13} {d.train:>8,} / {d.test:>7,}  {d.note}", markup=False)
    for f in report.faults:
        err.print(f"{f.file}: {f.fault}", markup=False)
    if report.ok:
        out.print(f"All is well. Fingerprint {report.fingerprint} (split {chosen.default_split}).", markup=False)
        out.print(f"Next: python -m benchmark run --suite {suite} --tier lite --data-root {root}", markup=False)
    else:
        err.print(f"{len(report.faults)} fault{'s' if len(report.faults) > 1 else ''} in {root}.", markup=False)
    return 0 if report.ok else 1


@data.command(
    epilog="Examples:\n\n`python -m benchmark data sheet --suite digits` (the embedded images)\n\n"
    "`python -m benchmark data sheet --suite pacs --tier lite --data-root data --out pacs.png` (yours; not for publishing)"
)
def sheet(
    suite: SuiteName = "digits",
    data_root: DataRoot = None,
    tier: Annotated[str, typer.Option("--tier", help="mini, lite or paper.")] = "mini",
    to: Annotated[Path, typer.Option("--out", help="The PNG to write.")] = Path("sheet.png"),
    generated_only: Annotated[
        bool, typer.Option("--generated-only", help="Leave real images out: for publishing.")
    ] = False,
    json: Json = False,
) -> int:
    """A contact sheet: every domain side by side, one row a class."""
    from benchmark.data import load
    from benchmark.data.sheet import sheet as draw

    chosen, _ = _open(suite, data_root)
    dataset = load(chosen, tier, chosen.default_split, data_root)
    title = f"{chosen.title}, tier {tier}"
    path = draw(dataset, to, generated_only=generated_only, title=title)
    document: dict[str, Any] = {"sheet": str(path), "fingerprint": dataset.fingerprint, "note": dataset.note}
    if json:
        say_json(document)
    else:
        out.print(f"{path}: {dataset.note}; fingerprint {dataset.fingerprint}", markup=False)
    return 0


def _size(size: int) -> str:
    return f"about {size / 1e9:.1f} GB" if size >= 1e9 else f"about {max(1, round(size / 1e6))} MB" if size else ""


@contextlib.contextmanager
def _bars(json: bool) -> Iterator[Callable[[Source, int, int], None] | None]:
    """A progress bar for each file; nothing when nobody watches."""
    if json or quiet():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err) as progress:
        tasks: dict[str, Any] = {}

        def tell(source: Source, done: int, total: int) -> None:
            if source.file not in tasks:
                tasks[source.file] = progress.add_task(source.file, total=None)
            progress.update(tasks[source.file], completed=done, total=total or None)

        yield tell
