"""Aggregates, with DISTINCT and FILTER.

An aggregate of SQL is one of the engine's, or a reducer of `sql.reducers`, over rows told apart by
their identity: what SQL counts twice is two rows. NULLs are rows that the aggregate's pattern does
not match; a group where none matches is NULL, or 0 for COUNT. Invariant: whole numbers are exact or
an error, sums, means, variances and quantiles of floats the exact value rounded (with its root,
twice).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from deltafix.engine.folds.accumulators import OWN
from deltafix.facts.wide import as_number, as_text
from deltafix.reducers.aggregate import UserReducer
from deltafix.reducers.ways import Way
from deltafix.rules.ast import And, Atom, Comparison, Formula, Or, conjunction
from deltafix.rules.terms import Aggregate, Call, Const, Term, Var
from deltafix.sql import reducers, statistics
from deltafix.sql.builder import NIL, Operand, Relation, absent, equal, some
from deltafix.sql.functions import itself
from deltafix.sql.literals import Scalar
from deltafix.sql.text import OF_WINDOWS, KurtosisPop, Mad, Product, data_type, exp
from deltafix.sql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL,
    MOST_DIGITS,
    NARROW_DIGITS,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Column,
    SqlType,
    array_of,
    decimal_type,
)

if TYPE_CHECKING:
    from deltafix.sql.formulas import Formulas

__all__ = [
    "AGGREGATE",
    "AggregateCall",
    "aggregates_in",
    "aggregates_of",
    "fold",
    "fold_over",
    "read_aggregate",
    "reducer_of",
    "way",
]


_OPS: Final[dict[type, str]] = {
    exp.Count: "count",
    exp.CountIf: "count",
    exp.Sum: "sum",
    exp.Avg: "mean",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "min",
    exp.LogicalOr: "max",
    exp.Variance: "variance",
    exp.VariancePop: "variance_pop",
    exp.Stddev: "deviation",
    exp.StddevSamp: "deviation",
    exp.StddevPop: "deviation_pop",
    exp.Median: "quantile_cont",
    exp.PercentileCont: "quantile_cont",
    exp.PercentileDisc: "quantile_disc",
    exp.Quantile: "quantile_disc",
    exp.Mode: "mode",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
    exp.GroupConcat: "string_agg",
    exp.ArrayAgg: "array_agg",
    exp.First: "first",
    exp.Last: "last",
    exp.AnyValue: "any_value",
    Product: "product",
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
    exp.Corr: "corr",
    exp.RegrSlope: "regr_slope",
    exp.RegrIntercept: "regr_intercept",
    exp.RegrR2: "regr_r2",
    exp.RegrSxx: "regr_sxx",
    exp.RegrSyy: "regr_syy",
    exp.RegrSxy: "regr_sxy",
    exp.Skewness: "skewness",
    exp.Kurtosis: "kurtosis",
    KurtosisPop: "kurtosis_pop",
    Mad: "mad",
}
_REWRITTEN: Final = (exp.RegrCount, exp.RegrAvgx, exp.RegrAvgy)
"""Aggregates of two columns that are others of one of them."""
_PAIRED: Final = frozenset(
    op for kind, op in _OPS.items() if op.startswith(("covar", "corr", "regr"))
)
"""Aggregates of two columns, of rows where both are there."""
_SHAPES: Final = frozenset(("skewness", "kurtosis", "kurtosis_pop"))
_BLANK: Final = frozenset(("regr_intercept", "regr_r2", *_SHAPES))
"""They are NULL where they would be NaN; in PostgreSQL all of two columns are."""
_NUMERIC: Final = frozenset(
    (
        *("variance", "variance_pop", "deviation", "deviation_pop"),
        *("quantile_cont", "product", "mad"),
    )
)
_SAMPLES: Final = frozenset(("variance", "deviation", "covar_samp"))
"""They are NULL for one value."""
_PICKED: Final = frozenset(("first", "last", "any_value"))
"""They are one of the values in their order."""
_LISTED: Final = frozenset(("array_agg", *_PICKED))
"""A value of theirs may be NULL."""
_UNITED: Final = frozenset(("string_agg", *_LISTED))
"""They put the values in an order."""
_USAGE = (
    "aggregates are COUNT, COUNT_IF, SUM, AVG, MIN, MAX, BOOL_AND, BOOL_OR, BIT_AND, BIT_OR, "
    "BIT_XOR, PRODUCT, VARIANCE, STDDEV, MEDIAN, QUANTILE_CONT, QUANTILE_DISC, MODE, CORR, "
    "COVAR_POP, COVAR_SAMP, REGR_SLOPE and the like, SKEWNESS, KURTOSIS, STRING_AGG, ARRAY_AGG, "
    "ANY_VALUE, ARG_MIN, ARG_MAX, and FIRST and LAST with ORDER BY"
)
AGGREGATE: Final = exp.Filter | exp.AggFunc | exp.WithinGroup
"""The nodes that are aggregates."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate as a query calls it.

    Attributes:
        op: the engine's aggregate.
        argument: what it ranges over, NULL where FILTER is not true; None for COUNT(*).
        by_value: whether a value counts once however often it occurs.
        listed: the value of ARRAY_AGG or FIRST, which may be NULL; its argument is a mark that it
            counts.
        order: what the values are sorted by, where that makes a difference.
        setting: the separator of STRING_AGG, the share of a quantile.
    """

    op: str
    argument: exp.Expr | None
    by_value: bool
    node: exp.Expr
    order: tuple[exp.Ordered, ...] = ()
    setting: exp.Expr | None = None
    listed: exp.Expr | None = None

    @property
    def operands(self) -> list[exp.Expr]:
        """The argument, the value that is listed, then what the values are sorted by."""
        sorted_by = [ordered.this for ordered in self.order] if self.is_united else []
        listed = [] if self.listed is None else [self.listed]
        return [] if self.argument is None else [self.argument, *listed, *sorted_by]

    @property
    def is_united(self) -> bool:
        """Whether it makes one value of many, in an order."""
        return self.op in _UNITED

    def blank_in(self, dialect: str) -> bool:
        """Whether it is NULL where it would be NaN."""
        return self.op in _BLANK or (self.op in _PAIRED and dialect == "postgres")

    @property
    def is_picked(self) -> bool:
        """Whether it is one of the values in their order."""
        return self.op in _PICKED

    @property
    def least(self) -> int:
        """How many values it takes not to be NULL."""
        return 0 if self.op == "count" else 2 if self.op in _SAMPLES else 1

    @property
    def counts_rows(self) -> bool:
        """Whether it makes a difference how often a row occurs."""
        return not self.by_value


def aggregates_of(select: exp.Expr) -> list[exp.Expr]:
    """The aggregates that a SELECT itself computes, with FILTER; not those of subqueries."""
    others = [select.args.get(key) for key in ("having", "qualify", "order")]
    others += select.args.get("windows") or ()
    return aggregates_in(*select.expressions, *(clause for clause in others if clause is not None))


def aggregates_in(*nodes: exp.Expr) -> list[exp.Expr]:
    """The aggregates in expressions, outermost ones; not those of subqueries."""
    aggregates, rest = list[exp.Expr](), [*reversed(nodes)]
    while rest:
        node = rest.pop()
        below: list[exp.Expr] = []
        if isinstance(node, AGGREGATE):
            aggregates.append(node)
        elif isinstance(node, exp.Window):  # its own function is none, what that is given may be
            wrapped = isinstance(node.this, exp.Filter | exp.IgnoreNulls | exp.RespectNulls)
            call = node.this.this if wrapped else node.this
            others = [child for child in node.iter_expressions() if child is not node.this]
            below = [*call.iter_expressions(), *others]
            if isinstance(node.this, exp.Filter):
                below.append(node.this.expression)
        elif not isinstance(node, exp.Query | exp.Subquery):
            below = [*node.iter_expressions()]
        rest += reversed(below)
    return aggregates


def read_aggregate(formulas: Formulas, node: exp.Expr, *, window: bool = False) -> AggregateCall:
    """Read an aggregate, which in a window may be of others.

    Raises SqlRefusedError for those that are not maintained.
    """
    builder = formulas.builder
    condition = None
    inner = node
    if isinstance(node, exp.Filter):
        condition, inner = node.expression.this, node.this
    inner = _as_meant(inner, builder.statement.dialect)
    if isinstance(inner, exp.ArgMax | exp.ArgMin):
        inner, present = _by_extreme(formulas, node, inner)
        condition = present if condition is None else exp.and_(condition, present)
    if _OPS.get(type(inner)) in _PAIRED or isinstance(inner, _REWRITTEN):
        inner, present = _of_two(formulas, node, inner)
        condition = present if condition is None else exp.and_(condition, present)
    order: list[exp.Ordered] = []
    if isinstance(inner, exp.WithinGroup):
        order, inner = inner.expression.expressions, inner.this
    op = _OPS.get(type(inner))
    if op is None:
        if isinstance(inner, OF_WINDOWS):
            raise builder.statement.misplaced(inner)
        raise builder.refused(f"the aggregate {builder.statement.called(inner)}", node, _USAGE)
    if op in _SHAPES:
        if formulas.scope.statement.dialect != "duckdb":
            raise builder.refused(
                f"{builder.statement.called(inner)} in this dialect", node, _USAGE
            )
        inner = type(inner)(this=exp.Cast(this=inner.this.copy(), to=data_type("DOUBLE")))
    argument = inner.this
    setting = next((inner.args[key] for key in _SETTINGS if inner.args.get(key)), None)
    for key, value in inner.args.items():
        known = ("this", "big_int", "nulls_excluded", *_SETTINGS)
        if value and key not in known and value != []:
            raise builder.refused(f"{builder.statement.called(inner)} with {key}", node, _USAGE)
    if order:
        if len(order) != 1 or not op.startswith("quantile"):
            raise builder.refused(
                f"WITHIN GROUP for {builder.statement.called(inner)}", node, _USAGE
            )
        argument, setting = order[0].this, argument
    if op == "any_value" and not isinstance(argument, exp.Order):
        op = "min"  # as good as any, and the same whatever order the rows came in
    elif op in _PICKED and not (window or isinstance(argument, exp.Order)):
        what = f"{inner.key.upper()} without ORDER BY, whose rows have no order,"
        way_out = f"write {inner.key.upper()}(x ORDER BY y), or MIN, MAX or ANY_VALUE"
        raise builder.refused(what, node, way_out)
    by_value = op in ("min", "max")
    if isinstance(argument, exp.Order):
        if op not in _UNITED:
            raise builder.refused("ORDER BY in an aggregate", node, "it makes no difference here")
        argument, order = argument.this, argument.expressions
    if isinstance(argument, exp.Distinct):
        several = _several(argument, builder.statement.dialect) if op == "count" else None
        if several is None and (len(argument.expressions) != 1 or argument.args.get("on")):
            way_out = "write COUNT(DISTINCT (a, b)), or count a SELECT DISTINCT subquery"
            raise builder.refused("DISTINCT of several", node, way_out)
        argument, by_value = several or argument.expressions[0], True
        if op in _UNITED and any(ordered.this != argument for ordered in order):
            way_out = "order by what is aggregated, or by nothing"
            raise builder.refused("DISTINCT with another ORDER BY", node, way_out)
    if isinstance(inner, exp.CountIf):
        argument = exp.Case(ifs=[exp.If(this=argument, true=exp.Literal.number(1))])
    if isinstance(argument, exp.Star) or (op == "count" and argument is None):
        argument = None
    if isinstance(argument, exp.Column) and isinstance(argument.this, exp.Star):
        argument = None
    listed = None
    if op in _LISTED:
        listed, argument = argument, exp.Literal.number(1)
        if inner.args.get("nulls_excluded") or op == "any_value":
            present = exp.Is(this=listed, expression=exp.Null()).not_()
            condition = present if condition is None else exp.and_(condition, present)
    if condition is not None:
        counted = argument if argument is not None else exp.Literal.number(1)
        argument = exp.Case(ifs=[exp.If(this=condition, true=counted)])
    parts = [part for part in (argument, listed) if part is not None]
    nested = aggregates_in(*(() if window else parts))
    if nested:
        message = f"an aggregate inside {inner.key.upper()}"
        raise builder.statement.wrong(message, nested[0], "aggregate a grouped subquery")
    return AggregateCall(op, argument, by_value, node, tuple(order), setting, listed)


def _several(distinct: exp.Distinct, dialect: str) -> exp.Expr | None:
    """A row of values that is counted, as a struct; None where one value is.

    `DISTINCT (a, b)` counts rows with NULLs, and Spark's `DISTINCT a, b` none of them.
    """
    values = distinct.expressions
    is_row = len(values) == 1 and isinstance(values[0], exp.Tuple)
    if not is_row and (dialect != "spark" or len(values) == 1):
        return None
    values = values[0].expressions if is_row else values
    fields = [
        exp.PropertyEQ(this=exp.to_identifier(f"v{place}"), expression=value.copy())
        for place, value in enumerate(values)
    ]
    row = exp.Struct(expressions=fields)
    if is_row:
        return row
    known = exp.and_(
        *(exp.not_(exp.Is(this=value.copy(), expression=exp.Null())) for value in values)
    )
    return exp.Case(ifs=[exp.If(this=known, true=row)])


def _as_meant(inner: exp.Expr, dialect: str) -> exp.Expr:
    """An aggregate of a dialect as one that all have; an estimate as what it estimates."""
    if isinstance(inner, exp.ArrayUniqueAgg) and dialect == "spark":
        return exp.ArrayAgg(this=exp.Distinct(expressions=[inner.this]), nulls_excluded=True)
    if isinstance(inner, exp.ApproxDistinct) and dialect != "postgres":
        return exp.Count(this=exp.Distinct(expressions=[inner.this]))
    if isinstance(inner, exp.ApproxQuantile):
        return inner if dialect == "postgres" else _within(exp.PercentileDisc, inner)
    if isinstance(inner, exp.Quantile) and dialect == "spark":  # PERCENTILE: between two values
        return _within(exp.PercentileCont, inner)
    if isinstance(inner, exp.WithinGroup) and type(inner.this) is exp.Mode and not inner.this.this:
        (ordered, *more) = inner.expression.expressions
        if not more and not ordered.args.get("desc"):  # of several the first, here and there
            return exp.Mode(this=ordered.this)
    return inner


def _within(kind: type[exp.Expr], quantile: exp.Quantile) -> exp.Expr:
    order = exp.Order(expressions=[exp.Ordered(this=quantile.this)])
    return exp.WithinGroup(this=kind(this=quantile.args["quantile"]), expression=order)


def _of_two(formulas: Formulas, node: exp.Expr, inner: Any) -> tuple[exp.Expr, exp.Expr]:
    """CORR(y, x) as one of `[y, x]`, of DOUBLEs, and the condition for it: that both are there."""
    y, x = inner.this, inner.expression
    if x is None or formulas.scope.statement.dialect == "spark":
        way_out = "write it with SUM(y * x), SUM(x), COUNT(x)"
        raise formulas.builder.refused(
            f"{formulas.scope.statement.called(inner)} here", node, way_out
        )
    both = exp.and_(*(exp.Is(this=value.copy(), expression=exp.Null()).not_() for value in (y, x)))
    values = [exp.Cast(this=value.copy(), to=data_type("DOUBLE")) for value in (y, x)]
    if isinstance(inner, exp.RegrCount):
        return exp.Count(this=exp.Literal.number(1)), both
    if isinstance(inner, _REWRITTEN):
        return exp.Avg(this=values[isinstance(inner, exp.RegrAvgx)]), both
    return type(inner)(this=exp.Array(expressions=values)), both


def _by_extreme(
    formulas: Formulas, node: exp.Expr, inner: exp.ArgMax | exp.ArgMin
) -> tuple[exp.Expr, exp.Expr]:
    """ARG_MAX(x, y) as the first x by y, and the condition for it: that there is a y.

    Of DuckDB's dialect that there is an x, too. Of rows that have the same y it is the least x.
    """
    by, value = inner.expression, inner.this
    if by is None or inner.args.get("count") or isinstance(value, exp.Order):
        raise formulas.builder.refused("this ARG_MAX", node, "write ARG_MAX(value, by)")
    kind = exp.First if formulas.scope.statement.dialect == "spark" else exp.AnyValue
    ordered = exp.Ordered(this=by.copy(), desc=isinstance(inner, exp.ArgMax), nulls_first=False)
    first = kind(this=exp.Order(this=value.copy(), expressions=[ordered]))
    return first, exp.Is(this=by.copy(), expression=exp.Null()).not_()


_SETTINGS = ("separator", "expression", "quantile")


def _typed(
    formulas: Formulas, aggregate: AggregateCall, kind: SqlType, keys: Sequence[Column]
) -> tuple[str, SqlType]:
    """The engine's aggregate and the type of its value, for an argument and sort keys of types."""
    node = aggregate.node.this if isinstance(aggregate.node, exp.Filter) else aggregate.node
    inner = node.this if isinstance(node, exp.WithinGroup) else node
    op = aggregate.op
    if op == "count":
        return "count", BIGINT
    in_duckdb = formulas.scope.statement.dialect == "duckdb"
    takes = {
        isinstance(inner, exp.LogicalAnd | exp.LogicalOr): (kind == BOOLEAN, "BOOLEAN"),
        op in ("sum", "mean"): (
            kind.is_numeric or kind is INTERVAL or (op == "sum" and kind is BOOLEAN and in_duckdb),
            "numbers or INTERVAL",
        ),
        op in _NUMERIC: (
            kind.is_numeric or (op == "quantile_cont" and kind in _AT and in_duckdb),
            "numbers: CAST(... AS DOUBLE)",
        ),
        op in _SHAPES: (kind == DOUBLE, "DOUBLE: CAST(... AS DOUBLE)"),
        op.startswith("bit_"): (kind.is_integer, "whole numbers"),
        op == "string_agg": (kind == TEXT, "TEXT: CAST(... AS TEXT)"),
    }.get(True)
    if takes is not None and not takes[0]:
        message = f"{formulas.scope.statement.called(inner)} of {kind.name}"
        raise formulas.scope.statement.wrong(message, aggregate.node, f"it takes {takes[1]}")
    if op in ("min", "max"):
        return op, kind
    if kind is INTERVAL and op in ("sum", "mean"):
        reducer = reducers.Lengths(is_mean=op == "mean")
        return formulas.builder.reducer(f"{op}_interval", reducer, kind.base, kind.base), kind
    if (op == "mean" and not kind.is_decimal) or (op == "sum" and kind == DOUBLE):
        return op, DOUBLE
    return _reducer(formulas, aggregate, kind, keys)


def _reducer(
    formulas: Formulas, aggregate: AggregateCall, kind: SqlType, keys: Sequence[Column]
) -> tuple[str, SqlType]:
    """An aggregate that is a reducer, and the type of its value."""
    op, make = aggregate.op, formulas.builder.reducer
    reducer: UserReducer
    if op == "sum":
        reducer, result = _summed(kind)
        reducer = _over(kind, reducer, result)
        return make(f"sum_{kind.code}", reducer, kind.base, result.base), result
    if op == "mean":
        reducer = _over(kind, reducers.Mean(kind.scale), DOUBLE)
        return make(f"mean_{kind.scale}", reducer, kind.base, "float"), DOUBLE
    if op.startswith("bit_"):
        reducer = reducers.Bits(op.removeprefix("bit_"))
        return make(op, reducer, "number", "number"), BIGINT
    if op == "mode":
        return make(op, reducers.Mode(), kind.base, kind.base), kind
    if op.startswith("quantile"):
        share = _share(formulas, aggregate)
        continuous = op == "quantile_cont"
        descending = bool(aggregate.order and aggregate.order[0].args.get("desc"))
        read: Callable[[Any], Any] = as_number if kind.is_wide else itself
        result = DOUBLE if continuous else kind
        name = f"{op}_{share}_{kind.scale}{'_descending' * descending}"
        close: Callable[[Any], Any] = float
        if continuous and kind in _AT:
            result, close = _AT[kind], reducers.nearest
            read = _midnight if kind is DATE else itself
            name += f"_{kind.name}"
        reducer = reducers.Quantile(
            share, kind.scale, read, continuous=continuous, descending=descending, close=close
        )
        return make(name, reducer, kind.base, result.base), result
    if op in _UNITED:
        listed = keys[0] if op in _LISTED else None
        sorts = keys[listed is not None :]
        ways = [way(key, ordered) for key, ordered in zip(sorts, aggregate.order, strict=True)]
        record = formulas.builder.record(_listed(kind, keys))
        if listed is None:
            between = _separator(formulas, aggregate)
            reducer, result = reducers.string_agg(between, ways), TEXT
            name = "_".join((op, between, *map(str, ways)))
        else:
            result = array_of(listed.type, formulas.scope.statement, aggregate.node)
            base, most = listed.type.base, 1 if op in _PICKED else None
            ways.append(Way(listed.nullable))
            if op == "last":
                ways = [by.turned for by in ways]
            reducer = reducers.array_agg(base, ways, most, nullable=listed.nullable)
            name = "_".join((op, *map(str, ways)))
        return make(name, reducer, record, "symbol"), result
    if op == "mad":
        reducer = _over(kind, reducers.Deviation(kind.scale), DOUBLE)
        return make(f"{op}_{kind.scale}", reducer, kind.base, "float"), DOUBLE
    if op == "product":
        reducer = _over(kind, reducers.Product(kind.scale), DOUBLE)
        return make(f"{op}_{kind.scale}", reducer, kind.base, "float"), DOUBLE
    if op in _PAIRED:
        assert kind.read is not None  # noqa: S101  an array
        return make(op, statistics.Paired(op, kind.read), kind.base, "float"), DOUBLE
    if op in _SHAPES:
        return make(op, statistics.Shape(op), "float", "float"), DOUBLE
    ddof, root = int(op in _SAMPLES), op.startswith("deviation")
    reducer = _over(kind, reducers.Spread(ddof=ddof, root=root, scale=kind.scale), DOUBLE)
    return make(f"{op}_{kind.scale}", reducer, kind.base, "float"), DOUBLE


_AT: Final = {
    DATE: TIMESTAMP, TIME: TIME, TIMESTAMP: TIMESTAMP, TIMESTAMPTZ: TIMESTAMPTZ,
}  # fmt: skip
"""What is between days and moments, in DuckDB's dialect."""


def _midnight(days: Any) -> int:
    at: int = days * 86_400_000_000
    return at


def _summed(kind: SqlType) -> tuple[reducers.Sum, SqlType]:
    """SUM of whole numbers, decimals or truths of a type, and the type of its value."""
    if kind.is_integer or kind is BOOLEAN:
        wider = f"DECIMAL({MOST_DIGITS}, 0)"
        return reducers.Sum("BIGINT", -1 << 63, (1 << 63) - 1, wider=wider), BIGINT
    result = decimal_type(MOST_DIGITS if kind.is_wide else NARROW_DIGITS, kind.scale)
    end = 10**result.digits
    wider = "" if kind.is_wide else f"DECIMAL({MOST_DIGITS}, {kind.scale})"
    return reducers.Sum(result.name, 1 - end, end - 1, kind.scale, wider), result


def _over(kind: SqlType, reducer: UserReducer, result: SqlType) -> UserReducer:
    """A reducer of numbers as one of the values that the engine has of a type, and gives."""
    if not kind.is_wide:
        return reducer
    return reducers.Wide(reducer, as_text if result.is_wide else itself)


def way(key: Operand | Column, node: exp.Ordered | None) -> Way:
    """How an ORDER BY sorts a key; one that it does not name ascends, NULLs last."""
    down, first = (node and node.args.get(word) for word in ("desc", "nulls_first"))
    is_plain = key.type.base in ("number", "unsigned", "symbol")
    return Way(key.nullable, bool(down), bool(first), is_plain)


def reducer_of(
    formulas: Formulas, aggregate: AggregateCall, kind: SqlType, keys: Sequence[Column] = ()
) -> tuple[UserReducer, SqlType]:
    """An aggregate of values of a type that are not NULL as a reducer, and the type of its value.

    `keys` are what comes with a value of one that puts them in an order (`is_united`).
    """
    op, result = _typed(formulas, aggregate, kind, keys)
    if not op.startswith("@@"):
        return OWN[op], result
    if aggregate.op in _PICKED and result.element is not None:
        result = result.element
    return formulas.builder.reducers[op.removeprefix("@@")][1], result


def _listed(kind: SqlType, keys: Sequence[Column]) -> list[Column]:
    """The columns of what STRING_AGG and ARRAY_AGG take: an argument and what comes with it."""
    return [Column("argument", kind, nullable=False), *keys]


def _share(formulas: Formulas, aggregate: AggregateCall) -> Fraction:
    """The share of a quantile: a number from 0 to 1."""
    node = aggregate.setting
    if node is None and isinstance(aggregate.node.find(exp.Median), exp.Median):
        return Fraction(1, 2)
    if not isinstance(node, exp.Literal) or node.is_string or not 0 <= Fraction(node.this) <= 1:
        if isinstance(node, exp.Array):
            way_out = "write it once for each of them"
            raise formulas.scope.statement.refused("several quantiles at a time", node, way_out)
        message = "a quantile of no number from 0 to 1"
        raise formulas.scope.statement.wrong(message, node or aggregate.node, "write 0.9 for 90 %")
    return Fraction(node.this)


def _separator(formulas: Formulas, aggregate: AggregateCall) -> str:
    node = aggregate.setting
    if node is None:
        return ","
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise formulas.builder.refused("a separator that is no text", node, "write ', '")
    return str(node.this)


def _optional(formulas: Formulas, op: str, argument: Column, result: SqlType) -> str | None:
    """The engine's aggregate that passes over the NULLs of an argument; None where it has none."""
    reducer: UserReducer
    is_whole_mean = op == "mean" and argument.type.base == "number"
    kept = op if op in OWN and not is_whole_mean else ""
    if kept:
        reducer = OWN[op]
    elif is_whole_mean:
        reducer = reducers.Mean(0)
    else:
        known = formulas.builder.reducers.get(op.removeprefix("@@"))
        if known is None or not isinstance(known[1], reducers.Sum | reducers.Mean):
            return None
        reducer = known[1]
    value = Column("", result, nullable=op != "count")
    optional = reducers.There(reducer, kept)
    name = f"{op.removeprefix('@@')}_there"
    return formulas.builder.reducer(name, optional, argument.engine_type, value.engine_type)


Rows = Callable[[Sequence[Term]], Formula]
"""The body of an aggregate: the rows whose argument and sort keys are terms; none for any."""


def _value(
    formulas: Formulas,
    op: str,
    result: SqlType,
    rows: Rows,
    *,
    opens: SqlType | None,
    may_be_empty: bool,
    optional: str | None = None,
    least: int = 1,
    record: str | None = None,
    keys: Sequence[Column] = (),
    origin: tuple[str, int] | None = None,
    over: tuple[Term, ...] | None = None,
) -> Operand:
    """An aggregate over `rows`; what it is equal to goes to the body, once for each `origin`.

    `opens` is the type of an argument that can be NULL, whose NULLs do not count; `optional` an
    aggregate that passes over them itself. The value is NULL for fewer than `least` others. With
    `record`, a type, values come with their sort keys.
    `origin` is where the argument stands: a relation and a column of it; `over` tells rows apart.
    """
    builder = formulas.builder
    known = None if origin is None else (op, *origin)
    if op == "count" and opens is None and origin is not None:
        known = (op, origin[0], -1)  # of whatever column
    if known is not None and known in formulas.folds:
        return formulas.folds[known]

    def pattern(bare: Term) -> Term:
        return bare if opens is None else some(bare, opens)

    def noted(operand: Operand) -> Operand:
        if known is not None:
            formulas.folds[known] = operand
        return operand

    def counted() -> Formula:
        argument = [] if opens is None else [pattern(builder.fresh("v"))]
        return equal(number, Aggregate("count", None, rows(argument), over=over))

    if optional is not None:
        value, term = builder.fresh("v"), builder.fresh("a")
        counted_in: Formula = equal(term, Aggregate(optional, value, rows([value]), over=over))
        if may_be_empty:
            nothing = Const(0, "number") if op == "count" else NIL
            none = And((absent(rows([])), equal(term, nothing)))
            counted_in = Or((counted_in, none))
        formulas.body.append(counted_in)
        return noted(Operand(term, result, nullable=op != "count"))
    number = builder.fresh("n")
    if op == "count":
        formulas.body.append(counted())
        return noted(Operand(number, result, nullable=False))
    bare, term = builder.fresh("v"), builder.fresh("a")
    beside = [variable.term for variable in builder.variables(keys)]
    target = bare if record is None else Call(f"[{record}]", (bare, *beside))
    total = equal(term, Aggregate(op, target, rows([pattern(bare), *beside]), over=over))
    if not may_be_empty and least == 1:
        formulas.body.append(total)
        return noted(Operand(term, result, nullable=False))
    folded = Operand(builder.fresh("a"), result, nullable=True)
    enough: list[Formula] = [total, equal(folded.term, some(term, result))]
    too_few: Formula = absent(rows([pattern(builder.fresh("v"))]))
    if op == "sum" or least > 1:  # the engine's sum of nothing is 0
        enough += [counted(), Comparison(">=", number, Const(least, "number"))]
    if least > 1:
        too_few = And((counted(), Comparison("<", number, Const(least, "number"))))
    formulas.body.append(Or((And(tuple(enough)), And((too_few, equal(folded.term, NIL))))))
    return noted(folded)


def _folded(
    formulas: Formulas,
    aggregate: AggregateCall,
    columns: Sequence[Column],
    rows: Rows,
    *,
    empty: bool,
    origin: tuple[str, int] | None = None,
    over: tuple[Term, ...] | None = None,
) -> Operand:
    """An aggregate over `rows`, of an argument (none for COUNT(*)) and its sort keys.

    With `empty`, there may be no rows.
    """
    argument, *keys = columns or [Column("", BIGINT, nullable=False)]
    kind, opens = argument.type, argument.type if argument.nullable else None
    op, result = _typed(formulas, aggregate, kind, keys)
    optional = _optional(formulas, op, argument, result) if opens is not None else None
    folded = _value(
        formulas,
        op,
        result,
        rows,
        opens=opens,
        may_be_empty=empty or (opens is not None and optional is None),
        optional=optional,
        least=max(aggregate.least, 1),
        record=formulas.builder.record(_listed(kind, keys)) if aggregate.op in _UNITED else None,
        keys=keys,
        origin=origin,
        over=over,
    )
    if aggregate.blank_in(formulas.scope.statement.dialect):
        known = Scalar(
            lambda row: None if row[0] is None or math.isnan(row[0]) else row[0], DOUBLE, True
        )
        return formulas.builder.apply(known, [folded], formulas.body)
    if aggregate.op in _PICKED and result.element is not None:
        first = Scalar(lambda row: row[0][0] if row[0] else None, result.element, nullable=True)
        return formulas.builder.apply(first, [folded], formulas.body)
    if aggregate.listed is None or opens is None or not _without_nulls(aggregate):
        return folded
    or_empty = Scalar(lambda row: row[0] or (), result, nullable=False)
    return formulas.builder.apply(or_empty, [folded], formulas.body)


def _without_nulls(aggregate: AggregateCall) -> bool:
    """Whether it is Spark's ARRAY_AGG, which lists no NULL and is empty where there is nothing."""
    calls = aggregate.node.find_all(exp.ArrayAgg, exp.ArrayUniqueAgg)
    return any(isinstance(c, exp.ArrayUniqueAgg) or c.args.get("nulls_excluded") for c in calls)


def fold(
    formulas: Formulas,
    source: Relation,
    group: Mapping[int, Operand],
    positions: Sequence[int],
    aggregate: AggregateCall,
    *,
    empty: bool,
) -> Operand:
    """An aggregate over the rows of a relation of which some columns, by position, are the group.

    `positions` are those of its argument and of its sort keys; none for COUNT(*). `empty` says that
    there may be a group without rows.
    """
    builder = formulas.builder
    columns = source.all_columns
    if positions and aggregate.by_value and aggregate.op not in ("min", "max"):
        kept = (*group, *positions)
        distinct = builder.relation([columns[position] for position in kept])
        atom, operands = builder.bind(source)
        builder.rule(distinct, [operands[position].term for position in kept], [atom])
        source, columns = distinct, distinct.columns
        positions = range(len(group), len(kept))
        group = dict(enumerate(group.values()))
    relation, fixed, at = source, group, positions

    def rows(terms: Sequence[Term]) -> Formula:
        atom, operands = builder.bind(relation)
        args = [fixed.get(position, operand).term for position, operand in enumerate(operands)]
        for position, term in zip(at, terms, strict=False):
            args[position] = term
        return Atom(atom.relation, tuple(args))

    return _folded(
        formulas,
        aggregate,
        [columns[position] for position in positions],
        rows,
        empty=empty,
        origin=None if len(positions) > 1 else (relation.name, next(iter(positions), 0)),
    )


def fold_over(
    formulas: Formulas,
    inner: Formulas,
    identity: Sequence[Operand],
    node: exp.Expr,
    *,
    empty: bool,
) -> Operand:
    """An aggregate over the rows of `inner` inside the rule (a correlated scalar subquery).

    Its body may hold for a row in many ways, by an EXISTS say; `identity` tells its rows apart.
    With `empty`, it has a value where there are no rows.
    """
    aggregate = read_aggregate(inner, node)
    if aggregate.by_value and aggregate.op not in ("min", "max"):
        way_out = "join with a subquery that groups by the columns it is correlated by"
        raise formulas.builder.refused("DISTINCT in a correlated aggregate", node, way_out)
    operands = [inner.operand(expression) for expression in aggregate.operands]

    def rows(terms: Sequence[Term]) -> Formula:
        pairs = zip(operands, terms, strict=False)
        return conjunction([*inner.body, *(equal(operand.term, term) for operand, term in pairs)])

    return _folded(
        formulas,
        aggregate,
        [operand.column("") for operand in operands],
        rows,
        empty=empty,
        over=tuple(
            dict.fromkeys(operand.term for operand in identity if isinstance(operand.term, Var))
        ),
    )
