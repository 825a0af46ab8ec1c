"""Warnings about what a rule says: right by the language, and likely to surprise.

DF160 a variable used once, DF165 a pattern that is no regular expression, DF166 an answer that
follows the order in which symbols or rows came. Invariant: nothing here refuses a program.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltafix.diagnostics import Diagnostic
from deltafix.rules.apart import plain_name
from deltafix.rules.ast import And, Atom, Comparison, Formula, Not, Or, Rule
from deltafix.rules.autoinc import AUTOINC
from deltafix.rules.regex import RegexError, compile_regex
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var
from deltafix.rules.walk import body_of, occurrences, subterms, terms_of


def cautions(rule: Rule) -> Iterator[Diagnostic]:
    """The warnings of one rule whose names are sound. Linear in the rule."""
    if not rule.is_fact:
        yield from _unused(rule)
    for formula in (*rule.heads, rule.body):
        yield from _surprises(formula)


def _unused(rule: Rule) -> Iterator[Diagnostic]:
    total = occurrences((*rule.heads, rule.body))
    for term in terms_of(rule.body):
        for part in subterms(term):
            if isinstance(part, Var) and total[part.name] == 1 and not part.name.startswith("_"):
                name = plain_name(part.name)
                yield Diagnostic(
                    "DF160",
                    f"variable `{name}` occurs only once",
                    part.span,
                    f"write `_`, or `_{name}` to keep the name",
                    "warning",
                )


def _surprises(formula: Formula) -> Iterator[Diagnostic]:
    if isinstance(formula, Not):
        yield from _surprises(formula.body)
    elif isinstance(formula, And | Or):
        for part in formula.parts:
            yield from _surprises(part)
    elif isinstance(formula, Atom):
        for arg in formula.args:
            yield from _in_term(arg)
    else:
        yield from _in_comparison(formula)


def _in_comparison(test: Comparison) -> Iterator[Diagnostic]:
    if test.op == "match" and isinstance(test.left, Const):
        try:
            compile_regex(str(test.left.value))
        except RegexError as error:
            message = f"this pattern matches nothing: {error}"
            hint = "patterns are ECMAScript's regular expressions"
            yield Diagnostic("DF165", message, test.left.span or test.span, hint, "warning")
    # Two symbols have one number only if they are one symbol: that depends on no order.
    both = _is_ord(test.left) and _is_ord(test.right) and test.op in ("=", "!=")
    for side in (test.left, test.right):
        for term in side.args if both and isinstance(side, Call) else (side,):
            yield from _in_term(term)


def _in_term(term: Term) -> Iterator[Diagnostic]:
    if isinstance(term, Call):
        if _is_ord(term):
            message = "this answer follows the order in which symbols came into the database"
            hint = "compare the symbols themselves, or number them in a relation of your own"
            yield Diagnostic("DF166", message, term.span, hint, "warning")
        elif term.functor == AUTOINC:
            message = "these numbers follow the order in which rows came into the database"
            hint = "use the rows' own columns as the key"
            yield Diagnostic("DF166", message, term.span, hint, "warning")
        for arg in term.args:
            yield from _in_term(arg)
    elif isinstance(term, Aggregate):
        if term.target is not None:
            yield from _in_term(term.target)
        yield from _surprises(body_of(term))


def _is_ord(term: Term) -> bool:
    return isinstance(term, Call) and term.functor == "ord"
