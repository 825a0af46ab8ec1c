"""Point reads in codes: the committed rows, and nothing that a transaction is about to change."""

from __future__ import annotations

from random import Random

import pytest

import deltafix

pytestmark = pytest.mark.usefixtures("warm_kernel")

TEXT = """
.decl edge(x: symbol, y: symbol)  .input edge
.decl mark(x: symbol)             .input mark
.decl two(x: symbol, y: symbol)
two(x, z) :- edge(x, y), edge(y, z), mark(y).
"""


def seen(db, names):
    with db.probing() as probe:
        codes = {name: code for name in names if (code := probe.code(name)) is not None}
        shown = {code: name for name, code in codes.items()}
        assert all(probe.symbol(code) == name for name, code in codes.items())
        forth = {(a, shown[b]) for a, c in codes.items() for b in probe.others("edge", 0, c)}
        back = {(shown[a], b) for b, c in codes.items() for a in probe.others("edge", 1, c)}
        held = {(a, b) for a in codes for b in codes if probe.has("edge", codes[a], codes[b])}
        column = sorted(shown[code] for code in probe.column("edge", 0))
        marks = {a for a in codes if probe.has("mark", codes[a])}
    assert forth == back == held
    assert column == sorted(a for a, _ in held)
    assert marks == {a for (a,) in db.rows("mark")}
    return held


def test_reads_are_those_of_the_committed_rows_through_random_edits():
    random = Random(3)
    names = "abcdefgh"
    db = deltafix.connect(TEXT)
    there = set()
    for _ in range(60):
        size = random.choice((1, 2, 30))
        new = {(random.choice(names), random.choice(names)) for _ in range(size)} - there
        gone = set(random.sample(sorted(there), min(len(there), random.randint(0, size))))
        with db.transaction() as tx:
            tx.insert("edge", sorted(new))
            tx.delete("edge", sorted(gone))
            tx.insert("mark", [(random.choice(names),)])
            assert seen(db, names) == there
        there = (there | new) - gone
        assert seen(db, names) == there
        if random.random() < 0.2:  # what is edited behind it is in another arena
            db.compact()
            assert seen(db, names) == there
    with db.transaction() as tx:
        tx.change_program(TEXT + ".decl more(x: symbol) more(x) :- two(x, _).")
    assert seen(db, names) == there
