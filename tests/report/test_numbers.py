"""Every number in the texts is a published one: found in the table that its paragraph names, or no result at all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmark.__main__ import main
from benchmark.records import study
from benchmark.report.publish import QUOTED

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [p for p in (ROOT / "README.md", *sorted((ROOT / "results").glob("*.md"))) if p.exists()]
NUMBER = re.compile(r"(?<![\w.,/])[+−-]?\d+(?:,\d{3})*(?:\.\d+)?(?![\w/])")
NO_RESULTS = {  # numbers that no run gave
    "2021": "the year of the paper", "3.11": "Python's version",
    "9": "reported: the reproduction attempt fell 9 points short at least", "16": "and 16 at most",
    "13": "systems", "0": "a label, a seed", "1": "a protocol", "2": "a protocol, a seed",
    "95": "per cent: of every interval", "5": "the paper's Table 5",
    "600": "updates of the first study",
}  # fmt: skip


def paragraphs(text: str) -> list[str]:
    """Blocks of prose, without quoted tables (compared byte by byte elsewhere) and without code."""
    text = QUOTED.sub("", text)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    return [block for block in re.split(r"\n\s*\n", text) if block.strip()]


def numbers(text: str) -> set[str]:
    return {found.lstrip("+−-").replace(",", "") for found in NUMBER.findall(text)}


def sources(block: str) -> list[Path]:
    """The files below results/ that a paragraph names, in code or as a link; of a run too, which a study has packed."""
    named = [ROOT / name for name in re.findall(r"results/[\w./-]+\w", block) if not name.endswith(".png")]
    return [path for path in named if study.exists(path) and not path.is_dir()]


def unfounded(text: str, known: set[str]) -> list[str]:
    """Numbers of the text that neither the files it names hold nor are known as no results."""
    missing = []
    for block in paragraphs(text):
        held = set().union(*(numbers(study.read_bytes(p).decode("utf-8")) for p in sources(block)))
        prose = re.sub(r"`[^`]*`|\]\([^)]*\)", " ", block)
        missing += sorted(numbers(prose) - held - known)
    return missing


@pytest.fixture(scope="module")
def known() -> set[str]:
    settings = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "benchmark").glob("**/suites/*.toml"))
    return set(NO_RESULTS) | numbers(settings)


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_number_of_the_texts_is_published(path: Path, known: set[str]):
    assert unfounded(path.read_text(encoding="utf-8"), known) == []


def test_the_cost_of_what_comes_next_is_what_plan_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    said = (ROOT / "results" / "next.txt").read_text(encoding="utf-8")
    asked = re.findall(r"^\$ python -m benchmark (plan .*)\n(.*)$", said, flags=re.MULTILINE)
    assert len(asked) == said.count("$") > 0
    for command, answer in asked:
        assert main([*command.split(), "--results", str(tmp_path), "--data-root", str(tmp_path / "none")]) == 0
        assert answer in capsys.readouterr().out


def test_a_curve_that_a_text_names_is_found_in_its_study():
    text = (ROOT / "results" / "FINDINGS.md").read_text(encoding="utf-8")
    curves = [path for block in paragraphs(text) for path in sources(block) if path.name == "curve.jsonl"]
    assert len(curves) == len(re.findall(r"/curve\.jsonl", text)) > 0


def test_a_number_that_was_never_published_is_found_out():
    table = next((ROOT / "results").glob("*/tables/digits-*-comparison.md"))
    value = next(v for v in sorted(numbers(table.read_text(encoding="utf-8"))) if "." in v)
    name = table.relative_to(ROOT)
    assert unfounded(f"It is {value} (`{name}`).", set()) == []
    assert unfounded(f"It is 12.3456 (`{name}`).", set()) == ["12.3456"]
    assert unfounded(f"It is {value}.", set()) == [value]
