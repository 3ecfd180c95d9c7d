"""The report: one file, whole, safe, and usable; opened in a real browser where there is one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from benchmark import records, report, tables
from benchmark.data import fingerprint
from benchmark.errors import UserError
from benchmark.report import sections
from benchmark.report.data import embed, run_data
from benchmark.spec import load_suite
from tests import needs
from tests.browser import Page, browser
from tests.synthetic import TARGET_GAIN, write_run, write_study

NASTY = "</script><script>window.broken=1</script> & \"x\" 'y' My_Net"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("report")
    write_study(root, ["source-only", "source-only:bn", "m3sda", "tsvdnet:e", "tsvdnet:et"])
    write_study(root, ["tsvdnet"], artifacts=True)
    write_study(root, ["source-only"], standard="upper-bound")
    write_run(root, "dann", "mm", 0, status="failed", reason=f"RuntimeError: {NASTY}")
    write_run(root, "net.py:My_Net", "mm", 0, title=NASTY)
    write_run(root, "dann", "A", 0, suite="pacs", tier="lite", generated=())
    return root


@pytest.fixture(scope="module")
def page(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report.write(results, tmp_path_factory.mktemp("page") / "report.html")


class Outline(HTMLParser):
    """Headings, ids, links, images, and anything that would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.images: list[dict[str, str]] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {k: v or "" for k, v in attrs}
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if tag == "a" else []
        self.images += [found] if tag == "img" else []
        for key in ("src", "href", "action", "data"):
            if key in found and not found[key].startswith(("#", "data:")):
                self.outside.append(f"{tag} {key}={found[key][:80]}")


@pytest.fixture(scope="module")
def outline(page: Path) -> Outline:
    parser = Outline()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def test_the_page_refers_to_nothing_outside_itself(outline: Outline, page: Path):
    assert outline.outside == []
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(
        r"url\(|@import|https?://", re.sub(r"<script type=.application/json.*?</script>", "", text, flags=re.S)
    )


def test_headings_are_in_order_ids_are_unique_and_links_lead_somewhere(outline: Outline):
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(outline.headings, outline.headings[1:], strict=False))
    assert len(outline.ids) == len(set(outline.ids))
    assert {link[1:] for link in outline.links} <= set(outline.ids)


def test_names_and_reasons_cannot_break_out_of_the_page(page: Path):
    text = page.read_text(encoding="utf-8")
    assert "<script>window.broken" not in text
    assert "&lt;/script&gt;&lt;script&gt;window.broken=1" in text  # shown as text in the tables
    assert "\\u003c/script\\u003e" in text  # and stored as text in the data


def test_summary_and_verdicts_come_first_and_each_tier_has_its_section(page: Path):
    text = page.read_text(encoding="utf-8")
    places = [
        text.index(f'id="{name}"') for name in ("summary", "verdicts", "digits-mini", "pacs-lite", "runs", "provenance")
    ]
    assert places == sorted(places)
    assert "direction only" in text
    assert "the next method is M³SDA" in text  # not another preset of the same method


def test_a_report_without_a_suite_of_the_paper_has_no_verdicts_on_it(tmp_path: Path):
    for suite, there in (("office-31", False), ("pacs", True)):
        write_run(tmp_path / suite, "dann", load_suite(suite).columns[0], suite=suite, generated=())
        text = report.write(tmp_path / suite, tmp_path / f"{suite}.html").read_text(encoding="utf-8")
        assert ('id="verdicts"' in text, 'href="#verdicts"' in text, "claims:" in text) == (there, there, there)


def test_what_cannot_be_shown_says_why(page: Path):
    text = page.read_text(encoding="utf-8")
    assert "Not shown, and why" in text
    assert "There is nothing for the table ablation of suite pacs" in text


def test_no_records_is_a_sentence(tmp_path: Path):
    with pytest.raises(UserError, match=r"no records in .* to report on"):
        report.write(tmp_path, tmp_path / "r.html")


def test_data_holds_every_run_with_its_curve(results: Path):
    frame = records.load(results)
    data = json.loads(embed(run_data(frame)))
    assert len(data["runs"]) == len(data["details"]) == len(frame)
    place = {name: i for i, name in enumerate(data["columns"])}
    for run, detail, path in zip(data["runs"], data["details"], frame["path"], strict=True):
        curve = records.read_curve(Path(path))
        assert detail["curve"]["target"] == {
            "running": [round(row["target"], 2) for row in curve],
            "target": [round(row["statistics"]["target"]["target"], 2) for row in curve],
        }
        status = data["names"]["status"][run[place["status"]]]
        assert ("hparams" in detail) == (status == "done")
        if status == "done":
            assert run[place["target_last"]] == detail["curve"]["target"]["target"][-1]
            assert detail["per_class"]["target"][0] > detail["per_class"]["running"][0]
    assert len(data["shared"]) < 30  # what runs share is stored once


def test_a_run_of_protocol_1_has_one_curve_and_one_number(tmp_path: Path):
    write_run(tmp_path, protocol=1)
    data = json.loads(embed(run_data(records.load(tmp_path))))
    (run,), (detail,) = data["runs"], data["details"]
    assert list(detail["curve"]["target"]) == list(detail["per_class"]) == ["running"]
    assert run[data["columns"].index("target_last")] is None
    page = report.write(tmp_path, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "these runs were scored with no others (protocol 1)" in page
    assert "were scored once (protocol 1). Run them again" in page  # why there is no table of both


def test_figures_are_inside_the_page_with_words(results: Path, tmp_path: Path):
    path = report.write(results, tmp_path / "r.html", figures=True)
    parser = Outline()
    parser.feed(path.read_text(encoding="utf-8"))
    assert len(parser.images) >= 4
    assert all(image["src"].startswith("data:image/png;base64,") for image in parser.images)
    assert all(len(image["alt"]) > 40 for image in parser.images)


def test_a_sheet_names_the_generated_domains_and_says_when_the_runs_used_other_images(tmp_path: Path):
    made = fingerprint(load_suite("digits"), "mini", "part")
    for name, used in (("same", made), ("other", "0123456789abcdef")):
        write_run(tmp_path / name, fingerprint=used)
        page = report.write(tmp_path / name, tmp_path / f"{name}.html", sheets=True).read_text(encoding="utf-8")
        parser = Outline()
        parser.feed(page)
        (sheet,) = [image for image in parser.images if image["alt"].startswith("Sample images")]
        assert "sv*, syn*" in sheet["alt"]
        assert ("the runs above used others" in page) == (name == "other")


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    with browser() as found:
        yield found


@needs.chromium
@pytest.mark.browser
class TestInABrowser:
    @pytest.fixture
    def opened(self, tab: Page, page: Path) -> Iterator[Page]:
        tab.requests.clear()
        tab.problems.clear()
        tab.open(page)
        yield tab
        assert tab.problems == []
        assert tab.outside() == []

    def column(self, tab: Page, section: str, index: int) -> list[str]:
        rows = f'[...document.querySelectorAll("#{section} tbody")].at(-2).querySelectorAll("tr:not(.block)")'
        return tab.run(f"[...{rows}].filter(r => !r.hidden).map(r => r.cells[{index}].textContent.trim())")

    def test_a_table_sorts_within_its_blocks_and_tells_screen_readers(self, opened: Page):
        head = 'document.querySelectorAll("#digits-mini-comparison thead th")[1]'
        opened.run(f'{head}.querySelector("button").click()')
        *first, last = self.column(opened, "digits-mini-comparison", 1)
        numbers = [float(text.split()[0]) for text in first]
        assert numbers == sorted(numbers, reverse=True)
        assert last == "failed"  # a row without a number comes last, whichever way the numbers run
        assert opened.run(f'{head}.getAttribute("aria-sort")') == "descending"
        opened.run(f'{head}.querySelector("button").click()')
        *first, last = self.column(opened, "digits-mini-comparison", 1)
        assert [float(text.split()[0]) for text in first] == numbers[::-1]
        assert last == "failed"

    def test_a_table_filters_and_hides_empty_blocks(self, opened: Page):
        box = 'document.querySelector("#digits-mini-comparison .filter")'
        opened.run(f'{box}.value = "t-svdnet:e"; {box}.dispatchEvent(new Event("input"))')
        assert self.column(opened, "digits-mini-comparison", 0) != []
        shown = opened.run(
            '[...document.querySelectorAll("#digits-mini-comparison tbody tr")].filter(r => !r.hidden).length'
        )
        assert shown == 3  # one block heading, T-SVDNet:e, T-SVDNet:et

    def test_runs_filter_page_and_open(self, opened: Page):
        assert opened.run('document.getElementById("runs-count").textContent').startswith("108 of 108 runs")
        assert opened.run('document.querySelectorAll("#runs-table tbody tr").length') == 50
        opened.run('document.getElementById("next").click()')
        assert opened.run('document.getElementById("page").textContent') == "page 2 of 3"
        select = "document.querySelector('#filters select[data-key=\"status\"]')"
        opened.run(f'{select}.value = "failed"; {select}.dispatchEvent(new Event("input", {{bubbles: true}}))')
        assert opened.run('document.querySelectorAll("#runs-table tbody tr").length') == 1
        opened.run('document.querySelector("#runs-table button.open").click()')
        assert opened.run('document.getElementById("run").open') is True
        body = opened.run('document.getElementById("run-body").textContent')
        assert "window.broken=1" in body  # the reason, as text
        assert opened.run("window.broken") is None
        opened.run('document.getElementById("close").click()')
        assert opened.run('document.getElementById("run").open') is False

    def test_a_run_lists_every_rule_under_both_statistics(self, opened: Page):
        done = 'data.runs.findIndex((_, i) => value(i, "target_last") !== null)'
        opened.run(f"openRun([{done}], 0)")
        lines = opened.run(
            '[...document.querySelector("#run-body table.pairs").rows].map(r => [...r.cells].map(c => c.textContent))'
        )
        assert lines[0] == ["Batch-norm statistics", "running", "target"]
        assert [line[0] for line in lines[1:]] == ["last", "source-val", "unsup", "snd", "bnm", "dev", "oracle"]
        assert float(lines[1][2]) - float(lines[1][1]) == pytest.approx(TARGET_GAIN, abs=0.011)

    def test_runs_sort_with_missing_numbers_last(self, opened: Page):
        opened.run("document.querySelector('#runs-table button[data-key=\"last\"]').click()")
        values = opened.run('[...document.querySelectorAll("#runs-table tbody tr")].map(r => r.cells[9].textContent)')
        numbers = [float(v) for v in values]
        assert numbers == sorted(numbers, reverse=True)
        opened.run("document.querySelector('#runs-table button[data-key=\"last\"]').click()")
        opened.run('document.getElementById("next").click(); document.getElementById("next").click()')
        assert opened.run('[...document.querySelectorAll("#runs-table tbody tr")].at(-1).cells[9].textContent') == "–"

    def test_a_run_has_an_address(self, opened: Page, page: Path):
        wanted = opened.run("data.runs[5][0]")
        opened.open(page, fragment=f"run={wanted}")
        assert opened.run('document.getElementById("run").open') is True
        assert wanted in opened.run('document.getElementById("run-body").textContent')

    def test_pointing_at_a_cell_shows_its_curves_and_enter_opens_its_runs(self, opened: Page):
        cell = 'document.querySelector("#digits-mini-comparison td[data-runs]")'
        opened.run(f'{cell}.dispatchEvent(new MouseEvent("mouseover", {{bubbles: true}}))')
        assert opened.run('document.getElementById("tip").hidden') is False
        assert opened.run('document.querySelectorAll("#tip path").length') == 4  # three seeds and their mean
        opened.run(f"{cell}.focus()")
        opened.press("ArrowRight", 39)
        assert opened.run("document.activeElement.cellIndex") == 2
        opened.press("Enter", 13)
        assert opened.run('document.getElementById("run").open') is True
        assert "run 1 of 3" in opened.run('document.querySelector(".run-steps").textContent')
        opened.run("document.querySelector('[data-step=\"1\"]').click()")
        assert "run 2 of 3" in opened.run('document.querySelector(".run-steps").textContent')
        opened.press("Escape", 27)
        assert opened.run('document.getElementById("run").open') is False

    def test_theme_switches_and_both_have_readable_contrast(self, opened: Page):
        paper = "getComputedStyle(document.body).backgroundColor"
        for _ in range(2):
            assert opened.run(CONTRAST) == []
            before = opened.run(paper)
            opened.run('document.getElementById("theme").click()')
            assert opened.run(paper) != before

    @pytest.mark.parametrize("width", [360, 390, 768, 1400])
    def test_nothing_overflows_the_screen(self, opened: Page, page: Path, width: int):
        opened.open(page, width, 840, mobile=width < 500)
        assert opened.run("document.documentElement.scrollWidth") <= width
        opened.run('document.querySelectorAll("details").forEach((d) => { d.open = true; })')
        assert opened.run("document.documentElement.scrollWidth") <= width

    def test_conditions_are_folded_and_captions_are_two_lines(self, opened: Page):
        assert opened.run('[...document.querySelectorAll("details.conditions")].some((d) => d.open)') is False
        assert opened.run('document.querySelectorAll("figure.table:has(details.conditions)").length') >= 10
        lines = opened.run(
            '[...document.querySelectorAll("figcaption")].map((f) => Math.round(f.getBoundingClientRect().height / '
            "parseFloat(getComputedStyle(f).lineHeight)))"
        )
        assert max(lines) <= 2

    def test_controls_have_names_and_the_page_prints(self, opened: Page):
        nameless = opened.run(
            '[...document.querySelectorAll("button, input, select, a[href], [role=region], svg[role=img]")].filter(e => '
            "!(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).map(e => e.outerHTML.slice(0, 80))"
        )
        assert nameless == []
        assert opened.pdf().startswith(b"%PDF")


# Text on its nearest painted background, by the WCAG formula: every visible piece must reach 4.5 : 1.
CONTRAST = """(() => {
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => { const f = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; const p = parse(c);
    if (c.startsWith("rgb") && (p.length < 4 || p[3] > 0.99)) return p; } return [255, 255, 255]; };
  const bad = new Set();
  for (const e of document.querySelectorAll("main *, nav *, header *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || e.closest("svg, noscript")) continue;
    const a = light(parse(getComputedStyle(e).color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.add(e.tagName + "." + e.className + " " + ratio.toFixed(2));
  }
  return [...bad];
})()"""


def test_the_best_row_is_one_of_those_with_the_most_seeds(tmp_path: Path):
    write_study(tmp_path, ["dann", "m3sda"])
    write_study(tmp_path, ["tsvdnet"], seeds=[0])
    words = sections._headline(tables.make("comparison", records.load(tmp_path), "digits"))
    assert words.startswith("M³SDA has the highest average, ")
    assert "the next method is DANN" in words
    assert ". Higher, with fewer seeds: T-SVDNet. All rows untuned" in words
