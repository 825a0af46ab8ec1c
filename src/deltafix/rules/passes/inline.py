"""Inlining: an atom of an `inline` relation becomes what the relation's rules say.

`a(x) :- p(x), r(x, 3).` with `r(u, v) :- q(u, w), w < v.` becomes `a(x) :- p(x), q(x, w), w < 3.`;
several rules become alternatives. Under `!` the rules' own variables are existential, so the group
says the same as the atom. In an aggregate that counts its rows, only a relation whose rows are its
rule's bindings one to one can be inlined. Invariant: every other relation has the same rows; the
inlined ones are gone, rules and all. A rule need not ground its head: the atom does.

DF184: an inline relation that is read or written as a whole, needs itself, or is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from deltafix.diagnostics import Diagnostic, Span
from deltafix.rules import ast, walk
from deltafix.rules.apart import own_names, plain_name
from deltafix.rules.passes.hints import inline_names
from deltafix.rules.strata import components
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var, Wildcard

MAX_LITERALS: Final = 10_000
"""Literals of one rule after inlining."""

_MAX_LEVELS: Final = 32
_SELECTIVE: Final = ("min", "max")


class _Refusal(Exception):  # noqa: N818  raised and caught in this module
    def __init__(self, message: str, span: Span | None, hint: str) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic("DF184", message, span, hint)


def inlined(
    program: ast.Program, rules: Sequence[ast.Rule]
) -> tuple[ast.Program, tuple[Diagnostic, ...]]:
    """The program without its `inline` relations; `rules` are its rules with typed constants.

    What cannot be inlined is reported, and its rule left out.
    """
    names = inline_names(program)
    if not names:
        return replace(program, rules=tuple(rules)), ()
    diagnostics = list(_refused(program, names))
    order, cyclic = _ordered(program, rules, names)
    diagnostics.extend(cyclic)
    work = _Inliner(names)
    if not diagnostics:
        for name in order:
            try:
                work.define(name, rules)
            except _Refusal as refusal:
                diagnostics.append(refusal.diagnostic)
                break
    out: list[ast.Rule] = []
    for rule in rules if not diagnostics else ():
        heads = tuple(head for head in rule.heads if head.relation not in names)
        try:
            if heads:
                out.append(work.rule(replace(rule, heads=heads)))
        except _Refusal as refusal:
            diagnostics.append(refusal.diagnostic)
    relations = tuple(relation for relation in program.relations if relation.name not in names)
    return replace(program, relations=relations, rules=tuple(out)), tuple(diagnostics)


def _refused(program: ast.Program, names: frozenset[str]) -> Iterable[Diagnostic]:
    for relation in program.relations:
        kept = program.keeps(relation.name)
        if relation.name in names and kept:
            message = f"`{relation.name}` is inline and has {kept}: its rules do not say its rows"
            yield Diagnostic("DF184", message, relation.span, "remove `inline`")
    for order in program.orders:
        for atom, _ in walk.uses(order.body):
            if atom.relation in names:
                message = f"inline relation `{atom.relation}` stands in a subsumption"
                yield Diagnostic("DF184", message, atom.span, "remove `inline`")
    for directive in program.directives:
        if directive.relation in names:
            yield Diagnostic(
                "DF184",
                f"`{directive.relation}` is inline and has no rows for .{directive.kind}",
                directive.span,
                "remove `inline`, or name another relation with the same rows",
            )


def _ordered(
    program: ast.Program, rules: Sequence[ast.Rule], names: frozenset[str]
) -> tuple[list[str], list[Diagnostic]]:
    """The inline relations, those that others use first; and those that need themselves."""
    needed: dict[str, dict[str, None]] = {r.name: {} for r in program.relations if r.name in names}
    spans: dict[str, Span | None] = {}
    for rule in rules:
        atoms = [
            a for f in (*rule.heads, rule.body) for a, _ in walk.uses(f) if a.relation in names
        ]
        for head in rule.heads:
            if head.relation in names:
                used = {a.relation: a for a in atoms if a is not head}
                needed[head.relation].update(dict.fromkeys(used))
                spans.update({name: atom.span for name, atom in used.items()})
    order: list[str] = []
    diagnostics: list[Diagnostic] = []
    for members in components(needed):
        name = members[0]
        order.extend(members)
        if len(members) > 1 or name in needed[name]:
            message = f"inline relation `{name}` needs itself"
            if len(members) > 1:
                message += f", through `{'`, `'.join(members[1:])}`"
            hint = "remove `inline` from one of them: a recursive relation cannot be written out"
            diagnostics.append(Diagnostic("DF184", message, spans.get(name), hint))
    return order, diagnostics


class _Inliner:
    """Definitions of inline relations, already free of inline atoms, and their use."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.rules: dict[str, list[tuple[ast.Atom, ast.Formula]]] = {}
        self.sizes: dict[str, int] = {}
        self.levels: dict[str, int] = {}
        self.total: Counter[str] = Counter()
        self.fresh = 0
        self.size = 0
        self.level = 0

    def define(self, name: str, rules: Sequence[ast.Rule]) -> None:
        """Take in the rules of an inline relation whose own inline atoms are defined."""
        self.level = 0
        alternatives = []
        for rule in rules:
            for head in rule.heads:
                if head.relation == name:
                    written = self.rule(replace(rule, heads=(head,)))
                    alternatives.append((written.heads[0], written.body))
        self.rules[name] = alternatives
        self.sizes[name] = sum(1 + _size(body) for _, body in alternatives)
        self.levels[name] = self.level + 1

    def rule(self, rule: ast.Rule) -> ast.Rule:
        """The rule with every inline atom replaced."""
        self.size = _size(rule.body)
        if not any(
            a.relation in self.names for f in (*rule.heads, rule.body) for a, _ in walk.uses(f)
        ):
            return rule
        self.total = walk.occurrences((*rule.heads, rule.body))
        heads = tuple(replace(head, args=self.terms(head.args)) for head in rule.heads)
        return replace(rule, heads=heads, body=self.formula(rule.body, ""))

    def formula(self, formula: ast.Formula, counted: str) -> ast.Formula:
        """A body; `counted` names the aggregate, if any, that counts its rows."""
        if isinstance(formula, ast.Atom):
            atom = replace(formula, args=self.terms(formula.args))
            return self.expanded(atom, counted) if atom.relation in self.rules else atom
        if isinstance(formula, ast.Comparison):
            left, right = self.terms((formula.left, formula.right))
            return replace(formula, left=left, right=right)
        if isinstance(formula, ast.Not):
            inside = walk.occurrences(formula.body)
            alone = isinstance(formula.body, (ast.Atom, ast.Comparison))
            outside = {name for name, n in inside.items() if alone or self.total[name] > n}
            body = self.formula(formula.body, "")
            return replace(formula, body=_closed(body, outside))
        parts = [self.formula(part, counted) for part in formula.parts]
        if isinstance(formula, ast.And):
            return ast.conjunction(parts, formula.span)
        return ast.disjunction(parts, formula.span)

    def terms(self, terms: Iterable[Term]) -> tuple[Term, ...]:
        return tuple(self.term(term) for term in terms)

    def term(self, term: Term) -> Term:
        if isinstance(term, Call):
            return replace(term, args=self.terms(term.args))
        if not isinstance(term, Aggregate):
            return term
        target = None if term.target is None else self.term(term.target)
        body = self.formula(walk.body_of(term), "" if term.op in _SELECTIVE else term.op)
        return replace(term, target=target, body=body)

    def expanded(self, atom: ast.Atom, counted: str) -> ast.Formula:
        """What the rules of the atom's relation say of the atom's arguments."""
        name = atom.relation
        self.level = max(self.level, self.levels[name])
        self.size += self.sizes[name]
        if self.size > MAX_LITERALS or self.level >= _MAX_LEVELS:
            message = f"inlining `{name}` makes a rule of more than {MAX_LITERALS:,} literals"
            if self.level >= _MAX_LEVELS:
                message = f"inline relations use each other more than {_MAX_LEVELS} deep"
            raise _Refusal(message, atom.span, f"remove `inline` from `{name}`")
        definition = self.rules[name]
        if counted and not _one_to_one(definition):
            raise _Refusal(
                f"inline relation `{name}` is counted by `{counted}`, and its rules may find "
                "one row more than once",
                atom.span,
                "remove `inline`, or give it one rule whose variables all stand in its head",
            )
        return ast.disjunction(
            (self.instance(atom, *alternative) for alternative in definition), atom.span
        )

    def instance(self, atom: ast.Atom, head: ast.Atom, body: ast.Formula) -> ast.Formula:
        """One rule's body with the atom's arguments for the head's, other variables fresh."""
        self.fresh += 1
        names = walk.occurrences((head, body))
        given: dict[str, Term] = {
            name: Var(f"{plain_name(name)}'i{self.fresh}_{position}", atom.span)
            for position, name in enumerate(names)
        }
        equal: list[tuple[Term, Term]] = []
        seen: set[str] = set()
        pairs = list(zip(atom.args, head.args, strict=True))[::-1]
        while pairs:
            argument, wanted = pairs.pop()
            if walk.is_constructor(argument) and walk.is_constructor(wanted):
                left, right = _fields(argument), _fields(wanted)
                if left[0] != right[0] or len(left[1]) != len(right[1]):
                    return ast.disjunction((), atom.span)
                pairs.extend(reversed(list(zip(left[1], right[1], strict=True))))
            elif isinstance(wanted, Var) and wanted.name not in seen:
                seen.add(wanted.name)
                if isinstance(argument, (Var, Const)):
                    given[wanted.name] = argument
                elif not isinstance(argument, Wildcard):
                    equal.append((argument, wanted))
            elif not isinstance(argument, Wildcard):
                equal.append((argument, wanted))
            elif isinstance(wanted, (Call, Aggregate)):
                # A head without a value makes no row, whether or not its value is looked at.
                self.fresh += 1
                equal.append((Var(f"_'i{self.fresh}"), wanted))

        def leaf(term: walk.Leaf) -> Term:
            return given[term.name] if isinstance(term, Var) else term

        tests = [
            ast.Comparison("=", argument, walk.map_term(wanted, leaf), atom.span)
            for argument, wanted in equal
        ]
        return ast.conjunction((walk.map_formula(body, leaf), *tests), body.span)


def _fields(term: Term) -> tuple[str, tuple[Term, ...]]:
    """The constructor of a record or branch, and its fields."""
    assert isinstance(term, Call)  # noqa: S101  constructors are calls
    return term.functor, term.args


def _closed(body: ast.Formula, outside: set[str]) -> ast.Formula:
    """What stands under `!`: a lone literal with variables of its own becomes a group."""
    if not isinstance(body, (ast.Atom, ast.Comparison)):
        return body
    total = walk.occurrences(body)
    mine = [name for name in total if name not in outside]
    if isinstance(body, ast.Atom):
        lone = [Var(name) for name in mine if total[name] == 1]
        args = tuple(Wildcard(arg.span) if arg in lone else arg for arg in body.args)
        body = replace(body, args=args)
        mine = [name for name in walk.occurrences(body) if name in mine]
    tests = [ast.Comparison("=", Var(name), Var(name), body.span) for name in mine]
    return ast.conjunction((body, *tests), body.span)


def _one_to_one(definition: list[tuple[ast.Atom, ast.Formula]]) -> bool:
    """Whether every row of the relation is found by exactly one binding of its rule's body."""
    if len(definition) != 1:
        return False
    head, body = definition[0]
    plain = {arg.name for arg in head.args if isinstance(arg, Var)}
    wild = any(isinstance(term, Wildcard) for term in _positive_terms(body))
    return walk.count_alternatives(body) == 1 and own_names(body) <= plain and not wild


def _positive_terms(formula: ast.Formula) -> Iterable[Term]:
    if isinstance(formula, ast.Not):
        return ()
    if isinstance(formula, (ast.Atom, ast.Comparison)):
        return walk.terms_of(formula)
    return (term for part in formula.parts for term in _positive_terms(part))


def _size(formula: ast.Formula) -> int:
    """Literals of a body, those inside negations and aggregates too."""
    return sum(1 for _ in walk.uses(formula)) + sum(1 for _ in walk.terms_of(formula))
