"""Formula derivatives proved for all relations: each rule becomes an unsatisfiable query for z3.

One noun, `Proof`: a claim about a formula's derivative, and either "no counter-example exists" or
the counter-example as a finite interpretation. Invariant: relations in a query are arbitrary, and
so are their changes up to disjointness; hence a proof for `T(x) ∧ U(x)` is the induction step for
∧ over any two formulae. A counter-example is evaluated again by the naive evaluator before it is
shown, so what is printed does not rest on z3 alone. Needs the extra `deltafix[proofs]`.

Source: Fixing incremental computation, theorem "Concrete Datalog formula derivatives".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from deltafix.changes.evaluate import Interpretation, evaluate
from deltafix.changes.formula import (
    BOTTOM,
    TOP,
    Aggregate,
    And,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Relation,
    Test,
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
from deltafix.changes.query import Found, Query, search
from deltafix.changes.show import show

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

    def negated(query: Query) -> Any:
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

    found = search(negated, precise=claim.startswith("precise"))
    text = None if found is None else _in_words(formula, change, found)
    return Proof(name or str(formula), claim, found is None, text)


def equivalent(left: Formula, right: Formula) -> bool:
    """Whether two formulae hold of the same tuples in every interpretation.

    Raises:
        ChangeError: z3 is not installed, or it could not decide the query.
    """

    def negated(query: Query) -> Any:
        names = free_variables(left) | free_variables(right)
        x = {v: query.constant(v) for v in sorted(names)}
        return query.encode(left, x) != query.encode(right, x)

    return search(negated, precise=False) is None


def _in_words(formula: Formula, change: FormulaChange, found: Found) -> str:
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
