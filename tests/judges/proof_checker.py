"""The judge of proofs: each step is replayed rule by rule by the naive evaluator.

It knows the program, the input rows and all rows that hold, and takes nothing else from the engine.
A step must cite a rule of the program that derives its fact from its premises alone, with one for
each atom of a plain body; what a rule negates is looked up in all that holds, and an aggregate must
have the same value over the premises as over all rows. A step without a rule is a given row, or
what a relation does with rows derived for it: an equivalence, a join. `heights` says how high the
lowest proof of each fact is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from types import MappingProxyType

from tests.judges.oracle import Keeper, evaluate
from tests.judges.oracle_keep import equivalence, lattice
from tests.judges.oracle_rules import Bindings, Case, Facts, Undefined, World
from tests.judges.oracle_scopes import cases_of, hoisted, own
from tests.judges.oracle_values import same

from deltafix.datalog.load import analyse
from deltafix.datalog.program import Program
from deltafix.facts.values import show_value
from deltafix.rules.ast import And, Atom, Comparison, Formula, Not, Rule
from deltafix.rules.show import show, show_rule
from deltafix.rules.terms import Aggregate, Const, Term, Var, Wildcard
from deltafix.rules.walk import uses

__all__ = ["INTERNAL", "Checker"]

INTERNAL = re.compile(r"~|\?[\w.]+\{|\$\d|\w'(?!s )|\{[bf]+\}|\bNone\b")
"""What no text shown to a user holds (the random programs' own symbols are letters)."""


SIGNS = ("<", "<=", ">", ">=", "!=")


class Replay(Case):
    """One alternative of a rule over some rows, with negation and aggregates over all rows."""

    def derived(self, some: Facts, everything: Facts) -> Iterator[tuple[str, tuple]]:
        self.everything = everything
        return self.derive(some)

    def holds(self, part: object, env: Bindings) -> Iterator[Bindings]:
        if not isinstance(part, Not):
            yield from super().holds(part, env)
            return
        some, self.facts = self.facts, self.everything
        try:
            found = list(super().holds(part, env))
        finally:
            self.facts = some
        yield from found

    def over_all(self, term: Aggregate, env: Bindings) -> tuple[list[Bindings], object]:
        """What an aggregate ranges over, and its value, over all rows."""
        some, self.facts = self.facts, self.everything
        try:
            return super().ranged(term, env), super().aggregate(term, env)
        finally:
            self.facts = some

    def aggregate(self, term: Aggregate, env: Bindings) -> object:
        ranged, value = self.over_all(term, env)
        if term.op in ("min", "max"):
            if not is_same(super().aggregate(term, env), value):
                raise Undefined
            return value
        mine = {frozenset(one.items()) for one in super().ranged(term, env)}
        if mine != {frozenset(one.items()) for one in ranged}:
            raise Undefined
        return value

    def witnessed(
        self, value: Term, term: Aggregate, env: Bindings, witnesses: frozenset[str]
    ) -> Iterator[Bindings]:
        outer = {name: found for name, found in env.items() if name not in witnesses}
        try:
            if not is_same(super().aggregate(term, outer), self.over_all(term, outer)[1]):
                return
        except Undefined:
            return
        yield from super().witnessed(value, term, env, witnesses)


def is_same(one: object, other: object) -> bool:
    """Whether values are equal, NaN to NaN too."""
    return (one,) == (other,)


def is_plain(part: Formula) -> bool:
    """Whether a part of a body is an atom of variables and constants, or compares such."""
    if isinstance(part, Comparison):
        return part.op != "=" and is_plain(Atom("", (part.left, part.right)))
    return isinstance(part, Atom) and all(isinstance(a, Var | Const | Wildcard) for a in part.args)


def stand_for(
    rows: list[tuple[str, tuple]], parts: tuple[Formula, ...], heads: set[str]
) -> Iterator[Bindings]:
    """What the variables may be if there is a row for each different atom.

    The rows come in the order of the atoms if all of these share a variable with the head.
    """
    atoms = list(dict.fromkeys(part for part in parts if isinstance(part, Atom)))
    if len(rows) != len(atoms):
        return
    in_order = all(own(atom) & heads for atom in atoms)
    orders = [rows] if in_order else permutations(rows)
    for chosen in orders:
        env = fit(list(zip(atoms, chosen, strict=True)))
        if env is not None:
            yield env


def fit(pairs: list[tuple[Atom, tuple[str, tuple]]]) -> Bindings | None:
    """What the variables are if each atom matches its row."""
    env: Bindings = {}
    for atom, (relation, row) in pairs:
        if atom.relation != relation:
            return None
        for arg, value in zip(atom.args, row, strict=True):
            if isinstance(arg, Var) and not same(env.setdefault(arg.name, value), value):
                return None
    return env


def compared(parts: tuple[Formula, ...], env: Bindings) -> set[str]:
    """What the comparisons of a plain body say, with the values put in."""
    said = set()
    for part in parts:
        if isinstance(part, Comparison) and part.op in SIGNS:
            sides = [
                env.get(s.name) if isinstance(s, Var) else s.value for s in (part.left, part.right)
            ]
            if all(isinstance(value, int | str) for value in sides):
                said.add(f"{show_value(sides[0])} {part.op} {show_value(sides[1])}")
    return said


class Checker:
    """Judges proofs over one state: `inputs` are its given rows, `facts` all its rows."""

    def __init__(
        self,
        program: Program,
        inputs: Facts,
        facts: Facts,
        functors: Mapping = MappingProxyType({}),
        reducers: Mapping = MappingProxyType({}),
    ) -> None:
        self.program, self.facts = program, facts
        self.inputs = {r.name: set(inputs.get(r.name, ())) for r in program.relations}
        self.world = World(program, functors, reducers)
        self.declarations = show(replace(program, rules=(), orders=(), directives=()))
        self.is_inlined = any("inline" in r.qualifiers for r in program.relations)
        self.is_rewritten = self.is_inlined or any(
            key.startswith("magic") for key, _ in program.pragmas
        )
        self.negates_itself = any("even" in r.name for r in program.relations)
        self._cases: dict[str, list[Replay]] = {}
        self._heights: dict[tuple[str, tuple], int] | None = None
        self._needed: dict[str, set[str]] | None = None

    @classmethod
    def of(cls, db, inputs: Facts, functors: Mapping, reducers: Mapping) -> Checker:
        """The judge of a database: its rows, and the oracle's of relations it does not keep."""
        facts = {name: set(db.rows(name)) for name in db.schemas}
        rest = [r.name for r in db.program.relations if r.name not in facts]
        if rest:
            recomputed = evaluate(db.program, inputs, functors=functors, reducers=reducers)
            facts |= {name: recomputed[name] for name in rest}
        return cls(db.program, inputs, facts, functors, reducers)

    def check(self, proof) -> None:
        """Every step holds, the proof is well-founded, its height is what it says."""
        heights = [0] * len(proof.steps)
        seen = set()
        for place in reversed(range(len(proof.steps))):
            step = proof.steps[place]
            assert all(premise > place for premise in step.premises), "not well-founded"
            assert (step.fact, step.proposed) not in seen, "a fact twice"
            seen.add((step.fact, step.proposed))
            assert not INTERNAL.search(" ".join((step.fact, step.text, *step.absent, *step.tests)))
            heights[place] = max((heights[p] for p in step.premises), default=0)
            if self.follows(step, [proof.steps[p] for p in step.premises]):
                heights[place] += 1
        assert heights[0] == proof.height, "not the height it says"
        used = {0}.union(*(step.premises for step in proof.steps))
        assert used == set(range(len(proof.steps))), "a step that nothing uses"
        for form in ("text", "json", "dot"):
            assert not INTERNAL.search(proof.show(form)), form
        self.check_json(proof, json.loads(proof.show("json")))
        assert proof.show("svg").count("<rect") == len(proof.steps)

    def check_json(self, proof, data: dict) -> None:
        """JSON says of every step what the step says, and nothing else."""
        assert (data["height"], data["is_smallest"]) == (proof.height, proof.is_smallest)
        for step, told in zip(proof.steps, data["steps"], strict=True):
            said = {"fact": step.fact, "relation": step.relation, "row": told["row"]}
            said |= {"given": True} if step.is_given else {
                "rule": step.rule, "text": step.text, "premises": list(step.premises),
            }  # fmt: skip
            said |= {"proposed": True} if step.proposed else {}
            said |= {name: list(found) for name, found in
                     (("absent", step.absent), ("tests", step.tests)) if found}  # fmt: skip
            assert told == said
            assert len(told["row"]) == len(step.row)

    def follows(self, step, premises: list) -> bool:
        """Whether a step is one of a rule with a body; fails where it does not follow."""
        rows = self.facts[step.relation]
        if step.proposed:
            assert step.row not in rows, "holds, and is only proposed"
            assert self.program.keeps(step.relation), "proposed for a relation that keeps all rows"
        else:
            assert step.row in rows, "does not hold"
        if step.is_given:
            assert step.row in self.inputs[step.relation], "a leaf that is not given"
            assert not premises
            return False
        facts: Facts = {r.name: set() for r in self.program.relations}
        for premise in premises:
            facts[premise.relation].add(premise.row)
        if step.rule is None:
            made = self.made(step.relation, facts[step.relation])
            if step.text.startswith("no more than"):
                assert step.proposed, "holds, and is no join"
                assert any(self.is_below(step, row) for row in made), "more than these"
            else:
                assert step.row in made, "not made of these"
            assert all(premise.relation == step.relation for premise in premises)
            return False
        for premise in premises:
            needs_each_other = step.relation in self.needed(premise.relation)
            assert needs_each_other or not premise.proposed, "a replaced row of a lower stratum"
        found = [fact for case in self.cases(step) for fact in case.derived(facts, self.facts)]
        assert (step.relation, step.row) in found, "the rule cited does not derive it"
        heads = () if self.is_rewritten else self.program.rules[step.rule].heads
        cases = [case.parts for case in self.cases(step)]
        if heads and all(is_plain(part) for parts in (heads, *cases) for part in parts):
            rows = [(premise.relation, premise.row) for premise in premises]
            # in one of the ways: rows may fit atoms that they do not stand for
            ways = (
                compared(p, env)
                for head in heads
                if head.relation == step.relation
                for p in cases
                for env in stand_for(rows, p, own(head))
            )
            fits = any(tests <= set(step.tests) for tests in ways)
            assert fits, "not a row for each atom, or a test that is not said"
        return not step.text.startswith(f"{step.fact}.")

    def needed(self, relation: str) -> set[str]:
        """The relations that the rules of one need, and theirs."""
        if self._needed is None:
            self._needed = {r.name: set() for r in self.program.relations}
            for rule in self.program.rules:
                for head in rule.heads:
                    self._needed[head.relation] |= {a.relation for a, _ in uses(rule.body)}
        found, waiting = set(), [relation]
        while waiting:
            more = self._needed[waiting.pop()] - found
            found |= more
            waiting += more
        return found

    def is_below(self, step, row: tuple) -> bool:
        """Whether a row says what a step does, or more."""
        keeper = Keeper(self.world, step.relation)
        joined = keeper.declared.joined
        pairs = list(enumerate(zip(step.row, row, strict=True)))
        same = all(one == other for i, (one, other) in pairs if i not in joined)
        return same and all(keeper.join(i)(*pair) == pair[1] for i, pair in pairs if i in joined)

    def made(self, relation: str, rows: set) -> set:
        """What a relation makes of rows derived for it that need not be one of them."""
        if "eqrel" in self.program.relation(relation).qualifiers:
            return equivalence(rows)
        keeper = Keeper(self.world, relation)
        joins = {i: keeper.join(i) for i in keeper.declared.joined}
        return lattice(rows, joins, {i: keeper.least(i) for i in joins})

    def cases(self, step) -> list[Replay]:
        """The alternatives of the rule that a step cites; it must be one of the program's."""
        if step.text not in self._cases:
            if self.is_rewritten:
                found = analyse(self.declarations + step.text)
                # alone it may need itself in another way than in its program, by an aggregate
                assert {one.code for one in found.errors} <= {"DF140"}, step.text
                (rule,) = found.program.rules
            else:
                rule = self.program.rules[step.rule]
                assert show_rule(rule) == step.text
            self._cases[step.text] = self.replays(rule)
        return self._cases[step.text]

    def replays(self, rule: Rule) -> list[Replay]:
        # A `range` is moved within its own alternative: others may not bind its arguments.
        alone = [hoisted(replace(rule, body=And(parts))) for parts in cases_of(rule.body)]
        return [Replay(self.world, one, cases_of(one.body)[0]) for one in alone]

    def least(self, proof) -> int | None:
        """The least height of a proof of the same fact; None where that is not this judge's to say.

        Absences in a relation that negates itself and rules that have become part of others lie
        outside of it. It knows no row since replaced, so a proof by one may be lower.
        """
        if self.negates_itself or self.is_inlined:
            return None
        if self._heights is None:
            self._heights = self.heights()
        return self._heights.get((proof.goal.relation, proof.goal.row))

    def check_least(self, proof) -> None:
        """No proof is lower: none at all, or none without the replaced rows that this one uses."""
        least = self.least(proof)
        if least is None:
            return
        used = [proof.steps[p] for s in proof.steps if s.rule is not None for p in s.premises]
        if any(premise.proposed for premise in used):
            assert proof.height <= least, f"not lowest: {least} is, without rows since replaced"
        else:
            assert proof.height == least, f"not lowest: {least} is"

    def heights(self) -> dict[tuple[str, tuple], int]:
        """The least height of every fact, by rounds: 0 for given rows and facts of the text."""
        cases = []
        proposed: Facts = {name: set(rows) for name, rows in self.inputs.items()}
        for rule in self.program.rules:
            replays = self.replays(rule)
            if rule.is_fact and not any(p for r in replays for p in r.parts):
                for name, row in replays[0].derived(self.facts, self.facts):
                    proposed[name].add(row)
            else:
                cases += replays
        found: dict[tuple[str, tuple], int] = {}
        some: Facts = {name: set() for name in proposed}
        for height in range(1000):
            for name, rows in proposed.items():
                kept = rows
                declared = self.program.relation(name)
                if "eqrel" in declared.qualifiers or declared.joined:
                    kept = self.made(name, rows)
                for row in kept & self.facts[name]:
                    found.setdefault((name, row), height)
                    some[name].add(row)
            new = {fact for case in cases for fact in case.derived(some, self.facts)}
            new = {(name, row) for name, row in new if row not in proposed[name]}
            if not new:
                return found
            for name, row in new:
                proposed[name].add(row)
        raise AssertionError("no fixpoint")
