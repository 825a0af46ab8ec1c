"""Arithmetic of whole numbers and decimals as terms of the engine, where it cannot go wrong unseen.

`a * (1 - b)` is the engine's own arithmetic; CASE with such values is it too, its conditions being
functions of their own columns, and COALESCE. NULL is computed with as a 0, beside a term that says
whether there is a value (two functors more an operand: 0.3 us, a function in Python 5). The engine
wraps around at 64 bits,
SQL raises: so where the types do not bound a result, terms say whether it may leave its type, and
where one does the expression is computed again in Python, which raises or not. Invariant: a sum,
difference or product modulo 2^64 is the exact one if that is in range, so the range alone is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from deltafix.facts.values import BaseType
from deltafix.rules.ast import FunctorDecl
from deltafix.rules.terms import Call, Const, Term
from deltafix.sql import conditions
from deltafix.sql.builder import NIL, Operand, equal, function
from deltafix.sql.casts import cast
from deltafix.sql.literals import Scalar, inside, is_beyond, whole
from deltafix.sql.text import exp
from deltafix.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    NULL,
    Column,
    SqlType,
    decode,
    encode,
    length_of,
)

if TYPE_CHECKING:
    from deltafix.sql.builder import Builder
    from deltafix.sql.formulas import Formulas

__all__ = ["computed"]

_END: Final = 1 << 63
_LARGE: Final = 1 << 53
_LONG: Final = 150
"""Nodes from which on an expression is one function: its terms would nest as deep as it is long."""
_OPERATORS: Final[dict[type, str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}

_DIVISIONS: Final[dict[type, str]] = {exp.Div: "/", exp.IntDiv: "/", exp.Mod: "%"}
_ENDS: Final[dict[type, str]] = {exp.Greatest: "max", exp.Least: "min"}
_NODES: Final = (
    *_OPERATORS, *_DIVISIONS, *_ENDS, exp.Abs, exp.Neg, exp.Case, exp.Cast, exp.Coalesce,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Whole:
    """A term whose magnitude is at most `most`, unless one of the `doubts` is not zero.

    It has a value where all of `present` are 1, and not 0; else it is NULL, and the term anything.
    """

    term: Term
    scale: int
    most: int
    doubts: tuple[Term, ...] = ()
    present: tuple[Term, ...] = ()


def computed(formulas: Formulas, node: exp.Expr, *, tested: bool) -> Operand | None:
    """An expression as a term of the engine; None for what Python has to compute.

    Of one that is `tested` nothing is known before it is judged.
    """
    node = node.unnest()
    if len(list(islice(node.walk(), _LONG))) == _LONG:
        return None
    if type(node) is exp.Cast and not is_beyond(node.this) and length_of(node.args["to"]) is None:
        kind = formulas.kind(node)
        inner = inside(node, kind)
        if formulas.kind(inner) == kind:
            return formulas.operand(inner, tested=tested)
    other = conditions.chosen(formulas, node)
    if other is not None or not isinstance(node, _NODES):
        return other
    body = len(formulas.body)
    number = _whole(formulas, node)
    if number is None:
        del formulas.body[body:]
        number = _real(formulas, node)
    if number is None:
        del formulas.body[body:]
        return None
    scalar, args = formulas.scalar(node)
    result = Operand(formulas.builder.fresh("f"), scalar.type, bool(number.present))
    term = number.term
    if number.doubts:
        judged = _judged(formulas, scalar, args, number.doubts)
        if tested:
            term = Call("+", (term, bound(formulas, judged)))
        else:
            formulas.body.append(equal(judged, _number(0)))
    if number.present:
        presence = conditions.all_of(number.present)
        term = formulas.builder.engine("when", scalar.type.base, presence, term)
    formulas.body.append(equal(result.term, term))
    return result


def _judged(
    formulas: Formulas, scalar: Scalar, args: Sequence[Operand], doubts: Sequence[Term]
) -> Call:
    """0, once the expression was computed in Python, too, where there is a doubt.

    Its error is the answer then.
    """
    builder = formulas.builder
    name, doubt = builder.named(), builder.fresh("doubt")
    columns = [arg.column(f"a{n}") for n, arg in enumerate(args)]
    compute = function(scalar, columns, Operand(doubt, scalar.type, nullable=True).column("value"))

    def judge(doubtful: int, *values: Any) -> int:
        if doubtful:
            compute(*values)
        return 0

    parameters = (Column("doubt", BIGINT, nullable=False), *columns)
    attributes = tuple(column.attribute(column.name) for column in parameters)
    builder.functors.append(FunctorDecl(name, attributes, "number", partial=True))
    builder.functions[name] = judge
    # without a doubt all numbers are zero or NULL, so the function is asked once
    passed = [_if_doubtful(builder, arg, doubt) for arg in args]
    either: Term = _number(0)
    for term in doubts:
        either = Call("lor", (either, term))
    formulas.body.append(equal(doubt, either))
    return Call(f"@{name}", (doubt, *passed))


def _if_doubtful(builder: Builder, arg: Operand, doubt: Term) -> Term:
    """A number if there is a doubt, else 0, or NULL where it may be that; others as they are."""
    if arg.type.base != "number":
        return arg.term
    if not arg.nullable:
        return Call("*", (arg.term, doubt))
    presence = Call("land", (builder.engine("there", "number", arg.term), doubt))
    value = builder.engine("or", "number", arg.term, _number(0))
    return builder.engine("when", "number", presence, value)


def _number(value: int) -> Const:
    return Const(value, "number")


def values(node: exp.Case) -> list[exp.Expr]:
    """What a CASE may give."""
    default = node.args.get("default")
    return [*(branch.args["true"] for branch in node.args["ifs"]), default or exp.Null()]


def _limit(kind: SqlType) -> int:
    """What the magnitude of a type's values stays below, but for its least whole number."""
    return 10**kind.digits if kind.is_decimal else 1 << kind.bits - 1


def _whole(formulas: Formulas, node: exp.Expr) -> _Whole | None:
    node = node.unnest()
    leaf = formulas.leaf(node)
    if leaf is not None:
        kind = leaf.type
        if leaf.term == NIL:
            return _Whole(_number(0), 0, 0, present=(_number(0),))
        if not kind.is_exact:
            return None
        if leaf.nullable:
            value, presence = opened(formulas, leaf)
            return _Whole(value, kind.scale, _limit(kind), present=(presence,))
        if isinstance(leaf.term, Const):
            assert isinstance(leaf.term.value, int)  # noqa: S101  of a whole type
            return _Whole(leaf.term, kind.scale, abs(leaf.term.value))
        return _Whole(leaf.term, kind.scale, _limit(kind))
    if isinstance(node, exp.Case):
        number = _case(formulas, node)
    elif isinstance(node, exp.Coalesce):
        number = _coalesced(formulas, node)
    elif type(node) is exp.Cast:
        number = _whole(formulas, node.this)
    elif isinstance(node, exp.Neg | exp.Abs):
        inner = _whole(formulas, node.this)
        if inner is None:
            return None
        number = _sum("-", _Whole(_number(0), 0, 0), inner)
        if isinstance(node, exp.Abs):
            number = replace(number, term=Call("max", (inner.term, number.term)), most=inner.most)
    elif isinstance(node, exp.Greatest | exp.Least):
        number = _end(formulas, node)
    elif isinstance(node, tuple(_DIVISIONS)):
        number = _quotient(formulas, node)
    elif isinstance(node, tuple(_OPERATORS)):
        left, right = _whole(formulas, node.this), _whole(formulas, node.expression)
        if left is None or right is None:
            return None
        op = _OPERATORS[type(node)]
        number = _product(left, right) if op == "*" else _sum(op, left, right)
    else:
        return None
    if number is not None:
        number = _within(number, formulas.kind(node))
    if number is None or not number.doubts:
        return number
    return replace(number, term=bound(formulas, number.term))  # it will be asked about


def alike(formulas: Formulas, *nodes: exp.Expr) -> tuple[BaseType, list[tuple[Term, Term]] | None]:
    """Numbers with equally many digits behind the point, or floats, and the engine's type.

    Each has 1 or 0 beside it: whether it is there. None where Python has to compute one, or where
    one may leave its type.
    """
    body = len(formulas.body)
    base: BaseType = "number"
    numbers = _alike(formulas, nodes)
    if numbers is None or any(number.doubts for number in numbers):
        del formulas.body[body:]
        if all(formulas.kind(node) is not DOUBLE for node in nodes):
            return "number", None  # compared exactly, of any number of digits
        reals = [_real(formulas, node) for node in nodes]
        base, numbers = "float", [real for real in reals if real is not None]
        if len(numbers) < len(reals):
            return "float", None
    return base, [(number.term, conditions.all_of(number.present)) for number in numbers]


def opened(formulas: Formulas, operand: Operand) -> tuple[Term, Term]:
    """The value of a nullable operand, or a zero of its type, and 1 or 0: whether it has one."""
    base, engine = operand.type.base, formulas.builder.engine
    value = engine("or", base, operand.term, Const(operand.type.zero, base))
    return bound(formulas, value), bound(formulas, engine("there", base, operand.term))


def _real(formulas: Formulas, node: exp.Expr) -> _Whole | None:
    """`+ - * /` of DOUBLEs, and of whole numbers and decimals beside them; never in doubt.

    Both are IEEE 754's, but that there is one zero, also where Python divides by it. A decimal is
    its digits, exact as a float, by a power of ten that is: rounded once, as Python does.
    """
    node = node.unnest()
    leaf = formulas.leaf(node)
    if formulas.scope.statement.dialect == "postgres":
        return None  # infinity and what is too small are errors there
    if leaf is not None and isinstance(leaf.term, Const) and leaf.term != NIL:
        convert = cast(leaf.type, DOUBLE) if leaf.type.is_numeric else None
        if convert is None:
            return None
        value = convert(decode(leaf.term.value, Column("", leaf.type, nullable=False)))
        return _Whole(Const(encode(value, DOUBLE, nullable=False), "float"), 0, 0)
    kind = leaf.type if leaf is not None else formulas.kind(node)
    if kind.is_exact:
        number = _whole(formulas, node)
        if number is None or number.doubts or (number.scale and number.most > _LARGE):
            return None
        term = Call("to_float", (number.term,))
        if number.scale:
            term = Call("/", (term, Const(float(10**number.scale), "float")))
        return replace(number, term=term, scale=0)
    if kind is not DOUBLE:
        return None
    if leaf is not None:
        if not leaf.nullable:
            return _Whole(leaf.term, 0, 0)
        value, presence = opened(formulas, leaf)
        return _Whole(value, 0, 0, present=(presence,))
    if isinstance(node, exp.Neg):
        inner = _real(formulas, node.this)
        return None if inner is None else replace(inner, term=Call("neg", (inner.term,)))
    if type(node) is exp.Cast:
        source = NULL if is_beyond(node.this) else formulas.kind(node.this)
        return _real(formulas, node.this) if source is DOUBLE or source.is_exact else None
    is_quotient = isinstance(node, exp.Div) and not node.args.get("typed")  # else 0 is an error
    if not (is_quotient or isinstance(node, tuple(_OPERATORS))):
        return None
    left, right = _real(formulas, node.this), _real(formulas, node.expression)
    if left is None or right is None:
        return None
    present = (*left.present, *right.present)
    if node.args.get("safe"):  # NULL where it is divided by 0
        right = replace(right, term=bound(formulas, right.term))
        is_zero = formulas.builder.engine("same", "float", right.term, Const(0.0, "float"))
        present += (bound(formulas, Call("lnot", (is_zero,))),)
    op = "/" if is_quotient else _OPERATORS[type(node)]
    return _Whole(Call(op, (left.term, right.term)), 0, 0, present=present)


def bound(formulas: Formulas, term: Term) -> Term:
    """A variable for a term that stands in several places: written out, their number doubles."""
    variable = formulas.builder.fresh("w")
    formulas.body.append(equal(variable, term))
    return variable


def _within(number: _Whole, kind: SqlType) -> _Whole | None:
    """A result of a type, in doubt where it is none of its values."""
    if not kind.is_exact or kind.scale < number.scale:
        return None
    number = _scaled(number, kind.scale)
    limit = _limit(kind)
    if number.most < limit:
        return number
    return replace(number, most=limit, doubts=(*number.doubts, *_beyond(number, limit)))


def _beyond(number: _Whole, limit: int) -> tuple[Term, ...]:
    """A term that is zero only where a magnitude is below a limit."""
    if number.most < limit or limit >= _END:
        return ()
    if limit > _LARGE:  # dividing by a power of two is cheap, and few values lie in between
        limit = 1 << limit.bit_length() - 1
    return (Call("/", (number.term, _number(limit))),)


def _scaled(number: _Whole, scale: int) -> _Whole:
    """The same value with more digits behind the point."""
    more = scale - number.scale
    return _product(number, _Whole(_number(10**more), more, 10**more)) if more else number


def _product(left: _Whole, right: _Whole) -> _Whole:
    most = left.most * right.most
    doubts = (*left.doubts, *right.doubts)
    if most >= _END:
        small = min(left.most, right.most, (1 << 31) - 1).bit_length()
        first, second = (small, 63 - small) if left.most <= right.most else (63 - small, small)
        doubts += (*_beyond(left, 1 << first), *_beyond(right, 1 << second))
    term, present = Call("*", (left.term, right.term)), (*left.present, *right.present)
    return _Whole(term, left.scale + right.scale, min(most, _END - 1), doubts, present)


def _sum(op: str, left: _Whole, right: _Whole) -> _Whole:
    scale = max(left.scale, right.scale)
    left, right = _scaled(left, scale), _scaled(right, scale)
    most = left.most + right.most
    doubts = (*left.doubts, *right.doubts)
    if most >= _END:
        doubts += (*_beyond(left, _END >> 1), *_beyond(right, _END >> 1))
    term, present = Call(op, (left.term, right.term)), (*left.present, *right.present)
    return _Whole(term, scale, min(most, _END - 1), doubts, present)


def condition_of(node: exp.Case, branch: exp.If) -> exp.Expr:
    """The condition of a branch of CASE."""
    subject = node.args.get("this")
    return branch.this if subject is None else exp.EQ(this=subject, expression=branch.this)


def _truth(formulas: Formulas, node: exp.Expr) -> Term | None:
    """1 where a condition is true, else 0; None for one about nothing."""
    test, args = formulas.scalar(node)
    if not args or test.type not in (BOOLEAN, NULL):
        return None
    body = len(formulas.body)
    flags = conditions.flags(formulas, node)
    if flags is not None:
        formulas.body[body:] = conditions.read_by(formulas.body[body:], flags.true)
        return bound(formulas, flags.true)
    compute = test.compute
    is_true = Scalar(
        lambda row: int(compute(row) is True), BIGINT, nullable=False, partial=test.partial
    )
    return formulas.builder.apply(is_true, args, formulas.body).term


def _case(formulas: Formulas, node: exp.Case) -> _Whole | None:
    """`CASE WHEN c THEN x ELSE y END`."""
    if all(formulas.leaf(alternative) is not None for alternative in values(node)):
        return None  # else a function of what its conditions are about, and nothing more
    known = _alike(formulas, values(node))
    if known is None:
        return None
    picked = known[-1]
    for branch, value in reversed(list(zip(node.args["ifs"], known, strict=False))):
        chosen = _truth(formulas, condition_of(node, branch))
        if chosen is None:
            return None
        picked = _chosen(formulas, chosen, value, picked)
    return picked


def _end(formulas: Formulas, node: exp.Greatest | exp.Least) -> _Whole | None:
    """GREATEST or LEAST of values that are there: dialects differ in what they make of NULL."""
    known = _alike(formulas, [node.this, *node.expressions])
    if known is None or any(number.present for number in known):
        return None
    doubts = tuple(doubt for number in known for doubt in number.doubts)
    term = reduce(lambda a, b: Call(_ENDS[type(node)], (a, b)), [k.term for k in known])
    return _Whole(term, known[0].scale, max(number.most for number in known), doubts)


def _quotient(formulas: Formulas, node: exp.Expr) -> _Whole | None:
    """`//` and `%` of whole numbers by one that is written, not 0 or -1: both cut towards zero."""
    by = whole(node.expression)
    if by in (None, 0, -1) or not formulas.kind(node).is_integer:
        return None
    left = _whole(formulas, node.this)
    if left is None or left.scale:
        return None
    op = _DIVISIONS[type(node)]
    most = abs(by) - 1 if op == "%" else left.most // abs(by)
    return replace(left, term=Call(op, (left.term, _number(by))), most=min(most, left.most))


def _coalesced(formulas: Formulas, node: exp.Coalesce) -> _Whole | None:
    """`COALESCE(x, y)`: x where it is there, else y."""
    known = _alike(formulas, [node.this, *node.expressions])
    if known is None:
        return None
    picked = known[-1]
    for value in reversed(known[:-1]):
        presence = bound(formulas, conditions.all_of(value.present))
        picked = _chosen(formulas, presence, replace(value, present=()), picked)
    return picked


def _alike(formulas: Formulas, nodes: Sequence[exp.Expr]) -> list[_Whole] | None:
    """Alternatives with equally many digits behind the point; None if Python has to compute one."""
    numbers = []
    for node in nodes:
        number = _whole(formulas, node)
        if number is None:
            return None
        numbers.append(number)
    scale = max(number.scale for number in numbers)
    return [_scaled(number, scale) for number in numbers]


def _chosen(formulas: Formulas, chosen: Term, when_true: _Whole, when_false: _Whole) -> _Whole:
    """The first where `chosen` is 1, the second where it is 0; in doubt where either is."""
    present: tuple[Term, ...] = ()
    if when_true.present or when_false.present:
        presences = (conditions.all_of(side.present) for side in (when_true, when_false))
        present = (_pick(formulas, chosen, *presences),)
    term = _pick(formulas, chosen, when_true.term, when_false.term)
    doubts = (*when_true.doubts, *when_false.doubts)
    return _Whole(term, when_true.scale, max(when_true.most, when_false.most), doubts, present)


def _pick(formulas: Formulas, chosen: Term, when_true: Term, when_false: Term) -> Term:
    return formulas.builder.engine("pick", "number", chosen, when_true, when_false)
