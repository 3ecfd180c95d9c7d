"""Installed packages offer methods and readers by name: found when asked for, never in the way of what is built in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmark import data, records
from benchmark.__main__ import main
from benchmark.errors import UserError
from benchmark.spec import RunSpec, load_suite, method_class, reader
from benchmark.spec.suite import SUITES
from methods import installed
from methods.contract import MethodError, load_method, method_revision
from methods.source_only import SourceOnly
from tests.tiny import ARGUMENTS, tiny

METHOD = "from methods.source_only import SourceOnly\nclass Mine(SourceOnly):\n    title = 'Mine'\n"
READER = "from benchmark.data.made.embedded import fingerprint, load\n"
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a package where Python finds it, as an installer does: its modules, and its metadata with the entry points."""
    site = tmp_path / "site"

    def put(
        package: str, version: str = "1.2", modules: dict[str, str] | None = None, **groups: dict[str, str]
    ) -> None:
        meta = site / f"{package.replace('-', '_')}-{version}.dist-info"
        meta.mkdir(parents=True)
        (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        lines = []
        for group, offers in groups.items():
            lines += [f"[msda_benchmark.{group}]", *(f"{name} = {place}" for name, place in offers.items())]
        (meta / "entry_points.txt").write_text("\n".join(lines) + "\n")
        for name, text in (modules or {}).items():
            (site / f"{name}.py").write_text(text)
            monkeypatch.delitem(sys.modules, name, raising=False)
        installed._all.cache_clear()
        monkeypatch.syspath_prepend(site)

    yield put
    installed._all.cache_clear()


# -- methods ----------------------------------------------------------------------------------------------------------


def test_an_installed_method_joins_the_comparison_by_its_name(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("mine", modules={"mine_method": METHOD}, methods={"my-own": "mine_method:Mine"})
    results = tmp_path / "runs"
    command = ["run", "--suite", "digits", "--methods", "source-only,my-own:bn", "--targets", "mm"]
    assert main([*command, "--results", str(results), "--workers", "1", *ARGUMENTS]) == 0
    frame = records.load(results)
    assert set(frame.status) == {"done"}
    assert sorted(frame.title) == ["Mine", "Source-Only"]
    assert {r.partition(":")[0] for r in frame[frame.method == "my-own"].revision} == {"package"}
    assert main(["audit", str(results)]) == 0
    assert "Mine" in (results / "tables" / "digits-mini-comparison.md").read_text(encoding="utf-8")


def test_a_method_is_listed_without_being_imported(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("mine", modules={"mine_method": "raise RuntimeError('imported')"}, methods={"my-own": "mine_method:Mine"})
    assert main(["methods"]) == 0
    assert "my-own       of the package mine 1.2" in capsys.readouterr().out
    assert main(["methods", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["installed"]
    assert listed == [{"name": "my-own", "package": "mine 1.2", "hidden": False}]
    assert "mine_method" not in sys.modules


def test_a_broken_package_costs_a_sentence(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    modules = {"mine_method": "import no_such_module\n", "not_one": "Mine = 3\n"}
    install("mine", modules=modules, methods={"my-own": "mine_method:Mine", "three": "not_one:Mine"})
    assert main(["plan", "--suite", "digits", "--methods", "my-own"]) == 2
    said = capsys.readouterr().err
    assert "The method 'my-own' of the package mine 1.2 could not be imported: ModuleNotFoundError" in said
    assert "Traceback" not in said
    with pytest.raises(MethodError, match=r"'three' of the package mine 1.2 is no class made from"):
        load_method("three")
    assert main(["plan", "--suite", "digits", "--methods", "source-only", "--targets", "mm"]) == 0


def test_a_built_in_name_is_not_overshadowed(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    before = method_revision("source-only"), tiny().run_id
    install("mine", modules={"mine_method": METHOD}, methods={"source-only": "mine_method:Mine"})
    assert load_method("source-only") is SourceOnly
    assert (method_revision("source-only"), tiny().run_id) == before
    assert main(["methods"]) == 0
    assert "source-only  of the package mine 1.2; it cannot be used, the name is built in" in capsys.readouterr().out


def test_a_name_that_two_packages_offer_is_refused_with_both(install: Install) -> None:
    install("mine", modules={"mine_method": METHOD}, methods={"my-own": "mine_method:Mine"})
    install("theirs", "0.1", methods={"my-own": "mine_method:Mine"})
    with pytest.raises(
        MethodError, match=r"offered by more than one package: mine 1.2, theirs 0.1|theirs 0.1, mine 1.2"
    ):
        method_class("my-own")


def test_a_name_that_nobody_offers_is_answered_with_all_there_are(install: Install) -> None:
    install("mine", modules={"mine_method": METHOD}, methods={"my-own": "mine_method:Mine"})
    with pytest.raises(UserError, match=r"no method 'my-onw'. Did you mean 'my-own'"):
        method_class("my-onw")


def test_its_identity_is_the_package_the_version_and_the_file(install: Install, tmp_path: Path) -> None:
    def identity() -> tuple[str, str]:
        spec = RunSpec("digits", "mini", "my-own", target="mm", data="0" * 16)
        return method_revision("my-own"), spec.run_id

    install("mine", modules={"mine_method": METHOD}, methods={"my-own": "mine_method:Mine"})
    revision, first = identity()
    assert revision.startswith("package:mine 1.2:")
    (tmp_path / "site" / "mine_method.py").write_text(METHOD + "# edited in place\n")
    assert identity()[1] != first
    (tmp_path / "site" / "mine_method.py").write_text(METHOD)
    assert identity() == (revision, first)
    (tmp_path / "site" / "mine-1.2.dist-info").rename(tmp_path / "site" / "mine-1.3.dist-info")
    (tmp_path / "site" / "mine-1.3.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: mine\nVersion: 1.3\n"
    )
    installed._all.cache_clear()
    assert identity()[0].startswith("package:mine 1.3:")
    assert identity()[1] != first


# -- readers ----------------------------------------------------------------------------------------------------------


def suite_of(tmp_path: Path, reader_name: str) -> str:
    text = (
        (SUITES / "digits.toml").read_text(encoding="utf-8").replace('reader = "digits"', f'reader = "{reader_name}"')
    )
    (tmp_path / "own.toml").write_text(text, encoding="utf-8")
    load_suite.cache_clear()
    return str(tmp_path / "own.toml")


def test_an_installed_reader_reads_a_suite(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("mine", modules={"mine_reader": READER}, readers={"my-images": "mine_reader"})
    suite = load_suite(suite_of(tmp_path, "my-images"))
    assert data.fingerprint(suite, "mini", "part") == data.fingerprint(load_suite("digits"), "mini", "part")
    assert main(["data", "list", "--suite", str(tmp_path / "own.toml")]) == 2
    assert "are the business of the package that offers its reader 'my-images'" in capsys.readouterr().err


def test_a_reader_that_is_not_there_or_not_whole_costs_a_sentence(install: Install, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no reader 'my-images'; allowed: digits"):
        load_suite(suite_of(tmp_path, "my-images"))
    install("mine", modules={"mine_reader": "load = print\n"}, readers={"my-images": "mine_reader"})
    with pytest.raises(UserError, match=r"reader 'my-images' of the package mine 1.2 has no function fingerprint"):
        reader(load_suite(suite_of(tmp_path, "my-images")), "mini")


def test_a_reader_of_ours_is_not_overshadowed(install: Install) -> None:
    install("mine", modules={"mine_reader": READER}, readers={"digits": "mine_reader"})
    assert reader(load_suite("digits"), "mini").__name__ == "benchmark.data.made.embedded"
