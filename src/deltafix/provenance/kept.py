"""Why a row stands in a relation that does more than keep what is derived for it, in words.

Invariant: what is said follows from the declaration and the row alone, so it is the same inside
recursion and outside. Which rows a row stands against is `rivals`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from deltafix.facts.schema import Row
from deltafix.facts.values import Branch, show_value
from deltafix.provenance.words import Words
from deltafix.rules.show import show_formula
from deltafix.rules.terms import Const, Term, Var
from deltafix.rules.walk import Leaf, map_formula

_BETTER: Final = {"min": "<", "max": ">"}


def made(words: Words, relation: str, row: Row, *, says_more: bool = False) -> str:
    """How a relation makes a row of others derived for it; `says_more`: their join may be more."""
    if words.keeps[relation] == "eqrel":
        return f"{words.names[relation]} is an equivalence relation"
    joined = f"join of what is derived or given for {_keyed(words, relation, row)}"
    return f"no more than the {joined}" if says_more else joined


def stands(words: Words, relation: str, row: Row) -> tuple[list[str], list[str]]:
    """Why a row stands against those it competes with: what is absent, and what else is so."""
    kind = words.keeps.get(relation)
    if kind == "choice-domain":
        return [], list(_chosen(words, relation, row))
    if kind == "lattice columns":
        return list(_unbeaten(words, relation, row)), []
    if kind == "subsumption":
        return list(_undominated(words, relation, row)), []
    return [], []


def _chosen(words: Words, relation: str, row: Row) -> Iterator[str]:
    declared = words.run.relation(relation)
    names = [attribute.name for attribute in declared.attributes]
    for domain in declared.choices:
        key = (f"{name} = {show_value(row[names.index(name)])}" for name in domain)
        yield f"chosen for {', '.join(key)}"


def _unbeaten(words: Words, relation: str, row: Row) -> Iterator[str]:
    declared = words.run.relation(relation)
    for column in declared.joined:
        join, name = declared.attributes[column].join, declared.attributes[column].name
        if join in _BETTER:
            shown = _keyed(words, relation, row, column)
            yield f"nothing gives {shown} with {name} {_BETTER[join]} {show_value(row[column])}"


def _keyed(words: Words, relation: str, row: Row, shown: int = -1) -> str:
    """A row's key as an atom, with the name of one joined column."""
    declared = words.run.relation(relation)
    args = []
    for place, attribute in enumerate(declared.attributes):
        if place in declared.joined:
            args.append(attribute.name if place == shown else "_")
        else:
            args.append(show_value(row[place]))
    return f"{words.names[relation]}({', '.join(args)})"


def _undominated(words: Words, relation: str, row: Row) -> Iterator[str]:
    for order in words.run.orders:
        if order.less.relation != relation:
            continue
        known = {
            arg.name: Const(value)
            for arg, value in zip(order.less.args, row, strict=True)
            if isinstance(arg, Var) and not isinstance(value, tuple | Branch)
        }

        def leaf(term: Leaf, known: dict[str, Const] = known) -> Term:
            return known.get(term.name, term) if isinstance(term, Var) else term

        more = show_formula(map_formula(order.more, leaf))
        test = show_formula(map_formula(order.body, leaf))
        yield f"nothing gives another {more}{'' if test == 'true' else f' with {test}'}"
