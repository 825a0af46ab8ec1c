"""The Python door to constructed types, user functors, and relations that join or drop rows.

    with deltafix.Program() as p:
        edge = p.relation("edge", x=str, y=str, cost=int)
        dist = p.relation("dist", x=str, d=Min(int))
        x, y, c, d = deltafix.vars("x y c d")
        dist(y, d + c) <= dist(x, d) & edge(x, y, c)

A record is a tuple in an atom, `nil` is None, a branch `branch("Node", x, y)`. Invariant: each
function here adds what the same text would; nothing is checked before the program is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType

from deltafix.rules.ast import And, Constructor, Dominates, FunctorDecl, LatticeDecl, TypeDecl
from deltafix.rules.builder import Builder, Column, Joined, Relation
from deltafix.rules.expressions import AtomExpr, FormulaExpr, Operand, TermExpr, term_of
from deltafix.rules.terms import Aggregate, Call, Wildcard


def Min(column: type | UnionType | str) -> Joined:  # noqa: N802  reads as a type
    """A column that holds the least value derived for the other columns."""
    return Joined(column, "min")


def Max(column: type | UnionType | str) -> Joined:  # noqa: N802  reads as a type
    """A column that holds the greatest value derived for the other columns."""
    return Joined(column, "max")


def Lattice(column: type | UnionType | str) -> Joined:  # noqa: N802  reads as a type
    """A column that holds the join, by its type's lattice, of what is derived."""
    return Joined(column, "<>")


def branch(name: str, *fields: Operand) -> TermExpr:
    """A value or pattern of an algebraic data type: `$name(fields)`."""
    return TermExpr(Call(f"${name}", tuple(map(term_of, fields))))


def reduce_of(name: str, target: Operand, body: FormulaExpr) -> TermExpr:
    """`@@name target : { body }`, a reducer of the user's as an aggregate."""
    return TermExpr(Aggregate(f"@@{name}", term_of(target), body.formula))


class Functor:
    """A declared functor; call it with terms."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Operand) -> TermExpr:
        """The term `@name(args)`."""
        return TermExpr(Call(f"@{self.name}", tuple(map(term_of, args))))


def declare_functor(
    builder: Builder, name: str, arguments: Mapping[str, Column], returns: Column
) -> Functor:
    """`.functor name(arguments): returns`."""
    (result,) = builder.attributes(name, {"": returns})
    declared = FunctorDecl(name, builder.attributes(name, arguments), result.type)
    builder.functors.append(declared)
    return Functor(name)


def declare_record(builder: Builder, name: str, fields: Mapping[str, Column]) -> str:
    """`.type name = [fields]`; gives the name."""
    only = Constructor("", builder.attributes(name, fields))
    builder.types.append(TypeDecl(name, "record", (), (only,)))
    return name


def declare_union(builder: Builder, name: str, branches: Mapping[str, Mapping[str, Column]]) -> str:
    """`.type name = A {..} | B {..}`; gives the name."""
    constructors = (
        Constructor(branch, builder.attributes(name, f)) for branch, f in branches.items()
    )
    builder.types.append(TypeDecl(name, "record", (), tuple(constructors)))
    return name


def declare_lattice(builder: Builder, kind: str, bottom: Operand, lub: Functor) -> None:
    """`.lattice kind<> { Bottom -> bottom, Lub -> @lub(_, _) }`."""
    join = Call(f"@{lub.name}", (Wildcard(), Wildcard()))
    operations = (("Bottom", term_of(bottom)), ("Lub", join))
    builder.lattices.append(LatticeDecl(kind, operations))


def equivalence(builder: Builder, relation: Relation) -> None:
    """Make a relation `eqrel`."""
    builder.qualifiers.setdefault(relation.name, []).append("eqrel")


def choose(
    builder: Builder, relation: Relation, domains: tuple[str | tuple[str, ...], ...]
) -> None:
    """Give a relation a `choice-domain`: a column's name, or a tuple of them, per domain."""
    builder.choices.setdefault(relation.name, []).extend(map(_listed, domains))


def index(builder: Builder, relation: Relation, keys: tuple[str | tuple[str, ...], ...]) -> None:
    """Give a relation an `index-on`: a column's name, or a tuple of them, per index."""
    builder.indexes.setdefault(relation.name, []).extend(map(_listed, keys))


def _listed(columns: str | tuple[str, ...]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else columns


def subsume(
    builder: Builder, less: AtomExpr, more: AtomExpr, when: FormulaExpr | None = None
) -> None:
    """`less <= more :- when.`: a row like `less` gives way to one like `more`."""
    body = And(()) if when is None else when.formula
    builder.orders.append(Dominates(less.atom, more.atom, body))
