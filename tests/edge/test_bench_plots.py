"""Pictures and tables are those of the results that are kept, and a run can be kept anew."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from bench import plots, record, svg
from bench.report import measured, ratio


@pytest.fixture(scope="module")
def results():
    return record.load()


@pytest.mark.parametrize("name", ["peers.svg", "latency.svg", "ways.svg", "growth.svg"])
def test_a_picture_is_that_of_the_results(results, name):
    drawn = plots.pictures(results)[name]
    assert (plots.PICTURES / name).read_text() == drawn, "run `make bench-plots`"
    root = ET.fromstring(drawn)
    assert root.tag.endswith("svg")
    assert root.attrib["aria-label"]


@pytest.mark.parametrize("page", plots.PAGES, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_those_of_the_results(results, page):
    text = page.read_text()
    assert "<!-- results: peers -->" in text
    assert plots.page_with(text, results) == text, "run `make bench-plots`"


def test_every_picture_stands_on_a_page():
    written = [*plots.PAGES, *plots.PICTURES.parent.rglob("*.md")]
    pages = "".join(page.read_text() for page in written)
    assert [path.name for path in plots.PICTURES.glob("*.svg") if f"pictures/{path.name}" not in pages] == []


def test_a_run_that_is_kept_reads_back(tmp_path):
    rows = (measured("values", "a", "encode", 1.5, "us"), ratio("values", "a", "vs b", 2.0, 1.0))
    machine = record.this_machine()
    record.save(machine, rows, tmp_path / "run.jsonl")
    found = record.load(tmp_path / "run.jsonl")
    assert (found.machine, found.rows) == (machine, rows)
    assert found.value("values", "a", "vs b") == 2.0
    with pytest.raises(LookupError, match="values: a: decode"):
        found.value("values", "a", "decode")


def test_bars_begin_at_zero_and_a_mark_is_on_the_scale():
    chart = svg.Chart(
        "title", "sub", [svg.Line("a <b>", 2.0, "2"), svg.Line("c", 4.0, "4")], mark=(6.0, "most")
    )
    root = ET.fromstring(svg.draw(chart))
    bars = [each for each in root.iter() if each.attrib.get("class") == "ours"]
    assert {each.attrib["x"] for each in bars} == {str(svg.LABELS)}
    short, long = (float(each.attrib["width"]) for each in bars)
    assert long == pytest.approx(2 * short, rel=0.01)
    marks = [each for each in root.iter() if each.attrib.get("class") == "mark"]
    assert [float(each.attrib["x1"]) - svg.LABELS for each in marks] == [pytest.approx(3 * short, rel=0.01)]


def test_a_chart_without_rows_is_refused():
    with pytest.raises(ValueError, match="rows"):
        svg.draw(svg.Chart("title", "sub", []))
