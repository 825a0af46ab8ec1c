"""The rules that one program has and another has not, as text.

Invariant: a rule that only has another name, other variables or another order of its body, as
`recognise.same_rule` says, is in both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeAlias

from deltafix.plan.recognise import same_rule
from deltafix.rules.ast import Dominates, Program, Rule
from deltafix.rules.show import show_order, show_rule

Said: TypeAlias = Rule | Dominates
"""A rule or a subsumption."""


class RuleChange(NamedTuple):
    """A rule or subsumption, as text, that came (`sign` 1) or went (-1)."""

    sign: int
    rule: str

    def __str__(self) -> str:
        return f"rule {'+' if self.sign > 0 else '-'}{self.rule}"


def rule_changes(old: Program, new: Program) -> dict[RuleChange, Said]:
    """The rules of only one of two programs, without their names, by what became of them.

    Linear in the programs, and quadratic in the rules that differ.
    """
    found: dict[RuleChange, Said] = {}
    for sign, one, other in ((-1, old, new), (1, new, old)):
        shown, others = _shown(one), _shown(other)
        rest = [rule for text, rule in others.items() if text not in shown]
        for text, rule in shown.items():
            if text not in others and not any(same_rule(rule, like) for like in rest):
                found[RuleChange(sign, text)] = rule
    return found


def _shown(program: Program) -> dict[str, Said]:
    found: dict[str, Said] = {}
    for rule in program.rules:
        bare = replace(rule, name="")
        found[show_rule(bare)] = bare
    for order in program.orders:
        plain = replace(order, name="")
        found[show_order(plain)] = plain
    return found
