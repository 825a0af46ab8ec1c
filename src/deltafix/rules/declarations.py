"""Declarations on their own: names given once, types that exist, and what a relation keeps.

A relation keeps all rows derived for it unless its declaration says otherwise: `eqrel` closes them,
`choice-domain` and subsumption drop some, a lattice column joins them. Invariant: a relation that
passes has at most one of these, over columns that allow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from deltafix.diagnostics import Diagnostic, Span, did_you_mean, suggest
from deltafix.facts.logical_types import NAMES
from deltafix.facts.values import WORD
from deltafix.rules.ast import BASES, Attribute, Dominates, LatticeDecl, Program, RelationDecl, Rule
from deltafix.rules.terms import Aggregate, Call, Const, Wildcard
from deltafix.rules.walk import is_constructor, subterms, terms_of

_PAIR = 2

_ELSEWHERE: Final = {
    **dict.fromkeys(("string", "str", "text", "varchar", "char"), "symbol"),
    **dict.fromkeys(("int", "integer", "bigint", "long", "int64", "i64", "signed"), "number"),
    **dict.fromkeys(("double", "real", "float64", "f64"), "float"),
    **dict.fromkeys(("uint", "uint64", "u64"), "unsigned"),
}
"""Base types by their names elsewhere."""


def check_declarations(program: Program) -> Iterator[Diagnostic]:
    """What is wrong with the declarations of a program (DF111, DF113, DF153 to DF157)."""
    yield from _twice(program)
    types = dict.fromkeys([*BASES, *(declared.name for declared in program.types)])
    named = [
        *(a for relation in program.relations for a in relation.attributes),
        *(a for declared in program.types for b in declared.branches for a in b.fields),
        *(a for functor in program.functors for a in functor.arguments),
        *(Attribute("", functor.result, "", functor.span) for functor in program.functors),
        *(Attribute("", lattice.type, "", lattice.span) for lattice in program.lattices),
    ]
    unknown = [
        attribute
        for attribute in named
        if attribute.type not in types and program.logical(attribute.type) is None
    ]
    for attribute in unknown:
        elsewhere = _ELSEWHERE.get(attribute.type.lower())
        hint = did_you_mean(attribute.type, [*types, *NAMES], f"valid: {' '.join(types)}")
        hint = hint if elsewhere is None else f"it is called `{elsewhere}`"
        yield Diagnostic("DF113", f"there is no type `{attribute.type}`", attribute.span, hint)
    if unknown:
        return
    yield from _logical(program)
    for lattice in program.lattices:
        yield from _lattice(program, lattice)
    ordered = {order.less.relation for order in program.orders}
    for relation in program.relations:
        if relation.name in ordered or _is_qualified(relation):
            yield from _kept(program, relation, is_ordered=relation.name in ordered)
    for order in program.orders:
        yield from _order(order)


def _logical(program: Program) -> Iterator[Diagnostic]:
    """Where logical types may not stand: in records and branches, and in programs of 32 bits."""
    for declared in program.types:
        for branch in declared.branches:
            for field in branch.fields:
                if program.logical(program.kind(field.type)) is not None:
                    of = branch.name or declared.name
                    message = f"field `{field.name}` of `{of}` is a {field.type}"
                    hint = "records and branches hold base types, and each other"
                    yield Diagnostic("DF120", message, field.span, hint)
    if program.word_size != WORD:
        for relation in program.relations:
            for attribute in relation.attributes:
                if program.logical(program.kind(attribute.type)) is not None:
                    message = (
                        f"column `{attribute.name}` of `{relation.name}` is a {attribute.type}"
                    )
                    hint = f'it takes {WORD} bits: leave `.pragma "word-size"` out'
                    yield Diagnostic("DF120", message, attribute.span, hint)


def _is_constructed(program: Program, kind: str) -> bool:
    """Whether a kind's values are made of others: they have no order."""
    logical = program.logical(kind)
    return kind not in BASES and (logical is None or logical.nullable)


def _twice(program: Program) -> Iterator[Diagnostic]:
    relations = [(f"relation `{r.name}`", r.name, r.span) for r in program.relations]
    yield from _repeated(relations)
    for relation in program.relations:
        yield from _columns(f"`{relation.name}`", "columns", relation.attributes)
    branches = [b for declared in program.types for b in declared.branches]
    yield from _repeated((f"branch `{b.name}`", b.name, b.span) for b in branches if b.name)
    for branch in branches:
        shown = f"branch `{branch.name}`" if branch.name else "this record"
        yield from _columns(shown, "fields", branch.fields)
    yield from _repeated((f"functor `{f.name}`", f.name, f.span) for f in program.functors)
    yield from _repeated((f"lattice `{x.type}<>`", x.type, x.span) for x in program.lattices)
    yield from names_twice(program)


def names_twice(program: Program) -> Iterator[Diagnostic]:
    """Rules that have the name of another one."""
    listed: list[Rule | Dominates] = [*program.rules, *program.orders]
    yield from _repeated((f"rule `{r.name}`", r.name, r.span) for r in listed if r.name)


def _repeated(items: Iterable[tuple[str, str, Span | None]]) -> Iterator[Diagnostic]:
    lines: dict[str, str] = {}
    for what, name, span in items:
        if name in lines:
            yield Diagnostic(
                "DF111", f"{what} is declared twice", span, f"first declared {lines[name]}"
            )
        lines.setdefault(name, f"on line {span.line}" if span else "above")


def _columns(owner: str, what: str, attributes: tuple[Attribute, ...]) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for column in attributes:
        if column.name in seen:
            message = f"{owner} has two {what} called `{column.name}`"
            yield Diagnostic("DF111", message, column.span, "rename one of them")
        seen.add(column.name)


def _is_qualified(relation: RelationDecl) -> bool:
    return bool(relation.qualifiers or relation.choices or relation.indexes or relation.joined)


def _kept(program: Program, relation: RelationDecl, *, is_ordered: bool) -> Iterator[Diagnostic]:
    """The qualifiers of a relation that change which rows it holds."""
    ways = {
        "eqrel": "eqrel" in relation.qualifiers,
        "choice-domain": bool(relation.choices),
        "lattice columns": bool(relation.joined),
        "subsumption": is_ordered,
    }
    if sum(ways.values()) > 1:
        listed = " and ".join(way for way, used in ways.items() if used)
        message = f"`{relation.name}` has {listed}: a relation keeps its rows in one way"
        yield Diagnostic("DF155", message, relation.span, "use a second relation for the second")
    stored = [
        way for way in ("btree", "btree_delete", "brie", "eqrel") if way in relation.qualifiers
    ]
    if len(stored) > 1:
        message = f"`{relation.name}` is to be kept as {' and '.join(stored)}"
        yield Diagnostic("DF155", message, relation.span, "leave all but one of them out")
    kinds = [program.kind(column.type) for column in relation.attributes]
    if ways["eqrel"] and (len(kinds) != _PAIR or kinds[0] != kinds[1]):
        yield Diagnostic(
            "DF153",
            f"`{relation.name}` is eqrel and wants two columns of one type",
            relation.span,
            f"`.decl {relation.name}(x: number, y: number) eqrel`",
        )
    names = [column.name for column in relation.attributes]
    for word, keys in (("choice-domain", relation.choices), ("index-on", relation.indexes)):
        for name in dict.fromkeys(name for key in keys for name in key):
            if name not in names:
                hint = did_you_mean(name, names, f"columns: {' '.join(names)}")
                message = f"{word} names no column `{name}` of `{relation.name}`"
                yield Diagnostic("DF155", message, relation.span, hint)
    for choice in relation.choices:
        yield from _orderable(program, relation, kinds, choice)
    for column, kind in zip(relation.attributes, kinds, strict=True):
        if column.join in ("min", "max") and _is_constructed(program, kind):
            message = f"`{column.join}` wants a column of a base type, `{kind}` is constructed"
            hint = "declare a `.lattice` for the type and write `<>`"
            yield Diagnostic("DF156", message, column.span, hint)
        if column.join == "<>" and kind not in {program.kind(x.type) for x in program.lattices}:
            message = f"type `{column.type}` has no lattice"
            hint = f"declare it: `.lattice {column.type}<> {{ Bottom -> .., Lub -> @lub(_, _) }}`"
            yield Diagnostic("DF156", message, column.span, hint)


def _orderable(
    program: Program, relation: RelationDecl, kinds: list[str], choice: tuple[str, ...]
) -> Iterator[Diagnostic]:
    for column, kind in zip(relation.attributes, kinds, strict=True):
        if column.name not in choice and _is_constructed(program, kind):
            message = f"choice-domain chooses the least row, and `{column.name}` has no order"
            hint = "columns outside the domain want a base type"
            yield Diagnostic("DF155", message, column.span, hint)


def _lattice(program: Program, lattice: LatticeDecl) -> Iterator[Diagnostic]:
    for wanted in ("Bottom", "Lub"):
        if lattice.operation(wanted) is None:
            message = f"lattice `{lattice.type}<>` has no {wanted}"
            hint = "it wants Bottom and Lub; Top, Glb and Leq are kept for Soufflé"
            yield Diagnostic("DF156", message, lattice.span, hint)
    functors = {functor.name: functor for functor in program.functors}
    kind = program.kind(lattice.type)
    for name, term in lattice.operations:
        if name in ("Bottom", "Top"):
            if not all(isinstance(p, (Const, Call)) for p in subterms(term)):
                message = f"{name} of `{lattice.type}<>` is a constant"
                yield Diagnostic("DF156", message, term.span, "use no variables")
            continue
        blank = isinstance(term, Call) and [type(a) for a in term.args] == [Wildcard, Wildcard]
        if not (isinstance(term, Call) and blank and term.functor.startswith("@")):
            message = f"{name} of `{lattice.type}<>` is a functor of two arguments"
            hint = f"`{name} -> @{name.lower()}(_, _)`"
            yield Diagnostic("DF156", message, term.span, hint)
            continue
        declared = functors.get(term.functor[1:])
        if declared is None:
            close = suggest(term.functor[1:], list(functors))
            hint = f"did you mean `@{close}`?" if close else "declare it with `.functor`"
            message = f"the functor `{term.functor}` is not declared"
            yield Diagnostic("DF157", message, term.span, hint)
            continue
        kinds = [program.kind(a.type) for a in declared.arguments]
        result = program.kind(declared.result)
        if kinds != [kind, kind] or (name != "Leq" and result != kind):
            message = f"`{term.functor}` does not take two `{lattice.type}`s to one"
            hint = f"`.functor {declared.name}(x: {lattice.type}, y: {lattice.type}): {kind}`"
            yield Diagnostic("DF156", message, term.span, hint)


def _order(order: Dominates) -> Iterator[Diagnostic]:
    if order.less.relation != order.more.relation:
        message = (
            f"subsumption compares rows of one relation, not of `{order.less.relation}` "
            f"and `{order.more.relation}`"
        )
        hint = f"write `{order.less.relation}(..) <= {order.less.relation}(..) :- ..`"
        yield Diagnostic("DF154", message, order.more.span, hint)
    for atom in (order.less, order.more):
        for term in (part for outer in terms_of(atom) for part in subterms(outer)):
            if isinstance(term, (Call, Aggregate)) and not is_constructor(term):
                message = "the rows of a subsumption are variables, constants, and records of them"
                hint = "compare a computed value in the body"
                yield Diagnostic("DF154", message, term.span, hint)
