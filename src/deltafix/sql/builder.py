"""The rules of one query while they are made.

Nouns: an `Operand` (a term with its SQL type), a `Relation` (what a table, a view or a part of a
query is in the engine), and the `Builder` that collects declarations, rules and functions. How bags
become sets: a relation's rows are its columns and, where these do not tell a row from its
duplicates, hidden ones; `identity` are the columns that do. Invariant: `identity` is a key of the
relation, so a duplicate in SQL is a row of its own, and a relation without hidden columns is a set.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add, itemgetter, or_
from typing import Any

from deltafix.reducers.aggregate import UserReducer
from deltafix.rules.ast import (
    And,
    Atom,
    Attribute,
    Comparison,
    Constructor,
    Formula,
    FunctorDecl,
    Not,
    Or,
    RelationDecl,
    Rule,
    TypeDecl,
    conjunction,
)
from deltafix.rules.terms import Call, Const, Term, Var
from deltafix.rules.walk import is_constructor, occurrences
from deltafix.sql.casts import cast
from deltafix.sql.literals import Scalar
from deltafix.sql.reducers import Mean, Sum, There
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import NULL, Column, SqlType, decode, encode

__all__ = [
    "FALSE", "NIL", "TRUE", "Builder", "Operand", "Relation", "absent", "blank", "equal", "some",
]  # fmt: skip

TRUE: Formula = And(())
FALSE: Formula = Or(())
NIL = Const(None)


@dataclass(frozen=True, slots=True)
class Operand:
    """A term with its type: a record or `nil` where it is nullable, else a bare value."""

    term: Term
    type: SqlType
    nullable: bool

    def column(self, name: str) -> Column:
        """The column that holds it."""
        return Column(name, self.type, self.nullable)


@dataclass(frozen=True)
class Relation:
    """A table, a view or a part of a query, as the engine has it.

    Attributes:
        columns: what SQL sees.
        hidden: what tells duplicates apart, behind them.
        identity: positions among both that are a key.
        indexes: positions by which rows are looked up whatever the rules need.
        of: the view that it is a part of.
        renamed: what the table is called now, where a text has the name it had.
        kept: "min" or "max" where of rows that have all but the last column alike one stays;
            `shifts` is what the declaration says of it (`RelationDecl`).
    """

    name: str
    columns: tuple[Column, ...]
    hidden: tuple[Column, ...]
    identity: tuple[int, ...]
    indexes: tuple[tuple[int, ...], ...] = ()
    of: str = ""
    renamed: str = ""
    kept: str = ""
    shifts: bool = False

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """Visible and hidden columns."""
        return (*self.columns, *self.hidden)

    @cached_property
    def declaration(self) -> RelationDecl:
        """The engine's declaration."""
        shown = [column.attribute(column.name) for column in self.columns]
        hidden = [column.attribute(f"~{n}") for n, column in enumerate(self.hidden)]
        if self.kept:
            shown[-1] = replace(shown[-1], join=self.kept)
        indexes = (tuple(shown[at].name for at in index) for index in self.indexes)
        key = self.identity if len(self.identity) < len(self.all_columns) else ()
        return RelationDecl(
            self.name, (*shown, *hidden), indexes=tuple(indexes), of=self.of, key=key,
            shifts=self.shifts,
        )  # fmt: skip


def equal(left: Term, right: Term) -> Formula:
    """`left = right`."""
    return Comparison("=", left, right)


def some(term: Term, kind: SqlType) -> Term:
    """A value in a nullable place: a record of one field. As a pattern it does not match NULL."""
    return Call(f"[nullable_{kind.base}]", (term,))


def blank(operand: Operand | Column) -> Operand:
    """What stands in the place of an operand that has no meaning."""
    if operand.nullable:
        return Operand(NIL, operand.type, nullable=True)
    return Operand(Const(operand.type.zero, operand.type.base), operand.type, nullable=False)


def absent(formula: Formula) -> Formula:
    """That no binding of a formula's own variables makes it true.

    `!p(x)` asks for an `x` that is bound, in parentheses too (Soufflé knows no group of one
    literal); a group of two binds its own.
    """
    if isinstance(formula, And | Or):
        return Not(formula)
    zero = Const(0, "number")
    return Not(And((formula, equal(zero, zero))))


@dataclass
class Builder:
    """What the rules of one query add up to.

    `prefix` begins the names that are made, `between` comes before their number; `tables` are the
    tables and views there are, `view` is the one whose query it is.
    """

    statement: Statement
    prefix: str
    tables: Mapping[str, Relation]
    relations: list[Relation] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    functors: list[FunctorDecl] = field(default_factory=list)
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    named_by: dict[Hashable, str] = field(default_factory=dict)
    """Functions by what they say: an expression that is needed in two places is computed once."""
    reducers: dict[str, tuple[FunctorDecl, UserReducer]] = field(default_factory=dict)
    """By a name that says what they compute: equal names mean the same."""
    types: dict[str, TypeDecl] = field(default_factory=dict)
    native: set[str] = field(default_factory=set)
    """Those of `types.NATIVE_FUNCTORS` that are called."""
    by_node: dict[int, Relation] = field(default_factory=dict)
    """Parts of the query that are relations already, by the identity of their node."""
    by_rule: dict[tuple[Term | Formula, ...], Relation] = field(default_factory=dict)
    """Relations of one rule, by the head's arguments and the body (`once`)."""
    alive: list[exp.Expr] = field(default_factory=list)
    """Their nodes: a copy that nobody holds would leave its identity to another."""
    domains: dict[int, tuple[list[exp.Column | exp.Dot], tuple[Operand, ...]]] = field(
        default_factory=dict
    )
    """Of those that are correlated: what they read of the query around, as columns and operands."""
    used: set[str] = field(default_factory=set)
    """The tables and views that are read."""
    root: exp.Expr | None = None
    """The query that is the view itself."""
    numbered: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """Of its parts that number their rows: up to which number somebody asks, by column."""
    order: tuple[tuple[int, exp.Ordered], ...] = ()
    """What the view is sorted by where it is read: positions among all columns, and how."""
    keeps_order: bool = True
    """Whether somebody reads the view in its order."""
    gathers: bool = False
    """Whether what no index answers is looked up in arrays (`sql.gathered`)."""
    count: int = 0
    between: str = "."
    view: str = ""

    # --- undo ----------------------------------------------------------------------------------

    def mark(self) -> tuple[int, ...]:
        """A point to go back to."""
        return len(self.relations), len(self.rules), len(self.functors)

    def back(self, mark: tuple[int, ...]) -> None:
        """Forget what was made since."""
        relations, rules, functors = mark
        for functor in self.functors[functors:]:
            del self.functions[functor.name]
        self.named_by = {key: name for key, name in self.named_by.items() if name in self.functions}
        gone = {relation.name for relation in self.relations[relations:]}
        self.by_node = {key: part for key, part in self.by_node.items() if part.name not in gone}
        self.by_rule = {key: part for key, part in self.by_rule.items() if part.name not in gone}
        del self.relations[relations:], self.rules[rules:], self.functors[functors:]

    def keep(self, node: exp.Expr, relation: Relation) -> None:
        """Note that a part of the query is this relation."""
        self.by_node[id(node)] = relation
        self.alive.append(node)

    # --- names and terms -----------------------------------------------------------------------

    def fresh(self, name: str = "x") -> Var:
        """A new variable."""
        self.count += 1
        word = "".join(c for c in name if c.isascii() and (c.isalnum() or c == "_"))
        return Var(f"{word or 'x'}_{self.count}")

    def variables(self, columns: Iterable[Column]) -> list[Operand]:
        """New variables for columns."""
        return [Operand(self.fresh(c.name), c.type, c.nullable) for c in columns]

    def bind(self, relation: Relation) -> tuple[Atom, list[Operand]]:
        """An atom of new variables, and these."""
        variables = self.variables(relation.all_columns)
        return Atom(relation.name, tuple(variable.term for variable in variables)), variables

    def named(self) -> str:
        """A new name of a relation or function."""
        self.count += 1
        return f"{self.prefix}{self.between}{self.count}"

    # --- relations and rules ---------------------------------------------------------------------

    def relation(
        self,
        columns: Sequence[Column],
        hidden: Sequence[Column] = (),
        identity: Sequence[int] | None = None,
        name: str | None = None,
    ) -> Relation:
        """A new relation; without `identity` all of its columns are."""
        width = len(columns) + len(hidden)
        key = tuple(range(width)) if identity is None else tuple(identity)
        of = "" if name else self.view
        relation = Relation(name or self.named(), tuple(columns), tuple(hidden), key, of=of)
        self.relations.append(relation)
        return relation

    def rule(self, relation: Relation, args: Iterable[Term], body: Iterable[Formula]) -> None:
        """Add `relation(args) :- body.`, without values that nothing reads."""
        head = Atom(relation.name, tuple(args))
        formula = conjunction(body)
        times, given = occurrences((head, formula)), _given(formula, add)
        # Given twice in one alternative it is compared with itself: that reads it.
        idle = {v for v, most in _given(formula, or_).items() if most == 1 and times[v] == given[v]}
        self.rules.append(Rule((head,), _without(formula, idle) if idle else formula))

    def once(
        self, columns: Sequence[Column], args: Sequence[Term], body: Sequence[Formula]
    ) -> Relation:
        """The relation of one rule: the one that there is, where the same was asked for before."""
        key = (*args, *body)
        if key not in self.by_rule:
            self.by_rule[key] = self.relation(columns)
            self.rule(self.by_rule[key], args, body)
        return self.by_rule[key]

    def head(self, relation: Relation, outputs: Sequence[Operand], body: list[Formula]) -> None:
        """Add a rule whose head holds operands, converted to the relation's columns."""
        body = list(body)
        pairs = zip(outputs, relation.all_columns, strict=True)
        args = [self.fitted(output, column, body) for output, column in pairs]
        self.rule(relation, args, body)

    def groups(
        self,
        source: Relation,
        at: Sequence[int],
        always: Sequence[Sequence[Operand]] = (),
        body: Sequence[Formula] = (),
    ) -> tuple[Atom, list[Operand]]:
        """An atom of the groups that the columns `at` of a relation make, and its variables.

        The groups `always` are there without rows, wherever `body` is.
        """
        if always or [*at] != [*range(len(source.all_columns))]:
            groups = self.relation([source.all_columns[position] for position in at])
            atom, operands = self.bind(source)
            self.rule(groups, [operands[position].term for position in at], [atom])
            for group in always:
                self.head(groups, group, list(body))
            source = groups
        return self.bind(source)

    def fitted(self, operand: Operand, column: Column, body: list[Formula]) -> Term:
        """An operand as a column's type has it; what computes it goes to `body`."""
        if operand.type == NULL:
            return NIL
        if operand.type.code != column.type.code:
            operand = self.converted(operand, column.type, body)
        if column.nullable and not operand.nullable:
            return some(operand.term, operand.type)
        return operand.term

    def converted(self, operand: Operand, kind: SqlType, body: list[Formula]) -> Operand:
        """An operand as one of a type to which its own converts."""
        convert = cast(operand.type, kind)
        assert convert is not None  # noqa: S101  types were found to have a common one
        return self.made(operand, kind, convert, body)

    def made(
        self, operand: Operand, kind: SqlType, convert: Callable[[Any], Any], body: list[Formula]
    ) -> Operand:
        """What a function makes of an operand that is not NULL, of a type."""
        if operand.term == NIL:
            return Operand(NIL, kind, nullable=True)
        if isinstance(operand.term, Const):
            value = convert(decode(operand.term.value, Column("", operand.type, nullable=False)))
            bare = encode(value, kind, nullable=False)
            return Operand(Const(bare, kind.base), kind, nullable=False)
        first = itemgetter(0)

        def compute(row: Any) -> Any:
            value = first(row)
            return None if value is None else convert(value)

        return self.apply(Scalar(compute, kind, operand.nullable), [operand], body)

    # --- functions -------------------------------------------------------------------------------

    def apply(self, scalar: Scalar, args: Sequence[Operand], body: list[Formula]) -> Operand:
        """A variable for the value of an expression over operands."""
        result = Operand(self.fresh("f"), scalar.type, scalar.nullable)
        body.append(equal(result.term, self.call(scalar, args, result.column("value"))))
        return result

    def call(
        self, scalar: Scalar, args: Sequence[Operand], result: Column, *, exact: bool = False
    ) -> Call:
        """The call of an expression as a function of the program's own.

        `exact`: what it computes is what the engine's column holds.
        """
        columns = [arg.column(f"a{n}") for n, arg in enumerate(args)]
        meaning = scalar.says and (scalar.says, tuple(columns), result)
        name = self.named_by.get(meaning, "")
        if not name:
            name = self.named()
            if meaning is not None:
                self.named_by[meaning] = name
            attributes = tuple(column.attribute(column.name) for column in columns)
            self.functors.append(
                FunctorDecl(name, attributes, result.engine_type, partial=scalar.partial)
            )
            self.functions[name] = function(scalar, columns, result, exact=exact)
        return Call(f"@{name}", tuple(arg.term for arg in args))

    def engine(self, name: str, base: str, *args: Term) -> Call:
        """A call of one of `types.NATIVE_FUNCTORS`, on values of one of the engine's types."""
        self.native.add(f"~{name}_{base}")
        return Call(f"@~{name}_{base}", args)

    def reducer(self, name: str, reducer: UserReducer, argument: str, result: str) -> str:
        """A reducer from one of the engine's types to another, as an aggregate's name."""
        name = re.sub(r"\W", lambda match: f"_{ord(match[0]):x}_", f"{name}_{argument}")
        attributes = (Attribute("value", argument),)
        kept = reducer.kept if isinstance(reducer, There) else ""
        inner = reducer.inner if isinstance(reducer, There) else reducer
        most = inner.most if isinstance(inner, Sum) else None
        scale = inner.scale if isinstance(inner, Mean) else None
        declared = FunctorDecl(name, attributes, result, most=most, scale=scale, kept=kept)
        self.reducers[name] = declared, reducer
        return f"@@{name}"

    def record(self, columns: Sequence[Column]) -> str:
        """The engine's type of records of these columns."""
        kinds = [column.engine_type for column in columns]
        name = f"row_{'_'.join(kinds)}"
        fields = tuple(column.attribute(f"c{n}") for n, column in enumerate(columns))
        self.types[name] = TypeDecl(name, "record", branches=(Constructor("", fields),))
        return name

    # --- errors ----------------------------------------------------------------------------------

    def refused(self, what: str, node: exp.Expr | None, way_out: str) -> Exception:
        """The error for a construct that is not maintained."""
        return self.statement.refused(what, node, way_out)


def _valued(formula: Formula) -> Var | None:
    """The variable that a formula gives a value made of others, or NIL; else None."""
    if (
        not isinstance(formula, Comparison)
        or formula.op != "="
        or not isinstance(formula.left, Var)
    ):
        return None
    return formula.left if formula.right == NIL or is_constructor(formula.right) else None


def _given(formula: Formula, either: Callable[[Any, Any], Any]) -> Counter[str]:
    """How often each of those variables is given a value; `either` unites alternatives."""
    if isinstance(formula, And | Or):
        parts = (_given(part, either) for part in formula.parts)
        return reduce(either if isinstance(formula, Or) else add, parts, Counter[str]())
    variable = _valued(formula)
    return Counter(() if variable is None else (variable.name,))


def _without(formula: Formula, names: set[str]) -> Formula:
    """The formula without what gives these variables their values.

    A column of an outer join that ON alone names was a value for each row: one of the five calls
    that each order of TPC-H's query 13 made.
    """
    variable = _valued(formula)
    if variable is not None and variable.name in names:
        return TRUE
    if isinstance(formula, And):
        return conjunction(_without(part, names) for part in formula.parts)
    if isinstance(formula, Or):
        return Or(tuple(_without(part, names) for part in formula.parts))
    return formula


def function(
    scalar: Scalar, columns: Sequence[Column], result: Column, *, exact: bool = False
) -> Callable[..., Any]:
    """An expression as a function of the engine's values; `exact` as `Builder.call` has it."""
    compute = scalar.compute
    readers = [(column.nullable, column.type.read) for column in columns]

    def converted(*values: Any) -> Any:
        row = []
        for value, (nullable, read) in zip(values, readers, strict=True):
            if nullable and value is not None:
                (value,) = value  # noqa: PLW2901  as `types.decode`, a call less a value
            row.append(value if read is None or value is None else read(value))
        value = compute(row)
        return value if exact else result.encode(value)

    def plain(*values: Any) -> Any:
        value = compute(values)
        return value if exact else result.encode(value)

    as_they_are = all(column.type.read is None and not column.nullable for column in columns)
    return plain if as_they_are else converted
