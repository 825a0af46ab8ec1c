"""Core clauses: one head, a flat conjunction, every argument a variable or a constant.

This is the form that plans are derived from; `normalize` makes it. Invariant: arguments are
`Slot` (a variable of the clause) or `Code` (a typed constant) and nothing nested; a wildcard is
None. Clauses are data with a printed form; they order and index nothing. A relation whose rows are
more than what its clauses derive carries a `Merge`: which of the derived rows stay, or what they
are joined to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from deltafix.facts.values import (
    OPTIONAL,
    BaseType,
    Value,
    show_value,
)


class Slot(str):
    """A variable, by its name in the rule (or `$n` for an intermediate value).

    A string, so that sets of variables, which planning mostly is, hash and compare as fast.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """Its name."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Code:
    """A constant of a base type."""

    value: Value
    type: BaseType

    def __str__(self) -> str:
        return show_value(self.value)


Argument: TypeAlias = Slot | Code


@dataclass(frozen=True, slots=True)
class Match:
    """A positive literal: some row of `relation` fits `args`."""

    relation: str
    args: tuple[Argument | None, ...]

    def __str__(self) -> str:
        return f"{self.relation}({', '.join('_' if a is None else str(a) for a in self.args)})"


@dataclass(frozen=True, slots=True)
class Absent:
    """A negative literal: the row `args` is not in `relation`."""

    relation: str
    args: tuple[Argument, ...]

    def __str__(self) -> str:
        return f"!{self.relation}({', '.join(map(str, self.args))})"


@dataclass(frozen=True, slots=True)
class Compare:
    """A test between two arguments of one type; `=` may bind one side from the other."""

    op: str
    type: BaseType
    left: Argument
    right: Argument

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class Apply:
    """`target = functor(args)`; binds its target, or tests it where it is bound already.

    `types` are the arguments' base types, `result` the value's. `fields`: how many fields the value
    has that one is read from; 0 where none is read. `partial`: it may raise (None: for all that is
    known), and is asked last.
    """

    target: Slot
    functor: str
    args: tuple[Argument, ...]
    types: tuple[BaseType, ...]
    result: BaseType
    fields: int = 0
    partial: bool | None = False

    @property
    def is_coded(self) -> bool:
        """Whether it makes or opens a record of one field, which is coded as the field is."""
        return (self.result in OPTIONAL and self.is_making) or self.is_opening

    @property
    def is_making(self) -> bool:
        """Whether it makes a record, which says what its fields are."""
        return self.functor[0] == "[" and not self.fields

    @property
    def is_opening(self) -> bool:
        """Whether it opens a record of one field; `nil` has none."""
        return self.fields == 1 and self.types[0] in OPTIONAL

    def __str__(self) -> str:
        return f"{self.target} = {self.functor}({', '.join(map(str, self.args))})"


Literal: TypeAlias = Match | Absent | Compare | Apply


def slots_of(literal: Literal) -> tuple[Slot, ...]:
    """The variables of a literal, as often as they occur."""
    if isinstance(literal, (Match, Absent)):
        args: tuple[Argument | None, ...] = literal.args
    elif isinstance(literal, Compare):
        args = (literal.left, literal.right)
    else:
        args = (literal.target, *literal.args)
    return tuple([arg for arg in args if isinstance(arg, Slot)])


@dataclass(frozen=True)
class Clause:
    """`head(args) :- body`, from rule number `rule` of the program, which may have a `name`.

    The first literals, `asks` of them, hold around the part of the rule that the others say, and
    only say what that is asked for.
    """

    head: str
    args: tuple[Argument, ...]
    body: tuple[Literal, ...]
    rule: int
    name: str = field(default="", compare=False)
    asks: int = field(default=0, compare=False)

    @property
    def said(self) -> tuple[Literal, ...]:
        """The body without what only says what is asked for."""
        return self.body[self.asks :]

    @cached_property
    def atoms(self) -> tuple[Match | Absent, ...]:
        """The literals that read relations, in order: each pass asks, of each clause."""
        return tuple([literal for literal in self.body if isinstance(literal, (Match, Absent))])

    @property
    def computes_head(self) -> bool:
        """Whether a value of the head is computed, and not only copied or taken out of a record."""
        shown, seen = {arg for arg in self.args if isinstance(arg, Slot)}, 0
        while len(shown) > seen:
            seen = len(shown)
            for literal in self.body:
                if isinstance(literal, Apply) and literal.target in shown:
                    if not literal.fields:
                        return True
                    shown.update(slots_of(literal))
                elif isinstance(literal, Compare) and literal.op == "=":
                    sides = slots_of(literal)
                    shown.update(sides if shown.intersection(sides) else ())
        return False

    def __str__(self) -> str:
        shown = f"{self.head}({', '.join(map(str, self.args))})"
        return f"{shown} :- {', '.join(map(str, self.body))}." if self.body else f"{shown}."


@dataclass(frozen=True, slots=True)
class LatticeColumn:
    """A column whose value is the join of what is proposed for its row's key.

    `join` is `"min"` or `"max"` (of the column's base type), or a user functor of two arguments,
    `"@name"`; `least` is the user lattice's bottom, a row of which says nothing (else None).
    """

    column: int
    join: str
    least: Value | None = None

    def __str__(self) -> str:
        return f"{self.column}: {self.join}"


@dataclass(frozen=True, slots=True)
class Lattice:
    """One row per key, the columns not named here; each named column holds its join."""

    columns: tuple[LatticeColumn, ...]

    def key(self, arity: int) -> tuple[int, ...]:
        """The columns of the key, in order."""
        joined = {joined_column.column for joined_column in self.columns}
        return tuple(column for column in range(arity) if column not in joined)

    def __str__(self) -> str:
        return f"lattice [{', '.join(map(str, self.columns))}]"


@dataclass(frozen=True, slots=True)
class Dominance:
    """`relation(less) <= relation(more) :- body.`: the row `less` gives way to `more`.

    A derived row is dropped when a derived row, itself not equal to it, dominates it. The body
    may read relations of lower strata only.
    """

    less: tuple[Argument, ...]
    more: tuple[Argument, ...]
    body: tuple[Literal, ...]
    rule: int

    def __str__(self) -> str:
        shown = f"({', '.join(map(str, self.less))}) <= ({', '.join(map(str, self.more))})"
        return f"{shown} :- {', '.join(map(str, self.body))}." if self.body else f"{shown}."


@dataclass(frozen=True, slots=True)
class Subsumption:
    """The derived rows that no other derived row dominates, by any of `orders`."""

    orders: tuple[Dominance, ...]

    def __str__(self) -> str:
        return f"subsumption [{' '.join(map(str, self.orders))}]"


@dataclass(frozen=True, slots=True)
class Choice:
    """At most one row for each value of each of `keys` (column positions).

    Outside recursion `plan.keep` writes it out: the least row by columns, one key after another.
    Within recursion a row stays while it is derived, and keeps others out.
    """

    keys: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        return f"choice {list(map(list, self.keys))}"


Merge: TypeAlias = Lattice | Subsumption | Choice


MOST_SCALE = 9
"""Of means in the kernel: 10^9 times the rows there can be is below 2^62."""


@dataclass(frozen=True, slots=True)
class Fold:
    """One aggregate: `relation(group, value)` over the rows of `source`, one row a group.

    A reducer of several values (`reducers.aggregate.Several`) has a row for each.

    `group` are the source's columns that make a group, `value` the column that is folded (None:
    rows are counted). Of a user's reducer of records it may be None, and `fields` the columns of
    the record's fields; the fields of its result may have columns of their own in `relation`.
    `present`, where it is asked for, is the relation of all groups with a row: its absence is how a
    rule sees the value of an empty group. Without group columns an empty source has a row too, if
    the aggregate has a value there. `most`, `scale` and `kept` are what `FunctorDecl` says of a
    reducer, and the first two of a sum of decimals; `is_real` says that it adds floats up.
    """

    relation: str
    source: str
    group: tuple[int, ...]
    value: int | None
    op: str
    present: str | None = None
    fields: tuple[int, ...] = ()
    most: int | None = None
    scale: int | None = None
    kept: str = ""
    is_real: bool = False

    @property
    def taken(self) -> tuple[int, ...]:
        """The columns of the source that are folded; none where rows are counted."""
        return self.fields or (() if self.value is None else (self.value,))

    @property
    def way(self) -> str:
        """What it does with the values: `count`, `sum`, `bounded`, `mean`, `min`, `max` or ""."""
        if self.most is not None:
            return "bounded"
        if self.scale is not None:
            return "mean"
        return self.kept if self.op.startswith("@@") else self.op

    @property
    def has_value(self) -> bool:
        """Whether each group with a row has one value: a user's may give none, or several."""
        return bool(self.way)

    @property
    def is_always_there(self) -> bool:
        """Whether there is a value without any row."""
        return not self.group and self.op in ("count", "sum")

    @property
    def is_extreme(self) -> bool:
        """Whether it is `min` or `max`, which the kernel computes by looking at groups again."""
        return self.way in ("min", "max")

    def is_total(self, types: Mapping[str, tuple[BaseType, ...]]) -> bool:
        """Whether it only counts, or adds up numbers: the kernel needs no rows again."""
        if self.way == "count":
            return True
        if self.value is None:
            return False
        kinds = types[self.source][self.value], types[self.relation][-1]
        value, result = (OPTIONAL.get(kind, kind) for kind in kinds)
        if self.most is not None:
            return (value, result) == ("number", "number")
        if self.scale is not None:
            return (value, result) == ("number", "float") and self.scale <= MOST_SCALE
        return self.way in ("sum", "mean") and value in ("number", "unsigned", "float")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The relations that the fold makes: its values, and the groups that have rows."""
        return (self.relation,) if self.present is None else (self.relation, self.present)

    def __str__(self) -> str:
        folded = [*self.fields] or self.value
        of = "" if folded is None else f" {self.source}[{folded}]"
        return f"{self.relation} = {self.op}{of} over {self.source} by {list(self.group)}"


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of the core: `hidden` ones were made by `normalize`.

    `merge` is set only where an executor has to do it: inside recursion, and for lattices of user
    functors. Elsewhere `normalize` has turned it into clauses over hidden relations; `entry` is
    then the one that rows given to this relation enter instead (empty: themselves). `is_range`
    says that a hidden relation holds the numbers of ranges (`plan.ranges`), `is_domain` that it
    holds what a group may be asked for (`plan.domains`), `of`, `key` and `shifts` what its
    declaration says.
    """

    name: str
    types: tuple[BaseType, ...]
    hidden: bool = False
    merge: Merge | None = None
    entry: str = ""
    is_range: bool = False
    is_domain: bool = False
    of: str = field(default="", compare=False, repr=False)
    key: tuple[int, ...] = field(default=(), compare=False, repr=False)
    shifts: bool = field(default=False, compare=False, repr=False)


def given_apart(relation: Relation) -> tuple[Relation, Clause]:
    """A hidden relation for the rows given to a relation, and the clause that takes them in."""
    hidden = Relation(f"~given {relation.name}", relation.types, hidden=True)
    slots = tuple(Slot(f"${column}") for column in range(len(relation.types)))
    return hidden, Clause(relation.name, slots, (Match(hidden.name, slots),), -1)
