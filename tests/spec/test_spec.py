"""Specs: frozen, validated, and identified by what they are, not where they are."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import pytest

from benchmark.errors import UserError
from benchmark.spec import RunSpec, Tier, canonical_json, load_suite, resolve, suite_names
from benchmark.spec.suite import SUITES
from tests.tiny import tiny

# Table 5 of the paper, digit for digit: (suite, network, image size, batch, lr E, lr C, λ, μ_max, feature dimension)
TABLE_5 = [
    ("digits", "conv3fc2", 32, 128, 5e-4, 5e-4, 1000, 1, 2048, 5, 10),
    ("pacs", "resnet18", 224, 16, 3e-5, 1e-3, 1000, 0.1, 512, 4, 7),
    ("domainnet", "resnet101", 224, 16, 5e-5, 5e-4, 100, 1, 2048, 6, 345),
]


@pytest.mark.parametrize("row", TABLE_5, ids=lambda row: row[0])
def test_paper_tier_is_table_5_digit_for_digit(row: tuple) -> None:
    import torch

    from benchmark.run.networks import NETWORKS

    name, network, size, batch, lr_e, lr_c, lam, eta_max, features, domains, classes = row
    suite = load_suite(name)
    tier = suite.tier("paper")
    assert (tier.network.name, tier.network.width, tier.network.image_size, tier.batch) == (network, 1.0, size, batch)
    assert (tier.optimiser.lr_extractor, tier.optimiser.lr_classifier) == (lr_e, lr_c)
    assert (suite.hparams["tsvdnet"]["lam"], suite.hparams["tsvdnet"]["eta_max"]) == (lam, eta_max)
    assert (suite.hparams["tsvdnet"]["gamma"], suite.hparams["tsvdnet"]["rho"]) == (0.05, 1.1)
    assert (len(suite.domains), len(suite.classes)) == (domains, classes)
    with torch.device("meta"):
        assert NETWORKS[network](1.0).feature_dim == features


def test_every_suite_has_the_three_tiers_and_the_papers_columns() -> None:
    assert {"digits", "pacs", "domainnet"} <= set(suite_names())
    assert load_suite("digits").columns == ["mm", "mt", "up", "sv", "syn"]
    assert load_suite("pacs").columns == ["A", "C", "S", "P"]
    assert load_suite("domainnet").columns == ["clp", "inf", "pnt", "qdr", "rel", "skt"]
    for name in ("digits", "pacs", "domainnet"):
        assert set(load_suite(name).tiers) == set(Tier)


def test_a_spec_is_frozen_and_fills_what_follows() -> None:
    spec = RunSpec("digits", "mini", "source-only", target="mm")
    assert spec.sources == ("mt", "up", "sv", "syn")
    assert (spec.standard, spec.split) == ("multi-source", "part")
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.seed = 1  # type: ignore[misc]


def test_none_is_nothing_given() -> None:
    nothing = dict.fromkeys(("preset", "standard", "sources", "split", "overrides"))
    given = RunSpec("digits", "mini", "source-only", target="mm", **nothing)  # type: ignore[arg-type]
    assert given == RunSpec("digits", "mini", "source-only", target="mm")


def test_overrides_are_the_same_in_any_order_and_form() -> None:
    a = tiny(overrides={"lr_scale": 2.0, "run.batch": 4})
    b = dataclasses.replace(a, overrides=dict(reversed(a.overrides)))  # type: ignore[arg-type]
    assert a == b
    assert RunSpec.from_json(a.to_json()) == a


def test_run_id_depends_on_every_field_that_can_move_a_number() -> None:
    base = dataclasses.replace(tiny(), data="d")
    others = [
        dataclasses.replace(base, seed=1),
        dataclasses.replace(base, threads=2),
        dataclasses.replace(base, target="up", sources=()),
        dataclasses.replace(base, preset="bn"),
        dataclasses.replace(base, split="all"),
        dataclasses.replace(base, standard="combined"),
        dataclasses.replace(base, data="e"),
        dataclasses.replace(base, tuned="abc"),
        tiny(overrides={"run.batch": 9}),
        tiny(overrides={"lr_scale": 0.5}),
    ]
    ids = [base.run_id, *(dataclasses.replace(o, data=o.data or "d").run_id for o in others)]
    assert len(set(ids)) == len(ids)
    assert base.run_id == dataclasses.replace(base).run_id


def test_run_id_counts_protocol_and_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    from methods.source_only import SourceOnly

    spec = dataclasses.replace(tiny(), data="d")
    before = spec.run_id
    monkeypatch.setattr(SourceOnly, "revision", 99)
    assert spec.run_id != before


def test_a_users_method_is_identified_by_its_content_not_its_place(tmp_path: Path) -> None:
    text = "from methods.source_only import SourceOnly\nclass Mine(SourceOnly):\n    name = 'mine'\n"
    ids = []
    for folder, content in (("a", text), ("b", text), ("c", text + "# changed\n")):
        (tmp_path / folder).mkdir()
        file = tmp_path / folder / "mine.py"
        file.write_text(content)
        ids.append(dataclasses.replace(tiny(), method=f"{file}:Mine", data="d").run_id)
    assert ids[0] == ids[1] != ids[2]


def test_hyper_parameters_resolve_in_the_stated_order() -> None:
    pacs = resolve(RunSpec("pacs", "mini", "tsvdnet", target="A", data="d")).hparams
    assert pacs.eta_max == 0.1  # suite over default
    own = resolve(RunSpec("pacs", "mini", "tsvdnet", target="A", data="d", overrides=(("eta_max", 7),))).hparams
    assert own.eta_max == 7.0  # --set over suite


def test_a_target_cannot_be_its_own_source() -> None:
    with pytest.raises(UserError, match="cannot be one of its own sources"):
        resolve(RunSpec("digits", "mini", "source-only", target="mm", sources=("mm", "mt"), data="d"))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("tier", "huge", "Allowed: mini, lite, paper"),
        ("method", "dna", "Did you mean 'dan'"),
        ("preset", "bnn", "Did you mean 'bn'"),
        ("standard", "multi", "Did you mean 'multi-source'"),
        ("split", "some", "Allowed: part, all"),
        ("target", "mmm", "Did you mean 'mm'"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest_right_one(field: str, value: str, words: str) -> None:
    with pytest.raises((UserError, ValueError)) as caught:
        resolve(
            RunSpec(
                **{**RunSpec("digits", "mini", "source-only", target="mt").to_json(), field: value, "sources": ("sv",)}
            )
        )
    if field != "method":  # an unknown method is found before a spec can exist
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ({"run.batsch": 3}, "Did you mean 'run.batch'"),
        ({"run.batch": "many"}, "run.batch = 'many' is not right"),
        ({"run.batch": 1}, "run.batch = 1 is not right"),
        ({"lr_scal": 3}, "Did you mean 'lr_scale'"),
    ],
)
def test_a_wrong_override_is_a_sentence(override: dict, words: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve(dataclasses.replace(tiny(overrides=override), data="d"))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("protocol = 2", "protocol = 'two'"), "protocol"),
        (('name = "digits"', 'nome = "digits"'), "nome"),
        (("[tiers.mini]", "[tiers.mini"), "not valid TOML"),
        (('data = "embedded"', 'data = "cloud"'), "tiers.mini.data"),
        (('columns = ["mm", "mt", "up", "sv", "syn"]', 'columns = ["mm"]'), "columns must name each domain once"),
    ],
)
def test_a_broken_suite_file_names_file_and_key(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    text = (Path(load_suite.__wrapped__.__code__.co_filename).parent / "suites" / "digits.toml").read_text()
    assert change[0] in text
    file = tmp_path / "mine.toml"
    file.write_text(text.replace(change[0], change[1], 1))
    with pytest.raises(UserError) as caught:
        load_suite(str(file))
    assert "mine.toml" in str(caught.value)
    assert words in str(caught.value)


def test_a_suite_file_of_ones_own_works(tmp_path: Path) -> None:
    text = (Path(load_suite.__wrapped__.__code__.co_filename).parent / "suites" / "digits.toml").read_text()
    file = tmp_path / "mine.toml"
    file.write_text(text.replace('name = "digits"', 'name = "mine"', 1))
    assert load_suite(str(file)).name == "mine"
    with pytest.raises(UserError, match="does not exist"):
        load_suite(str(tmp_path / "absent.toml"))


@pytest.mark.parametrize(
    "stem, better", [("my small", "my-small"), ("ψηφία", "my-suite"), ("größe", "gr-e"), ("-x", "x"), ("a,b", "a-b")]
)
def test_a_suite_file_whose_results_nobody_could_read_is_refused_with_a_better_name(
    tmp_path: Path, stem: str, better: str
) -> None:
    text = (Path(load_suite.__wrapped__.__code__.co_filename).parent / "suites" / "digits.toml").read_text()
    file = tmp_path / "a folder may have any name"
    file.mkdir()
    (file / f"{stem}.toml").write_text(text)
    with pytest.raises(UserError, match="cannot have this name") as caught:
        load_suite(str(file / f"{stem}.toml"))
    command = shlex.split(str(caught.value).partition("Type: ")[2])
    assert command == ["mv", str(file / f"{stem}.toml"), str(file / f"{better}.toml")]
    Path(command[1]).rename(command[2])
    assert load_suite(command[2]).name == "digits"


def test_canonical_json_has_one_spelling() -> None:
    assert canonical_json({"b": 1.0, "a": [True, None]}) == '{"a":[true,null],"b":1.0}'
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(float("nan"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('root = "PACS"', "", "the reader folders wants root"),
        ('root = "PACS"', 'root = "../PACS"', "not a plain path inside the data folder"),
        ('reader = "folders"', 'reader = "pacs"', "there is no reader 'pacs'; allowed: digits, folders"),
        ('name = "split"', 'name = "transductive"', "two readings have the same name"),
        ('name = "photo"', 'name = ".photo"', "not the name of one folder that can be seen"),
        ('lists = ["splits', 'lists = ["/splits', "not a plain path inside the data folder"),
    ],
)
def test_how_pictures_lie_is_checked_when_the_suite_is_read(tmp_path, old, new, words):
    text = (SUITES / "pacs.toml").read_text(encoding="utf-8")
    assert old in text
    file = tmp_path / "mine.toml"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UserError, match=words):
        load_suite(str(file))
