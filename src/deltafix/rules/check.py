"""Everything that must hold of a program before it is planned, as a pipeline of checks.

Invariant: `check` never raises and always gives the same diagnostics in the same order; `typed`
gives a `CheckedProgram` only when there is no error. Checks that need sound names run after the
names were found sound. Severity `warning` refuses nothing.

Codes: DF110 undeclared, DF111 declared twice, DF112 arity, DF113 type name, DF114 directive,
DF115 functor, DF116 directive given twice, DF120 types (also `rules.subtypes`), DF121 range, DF130
ungrounded, DF131 `_`, DF132 fact with variable, DF133 too many alternatives, DF140 strata, DF150
and DF151 constructors, DF153 to DF156 what a relation keeps of its rows, DF157 user functors, DF158
`autoinc`; warnings: DF160, DF165 and DF166 (`cautions`), DF164 two relations that negate each
other.

Records of a width that no type has are only compared (`[x, y] = [1, z]`): they are equal where
their fields are, and need no type.

Warnings refuse nothing: a variable used once, a pattern that is no regular expression, an answer
that follows the order in which symbols or rows came.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from types import MappingProxyType
from weakref import WeakValueDictionary

from deltafix.diagnostics import Diagnostic, did_you_mean, render_all
from deltafix.errors import ProgramError
from deltafix.rules import ast, walk, whole
from deltafix.rules.apart import apart, plain_name
from deltafix.rules.autoinc import AUTOINC, check_autoinc
from deltafix.rules.declarations import check_declarations
from deltafix.rules.infer import Typed, infer
from deltafix.rules.logical import erased
from deltafix.rules.passes.hints import check_hints, inline_names
from deltafix.rules.passes.inline import inlined
from deltafix.rules.regex import RegexError, compile_regex
from deltafix.rules.schemas import schemas_of
from deltafix.rules.scope import check_scope
from deltafix.rules.show import show_formula
from deltafix.rules.strata import (
    Stratum,
    dependencies,
    recursive_relations,
    strata,
    unstratified,
)
from deltafix.rules.subtypes import Subtypes
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var, Wildcard
from deltafix.rules.witness import with_local_results, with_witnesses

_COUNT = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """A program without errors, with what the checks found out, for the planner.

    It is without logical types (`rules.logical`). `rules[i]` is `program.rules[i]` with a type on
    every constant, one name for one variable (`rules.apart`), and the base type of each of its
    variables. `strata` are dependencies first; every relation is in exactly one. `orders[i]` is
    `program.orders[i].rule`, typed likewise.
    """

    program: ast.Program
    rules: tuple[Typed, ...]
    strata: tuple[Stratum, ...]
    orders: tuple[Typed, ...] = ()


def check(program: ast.Program) -> tuple[Diagnostic, ...]:
    """Every error and warning of a program, in text order."""
    return looked_at(program)[0]


def looked_at(program: ast.Program) -> tuple[tuple[Diagnostic, ...], tuple[Typed, ...]]:
    """Every error and warning of a program, and what its rules were found to be; none with errors.

    `typed` does not look at these again for as long as that is held.
    """
    diagnostics, rules, _, _ = _run(program)
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        return diagnostics, ()
    now = _Around(program)
    pairs = zip(program.rules, rules, strict=True)
    return diagnostics, tuple(now.note(rule, typed_rule) for rule, typed_rule in pairs)


def typed(program: ast.Program) -> CheckedProgram:
    """The program with its types and strata. Raises ProgramError with every error found.

    A rule, this very object, is looked at once for as long as a checked program that has it is
    there, in all programs that declare the same of what it names.
    """
    if program.fed:
        raise ProgramError(
            f"collections feed {', '.join(map(repr, program.fed))} of this program: run it by "
            "deltafix.reactive.fixpoint(program), which follows them"
        )
    now = _Around(program)
    known = {id(rule): before for rule in program.rules if (before := now.recall(rule)) is not None}
    diagnostics, rules, orders, strata_found = _run(program, known, warns=False)
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
    if errors:
        sources = {} if program.source is None else {program.path: program.source}
        raise ProgramError(render_all(errors, sources), errors)
    noted = [known.get(id(r)) or now.note(r, t) for r, t in zip(program.rules, rules, strict=True)]
    calls = (name for typed_rule in (*noted, *orders) for name in typed_rule.logical)
    plain = erased(program, [typed_rule.rule for typed_rule in noted], calls)
    return CheckedProgram(plain, tuple(noted), strata_found, orders)


_TYPED: WeakValueDictionary[int, Typed] = WeakValueDictionary()
"""By the identity of the rule, which what is found holds."""


class _Around:
    """What a program says that a rule's types and names depend on.

    The relations and functors that the rule names, their types, and what it does not name:
    lattices, pragmas, and for a rule that makes values or takes them apart all types. A rule that
    was found sound names none that were not declared.
    """

    def __init__(self, program: ast.Program) -> None:
        self.rest = program.lattices, program.pragmas
        self.declared: dict[str, object] = {
            f"@{functor.name}": functor for functor in program.functors
        }
        self.declared |= {f"<{declared.name}>": declared for declared in reversed(program.types)}
        self.declared |= {relation.name: relation for relation in reversed(program.relations)}
        self.declared[_TYPES] = program.types

    def recall(self, rule: ast.Rule) -> Typed | None:
        """What the rule was found to be where the same was said of it. O(what it names)."""
        noted = _TYPED.get(id(rule))
        if noted is None or noted.source is not rule or noted.around != self.rest:
            return None
        alike = all(
            self.declared.get(name) == declaration for name, declaration in noted.declared.items()
        )
        return noted if alike else None

    def _is_declared(self, kind: str) -> bool:
        """Whether it is none of the language's types, which say the same in all programs."""
        return f"<{kind}>" in self.declared

    def note(self, rule: ast.Rule, typed_rule: Typed) -> Typed:
        """The same, to be found."""
        declared: dict[str, object] = {}
        left = list(_named(rule))
        while left:
            name = left.pop()
            if name not in declared:
                declared[name] = declaration = self.declared[name]
                left += (f"<{kind}>" for kind in _types_in(declaration) if self._is_declared(kind))
        noted = replace(typed_rule, source=rule, declared=declared, around=self.rest)
        _TYPED[id(rule)] = noted
        return noted


_TYPES = "<>"


def _types_in(declared: object) -> Iterator[str]:
    """The types that a declaration names."""
    match declared:
        case ast.RelationDecl(_, fields):
            yield from (attribute.type for attribute in fields)
        case ast.FunctorDecl(_, fields, result):
            yield from (*(attribute.type for attribute in fields), result)
        case ast.TypeDecl(_, base, parents, branches):
            yield from (base, *parents) if base != "record" else parents
            yield from (attribute.type for branch in branches for attribute in branch.fields)


def _named(rule: ast.Rule) -> set[str]:
    """The relations that a rule names, functors with their `@`, and whether it is about types."""
    names = {atom.relation for part in (*rule.heads, rule.body) for atom, _ in walk.uses(part)}
    names |= {part.op[1:] for part in rule.aggregates if part.op.startswith("@@")}
    for functor in rule.calls:
        if functor[0] == "@":
            names.add(functor)
        elif functor[0] in "[$" or functor == "as":
            names.add(_TYPES)
    return names


def _run(
    program: ast.Program, known: Mapping[int, Typed] = MappingProxyType({}), *, warns: bool = True
) -> tuple[tuple[Diagnostic, ...], tuple[Typed, ...], tuple[Typed, ...], tuple[Stratum, ...]]:
    diagnostics = [*check_declarations(program), *_directives(program), *check_hints(program)]
    inlines = bool(inline_names(program))
    arity = {relation.name: relation.arity for relation in program.relations}
    sound = not any(item.code == "DF113" for item in diagnostics)
    schemas = schemas_of(program) if sound else None
    types: list[Typed] = []
    orders: list[Typed] = []
    unnamed = set[int]()  # rules that name what is not declared
    subtypes = Subtypes(program) if schemas is not None else None
    widths = frozenset(
        len(branch.fields)
        for declared in program.types
        for branch in declared.branches
        if not branch.name
    )
    for rule, typed_rules in (
        *((rule, types) for rule in program.rules),
        *((order.rule, orders) for order in program.orders),
    ):
        if id(rule) in known:
            typed_rules.append(known[id(rule)])
            continue
        wrong = [*_names(rule, arity)]
        kept = rule
        if not wrong and not rule.is_fact:
            stuck: tuple[whole.Stuck, ...] = ()
            kept = apart(by_fields(rule, widths))
            if typed_rules is types:
                kept, stuck = whole.keep_whole(kept)
            wrong.extend(_sizes(kept, stuck))
        diagnostics.extend(wrong)
        if wrong:
            if any(item.code == "DF110" for item in wrong):
                unnamed.add(id(rule))
            continue
        written = with_local_results(kept)
        one_name = with_witnesses(written)
        if not inlines or typed_rules is orders:
            diagnostics.extend(check_scope(one_name))
        if warns:
            diagnostics.extend(cautions(written))
        if schemas is not None:
            typed_rule, mismatches = infer(program, schemas, one_name)
            typed_rules.append(typed_rule)
            diagnostics.extend(mismatches)
            if subtypes is not None and not mismatches:
                diagnostics.extend(subtypes.check(typed_rule.rule))
    if inlines and not any(item.severity == "error" for item in diagnostics):
        diagnostics.extend(_inlined(program, types))
    order: tuple[Stratum, ...] = ()
    if unnamed:  # what the others say of each other holds all the same
        rest = replace(
            program,
            rules=tuple(rule for rule in program.rules if id(rule) not in unnamed),
            orders=tuple(order for order in program.orders if id(order.rule) not in unnamed),
        )
        diagnostics.extend(unstratified(rest, dependencies(rest)))
    else:
        edges = dependencies(program)
        order = strata(program, edges)
        diagnostics.extend(unstratified(program, edges, order))
        diagnostics.extend(check_autoinc(program, order))
        diagnostics.extend(_limits(program, order))
        diagnostics.extend(_multiplied(program, order, types))
    refused = {item.span for item in diagnostics if item.severity == "error"}
    diagnostics = [
        item for item in diagnostics if item.severity == "error" or item.span not in refused
    ]
    diagnostics.sort(key=lambda item: (item.span.line, item.span.column) if item.span else (0, 0))
    return tuple(dict.fromkeys(diagnostics)), tuple(types), tuple(orders), order


def _inlined(program: ast.Program, rules: list[Typed]) -> Iterator[Diagnostic]:
    """What is wrong once inline relations are written out: only then are values to be had."""
    run, refused = inlined(program, [typed_rule.rule for typed_rule in rules])
    yield from refused
    for rule in run.rules:
        kept, stuck = whole.keep_whole(rule)
        too_many = list(_sizes(kept, stuck))
        yield from too_many or check_scope(kept)


def _directives(program: ast.Program) -> Iterator[Diagnostic]:
    names = [relation.name for relation in program.relations]
    known = set(names)
    once: set[tuple[str, str]] = set()
    for directive in program.directives:
        which = (directive.kind, directive.relation)
        if directive.kind in ("printsize", "limitsize"):
            if which in once:
                message = f".{directive.kind} is given twice for `{directive.relation}`"
                yield Diagnostic("DF116", message, directive.span, "remove one of them")
            once.add(which)
        if directive.relation not in known:
            message = f".{directive.kind} names the undeclared relation `{directive.relation}`"
            yield Diagnostic("DF114", message, directive.span, _declare(directive.relation, names))
        elif directive.kind == "limitsize" and not (
            set(directive.parameters) == {"n"} and _COUNT.fullmatch(directive.parameters["n"])
        ):
            message = ".limitsize wants the greatest number of rows"
            hint = f"write `.limitsize {directive.relation}(n=1000)`"
            yield Diagnostic("DF114", message, directive.span, hint)


def _limits(program: ast.Program, order: tuple[Stratum, ...]) -> Iterator[Diagnostic]:
    """A warning for each limit that limits nothing, as in Soufflé."""
    recursive = recursive_relations(order)
    for directive in program.directives:
        if directive.kind == "limitsize" and directive.relation not in recursive:
            message = f".limitsize has no effect: `{directive.relation}` is not recursive"
            hint = "bound all rows with `max_rows`, or remove the line"
            yield Diagnostic("DF159", message, directive.span, hint, "warning")


def _declare(name: str, names: list[str]) -> str:
    return did_you_mean(name, names, f"declare it: `.decl {name}(...)`")


def _names(rule: ast.Rule, arity: dict[str, int]) -> Iterator[Diagnostic]:
    atoms: list[ast.Atom] = [atom for head in rule.heads for atom, _ in walk.uses(head)]
    atoms.extend(atom for atom, _ in walk.uses(rule.body))
    for atom in atoms:
        wanted = arity.get(atom.relation)
        if wanted is None:
            yield Diagnostic(
                "DF110",
                f"relation `{atom.relation}` is not declared",
                atom.span,
                _declare(atom.relation, list(arity)),
            )
        elif wanted != len(atom.args):
            plural = "" if wanted == 1 else "s"
            yield Diagnostic(
                "DF112",
                f"`{atom.relation}` has {wanted} column{plural}, {len(atom.args)} given",
                atom.span,
                f"write `{atom.relation}({', '.join('_' * wanted)})` with your arguments",
            )


def _sizes(rule: ast.Rule, stuck: tuple[whole.Stuck, ...] = ()) -> Iterator[Diagnostic]:
    """Whether a rule whose disjunctions stay whole where they can has too many alternatives."""
    bodies = [rule.body, *whole.groups(rule.body), *map(walk.body_of, rule.aggregates)]
    if all(walk.count_alternatives(body) <= walk.MAX_ALTERNATIVES for body in bodies):
        return
    message = f"a body has more than {walk.MAX_ALTERNATIVES:,} alternatives"
    if stuck:
        case, missing = stuck[0]
        names = " and ".join(f"`{plain_name(name)}`" for name in sorted(missing))
        message += f", and `{show_formula(case)}` cannot stand alone"
        if names:
            message += f": it gives no value to {names}"
    yield Diagnostic("DF133", message, rule.span, "name a disjunction with a relation of its own")


def _multiplied(
    program: ast.Program, order: tuple[Stratum, ...], rules: list[Typed]
) -> Iterator[Diagnostic]:
    """The rules that have too many alternatives where recursion has them written out."""
    recursions = whole.Recursions(program, order)
    for typed_rule in rules if recursions.home else ():
        if whole.is_marked(typed_rule.rule.body) and recursions.multiply(typed_rule.rule):
            yield from _sizes(
                replace(typed_rule.rule, body=whole.written_out(typed_rule.rule.body))
            )


_ANONYMOUS = "[]"
"""What makes a record whose type is not said."""


def by_fields(rule: ast.Rule, widths: AbstractSet[int]) -> ast.Rule:
    """The rule with comparisons of such records written out; `widths` are those of the types."""
    if _ANONYMOUS not in rule.calls:
        return rule
    body = _compared(rule.body, widths)
    heads = tuple(
        replace(head, args=tuple(_term(arg, widths) for arg in head.args)) for head in rule.heads
    )
    same = (heads, body) == (rule.heads, rule.body)
    return rule if same else replace(rule, heads=heads, body=body)


def _compared(formula: ast.Formula, widths: AbstractSet[int]) -> ast.Formula:
    if isinstance(formula, ast.Not):
        return replace(formula, body=_compared(formula.body, widths))
    if isinstance(formula, ast.And):
        return ast.conjunction((_compared(part, widths) for part in formula.parts), formula.span)
    if isinstance(formula, ast.Or):
        return ast.disjunction((_compared(part, widths) for part in formula.parts), formula.span)
    if not isinstance(formula, ast.Comparison):
        return replace(formula, args=tuple(_term(arg, widths) for arg in formula.args))
    left, right = _term(formula.left, widths), _term(formula.right, widths)
    if not (_is_anonymous(left, widths) and _is_anonymous(right, widths)):
        return replace(formula, left=left, right=right)
    assert isinstance(left, Call)  # noqa: S101  `_is_anonymous`
    assert isinstance(right, Call)  # noqa: S101  `_is_anonymous`
    if formula.op not in ("=", "!=") or len(left.args) != len(right.args):
        return replace(formula, left=left, right=right)
    pairs = [
        _compared(ast.Comparison(formula.op, mine, theirs, formula.span), widths)
        for mine, theirs in zip(left.args, right.args, strict=True)
        if not isinstance(mine, Wildcard) and not isinstance(theirs, Wildcard)
    ]
    return (ast.conjunction if formula.op == "=" else ast.disjunction)(pairs, formula.span)


def _is_anonymous(term: Term, widths: AbstractSet[int]) -> bool:
    return isinstance(term, Call) and term.functor == _ANONYMOUS and len(term.args) not in widths


def _term(term: Term, widths: AbstractSet[int]) -> Term:
    """Bodies of aggregates inside a term."""
    if isinstance(term, Aggregate):
        return replace(term, body=_compared(walk.body_of(term), widths))
    if isinstance(term, Call):
        return replace(term, args=tuple(_term(arg, widths) for arg in term.args))
    return term


def cautions(rule: ast.Rule) -> Iterator[Diagnostic]:
    """The warnings of one rule whose names are sound. Linear in the rule."""
    if not rule.is_fact:
        yield from _unused(rule)
    for formula in (*rule.heads, rule.body):
        yield from _surprises(formula)


def _unused(rule: ast.Rule) -> Iterator[Diagnostic]:
    total = walk.occurrences((*rule.heads, rule.body))
    for term in walk.terms_of(rule.body):
        for part in walk.subterms(term):
            if isinstance(part, Var) and total[part.name] == 1 and not part.name.startswith("_"):
                name = plain_name(part.name)
                yield Diagnostic(
                    "DF160",
                    f"variable `{name}` occurs only once",
                    part.span,
                    f"write `_`, or `_{name}` to keep the name",
                    "warning",
                )


def _surprises(formula: ast.Formula) -> Iterator[Diagnostic]:
    if isinstance(formula, ast.Not):
        yield from _surprises(formula.body)
    elif isinstance(formula, (ast.And, ast.Or)):
        for part in formula.parts:
            yield from _surprises(part)
    elif isinstance(formula, ast.Atom):
        for arg in formula.args:
            yield from _in_term(arg)
    else:
        yield from _in_comparison(formula)


def _in_comparison(test: ast.Comparison) -> Iterator[Diagnostic]:
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
        yield from _surprises(walk.body_of(term))


def _is_ord(term: Term) -> bool:
    return isinstance(term, Call) and term.functor == "ord"
