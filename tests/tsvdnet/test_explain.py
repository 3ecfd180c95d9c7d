"""`explain`: the audit's numbers, its sentences and its figure, for every suite."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmark.__main__ import main
from benchmark.cli.explain import facts_of, save
from benchmark.errors import UserError
from benchmark.spec import suite_names
from methods.contract import registry
from methods.errors import MethodError
from tsvdnet.explain import Audit, words
from tsvdnet.explain import audit as audit_of


def audit(suite: str, preset: str = "", **changes: Any) -> Audit:
    """The audit at the settings of a suite's largest tier."""
    return audit_of(facts_of(suite, "tsvdnet", preset, **changes))


@pytest.mark.parametrize("preset", ["", "paper", "code"])
@pytest.mark.parametrize("suite, bound", [("digits", 70.71), ("pacs", 37.04)])
def test_on_digits_and_pacs_a_is_zero_at_every_update(suite, bound, preset):
    found = audit(suite, preset)
    assert found.always_zero
    assert found.bound == pytest.approx(bound, abs=0.01)
    assert all(int(r.survivors.sum()) == 0 for r in found.references.values())
    assert "A = 0 at every update" in " ".join(words(found))


def test_the_escape_is_printed_with_the_protocols_numbers():
    """η_max > 14.1 and 27 under the paper's rule, > 2.0 and 5.1 under the code's."""
    for suite, preset, number in (
        ("digits", "", "14.1"),
        ("pacs", "", "27"),
        ("digits", "code", "2"),
        ("pacs", "code", "5.1"),
    ):
        assert f"needs η_max > {number} at λ = 1000" in " ".join(words(audit(suite, preset)))


def test_on_domainnet_only_the_zero_frequency_survives_and_nothing_under_the_printed_kernel():
    code = audit("domainnet", "code")
    assert not code.always_zero
    assert code.threshold == pytest.approx(185.7, abs=0.1)
    for r in code.references.values():
        assert r.survivors[0] == 1
        assert int(r.survivors[1:].sum()) == 0
    assert code.references["orthogonal"].sigma[0, 0].item() == pytest.approx(12920, rel=1e-3)
    assert code.references["orthogonal"].distance == pytest.approx(65, abs=1)
    printed = audit("domainnet", "paper")
    assert not printed.always_zero
    assert all(int(r.survivors.sum()) == 0 for r in printed.references.values())
    assert printed.references["orthogonal"].sigma.max().item() == pytest.approx(45.5, abs=0.01)


def test_the_share_of_the_budget_where_a_may_wake_follows_the_schedule():
    found = audit("digits", lam=10)
    assert found.eta_escape == pytest.approx(10 / 70.71, rel=1e-3)
    # η grows by five decades in 15 % of the budget
    assert found.progress_escape == pytest.approx(0.15 * (5 - 0.8495) / 5, abs=1e-3)
    assert not found.always_zero


@pytest.mark.parametrize("suite", suite_names())
def test_every_suite_can_be_explained_and_its_active_preset_survives_everywhere(suite):
    found = audit(suite, "active")
    assert (found.references["orthogonal"].survivors >= 1).all()


def test_presets_without_an_auxiliary_tensor_are_refused_in_words():
    with pytest.raises(MethodError, match="nothing to audit"):
        audit("digits", "tnn")
    with pytest.raises(UserError, match="lam"):
        audit("digits", lamda=1)


def test_the_figure_is_written_as_png_and_pdf(tmp_path):
    explanation = registry()["tsvdnet"].explain(facts_of("digits", "tsvdnet", "code"))
    paths = save(explanation, tmp_path / "new" / "digits")
    assert [p.suffix for p in paths] == [".png", ".pdf"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert paths[1].read_bytes().startswith(b"%PDF")


def run(capsys, *arguments: str) -> tuple[int, str]:
    return main(list(arguments)), capsys.readouterr().out


def test_the_verb_speaks_in_sentences_and_in_json(capsys, tmp_path):
    code, text = run(capsys, "explain", "tsvdnet", "--suite", "digits", "--results", str(tmp_path))
    assert code == 0
    assert "theorem" in text
    assert (tmp_path / "explain" / "tsvdnet-digits-paper.png").is_file()
    code, text = run(capsys, "explain", "tsvdnet:code", "--suite", "pacs", "--no-figure", "--json", "--set", "lam=10")
    document = json.loads(text)
    assert code == 0
    assert (document["always_zero"], document["lam"], document["figures"]) == (False, 10.0, [])


def test_the_verb_refuses_other_methods_with_exit_code_2(capsys):
    assert run(capsys, "explain", "dann", "--suite", "digits")[0] == 2
    assert run(capsys, "explain", "tsvdnet:code", "--suite", "digits", "--preset", "paper")[0] == 2


def test_the_disputed_choices_come_with_the_decision_and_what_to_type(capsys):
    code, text = run(capsys, "explain", "tsvdnet", "--choices", "--json")
    assert code == 0
    assert len(json.loads(text)) == 26
    code, text = run(capsys, "explain", "tsvdnet", "--choices")
    assert "--set tsvdnet.prox=code" in " ".join(text.split())
    assert "Default, paper: λ/η, Algorithm 2." in " ".join(text.split())


def test_a_method_of_ones_own_can_answer_the_verb(capsys, tmp_path):
    """The verb knows no method by name: it asks the contract's hook."""
    (tmp_path / "own.py").write_text(
        "from methods.explain import Explanation\n"
        "from methods.source_only import SourceOnly\n"
        "class Own(SourceOnly):\n"
        "    @classmethod\n"
        "    def explain(cls, facts):\n"
        "        said = f'{facts.classes} classes, {facts.domains} domains, {facts.feature_dim} features'\n"
        "        return Explanation([said], {'classes': facts.classes}, lambda figure: None)\n"
    )
    code, text = run(capsys, "explain", f"{tmp_path / 'own.py'}:Own", "--suite", "pacs", "--no-figure")
    assert (code, text) == (0, "7 classes, 4 domains, 512 features\n")
