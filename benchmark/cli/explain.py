"""The verb explain: a method's arithmetic in words and a figure, before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from benchmark.cli import RESULTS, Json, Results, app, err, out, say_json
from benchmark.errors import UserError, unknown


def parse_settings(texts: list[str] | None) -> dict[str, Any]:
    """`lam=10` or `tsvdnet.lam=10` → {"lam": "10"}."""
    found = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not value:
            raise UserError(f"--set {text!r} is not of the form key=value, as in: --set lam=10")
        found[key.strip().removeprefix("tsvdnet.")] = value.strip()
    return found


@app.command(
    epilog="Examples:\n\n"
    "`python -m benchmark explain tsvdnet --suite digits`\n\n"
    "`python -m benchmark explain tsvdnet --suite domainnet --preset code`\n\n"
    "`python -m benchmark explain tsvdnet --suite digits --set lam=10 --set eta_max=1`\n\n"
    "`python -m benchmark explain tsvdnet --choices`"
)
def explain(
    method: Annotated[str, typer.Argument(help="tsvdnet, or tsvdnet:preset.")] = "tsvdnet",
    suite: Annotated[str, typer.Option(help="A built-in suite, or a suite file.")] = "digits",
    preset: Annotated[str, typer.Option(help="A preset of the method: paper, code, active, …")] = "",
    tier: Annotated[str, typer.Option(help="Whose settings: mini, lite or paper.", show_default="the largest")] = "",
    set_: Annotated[list[str] | None, typer.Option("--set", help="Another value of a hyper-parameter: lam=10")] = None,
    choices: Annotated[
        bool,
        typer.Option("--choices", help="Instead: the disputed choices of paper and code, and how to measure each."),
    ] = False,
    figure: Annotated[bool, typer.Option("--figure/--no-figure", help="Also draw it, as PNG and PDF.")] = True,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Say whether T-SVDNet's low-rank term can act at the settings of a suite: bound, threshold, survivors, escape."""
    from benchmark.analysis import explain as audits

    name, _, own = method.partition(":")
    if name != "tsvdnet":
        raise unknown("audit of method", name, ["tsvdnet"], "The other methods have no auxiliary tensor.")
    if choices:
        return say_choices(suite, json)
    if own and preset and own != preset:
        raise UserError(f"Two presets were named, {own!r} and {preset!r}; name one.")
    found = audits.audit(suite, preset or own, tier, parse_settings(set_))
    paths: list[Path] = []
    if figure:
        label = "-".join(["tsvdnet", *([found.preset] if found.preset else []), found.suite, found.tier])
        paths = audits.draw(found, results / "explain" / label)
    if json:
        say_json({**found.to_json(), "words": audits.words(found), "figures": [str(p) for p in paths]})
        return 0
    for line in audits.words(found):
        out.print(line, markup=False)
    for path in paths:
        err.print(f"figure: {path}", markup=False)
    return 0


def say_choices(suite: str, json: bool) -> int:
    """The disagreements between paper and code, each with the options that measure it."""
    from tsvdnet.disputes import DISPUTES

    if json:
        say_json([{**vars(d), "changes": dict(d.changes)} for d in DISPUTES])
        return 0
    for d in DISPUTES:
        options = " ".join(f"--set tsvdnet.{key}={str(value).lower()}" for key, value in d.changes.items())
        out.print(
            f"{d.id:4}{d.question}: paper {d.paper}; code {d.code}. Default, {d.decision}. "
            f"{'Other: ' + options if options else 'Settled: ' + d.settled}",
            markup=False,
        )
    out.print(
        f"Effects: python -m benchmark run --suite {suite} --methods tsvdnet --seeds 0-2, once plain and once for each of "
        f"these, then python -m benchmark table --suite {suite} --kind choices",
        markup=False,
    )
    return 0
