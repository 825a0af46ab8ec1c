"""Rules as they were written, where inlining and demand have rewritten them to run.

Demand copies relations and guards rules (`rules.passes.magic`), inlining makes variables of its own
(`rules.passes.inline`). Invariant: what is given back can be read as a rule over the program's
relations, and says what the rule that runs says, its guard aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from deltafix.rules.apart import plain_name
from deltafix.rules.ast import And, Atom, Formula, Program, Rule, conjunction
from deltafix.rules.show import show_formula, show_rule, show_term
from deltafix.rules.terms import Term, Var
from deltafix.rules.walk import Leaf, map_rule, occurrences


def as_written(relation: str) -> str:
    """The name of the relation that a copy was made of."""
    return relation.split("{", 1)[0].removeprefix("?")


def written_rules(program: Program, run: Program) -> list[str]:
    """The text of each rule of the program that runs, in its order."""
    if run is program:
        return [show_rule(rule) for rule in program.rules]
    return [_shown(rule) for rule in run.rules]


def _shown(rule: Rule) -> str:
    (head, *_), written = rule.heads, _written(rule)
    if not head.relation.startswith("?"):
        return show_rule(written)
    # The columns that are known when rows are asked for; of the others nothing is said.
    known = iter(map(show_term, written.heads[0].args))
    marks = head.relation.rsplit("{", 1)[1].removesuffix("}")
    args = ", ".join(next(known) if mark == "b" else "_" for mark in marks)
    asked = f"demand for {as_written(head.relation)}({args})"
    return f"{asked}." if rule.is_fact else f"{asked} :- {show_formula(written.body)}."


def _written(rule: Rule) -> Rule:
    heads = tuple(map(_atom, rule.heads))
    parts = rule.body.parts if isinstance(rule.body, And) else (rule.body,)
    body = conjunction(tuple(_unguarded(parts)))
    bare = Rule(heads, body, rule.span)
    names = _names(occurrences((*heads, body)))

    def leaf(term: Leaf) -> Term:
        return Var(names[term.name]) if isinstance(term, Var) else term

    return map_rule(bare, leaf)


def _unguarded(parts: Iterable[Formula]) -> Iterable[Formula]:
    for part in parts:
        if not isinstance(part, Atom):
            yield part
        elif not part.relation.startswith("?"):
            yield _atom(part)


def _atom(atom: Atom) -> Atom:
    return replace(atom, relation=as_written(atom.relation))


def _names(found: Iterable[str]) -> Mapping[str, str]:
    """Names that can be written, different ones for different variables."""
    names: dict[str, str] = {}
    taken = set(found)
    for name in found:
        plain = plain_name(name).replace(".", "_")
        short, number = plain, 2
        while "'" in name and (short in taken or short == "_"):
            short, number = f"{plain}{number}", number + 1
        names[name] = short
        taken.add(short)
    return names
