"""Findings, baselines and reports: order, confidence, text and JSON."""

from __future__ import annotations

import json
from dataclasses import replace
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
    sure = set(DEAD) - {"n:X", "n:D", "n:C.m"}
    doubts = {"n:D": {"b", "a"}, "n:C.m": {"c"}}
    return findings_of(DEAD, places, dead=set(DEAD), sure=sure, doubts=doubts)


def test_findings_say_how_sure_they_are_and_what_contains_them() -> None:
    told = [(f.symbol, f.inside) for f in findings() if f.confidence == "sure"]
    assert told == [
        ("m", None),
        ("m:f", "m"),
        ("m:_f", "m"),
        ("m:f.<locals>.g", "m:f"),
        ("m:f.<locals>.g.<locals>.h", "m:f.<locals>.g"),
        ("m:f.<locals>.C.x", "m:f"),
        ("n:C", None),
        ("n:C.x", "n:C"),
        ("n:C._m", "n:C"),
    ]
    doubted = {f.symbol: f.doubt for f in findings() if f.confidence == "likely"}
    assert doubted == {
        "n:C.m": "c", "n:D": "a", "n:X": "what may be alive refers to it",
    }  # fmt: skip
    assert all(f.doubt is None for f in findings() if f.confidence == "sure")


def test_a_symbol_that_two_files_define_is_a_finding_in_each() -> None:
    places = {"m:f": {"b.py": Place("m:f", "function", 1), "a.py": Place("m:f", "function", 9)}}
    found = findings_of(["m:f"], places, dead={"m:f"}, sure={"m:f"}, doubts={})
    assert [f.path for f in found] == ["a.py", "b.py"]


def report(**changed: object) -> Report:
    fields = {"root": "r", "files": 2, "facts": 1234, "symbols": 20, "work": WORK, **changed}
    return Report(dead=tuple(findings()), **fields)  # type: ignore[arg-type]


def test_the_text_shows_outermost_symbols_and_counts_the_rest() -> None:
    assert report().text().splitlines() == [
        "m.py:1: dead module m (with 5 inside)",
        "n.py:7: dead class n:C (with 3 inside)",
        "n.py:11: dead name n:X (likely: what may be alive refers to it)",
        "n.py:12: dead class n:D (likely: a)",
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


def test_what_is_left_out_as_only_likely_is_counted() -> None:
    assert (
        report(likely=1234)
        .text()
        .endswith(
            "12 dead symbols among 20 in 2 files (1,234 facts, 0.25 s); 1,234 more are likely "
            "(--confidence likely)"
        )
    )
    assert json.loads(report(likely=3).json())["likely"] == 3


def test_the_json_of_a_report_holds_every_finding() -> None:
    data = json.loads(report(unreadable={"x.py": "why"}).json())
    assert (data["version"], data["event"], len(data["dead"])) == (1, "report", 12)
    assert data["dead"][3] == {
        "path": "m.py",
        "line": 4,
        "symbol": "m:f.<locals>.g",
        "kind": "function",
        "confidence": "sure",
        "inside": "m:f",
        "doubt": None,
        "column": 1,
    }
    assert data["unreadable"] == {"x.py": "why"}
    assert data["work"]["touched"] == 5


def test_a_change_as_text_and_as_json() -> None:
    died, risen = findings()[10], findings()[11]
    turned = (findings()[7], findings()[8])
    change = Change(
        ("a.py",), ("b.py",), (died,), (risen,), turned, ("b:old",), WORK, 1.5, {"c.py": "bad"}
    )
    assert change.text().splitlines() == [
        "changed: a.py, b.py (deleted)",
        "  c.py: not read, its old facts are kept: bad",
        "  became dead   n.py:11: dead name n:X (likely: what may be alive refers to it)",
        "  became alive  n.py:12: class n:D",
        "  now likely    n.py:8: method n:C.m",
        "  now sure      n.py:9: name n:C.x",
        "  gone          b:old (it was dead)",
        "  4 facts out, 3 in, 5 touched, 0.250 s (from scratch: 1.50 s)",
    ]
    data = json.loads(change.json())
    assert (data["event"], data["became_dead"][0]["symbol"]) == ("change", "n:X")
    assert (data["gone"], data["recomputed"]) == (["b:old"], 1.5)
    assert [one["symbol"] for one in data["confidence_changed"]] == ["n:C.m", "n:C.x"]
    nothing = Change(("a.py",), (), (), (), (), (), WORK, 1.5)
    assert "  no symbol became dead or alive" in nothing.text()
    unused = replace(nothing, became_unused=(Finding("m.py", 2, "m:os", "import", "sure"),))
    read = replace(nothing, no_longer_unused=("m:os",))
    for change, said in (
        (unused, "now unused    m.py:2: unused import m:os"),
        (read, "not un"),
    ):
        assert said in change.text()
        assert "no symbol" not in change.text()
    assert unused.sizes() == (1, 0)
    assert (read.sizes(), read.sides()) == ((0, 1), ([], ["no longer unused: m:os"]))


def test_a_baseline_is_keyed_by_symbol_and_path(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    Baseline.of(findings()[:3]).write(path)
    known = Baseline.read(path)
    new, accepted = known.split(findings())
    assert (len(new), len(accepted)) == (9, 3)
    moved = Finding("elsewhere.py", 1, "m:f", "function", "sure")
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
        ('{"version": 1}', "is not a baseline: it has no 'dead'"),
        ('{"version": 1, "dead": [3]}', "is not a baseline: an entry is no path and symbol"),
        ("[]", "is not a baseline: it is no object of JSON"),
        (
            '{"version": 1, "dead": [], "unread": 3}',
            "is not a baseline: an entry is no path and symbol",
        ),
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
