"""What people read first: the README fits a screen, the pages build without a warning, and what they name is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmark import records
from benchmark.report.publish import QUOTED
from benchmark.spec import load_suite
from tests import needs
from tests.quiet import quiet

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "slurm" / "README.md", *ROOT.glob("docs/*.md")])


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


# -- the first screen -------------------------------------------------------------------------------------------------


def test_the_readme_has_one_figure_and_one_small_table_with_a_short_caption():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(re.findall(r"!\[", text)) == 1
    ((table, caption),) = re.findall(r"-->\n\n(\|.*?)\n\n<!-- end -->\n\n(.*?)\n\n", text, flags=re.DOTALL)
    head, _, *rows = table.splitlines()
    assert len(rows) <= 10
    assert head.count("|") - 1 <= 8
    assert caption.count("\n") < 2
    assert next(QUOTED.finditer(text))[2] in caption  # the way to the whole table


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_of_a_text_leads_to_a_file(page: Path):
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [t for t in targets if not (page.parent / t).exists()] == []


# -- where things are -------------------------------------------------------------------------------------------------


def test_every_place_of_the_map_is_there_and_holds_what_it_is_named_for():
    text = (ROOT / "docs" / "where.md").read_text(encoding="utf-8")
    rooms, places = text.split("## Where is …")
    folders = re.findall(r"^\| `([^`]+/)`", rooms, flags=re.MULTILINE)
    assert [f for f in folders if not (ROOT / f).is_dir()] == []
    rows = re.findall(r"^\| .* \| `([^`]+)` \| (.*) \|$", places, flags=re.MULTILINE)
    assert len(rows) > 10
    for file, wanted in rows:
        held = (ROOT / file).read_text(encoding="utf-8")
        for word in re.findall(r"`([^`]+)`", wanted):
            assert re.search(rf"\b(def|class) {word}\b|^ *{word}\b.*=|\"{word}\"", held, flags=re.MULTILINE), (
                file,
                word,
            )


# -- what the pages tell people ------------------------------------------------------------------------------


def commands() -> dict[str, list[set[str]]]:
    """{verb: the options of each call} of every `python -m benchmark …` in the texts; `data fetch` is a verb, `suite new` too."""
    found: dict[str, list[set[str]]] = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for verb, rest in re.findall(r"python -m benchmark ((?:data |suite )?[a-z]+)([^\n`#]*)", text):
            found.setdefault(verb, []).append(set(re.findall(r"--[a-z-]+", rest)))
    return found


@pytest.mark.parametrize("verb", sorted(commands()))
def test_every_command_of_the_texts_can_be_typed(verb: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, said = quiet(*verb.split(), "--help")
    assert code == 0, said
    known, required = set(re.findall(r"--[a-z-]+", said)), set(re.findall(r"\* +(--[a-z-]+)", said))
    for options in commands()[verb]:
        assert options <= known
        assert required <= options


def test_the_sizes_of_the_tiers_are_those_of_the_suite():
    text = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    suite = load_suite("digits")
    words = {"one-eighth": 0.125, "quarter": 0.25}
    sizes = re.findall(r"^\| `(\w+)`.*\| ([\w-]+) width, ([\d,]+) updates \|", text, flags=re.MULTILINE)
    assert [name for name, *_ in sizes] == ["mini", "lite"]
    for name, width, updates in sizes:
        tier = suite.tier(name)
        assert (tier.network.width, tier.updates) == (words[width], int(updates.replace(",", "")))


def test_the_example_of_the_reference_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = (ROOT / "docs" / "api" / "harness.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "harness.md", "exec"), {})
    assert list(records.load("runs").status) == ["done"]


# -- the site ---------------------------------------------------------------------------------------------------------


@needs.docs
def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path: Path):
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= 12
    for page in pages:
        fetched = re.findall(
            r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(https?:[^\" >]+)", page.read_text("utf-8")
        )
        assert fetched == [], page.name
