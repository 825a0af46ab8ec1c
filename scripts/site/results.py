"""The tables of bench/RESULTS.md, by section, as data.

Invariant: nothing is changed on the way; a figure on the site is the text that the bench wrote.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["RESULTS", "Table", "amount", "section", "tables"]

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "RESULTS.md"

_UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_AMOUNT = re.compile(r"([\d.,]+(?:e[+-]?\d+)?)\s*(ns|µs|ms|s)$")


@dataclass(frozen=True)
class Table:
    """One table: the names of its columns, and its rows as texts."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> list[str]:
        """One column's texts. Raises ValueError for a name it does not have."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


def section(text: str, title: str) -> str:
    """What stands under `## title`. Raises LookupError if there is no such section."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if found is None:
        raise LookupError(f"bench/RESULTS.md has no section {title!r}")
    return found.group(1)


def tables(text: str) -> list[Table]:
    """The tables of a piece of Markdown, in order."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text if text.endswith("\n") else text + "\n", re.M):
        lines = [_cells(line) for line in block.strip().split("\n")]
        found.append(Table(lines[0], tuple(lines[2:])))
    return found


def amount(text: str) -> float | None:
    """Seconds of a time as the bench writes it (`14.6 ms`), or None."""
    match = _AMOUNT.fullmatch(text.strip())
    return None if match is None else float(match[1].replace(",", "")) * _UNITS[match[2]]


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
