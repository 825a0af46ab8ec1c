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

from deltafix.changes import formula as f
from deltafix.changes.counted import COUNTED, Counted, Counting
from deltafix.changes.evaluate import Interpretation, evaluate
from deltafix.changes.formula_derivative import (
    STANDARD,
    Differentiation,
    FormulaChange,
    Rules,
    differentiate,
)
from deltafix.changes.laws import show
from deltafix.changes.query import Found, Query, search, solver_of
from deltafix.errors import ChangeError

__all__ = [
    "RULE_SHAPES",
    "Claim",
    "Proof",
    "equivalent",
    "prove",
    "prove_counts",
    "prove_rules",
    "rule_table",
]

Claim: TypeAlias = Literal["derivative", "disjoint", "precise up", "precise down", "counted"]
"""What is proved of (↑T, ↓T): it is a derivative, is disjoint, adds or removes nothing idle; and of
an entry of `COUNTED`: it finds each derivation that comes or goes once.
"""

_T, _U = f.Relation("T", ("x",)), f.Relation("U", ("x",))
_TY = f.Relation("T", ("x", "y"))

RULE_SHAPES: Mapping[str, f.Formula] = MappingProxyType(
    {
        "⊤": f.TOP,
        "⊥": f.BOTTOM,
        "R": _T,
        "test": f.Test("<", "x", "y"),
        "∧": f.And(_T, _U),
        "∨": f.Or(_T, _U),
        "¬": f.Not(_T),
        "∃": f.Exists("y", _TY),
        "∀": f.Forall("y", _TY),
        "aggregate": f.Aggregate(
            "r", "max", "p", ("y",), f.Relation("T", ("x", "y")), f.Relation("U", ("y", "p"))
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
    formula: f.Formula,
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
        x = {v: query.constant(v) for v in sorted(f.free_variables(formula))}
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

    counterexample = search(negated, precise=claim.startswith("precise"))
    text = None if counterexample is None else _in_words(formula, change, counterexample)
    return Proof(name or str(formula), claim, counterexample is None, text)


def prove_counts(counted: Counted = COUNTED) -> tuple[Proof, ...]:
    """Prove every entry of a table of counts, for all whole numbers of derivations.

    A conjunction and a sum are asked of three parts, which stand for those before the one that
    changes, itself, and those after it.

    Raises:
        ChangeError: z3 is not installed, or it could not decide the query.
    """
    return tuple(_proof_of_count(kind, counted) for kind in counted)


def _proof_of_count(kind: type, counted: Counted) -> Proof:
    z3 = solver_of()
    rule = counted[kind]
    parts = 3 if kind in (f.And, f.Or, f.Exists) else 1
    old, new = ([z3.Int(f"{state} {n + 1}") for n in range(parts)] for state in ("old", "new"))
    terms = []
    for pivot in range(parts):
        others = [
            (old if (rule.before if index < pivot else rule.after) == "old" else new)[index]
            for index in range(parts)
            if rule.before and index != pivot
        ]
        terms.append(z3.Product(rule.sign, new[pivot] - old[pivot], *others))
    change = _count(z3, kind, new) - _count(z3, kind, old)
    solver = z3.Solver()
    solver.add(z3.simplify(z3.Sum(terms) - change, som=True) != 0)
    if kind in (f.Truth, f.Test):  # rigid: what it counts is the same before and after
        solver.add(old[0] == new[0])
    for small in ([z3.And(n >= 0, n <= 1) for n in (*old, *new)], []):  # small counter-examples
        answer = solver.check(*small)
        if answer == z3.sat:
            model = solver.model()
            parts_then = ", ".join(f"{n} = {model.eval(n, True)}" for n in (*old, *new))
            real, by_rule = model.eval(change, True), model.eval(z3.Sum(terms), True)
            text = f"{parts_then}: the count changes by {real}, the rule says {by_rule}"
            return Proof(kind.__name__, "counted", proved=False, counterexample=text)
    if answer != z3.unsat:
        raise ChangeError(f"z3 could not decide the query ({solver.reason_unknown()})")
    return Proof(kind.__name__, "counted", proved=True)


def _count(z3: Any, kind: type, parts: list[Any]) -> Any:
    """How many derivations a formula has, by those of its parts."""
    if kind is f.And:
        return z3.Product(*parts)
    return 1 - parts[0] if kind is f.Not else z3.Sum(*parts)


def rule_table(rules: Rules = STANDARD, counted: Counted = COUNTED) -> str:
    """A table of rules as Markdown: ↑, ↓ and X of each kind of formula, and how it is counted.

    † stands where a rule may add or remove what was there, or gone, already.
    """
    head = ("formula", "↑", "↓", "X", "derivations")
    lines = [head, ("---",) * len(head)]
    for name, shape in RULE_SHAPES.items():
        rule = rules[type(shape)]
        change = differentiate(shape, rules=rules, simplified=False)
        up = f"`{change.up}`" + ("" if rule.up_precise else " †")
        down = f"`{change.down}`" + ("" if rule.down_precise else " †")
        after = f"`{Differentiation(rules).next(shape)}`"
        lines.append((f"{name} `{shape}`", up, down, after, _counted(counted.get(type(shape)))))
    cells = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _counted(rule: Counting | None) -> str:
    if rule is None:
        return "as its tuples"
    if rule.sign == 0:
        return "do not change"
    others = f", parts before it {rule.before}, after it {rule.after}" if rule.before else ""
    return f"{'+' if rule.sign > 0 else '−'} those of the part that changes{others}"


def equivalent(left: f.Formula, right: f.Formula) -> bool:
    """Whether two formulae hold of the same tuples in every interpretation.

    Raises:
        ChangeError: z3 is not installed, or it could not decide the query.
    """

    def negated(query: Query) -> Any:
        names = f.free_variables(left) | f.free_variables(right)
        x = {v: query.constant(v) for v in sorted(names)}
        return query.encode(left, x) != query.encode(right, x)

    return search(negated, precise=False) is None


def _in_words(formula: f.Formula, change: FormulaChange, counterexample: Found) -> str:
    """The counter-example as a sentence, with both sides recomputed by the naive evaluator.

    Aggregates and order tests are arbitrary functions for z3, so for formulae with one only the
    relations are told.
    """
    states = "; ".join(
        f"{name} = {show(rows)} changed by ({show(counterexample.changes[name])})"
        for name, rows in sorted(counterexample.relations.items())
    )
    where = ", ".join(f"{v} = {i}" for v, i in sorted(counterexample.at.items()))
    text = f"values 0..{len(counterexample.universe) - 1}; {states}" + (
        f"; at {where}" if where else ""
    )
    if _uninterpreted(formula):
        return text
    schema = sorted(f.free_variables(formula))
    given = Interpretation(
        counterexample.universe, counterexample.relations, counterexample.changes
    )
    moved = {
        name: counterexample.changes[name].apply(rows)
        for name, rows in counterexample.relations.items()
    }
    now = evaluate(formula, schema, given)
    after = evaluate(formula, schema, Interpretation(counterexample.universe, moved))
    up, down = evaluate(change.up, schema, given), evaluate(change.down, schema, given)
    return (
        f"{text}: {formula} holds of {show(now)} before and {show(after)} after; the derivative "
        f"adds {show(up)} and removes {show(down)}, which leaves {show((now | up) - down)}"
    )


def _uninterpreted(formula: f.Formula) -> bool:
    if isinstance(formula, f.Aggregate) or (
        isinstance(formula, f.Test) and formula.op not in ("=", "!=")
    ):
        return True
    return any(map(_uninterpreted, f.children(formula)))
