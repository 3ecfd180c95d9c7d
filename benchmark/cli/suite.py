"""The verb suite: a suite file for pictures of one's own."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmark.cli import DataRoot, Json, app, counting, err, out, say_json

if TYPE_CHECKING:
    from benchmark.data.look.propose import Proposal

suite = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="""Images of your own: a suite file that `run`, `table` and all others take with `--suite FILE.toml`.

What can be read, below one folder:

- `<domain>/<class>/*.jpg|jpeg|png|webp`, and lists `<domain>_train.txt`, `<domain>_test.txt` (`name label`) where there are any

- one CSV with the columns `path,domain,class` and, if you like, `split`

- parquet shards in Hugging Face's layout: `image`, `label`, `domain` and, if you like, `split`

The same images are the same data in each form.
""",
)
app.add_typer(suite, name="suite")


@suite.callback()
def verbs() -> None:
    """Images of your own: a suite file that all verbs take."""


@suite.command(
    epilog="Examples:\n\n`python -m benchmark suite new office --from ~/pictures/office`\n\n"
    "`python -m benchmark suite new office --from data/office --data-root data`"
)
def new(
    name: Annotated[str, typer.Argument(help="The suite's name: small letters, digits, -.")],
    origin: Annotated[Path, typer.Option("--from", help="The folder with the domains.", show_default=False)],
    to: Annotated[Path, typer.Option("--out", help="Where to write NAME.toml.", show_default="here")] = Path("."),
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """Look at a folder of pictures, say what is odd about it, and write NAME.toml: domains, classes, networks, budgets."""
    from benchmark.data.look import odd, propose
    from benchmark.data.look.survey import survey
    from benchmark.errors import UserError
    from benchmark.spec import load_suite, suite_names

    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) or name in suite_names():
        taken = "that is a built-in suite" if name in suite_names() else "small letters and digits, words joined by -"
        raise UserError(
            f"A suite cannot be named {name!r}: {taken}. Type: python -m benchmark suite new my-images --from …"
        )
    file = to / f"{name}.toml"
    if file.exists():
        raise UserError(f"{file} is there already, and nothing is written over it. Choose another name, or move it.")
    above, root = _places(origin, data_root)
    with counting("looking", json) as tell:
        found = survey(above / root, above, tell)
    proposal = propose.propose(name, root, found)
    said = odd.oddities(found, proposal.classes)
    audit = _audit(proposal)
    propose.write(file, propose.toml(proposal, audit))
    load_suite(str(file))
    names = shlex.quote(str(file)), shlex.quote(str(above))
    command = "python -m benchmark run --suite {} --tier mini --methods card --data-root {}".format(*names)
    if json:
        counts = {proposal.ids[d]: sum(n) for d, n in proposal.by_class().items()}
        say_json({"file": file, "root": root, "data_root": above, "form": found.form, "classes": proposal.classes,
                  "images": counts, "odd": said, "audit": audit, "command": command})  # fmt: skip
        return 0
    _say(proposal, said, audit)
    out.print(f"Wrote {file}. Next:", markup=False)
    out.print(f"  {command}", markup=False)
    return 0


def _places(origin: Path, data_root: Path | None) -> tuple[Path, str]:
    """The data root, and the folder below it: the given root if the pictures lie in it, else the folder above them."""
    from benchmark.files import shown

    place = Path(os.path.abspath(origin))
    if data_root is not None and place != data_root.absolute() and place.is_relative_to(data_root.absolute()):
        return data_root, place.relative_to(data_root.absolute()).as_posix()
    return place.parent, shown(place.name)


def _audit(proposal: Proposal) -> list[str]:
    """What the paper's method says of its settings on these pictures: does its tensor A survive?"""
    from benchmark.cli.explain import facts_of
    from benchmark.data.look import propose
    from benchmark.spec import method_class

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{proposal.name}.toml"
        propose.write(file, propose.toml(proposal))
        explanation = method_class("tsvdnet").explain(facts_of(str(file), "tsvdnet", tier="paper"))
    assert explanation is not None
    return [s for s in explanation.sentences if s.startswith(("So A", "The escape", "The border"))]


def _say(proposal: Proposal, said: list[str], audit: list[str]) -> None:
    """What was found, for people."""
    found = proposal.survey
    out.print(
        f"{found.root}: {proposal.images:,} pictures of {len(proposal.classes)} classes in {len(proposal.ids)} domains "
        f"({found.form}), typically {proposal.side} pixels wide or high",
        markup=False,
    )
    for domain, counts in proposal.by_class().items():
        spread = f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
        out.print(f"  {proposal.ids[domain]:6} {domain:20} {sum(counts):>8,}  {spread} a class", markup=False)
    if found.lists:
        out.print("  There are train and test lists: trained on the one, scored on the other.", markup=False)
    for sentence in said:
        err.print(f"odd: {sentence}", markup=False, style="yellow")
    for sentence in audit:
        out.print(f"tsvdnet: {sentence}", markup=False)
