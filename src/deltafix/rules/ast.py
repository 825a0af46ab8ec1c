"""Programs as data: relations, rules, formulae, directives.

Three nouns, one life: a `Program` is built (text, Python, or operators), checked
(`rules.check`), and handed to `plan`. Invariant: everything here is immutable and compares by
value (spans aside), so two doors that say the same thing give equal programs. Nothing here
evaluates, types or orders anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final, TypeAlias

from deltafix.diagnostics import Span
from deltafix.facts.logical_types import LogicalType, logical_type
from deltafix.facts.values import BaseType
from deltafix.rules.feed import Feed
from deltafix.rules.terms import Aggregate, Call, Term, has_aggregate

BASES: Final = ("number", "unsigned", "float", "symbol")
"""The base types that a program can name."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One column or field: its name and declared type name (a base type or a `.type`).

    `join` makes a column of a relation hold one value per key: `min`, `max`, or `<>` for the
    `.lattice` of its type; empty for a plain column.
    """

    name: str
    type: str
    join: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RelationDecl:
    """`.decl name(attributes) qualifiers`. Nullary relations have no attributes.

    `choices` are the columns of each `choice-domain`, by name, `indexes` those of each `index-on`.
    `of` (`part-of`) is the relation that this one was made for, by SQL or a pipeline: people are
    told of that, and how often a row of it is derived is nobody's to ask. `key` are columns that no
    two rows share, by position; whoever declares them sees to it (SQL does), and empty are all.
    `shifts` says, as truly, that a value of its lattice column follows from others of it by what is
    added alone, and is asked nothing: what gets better by way of itself does so without end.
    """

    name: str
    attributes: tuple[Attribute, ...]
    qualifiers: tuple[str, ...] = ()
    choices: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    of: str = field(default="", compare=False, repr=False)
    key: tuple[int, ...] = field(default=(), compare=False, repr=False)
    shifts: bool = field(default=False, compare=False, repr=False)

    @property
    def arity(self) -> int:
        """Number of columns."""
        return len(self.attributes)

    @property
    def joined(self) -> tuple[int, ...]:
        """The positions of the columns that hold a join."""
        return tuple(i for i, column in enumerate(self.attributes) if column.join)


@dataclass(frozen=True, slots=True)
class Constructor:
    """One constructor of a type: `name {fields}`; a record's only one has no name."""

    name: str
    fields: tuple[Attribute, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TypeDecl:
    """A named type.

    `.type name <: base` (subtype), `.type name = a | b` (union or equivalence), a record
    `.type name = [x: a]` (one branch without a name) or an algebraic data type
    `.type name = A {x: a} | B {}`; the last two have base `record`.
    """

    name: str
    base: BaseType
    parents: tuple[str, ...] = ()
    branches: tuple[Constructor, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    subtype: bool = False

    @property
    def is_alias(self) -> bool:
        """Whether it is another name of its one parent."""
        return len(self.parents) == 1 and not self.subtype


@dataclass(frozen=True, slots=True)
class FunctorDecl:
    """`.functor name(arguments): result`, a Python function given when connecting.

    Three are said of reducers that the engine keeps where it can. `most` (`sum N`), of whole
    numbers: the result is their sum, up to this and down to its negative (of 2^63 - 1, any number
    of 64 bits); `finish` raises for any other. `scale` (`mean N`): it is their mean times
    10^-scale, rounded once. `kept`: it is their `count`, the least (`min`) or greatest (`max`) of
    them, or, of floats, their exact `sum` or `mean`, rounded once. Of a type of optional values
    (`nil` or one) those that are there count, and where none is, the result is `nil`, or 0.
    `partial` is said of functions of SQL: it may raise, and is asked last (`plan.order`), or never
    does. A user's may for all we know (None): it is asked last, too.
    """

    name: str
    arguments: tuple[Attribute, ...]
    result: str
    stateful: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)
    most: int | None = None
    scale: int | None = None
    kept: str = ""
    partial: bool | None = None


@dataclass(frozen=True, slots=True)
class LatticeDecl:
    """`.lattice type<> { Bottom -> term, Lub -> @lub(_, _), … }`: its operations by name."""

    type: str
    operations: tuple[tuple[str, Term], ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    def operation(self, name: str) -> Term | None:
        """The term behind `Bottom`, `Top`, `Lub`, `Glb` or `Leq`."""
        return dict(self.operations).get(name)


@dataclass(frozen=True, slots=True)
class Atom:
    """`relation(args)`."""

    relation: str
    args: tuple[Term, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right`, op one of `= != < <= > >=`; also `match` and `contains`."""

    op: str
    left: Term
    right: Term
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction; the empty conjunction is true (a fact's body)."""

    parts: tuple[Formula, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction; the empty disjunction is false.

    A `whole` one is planned as a relation of its own and multiplies nothing (`rules.whole`); it
    means the same.
    """

    parts: tuple[Formula, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    whole: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """Negation of an atom, or of a body group (variables only inside it are existential)."""

    body: Formula
    span: Span | None = field(default=None, compare=False, repr=False)


Formula: TypeAlias = Atom | Comparison | And | Or | Not


def conjunction(parts: Iterable[Formula], span: Span | None = None) -> Formula:
    """All of `parts`, in the one shape every door uses: flat, and no `And` around a single part."""
    flat: list[Formula] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, And) else (part,))
    return flat[0] if len(flat) == 1 else And(tuple(flat), span)


def disjunction(parts: Iterable[Formula], span: Span | None = None) -> Formula:
    """Any of `parts`, in the one shape every door uses: flat, and no `Or` around a single part."""
    flat: list[Formula] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Or) else (part,))
    return flat[0] if len(flat) == 1 else Or(tuple(flat), span)


@dataclass(frozen=True)
class Rule:
    """`heads :- body.`; several heads share one body; a fact has body `And(())`.

    `name` is what `.rule` calls it; empty if nothing does.
    """

    heads: tuple[Atom, ...]
    body: Formula = And(())
    span: Span | None = field(default=None, compare=False, repr=False)
    name: str = ""

    @property
    def is_fact(self) -> bool:
        """Whether the body is empty, and the heads aggregate nothing."""
        return (
            isinstance(self.body, And)
            and not self.body.parts
            and not any(has_aggregate(arg) for head in self.heads for arg in head.args)
        )

    @cached_property
    def computed(self) -> tuple[Call | Aggregate, ...]:
        """Its calls and aggregates, inner ones too, in the order of the text."""
        from deltafix.rules.walk import computed  # noqa: PLC0415  it reads this

        return tuple([part for formula in (*self.heads, self.body) for part in computed(formula)])

    @cached_property
    def calls(self) -> tuple[str, ...]:
        """The functors that it calls, each once, in the order of the text; no aggregates."""
        called = (part.functor for part in self.computed if isinstance(part, Call))
        return tuple(dict.fromkeys(called))

    @cached_property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """Its aggregates, inner ones too; of its head first."""
        return tuple([part for part in self.computed if isinstance(part, Aggregate)])

    @cached_property
    def reads(self) -> tuple[tuple[Atom, str], ...]:
        """Every atom that it reads, those inside its heads last (`walk.uses`)."""
        from deltafix.rules.walk import uses  # noqa: PLC0415  likewise

        heads = set(map(id, self.heads))
        formulae = (self.body, *self.heads)
        return tuple([u for part in formulae for u in uses(part) if id(u[0]) not in heads])


@dataclass(frozen=True, slots=True)
class Dominates:
    """`less <= more :- body.`: a row like `less` gives way to a row like `more`."""

    less: Atom
    more: Atom
    body: Formula = And(())
    span: Span | None = field(default=None, compare=False, repr=False)
    name: str = ""

    @property
    def rule(self) -> Rule:
        """A rule without heads that reads what it reads: `less, more, body`."""
        return Rule((), conjunction((self.less, self.more, self.body)), self.span)


@dataclass(frozen=True, slots=True)
class Directive:
    """`.input/.output/.printsize/.limitsize relation(key=value, …)`."""

    kind: str
    relation: str
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Program:
    """Relations + rules + directives + pragmas (key and value).

    `source` is the text it was read from, for error carets. `made_by` says what made the functions
    that it calls, where its text stands for them: where that is the same, so are functions of one
    name, in every process. `fed` has the collection that fills a
    relation, by its name (`operators.const`); `reactive.fixpoint` runs such a program.

    Facts in the text are rules with an empty body. Declaration order is kept everywhere:
    printing, plans and deltas follow it.
    """

    relations: tuple[RelationDecl, ...] = ()
    rules: tuple[Rule, ...] = ()
    directives: tuple[Directive, ...] = ()
    types: tuple[TypeDecl, ...] = ()
    source: str | None = field(default=None, compare=False, repr=False)
    path: str | None = field(default=None, compare=False, repr=False)
    pragmas: tuple[tuple[str, str], ...] = ()
    orders: tuple[Dominates, ...] = ()
    functors: tuple[FunctorDecl, ...] = ()
    lattices: tuple[LatticeDecl, ...] = ()
    fed: Mapping[str, Feed] = field(default_factory=dict, compare=False, repr=False, kw_only=True)
    made_by: str = field(default="", compare=False, repr=False, kw_only=True)

    def relation(self, name: str, /) -> RelationDecl:
        """The declaration called `name`. Raises KeyError if there is none."""
        return self._relations[name]

    @property
    def is_open(self) -> bool:
        """Whether its rules are being written still: it says nothing yet."""
        return False

    @cached_property
    def _relations(self) -> dict[str, RelationDecl]:
        return {
            relation.name: relation for relation in reversed(self.relations)
        }  # the first of two counts

    def base_type(self, type_name: str) -> BaseType:
        """The base type behind a type name. Raises KeyError for an undeclared type."""
        base = self._base_types.get(type_name)
        if base is None:
            base = self._base_types[type_name] = self._base_type(self.kind(type_name))
        return base

    @cached_property
    def _base_types(self) -> dict[str, BaseType]:
        return {}

    def _base_type(self, kind: str) -> BaseType:
        if kind in BASES:
            return kind  # type: ignore[return-value]
        logical = self.logical(kind)
        if logical is not None:
            return logical.base
        (first, *others) = self.declared_type(kind).branches
        if not first.name and not others and len(first.fields) == 1:
            field = self.kind(first.fields[0].type)
            if field in BASES:
                return f"{field}?"  # type: ignore[return-value]
        return "record"

    def kind(self, type_name: str) -> str:
        """What values of a type are compared as: a base type's or a constructed type's name.

        Raises KeyError for an undeclared type.
        """
        kind = self._kind_by_name.get(type_name)  # each pass asks for each column
        if kind is None:
            kind = self._kind_by_name[type_name] = self._kind(type_name)
        return kind

    @cached_property
    def _kind_by_name(self) -> dict[str, str]:
        return {}

    def _kind(self, type_name: str) -> str:
        while type_name not in BASES:
            logical = self.logical(type_name)
            if logical is not None:
                return logical.name
            declared = self.declared_type(type_name)
            if declared.branches:
                return type_name
            type_name = declared.parents[0] if declared.parents else declared.base
        return type_name

    def logical(self, type_name: str) -> LogicalType | None:
        """The logical type of a name; None for one of any other, or that the program declares."""
        return None if type_name in self._types else logical_type(type_name)

    def declared_type(self, name: str, /) -> TypeDecl:
        """The declaration of a type that is not a base type. Raises KeyError if there is none."""
        return self._types[name]

    @cached_property
    def _types(self) -> dict[str, TypeDecl]:
        return {declared.name: declared for declared in reversed(self.types)}

    @property
    def named(self) -> dict[str, Rule | Dominates]:
        """The rules and subsumptions that `.rule` names, by name. O(rules)."""
        listed: list[Rule | Dominates] = [*self.rules, *self.orders]
        return {rule.name: rule for rule in listed if rule.name}

    @property
    def word_size(self) -> int:
        """Bits at which arithmetic on numbers wraps around: 64, or 32 by `.pragma`."""
        return 32 if dict(self.pragmas).get("word-size") == "32" else 64

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of all columns, fields, arguments and results. KeyError for an unknown type."""
        named = [
            *(attribute.type for relation in self.relations for attribute in relation.attributes),
            *(
                attribute.type
                for kind in self.types
                for b in kind.branches
                for attribute in b.fields
            ),
            *(attribute.type for functor in self.functors for attribute in functor.arguments),
            *(functor.result for functor in self.functors),
        ]
        return frozenset(map(self.kind, dict.fromkeys(named)))

    def declared_functor(self, name: str, /) -> FunctorDecl:
        """The declaration of a user functor. Raises KeyError if there is none."""
        return self._functors[name]

    @cached_property
    def _functors(self) -> dict[str, FunctorDecl]:
        return {functor.name: functor for functor in reversed(self.functors)}

    def keeps(self, name: str) -> str:
        """What a relation does to the rows derived for it; empty if it keeps them all.

        One of `eqrel`, `choice-domain`, `lattice columns`, `subsumption`; the first if the
        declaration says several, which `rules.check` refuses.
        """
        declared = self.relation(name)
        if "eqrel" in declared.qualifiers:
            return "eqrel"
        if declared.choices:
            return "choice-domain"
        if declared.joined:
            return "lattice columns"
        ordered = any(order.less.relation == name for order in self.orders)
        return "subsumption" if ordered else ""

    def column_types(self, name: str) -> tuple[BaseType, ...]:
        """Base types of a relation's columns, in order."""
        return tuple(self.base_type(a.type) for a in self.relation(name).attributes)

    def names(self, kind: str) -> tuple[str, ...]:
        """Relations with a directive of that kind (`"input"`, `"output"`, …), in order, once."""
        return tuple(dict.fromkeys(d.relation for d in self.directives if d.kind == kind))
