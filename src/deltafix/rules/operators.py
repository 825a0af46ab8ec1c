"""Rules for those who think in sets.

`const union join product difference filter_ project aggregate connected` rearrange comprehensions
(`comprehension`); `lfp` adds a relation, with one rule per alternative, to the program whose `with`
block is open, and so do `connected` and, where what it goes over has no relation yet, `aggregate`.
Invariant: no operator evaluates anything; the result is a program like any other, so its
incremental form comes from the same derivation (the source's section 5).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, overload

from deltafix.changes.formula import Connective
from deltafix.errors import ProgramError
from deltafix.facts.values import Value
from deltafix.rules.ast import And, Atom, Attribute, Comparison, Formula, conjunction
from deltafix.rules.builder import Builder, Column, Relation, current_builder
from deltafix.rules.comprehension import Rows, Source, absent, apart, below, rows_of, variable
from deltafix.rules.expressions import FormulaExpr, Operand, TermExpr, term_of
from deltafix.rules.extended import declare_functor
from deltafix.rules.feed import Feed
from deltafix.rules.functors import SIGNATURES
from deltafix.rules.lfp import free_name, lfp
from deltafix.rules.terms import Aggregate, Call, Const, Term

__all__ = [
    "aggregate",
    "connected",
    "const",
    "difference",
    "filter_",
    "join",
    "lfp",
    "product",
    "project",
    "union",
]

_TYPES: Final = {int: "number", float: "float", str: "symbol"}
_AGGREGATES: Final = ("count", "sum", "min", "max", "mean")


@overload
def const(rows: Feed, name: str | None = None, /, **columns: Column) -> Rows: ...


@overload
def const(rows: Iterable[Sequence[Value] | Value] | Relation, /) -> Rows: ...


def const(
    rows: Iterable[Sequence[Value] | Value] | Relation | Feed,
    name: str | None = None,
    /,
    **columns: Column,
) -> Rows:
    """Exactly these rows; a bare value is a row of one column.

    Of a relation: the rows that it has, which come and go from outside. Of a collection: its
    values, whatever their keys, while they come and go: `const(calls, "edge", source=str,
    target=str)` declares the relation that it fills, with these columns, and
    `deltafix.reactive.fixpoint(program)` runs the program over it.

    Raises:
        TypeError: rows that differ, columns for what has its own, or a collection without any.
        ValueError: no rows, so no columns.
        ProgramError: no program is open; or something else has the name.
    """
    if isinstance(rows, Feed):
        return rows_of(_filled(current_builder(), rows, name, columns))
    if name is not None or columns:
        raise TypeError(f"const of {type(rows).__name__}: only a collection is given columns")
    if isinstance(rows, Relation):
        return rows_of(rows)
    alternatives = []
    types: tuple[str, ...] | None = None
    for row in rows:
        values = row if isinstance(row, (tuple, list)) else (row,)
        here = tuple(_TYPES.get(type(value), "") for value in values)
        if types not in (None, here):
            raise TypeError(f"the rows of const differ: {types} and {here} in {row!r}")
        types = here
        alternatives.append((tuple(map(term_of, values)), And(())))
    if types is None:
        raise ValueError("const wants at least one row: the columns follow from it")
    return Rows(types, tuple(alternatives))


def _filled(
    builder: Builder, feed: Feed, name: str | None, columns: Mapping[str, Column]
) -> Relation:
    """The relation that a collection fills: the one it has, or a new one."""
    if not columns:
        shown = "const(calls, source=str, target=str)"
        raise TypeError(f"const of a collection wants the columns of its values, as in {shown}")
    attributes = builder.attributes(name or "const", columns)
    for declared in builder.relations:
        fills = builder.fed.get(declared.name) is feed and name in (None, declared.name)
        if fills and _shape(declared.attributes) == _shape(attributes):
            return declared
    if name in [declared.name for declared in builder.relations]:
        raise ProgramError(f"const: there is a relation {name!r} already; give another name")
    relation = builder.declare(name or free_name(builder, "rows"), columns)
    builder.fed[relation.name] = feed
    return relation


def _shape(attributes: Iterable[Attribute]) -> list[tuple[str, str, str]]:
    """Columns but for where they were written."""
    return [(attribute.name, attribute.type, attribute.join) for attribute in attributes]


def union(*sources: Source) -> Rows:
    """Rows of any of the sources, which have the same columns."""
    parts = [rows_of(source) for source in sources]
    uses = tuple(u for i, part in enumerate(parts) for u in below(f"union[{i}]", part.uses))
    known = [part for part in parts if part.types is not None]
    for part in known[1:]:
        _require_same_columns("union", known[0], part)
    types = known[0].types if known else None
    return Rows(types, tuple(a for part in known for a in part.alternatives), uses)


def join(
    left: Source,
    right: Source,
    *,
    on: Iterable[tuple[int, int]],
    project: Callable[..., Operand | tuple[Operand, ...]] | None = None,
) -> Rows:
    """Pairs of rows that agree on columns `on` (left position, right position), projected.

    Without `project` a row is the left row followed by the right one. `project` takes one argument
    per column, left then right, and gives a term or a tuple of terms.
    """
    both = _joined("join", rows_of(left), rows_of(right), tuple(on))
    return both if project is None else _project(both, project)


def product(left: Source, right: Source) -> Rows:
    """Each row of the left followed by each row of the right."""
    return _joined("product", rows_of(left), rows_of(right), ())


def _joined(operator: str, first: Rows, second: Rows, pairs: tuple[tuple[int, int], ...]) -> Rows:
    uses = (*below(f"{operator}.left", first.uses), *below(f"{operator}.right", second.uses))
    if first.types is None or second.types is None:
        return Rows(None, (), uses)
    for a, b in pairs:
        if not (0 <= a < len(first.types) and 0 <= b < len(second.types)):
            raise ValueError(
                f"join on {(a, b)}: positions go to {len(first.types) - 1} and "
                f"{len(second.types) - 1}"
            )
    alternatives = []
    for mine, theirs in itertools.product(first.alternatives, second.alternatives):
        (left, body), (right, other) = apart(*mine), apart(*theirs)
        equal = [Comparison("=", left[a], right[b]) for a, b in pairs]
        alternatives.append(((*left, *right), conjunction((body, other, *equal))))
    return Rows((*first.types, *second.types), tuple(alternatives), uses)


def difference(left: Source, right: Source) -> Rows:
    """Rows of the left that are no rows of the right, which has the same columns."""
    first, second = rows_of(left), rows_of(right)
    mine = below("difference.left", first.uses)
    uses = (*mine, *below("difference.right", second.uses, odd=True))
    if first.types is not None and second.types is not None:
        _require_same_columns("difference", first, second)
    alternatives = []
    for terms, body in first.alternatives:
        gone = [absent(terms, *apart(*other)) for other in second.alternatives]
        alternatives.append((terms, conjunction((body, *gone))))
    return Rows(first.types, tuple(alternatives), uses)


def _require_same_columns(operator: str, rows: Rows, other: Rows) -> None:
    if rows.types != other.types:
        raise TypeError(f"{operator} of different columns: {rows.types} and {other.types}")


def filter_(test: Callable[..., FormulaExpr | TermExpr], source: Source) -> Rows:
    """Rows for which `test` holds: a function from one term per column to a body.

    A declared functor is a test, too: a row stays where its Python function gives neither 0 nor
    None.
    """
    rows = rows_of(source)
    alternatives = []
    for terms, body in rows.alternatives:
        extra = test(*map(TermExpr, terms))
        if isinstance(extra, TermExpr) and _calls_python(extra.term):
            extra = extra != 0
        if not isinstance(extra, FormulaExpr):
            raise TypeError(
                f"filter's function gave {extra!r}: it gives a comparison, an atom or a functor"
            )
        alternatives.append((terms, conjunction((body, extra.formula))))
    return Rows(rows.types, tuple(alternatives), below("filter", rows.uses))


def project(source: Source, to: Callable[..., Operand | tuple[Operand, ...]]) -> Rows:
    """`to` of every row: a function from one term per column to a term or a tuple of terms.

    A declared functor is such a function: `project(edges, length)` maps rows by Python.
    """
    rows = _project(rows_of(source), to)
    return replace(rows, uses=below("project", rows.uses))


def _project(rows: Rows, to: Callable[..., Operand | tuple[Operand, ...]]) -> Rows:
    if rows.types is None:
        return rows
    alternatives = []
    types: tuple[str, ...] = ()
    for terms, body in rows.alternatives:
        given = to(*map(TermExpr, terms))
        new = tuple(map(term_of, given if isinstance(given, tuple) else (given,)))
        types = _types(new, terms, rows.types)
        alternatives.append((new, body))
    return Rows(types, tuple(alternatives), rows.uses)


def aggregate(
    source: Source,
    op: Literal["count", "sum", "min", "max", "mean"],
    of: int | None = None,
    *,
    by: Iterable[int] = (),
) -> Rows:
    """A row for each group of rows that agree on columns `by`: these columns, and the aggregate.

    `count` is of rows, the others go over the values of column `of`. Without `by` all rows are one
    group, which is there even when it is empty: its count and its sum are 0.
    """
    if op not in _AGGREGATES:
        raise ValueError(f"there is no aggregate {op!r}; one of {', '.join(_AGGREGATES)}")
    if (of is None) != (op == "count"):
        wanted = "counts rows, of no column" if of is not None else "wants a column to go over"
        raise ValueError(f"aggregate: {op} {wanted}")
    rows, group = rows_of(source), tuple(by)
    uses = below("aggregate", rows.uses, folded=True)
    if rows.types is None:
        return Rows(None, (), uses)
    for column in group if of is None else (*group, of):
        if not 0 <= column < len(rows.types):
            raise ValueError(f"aggregate of column {column}: positions go to {len(rows.types) - 1}")
    if of is not None and rows.types[of] == "symbol":
        raise TypeError(f"aggregate: {op} of column {of}, which holds symbols; numbers are valid")
    terms, atom = _as_relation(rows)
    row = tuple(terms[i] for i in group)
    value = variable(op)
    fold = Aggregate(op, None if of is None else terms[of], atom)
    types = _types((*row, fold), terms, rows.types)
    body: list[Formula] = [Comparison("=", value, fold)]
    if group:
        # A relation of its own: joined with the rows, each change would touch its whole group.
        groups = lfp(
            lambda _: Rows(types[:-1], ((row, atom),), rows.uses),
            name=free_name(current_builder(), "group"),
        )
        body.insert(0, groups(*map(TermExpr, row)).formula)
    return Rows(types, (((*row, value), conjunction(body)),), uses)


def connected(connective: Connective, *sources: Source) -> Rows:
    """Rows for which a connective of one's own holds: its parts hold of the rows of the sources.

    `connect(program, reducers={name: Holds(connective)})` says which it is, by its name. What it
    does where a row comes or goes is what its own ↑ and ↓ say.

    Raises:
        TypeError: sources of different columns, or more or fewer than the connective has parts.
        ProgramError: no program is open.
    """
    parts = [rows_of(source) for source in sources]
    name, wanted = connective.name, len(connective.parameters)
    if len(parts) != wanted:
        raise TypeError(f"{name} has {wanted} parts, and was given {len(parts)} sets")
    uses = tuple(
        use for part, at in zip(parts, connective.parameters, strict=True)
        for use in below(f"connected.{at}", part.uses, folded=True)
    )  # fmt: skip
    known = [part for part in parts if part.types is not None]
    for part in known[1:]:
        _require_same_columns(name, known[0], part)
    types = known[0].types if known else None
    if types is None or len(known) < wanted:
        return Rows(None, (), uses)
    builder = current_builder()
    if name not in [declared.name for declared in builder.functors]:
        declare_functor(builder, name, {"part": int}, int)
    numbered = [product(part, const([position])) for position, part in enumerate(parts)]
    each = lfp(lambda _: union(*numbered), name=free_name(builder, f"{name}_parts"))
    rows = lfp(lambda _: union(*parts), name=free_name(builder, f"{name}_rows"))
    terms = tuple(variable(column.name) for column in rows.attributes)
    number = variable("part")
    fold = Aggregate(f"@@{name}", number, Atom(each.name, (*terms, number)))
    return Rows(
        types,
        ((terms, conjunction((Atom(rows.name, terms), Comparison("=", Const(1), fold)))),),
        uses,
    )


def _as_relation(rows: Rows) -> tuple[tuple[Term, ...], Atom]:
    """A set as the rows of one relation, where each is there once."""
    if len(rows.alternatives) == 1:
        ((terms, body),) = rows.alternatives
        if isinstance(body, Atom) and body.args == terms and len(set(terms)) == len(terms):
            return terms, body
    named = rows_of(lfp(lambda _: rows, name=free_name(current_builder(), "set")))
    return _as_relation(named)


def _calls_python(term: Term) -> bool:
    return isinstance(term, Call) and term.functor.startswith("@")


def _types(
    new: tuple[Term, ...], terms: tuple[Term, ...], types: tuple[str, ...]
) -> tuple[str, ...]:
    """The type names of terms that are made of those of a row, which are told by identity."""
    known = {id(term): kind for term, kind in zip(terms, types, strict=True)}
    return tuple(_type(term, known) for term in new)


def _type(term: Term, known: dict[int, str]) -> str:
    if id(term) in known:
        return known[id(term)]
    if isinstance(term, Const):
        return term.type or _TYPES[type(term.value)]
    if isinstance(term, Call) and term.functor in SIGNATURES:
        result = SIGNATURES[term.functor].result
        if result in ("number", "unsigned", "float", "symbol"):
            return result
        inner = [_type(arg, known) for arg in term.args if not isinstance(arg, Const)]
        return inner[0] if inner else _type(term.args[0], known)
    if isinstance(term, Call) and _calls_python(term):
        for declared in current_builder().functors:
            if f"@{declared.name}" == term.functor:
                return declared.result
    if isinstance(term, Aggregate):
        return {"count": "number", "mean": "float"}.get(term.op) or _type(
            term.target or Const(0), known
        )
    raise ProgramError(f"the type of {term!r} is not known here: project columns of the source")
