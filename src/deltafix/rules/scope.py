"""Groundedness: does every variable of a rule get its values from somewhere?

A variable is grounded by a positive atom, or by `x = term` over grounded variables. A record or
branch is a pattern: what grounds it grounds its variables. Under `!` and
inside aggregates the variables that no enclosing scope mentions are local: they must be
grounded inside; all others must be grounded outside. Invariant: what passes here can be evaluated
in some order, in each alternative of the body on its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from deltafix.diagnostics import Diagnostic, Span, suggest
from deltafix.rules import walk
from deltafix.rules.apart import plain_name
from deltafix.rules.ast import Atom, Comparison, Formula, Not, Or, Rule
from deltafix.rules.terms import Aggregate, Call, Term, Var, Wildcard

_NONE: Final = frozenset[str]()


def shared(node: Formula | Aggregate, total: Counter[str]) -> frozenset[str]:
    """The variables of a negation or aggregate that the rest of its alternative uses too.

    For rules whose names are `apart`; `total` is `occurrences` of the alternative, heads included.
    """
    own = walk.occurrences(node)
    return frozenset(name for name, count in own.items() if total[name] > count)


def grounded_by(
    parts: Iterable[Formula], total: Counter[str], known: frozenset[str] = frozenset()
) -> frozenset[str]:
    """The variables that have values once the positive ones among `parts` hold; `known` have."""
    return _Scope(total, None).grounded(list(parts), known)


def needed(term: Term, total: Counter[str]) -> frozenset[str]:
    """The variables whose values a term wants; `_` where it has a wildcard."""
    return _Scope(total, None).needs(term)


def ungrounded(
    parts: tuple[Formula, ...], total: Counter[str], known: frozenset[str]
) -> frozenset[str]:
    """The variables of a conjunction that lack values where those of `known` have some."""
    scope = _Scope(total, None)
    scope.conjunction(parts, known)
    return frozenset(scope.diagnostics)


class _Scope:
    """One alternative of one rule."""

    def __init__(self, total: Counter[str], span: Span | None) -> None:
        self.total = total
        self.span = span
        self.diagnostics: dict[str, Diagnostic] = {}

    def needs(self, term: Term) -> frozenset[str]:
        """Variables whose values the term wants from outside."""
        if isinstance(term, Var):
            return frozenset((term.name,))
        if isinstance(term, Call):
            return _NONE.union(*map(self.needs, term.args))
        if isinstance(term, Aggregate):
            return shared(term, self.total)
        return frozenset(("_",)) if isinstance(term, Wildcard) else _NONE

    def grounded(self, parts: Iterable[Formula], known: Iterable[str]) -> frozenset[str]:
        """Everything the positive parts of a conjunction ground, starting from `known`.

        Linear in the parts, but for a disjunction, which is looked at as often as some of its
        variables have become known since.
        """
        bound, fresh = set(known), list[str]()

        def bind(names: Iterable[str]) -> None:
            fresh.extend(name for name in names if name not in bound)
            bound.update(fresh)

        for part in parts:
            if isinstance(part, Atom):
                bound.update(name for arg in part.args for name in walk.pattern_variables(arg))
        readers: dict[str, list[tuple[set[str], Term]]] = {}
        for part in parts:
            if isinstance(part, Comparison) and part.op == "=":
                for to, source in ((part.left, part.right), (part.right, part.left)):
                    missing = {*(self.needs(source) - bound)}
                    for name in missing:
                        readers.setdefault(name, []).append((missing, to))
                    if not missing:
                        bind(walk.pattern_variables(to))
        choices = [(part, walk.occurrences(part)) for part in parts if isinstance(part, Or)]
        about: dict[str, list[int]] = {}
        for number, (_, own) in enumerate(choices):
            for name in own:
                about.setdefault(name, []).append(number)
        waiting = dict.fromkeys(range(len(choices)))
        while fresh or waiting:
            if fresh:
                name = fresh.pop()
                waiting.update(dict.fromkeys(about.get(name, ())))
                for missing, to in readers.pop(name, ()):
                    missing.discard(name)
                    if not missing:
                        bind(walk.pattern_variables(to))
                continue
            number = next(iter(waiting))
            del waiting[number]
            part, own = choices[number]
            given = [name for name in own if name in bound]
            each = [scope.grounded(case, given) for scope, case in self.choices(part)]
            bind(frozenset.intersection(*each) if each else own)
        return frozenset(bound)

    def choices(self, part: Or) -> Iterator[tuple[_Scope, tuple[Formula, ...]]]:
        """What a disjunction chooses from, each in its own scope: it does not see the others."""
        own = walk.occurrences(part)
        for case in walk.inside(part):
            here = walk.occurrences(case)
            total = {n: max(self.total[n] - own[n], 0) + count for n, count in here.items()}
            scope = _Scope(Counter(total), self.span)
            scope.diagnostics = self.diagnostics
            yield scope, case

    def conjunction(self, parts: tuple[Formula, ...], known: frozenset[str]) -> frozenset[str]:
        bound = self.grounded(parts, known)
        for part in parts:
            if isinstance(part, Not):
                self.negation(part, bound)
                continue
            if isinstance(part, Or):
                given = bound.intersection(walk.occurrences(part))
                for scope, case in self.choices(part):
                    scope.conjunction(case, given)
                continue
            for term in walk.terms_of(part):
                self.wanted(term, bound)
        return bound

    def negation(self, formula: Not, bound: frozenset[str]) -> None:
        body = formula.body
        if isinstance(body, (Atom, Comparison)):
            for term in walk.terms_of(body):
                self.wanted(term, bound, negated=isinstance(body, Atom))
            return
        for name in sorted(shared(body, self.total) - bound):
            self.report(name, first_place(body, name), "it is only tested here, under `!`")
        inner = bound | shared(body, self.total)
        for parts in walk.alternatives(body):
            self.conjunction(parts, inner)

    def wanted(self, term: Term, bound: frozenset[str], negated: bool = False) -> None:
        """Report the variables of a term that are not bound; look into its aggregates."""
        if isinstance(term, Var):
            if term.name not in bound:
                alone = negated and self.total[term.name] == 1
                hint = f"write `_` for any value: no row may match, whatever `{term.name}` is"
                self.report(
                    term.name, term.span, "no positive atom binds it", hint if alone else None
                )
        elif isinstance(term, Call):
            for arg in term.args:
                self.wanted(arg, bound, negated)
        elif isinstance(term, Aggregate):
            body = walk.body_of(term)
            outer = shared(term, self.total)
            for name in sorted(outer - bound):
                self.report(
                    name,
                    first_place(body, name) or term.span,
                    f"`{term.op}` cannot give it a value from inside its body",
                    f"join the body's atom once more beside the aggregate, where it binds `{name}`",
                )
            for parts in walk.alternatives(body):
                inner = self.conjunction(parts, bound | outer)
                if term.target is not None:
                    self.wanted(term.target, inner)

    def causes(self, parts: tuple[Formula, ...]) -> dict[str, Diagnostic]:
        """What was reported, without variables that only wait for another reported one."""
        if not self.diagnostics:
            return {}
        waiting: set[str] = set()
        for part in parts:
            if isinstance(part, Comparison) and part.op == "=":
                for to, source in ((part.left, part.right), (part.right, part.left)):
                    given = set(walk.pattern_variables(to))
                    if given and self.needs(source) & self.diagnostics.keys() - given:
                        waiting |= given
        first = {
            name: diagnostic for name, diagnostic in self.diagnostics.items() if name not in waiting
        }
        return first or self.diagnostics

    def report(self, name: str, span: Span | None, why: str, hint: str | None = None) -> None:
        if name not in self.diagnostics:
            shown = plain_name(name)
            hint = hint or (
                f"use `{shown}` in an atom of the body, or give it a value: `{shown} = ...`"
            )
            others = [other for other in self.total if other != name]
            close = suggest(name, others) if self.total[name] == 1 else None
            if close and max(len(name), len(close)) < 3:  # x is no slip for x1
                close = None
            self.diagnostics[name] = Diagnostic(
                "DF130",
                f"variable `{shown}` is not grounded: {why}",
                span or self.span,
                f"did you mean `{plain_name(close)}`? Or {hint}" if close else hint,
            )


def first_place(node: Formula | Aggregate, name: str) -> Span | None:
    """Where a variable stands first in a formula or an aggregate."""
    for term in (node,) if isinstance(node, Aggregate) else walk.terms_of(node):
        for part in walk.subterms(term):
            if isinstance(part, Var) and part.name == name:
                return part.span
    return None


def check_scope(rule: Rule) -> Iterator[Diagnostic]:
    """Variables without values (DF130, DF132) and wildcards without meaning (DF131)."""
    yield from _wildcards(rule)
    if rule.is_fact:
        for head in rule.heads:
            for arg in head.args:
                for part in walk.subterms(arg):
                    if isinstance(part, Var):
                        yield Diagnostic(
                            "DF132",
                            f"fact `{head.relation}` contains the variable `{part.name}`",
                            part.span,
                            f'a fact has constants only; a symbol is written "{part.name}"',
                        )
        return
    reported: set[str] = set()
    for parts in walk.alternatives(rule.body):
        scope = _Scope(walk.occurrences((*rule.heads, *parts)), rule.span)
        bound = scope.conjunction(parts, frozenset())
        for head in rule.heads:
            for arg in head.args:
                scope.wanted(arg, bound)
        for name, diagnostic in scope.causes(parts).items():
            if name not in reported:
                reported.add(name)
                yield diagnostic


def _wildcards(rule: Rule) -> Iterator[Diagnostic]:
    for head in rule.heads:
        for arg in head.args:
            if isinstance(arg, Wildcard):
                yield Diagnostic(
                    "DF131",
                    f"`_` in the head `{head.relation}` has no value",
                    arg.span,
                    "use a variable that the body binds",
                )
            yield from _misplaced(arg)
    yield from _misplaced_in(rule.body)


def _misplaced_in(formula: Formula) -> Iterator[Diagnostic]:
    if isinstance(formula, Comparison):
        for term in (formula.left, formula.right):
            if isinstance(term, Wildcard):
                yield Diagnostic(
                    "DF131", "`_` cannot be compared", term.span, "name the value with a variable"
                )
            yield from _misplaced(term, formula.op == "=")
    elif isinstance(formula, Atom):
        for term in formula.args:
            yield from _misplaced(term, True)
    elif isinstance(formula, Not):
        yield from _misplaced_in(formula.body)
    else:
        for part in formula.parts:
            yield from _misplaced_in(part)


def _misplaced(term: Term, matched: bool = False) -> Iterator[Diagnostic]:
    """Wildcards in functor calls, targets of aggregates, and records that are not `matched`."""
    if isinstance(term, Call):
        inner: tuple[Term, ...] = term.args
        matched = matched and walk.is_constructor(term)
    elif isinstance(term, Aggregate):
        inner = () if term.target is None else (term.target,)
        matched = False
        yield from _misplaced_in(walk.body_of(term))
    else:
        return
    for arg in inner:
        if isinstance(arg, Wildcard) and not matched:
            what = term.op if isinstance(term, Aggregate) else term.functor
            yield Diagnostic(
                "DF131",
                f"`_` has no value for `{what}`",
                arg.span,
                "name the value with a variable",
            )
        yield from _misplaced(arg, matched)
