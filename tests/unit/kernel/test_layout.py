"""The map of the arena: nothing overlaps.

An overlap shows only at scale: the task's cells once lay among the free lists of large buckets,
and a bucket of 8,192 rows lost derivations of the galen ontology.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deltafix.kernel import layout

EXTENT = {
    **dict.fromkeys(("Q", "J", "HEAP", "DEAD", "WIDE", "SYM", "DELTA", "OPEN", "R_CHANGED"), 3),
    **dict.fromkeys(("TALLIES", "FOLDED"), 3),
    "BUCKET_FREE": 32,
    "LITERALS": layout.MOST_LITERALS,
    "ASIDE": layout.PILES * layout.PILE,
    "ASIDE_HEADS": 3,
    "F_SAID": 2,
}


def names_between(start: str, end: str) -> list[str]:
    source = Path(layout.__file__).read_text(encoding="utf-8")
    part = source[source.index(start) : source.index(end)]
    return re.findall(r"^([A-Z][A-Z0-9_]*) = \d+", part, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("start", "end", "size"),
    [
        ("# --- header cells", "HEADER_CELLS =", "HEADER_CELLS"),
        ("# --- relation descriptor", "RSZ =", "RSZ"),
        ("# --- index descriptor", "XSZ =", "XSZ"),
        ("T_RECURSIVE =", "TSZ =", "TSZ"),
        ("F_GROUPS =", "FSZ =", "FSZ"),
        ("V_TRIGGER =", "VSZ =", "VSZ"),
        ("# candidate", "KSZ =", "KSZ"),
    ],
)
def test_no_two_fields_share_a_cell(start: str, end: str, size: str) -> None:
    owner: dict[int, str] = {}
    names = names_between(start, end)
    assert len(names) > 4
    for name in names:
        first = getattr(layout, name)
        for cell in range(first, first + EXTENT.get(name, 1)):
            assert owner.setdefault(cell, name) == name, f"{name} overlaps {owner[cell]}"
    assert max(owner) < getattr(layout, size)


def test_flags_are_distinct_bits_below_the_rank() -> None:
    names = names_between("NOW = 1", "FLAGS =")
    bits = [getattr(layout, name) for name in names]
    assert sorted(bits) == [1 << k for k in range(len(bits))]
    assert sum(bits) == layout.FLAGS < 1 << layout.RANK_SHIFT
