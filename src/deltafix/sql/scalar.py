"""Scalar expressions as Python functions of a row, with SQL's types and three-valued logic.

`Scalars(statement, leaf).compile(node)` gives a `Scalar`: its type, whether it can be NULL, and a
function from an environment to its value. Leaves (columns, subqueries, aggregates) are the
caller's: `leaf` gives a Scalar for the nodes that it knows, and None for the others. Invariant:
the function is total or raises ArithmeticError or ValueError, has no effects, and gives a value of
the type said. What is not in the tables here is refused, with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cache, partial
from operator import itemgetter
from typing import Any, Final, TypeAlias

from deltafix.errors import SqlError, SqlProgrammingError
from deltafix.sql import functions, times
from deltafix.sql.casts import cast
from deltafix.sql.text import Statement, data_type, exp
from deltafix.sql.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    MOST_DIGITS,
    NULL,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Column,
    SqlType,
    SqlValue,
    Struct,
    array_of,
    array_type,
    common_type,
    decimal_type,
    fits,
    struct_of,
    written_type,
)

__all__ = [
    "COMPARISONS", "Given", "Scalar", "Scalars", "constant", "literal", "number", "over", "typed",
    "whole",
]  # fmt: skip

Compute: TypeAlias = Callable[[Any], Any]

_END: Final = (1 << 63) - 1
"""A place behind every array."""

COMPARISONS: Final[dict[type, str]] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
"""The comparisons, and how rules write them."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """An expression that can be computed: `compute(environment)` is its value.

    Those that say the same, where it is known what they say, compute the same.
    """

    compute: Compute
    type: SqlType
    nullable: bool
    says: Hashable = None


def literal(value: SqlValue) -> Scalar:
    """A constant."""
    if value is None:
        kind = NULL
    elif isinstance(value, bool):
        kind = BOOLEAN
    elif isinstance(value, int):
        kind = INTEGER if fits(value, INTEGER) else BIGINT
    elif isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)  # noqa: S101  a literal is finite
        kind = decimal_type(max(len(digits), -exponent), -exponent)
    elif isinstance(value, datetime):
        kind = TIMESTAMP if value.tzinfo is None else TIMESTAMPTZ
    elif isinstance(value, date):
        kind = DATE
    elif isinstance(value, bytes):
        kind = BLOB
    else:
        kind = DOUBLE if isinstance(value, float) else TEXT
    return Scalar(lambda _: value, kind, value is None)


class Given:
    """What a parameter stands for, in its place in a tree: a value, another one each time.

    It is that of every copy of the tree, so that what was compiled of one computes with it.
    """

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: SqlValue = None

    def __deepcopy__(self, _: object) -> Given:
        return self

    @staticmethod
    def at(node: exp.Expr) -> Given | None:
        """What stands in a node's place."""
        return node.meta.get("given") if isinstance(node, exp.Placeholder) else None


def number(text: str) -> SqlValue:
    """The value of a number as it is written."""
    if text.isdigit():
        return int(text) if int(text) < 1 << 63 else float(text)
    exact = len(text) <= MOST_DIGITS and text.replace(".", "", 1).isdigit()
    return Decimal(text) if exact else float(text)


def constant(node: exp.Expr) -> Scalar | None:
    """The Scalar of a literal, or of what is given for one; None for any other node."""
    if isinstance(node, exp.Null):
        return literal(None)
    if isinstance(node, exp.Boolean):
        return literal(bool(node.this))
    if isinstance(node, exp.Literal):
        text = str(node.this)
        return literal(text if node.is_string else number(text))
    if isinstance(node, exp.Neg):
        inner = constant(node.this)
        if inner is not None and inner.type.is_numeric:
            return literal(-inner.compute(None))
    if isinstance(node, exp.Placeholder):
        given = Given.at(node)
        if given is not None:
            return replace(literal(given.value), compute=lambda _: given.value)
    return constant(node.this) if isinstance(node, exp.Paren) else None


def whole(node: exp.Expr) -> int | None:
    """The whole number that a literal is; None for any other node."""
    scalar = constant(node)
    value = None if scalar is None else scalar.compute(None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def typed(node: exp.Expr, kind: SqlType) -> exp.Expr:
    """A node beside one of a type: a literal in quotes is of that type, in an array too."""
    inner = node.unnest()
    if kind.element is not None and isinstance(inner, exp.Array):
        return exp.Array(expressions=[typed(one, kind.element).copy() for one in inner.expressions])
    if kind.fields and isinstance(inner, exp.Struct):
        kinds = dict(kind.fields)
        inner = inner.copy()
        for one in inner.expressions:
            if isinstance(one, exp.PropertyEQ) and one.name in kinds:
                one.set("expression", typed(one.expression, kinds[one.name]).copy())
        return inner
    is_row = isinstance(inner, exp.Anonymous) and inner.name.upper() == "ROW"
    if is_row and kind.fields and len(inner.expressions) == len(kind.fields):
        named = [
            exp.PropertyEQ(this=exp.to_identifier(name), expression=typed(one, of).copy())
            for (name, of), one in zip(kind.fields, inner.expressions, strict=True)
        ]
        return exp.Struct(expressions=named)
    given = Given.at(inner)
    quoted = isinstance(inner, exp.Literal) and inner.is_string
    quoted = quoted or (given is not None and isinstance(given.value, str))
    if quoted and kind not in (TEXT, NULL) and not kind.is_nested:
        return exp.Cast(this=inner.copy(), to=data_type(kind.name))
    return node


def _strict(compute: Callable[..., Any], *args: Compute) -> Compute:
    """A function that is NULL where an argument is."""
    if len(args) == 1:
        (one,) = args

        def unary(row: Any) -> Any:
            value = one(row)
            return None if value is None else compute(value)

        return unary

    def found(row: Any) -> Any:
        values = [arg(row) for arg in args]
        return None if None in values else compute(*values)

    return found


def over(statement: Statement, *tables: tuple[str, Sequence[Column]]) -> Scalars:
    """Expressions over single rows of tables, each a name and columns, as one list of values.

    A name without a table is never a column of `excluded`, the row that was to be inserted.
    """
    places: dict[str, dict[str, Scalar]] = {}
    width = 0
    for table, columns in tables:
        places[table] = {
            one.name: Scalar(itemgetter(place), one.type, one.nullable)
            for place, one in enumerate(columns, width)
        }
        width += len(columns)

    def leaf(node: exp.Expr) -> Scalar | None:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        table, name = node.table, node.name
        meant = [one for one in places if one == table or not (table or one == EXCLUDED)]
        if not meant:
            raise statement.unknown("table", table, list(places), node)
        found = {one: places[one][name] for one in meant if name in places[one]}
        if not found:
            known = [column for one in meant for column in places[one]]
            raise statement.unknown("column", name, known, node)
        if len(found) > 1:
            message = f"column {name!r} is in {' and in '.join(found)}"
            raise statement.wrong(message, node, f"write {next(iter(found))}.{name}")
        return next(iter(found.values()))

    return Scalars(statement, leaf)


EXCLUDED: Final = "excluded"

_OF_ONE: Final = {"CARDINALITY": exp.ArraySize, "OCTET_LENGTH": exp.ByteLength}
"""Functions of one argument that sqlglot has no node for in some dialects."""

_ELEMENTS: Final = ("LIST_EXTRACT", "LIST_ELEMENT", "ARRAY_EXTRACT")

_CHANGING: Final = (
    exp.CurrentDate, exp.CurrentDatetime, exp.CurrentTime, exp.CurrentTimestamp, exp.Localtime,
    exp.Localtimestamp, exp.Rand, exp.Uuid,
)  # fmt: skip
_CHANGING_NAMES: Final = (
    "CLOCK_TIMESTAMP", "GET_CURRENT_TIMESTAMP", "NOW", "STATEMENT_TIMESTAMP", "TODAY",
    "TRANSACTION_TIMESTAMP", "UNIX_TIMESTAMP",
)  # fmt: skip
"""Functions whose value is another one the next time."""


@dataclass(frozen=True, slots=True)
class Scalars:
    """Compiles expressions of one statement."""

    statement: Statement
    leaf: Callable[[exp.Expr], Scalar | None]

    def compile(self, node: exp.Expr) -> Scalar:
        """The expression. Raises SqlProgrammingError, SqlRefusedError."""
        found = self.leaf(node) or constant(node)
        if found is not None:
            return found
        kind: Any = type(node)  # hashable, which mypy does not see of a class of classes
        method = _method(kind)
        if method is not None:
            return method(self, node)
        if isinstance(node, exp.Window):
            way_out = "window functions stand in SELECT, QUALIFY and the ORDER BY of a LIMIT"
            raise self.statement.refused("a window function here", node, way_out)
        if isinstance(node, exp.Anonymous) and node.name.upper() in _OF_ONE:
            node = _OF_ONE[node.name.upper()](this=next(iter(node.expressions), None))
        if isinstance(node, exp.Anonymous) and node.name.upper() in _ELEMENTS and node.expressions:
            array, *places = node.expressions
            return self.at(exp.Bracket(this=array, expressions=places, offset=1))
        if isinstance(node, exp.Anonymous) and node.name.upper() == "LIST_SLICE":
            given = dict(zip(("this", "start", "end", "step"), node.expressions, strict=False))
            if len(given) > 2:
                node = exp.ArraySlice(**given)
                return self.slice(node, node)
        function = functions.FUNCTIONS.get(type(node))
        if isinstance(node, exp.Encode | exp.Decode) and not functions.is_utf8(node):
            way_out = "write ENCODE(text) and DECODE(blob), of UTF-8, or HEX and UNHEX"
            raise self.statement.refused(f"{node.key.upper()} in another code", node, way_out)
        if isinstance(node, exp.HexString) and self.statement.dialect == "spark":
            return literal(bytes.fromhex(node.name))
        if isinstance(node, exp.Concat):
            function = functions.CONCAT[bool(node.args.get("coalesce"))]
        if function is None and isinstance(node, exp.Anonymous) and node.name.upper() == "ROW":
            way_out = "write {'name': value}, or CAST(ROW(...) AS STRUCT(name type))"
            raise self.statement.refused("ROW(...), whose fields have no names,", node, way_out)
        if isinstance(node, exp.Tuple):
            way_out = (
                "compare each on its own: a = 1 AND b = 2, or with EXISTS; a struct is {'name': a}"
            )
            raise self.statement.refused("a row of values, (a, b),", node, way_out)
        if function is None:
            name = node.sql_name() if isinstance(node, exp.Func) else node.key.upper()
            name = node.name if isinstance(node, exp.Anonymous) else name
            if isinstance(node, _CHANGING) or name.upper() in _CHANGING_NAMES:
                way_out = (
                    "it changes without an edit: give its value as a parameter, or keep it in a "
                    "table of one row that views join with; an UPDATE of that tells what changes"
                )
                raise self.statement.refused(name, node, way_out)
            if isinstance(node, exp.Explode | exp.Unnest):
                way_out = "write it in SELECT, or in FROM: ... CROSS JOIN UNNEST(array) AS u (x)"
                raise self.statement.refused("UNNEST here", node, way_out)
            way_out = f"functions are {functions.NAMES}; compute it before the rows come in"
            raise self.statement.refused(f"{name}(...)", node, way_out)
        return self.function(node, function)

    def function(self, node: exp.Expr, function: functions.Function) -> Scalar:
        """A function of `sql.functions`."""
        given = {key: value for key, value in node.args.items() if value not in (None, [], False)}
        for key in given:
            if key not in function.arguments and key not in function.flags:
                message = f"{node.key.upper()} with {key}"
                raise self.statement.refused(message, node, f"write {function.usage}")
        args = []
        for key in function.arguments:
            value = given.get(key, ())
            args.extend(value if isinstance(value, list) else [value] if value != () else [])
        values = [self.compile(arg) for arg in args]
        kind = function.result([value.type for value in values])
        if function.unites and kind is not None:
            values = [self.converted(value, kind) for value in values]
        if kind is None or len(values) < function.least:
            types = ", ".join(value.type.name for value in values)
            message = f"{node.key.upper()}({types}) has no meaning"
            raise self.statement.wrong(message, node, f"write {function.usage}")
        nullable = any(value.nullable for value in values)
        if function.strict:
            compute = _strict(function.compute, *(value.compute for value in values))
        else:
            parts = [value.compute for value in values]
            body = function.compute
            if function.orders:
                body = partial(body, functions.order_of(kind))

            def compute(row: Any) -> Any:
                return body(*(part(row) for part in parts))

            nullable = function.nullable([value.nullable for value in values])
        return self.checked(compute, kind, nullable)

    def checked(self, compute: Compute, kind: SqlType, nullable: bool) -> Scalar:
        """A Scalar whose whole numbers and decimals are those of its type, or an error."""
        if kind.is_decimal:
            fitted = cast(DOUBLE, kind)
            assert fitted is not None  # noqa: S101  all numbers convert
            return Scalar(_strict(fitted, compute), kind, nullable)
        if not kind.is_integer:
            return Scalar(compute, kind, nullable)
        least, most = -(1 << kind.bits - 1), (1 << kind.bits - 1) - 1

        def within(row: Any) -> Any:
            value = compute(row)
            if value is not None and not least <= value <= most:
                raise OverflowError(f"{value} is no {kind.name}")
            return value

        return Scalar(within, kind, nullable)

    def converted(self, scalar: Scalar, kind: SqlType) -> Scalar:
        """A Scalar as one of another type, to which its own converts."""
        if scalar.type.code == kind.code or NULL in (scalar.type, kind):
            return Scalar(scalar.compute, kind, scalar.nullable)
        convert = cast(scalar.type, kind)
        assert convert is not None  # noqa: S101  types were found to have a common one
        return Scalar(_strict(convert, scalar.compute), kind, scalar.nullable)

    # --- operators -----------------------------------------------------------------------------

    def arithmetic(self, node: exp.Expr) -> Scalar:
        """`+ - * / // %`, of days and moments too."""
        if isinstance(node.expression.unnest(), exp.Interval):
            return self.moved(node)
        left, right = self.compile(node.this), self.compile(node.expression)
        if left.type.is_time or right.type.is_time:
            return self.days(node, left, right)
        kind = common_type(left.type, right.type)
        if kind is None or not (kind.is_numeric or kind == NULL):
            raise self.mismatch(node, left, right, "numbers")
        kind = INTEGER if kind == NULL else kind
        name = type(node)
        if name is exp.Div and not (node.args.get("typed") and kind.is_integer):
            kind = DOUBLE
        if kind.is_decimal:
            return self.exact(node, left, right, kind)
        if left.type.is_decimal or right.type.is_decimal:
            left, right = self.converted(left, kind), self.converted(right, kind)
        operate = functions.ARITHMETIC[exp.IntDiv if name is exp.Div and kind != DOUBLE else name]
        if kind == DOUBLE and name is exp.IntDiv:
            raise self.mismatch(node, left, right, "whole numbers")
        safe = name is exp.Div and bool(node.args.get("safe"))
        if name is exp.Div and kind == DOUBLE:
            operate = functions.DIVISION["null" if safe else self.by_zero(node)]
        compute = _strict(operate, left.compute, right.compute)
        return self.checked(compute, kind, left.nullable or right.nullable or safe)

    def exact(self, node: exp.Expr, left: Scalar, right: Scalar, kind: SqlType) -> Scalar:
        """`+ - * %` of decimals: exact, or an error beyond 18 digits."""
        operate = functions.DECIMAL_ARITHMETIC.get(type(node))
        if operate is None:
            raise self.mismatch(node, left, right, "whole numbers")
        if isinstance(node, exp.Mul):
            scale = left.type.scale + right.type.scale
            if scale > MOST_DIGITS:
                message = f"a product of {scale} digits behind the point"
                raise self.statement.wrong(message, node, "CAST(... AS DOUBLE) one side")
            kind = decimal_type(MOST_DIGITS, scale)
        elif not isinstance(node, exp.Mod):
            kind = decimal_type(kind.digits + 1, kind.scale)
        compute = _strict(operate, left.compute, right.compute)
        return self.checked(compute, kind, left.nullable or right.nullable)

    def moved(self, node: exp.Expr) -> Scalar:
        """A day or a moment plus or minus INTERVAL."""
        left = self.compile(node.this)
        step = times.interval(self.statement, node.expression.unnest())
        if not left.type.is_time or not isinstance(node, exp.Add | exp.Sub):
            message = f"{node.key.upper()} of {left.type.name} and INTERVAL"
            way_out = "an interval is added to a DATE or TIMESTAMP, or taken from it"
            raise self.statement.wrong(message, node, way_out)
        kind = TIMESTAMP if left.type is DATE else left.type
        start = self.converted(left, kind)
        sign = 1 if isinstance(node, exp.Add) else -1
        compute = _strict(lambda moment: times.moved(moment, step, sign), start.compute)
        return Scalar(compute, kind, left.nullable)

    def days(self, node: exp.Expr, left: Scalar, right: Scalar) -> Scalar:
        """DATE + 3, 3 + DATE, DATE - 3, DATE - DATE."""
        nullable = left.nullable or right.nullable
        if isinstance(node, exp.Add) and right.type is DATE:
            left, right = right, left
        if left.type is right.type is DATE and isinstance(node, exp.Sub):
            compute = _strict(times.days_between, right.compute, left.compute)
            return Scalar(compute, BIGINT, nullable)
        if left.type is not DATE or not (right.type.is_integer or right.type is NULL):
            raise self.mismatch(node, left, right, "a DATE and whole days, or an INTERVAL")
        if not isinstance(node, exp.Add | exp.Sub):
            raise self.mismatch(node, left, right, "numbers")
        sign = 1 if isinstance(node, exp.Add) else -1
        compute = _strict(lambda day, n: times.later(day, sign * n), left.compute, right.compute)
        return Scalar(compute, DATE, nullable)

    def part(self, node: exp.Expr) -> Scalar:
        """EXTRACT(YEAR FROM x), YEAR(x)."""
        asked = node.expression if isinstance(node, exp.Extract) else node.this
        name = node.this.name if isinstance(node, exp.Extract) else node.key
        inner = self.compile(self.moment(asked))
        read = times.PARTS.get(name.upper())
        if read is None:
            way_out = f"parts are {', '.join(times.PARTS)}"
            raise self.statement.refused(f"EXTRACT of {name}", node, way_out)
        if not inner.type.is_time and inner.type is not NULL:
            message = f"{name.upper()} of {inner.type.name}"
            raise self.statement.wrong(message, node, "CAST(... AS DATE) it")
        return Scalar(_strict(read, inner.compute), BIGINT, inner.nullable)

    def truncated(self, node: exp.Expr) -> Scalar:
        """DATE_TRUNC('month', x)."""
        inner = self.compile(self.moment(node.this))
        unit = node.args["unit"].name.upper()
        cut = times.TRUNCATED.get(unit)
        if cut is None:
            way_out = f"units are {', '.join(times.TRUNCATED)}"
            raise self.statement.refused(f"DATE_TRUNC of {unit}", node, way_out)
        if not inner.type.is_time:
            message = f"DATE_TRUNC of {inner.type.name}"
            raise self.statement.wrong(message, node, "CAST(... AS DATE) it")
        kind = TIMESTAMP if inner.type is DATE else inner.type
        start = self.converted(inner, kind)
        return Scalar(_strict(cut, start.compute), kind, inner.nullable)

    def moment(self, node: exp.Expr) -> exp.Expr:
        """What Spark's functions of days are asked about: sqlglot notes that it is cast to one."""
        return node.this if isinstance(node, exp.TsOrDsToDate) else node

    def by_zero(self, node: exp.Expr) -> str:
        """What division by zero gives: DuckDB's `/` infinity, PostgreSQL's an error."""
        return "error" if node.args.get("typed") else "float"

    def negative(self, node: exp.Expr) -> Scalar:
        """`-x`."""
        inner = self.compile(node.this)
        if not (inner.type.is_numeric or inner.type == NULL):
            raise self.mismatch(node, inner, inner, "numbers")
        return self.checked(_strict(lambda x: -x, inner.compute), inner.type, inner.nullable)

    def comparison(self, node: exp.Expr) -> Scalar:
        """`= <> < <= > >=`, and IS [NOT] DISTINCT FROM."""
        if isinstance(node.expression, exp.Any):
            return self.any_of(node)
        left, right, order = self.pair(node, node.this, node.expression)
        test = functions.COMPARE[type(node)]
        if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
            same = isinstance(node, exp.NullSafeEQ)

            def distinct(row: Any) -> bool:
                one, two = left.compute(row), right.compute(row)
                equal = one is two if one is None or two is None else order(one) == order(two)
                return equal is same

            return Scalar(distinct, BOOLEAN, nullable=False)
        compute = _strict(lambda a, b: test(order(a), order(b)), left.compute, right.compute)
        return Scalar(compute, BOOLEAN, left.nullable or right.nullable)

    def pair(
        self, node: exp.Expr, one: exp.Expr, two: exp.Expr
    ) -> tuple[Scalar, Scalar, Callable[[Any], Any]]:
        """Two sides that are compared, and what makes their values comparable."""
        left, right = self.compile(one), self.compile(two)
        if left.type is not right.type:
            left, right = self.compile(typed(one, right.type)), self.compile(typed(two, left.type))
        kind = common_type(left.type, right.type)
        if kind is None:
            raise self.mismatch(node, left, right, "two sides of one type")
        if not kind.is_decimal:  # Python compares these as they are, of any number of digits
            left, right = self.converted(left, kind), self.converted(right, kind)
        return left, right, functions.order_of(kind)

    def any_of(self, node: exp.Expr) -> Scalar:
        """`x = ANY (array)`: unknown where only a NULL may be equal; an array NULL has nothing."""
        if not isinstance(node, exp.EQ):
            way_out = "write EXISTS (SELECT 1 FROM UNNEST(array) AS u (x) WHERE ...)"
            raise self.statement.refused(f"{_written(node)} ANY", node, way_out)
        value, array, contains = self.element_of(node, node.this, node.expression.this)

        def compute(row: Any) -> bool | None:
            found, there = value.compute(row), array.compute(row)
            if not there:
                return False
            if found is None:
                return None
            return True if contains(found, there) else None if None in there else False

        return Scalar(compute, BOOLEAN, nullable=True)

    def contains(self, node: exp.Expr) -> Scalar:
        """`LIST_CONTAINS(array, x)`: NULLs in the array are equal to nothing."""
        value, array, contains = self.element_of(node, node.expression, node.this)
        compute = _strict(contains, value.compute, array.compute)
        return Scalar(compute, BOOLEAN, value.nullable or array.nullable)

    def element_of(
        self, node: exp.Expr, one: exp.Expr, of: exp.Expr
    ) -> tuple[Scalar, Scalar, Callable[[Any, Any], bool]]:
        """A value and an array, of one type, and whether one that is not NULL is in the other."""
        array = self.compile(of)
        element = array.type.element
        value = self.compile(one if element is None else typed(one, element))
        kind = None if element is None else common_type(value.type, element)
        if kind is None:
            message = f"{node.key.upper()} of {value.type.name} and {array.type.name}"
            way_out = "it takes a value and an array of its type: CAST(... AS ...) one side"
            raise self.statement.wrong(message, node, way_out)
        order = functions.order_of(kind)

        def contains(value: Any, there: Sequence[Any]) -> bool:
            return order(value) in (order(other) for other in there if other is not None)

        return self.converted(value, kind), self.converted(array, array_type(kind)), contains

    def array(self, node: exp.Expr) -> Scalar:
        """`[a, b]`, `ARRAY[a, b]`."""
        values = [self.compile(one) for one in node.expressions]
        kind = self.one_type(node, values)
        made = array_of(kind, self.statement, node)
        parts = [self.converted(value, kind).compute for value in values]
        return Scalar(lambda row: tuple(part(row) for part in parts), made, False)

    def at(self, node: exp.Expr) -> Scalar:
        """`array[1]`, `array[-1]`: DuckDB counts from the end, too, Spark from 0."""
        if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Slice):
            return self.slice(node, node.expressions[0])
        if len(node.expressions) == 1 and node.expressions[0].is_string:
            return self.field(node, node.this, node.expressions[0])
        array = self.compile(node.this)
        if array.type.element is None:
            message = f"an element of {array.type.name}"
            raise self.statement.wrong(message, node, "it takes an array")
        if len(node.expressions) != 1:
            raise self.statement.refused("this place in an array", node, "write array[place]")
        place = self.compile(node.expressions[0])
        if not (place.type.is_integer or place.type is NULL):
            message = f"a place of type {place.type.name} in an array"
            raise self.statement.wrong(message, node, "places are whole numbers")
        first = node.args.get("offset") or 0
        dialect = self.statement.dialect
        is_from_end = dialect == "duckdb" or (dialect == "spark" and first == 1)

        def element(found: Sequence[Any], at: int) -> Any:
            number = at - first if at >= first else at + len(found) if is_from_end and at else -1
            return found[number] if 0 <= number < len(found) else None

        compute = _strict(element, array.compute, place.compute)
        return Scalar(compute, array.type.element, nullable=True)

    def struct(self, node: exp.Expr) -> Scalar:
        """`{'a': 1}`, `STRUCT_PACK(a := 1, b)`; in Spark `STRUCT(1 AS a, b)`."""
        fields, parts = [], []
        for one in node.expressions:
            if not isinstance(one, exp.PropertyEQ | exp.Column | exp.Dot):
                message, way_out = "a field without a name", "write {'name': value}"
                raise self.statement.refused(message, one, way_out)
            value = self.compile(one.expression if isinstance(one, exp.PropertyEQ) else one)
            fields.append((str(one.name), value.type))
            parts.append(value.compute)
        kind = struct_of(fields, self.statement, node)
        names = tuple(name for name, _ in fields)
        return Scalar(lambda row: Struct.of(names, (part(row) for part in parts)), kind, False)

    def field(self, node: exp.Expr, of: exp.Expr, named: exp.Expr) -> Scalar:
        """`s.a`, `s['a']`, `STRUCT_EXTRACT(s, 'a')`."""
        try:
            struct = self.compile(of)
        except SqlProgrammingError as error:
            unknown = error.diagnostics[0].message.startswith("unknown column")
            if unknown and "column" in node.meta:  # neither is there a table of that name
                self.leaf(node.meta["column"])
            raise
        names = [name for name, _ in struct.type.fields]
        if not names:
            message = f"a field of {struct.type.name}"
            raise self.statement.wrong(message, node, "it takes a STRUCT")
        if named.name not in names or not isinstance(named, exp.Identifier | exp.Literal):
            raise self.statement.unknown("field", named.name, names, named)
        place = names.index(named.name)
        compute = _strict(itemgetter(place), struct.compute)
        return Scalar(compute, struct.type.fields[place][1], nullable=True)

    def slice(self, node: exp.Expr, bounds: exp.Expr) -> Scalar:
        """`array[2:3]`, `ARRAY_SLICE(array, 2, 3)`; in Spark `SLICE(array, 2, 2)`."""
        array = self.compile(node.this)
        if array.type.element is None:
            message, way_out = f"a slice of {array.type.name}", "it takes an array; of text, SUBSTR"
            raise self.statement.wrong(message, node, way_out)
        if isinstance(bounds, exp.Slice) and self.statement.dialect == "spark":
            message, way_out = "a slice, which Spark has not,", "write SLICE(array, first, length)"
            raise self.statement.refused(message, node, way_out)
        if bounds.args.get("step"):
            way_out = "UNNEST WITH ORDINALITY, and take the places by their numbers"
            raise self.statement.refused("a slice by steps", node, way_out)
        words = ("this", "expression") if isinstance(bounds, exp.Slice) else ("start", "end")
        given = [bounds.args.get(word) for word in words]
        none = (literal(1), literal(_END))
        ends = [self.compile(one) if one else no for one, no in zip(given, none, strict=True)]
        for one in ends:
            if not (one.type.is_integer or one.type is NULL):
                message = f"a slice to a place of type {one.type.name}"
                raise self.statement.wrong(message, node, "places are whole numbers, from 1 on")
        part = functions.PARTS["spark" if bounds.args.get("is_length") else self.statement.dialect]
        compute = _strict(part, array.compute, *(one.compute for one in ends))
        return Scalar(compute, array.type, array.nullable or any(one.nullable for one in ends))

    def mismatch(self, node: exp.Expr, left: Scalar, right: Scalar, wanted: str) -> SqlError:
        """The error for operands of the wrong types."""
        sides = f"{left.type.name} and {right.type.name}"
        message = f"{_written(node)} of {sides}"
        way_out = f"it takes {wanted}: CAST(... AS ...) one side"
        if left.type.is_nested is not right.type.is_nested:
            way_out = f"it takes {wanted}; nothing else becomes an array or a struct"
        return self.statement.wrong(message, node, way_out)

    def truth(self, node: exp.Expr, inner: exp.Expr) -> Scalar:
        """An operand that is a truth value."""
        found = self.compile(inner)
        if found.type not in (BOOLEAN, NULL):
            message = f"{_written(node)} of {found.type.name}"
            raise self.statement.wrong(message, inner, "it takes BOOLEAN: compare with something")
        return found

    def both(self, node: exp.Expr) -> Scalar:
        """AND, OR."""
        left, right = self.truth(node, node.this), self.truth(node, node.expression)
        decisive = isinstance(node, exp.Or)

        def compute(row: Any) -> Any:
            one = left.compute(row)
            if one is decisive:
                return decisive
            two = right.compute(row)
            if two is decisive:
                return decisive
            return None if one is None or two is None else not decisive

        return Scalar(compute, BOOLEAN, left.nullable or right.nullable)

    def negation(self, node: exp.Expr) -> Scalar:
        """NOT."""
        inner = self.truth(node, node.this)
        return Scalar(_strict(lambda x: not x, inner.compute), BOOLEAN, inner.nullable)

    def paren(self, node: exp.Expr) -> Scalar:
        """Parentheses."""
        return self.compile(node.this)

    def is_(self, node: exp.Expr) -> Scalar:
        """IS NULL, IS TRUE, IS FALSE."""
        wanted = constant(node.expression)
        if wanted is None or wanted.type not in (NULL, BOOLEAN):
            raise self.statement.refused("IS of this", node, "write IS NULL, IS TRUE or IS FALSE")
        value = wanted.compute(None)
        inner = self.compile(node.this) if value is None else self.truth(node, node.this)
        return Scalar(lambda row: inner.compute(row) is value, BOOLEAN, nullable=False)

    def between(self, node: exp.Expr) -> Scalar:
        """`x BETWEEN low AND high`."""
        if node.args.get("symmetric"):
            raise self.statement.refused("BETWEEN SYMMETRIC", node, "write two comparisons")
        low = exp.GTE(this=node.this, expression=node.args["low"])
        high = exp.LTE(this=node.this, expression=node.args["high"])
        return self.both(exp.And(this=low, expression=high))

    def member(self, node: exp.Expr) -> Scalar:
        """`x IN (a, b, c)`."""
        if not node.args.get("expressions") or node.args.get("unnest"):
            raise self.statement.refused("this IN", node, "write IN (a, b) or IN (SELECT ...)")
        tests = [exp.EQ(this=node.this, expression=one) for one in node.expressions]
        parts = [self.comparison(test) for test in tests]

        def compute(row: Any) -> bool | None:
            found = [part.compute(row) for part in parts]
            return True if True in found else None if None in found else False

        return Scalar(compute, BOOLEAN, any(part.nullable for part in parts))

    def cast(self, node: exp.Expr) -> Scalar:
        """CAST, TRY_CAST."""
        kind = written_type(self.statement, node.args["to"], node)
        inner = self.compile(typed(node.this, kind) if kind.fields else node.this)
        if node.args.get("format"):
            raise self.statement.refused("CAST with FORMAT", node, "dates are written 2026-01-31")
        tries = isinstance(node, exp.TryCast)
        convert = cast(inner.type, kind, tries=tries, dialect=self.statement.dialect)
        if convert is None:
            message, way_out = f"no cast from {inner.type.name} to {kind.name}", "write CASE"
            if kind.is_nested or inner.type.is_nested:
                way_out = "make it anew of its parts, its elements or its fields"
            raise self.statement.wrong(message, node, way_out)
        if inner.type == kind:
            return inner
        found = self.checked(_strict(convert, inner.compute), kind, inner.nullable)
        if not tries:
            return found

        def attempt(row: Any) -> Any:
            try:
                return found.compute(row)
            except (ValueError, ArithmeticError):
                return None

        return Scalar(attempt, kind, nullable=True)

    def choice(self, node: exp.Expr) -> Scalar:
        """CASE, and IF(condition, then, else)."""
        if isinstance(node, exp.If):
            return self.cases(node, [node], node.args.get("false"), None)
        return self.cases(node, node.args["ifs"], node.args.get("default"), node.args.get("this"))

    def cases(
        self,
        node: exp.Expr,
        ifs: list[exp.Expr],
        default: exp.Expr | None,
        subject: exp.Expr | None,
    ) -> Scalar:
        """The first branch whose condition is true."""
        tests = []
        for one in ifs:
            whole = one.this if subject is None else exp.EQ(this=subject, expression=one.this)
            tests.append(self.truth(node, whole))
        values = [self.compile(one.args["true"]) for one in ifs]
        values.append(literal(None) if default is None else self.compile(default))
        kind = self.one_type(node, values)
        values = [self.converted(value, kind) for value in values]
        branches = list(zip([t.compute for t in tests], values, strict=False))
        last = values[-1]

        def compute(row: Any) -> Any:
            for test, value in branches:
                if test(row) is True:
                    return value.compute(row)
            return last.compute(row)

        return Scalar(compute, kind, any(value.nullable for value in values))

    def nullif(self, node: exp.Expr) -> Scalar:
        """`NULLIF(a, b)`: equal is what `=` says is."""
        if node.expression is None:
            raise self.statement.wrong("NULLIF of one value", node, "write NULLIF(a, b)")
        same, value = self.compile(exp.EQ(this=node.this, expression=node.expression)), node.this
        found = self.compile(value)
        return Scalar(
            lambda row: None if same.compute(row) is True else found.compute(row),
            found.type,
            nullable=True,
        )

    def one_type(self, node: exp.Expr, values: list[Scalar]) -> SqlType:
        """The common type of alternatives."""
        kind = NULL
        for value in values:
            both = common_type(kind, value.type)
            if both is None:
                message = f"{node.key.upper()} of {kind.name} and {value.type.name}"
                raise self.statement.wrong(message, node, "CAST(... AS ...) to one type")
            kind = both
        return kind


_NODES: Final[dict[Any, Callable[[Scalars, Any], Scalar]]] = {
    tuple(functions.ARITHMETIC): Scalars.arithmetic,
    exp.Neg: Scalars.negative,
    tuple(functions.COMPARE): Scalars.comparison,
    (exp.And, exp.Or): Scalars.both,
    exp.Not: Scalars.negation,
    exp.Paren: Scalars.paren,
    exp.Is: Scalars.is_,
    exp.Between: Scalars.between,
    exp.In: Scalars.member,
    exp.Cast: Scalars.cast,
    (exp.Case, exp.If): Scalars.choice,
    exp.Nullif: Scalars.nullif,
    (exp.Extract, exp.Year, exp.Quarter, exp.Month, exp.Day): Scalars.part,
    (exp.TimestampTrunc, exp.DateTrunc): Scalars.truncated,
    exp.Array: Scalars.array,
    exp.ArrayContains: Scalars.contains,
    exp.Bracket: Scalars.at,
    exp.Struct: Scalars.struct,
    (exp.Dot, exp.StructExtract): lambda self, node: self.field(node, node.this, node.expression),
    exp.ArraySlice: lambda self, node: self.slice(node, node),
}


_SIGNS: Final[dict[type, str]] = {
    **COMPARISONS,
    exp.Add: "+",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.Mul: "*",
    exp.Neg: "-",
    exp.Sub: "-",
}


def _written(node: exp.Expr) -> str:
    """An operator as it is written, or its word."""
    return _SIGNS.get(type(node), node.key.upper())


@cache
def _method(kind: Any) -> Callable[[Scalars, Any], Scalar] | None:
    """What compiles nodes of a class: asked for every node of every statement."""
    return next((method for of, method in _NODES.items() if issubclass(kind, of)), None)
