"""Verbs for the images: data list, links, fetch, prepare, check, sheet."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmark.cli import DataRoot, Json, app, bars, counting, err, out, say_json

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

- `<root>/<domain>/<class>/*.jpg|jpeg|png|webp` for every suite of pictures, yours too (`suite new`); or, instead of class
  folders, one CSV of path, domain, class, or parquet shards with image, label, domain

- `PACS/<art_painting|cartoon|sketch|photo>/…` and, if had, `PACS/splits/<domain>_train_kfold.txt` …

- `DomainNet/<clipart|infograph|painting|quickdraw|real|sketch>/…` with `<domain>_train.txt`, `<domain>_test.txt`
  (cleaned lists of clipart and painting in `cleaned/`)

- `weights/resnet18.pth`, `weights/resnet101.pth`: torchvision's ImageNet weights, for the paper tier

- `fetch-lock.json`: the hash of each file as it was fetched first; a later fetch gives the same bytes or is refused
""",
)
app.add_typer(data, name="data")

SuiteName = Annotated[str, typer.Option("--suite", help="A built-in suite (`data list` names them), or a suite file.")]
AnySuite = Annotated[
    str, typer.Option("--suite", help="A built-in suite, or a suite file; default: all.", show_default=False)
]
Lists = Annotated[str, typer.Option("--lists", help="DomainNet: the cleaned or the original version.")]


def _open(suite: str, data_root: Path | None) -> tuple[Suite, Path]:
    from benchmark.data.prepared import data_folder
    from benchmark.errors import UserError
    from benchmark.spec import load_suite
    from benchmark.spec.suite import READERS

    chosen = load_suite(suite)
    if chosen.reader not in READERS:
        raise UserError(
            f"The images of {suite} are the business of the package that offers its reader {chosen.reader!r}."
        )
    return chosen, data_folder(data_root)


def _public(chosen: Suite, suite: str) -> None:
    """A suite whose images the list of sources knows, or a sentence."""
    from benchmark.data.get.sources import datasets
    from benchmark.errors import UserError

    if chosen.source not in datasets():
        raise UserError(
            f"The images of {chosen.name} are your own: nobody else has them to fetch. "
            f"Type: python -m benchmark data check --suite {suite} --data-root FOLDER"
        )


def _list_all(data_root: Path | None, json: bool) -> int:
    """Every built-in suite in one line: its domains and classes, and whether its folder is there."""
    from benchmark.data.get.overview import overview
    from benchmark.data.prepared import data_folder

    root = data_folder(data_root)
    rows = overview(root)
    if json:
        say_json({"data_root": root, "suites": [dataclasses.asdict(row) for row in rows]})
        return 0
    for row in rows:
        out.print(f"  {row.suite:17} {row.title:17} {row.words()}", markup=False)
    out.print("One of them: python -m benchmark data list --suite NAME", markup=False)
    out.print("Pictures of your own: python -m benchmark suite new NAME --from FOLDER", markup=False)
    return 0


@data.command(
    "list",
    epilog="Examples:\n\n`python -m benchmark data list` (every suite)\n\n"
    "`python -m benchmark data list --suite pacs --data-root data`",
)
def list_(suite: AnySuite = "", data_root: DataRoot = None, lists: Lists = "cleaned", json: Json = False) -> int:
    """What can be fetched, what is here already, and what has to be got by hand; without --suite: which suites there are."""
    from benchmark.data.get import lock
    from benchmark.data.get.sources import manual, size_words, sources, things

    if not suite:
        return _list_all(data_root, json)
    chosen, root = _open(suite, data_root)
    _public(chosen, suite)
    files = sources(chosen.source, lists)
    steps = manual(chosen.source, root)
    known = lock.read(root)

    def standing(s: Source) -> str:
        return s.standing(known.get(s.path(root).relative_to(root).as_posix(), {}))

    if json:
        rows = [
            {**s.model_dump(), "path": s.path(root), "here": s.path(root).is_file(), "standing": standing(s)}
            for s in files
        ]
        say_json({"suite": suite, "data_root": root, "files": rows, "manual": [m.model_dump() for m in steps]})
        return 0
    out.print(f"{chosen.title}: {len(files)} files can be fetched into {root}", markup=False)
    for s in files:
        state = "here" if s.path(root).is_file() else size_words(s.size) or "not here"
        hashed = s.hash.partition(":")[0].replace("-prefix", " (beginning)") or "no published hash: content is verified"
        mirrors = f"{len(s.urls)} mirror{'s' if len(s.urls) > 1 else ''}"
        out.print(f"  {s.file}  [{state}]  {s.about}; {mirrors}; {hashed}; {standing(s)}", markup=False)
    for t in things(files):
        ways = (f"{way[0].route} ({len(way)} file{'s' if len(way) > 1 else ''})" for way in t.order())
        out.print(f"  {t.name}: {', or '.join(ways)}", markup=False)
    for m in steps:
        out.print(f"By hand: {m.about}\n  from {m.where}\n  {m.steps}", markup=False)
    out.print("Which links live: python -m benchmark data links", markup=False)
    out.print(f"Next: python -m benchmark data fetch --suite {suite} --data-root {root}", markup=False)
    return 0


@data.command(
    epilog="Examples:\n\n`python -m benchmark data links` (everything)\n\n`python -m benchmark data links --suite pacs`"
)
def links(
    suite: AnySuite = "",
    json: Json = False,
) -> int:
    """Ask every link for its size without fetching; code 1 when something has no live link."""
    from benchmark.data.get.links import ask_all, without_a_live_link
    from benchmark.data.get.sources import AS_READ, by_hand, datasets, size_words, sources

    if suite:
        _public(_open(suite, None)[0], suite)
    names = [_open(suite, None)[0].source] if suite else datasets()
    wanted = {(name, version): sources(name, version) for name in names for version in ("cleaned", "original")}
    files = {(s.suite, s.file): s for found in wanted.values() for s in found}
    with counting("asking", json) as tell:
        asked = ask_all(files.values(), tell=tell)
    dead = without_a_live_link(wanted, asked)
    alive = sum(link.live for link in asked)
    if json:
        rows = [
            {"file": a.source.file, "url": a.url, "host": a.host, "live": a.live, "size": a.size, "words": a.words}
            for a in asked
        ]
        say_json({"links": rows, "live": alive, "without_a_live_link": list(dead)})
        return 1 if dead else 0
    for a in asked:
        size = size_words(a.size) or "no size told" if a.live else a.words
        odd = f"; {AS_READ}: {a.words}" if a.live and a.words else ""
        host = f"{a.url.partition(':')[0]}://{a.host}"
        out.print(f"  {'live' if a.live else 'DEAD'}  {host}  {a.source.file}  {size}{odd}", markup=False)
    hosts = sorted({a.host for a in asked if a.live})
    out.print(f"{alive} of {len(asked)} links live, on {len(hosts)} hosts: {', '.join(hosts) or 'none'}.", markup=False)
    for name, lost in dead.items():
        err.print(f"{name} has no live link: {', '.join(lost[:4])}{' …' if len(lost) > 4 else ''}", markup=False)
    if dead:
        err.print("By hand: python -m benchmark data list --suite NAME says where else to look.", markup=False)
    else:
        some = " that has a link" if any(map(by_hand, names)) else ""
        out.print(f"Everything{some} has at least one live link.", markup=False)
    if not any(a.answered for a in asked):
        err.print("Nothing answered: is this machine offline?", markup=False)
    for name in filter(by_hand, names):
        out.print(
            f"The images of {name} have no link to ask, only its weights have: python -m benchmark data list --suite {name}",
            markup=False,
        )
    return 1 if dead else 0


@data.command(
    epilog="Examples:\n\n`python -m benchmark data fetch --suite digits --data-root data`\n\n"
    "`python -m benchmark data fetch --suite pacs --data-root data --route huggingface` (that host before the others)\n\n"
    "`python -m benchmark data fetch --suite domainnet --only weights` (of its network, without the images)"
)
def fetch(
    suite: SuiteName = "digits",
    data_root: DataRoot = None,
    lists: Lists = "cleaned",
    route: Annotated[
        str, typer.Option("--route", help="publisher, tll or huggingface: before the others.", show_default=False)
    ] = "",
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", help="A file to take although it is not what the first fetch brought."),
    ] = None,
    only: Annotated[
        str, typer.Option("--only", help="weights: those of the suite's network, not the images.", show_default=False)
    ] = "",
    json: Json = False,
) -> int:
    """Download what the internet gives, route after route, mirror after mirror; an interrupted fetch goes on where it stopped."""
    from benchmark.data.get.fetch import fetch_all
    from benchmark.data.get.sources import WEIGHTS, manual, only_weights, sources
    from benchmark.errors import unknown

    if only not in ("", WEIGHTS):
        raise unknown("part of a suite that can be fetched alone", only, [WEIGHTS])
    chosen, root = _open(suite, data_root)
    _public(chosen, suite)
    wanted = sources(chosen.source, lists)
    if only:
        wanted = only_weights(chosen.source, wanted)
    with bars(json) as tell:
        done = fetch_all(wanted, root, route=route, accept=accept or (), tell=tell)
    steps = [] if only else manual(chosen.source, root)
    if json:
        rows = [{"file": g.source.file, "path": g.path, "sha256": g.sha256, "url": g.url} for g in done.got]
        by_hand = [m.model_dump() for m in steps]
        say_json({"suite": suite, "fetched": rows, "failed": done.failed, "passed": done.passed, "manual": by_hand})
        return 1 if done.failed else 0
    for g in done.got:
        out.print(f"  {g.path}  {'fetched' if g.url else 'was here'}  sha256 {g.sha256[:16]}…", markup=False)
    for sentence in done.passed:
        err.print(f"Another route was taken: {sentence}", markup=False)
    for sentence in done.failed:
        err.print(sentence, markup=False)
    for m in steps:
        out.print(f"By hand: {m.about}\n  from {m.where}\n  {m.steps}", markup=False)
    if not only:
        out.print(f"Next: python -m benchmark data prepare --suite {suite} --data-root {root}", markup=False)
    return 1 if done.failed else 0


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
    for note in done.notes:
        out.print(f"  {note}", markup=False)
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
    lists: Lists = "",
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
    options = {"lists": lists} if lists and chosen.folders.option == "lists" else {}
    made = bool(tier) and chosen.tier(tier).data == "embedded"  # its images are not those of the folder
    report = work(chosen, data_root, options, quick=quick, tier="" if made else tier)
    if report.ok and tier:
        report.tier, report.reading = tier, "" if made else report.reading
        report.fingerprint = load(chosen, tier, chosen.default_split, data_root, options).fingerprint
    if json:
        say_json({**dataclasses.asdict(report), "ok": report.ok})
        return 0 if report.ok else 1
    for d in report.domains:
        out.print(f"  {d.id:4} {d.name:13} {d.train:>8,} / {d.test:>7,}  {d.note}", markup=False)
    for f in report.faults:
        err.print(f"{f.file}: {f.fault}", markup=False)
    if report.ok:
        out.print(report.words(chosen.default_split, quick=quick), markup=False)
        command = f"python -m benchmark run --suite {suite} --tier {report.tier} --data-root {root}"
        out.print(f"Next: {command}", markup=False)
    else:
        err.print(f"{len(report.faults)} fault{'s' if len(report.faults) > 1 else ''} in {root}.", markup=False)
        if report.next:
            err.print(report.next, markup=False)
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
