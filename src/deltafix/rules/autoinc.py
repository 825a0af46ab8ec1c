"""`autoinc()`: a number of its own for each binding of a rule's variables.

Soufflé counts as it derives; here the number belongs to the place in the text and to the values of
the rule's variables, so a derivation that goes and comes back has the number it had. Invariant: a
rule that passes has no row that depends on a number of its own, so that numbers do not breed
numbers; and no aggregate or negation has one inside, where there is no one binding to number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deltafix.diagnostics import Diagnostic
from deltafix.rules.apart import own_names
from deltafix.rules.ast import And, Comparison, Dominates, Formula, Not, Or, Program, Rule
from deltafix.rules.strata import Stratum
from deltafix.rules.terms import Call, Term
from deltafix.rules.walk import subterms, terms_of, uses

AUTOINC = "autoinc"


def counts(rule: Rule) -> bool:
    """Whether a rule calls `autoinc`."""
    return AUTOINC in rule.calls


def numbered_by(case: tuple[Formula, ...]) -> list[str]:
    """The variables of an alternative whose values its numbers belong to, in order.

    All of its own but those that follow from a number.
    """
    tests = [part for part in case if isinstance(part, Comparison) and part.op == "="]
    follow: set[str] = set()
    while True:
        before = len(follow)
        for test in tests:
            for side, other in ((test.left, test.right), (test.right, test.left)):
                if next(_in_term(side), None) is not None or own_names(side) & follow:
                    follow |= own_names(other)
        if len(follow) == before:
            break
    atoms = own_names(And(tuple(part for part in case if not isinstance(part, Comparison))))
    return sorted(own_names(And(case)) - (follow - atoms))


def check_autoinc(program: Program, strata: tuple[Stratum, ...]) -> Iterator[Diagnostic]:
    """Rules that number what their numbers bring about (DF158). Linear."""
    home = {name: stratum for stratum in strata for name in stratum.relations}
    inline = {r.name for r in program.relations if "inline" in r.qualifiers}
    counting: list[Rule] = []
    for rule in program.rules:
        if not counts(rule):
            continue
        call = next(_calls((*rule.heads, rule.body)))
        counting.append(rule)
        here = {home[head.relation] for head in rule.heads}
        if any(home[atom.relation] in here for atom, _ in uses(rule.body)):
            message = "`autoinc` in a recursive rule would number what it brings about"
            hint = "number the rows in a relation that the recursion does not read"
            yield Diagnostic("DF158", message, call.span, hint)
        elif inline.intersection(head.relation for head in rule.heads):
            message = "`autoinc` in an inline relation would count anew at each use"
            yield Diagnostic("DF158", message, call.span, "remove `inline`")
    for inner in _inside(counting, program.orders):
        message = "`autoinc` numbers the bindings of a rule, and there is none of them in here"
        yield Diagnostic("DF158", message, inner.span, "write `x = autoinc()` in the rule")


def _inside(rules: Iterable[Rule], orders: Iterable[Dominates]) -> Iterator[Call]:
    """Calls inside aggregates, under `!`, and in subsumptions."""
    for rule in rules:
        for formula in (*rule.heads, rule.body):
            outside = {id(call) for call in _of_the_rule(formula)}
            yield from (call for call in _calls((formula,)) if id(call) not in outside)
    for order in orders:
        yield from _calls((order.rule.body,))


def _calls(formulae: tuple[Formula, ...]) -> Iterator[Call]:
    """Every call, also inside aggregates and under `!`."""
    for formula in formulae:
        for term in terms_of(formula):
            for part in subterms(term):
                if isinstance(part, Call) and part.functor == AUTOINC:
                    yield part


def _of_the_rule(formula: Formula) -> Iterator[Call]:
    """The calls that stand for one number for each binding of the rule."""
    if isinstance(formula, (And, Or)):
        for part in formula.parts:
            yield from _of_the_rule(part)
    elif not isinstance(formula, Not):
        for term in terms_of(formula):
            yield from _in_term(term)


def _in_term(term: Term) -> Iterator[Call]:
    if isinstance(term, Call):
        if term.functor == AUTOINC:
            yield term
        for arg in term.args:
            yield from _in_term(arg)
