"""Formulae as z3 terms, and the search for a counter-example to a claim about them.

Two nouns: a `Query` (an encoding of formulae over one sort of values) and a `Found` (a
counter-example as a finite interpretation). Invariant: small universes are tried first, with every
quantifier written out; "there is none" always comes from the unbounded query. What is claimed is
`symbolic`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import ModuleType
from typing import Any

from deltafix.changes import formula as f
from deltafix.changes.evaluate import Rows
from deltafix.changes.sets import SetChange
from deltafix.errors import ChangeError


@dataclass(frozen=True, slots=True)
class Found:
    """A counter-example read from a model: values are numbered from 0."""

    universe: tuple[int, ...]
    relations: Mapping[str, Rows]
    changes: Mapping[str, SetChange[tuple[Hashable, ...]]]
    at: Mapping[str, int]


def search(negated: Callable[[Query], Any], *, precise: bool) -> Found | None:
    """A counter-example as small as possible, or None when there is none of any size.

    One, two and three values first, with every quantifier written out: that is propositional, and
    finds wrong rules at once, where the unbounded query with aggregates can run for minutes. Then
    the unbounded query, whose "unsatisfiable" is the proof.
    """
    z3 = solver_of()
    for size in (1, 2, 3, None):
        query = Query(z3, size)
        counterexample = query.counterexample(negated(query), precise=precise)
        if counterexample is not None:
            return counterexample
    return None


def solver_of() -> ModuleType:
    """z3, which is an extra. Raises ChangeError where it is not installed."""
    try:
        import z3  # noqa: PLC0415  an optional extra
    except ImportError as error:
        raise ChangeError("proofs need z3; install deltafix[proofs]") from error
    return z3  # type: ignore[no-any-return]


class Query:
    """Formulae as z3 terms over one uninterpreted sort, and the search for a counter-example.

    With a size, the universe is that many named values and quantifiers are written out.
    """

    def __init__(self, z3: Any, size: int | None) -> None:
        self.z3 = z3
        self.sort = z3.DeclareSort("Value")
        self.values: list[Any] | None = None
        if size is not None:
            self.values = [z3.Const(f"value!{i}", self.sort) for i in range(size)]
        self.relations: dict[tuple[str, int], tuple[Any, Any, Any]] = {}
        self.constants: dict[Any, Any] = {}
        self.bound = 0

    def constant(self, name: object) -> Any:
        """The value that a free variable or a constant of that name stands for."""
        return self.constants.setdefault(name, self.z3.Const(f"c!{name}", self.sort))

    def relation(self, name: str, width: int) -> tuple[Any, Any, Any]:
        """The three predicates (now, up, down) of a relation symbol."""
        if (name, width) not in self.relations:
            kinds = [self.sort] * width + [self.z3.BoolSort()]
            self.relations[name, width] = tuple(
                self.z3.Function(f"{name}.{state}", *kinds) for state in ("now", "up", "down")
            )
        return self.relations[name, width]

    def encode(self, formula: f.Formula, at: Mapping[str, Any]) -> Any:
        """The formula as a z3 truth value, its free variables bound by `at`."""
        z3 = self.z3
        match formula:
            case f.Truth(value):
                return z3.BoolVal(value)
            case f.Relation(name, args, state):
                now, up, down = self.relation(name, len(args))
                terms = [self._term(arg, at) for arg in args]
                if state == "next":
                    return z3.And(z3.Or(now(*terms), up(*terms)), z3.Not(down(*terms)))
                return {"now": now, "up": up, "down": down}[state](*terms)
            case f.Test("=", left, right):
                return self._term(left, at) == self._term(right, at)
            case f.Test("!=", left, right):
                return self._term(left, at) != self._term(right, at)
            case f.Test(op, left, right):
                compare = z3.Function(f"test{op}", self.sort, self.sort, z3.BoolSort())
                return compare(self._term(left, at), self._term(right, at))
            case f.And(left, right):
                return z3.And(self.encode(left, at), self.encode(right, at))
            case f.Or(left, right):
                return z3.Or(self.encode(left, at), self.encode(right, at))
            case f.Not(body):
                return z3.Not(self.encode(body, at))
            case f.Exists(variable, body):
                if self.values is not None:
                    return z3.Or(*(self.encode(body, {**at, variable: v}) for v in self.values))
                fresh = self._fresh(variable)
                return z3.Exists([fresh], self.encode(body, {**at, variable: fresh}))
            case f.Forall(variable, body):
                if self.values is not None:
                    return z3.And(*(self.encode(body, {**at, variable: v}) for v in self.values))
                fresh = self._fresh(variable)
                return z3.ForAll([fresh], self.encode(body, {**at, variable: fresh}))
            case f.Aggregate():
                return self._aggregate(formula, at)
            case f.Connected():
                return self.encode(formula.spelled_out, at)
            case _:
                raise f.unknown(formula)

    def _aggregate(self, formula: f.Aggregate, at: Mapping[str, Any]) -> Any:
        """`defined(S) ∧ r = value(S)` for an arbitrary function of the set S of members."""
        z3 = self.z3
        names = (*formula.over, formula.value)
        inside = f.And(formula.domain, formula.body)

        def member(row: Sequence[Any]) -> Any:
            return self.encode(inside, {**at, **dict(zip(names, row, strict=True))})

        if self.values is None:
            fresh = [self._fresh(name) for name in names]
            members = [z3.Lambda(fresh, member(fresh))]
        else:
            members = [member(row) for row in product(self.values, repeat=len(names))]
        kinds = [term.sort() for term in members]
        value = z3.Function(f"{formula.function}.value", *kinds, self.sort)
        defined = z3.Function(f"{formula.function}.defined", *kinds, z3.BoolSort())
        return z3.And(defined(*members), self._term(formula.result, at) == value(*members))

    def _term(self, argument: f.Argument, at: Mapping[str, Any]) -> Any:
        return self.constant(argument) if isinstance(argument, f.Constant) else at[argument]

    def _fresh(self, name: str) -> Any:
        self.bound += 1
        return self.z3.Const(f"{name}!{self.bound}", self.sort)

    def counterexample(self, negated: Any, *, precise: bool) -> Found | None:
        """A model of `negated` with disjoint (and precise) changes, or None if there is none."""
        z3 = self.z3
        solver = z3.Solver()
        solver.set("timeout", 60_000)
        solver.add(negated)
        if self.values is not None:
            solver.add(z3.Distinct(*self.values))
            for constant in self.constants.values():
                solver.add(z3.Or(*(constant == value for value in self.values)))
        for (_, width), predicates in self.relations.items():
            solver.add(self._everywhere(width, self._contract(predicates, precise=precise)))
        answer = solver.check()
        if answer == z3.unsat:
            return None
        if answer != z3.sat:
            raise ChangeError(
                f"z3 could not decide the query ({solver.reason_unknown()}); "
                "split the formula, each rule on its own is decided"
            )
        return self._read(solver.model())

    def _contract(
        self, predicates: tuple[Any, Any, Any], *, precise: bool
    ) -> Callable[[Sequence[Any]], Any]:
        """What is assumed of a relation's change at one row."""
        z3 = self.z3
        now, up, down = predicates

        def at(row: Sequence[Any]) -> Any:
            disjoint = z3.Not(z3.And(up(*row), down(*row)))
            if not precise:
                return disjoint
            return z3.And(
                disjoint,
                z3.Implies(up(*row), z3.Not(now(*row))),
                z3.Implies(down(*row), now(*row)),
            )

        return at

    def _everywhere(self, width: int, law: Callable[[Sequence[Any]], Any]) -> Any:
        z3 = self.z3
        if self.values is not None:
            return z3.And(*(law(row) for row in product(self.values, repeat=width)))
        row = [self._fresh("row") for _ in range(width)]
        return z3.ForAll(row, law(row)) if row else law(row)

    def _read(self, model: Any) -> Found:
        values = self.values or model.get_universe(self.sort) or [self.constant("only")]
        relations: dict[str, Rows] = {}
        changes: dict[str, SetChange[tuple[Hashable, ...]]] = {}
        for (name, width), predicates in self.relations.items():
            rows: list[Rows] = [
                frozenset(
                    tuple(index)
                    for index in product(range(len(values)), repeat=width)
                    if self.z3.is_true(
                        model.eval(predicate(*(values[i] for i in index)), model_completion=True)
                    )
                )
                for predicate in predicates
            ]
            relations[name] = rows[0]
            changes[name] = SetChange(rows[1], rows[2])
        at = {
            str(name): index
            for name, constant in self.constants.items()
            for index, value in enumerate(values)
            if self.z3.is_true(model.eval(constant == value, model_completion=True))
        }
        return Found(tuple(range(len(values))), relations, changes, at)
