"""The generated parts of the site: they say what the repository says, and unknown ones stop."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts" / "site"))

import hooks  # noqa: E402
import parts  # noqa: E402
import plot  # noqa: E402

import results  # noqa: E402

MARK = re.compile(r"^<!-- generated: (\S+) -->$", re.M)


def test_every_mark_of_a_page_has_a_part_and_every_part_a_page() -> None:
    marked = {
        name
        for page in (ROOT / "docs").rglob("*.md")
        for name in MARK.findall(page.read_text(encoding="utf-8"))
    }
    assert marked == set(parts.PARTS)


def test_an_unknown_part_stops_the_build() -> None:
    with pytest.raises(LookupError, match="no generated part 'nothing'"):
        hooks.on_page_markdown("# A page\n\n<!-- generated: nothing -->\n", page=None)


def test_a_mark_inside_a_line_is_text() -> None:
    text = "write `<!-- generated: commands -->`"
    assert hooks.generated(text) == text


def test_a_section_that_is_gone_stops_the_build() -> None:
    with pytest.raises(LookupError, match="no section 'growth-0'"):
        results.section("## growth-10k\n", "growth-0")


def test_tables_are_read_as_they_are_written() -> None:
    (table,) = results.tables("text\n\n| a | b |\n| --- | ---: |\n| 1 µs | – |\n| x | 2 s |\n")
    assert table.columns == ("a", "b")
    assert table.column("b") == ["–", "2 s"]
    shown = ["1 µs", "2.5 ms", "3 s", "1,000 µs", "–"]
    assert [results.amount(text) for text in shown] == [1e-6, 0.0025, 3.0, 0.001, None]


def test_the_change_size_plot_has_a_point_for_every_figure_of_the_table() -> None:
    text = results.RESULTS.read_text(encoding="utf-8")
    table = results.tables(results.section(text, "batch"))[1]
    drawn = parts.cost_by_change_size()
    figures = [cell for row in table.rows for cell in row[1:] if results.amount(cell) is not None]
    assert drawn.count("<circle") == len(figures) > 9


@pytest.mark.parametrize("name", ["cost-by-graph-size", "cost-by-size-level-1"])
def test_other_plots_are_drawn_inside_their_frame(name: str) -> None:
    drawn = parts.PARTS[name]()
    places = re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', drawn)
    assert len(places) >= 8
    for x, y in places:
        assert plot.LEFT <= float(x) <= plot.WIDTH - plot.RIGHT + 0.1
        assert plot.TOP - 0.1 <= float(y) <= plot.HEIGHT - plot.BOTTOM + 0.1


def test_a_plot_without_points_is_refused() -> None:
    with pytest.raises(ValueError, match="needs points"):
        plot.plot({"nothing": []}, "size")


def test_every_command_and_error_is_listed() -> None:
    listed = parts.commands()
    for command in ("run", "plan", "why", "pipeline run", "dead-code", "churn", "serve"):
        assert f"## `deltafix {command}`" in listed
    codes = parts.error_codes()
    assert "| DF430 | `FunctorError` |" in codes
    assert codes.count("\n| DF") > 30
