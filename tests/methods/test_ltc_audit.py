"""`explain ltc-msda`: the arithmetic of the dead graph, what a run adds to it, and the verb that any method may answer."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from benchmark.__main__ import main
from benchmark.cli.explain import facts_of
from benchmark.spec import suite_names
from methods.contract import load_method
from methods.ltc_audit import DISPUTES, audit, explain

DIGITS = {"tier": "mini", "target": "mm", "seed": 0, "updates": 250, "live_edges": 0.0, "live_edges_most": 0.0,
          "delta_same_class": 0.06, "delta_other_class": 0.28, "global_loss": 0.1333, "share_confident": 0.28}  # fmt: skip


def test_the_border_the_noise_and_the_constant_are_those_of_the_evidence() -> None:
    found = audit(facts_of("digits", "ltc-msda", "code"))
    assert found["delta_of_a_live_edge"] == pytest.approx(3.5e-4, abs=1e-5)
    assert found["rms_of_a_live_edge"] == pytest.approx(0.019, abs=5e-4)
    assert found["delta_of_noise"] == pytest.approx(0.009, abs=5e-4)  # 12.8 images a class
    assert 100 < found["noise_exponent"] < 190
    assert found["dead_by_noise"]
    assert (found["global_loss_dead"], found["global_loss_no_target"]) == pytest.approx((0.133333, 0.613333), abs=1e-6)
    live = audit(facts_of("digits", "ltc-msda"))
    assert not live["dead_by_noise"]
    assert live["edge_of_noise"] == pytest.approx(math.exp(-found["delta_of_noise"] / (2 * 0.2**2)))


def test_the_noise_is_that_of_moving_averages_of_class_means() -> None:
    """Two classes of the same distribution, 400 units behind batch norm and ReLU, batch after batch."""
    import torch

    facts = facts_of("digits", "ltc-msda", "code")
    images, g = round(facts.batch / facts.classes), torch.Generator().manual_seed(0)
    old, apart = torch.zeros(2, 400), []
    for t in range(200):
        means = torch.randn(2, images, 400, generator=g).relu().mean(1)
        old = 0.7 * old + 0.3 * means
        if t > 20:
            apart.append((old[0] - old[1]).square().mean())
    assert torch.stack(apart).mean().item() == pytest.approx(audit(facts)["delta_of_noise"], rel=0.05)


@pytest.mark.parametrize("preset", ["", "code"])
@pytest.mark.parametrize("suite", suite_names())
def test_every_suite_can_be_explained(suite: str, preset: str) -> None:
    said = " ".join(explain(facts_of(suite, "ltc-msda", preset)).sentences)
    assert ("noise alone kills every edge" in said) is (preset == "code")


def test_runs_are_told_by_tier_with_their_ranges_and_drawn() -> None:
    facts = facts_of("digits", "ltc-msda", "code")
    lite = {**DIGITS, "tier": "lite", "delta_same_class": None, "delta_other_class": 0.5}
    runs = [DIGITS, {**DIGITS, "target": "mt", "live_edges": 0.125}, lite]
    found = explain(type(facts)(**{**vars(facts), "runs": runs}))
    mini, other = found.sentences[-2:]
    assert mini.startswith("Measured in 2 runs of tier mini (→ mm, mt; 250 updates): 0.00 to 12.50 % of the edges")
    assert other.startswith("Measured in 1 run of tier lite (→ mm; 250 updates): 0.00 % of the edges")
    assert "median δ – between domains of a class, 0.5 between classes" in other
    assert found.draw is not None
    figure = Figure()
    found.draw(figure)
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels[-2:] == ["measured: a class in two domains", "measured: two classes"]


def test_the_verb_measures_once_and_then_reads_the_record(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    few = ["--set", "run.updates=3", "--set", "run.eval_points=1", "--results", str(tmp_path), "--no-figure"]
    assert main(["explain", "ltc-msda:code", "--suite", "digits", *few]) == 0
    said = capsys.readouterr()
    assert "--measure makes one" in " ".join(said.err.split())
    assert "Measured" not in said.out
    for extra in (["--measure"], []):
        assert main(["explain", "ltc-msda:code", "--suite", "digits", *few, *extra]) == 0
        said = capsys.readouterr()
        assert ("One run of 3 updates, tier mini, → mm" in " ".join(said.err.split())) is bool(extra)
        assert (
            "Measured in 1 run of tier mini (→ mm; 3 updates): 0.00 % of the edges between prototypes alive" in said.out
        )
    assert main(["explain", "ltc-msda:code", "--suite", "digits", "--json", *few]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["runs"][0]["live_edges"], document["runs"][0]["updates"]) == (0, 3)
    # another σ, another row or another tier is another question
    for other in (["ltc-msda:code", "--set", "sigma=0.3"], ["ltc-msda"], ["ltc-msda:code", "--tier", "lite"]):
        assert main(["explain", *other, "--suite", "digits", *few]) == 0
        assert "Measured" not in capsys.readouterr().out


def test_a_method_may_answer_without_a_figure_and_says_when_there_is_nothing_to_measure(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(
        "from methods.explain import Explanation\n"
        "from methods.source_only import SourceOnly\n"
        "class Own(SourceOnly):\n"
        "    @classmethod\n"
        "    def explain(cls, facts):\n"
        "        floor = max(0, facts.classes - facts.batch) / facts.classes\n"
        "        return Explanation([f'floor {floor:.3f}'], {'floor': floor})\n"
    )
    own = ["explain", f"{tmp_path / 'own.py'}:Own", "--suite", "domainnet", "--results", str(tmp_path)]
    assert main(own) == 0
    assert capsys.readouterr().out.startswith("floor 0.")
    assert main([*own, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"] == []
    assert main([*own, "--measure"]) == 2
    assert "needs no run" in capsys.readouterr().err


def test_the_list_of_disputes_has_every_number_and_real_options() -> None:
    assert [d.id for d in DISPUTES] == [*(f"L{n}" for n in range(1, 10)), "L9b", *(f"L{n}" for n in range(10, 14))]
    cls = load_method("ltc-msda")
    for dispute in DISPUTES:
        assert bool(dispute.changes) is not bool(dispute.settled)
        default, changed = cls.HParams(), cls.HParams(**dispute.changes)
        assert (default != changed) is bool(dispute.changes)
