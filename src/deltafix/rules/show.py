"""A program as text that parses to an equal program.

Invariant: `Program.parse(show(p)) == p` for every program a door gives (formulae flat, as
`rules.ast.conjunction` makes them). Comments and layout are not in a program: `datalog.format`
keeps those. The same spelling serves plans, errors and golden files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from deltafix.facts.values import Logical, show_value
from deltafix.rules import ast
from deltafix.rules.functors import CONSTRAINTS, INFIX, PREFIX_POWER
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var
from deltafix.rules.walk import body_of

_PREFIXES: Final = {"neg": "-", "bnot": "bnot ", "lnot": "lnot "}
_ESCAPES: Final = {
    ord("\\"): "\\\\",
    ord('"'): '\\"',
    ord("\n"): "\\n",
    ord("\t"): "\\t",
    ord("\r"): "\\r",
    ord("\a"): "\\a",
    ord("\b"): "\\b",
    ord("\f"): "\\f",
    ord("\v"): "\\v",
}


def show(program: ast.Program) -> str:
    """The whole program: pragmas, types, declarations, directives, named rules; one per line."""
    lines = [f".pragma {_quote(key)} {_quote(value)}" for key, value in program.pragmas]
    lines.extend(_type(declared) for declared in program.types)
    lines.extend(_functor(declared) for declared in program.functors)
    lines.extend(_lattice(declared) for declared in program.lattices)
    lines.extend(show_relation(declared) for declared in program.relations)
    lines.extend(_directive(directive) for directive in program.directives)
    lines.extend(_named(rule) + show_rule(rule) for rule in program.rules)
    lines.extend(_named(order) + show_order(order) for order in program.orders)
    return "".join(f"{line}\n" for line in lines)


def show_kinds(program: ast.Program) -> dict[str, list[str]]:
    """The lines of types, functors and lattices, by the name that rules and columns use."""
    lines: dict[str, list[str]] = {}
    for declared in program.types:
        lines.setdefault(declared.name, []).append(_type(declared))
    for functor in program.functors:
        lines.setdefault(functor.name, []).append(_functor(functor))
    for lattice in program.lattices:
        lines.setdefault(lattice.type, []).append(_lattice(lattice))
    return lines


def _named(rule: ast.Rule | ast.Dominates) -> str:
    return f".rule {rule.name}\n" if rule.name else ""


def show_rule(rule: ast.Rule) -> str:
    """`heads.` or `heads :- body.`."""
    heads = ", ".join(show_formula(head) for head in rule.heads)
    return f"{heads}." if rule.is_fact else f"{heads} :- {show_formula(rule.body)}."


def show_formula(formula: ast.Formula) -> str:
    """A body or a literal, with parentheses only where they are needed."""
    if isinstance(formula, ast.Atom):
        return f"{formula.relation}({', '.join(map(show_term, formula.args))})"
    if isinstance(formula, ast.Comparison):
        left, right = show_term(formula.left), show_term(formula.right)
        if formula.op in CONSTRAINTS:
            return f"{formula.op}({left}, {right})"
        return f"{left} {formula.op} {right}"
    if isinstance(formula, ast.Not):
        inner = show_formula(formula.body)
        bare = isinstance(formula.body, (ast.Atom, ast.Not)) or inner in ("true", "false")
        return f"!{inner}" if bare else f"!({inner})"
    if isinstance(formula, ast.And):
        return ", ".join(map(_grouped, formula.parts)) or "true"
    return " ; ".join(map(show_formula, formula.parts)) or "false"


def _grouped(part: ast.Formula) -> str:
    shown = show_formula(part)
    return f"({shown})" if isinstance(part, ast.Or) and len(part.parts) > 1 else shown


def show_term(term: Term, power: int = 0) -> str:
    """A term; `power` is how tightly the place around it binds."""
    if isinstance(term, Var):
        return term.name
    if isinstance(term, Const):
        shown = _constant(term)
        return f"({shown})" if shown.startswith("-") and power > PREFIX_POWER else shown
    if isinstance(term, Aggregate):
        target = "" if term.target is None else f"{show_term(term.target)} "
        over = "" if term.over is None else f"over ({', '.join(map(show_term, term.over))}) "
        return f"{term.op} {target}{over}: {{ {show_formula(body_of(term))} }}"
    if isinstance(term, Call):
        return _call(term, power)
    return "_"


def _call(term: Call, power: int) -> str:
    if term.functor in INFIX and len(term.args) == 2:
        left, right = INFIX[term.functor]
        left_text = show_term(term.args[0], max(left, right) if left > right else left)
        right_text = show_term(term.args[1], right)
        shown = f"{left_text} {term.functor} {right_text}"
        return f"({shown})" if min(left, right) < power else shown
    if term.functor in _PREFIXES and len(term.args) == 1:
        inner = term.args[0]
        shown = show_term(inner, PREFIX_POWER)
        # `-1` would be read as a constant: the sign stands outside a parenthesis.
        literal = isinstance(inner, Const) and inner.type in (None, "number", "float")
        shown = f"{_PREFIXES[term.functor]}{f'({shown})' if literal else shown}"
        return f"({shown})" if power > PREFIX_POWER else shown
    if term.functor == "as":
        named = term.args[1]
        name = str(named.value) if isinstance(named, Const) else ""
        return f"as({show_term(term.args[0])}, {name})"
    arguments = ", ".join(map(show_term, term.args))
    return f"[{arguments}]" if term.functor.startswith("[") else f"{term.functor}({arguments})"


def _constant(term: Const) -> str:
    if term.value is None:
        return "nil"
    if isinstance(term.value, str):
        return _quote(term.value)
    if isinstance(term.value, Logical):  # in proofs: text has their texts
        return show_value(term.value)
    return f"{term.value!r}u" if term.type == "unsigned" else repr(term.value)


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _type(declared: ast.TypeDecl) -> str:
    if declared.branches and not declared.branches[0].name:
        return f".type {declared.name} = [{_columns(declared.branches[0].fields)}]"
    if declared.branches:
        shown = (f"{branch.name} {{{_columns(branch.fields)}}}" for branch in declared.branches)
        return f".type {declared.name} = {' | '.join(shown)}"
    if declared.subtype:
        return f".type {declared.name} <: {declared.parents[0]}"
    return f".type {declared.name} = {' | '.join(declared.parents)}"


def _columns(attributes: Iterable[ast.Attribute]) -> str:
    joins = {"": "", "<>": "<>", "min": " <min>", "max": " <max>"}
    return ", ".join(f"{column.name}: {column.type}{joins[column.join]}" for column in attributes)


def _functor(declared: ast.FunctorDecl) -> str:
    stateful = " stateful" if declared.stateful else ""
    arguments = _columns(declared.arguments)
    kept = "" if declared.most is None else f" sum {declared.most}"
    kept += "" if declared.scale is None else f" mean {declared.scale}"
    kept += f" {declared.kept}" if declared.kept else ""
    return f".functor {declared.name}({arguments}): {declared.result}{stateful}{kept}"


def _lattice(declared: ast.LatticeDecl) -> str:
    shown = ", ".join(f"{name} -> {show_term(term)}" for name, term in declared.operations)
    return f".lattice {declared.type}<> {{ {shown} }}"


def show_relation(declared: ast.RelationDecl) -> str:
    """`.decl name(columns) qualifiers`."""
    qualifiers = "".join(f" {word}" for word in declared.qualifiers)
    for word, listed in (("choice-domain", declared.choices), ("index-on", declared.indexes)):
        shown = (names[0] if len(names) == 1 else f"({', '.join(names)})" for names in listed)
        qualifiers += f" {word} {', '.join(shown)}" if listed else ""
    qualifiers += f" part-of {declared.of}" if declared.of else ""
    return f".decl {declared.name}({_columns(declared.attributes)}){qualifiers}"


def show_order(order: ast.Dominates) -> str:
    """`less <= more.` or `less <= more :- body.`."""
    shown = f"{show_formula(order.less)} <= {show_formula(order.more)}"
    if order.body == ast.And(()):
        return f"{shown}."
    return f"{shown} :- {show_formula(order.body)}."


def _directive(directive: ast.Directive) -> str:
    pairs = ", ".join(f"{key}={_quote(value)}" for key, value in directive.parameters.items())
    return f".{directive.kind} {directive.relation}{f'({pairs})' if pairs else ''}"
