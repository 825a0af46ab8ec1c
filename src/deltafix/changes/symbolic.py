"""Formula derivatives proved for all relations: each rule becomes an unsatisfiable query for z3.

One noun, `Proof`: a claim about a formula's derivative, and either "no counter-example exists" or
the counter-example as a finite interpretation. Invariant: relations in a query are arbitrary, and
so are their changes up to disjointness; hence a proof for `T(x) ∧ U(x)` is the induction step for
∧ over any two formulae. A counter-example is evaluated again by the naive evaluator before it is
shown, so what is printed does not rest on z3 alone. Needs the extra `deltafix[proofs]`.

Source: Fixing incremental computation, theorem "Concrete Datalog formula derivatives".
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType, ModuleType
from typing import Any, Literal, TypeAlias

from deltafix.changes.evaluate import Interpretation, Rows, evaluate
from deltafix.changes.formula import (
    BOTTOM,
    TOP,
    Aggregate,
    And,
    Argument,
    Constant,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Relation,
    Test,
    Truth,
    children,
    free_variables,
)
from deltafix.changes.formula_derivative import (
    STANDARD,
    Differentiation,
    FormulaChange,
    Rules,
    differentiate,
)
from deltafix.changes.sets import SetChange
from deltafix.changes.show import show
from deltafix.errors import ChangeError

__all__ = ["RULE_SHAPES", "Claim", "Proof", "equivalent", "prove", "prove_rules"]

Claim: TypeAlias = Literal["derivative", "disjoint", "precise up", "precise down"]
"""What is proved of (↑T, ↓T): it is a derivative, is disjoint, adds or removes nothing idle."""

_T, _U = Relation("T", ("x",)), Relation("U", ("x",))
_TY = Relation("T", ("x", "y"))

RULE_SHAPES: Mapping[str, Formula] = MappingProxyType(
    {
        "⊤": TOP,
        "⊥": BOTTOM,
        "R": _T,
        "test": Test("<", "x", "y"),
        "∧": And(_T, _U),
        "∨": Or(_T, _U),
        "¬": Not(_T),
        "∃": Exists("y", _TY),
        "∀": Forall("y", _TY),
        "aggregate": Aggregate(
            "r", "max", "p", ("y",), Relation("T", ("x", "y")), Relation("U", ("y", "p"))
        ),
    }
)
"""One formula per rule of the figure; its relations stand for arbitrary parts."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The outcome of one query.

    Attributes:
        rule: The rule's name in `RULE_SHAPES`, or the formula's text.
        claim: What was to be proved.
        proved: Whether the query is unsatisfiable, i.e. the claim holds for all relations.
        counterexample: If not proved, an interpretation on which the claim fails, in words.
    """

    rule: str
    claim: Claim
    proved: bool
    counterexample: str | None = None

    def __bool__(self) -> bool:
        return self.proved


def prove_rules(rules: Rules = STANDARD) -> tuple[Proof, ...]:
    """Prove every rule of a table: derivative, disjoint, and precise where the table says so."""
    proofs: list[Proof] = []
    for name, shape in RULE_SHAPES.items():
        rule = rules[type(shape)]
        claims: list[Claim] = ["derivative", "disjoint"]
        if rule.up_precise:
            claims.append("precise up")
        if rule.down_precise:
            claims.append("precise down")
        proofs.extend(prove(shape, claim, rules=rules, name=name) for claim in claims)
    return tuple(proofs)


def prove(
    formula: Formula,
    claim: Claim = "derivative",
    *,
    rules: Rules = STANDARD,
    name: str | None = None,
) -> Proof:
    """Prove one claim about a formula's derivative under a rule table, for all relations.

    Claims, for all relations with disjoint changes, and every tuple:

    - "derivative": `X(T) ⟺ (T ∨ ↑T) ∧ ¬↓T`;
    - "disjoint": not both `↑T` and `↓T`;
    - "precise up" / "precise down": `↑T ⟹ ¬T`, `↓T ⟹ T`, if the relations' changes are precise.

    Raises:
        ChangeError: z3 is not installed, or it could not decide the query.
    """
    change = differentiate(formula, rules=rules, simplified=False)

    def negated(query: _Query) -> Any:
        z3 = query.z3
        x = {v: query.constant(v) for v in sorted(free_variables(formula))}
        now = query.encode(formula, x)
        up, down = query.encode(change.up, x), query.encode(change.down, x)
        after = query.encode(Differentiation(rules).next(formula), x)
        match claim:
            case "derivative":
                return after != z3.And(z3.Or(now, up), z3.Not(down))
            case "disjoint":
                return z3.And(up, down)
            case "precise up":
                return z3.And(up, now)
            case "precise down":
                return z3.And(down, z3.Not(now))

    found = _search(negated, precise=claim.startswith("precise"))
    text = None if found is None else _in_words(formula, change, found)
    return Proof(name or str(formula), claim, found is None, text)


def equivalent(left: Formula, right: Formula) -> bool:
    """Whether two formulae hold of the same tuples in every interpretation.

    Raises:
        ChangeError: z3 is not installed, or it could not decide the query.
    """

    def negated(query: _Query) -> Any:
        names = free_variables(left) | free_variables(right)
        x = {v: query.constant(v) for v in sorted(names)}
        return query.encode(left, x) != query.encode(right, x)

    return _search(negated, precise=False) is None


def _search(negated: Callable[[_Query], Any], *, precise: bool) -> _Found | None:
    """A counter-example as small as possible, or None when there is none of any size.

    One, two and three values first, with every quantifier written out: that is propositional, and
    finds wrong rules at once, where the unbounded query with aggregates can run for minutes. Then
    the unbounded query, whose "unsatisfiable" is the proof.
    """
    z3 = _z3()
    for size in (1, 2, 3, None):
        query = _Query(z3, size)
        found = query.counterexample(negated(query), precise=precise)
        if found is not None:
            return found
    return None


def _z3() -> ModuleType:
    try:
        import z3  # noqa: PLC0415  an optional extra
    except ImportError as error:
        raise ChangeError("proofs need z3; install deltafix[proofs]") from error
    return z3  # type: ignore[no-any-return]


class _Query:
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
        return self.constants.setdefault(name, self.z3.Const(f"c!{name}", self.sort))

    def relation(self, name: str, width: int) -> tuple[Any, Any, Any]:
        """The three predicates (now, up, down) of a relation symbol."""
        if (name, width) not in self.relations:
            kinds = [self.sort] * width + [self.z3.BoolSort()]
            self.relations[name, width] = tuple(
                self.z3.Function(f"{name}.{state}", *kinds) for state in ("now", "up", "down")
            )
        return self.relations[name, width]

    def encode(self, formula: Formula, at: Mapping[str, Any]) -> Any:
        z3 = self.z3
        match formula:
            case Truth(value):
                return z3.BoolVal(value)
            case Relation(name, args, state):
                now, up, down = self.relation(name, len(args))
                terms = [self._term(arg, at) for arg in args]
                if state == "next":
                    return z3.And(z3.Or(now(*terms), up(*terms)), z3.Not(down(*terms)))
                return {"now": now, "up": up, "down": down}[state](*terms)
            case Test("=", left, right):
                return self._term(left, at) == self._term(right, at)
            case Test("!=", left, right):
                return self._term(left, at) != self._term(right, at)
            case Test(op, left, right):
                compare = z3.Function(f"test{op}", self.sort, self.sort, z3.BoolSort())
                return compare(self._term(left, at), self._term(right, at))
            case And(left, right):
                return z3.And(self.encode(left, at), self.encode(right, at))
            case Or(left, right):
                return z3.Or(self.encode(left, at), self.encode(right, at))
            case Not(body):
                return z3.Not(self.encode(body, at))
            case Exists(variable, body):
                if self.values is not None:
                    return z3.Or(*(self.encode(body, {**at, variable: v}) for v in self.values))
                fresh = self._fresh(variable)
                return z3.Exists([fresh], self.encode(body, {**at, variable: fresh}))
            case Forall(variable, body):
                if self.values is not None:
                    return z3.And(*(self.encode(body, {**at, variable: v}) for v in self.values))
                fresh = self._fresh(variable)
                return z3.ForAll([fresh], self.encode(body, {**at, variable: fresh}))
            case Aggregate():
                return self._aggregate(formula, at)

    def _aggregate(self, formula: Aggregate, at: Mapping[str, Any]) -> Any:
        """`defined(S) ∧ r = value(S)` for an arbitrary function of the set S of members."""
        z3 = self.z3
        names = (*formula.over, formula.value)
        inside = And(formula.domain, formula.body)

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

    def _term(self, argument: Argument, at: Mapping[str, Any]) -> Any:
        return self.constant(argument) if isinstance(argument, Constant) else at[argument]

    def _fresh(self, name: str) -> Any:
        self.bound += 1
        return self.z3.Const(f"{name}!{self.bound}", self.sort)

    def counterexample(self, negated: Any, *, precise: bool) -> _Found | None:
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

    def _read(self, model: Any) -> _Found:
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
        return _Found(tuple(range(len(values))), relations, changes, at)


@dataclass(frozen=True, slots=True)
class _Found:
    """A counter-example read from a model: values are numbered from 0."""

    universe: tuple[int, ...]
    relations: Mapping[str, Rows]
    changes: Mapping[str, SetChange[tuple[Hashable, ...]]]
    at: Mapping[str, int]


def _in_words(formula: Formula, change: FormulaChange, found: _Found) -> str:
    """The counter-example as a sentence, with both sides recomputed by the naive evaluator.

    Aggregates and order tests are arbitrary functions for z3, so for formulae with one only the
    relations are told.
    """
    told = "; ".join(
        f"{name} = {show(rows)} changed by ({show(found.changes[name])})"
        for name, rows in sorted(found.relations.items())
    )
    where = ", ".join(f"{v} = {i}" for v, i in sorted(found.at.items()))
    text = f"values 0..{len(found.universe) - 1}; {told}" + (f"; at {where}" if where else "")
    if _uninterpreted(formula):
        return text
    schema = sorted(free_variables(formula))
    given = Interpretation(found.universe, found.relations, found.changes)
    moved = {name: found.changes[name].apply(rows) for name, rows in found.relations.items()}
    now = evaluate(formula, schema, given)
    after = evaluate(formula, schema, Interpretation(found.universe, moved))
    up, down = evaluate(change.up, schema, given), evaluate(change.down, schema, given)
    return (
        f"{text}: {formula} holds of {show(now)} before and {show(after)} after; the derivative "
        f"adds {show(up)} and removes {show(down)}, which leaves {show((now | up) - down)}"
    )


def _uninterpreted(formula: Formula) -> bool:
    if isinstance(formula, Aggregate) or (
        isinstance(formula, Test) and formula.op not in ("=", "!=")
    ):
        return True
    return any(map(_uninterpreted, children(formula)))
