"""The rules of a workload as data, and their spelling for each family of peers.

Lives here: a reader for plain positive rules (`head(x) :- body(x, y), …`, variables only), and
printers to Datalog (deltafix, Soufflé, FlowLog), to tabled Prolog and to ASP (clingo).
Invariant: every printed form has the same least model. Not here: negation, constants, arithmetic;
no workload needs them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Atom", "Rule", "RuleSet", "read_rules"]

_ATOM = re.compile(r"(\w+)\(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class Atom:
    """`relation(args)`; every argument is a variable name."""

    relation: str
    args: tuple[str, ...]

    def show(self, upper: bool = False) -> str:
        """The atom as text; `upper` capitalises variables, as Prolog and ASP want them."""
        args = (a.upper() if upper else a for a in self.args)
        return f"{self.relation}({', '.join(args)})"


@dataclass(frozen=True, slots=True)
class Rule:
    """`head :- body.` with at least one body atom."""

    head: Atom
    body: tuple[Atom, ...]

    def show(self, upper: bool = False) -> str:
        """The rule as text, with its full stop."""
        return f"{self.head.show(upper)} :- {', '.join(a.show(upper) for a in self.body)}."


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Relations with their arity, which of them are given, which are asked for, and the rules."""

    arity: dict[str, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rules: tuple[Rule, ...]

    @property
    def derived(self) -> tuple[str, ...]:
        """Relations with at least one rule, in order of first appearance."""
        return tuple(dict.fromkeys(rule.head.relation for rule in self.rules))

    def datalog(self, number: str = "number", io: str = "") -> str:
        """Soufflé's dialect; `io` is put into the brackets of `.input` and `.output`."""
        lines = []
        for name, arity in self.arity.items():
            columns = ", ".join(f"c{i}: {number}" for i in range(arity))
            lines.append(f".decl {name}({columns})")
        lines += [f".input {name}{io}" for name in self.inputs]
        lines += [f".output {name}{io}" for name in self.outputs]
        lines += [rule.show() for rule in self.rules]
        return "\n".join(lines) + "\n"

    def prolog(self, given: str = "given_") -> str:
        """Tabled predicates for derived relations; given rows live in `given_<relation>`."""
        lines = []
        for rule in self.rules:
            body = tuple(
                a if a.relation in self.derived else Atom(given + a.relation, a.args)
                for a in rule.body
            )
            lines.append(Rule(rule.head, body).show(upper=True))
        for name in self.derived:
            if name in self.inputs:
                args = tuple(f"c{i}" for i in range(self.arity[name]))
                lines.append(Rule(Atom(name, args), (Atom(given + name, args),)).show(upper=True))
        return "\n".join(lines) + "\n"

    def asp(self) -> str:
        """Rules for a grounder; facts are added by the caller."""
        shown = [f"#show {name}/{self.arity[name]}." for name in self.outputs]
        return "\n".join([rule.show(upper=True) for rule in self.rules] + shown) + "\n"


def read_rules(text: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> RuleSet:
    """Read one rule per line (blank lines are skipped). Arities are taken from use.

    Raises:
        ValueError: a line is not a rule, or a relation is used with two arities.
    """
    rules: list[Rule] = []
    arity: dict[str, int] = {}
    for line in filter(None, (raw.strip() for raw in text.splitlines())):
        atoms = tuple(
            Atom(m[1], tuple(a.strip() for a in m[2].split(","))) for m in _ATOM.finditer(line)
        )
        if len(atoms) < 2 or ":-" not in line:
            raise ValueError(f"not a rule: {line!r}; expected `head(x) :- body(x).`")
        for atom in atoms:
            if arity.setdefault(atom.relation, len(atom.args)) != len(atom.args):
                raise ValueError(f"{atom.relation} is used with two arities in {line!r}")
        rules.append(Rule(atoms[0], atoms[1:]))
    return RuleSet(arity, inputs, outputs, tuple(rules))
