"""Cluster profiles: what a mistake in the file says, and what a right file means."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark.errors import UserError
from benchmark.launch.cluster import Profile, Resources, load_profile, minutes

ROOT = Path(__file__).parents[2]


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str) -> Path:
        file = tmp_path / "cluster.toml"
        file.write_text(text)
        return file

    return write


def refusal(file: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_profile(file)
    return str(caught.value)


@pytest.mark.parametrize("file", sorted((ROOT / "slurm").glob("*.toml")), ids=lambda f: f.name)
def test_every_profile_of_the_project_is_valid(file: Path):
    profile = load_profile(file)
    assert profile.title
    for tier in ("mini", "lite", "paper"):
        assert profile.resources(tier).partition


def test_an_unknown_key_is_answered_with_the_nearest_and_with_every_valid_one(write):
    said = refusal(write('partion = "gpu"'))
    assert "Did you mean 'partition'?" in said
    assert all(key in said for key in Profile.model_fields)
    assert "\n" not in said


def test_an_unknown_key_of_a_tier_lists_the_keys_that_a_tier_may_set(write):
    said = refusal(write("[tiers.paper]\nparallel = 3"))
    assert "[tiers.paper]" in said
    assert all(key in said for key in Resources.model_fields)
    assert "pack_minutes" not in said


@pytest.mark.parametrize(
    "text, words",
    [
        ("gpus = -1", ["gpus = -1", "greater than or equal to 0"]),
        ('gpus = "two"', ["gpus = 'two'", "integer"]),
        ('time = "soon"', ["time = 'soon'", "D-HH:MM:SS"]),
        ("[tiers.papr]\ngpus = 1", ["'papr'", "Did you mean 'paper'?"]),
        ("[tiers.paper]\ngpus = -1", ["[tiers.paper]", "gpus = -1"]),
        ('[sbatch]\narray = "0-3"', ["--array", "parallel"]),
        ('[sbatch]\noutput = "x"', ["--output", "launcher"]),
        ('setup = "module load cuda"', ["setup", "list"]),
        ("gpus =", ["not valid TOML"]),
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_file_key_and_what_is_allowed(write, text, words):
    file = write(text)
    said = refusal(file)
    assert str(file) in said
    assert all(word in said for word in words), said
    assert "\n" not in said


def test_a_missing_profile_names_those_that_exist():
    said = refusal(ROOT / "slurm" / "nothing.toml")
    assert "does not exist" in said
    assert "one-gpu.toml" in said


def test_the_table_of_a_tier_wins_over_the_top_and_adds_to_its_sbatch_options(write):
    profile = load_profile(
        write(
            'gpus = 1\ntime = 60\n[sbatch]\nnice = 5\n[tiers.paper]\ntime = "1-0:00:00"\n'
            '[tiers.paper.sbatch]\nmail_type = "END"'
        )
    )
    assert profile.resources("lite").time == 60
    paper = profile.resources("paper")
    assert (paper.gpus, paper.time) == (1, 1440)
    assert paper.sbatch == {"nice": 5, "mail-type": "END"}


@pytest.mark.parametrize(
    "text, wanted",
    [("90", 90), ("2:30", 3), ("1:00:00", 60), ("0:00:01", 1), ("2-0", 2880), ("1-12:30", 2190), ("1-0:00:30", 1441)],
)
def test_times_are_read_as_sbatch_reads_them(text, wanted):
    assert minutes(text) == wanted


def test_the_manual_lists_every_key_with_its_default():
    manual = (ROOT / "docs" / "cluster.md").read_text()
    for name, field in Profile.model_fields.items():
        default = "" if field.default in (None, "", {}, []) else str(field.default).lower()
        assert f"| `{name}` | {default} | {field.description} |" in manual, name
