"""The doors by which a database is read, for the plays of `threads`, and what they may give.

A door is called with a `Random`, the database, a relation's name and pages kept for it. It returns
what it was told, and a function that says of an epoch's rows whether the answer is theirs; a
question that cannot be asked of the relation is asked as `rows`. Rows are compared as they are
shown, with one zero: a NaN equals none. Invariant: an answer is held against whole epochs only,
never against what the reader saw before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

import pyarrow as pa
from tests.generators.strategies import random_row

import deltafix
from deltafix.errors import ExplanationError, FactError, NoSuchFactError
from deltafix.facts.values import Branch
from deltafix.web.graph import graph
from deltafix.web.table import View

__all__ = ["DOORS", "said"]

Held = Mapping[str, set[tuple]]
Answer = tuple[Any, Callable[[Held], bool]]
PLAIN = ("number", "unsigned", "symbol", "float")


def said(rows: Iterable[tuple]) -> list[str]:
    """Rows in an order of their own, equal for equal ones."""
    return sorted(repr(_with_one_zero(row)) for row in rows)


def _with_one_zero(value: Any) -> Any:
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, tuple):
        return tuple(map(_with_one_zero, value))
    if isinstance(value, Branch):
        return Branch(value.name, _with_one_zero(value.fields))
    return value


def _has(held: Held, name: str, row: tuple) -> bool:
    return said([row])[0] in said(held[name])


def _same(got: list[tuple], name: str) -> Callable[[Held], bool]:
    return lambda held: said(got) == said(held[name])


def rows(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    got = db.rows(name)
    return got, _same(got, name)


def ordered(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    got = list(db.ordered(name))
    return got, _same(got, name)


def count(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    got = db.count(name)
    return got, lambda held: got == len(held[name])


def length(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    got = len(db.relation(name))
    return got, lambda held: got == len(held[name])


def view(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    got = list(db.relation(name))
    return got, _same(got, name)


def paged(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    got = db.relation(name).page(0, 10**6)
    return got, _same(got, name)


def arrow(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    table = db.to_arrow(name)
    return table.num_rows, lambda held: table.num_rows == len(held[name])


def stream(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    table = pa.table(db.relation(name))
    kinds = db.schemas[name].types
    columns = [column.to_pylist() for column in table.columns]
    got = list(zip(*columns, strict=True))
    if not (set(kinds) <= set(PLAIN) and kinds):
        return table.num_rows, lambda held: table.num_rows == len(held[name])
    return got, _same(got, name)


def _some(rng: Random, db: deltafix.Database, name: str) -> tuple | None:
    """A row of this relation, or one like it."""
    there = db.rows(name)
    if there and rng.random() < 0.7:
        return rng.choice(there)
    kinds = db.schemas[name].types
    if not set(kinds) <= set(PLAIN):
        return rng.choice(there) if there else None
    return random_row(rng, db.program, name)


def select(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    row = _some(rng, db, name)
    if row is None:
        return rows(rng, db, name, _)
    pattern = tuple(value if rng.random() < 0.5 else ... for value in row)
    got = db.select(name, pattern)

    def wanted(held: Held) -> bool:
        right = {
            one
            for one in held[name]
            if all(
                p is ... or said([(p,)]) == said([(v,)]) for p, v in zip(pattern, one, strict=True)
            )
        }
        return said(got) == said(right)

    return got, wanted


def contains(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    row = _some(rng, db, name)
    if row is None:
        return rows(rng, db, name, _)
    got = row in db.relation(name)
    return (row, got), lambda held: got == _has(held, name, row)


def semijoin(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    row = _some(rng, db, name)
    if row is None or name in db.instance.ruled or not row:
        return rows(rng, db, name, _)
    place = rng.randrange(len(row))
    key = row[place : place + 1]
    try:
        got = db.semijoin(name, [db.schemas[name].names[place]], [key])
    except FactError as error:
        if "has rules" not in str(error):
            raise
        return rows(rng, db, name, _)
    return (
        got,
        lambda held: (
            said(got) == said(r for r in held[name] if said([r[place : place + 1]]) == said([key]))
        ),
    )


def why(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    row = _some(rng, db, name)
    if row is None:
        return rows(rng, db, name, _)
    try:
        proof = db.why(name, row)
    except NoSuchFactError as error:
        return (row, error), lambda held: not _has(held, name, row)
    return (row, str(proof)), lambda held: _has(held, name, row)


def why_not(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    row = _some(rng, db, name)
    if row is None:
        return rows(rng, db, name, _)
    try:
        found = db.why_not(name, row, max_work=1000, max_edits=1)
    except NoSuchFactError as error:
        return (row, error), lambda held: _has(held, name, row)
    return (row, str(found)), lambda held: not _has(held, name, row)


def derivations(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    row = _some(rng, db, name)
    if row is None:
        return rows(rng, db, name, _)
    try:
        got = db.derivation_count(name, row)
    except NoSuchFactError as error:
        return (row, error), lambda held: not _has(held, name, row)
    except ExplanationError:
        return rows(rng, db, name, _)
    return (row, got), lambda held: _has(held, name, row)


def shown(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    got = [repr(db), db._repr_html_(), repr(db.relation(name)), db.relation(name)._repr_html_()]
    said = int(got[2].rpartition(": ")[2].split()[0].replace(",", ""))
    return got, lambda held: said == len(held[name])


def figures(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    report, memory = db.last_epoch, db.memory()
    db.check_invariants()
    return (report, memory), lambda held: bool(memory)


def copied(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    schema = db.schemas[name]
    if not set(schema.types) <= set(PLAIN):
        return rows(rng, db, name, _)
    columns = ", ".join(f"{c.name}: {c.type}" for c in schema.columns)
    with deltafix.connect(f".decl {name}({columns})\n.input {name}") as other:
        try:
            with other.transaction() as tx:
                tx.copy(name, db)
        except FactError as error:
            if "in the other database" not in str(error):
                raise
            return rows(rng, db, name, _)
        got = other.rows(name)
    return got, _same(got, name)


def page(rng: Random, db: deltafix.Database, name: str, tables: Any) -> Answer:
    arity = len(db.schemas[name].types)
    sort = rng.choice([None, *range(arity)])
    found = tables.page(View(name, sort=sort, is_descending=rng.random() < 0.5), "", 10**6)
    got = [*map(tuple, found["rows"])]
    return (
        got,
        lambda held: len(got) == found["size"] == found["matched"] and _same(got, name)(held),
    )


def drawn(rng: Random, db: deltafix.Database, name: str, _: Any) -> Answer:
    if len(db.schemas[name].types) != 2:
        return rows(rng, db, name, _)
    found = graph(db, name)
    return (
        len(found["edges"]),
        lambda held: (
            found["size"] == len(held[name])
            and (not found["is_whole"] or len(found["edges"]) == len(held[name]))
        ),
    )


DOORS = (
    rows, ordered, count, length, view, paged, arrow, stream, select, contains, semijoin, why,
    why_not, derivations, shown, figures, copied, page, drawn,
)  # fmt: skip
