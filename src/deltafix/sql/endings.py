"""WITH RECURSIVE ... UNION ALL: that it ends, and what tells its rows apart.

UNION ALL counts every way in which a row is found, so a cycle in the data counts for ever. Where a
column shows that it ends, one that every step raises by a constant and a condition bounds, nothing
else is asked. Elsewhere each row's path says where it has been, and a row that is where its path
was before is an error: its steps would come back again and again. Where it is, the columns that
decide its next steps say; a depth that is only counted does not.

A row's key is its path: a digest of the rows that each step read. Invariant: the same path has the
same digest in every process and after every start, so rows in shards and in states are told apart
as they were; different paths have different ones (160 bits of BLAKE2). A recursion that ends is
never refused, and one that does not is found out within three laps of a cycle: the last places and
one at a power of two are remembered (R. P. Brent, "An improved Monte Carlo factorization
algorithm", BIT 20, 1980, https://doi.org/10.1007/BF01933190), or after `MOST_STEPS` steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from deltafix.rules.ast import Atom
from deltafix.sql.builder import Operand
from deltafix.sql.connectives import conditions
from deltafix.sql.literals import Scalar, constant
from deltafix.sql.text import exp
from deltafix.sql.types import TEXT

if TYPE_CHECKING:
    from deltafix.sql.builder import Builder, Relation
    from deltafix.sql.ranking import Rows

__all__ = [
    "MOST_STEPS", "deciding", "is_bounded", "path_of", "require_recurring", "watched_path_of",
]  # fmt: skip

MOST_STEPS: Final = 100_000
"""Steps of a recursion that no bound ends: what it counts is another value in each of them."""
_READ_BY_NAME: Final = ("expressions", "from_", "joins", "where", "laterals", "kind")
"""Parts of a SELECT that read no column by its position."""
_PLACE: Final = 16
"""Digits of a place."""
_LATELY: Final = 64
"""Places of a path that are remembered: a shorter cycle is found out in its first lap. With 8, ten
nodes with two edges from each to the next took all memory; 17 bytes a step of a path."""


def path_of(builder: Builder, side: int, part: Rows) -> Operand:
    """The path of a row by what a side of the recursion read; what computes it goes to its body."""

    def compute(row: Sequence[Any]) -> str:
        return _digest((side, *row), 20)

    return builder.apply(Scalar(compute, TEXT, nullable=False), _key(part), part.body)


def watched_path_of(
    builder: Builder,
    side: int,
    part: Rows,
    relation: Relation,
    *,
    positions: Sequence[int],
    name: str,
) -> Operand:
    """The same, for a recursion that is not bounded: computing it raises where it does not end.

    `positions` are the columns that decide its next steps. A path is a count of its steps, the
    place at the last power of two among them, the last places, and the digest.
    """
    before = _recurring(part, relation)
    path = [] if before is None else [Operand(before.args[-1], TEXT, nullable=False)]
    key = [operand for operand in _key(part) if operand not in path]
    where = [part.outputs[position][1] for position in positions]
    names = [relation.columns[position].name for position in positions]
    size = len(where)

    def compute(row: Sequence[Any]) -> str:
        values, read = row[len(row) - size :], row[: len(row) - size]
        here = _digest(values, _PLACE // 2)
        if before is None:
            return f"0 {here} {here} {_digest((side, *read), 20)}"
        steps, anchor, lately, digest = read[0].split(" ")
        count = int(steps) + 1
        if here == anchor or here in lately:  # all are as long, so it is one of them
            raise ValueError(_never(name, f"comes back to {_shown(names, values)}"))
        if count >= MOST_STEPS:
            most = f"after {count:,} steps, the most without a bound"
            raise ValueError(_never(name, f"is at {_shown(names, values)} {most}"))
        if not count & (count - 1):
            anchor = here
        lately = f"{lately},{here}"[-_LATELY * (_PLACE + 1) + 1 :]
        return f"{count} {anchor} {lately} {_digest((side, digest, *read[1:]), 20)}"

    scalar = Scalar(compute, TEXT, nullable=False, partial=True)
    return builder.apply(scalar, [*path, *key, *where], part.body)


def require_recurring(
    builder: Builder, step: exp.Expr, part: Rows, relation: Relation, name: str
) -> None:
    """Raise SqlRefusedError for a step that does not join the recursion itself."""
    if _recurring(part, relation) is None:
        way_out = f"read {name} in the step's own FROM or JOIN; or write UNION"
        raise builder.refused("this step of a recursion by UNION ALL", step, way_out)


def _recurring(part: Rows, relation: Relation) -> Atom | None:
    """What a step reads of the recursion; None of a side to begin with."""
    atoms = (
        formula
        for formula in part.body
        if isinstance(formula, Atom) and formula.relation == relation.name
    )
    return next(atoms, None)


def _key(part: Rows) -> list[Operand]:
    return [operand for _, operand in part.outputs] if part.identity is None else part.identity


def _digest(values: Sequence[Any], size: int) -> str:
    return blake2b(repr(tuple(values)).encode(), digest_size=size).hexdigest()


def _shown(names: Sequence[str], values: Sequence[Any]) -> str:
    if not names:
        return "where it began, whatever its rows are"
    return ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))


def _never(name: str, where: str) -> str:
    return (
        f"the recursion {name} by UNION ALL does not end: it {where}; write UNION, or bound a "
        "column that every step raises"
    )


def is_bounded(
    builder: Builder, steps: Sequence[exp.Expr], name: str, names: Sequence[str]
) -> bool:
    """Whether a column shows that a recursion by UNION ALL ends. Raises SqlRefusedError."""
    return bool(set.intersection(*(_rising(builder, step, name, names) for step in steps)))


def deciding(steps: Sequence[exp.Expr], name: str, names: Sequence[str]) -> set[int]:
    """The columns, by position, that decide which rows the next steps find. Perhaps too many.

    All but those that no step reads, other than in what it shows of such columns.
    """
    selects = [_select(step) for step in steps]
    every = set(range(len(names)))
    if any(_reads_in_other_words(select, name, len(names)) for select in selects):
        return every
    idle = set(every)
    while True:
        read = set[str]()
        for select in selects:
            shown = {id(select.expressions[position]) for position in idle}
            nodes = select.walk(prune=lambda node, shown=shown: id(node) in shown)
            read |= {
                node.name
                for node in nodes
                if isinstance(node, exp.Column) and id(node) not in shown
            }
        still = {
            position
            for position in idle
            if read.isdisjoint(
                {names[position], *(select.expressions[position].alias for select in selects)}
            )
        }
        if still == idle:
            return every - idle
        idle = still


def _reads_in_other_words(select: exp.Select, name: str, width: int) -> bool:
    """Whether a step may read columns of the recursion by other names than theirs, or by none."""
    (table,) = (table for table in select.find_all(exp.Table) if table.name == name)
    whole = {name, table.alias_or_name}
    return (
        len(select.expressions) != width
        or bool(table.alias_column_names)
        or any(value for part, value in select.args.items() if value and part not in _READ_BY_NAME)
        or any(join.args.get("using") or join.method for join in select.find_all(exp.Join))
        or select.find(exp.Star, exp.Columns) is not None
        or any(column.name in whole for column in select.find_all(exp.Column))
    )


def _select(step: exp.Expr) -> Any:
    while isinstance(step, exp.Paren | exp.Subquery):
        step = step.this
    return step


def _rising(builder: Builder, step: exp.Expr, name: str, names: Sequence[str]) -> set[int]:
    """The columns that a step raises by a constant under a bound, by position."""
    select = _select(step)
    reads = [table for table in select.find_all(exp.Table) if table.name == name]
    if not isinstance(select, exp.Select) or len(reads) != 1 or select.args.get("distinct"):
        way_out = f"write a SELECT that reads {name} once, without DISTINCT; or write UNION"
        raise builder.refused("this step of a recursion by UNION ALL", step, way_out)
    alias = reads[0].alias_or_name
    bounds = set(_bounded(select, alias))
    rising = set()
    for position, shown in enumerate(select.expressions):
        node = shown.unalias()
        if isinstance(node, exp.Add) and position < len(names):
            more = constant(node.expression)
            rises = more is not None and more.type.is_integer and more.compute(None) > 0
            if rises and _is(node.this, alias, names[position]) and names[position] in bounds:
                rising.add(position)
    return rising


def _is(node: exp.Expr, alias: str, name: str) -> bool:
    return isinstance(node, exp.Column) and node.name == name and node.table in ("", alias)


def _bounded(step: exp.Select, alias: str) -> Iterator[str]:
    """The columns of the recursion that WHERE or an inner join bounds from above."""
    where = step.args.get("where")
    parts = list(conditions(where.this if where is not None else None))
    for join in step.args.get("joins") or ():
        if not join.args.get("side") and join.args.get("kind") in (None, "", "INNER"):
            parts += conditions(join.args.get("on"))
    for part in parts:
        small, large = part.this, part.args.get("expression")
        if isinstance(part, exp.GT | exp.GTE):
            small, large = large, small
        elif not isinstance(part, exp.LT | exp.LTE):
            continue
        if isinstance(small, exp.Column) and small.table in ("", alias):
            limit = constant(large) if isinstance(large, exp.Expr) else None
            if limit is not None and limit.type.is_numeric:
                yield small.name
