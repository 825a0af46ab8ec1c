"""Types of a rule's variables and constants.

Every variable and constant starts as a set of possible base types; columns, operators and
comparisons intersect sets, unions-of-sets are never formed. Invariant: a variable has one base
type in the whole rule. What stays open (a `1` compared with a `2`) is a number, as in Soufflé.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from deltafix.diagnostics import Diagnostic, Span, suggest
from deltafix.rules.apart import plain_name
from deltafix.rules.ast import Atom, Comparison, Formula, Not, Program, Rule
from deltafix.rules.functors import CONSTRAINTS, SIGNATURES
from deltafix.rules.terms import Aggregate, BaseType, Call, Const, Term, Var, Wildcard
from deltafix.rules.walk import Leaf, body_of, map_rule

__all__ = ["RANGES", "Schemas", "Typed", "infer", "schemas_of", "term_type"]

Schemas: TypeAlias = Mapping[str, tuple[tuple[str, BaseType], ...]]
"""Relation -> its columns, as name and base type."""

_ORDER: Final[tuple[BaseType, ...]] = ("number", "unsigned", "float", "symbol")
_CLASSES: Final[dict[str, frozenset[BaseType]]] = {
    "numeric": frozenset(("number", "unsigned", "float")),
    "integral": frozenset(("number", "unsigned")),
    "same": frozenset(_ORDER),
    "any": frozenset(_ORDER),
    **{base: frozenset((base,)) for base in _ORDER},
}

_EXAMPLES: Final[dict[BaseType, str]] = {
    "number": "3",
    "unsigned": "3u",
    "float": "3.0",
    "symbol": '"abc"',
}

RANGES: Final[dict[str, tuple[int, int]]] = {
    "number": (-(1 << 63), (1 << 63) - 1),
    "unsigned": (0, (1 << 64) - 1),
}
"""Smallest and largest value of the integer types."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A rule whose constants all carry their type, and the base type of each variable."""

    rule: Rule
    variables: Mapping[str, BaseType]


class _Node:
    """A set of possible types, why it is no larger, and the node it was merged into."""

    __slots__ = ("allowed", "parent", "reason", "what")

    def __init__(self, what: str, allowed: frozenset[BaseType], reason: str) -> None:
        self.what, self.allowed, self.reason = what, allowed, reason
        self.parent: _Node | None = None

    def root(self) -> _Node:
        node = self
        while node.parent is not None:
            node = node.parent
        return node


def _any_of(types: frozenset[BaseType]) -> str:
    return " or ".join(base for base in _ORDER if base in types)


def _advice(left: _Node, right: _Node) -> str:
    """What would be valid: another constant, or a conversion."""
    for constant, other in ((left, right), (right, left)):
        if constant.root().reason.startswith("constant "):
            base = next(base for base in _ORDER if base in other.root().allowed)
            return f"a {base} is written like {_EXAMPLES[base]}"
    return "convert one side with to_number, to_unsigned, to_float or to_string"


class _Inference:
    def __init__(self, program: Program, schemas: Schemas, place: Span | None) -> None:
        self.program = program
        self.schemas = schemas
        self.place = place
        self.variables: dict[str, _Node] = {}
        self.constants: dict[str, Const] = {}
        self.found: list[Diagnostic] = []

    # Constants travel through inference as variables that no text can name.

    def lift(self, leaf: Leaf) -> Term:
        if not isinstance(leaf, Const):
            return leaf
        name = f"#{len(self.constants)}"
        self.constants[name] = leaf
        if leaf.type is not None:
            allowed = _CLASSES[leaf.type]
        elif isinstance(leaf.value, str):
            allowed = _CLASSES["symbol"]
        elif isinstance(leaf.value, float):
            allowed = _CLASSES["float"]
        else:
            allowed = _CLASSES["numeric"]
        shown = f'"{leaf.value}"' if isinstance(leaf.value, str) else str(leaf.value)
        if leaf.type == "unsigned":
            shown += "u"
        self.variables[name] = _Node(shown, allowed, f"constant {shown}")
        return Var(name, leaf.span)

    def drop(self, leaf: Leaf) -> Term:
        if not isinstance(leaf, Var) or leaf.name not in self.constants:
            return leaf
        constant = self.constants[leaf.name]
        base = self.chosen(self.variables[leaf.name])
        value = constant.value
        if base == "float" and isinstance(value, int):
            value = float(value)
        if base in RANGES and isinstance(value, int):
            low, high = RANGES[base]
            if not low <= value <= high:
                self.found.append(
                    Diagnostic(
                        "DF121",
                        f"{value} does not fit {base}",
                        constant.span,
                        f"valid: {low} to {high}",
                    )
                )
        return replace(constant, value=value, type=base)

    def chosen(self, node: _Node) -> BaseType:
        allowed = node.root().allowed
        return next(base for base in _ORDER if base in allowed)

    # Constraints --------------------------------------------------------------------------------

    def unify(self, left: _Node, right: _Node, span: Span | None) -> _Node:
        one, two = left.root(), right.root()
        if one is two:
            return one
        common = one.allowed & two.allowed
        if not common:
            what = left.what if left.what.isidentifier() or not right.what else right.what
            self.found.append(
                Diagnostic(
                    "DF120",
                    f"`{what}` cannot be both {_any_of(one.allowed)} ({one.reason}) "
                    f"and {_any_of(two.allowed)} ({two.reason})",
                    span or self.place,
                    _advice(left, right),
                )
            )
            # From here on this value fits anything: one slip, one error.
            two.parent = one
            one.allowed = _CLASSES["any"]
            return one
        reason = one.reason if len(one.allowed) <= len(two.allowed) else two.reason
        two.parent = one
        one.allowed, one.reason = common, reason
        return one

    def want(self, term: Term, kind: str, reason: str) -> None:
        if not isinstance(term, Wildcard):
            node = _Node("", _CLASSES[kind], reason)
            self.unify(self.term(term), node, term.span)

    def term(self, term: Term) -> _Node:
        if isinstance(term, Var):
            if term.name not in self.variables:
                shown = plain_name(term.name)
                node = _Node(shown, _CLASSES["any"], f"variable {shown}")
                self.variables[term.name] = node
            return self.variables[term.name]
        if isinstance(term, Call):
            return self.cast(term) if term.functor == "as" else self.call(term)
        if isinstance(term, Aggregate):
            self.formula(body_of(term))
            if term.target is None:
                return _Node(term.op, _CLASSES["number"], "the result of `count`")
            self.want(term.target, "numeric", f"what `{term.op}` takes")
            if term.op == "mean":
                return _Node(term.op, _CLASSES["float"], "the result of `mean`")
            return self.term(term.target)
        return _Node("_", _CLASSES["any"], "`_`")

    def call(self, term: Call) -> _Node:
        signature = SIGNATURES.get(term.functor)
        result = _Node(term.functor, _CLASSES["any"], f"the result of `{term.functor}`")
        if signature is None:
            for arg in term.args:
                self.term(arg)
            names = [name for name in SIGNATURES if name.isidentifier()]
            close = suggest(term.functor, names)
            if term.functor in self.schemas:
                hint = f"`{term.functor}` is a relation: use it as a literal of its own"
            else:
                hint = f"did you mean `{close}`?" if close else f"functors: {' '.join(names)}"
            message = f"there is no functor `{term.functor}`"
            self.found.append(Diagnostic("DF115", message, term.span, hint))
            return result
        result.allowed = _CLASSES[signature.result]
        if not signature.accepts(len(term.args)):
            wanted = f"{len(signature.arguments)}{' or more' if signature.variadic else ''}"
            self.found.append(
                Diagnostic(
                    "DF112",
                    f"`{term.functor}` wants {wanted} arguments, {len(term.args)} given",
                    term.span,
                )
            )
        for position, arg in enumerate(term.args):
            kind = signature.argument(position)
            if kind in ("numeric", "integral", "same") and kind == signature.result:
                if not isinstance(arg, Wildcard):
                    node = self.term(arg)
                    result = self.unify(result, node, arg.span)
                continue
            self.want(arg, kind, f"argument {position + 1} of `{term.functor}`")
        return result

    def cast(self, term: Call) -> _Node:
        inner, name = term.args
        node = self.term(inner)
        named = name.value if isinstance(name, Const) else ""
        try:
            base = self.program.base_type(str(named))
        except KeyError:
            close = suggest(str(named), [*_ORDER, *(t.name for t in self.program.types)])
            self.found.append(
                Diagnostic(
                    "DF113",
                    f"there is no type `{named}`",
                    name.span,
                    f"did you mean `{close}`?" if close else f"base types: {' '.join(_ORDER)}",
                )
            )
            return _Node("as", _CLASSES["any"], "`as`")
        kind = "symbol" if base == "symbol" else "numeric"
        self.unify(node, _Node("", _CLASSES[kind], f"what `as(.., {named})` takes"), inner.span)
        return _Node("as", _CLASSES[base], f"`as(.., {named})`")

    def formula(self, formula: Formula) -> None:
        if isinstance(formula, Atom):
            for arg, (name, kind) in zip(formula.args, self.schemas[formula.relation], strict=True):
                self.want(arg, kind, f"column `{name}` of `{formula.relation}`")
        elif isinstance(formula, Comparison):
            if formula.op in CONSTRAINTS:
                self.want(formula.left, "symbol", f"what `{formula.op}` takes")
                self.want(formula.right, "symbol", f"what `{formula.op}` takes")
            else:
                span = formula.span
                self.unify(self.term(formula.left), self.term(formula.right), span)
        elif isinstance(formula, Not):
            self.formula(formula.body)
        else:
            for part in formula.parts:
                self.formula(part)


def schemas_of(program: Program) -> Schemas:
    """Column names and base types of every relation. Raises KeyError for an unknown type."""
    return {
        relation.name: tuple((a.name, program.base_type(a.type)) for a in relation.attributes)
        for relation in program.relations
    }


def infer(program: Program, schemas: Schemas, rule: Rule) -> tuple[Typed, tuple[Diagnostic, ...]]:
    """The types of one rule, and what does not fit (DF112, DF113, DF115, DF120, DF121).

    `schemas` is `schemas_of(program)`; the rule's relations must be in it with the right arity.
    Near linear in the rule.
    """
    plain = _plain_fact(schemas, rule) if rule.is_fact else None
    if plain is not None:
        return Typed(plain, {}), ()
    inference = _Inference(program, schemas, rule.span)
    lifted = map_rule(rule, inference.lift)
    for head in lifted.heads:
        inference.formula(head)
    inference.formula(lifted.body)
    typed = map_rule(lifted, inference.drop)
    variables = {
        name: inference.chosen(node)
        for name, node in inference.variables.items()
        if name not in inference.constants
    }
    return Typed(typed, variables), tuple(inference.found)


def _plain_fact(schemas: Schemas, rule: Rule) -> Rule | None:
    """A fact of fitting constants, typed without inference: 4 times faster on fact lists."""
    heads: list[Atom] = []
    for head in rule.heads:
        args: list[Term] = []
        for arg, (_, kind) in zip(head.args, schemas[head.relation], strict=True):
            if not isinstance(arg, Const) or arg.type not in (None, kind):
                return None
            value = arg.value
            if kind in RANGES:
                if not isinstance(value, int) or not RANGES[kind][0] <= value <= RANGES[kind][1]:
                    return None
            elif kind == "symbol":
                if not isinstance(value, str):
                    return None
            elif isinstance(value, str):
                return None
            else:
                value = float(value)
            args.append(Const(value, kind, arg.span))
        heads.append(Atom(head.relation, tuple(args), head.span))
    return Rule(tuple(heads), rule.body, rule.span)


def term_type(term: Term, variables: Mapping[str, BaseType], program: Program) -> BaseType:
    """The base type of a term of a `Typed` rule. Wildcards have none: KeyError."""
    if isinstance(term, Var):
        return variables[term.name]
    if isinstance(term, Const):
        if term.type is None:
            raise KeyError(f"constant {term.value} without a type: not from a Typed rule")
        return term.type
    if isinstance(term, Call):
        if term.functor == "as":
            named = term.args[1]
            assert isinstance(named, Const)  # noqa: S101  the parser's and the checker's shape
            return program.base_type(str(named.value))
        result = SIGNATURES[term.functor].result
        if result in _ORDER:
            return result
        return term_type(term.args[0], variables, program)
    if isinstance(term, Aggregate):
        if term.op == "mean":
            return "float"
        return "number" if term.target is None else term_type(term.target, variables, program)
    raise KeyError("`_` has no type of its own")
