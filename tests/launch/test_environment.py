"""A study says what would have to be the same to get its bits again, and where this machine differs."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmark.errors import UserError
from benchmark.launch import device, environment
from benchmark.launch.environment import conditions, findings
from benchmark.run import provenance
from tests.synthetic import write_run

ROOT = Path(__file__).parents[2]


def locked() -> dict[str, set[str]]:
    """The versions of each package in the lock file, by canonical name."""
    pins: dict[str, set[str]] = {}
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        if "==" in line and not line.startswith(" "):
            name, _, rest = line.partition("==")
            pins.setdefault(canonicalize_name(name), set()).add(rest.split()[0])
    return pins


def test_the_lock_names_every_package_that_the_project_asks_for_and_only_hashed_ones():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    pins = locked()
    assert {canonicalize_name(Requirement(r).name) for r in asked} <= pins.keys() | {"msda-benchmark"}
    for requirement in map(Requirement, asked):
        versions = pins.get(canonicalize_name(requirement.name), set())
        assert all(requirement.specifier.contains(v) for v in versions), requirement
    text = (ROOT / "requirements.lock").read_text()
    assert "://" not in text, "no address: the registry is the user's own"
    blocks = [b for b in text.split("\n") if "==" in b and not b.startswith(" ")]
    assert all(b.endswith("\\") for b in blocks), "a pin without a hash would be refused by LOCKED=1"


@pytest.fixture
def lock_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def write(text: str) -> tuple[str, dict[str, tuple[str, str]]]:
        file = tmp_path / "requirements.lock"
        file.write_text(text)
        monkeypatch.setattr(provenance, "LOCK", file)
        provenance.lock.cache_clear()
        return provenance.lock()

    yield write
    provenance.lock.cache_clear()


def test_a_package_off_the_lock_is_named_with_both_versions(lock_of):
    sha, differs = lock_of(
        "numpy==0.1 \\\n    --hash=sha256:ab\nnot-installed-here==1\nnumpy==0.2 ; python_version < '3'\n"
    )
    assert len(sha) == 64
    assert list(differs) == ["numpy"]
    assert differs["numpy"][0] == "0.1"


def test_without_a_lock_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(provenance, "LOCK", tmp_path / "none")
    provenance.lock.cache_clear()
    assert provenance.lock() == ("", {})
    provenance.lock.cache_clear()


def test_a_record_keeps_the_hash_of_the_lock():
    assert provenance.provenance("cpu", 1, "fp32")["lock"] == provenance.lock()[0] != ""


def test_a_study_is_held_against_this_machine(tmp_path: Path):
    write_run(tmp_path, method="source-only", target="mm", seed=0)
    found = {c.what: c for c in conditions(tmp_path)}
    record = json.loads(next(tmp_path.rglob("record.json")).read_text())["provenance"]
    assert found["commit"].study == (record["commit"],)
    assert found["torch"].here == provenance.versions()["torch"]
    differing = [f for f in findings(tmp_path) if not f["ok"]]
    assert {f["what"] for f in differing} == {c.what for c in found.values() if not c.same}
    assert all(f["next"] for f in differing)


def test_advice_is_what_the_study_has_to_go_by(tmp_path: Path, monkeypatch):
    write_run(tmp_path, method="source-only", target="mm", seed=0)
    old = {"commit": "c0ffee", "dirty": True, "versions": {"numpy": "0.1"}, "device": "cpu", "hardware": "a processor"}
    monkeypatch.setattr(environment, "_provenance", lambda directory: old)
    found = {f["what"]: f for f in findings(tmp_path)}
    assert found["numpy"]["next"] == "pip install numpy==0.1"
    assert found["torch"]["next"] == "the study does not say"
    assert "c0ffee with changes" in found["commit"]["found"]
    monkeypatch.setattr(environment, "_provenance", lambda directory: old | {"lock": "ab12", "off_lock": ["numpy"]})
    found = {f["what"]: f for f in findings(tmp_path)}
    assert found["numpy"]["next"] == "at the study's commit: make clean setup LOCKED=1"
    assert {c.what: c for c in conditions(tmp_path)}["off the lock"].study == ("numpy",)


def test_runs_on_a_gpu_are_held_against_the_gpus_here_and_their_driver(tmp_path: Path, monkeypatch):
    write_run(tmp_path, method="source-only", target="mm", seed=0)
    on_gpu = {"device": "cuda", "hardware": "NVIDIA L40S", "starts": [{"driver": "1.0"}, {"driver": "570.1"}]}
    monkeypatch.setattr(environment, "_provenance", lambda directory: on_gpu)
    monkeypatch.setenv(device.PRETEND, "8000 8000 dead")
    found = {c.what: c for c in conditions(tmp_path)}
    assert "processor" not in found
    assert (found["GPU"].study, found["GPU"].here) == (("NVIDIA L40S",), "pretended")
    assert (found["driver"].study, found["driver"].here) == (("570.1",), "none")
    monkeypatch.setattr(
        device, "survey", lambda: [device.Gpu(0, "GPU 0 (NVIDIA L40S)"), device.Gpu(1, "GPU 1 (NVIDIA L40S)")]
    )
    assert {c.what: c for c in conditions(tmp_path)}["GPU"].same


def test_an_empty_folder_has_no_environment(tmp_path: Path):
    with pytest.raises(UserError, match="There is no finished run in"):
        conditions(tmp_path)
