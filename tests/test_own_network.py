"""docs/own-network.md can be followed: every command of it, and a file of weights where it says."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from safetensors.torch import save_file

from benchmark import records
from benchmark.__main__ import main
from benchmark.data.get.weights import convert
from benchmark.run import networks
from benchmark.spec import NetworkSettings
from benchmark.spec.network import weights_file
from tests import needs

pytestmark = needs.timm
PAGE = (Path(__file__).parent.parent / "docs" / "own-network.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    python -m benchmark (.*)$", PAGE, flags=re.MULTILINE)
SMALL = ["--targets", "S", "--workers", "1", "--limit-steps", "4", "--set", "run.batch=8", "--set", "run.eval_points=1"]


def test_the_commands_of_the_page_work_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As they stand, but for the size of the runs."""
    monkeypatch.chdir(tmp_path)
    assert [command.split()[0] for command in COMMANDS] == ["run", "plan", "methods"]
    said = {}
    for command in COMMANDS:
        words = shlex.split(command)
        small = SMALL if words[0] == "run" else []
        assert main([*words, *small]) == 0, command
        said[words[0]] = capsys.readouterr().out
    assert set(records.load(tmp_path / "runs").status) == {"done"}
    assert "to do: about" in said["plan"]
    assert "dann keeps the contract" in said["methods"]


def test_the_weights_of_the_page_are_read_where_it_says_and_stay_there(tmp_path: Path) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    network = NetworkSettings(**tomllib.loads(block)["tiers"]["lite"]["network"])
    file = weights_file(network, tmp_path)
    assert file == tmp_path / "weights" / "vit_small.safetensors"
    file.parent.mkdir()
    made = networks.build(network.name)
    save_file(made.trunk.state_dict(), file)
    assert convert(tmp_path) == {}  # what `data prepare` does with it
    networks.load_weights(networks.build(network.name), network.name, file)
