"""Writes RESULTS.md out of `Results`: stable tables, one section per workload, notes included.

Invariant: the file is a function of the results and of `bench/notes/`; nobody edits it by hand.
`notes/<workload>.md` says what limits a figure, `notes/zz-*.md` are added at the end as they are.
"""

from __future__ import annotations

from pathlib import Path

from bench.goals import GOALS, Goal
from bench.peers import PEERS
from bench.results import Measured, Results

__all__ = ["write"]

HOME = Path(__file__).parent
_HEAD = """# Benchmark results

Written by `make bench`; do not edit. Every workload has a fixed seed, every peer runs in a process
of its own, one after the other, and all answers of a workload are compared (counts and a hash of
the rows, after loading and after the last epoch). *Load* is everything from given rows in memory
to the first answer, the shorter of two where they take less than a minute. An *epoch* is one
committed transaction. Peers marked *recompute* cannot maintain an answer: a few epochs of theirs
are evaluated from scratch. Ratios are a peer's time over deltafix's at the same quantile. *State*
is the growth of resident memory while loading, *peak* that of the whole process, input included. A
quantile is a measured value, and is left out where too few epochs stand behind it. *Measured* is
the day and the commit: ratios hold where they are the same.
"""


def seconds(value: float | None) -> str:
    """A duration with three digits and the unit that suits it."""
    if value is None:
        return "–"
    for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}" if value * scale < 1000 else f"{value:,.0f} s"
    return f"{value * 1e9:.0f} ns"


def size(value: float | None) -> str:
    """Bytes as MiB or GiB."""
    if not value:
        return "–"
    return f"{value / 2**30:.2f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"


def number(value: float | None, unit: str = "") -> str:
    """A plain figure with three digits."""
    if value is None:
        return "–"
    text = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{text} {unit}".strip() if unit != "x" else f"{text}×"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def _order(measured: Measured) -> list[str]:
    return [peer for peer in PEERS if peer in measured.peers]


def _peers(measured: Measured) -> str:
    head = ["peer", "version", "mode", "load", "p50", "p99", "max", "p50 ratio", "p99 ratio"]
    head += ["load ratio", "touched/changed", "state", "peak", "measured"]
    rows = []
    for peer in _order(measured):
        found = measured.outcome(peer)
        if found is None:
            continue
        rows.append(
            [
                peer,
                found.version,
                found.mode,
                seconds(found.load_seconds),
                *(seconds(measured.at(peer, q)) for q in (0.5, 0.99, 1)),
                *(number(measured.ratio(peer, q), "x") for q in (0.5, 0.99)),
                number(measured.load_ratio(peer), "x"),
                number(measured.touched_ratio(peer)),
                size(found.state_bytes),
                size(found.peak_bytes),
                found.when,
            ]
        )
    return table(head, rows) if rows else "No peer has a figure.\n"


def _labels(measured: Measured) -> str:
    names = list(dict.fromkeys(measured.labels))
    rows = []
    for peer in _order(measured):
        if measured.outcome(peer) is not None:
            rows.append([peer, *(seconds(measured.label(peer, label)) for label in names)])
    return table(["median per epoch", *names], rows)


def _verdict(goal: Goal, value: float | None) -> list[str]:
    side = "at least" if goal.at_least else "at most"
    verdict = "no figure" if value is None else "reached" if goal.met(value) else "**not reached**"
    bound = f"{side} {number(goal.bound, goal.unit)}"
    return [goal.workload, goal.text, bound, number(value, goal.unit), verdict]


def _goals(results: Results) -> str:
    if results.quick:
        return "Goals are judged on full sizes; this was a quick run.\n"
    rows = [_verdict(goal, goal.read(results)) for goal in GOALS]
    return table(["workload", "figure", "goal", "measured", ""], rows)


def _note(name: str) -> str:
    path = HOME / "notes" / f"{name}.md"
    return path.read_text().strip() + "\n" if path.is_file() else ""


def _workload(measured: Measured) -> str:
    parts = [f"## {measured.name}\n", f"{measured.what}.\n" if measured.what else ""]
    if measured.skipped:
        return "\n".join([*parts, f"Skipped: {measured.skipped}.\n"])
    facts = dict(measured.facts)
    derived = measured.derived()
    if derived is not None:
        facts["rows asked for"] = f"{derived:,}"
    parts.append("; ".join(f"{k}: {v}" for k, v in facts.items()) + ".\n")
    parts.append(_peers(measured))
    if measured.labels:
        parts.append(_labels(measured))
    differ = measured.disagreements()
    agreeing = [p for p, o in measured.peers.items() if o.answers]
    parts.append(
        "**ANSWERS DIFFER:** " + "; ".join(differ) + "\n"
        if differ
        else f"Answers equal: {', '.join(sorted(agreeing)) or 'none'}.\n"
    )
    for peer in _order(measured):
        outcome = measured.peers[peer]
        said = [f"skipped: {outcome.skipped}"] if outcome.skipped else outcome.notes
        parts += [f"- {peer}: {text}" for text in said]
    note = _note(measured.name)
    parts += ["\n### What limits it\n", note] if note else []
    return "\n".join(parts) + "\n"


def _cold(results: Results) -> str:
    if not results.cold:
        return ""
    if "skipped" in results.cold:
        return f"## cold\n\nSkipped: {results.cold['skipped']}.\n"
    rows = [[key, seconds(value)] for key, value in results.cold.items()]
    note = _note("cold")
    text = "## cold\n\nA new process: import, a ten-line program, first epoch; "
    text += f"{results.when['cold']}.\n\n"
    return text + table(["", "seconds"], rows) + ("\n" + note if note else "")


def write(results: Results, path: Path) -> None:
    """Write the report to `path`."""
    sections = [_HEAD]
    if results.quick:
        sections.append("**A quick run on small sizes: it shows that things work, no more.**\n")
    sections.append(
        "## Machine\n\n" + table(["", ""], [[k, v] for k, v in results.machine.items()])
    )
    sections.append("## Goals\n\n" + _goals(results))
    sections += [_workload(measured) for measured in results]
    sections.append(_cold(results))
    for name, text in results.extras.items():
        note = _note(name)
        limits = f"\n### What limits it\n\n{note}" if note else ""
        by = f"By `python -m bench.{name}`, {results.when[name]}."
        sections.append(f"## {name}\n\n{by}\n\n{text}\n{limits}")
    for extra in sorted((HOME / "notes").glob("zz-*.md")):
        sections.append(extra.read_text())
    path.write_text("\n".join(section for section in sections if section).rstrip() + "\n")
