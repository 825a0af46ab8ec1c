"""Findings, baselines and reports: order, confidence, text and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltafix.analyses.dead_code.baseline import Baseline
from deltafix.analyses.dead_code.findings import Finding, findings_of
from deltafix.analyses.dead_code.report import Change, Report, Work
from deltafix.analyses.facts import Place
from deltafix.errors import SourceError

WORK = Work(files=2, facts_added=3, facts_removed=4, touched=5, seconds=0.25)

DEAD = {
    "m": "module",
    "m:f": "function",
    "m:_f": "function",
    "m:f.<locals>.g": "function",
    "m:f.<locals>.g.<locals>.h": "function",
    "m:f.<locals>.C.x": "name",
    "n:C": "class",
    "n:C.m": "method",
    "n:C.x": "name",
    "n:C._m": "method",
    "n:X": "name",
    "n:D": "class",
}


def findings() -> list[Finding]:
    places = {
        symbol: {f"{symbol.partition(':')[0]}.py": Place(symbol, kind, line)}
        for line, (symbol, kind) in enumerate(DEAD.items(), start=1)
    }
    return findings_of(DEAD, places, dead=set(DEAD), foreign={"n:D"})


def test_findings_say_how_sure_they_are_and_what_contains_them() -> None:
    assert [(f.symbol, f.confidence, f.inside) for f in findings()] == [
        ("m", 90, None),
        ("m:f", 90, "m"),
        ("m:_f", 95, "m"),
        ("m:f.<locals>.g", 100, "m:f"),
        ("m:f.<locals>.g.<locals>.h", 100, "m:f.<locals>.g"),
        ("m:f.<locals>.C.x", 60, "m:f"),
        ("n:C", 90, None),
        ("n:C.m", 80, "n:C"),
        ("n:C.x", 60, "n:C"),
        ("n:C._m", 95, "n:C"),
        ("n:X", 80, None),
        ("n:D", 60, None),
    ]


def test_a_symbol_that_two_files_define_is_a_finding_in_each() -> None:
    places = {"m:f": {"b.py": Place("m:f", "function", 1), "a.py": Place("m:f", "function", 9)}}
    assert [f.path for f in findings_of(["m:f"], places, dead={"m:f"})] == ["a.py", "b.py"]


def report(**changed: object) -> Report:
    fields = {"root": "r", "files": 2, "facts": 1234, "symbols": 20, "work": WORK, **changed}
    return Report(dead=tuple(findings()), **fields)  # type: ignore[arg-type]


def test_the_text_shows_outermost_symbols_and_counts_the_rest() -> None:
    assert report().text().splitlines() == [
        "m.py:1: dead module m (90%, with 5 inside)",
        "n.py:7: dead class n:C (90%, with 3 inside)",
        "n.py:11: dead name n:X (80%)",
        "n.py:12: dead class n:D (60%)",
        "12 dead symbols among 20 in 2 files (1,234 facts, 0.25 s)",
    ]


def test_the_text_names_what_was_not_read_and_what_the_baseline_knows() -> None:
    text = report(unreadable={"x.py": "why"}, known=2, stale=(("p", "s"),), notes=("take care",))
    assert text.text().splitlines()[4:] == [
        "x.py: not read: why",
        "note: take care",
        "note: 1 baseline entry no longer dead; write the baseline anew",
        "12 dead symbols and 2 known from the baseline among 20 in 2 files (1,234 facts, 0.25 s)",
    ]


def test_the_json_of_a_report_holds_every_finding() -> None:
    data = json.loads(report(unreadable={"x.py": "why"}).json())
    assert (data["version"], data["event"], len(data["dead"])) == (1, "report", 12)
    assert data["dead"][3] == {
        "path": "m.py",
        "line": 4,
        "symbol": "m:f.<locals>.g",
        "kind": "function",
        "confidence": 100,
        "inside": "m:f",
    }
    assert data["unreadable"] == {"x.py": "why"}
    assert data["work"]["touched"] == 5


def test_a_change_as_text_and_as_json() -> None:
    died, risen = findings()[10], findings()[11]
    change = Change(("a.py",), ("b.py",), (died,), (risen,), ("b:old",), WORK, 1.5, {"c.py": "bad"})
    assert change.text().splitlines() == [
        "changed: a.py, b.py (deleted)",
        "  c.py: not read, its old facts are kept: bad",
        "  became dead   n.py:11: dead name n:X (80%)",
        "  became alive  n.py:12: class n:D",
        "  gone          b:old (it was dead)",
        "  4 facts out, 3 in, 5 touched, 0.250 s (from scratch: 1.50 s)",
    ]
    data = json.loads(change.json())
    assert (data["event"], data["became_dead"][0]["symbol"]) == ("change", "n:X")
    assert (data["gone"], data["recomputed"]) == (["b:old"], 1.5)
    nothing = Change(("a.py",), (), (), (), (), WORK, 1.5)
    assert "  no symbol became dead or alive" in nothing.text()


def test_a_baseline_is_keyed_by_symbol_and_path(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    Baseline.of(findings()[:3]).write(path)
    known = Baseline.read(path)
    new, accepted = known.split(findings())
    assert (len(new), len(accepted)) == (9, 3)
    moved = Finding("elsewhere.py", 1, "m:f", "function", 90)
    assert known.split([moved]) == ([moved], [])
    assert known.stale(findings()[1:]) == [("m.py", "m")]


def test_a_baseline_file_is_sorted_and_the_same_every_time(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    Baseline.of(findings()).write(one)
    Baseline.of(findings()[::-1]).write(two)
    assert one.read_bytes() == two.read_bytes()
    assert "line" not in one.read_text()
    pairs = [(e["path"], e["symbol"]) for e in json.loads(one.read_text())["dead"]]
    assert pairs == sorted(pairs)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "is not a baseline"),
        ('{"version": 2, "dead": []}', "baseline version 2"),
        ('{"version": 1}', "is not a baseline: KeyError: 'dead'"),
        ('{"version": 1, "dead": [3]}', "is not a baseline: TypeError"),
        ("[]", "is not a baseline: TypeError"),
    ],
)
def test_a_bad_baseline_is_an_error_that_says_why(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(SourceError, match=message):
        Baseline.read(path)


def test_a_baseline_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot read the baseline"):
        Baseline.read(tmp_path / "none.json")
    with pytest.raises(SourceError, match="cannot write the baseline"):
        Baseline().write(tmp_path / "no" / "folder.json")
