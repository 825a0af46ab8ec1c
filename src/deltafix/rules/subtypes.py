"""Subtypes: values of one kind that a program keeps apart, `.type City <: symbol`.

A declared subtype stands for values of its own; a union holds those of its parts, a base type all
of its kind. A variable has what all positive atoms that bind it allow; a column takes a variable
whose values are its own. What a functor computes belongs to the base type until `as` says more; a
constant fits any subtype of its kind. Invariant: kinds were found to fit (`rules.infer`), and
nothing here changes what a program means: values carry no subtype when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from deltafix.diagnostics import Diagnostic, Span
from deltafix.rules.apart import plain_name
from deltafix.rules.ast import BASES, Atom, Attribute, Comparison, Formula, Or, Program, Rule
from deltafix.rules.logical import logical_functor
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var
from deltafix.rules.walk import alternatives, inside, subterms

_Values: TypeAlias = frozenset[str] | None
"""The declared types whose values something may have; None for any of its kind."""

_ANY: Final = None


class Subtypes:
    """The subtypes of a program; `check` looks at one typed rule."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.used = any(declared.subtype for declared in program.types)
        self._values: dict[str, frozenset[str]] = {}
        self._columns = {relation.name: relation.attributes for relation in program.relations}
        self._branches = {
            f"${branch.name}" if branch.name else f"[{declared.name}]": branch.fields
            for declared in program.types
            for branch in declared.branches
        }
        if self.used:
            self._declare()

    def _declare(self) -> None:
        program = self.program
        named = {*program.kinds, *(program.kind(declared.name) for declared in program.types)}
        kinds = (*BASES, *filter(program.logical, sorted(named)))
        below: dict[str, set[str]] = {kind: {kind} for kind in kinds}
        for declared in self.program.types:
            below.setdefault(declared.name, {declared.name} if declared.subtype else set())
            if declared.branches:
                below[declared.name].add(declared.name)
        # Declarations form a tree or a lattice without cycles (`datalog.load`): passes settle it.
        for _ in self.program.types:
            for declared in self.program.types:
                for parent in declared.parents:
                    if declared.subtype:
                        below[parent] |= below[declared.name]
                    elif declared.is_alias:
                        both = below[parent] | below[declared.name]
                        below[parent] = below[declared.name] = both
                    else:
                        below[declared.name] |= below[parent]
                        kind = self.program.kind(declared.name)
                        if kind in kinds:
                            below[kind] |= below[declared.name]
        self._values = {name: frozenset(values) for name, values in below.items()}

    def check(self, rule: Rule) -> Iterator[Diagnostic]:
        """What in one typed rule has another subtype than its place (DF120)."""
        if not self.used:
            return
        for case in alternatives(rule.body):
            bound: dict[str, _Values] = {}
            yield from self._bind(case, bound)
            for head in rule.heads:
                yield from self._takes(head, bound)

    def _bind(self, case: tuple[Formula, ...], bound: dict[str, _Values]) -> Iterator[Diagnostic]:
        """Collect what positive atoms allow each variable, through equations too."""
        for part in case:
            if isinstance(part, Atom):
                for arg, column in zip(part.args, self._columns[part.relation], strict=True):
                    where = f"column `{column.name}` of `{part.relation}`"
                    yield from self._meet(arg, column.type, bound, where)
        for part in case:
            if isinstance(part, Or):
                yield from self._choose(part, bound)
        equations = [p for p in case if isinstance(p, Comparison) and p.op == "="]
        for _ in equations:
            for test in equations:
                for side, other in ((test.left, test.right), (test.right, test.left)):
                    if isinstance(side, Var) and side.name not in bound:
                        known = self._of(other, bound)
                        if known is not _ANY:
                            bound[side.name] = known

    def _choose(self, part: Or, bound: dict[str, _Values]) -> Iterator[Diagnostic]:
        """A disjunction that stays whole: a variable has what any of its alternatives allows."""
        each: list[dict[str, _Values]] = []
        for case in inside(part):
            each.append(dict(bound))
            yield from self._bind(case, each[-1])
        for name in set().union(*each):
            values = [bounds.get(name, _ANY) for bounds in each]
            known = [allowed for allowed in values if allowed is not None]
            bound[name] = frozenset().union(*known) if len(known) == len(values) else _ANY

    def _meet(
        self, term: Term, kind: str, bound: dict[str, _Values], where: str
    ) -> Iterator[Diagnostic]:
        if isinstance(term, Var):
            allowed = self._values[kind]
            known = bound.get(term.name, _ANY)
            both: _Values = allowed if known is None else known & allowed
            if not both:
                name = plain_name(term.name)
                message = f"`{name}` cannot be both {kind} ({where}) and {self._named(known)}"
                hint = "declare a union, or cast one with `as`"
                yield Diagnostic("DF120", message, term.span, hint)
                both = _ANY
            bound[term.name] = both
        elif isinstance(term, Call) and term.functor[0] in "[$":
            for arg, field in zip(term.args, self._fields(term), strict=False):
                yield from self._meet(arg, field.type, bound, f"field `{field.name}`")

    def _takes(self, head: Atom, bound: Mapping[str, _Values]) -> Iterator[Diagnostic]:
        for arg, column in zip(head.args, self._columns[head.relation], strict=True):
            where = f"column `{column.name}` of `{head.relation}`"
            yield from self._fits(arg, column.type, bound, where, arg.span or head.span)

    def _fits(
        self, term: Term, kind: str, bound: Mapping[str, _Values], where: str, span: Span | None
    ) -> Iterator[Diagnostic]:
        if isinstance(term, Call) and term.functor[0] in "[$":
            for arg, field in zip(term.args, self._fields(term), strict=False):
                where = f"field `{field.name}`"
                yield from self._fits(arg, field.type, bound, where, arg.span or span)
            return
        values = self._of(term, bound)
        if values is not None and not values <= self._values[kind]:
            shown = f"`{plain_name(term.name)}`" if isinstance(term, Var) else "this"
            message = f"{shown} is of type {self._named(values)}, and {where} takes {kind}"
            yield Diagnostic("DF120", message, span, f"cast it: `as(.., {kind})`")

    def _of(self, term: Term, bound: Mapping[str, _Values]) -> _Values:
        if isinstance(term, Var):
            return bound.get(term.name, _ANY)
        if not isinstance(term, Call) or term.functor in ("min", "max") or term.functor[0] in "[$":
            return _ANY
        if term.functor == "as":
            named = term.args[1]
            assert isinstance(named, Const)  # noqa: S101  the parser's and the checker's shape
            return self._values[str(named.value)]
        if logical_functor(term.functor[1:]) is not None:
            return _ANY
        if term.functor[0] == "@":
            return self._values[self.program.declared_functor(term.functor[1:]).result]
        if not any(isinstance(part, (Var, Aggregate)) for part in subterms(term)):
            return _ANY  # as good as a constant
        results = {"cat": "symbol", "substr": "symbol", "to_string": "symbol"}
        base = results.get(term.functor)
        if base is None:
            for part in term.args:
                known = self._of(part, bound)
                if known is not None:
                    base = next((b for b in BASES if known <= self._values[b]), None)
                    break
        if term.functor in ("strlen", "ord", "to_number", "autoinc"):
            base = "number"
        elif term.functor in ("to_unsigned", "to_float"):
            base = "unsigned" if term.functor == "to_unsigned" else "float"
        return _ANY if base is None else self._values[base]

    def _fields(self, term: Call) -> tuple[Attribute, ...]:
        """A constructor's fields, as declared."""
        return self._branches.get(term.functor, ())

    def _named(self, values: _Values) -> str:
        """The declared type that has just these values; else the parts."""
        names = [name for name, kept in self._values.items() if kept == values]
        return names[0] if names else " or ".join(sorted(values or ()))
