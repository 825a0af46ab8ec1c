"""The report is a function of the results: figures, goals, and a difference is never hidden."""

from __future__ import annotations

from pathlib import Path

from bench.goals import GOALS
from bench.outcome import Outcome
from bench.report import number, seconds, write
from bench.results import Measured, Results, quantile


def _results() -> Results:
    mine = Outcome(
        version="1",
        load_seconds=0.5,
        timed=[1, 2, 3],
        epochs=[2e-6, 4e-6, 9e-6],
        answers={"0": {"reach": [3, "aa"]}},
        touched=[4, 0, 2],
        changed=[2, 0, 1],
        state_bytes=1000,
    )
    other = Outcome(
        mode="recompute",
        load_seconds=1.0,
        timed=[3],
        epochs=[4e-4],
        answers={"0": {"reach": [3, "aa"]}},
    )
    absent = Outcome(skipped="no such tool")
    peers = {"deltafix": mine, "duckdb": other, "souffle-compiled": absent}
    measured = Measured("reach-edit", "edits", {"edges": "5"}, given_rows=7, peers=peers)
    return Results(machine={"processor": "test"}, workloads={"reach-edit": measured})


def test_figures_are_read_from_outcomes() -> None:
    measured = _results().get("reach-edit")
    assert measured.at("deltafix", 0.5) == 4e-6
    assert measured.at("deltafix", 0.99) is None  # three epochs have no 99th percentile
    assert measured.at("deltafix", 1) == 9e-6
    assert measured.ratio("duckdb", 0.5) == 4e-4 / 4e-6
    assert measured.load_ratio("duckdb") == 2.0
    assert measured.touched_ratio("deltafix") == 2.0
    assert measured.bytes_per_row("deltafix") == 100.0
    assert measured.at("souffle-compiled", 0.5) is None


def test_quantiles_are_measured_values() -> None:
    values = [float(v) for v in range(1, 101)]
    assert quantile(values, 0.5) == 50
    assert quantile(values, 0.99) == 99
    assert quantile(values[:99], 0.99) is None


def test_the_report_names_figures_skips_and_goals(tmp_path: Path) -> None:
    write(_results(), tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text()
    assert "| deltafix | 1 | incremental | 500 ms | 4 µs | – | 9 µs | 1× |" in text
    assert "souffle-compiled: skipped: no such tool" in text
    assert "Answers equal: deltafix, duckdb." in text
    reached = [line for line in text.splitlines() if line.startswith("| reach-edit | p50")]
    assert reached == ["| reach-edit | p50 of an edit | at most 10 µs | 4 µs | reached |"]
    assert text.count("no figure") > 10


def test_different_answers_are_shouted(tmp_path: Path) -> None:
    results = _results()
    results.get("reach-edit").peers["duckdb"].answers["0"]["reach"] = [4, "bb"]
    assert len(results.get("reach-edit").disagreements()) == 1
    write(results, tmp_path / "r.md")
    assert "**ANSWERS DIFFER:**" in (tmp_path / "r.md").read_text()


def test_results_survive_being_kept(tmp_path: Path) -> None:
    results = _results()
    results.save(tmp_path / "r.json")
    again = Results.load(tmp_path / "r.json")
    assert again.get("reach-edit").peers == results.get("reach-edit").peers
    assert again.get("reach-edit").labels == results.get("reach-edit").labels
    results.get("reach-edit").peers["deltafix"].epochs[0] = 1.23456789e-5
    results.save(tmp_path / "r.json")
    again = Results.load(tmp_path / "r.json")
    assert again.get("reach-edit").peers["deltafix"].epochs[0] == 1.235e-5


def test_goals_read_empty_results_without_a_figure() -> None:
    assert [goal.text for goal in GOALS if goal.read(Results()) is not None] == []


def test_durations_and_numbers_keep_three_digits() -> None:
    assert [seconds(v) for v in (None, 12.34, 0.0123, 4.56e-6, 5e-9)] == [
        *("–", "12.3 s", "12.3 ms", "4.56 µs", "5 ns")
    ]
    assert number(1234567.0, "x") == "1,234,567×"
