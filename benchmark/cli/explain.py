"""The verb explain: what a method says of its settings, in words and a figure, from arithmetic and from finished runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmark.cli import RESULTS, DataRoot, Json, Results, app, duration, err, home, out, say_json
from benchmark.errors import UserError, unknown

if TYPE_CHECKING:
    from benchmark.spec import Resolved
    from methods.explain import Dispute, Explanation, Facts


def parse_settings(texts: list[str] | None, method: str) -> dict[str, Any]:
    """`lam=10` or `tsvdnet.lam=10` → {"lam": 10}; settings of the harness as `run.updates=60`."""
    from benchmark.plan.grid import literal

    found = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not value:
            raise UserError(f"--set {text!r} is not of the form key=value, as in: --set lam=10")
        found[key.strip().removeprefix(f"{method}.")] = literal(value.strip())
    return found


def facts_of(suite: str, method: str, preset: str = "", tier: str = "", **changes: Any) -> Facts:
    """The method at the settings of a suite's tier (default: paper, or the largest there is), before any data is opened."""
    from benchmark.spec import RunSpec, Tier, load_suite, resolve
    from methods.explain import Facts

    found = load_suite(suite)
    tier = tier or list(Tier)[max(list(Tier).index(t) for t in found.tiers)].value
    spec = RunSpec(suite, tier, method, preset, target=found.columns[0], overrides=tuple(changes.items()))
    resolved = resolve(spec)
    return Facts(
        found.name,
        tier,
        preset,
        number_of_classes(resolved),
        len(found.domains),
        feature_dim(resolved),
        resolved.settings.batch,
        resolved.hparams,
    )


def finished_runs(results: Path, facts: Facts, method: str, tier: str = "") -> list[dict[str, Any]]:
    """What finished runs at these settings say (`Method.diagnostics` at their end), of one tier or of all."""
    from benchmark import records
    from benchmark.run.score.evaluate import json_safe
    from methods.contract import method_revision

    frame = records.load(results)
    wanted = (frame["status"] == "done") & (frame["method"] == method) & (frame["preset"] == facts.preset)
    wanted &= (frame["suite"] == facts.suite) & (frame["revision"] == method_revision(method))
    found = []
    for path in frame[wanted & ((frame["tier"] == tier) if tier else True)]["path"]:
        record = records.read(Path(path))
        assert record is not None
        if record["resolved"]["hparams"] == json_safe(dataclasses.asdict(facts.hparams)):
            where = {key: record["spec"][key] for key in ("tier", "target", "seed")}
            found.append({**where, "updates": record["cost"]["updates"], **record["diagnostics"]})
    return found


def measure(
    results: Path, suite: str, method: str, preset: str, tier: str, changes: Mapping[str, Any], data_root: Path | None
) -> None:
    """One run at these settings: the first target, seed 0, in the smallest tier unless another is named."""
    from benchmark.run import execute
    from benchmark.spec import RunSpec, Tier, load_suite, resolve

    found = load_suite(suite)
    tier = tier or next(t.value for t in Tier if t in found.tiers)
    spec = RunSpec(suite, tier, method, preset, target=found.columns[0], overrides=tuple(changes.items()))
    settings = resolve(spec).settings
    seconds = duration(settings.updates * settings.seconds_per_update)
    err.print(f"One run of {settings.updates} updates, tier {tier}, → {spec.target}: about {seconds} on a free core …")
    execute(spec, results=results, data_root=data_root)


def number_of_classes(resolved: Resolved) -> int:
    """The classes of the suite; the generated pictures of a mini tier have their own."""
    from benchmark.data.made.pictures import CLASSES

    if resolved.settings.data == "embedded" and resolved.suite.source in CLASSES:
        return len(CLASSES[resolved.suite.source])
    return len(resolved.suite.classes)


def feature_dim(resolved: Resolved) -> int:
    """Features of the tier's network, without building it."""
    from benchmark.run.networks import shape

    network = resolved.settings.network
    return shape(network.name, network.width, network.image_size).feature_dim


def save(explanation: Explanation, stem: Path) -> list[Path]:
    """The figure as `stem`.png and `stem`.pdf."""
    from matplotlib.figure import Figure

    from benchmark.files import replacing

    assert explanation.draw is not None
    figure = Figure(figsize=(10, 4), layout="constrained")
    explanation.draw(figure)
    paths = [stem.parent / f"{stem.name}{ending}" for ending in (".png", ".pdf")]
    for path in paths:
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=150, format=path.suffix[1:])
    return paths


@app.command(
    epilog="Examples:\n\n"
    "`python -m benchmark explain tsvdnet --suite digits`\n\n"
    "`python -m benchmark explain tsvdnet --suite domainnet --preset code`\n\n"
    "`python -m benchmark explain tsvdnet --suite digits --set lam=10 --set eta_max=1`\n\n"
    "`python -m benchmark explain ltc-msda --suite digits --preset code --measure`\n\n"
    "`python -m benchmark explain tsvdnet --choices`"
)
def explain(
    method: Annotated[
        str, typer.Argument(help="A method that has something to say: name, or name:preset.")
    ] = "tsvdnet",
    suite: Annotated[str, typer.Option(help="A built-in suite, or a suite file.")] = "digits",
    preset: Annotated[str, typer.Option(help="A preset of the method: paper, code, active, …")] = "",
    tier: Annotated[str, typer.Option(help="Whose settings: mini, lite or paper.", show_default="the largest")] = "",
    set_: Annotated[list[str] | None, typer.Option("--set", help="Another value of a hyper-parameter: lam=10")] = None,
    choices: Annotated[
        bool,
        typer.Option("--choices", help="Instead: the disputed choices of paper and code, and how to measure each."),
    ] = False,
    measure_: Annotated[
        bool,
        typer.Option("--measure", help="First make a run whose record says what arithmetic cannot, if there is none."),
    ] = False,
    figure: Annotated[bool, typer.Option("--figure/--no-figure", help="Also draw it, as PNG and PDF.")] = True,
    results: Results = RESULTS,
    data_root: DataRoot = None,
    json: Json = False,
) -> int:
    """Say what follows from a method's settings: whether T-SVDNet's low-rank term or LtC-MSDA's graph can act, by bound and
    threshold; and what finished runs in the results add to it."""
    from benchmark.plan import split_name
    from benchmark.spec import method_class
    from methods.contract import registry

    name, own = split_name(method)
    cls = method_class(name)
    if choices and cls.disputes:
        return say_choices(name, cls.disputes, suite, json)
    if own and preset and own != preset:
        raise UserError(f"Two presets were named, {own!r} and {preset!r}; name one.")
    changes = parse_settings(set_, name)
    facts = facts_of(suite, name, preset or own, tier, **changes)
    explanation = cls.explain(facts)
    if explanation is None:
        able = [known for known, other in registry().items() if "explain" in vars(other)]
        raise unknown("audit of method", name, able, "A method answers with `explain`, see methods/contract.py.")
    if measure_ and not explanation.measurable:
        raise UserError(f"What {name} has to say needs no run: leave --measure out.")
    if explanation.measurable:
        runs = finished_runs(results, facts, name, tier)
        if measure_ and not runs:
            measure(results, suite, name, facts.preset, tier, changes, data_root)
            runs = finished_runs(results, facts, name, tier)
        if not runs:
            err.print(
                f"No finished run of these settings in {results}: --measure makes one and says what it saw.",
                markup=False,
            )
        explanation = cls.explain(dataclasses.replace(facts, runs=runs))
        assert explanation is not None
    paths: list[Path] = []
    if figure and explanation.draw is not None:
        label = "-".join(filter(None, [cls.name, facts.preset, facts.suite, facts.tier]))
        paths = save(explanation, home(results, "--results FOLDER, or no figure: --no-figure") / "explain" / label)
    if json:
        say_json({**explanation.numbers, "words": explanation.sentences, "figures": [str(p) for p in paths]})
        return 0
    for line in explanation.sentences:
        out.print(line, markup=False)
    for path in paths:
        err.print(f"figure: {path}", markup=False)
    return 0


def say_choices(name: str, disputes: Sequence[Dispute], suite: str, json: bool) -> int:
    """The disagreements between paper and code, each with the options that measure it."""
    if json:
        say_json([{**vars(d), "changes": dict(d.changes)} for d in disputes])
        return 0
    for d in disputes:
        options = " ".join(f"--set {name}.{key}={str(value).lower()}" for key, value in d.changes.items())
        out.print(
            f"{d.id:4}{d.question}: paper {d.paper}; code {d.code}. Default, {d.decision}. "
            f"{'Other: ' + options if options else 'Settled: ' + d.settled}",
            markup=False,
        )
    out.print(
        f"Effects: python -m benchmark run --suite {suite} --methods {name} --seeds 0-2, once plain and once for each of "
        f"these, then python -m benchmark table --suite {suite} --kind choices",
        markup=False,
    )
    return 0
