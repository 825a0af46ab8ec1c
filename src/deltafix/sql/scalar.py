"""Scalar expressions as Python functions of a row, with SQL's types and three-valued logic.

`Scalars(statement, leaf).compile(node)` gives a `Scalar`: its type, whether it can be NULL, and a
function from an environment to its value. Leaves (columns, subqueries, aggregates) are the
caller's: `leaf` gives a Scalar for the nodes that it knows, and None for the others. Invariant:
the function is total or raises ArithmeticError or ValueError, has no effects, and gives a value of
the type said. What is not in the tables here is refused, with its place. Literals are
`sql.literals`', arrays and structs `sql.nested`'s, days and moments `sql.moments`'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, partial
from operator import itemgetter
from typing import Any, Final

from deltafix.diagnostics import suggest
from deltafix.errors import SqlError
from deltafix.facts.values import shown
from deltafix.sql import (
    filled,
    formats,
    functions,
    json_paths,
    lambdas,
    lists,
    moments,
    nested,
    regexes,
    text_functions,
    tuples,
)
from deltafix.sql.casts import cast
from deltafix.sql.connectives import tests_first
from deltafix.sql.intervals import Interval
from deltafix.sql.literals import (
    Compute,
    Scalar,
    constant,
    inside,
    literal,
    negative,
    strict,
    typed,
    whole,
)
from deltafix.sql.signatures import common
from deltafix.sql.text import Statement, data_type, exp
from deltafix.sql.types import (
    BEYOND,
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMALS,
    DOUBLE,
    INTEGER,
    INTERVAL,
    MOST_DIGITS,
    NULL,
    TEXT,
    TIME,
    TIMESTAMP,
    UUID,
    Column,
    SqlType,
    common_type,
    computed_decimal,
    fits,
    length_of,
    written_type,
)
from deltafix.sql.user_functions import USER

__all__ = ["EXCLUDED", "Scalars", "over"]


def over(statement: Statement, *tables: tuple[str, Sequence[Column]]) -> Scalars:
    """Expressions over single rows of tables, each a name and columns, as one list of values.

    A name without a table is never a column of `excluded`, the row that was to be inserted.
    """
    leaves: dict[str, dict[str, Scalar]] = {}
    width = 0
    for table, columns in tables:
        leaves[table] = {
            column.name: Scalar(itemgetter(position), column.type, column.nullable)
            for position, column in enumerate(columns, width)
        }
        width += len(columns)

    def leaf(node: exp.Expr) -> Scalar | None:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        table, name = node.table, node.name
        meant = [alias for alias in leaves if alias == table or not (table or alias == EXCLUDED)]
        if not meant:
            raise statement.unknown("table", table, list(leaves), node)
        candidates = {alias: leaves[alias][name] for alias in meant if name in leaves[alias]}
        if not candidates:
            known = [column for alias in meant for column in leaves[alias]]
            raise statement.unknown("column", name, known, node)
        if len(candidates) > 1:
            message = f"column {name!r} is in {' and in '.join(candidates)}"
            raise statement.wrong(message, node, f"write {next(iter(candidates))}.{name}")
        return next(iter(candidates.values()))

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
_RANDOM_UUIDS: Final = (
    "GEN_RANDOM_UUID", "UUID", "UUID_GENERATE_V1", "UUID_GENERATE_V4", "UUIDV4", "UUIDV7",
)  # fmt: skip


_CHAINED: Final = (exp.Add, exp.Sub, exp.Mul, exp.DPipe)


@dataclass(frozen=True, slots=True)
class Scalars:
    """Compiles expressions of one statement."""

    statement: Statement
    leaf: Callable[[exp.Expr], Scalar | None]
    _known: dict[int, tuple[exp.Expr, Scalar]] = field(default_factory=dict)

    def compile(self, node: exp.Expr) -> Scalar:
        """The expression. Raises SqlProgrammingError, SqlRefusedError.

        O(1) where it was compiled before: some ask for the type of an operand first. A chain of
        operators is compiled from its first part on, since it is as deep as it is long.
        """
        chain = [node]
        while id(chain[-1]) not in self._known:
            if not isinstance(chain[-1], _CHAINED) or self.leaf(chain[-1]) is not None:
                break
            chain.append(chain[-1].this)
        for part in reversed(chain):
            if id(part) not in self._known:
                self._known[id(part)] = part, self._compiled(part)  # the node keeps its id
        return self._known[id(node)][1]

    def _compiled(self, node: exp.Expr) -> Scalar:
        scalar = self.leaf(node) or constant(node)
        if scalar is not None:
            return scalar if scalar.type is not BEYOND else self.narrowed(scalar, node)
        kind: Any = type(node)  # hashable, which mypy does not see of a class of classes
        method = _method(kind)
        if method is not None:
            return method(self, node)
        if isinstance(node, exp.Window):
            way_out = "window functions stand in SELECT, QUALIFY and the ORDER BY of a LIMIT"
            raise self.statement.refused("a window function here", node, way_out)
        if isinstance(node, exp.Anonymous) and node.name.upper() in USER:
            return self.function(node, USER[node.name.upper()])
        if isinstance(node, exp.Anonymous) and node.name.upper() in _OF_ONE:
            if len(node.expressions) != 1:
                message = f"{node.name} of {len(node.expressions)} values"
                raise self.statement.wrong(message, node, f"write {node.name}(value)")
            node = _OF_ONE[node.name.upper()](this=node.expressions[0])
        if isinstance(node, exp.Anonymous) and node.name.upper() in _ELEMENTS and node.expressions:
            array, *indexes = node.expressions
            return nested.at(self, exp.Bracket(this=array, expressions=indexes, offset=1))
        if json_paths.named(node, self.statement.dialect):
            return json_paths.extracted(self, node)
        by_name = _BY_NAME.get(node.name.upper()) if isinstance(node, exp.Anonymous) else None
        if by_name is not None:
            return by_name(self, node)
        is_slice = isinstance(node, exp.Anonymous) and node.name.upper() == "LIST_SLICE"
        if is_slice and len(node.expressions) == 3:
            given = dict(zip(("this", "start", "end"), node.expressions, strict=True))
            node = exp.ArraySlice(**given)
            return nested.part(self, node, node)
        if isinstance(node, exp.Encode | exp.Decode) and not functions.is_utf8(node):
            way_out = "write ENCODE(text) and DECODE(blob), of UTF-8, or HEX and UNHEX"
            raise self.statement.refused(
                f"{self.statement.called(node)} in another code", node, way_out
            )
        if isinstance(node, exp.HexString) and self.statement.dialect == "spark":
            return literal(bytes.fromhex(node.name))
        if isinstance(node, exp.Substring) and self.statement.dialect == "postgres":
            start = node.args.get("start")
            if (
                start is not None
                and not node.args.get("length")
                and self.compile(start).type is TEXT
            ):
                node = exp.Anonymous(this="SUBSTRING", expressions=[node.this, start])
        if lambdas.named(node):
            return lambdas.compiled(self, node)
        if regexes.named(node):
            return regexes.compiled(self, node)
        if lists.named(node, self.statement.dialect) or lists.is_of_arrays(self, node):
            return lists.compiled(self, node)
        function = functions.function_of(node, self.statement.dialect)
        if function is None and isinstance(node, exp.Anonymous) and node.name.upper() == "ROW":
            way_out = "write {'name': value}, or CAST(ROW(...) AS STRUCT(name type))"
            raise self.statement.refused("ROW(...), whose fields have no names,", node, way_out)
        if isinstance(node, exp.Tuple):
            way_out = (
                "compare it with another one, or IN (SELECT a, b ...); a struct is {'name': a}"
            )
            raise self.statement.refused("a row of values, (a, b),", node, way_out)
        if function is None:
            name = self.statement.called(node)
            if name.upper() in _RANDOM_UUIDS:
                way_out = (
                    "it is another one each time: make it where the row comes from, and give it as "
                    "a parameter, uuid.uuid4() in Python"
                )
                raise self.statement.refused(name, node, way_out)
            if isinstance(node, _CHANGING) or name.upper() in _CHANGING_NAMES:
                way_out = (
                    "it changes without an edit: give its value as a parameter, or keep it in a "
                    "table of one row that views join with; an UPDATE of that tells what changes"
                )
                raise self.statement.refused(name, node, way_out)
            if isinstance(node, exp.Any | exp.All):
                way_out = f"compare with it: x = {name} (SELECT ...); of one array x = ANY (array)"
                raise self.statement.refused(f"{name} by itself", node, way_out)
            if isinstance(node, exp.Explode | exp.Unnest):
                way_out = "write it in SELECT, or in FROM: ... CROSS JOIN UNNEST(array) AS u (x)"
                raise self.statement.refused("UNNEST here", node, way_out)
            if isinstance(node, exp.AggFunc | exp.RowNumber):
                raise self.statement.misplaced(node)
            close = suggest(name.upper(), sorted({*functions.NAMES, *USER} - {name.upper()}), 0.75)
            way_out = functions.instead_of(name.upper(), self.statement.dialect)
            way_out = f"did you mean {close}?" if close else way_out
            if node.find(exp.Lambda):
                way_out = "UNNEST the array, and ARRAY_AGG what becomes of its elements"
            raise self.statement.refused(f"{name}(...)", node, way_out)
        return self.function(node, function)

    def exactly(self, node: exp.Expr) -> Scalar:
        """An expression that is compared or cast: a number of any digits, too."""
        scalar = constant(node)
        if scalar is None or scalar.type is not BEYOND:
            return self.compile(node)
        value = Decimal(scalar.compute(()))
        return Scalar(lambda _: value, BEYOND, nullable=False)

    def narrowed(self, scalar: Scalar, node: exp.Expr) -> Scalar:
        """A number of more digits than any type has as a value: a fraction is a DOUBLE."""
        value = Decimal(scalar.compute(()))
        if value.as_tuple().exponent == 0:
            way_out = f"it has {MOST_DIGITS} digits at most; as a DOUBLE it is {float(value)!r}"
            raise self.statement.data(f"{value:f} is no DECIMAL", node, way_out)
        return literal(float(value))

    def function(self, node: exp.Expr, function: functions.Function) -> Scalar:
        """A function of `sql.functions`."""
        given = {key: value for key, value in node.args.items() if value not in (None, [], False)}
        for key in given:
            if key not in function.arguments and key not in function.flags:
                message = f"{self.statement.called(node)} with {key}"
                raise self.statement.refused(message, node, f"write {function.usage}")
        args = []
        for key in function.arguments:
            value = given.get(key, ())
            args.extend(value if isinstance(value, list) else [value] if value != () else [])
        values = self.alike(args) if function.unites else [self.compile(arg) for arg in args]
        if isinstance(node, exp.DPipe | exp.Concat | exp.ConcatWs):
            short = self.statement.dialect == "postgres" and not isinstance(node, exp.DPipe)
            values = [self.as_text(value, values, short=short) for value in values]
        kind = function.result([value.type for value in values])
        if function.unites and kind is not None:
            values = [self.converted(value, kind) for value in values]
        if function.takes and kind is not None:
            pairs = zip(values, function.takes, strict=True)
            values = [self.converted(value, wanted) for value, wanted in pairs]
        if kind is None or len(values) < function.least:
            types = [value.type.name for value in values]
            message = f"{self.statement.called(node)}({', '.join(types)}) has no meaning"
            way_out = f"write {function.usage}"
            texts = [TEXT if n == 0 else value.type for n, value in enumerate(values)]
            if kind is None and function.result(texts) is not None:
                way_out += f"; CAST(... AS TEXT) is the text of {types[0]}"
            raise self.statement.wrong(message, node, way_out)
        nullable = any(value.nullable for value in values)
        body = partial(function.compute, kind) if function.of_type else function.compute
        fixed = [constant(arg) is not None for arg in args[1:]]
        if (
            function.strict
            and function.fixed
            and all(fixed)
            and not any(v.nullable for v in values[1:])
        ):
            try:
                known = function.fixed(*(value.compute(()) for value in values[1:]))
            except ValueError as error:
                raise self.statement.wrong(str(error), args[1], f"write {function.usage}") from None
            compute = strict(known, values[0].compute)
        elif function.strict:
            compute = strict(body, *(value.compute for value in values))
        else:
            parts = [value.compute for value in values]

            def compute(row: Any) -> Any:
                arguments = (part(row) for part in parts)
                return body(arguments) if function.lazy else body(*arguments)

            nullable = function.nullable([value.nullable for value in values])
        return self.checked(compute, kind, nullable)

    def rounded(self, node: exp.Expr) -> Scalar:
        """ROUND and TRUNC: a DECIMAL has so many digits behind the point then as are written."""
        function = functions.function_of(node, self.statement.dialect)
        assert function is not None  # noqa: S101  all dialects have them
        given, digits = self.compile(node.this).type, node.args.get("decimals")
        if not given.is_decimal or isinstance(digits, exp.Null):
            return self.function(node, function)
        count = 0 if digits is None else whole(digits)
        if count is None or isinstance(digits, exp.Placeholder):
            way_out = "write it, ROUND(x, 2), or CAST(x AS DOUBLE)"
            message = (
                f"{self.statement.called(node)} of a DECIMAL to a number of digits that varies"
            )
            raise self.statement.refused(message, node, way_out)
        before, scale = given.digits - given.scale, max(count, 0)
        if self.statement.dialect != "postgres":
            scale = min(scale, given.scale)
        if scale > MOST_DIGITS:
            message = f"a DECIMAL of {scale} digits behind the point"
            raise self.statement.wrong(message, node, f"{MOST_DIGITS} are the most")
        before += isinstance(node, exp.Round) and count < given.scale  # 9.5 becomes 10
        kind = computed_decimal(max(given.digits, before + scale), scale, given)
        return self.function(node, replace(function, result=lambda _: kind))

    def as_text(self, scalar: Scalar, beside: Sequence[Scalar], *, short: bool) -> Scalar:
        """A number, a day, a UUID that is put together with a text, as CAST makes it one.

        A BOOLEAN is its first letter if it is to be `short`.
        """
        kind = scalar.type
        is_plain = kind.is_numeric or kind in (DATE, TIME, TIMESTAMP, UUID)
        is_plain |= kind is BOOLEAN
        is_plain |= kind is INTERVAL and self.statement.dialect != "spark"
        if not is_plain or not any(other.type is TEXT for other in beside):
            return scalar
        convert = cast(kind, TEXT, dialect=self.statement.dialect)
        assert convert is not None  # noqa: S101  all of these have a text
        if kind is BOOLEAN and short:
            convert = _LETTER.__getitem__
        return Scalar(strict(convert, scalar.compute), TEXT, scalar.nullable)

    def escaped(self, node: exp.Expr) -> Scalar:
        """`text LIKE pattern ESCAPE '!'`."""
        is_given = isinstance(node.expression, exp.Placeholder)
        mark = None if is_given else constant(node.expression)
        if not isinstance(node.this, exp.Like | exp.ILike):
            raise self.statement.refused("ESCAPE here", node, "write LIKE 'a!%' ESCAPE '!'")
        if mark is None or mark.type is not TEXT or len(mark.compute(())) > 1:
            raise self.statement.wrong("ESCAPE of this", node.expression, "write one character")
        folds = isinstance(node.this, exp.ILike)
        escape, dialect = mark.compute(()), self.statement.dialect
        return self.function(node.this, text_functions.like(escape, folds=folds, dialect=dialect))

    def checked(self, compute: Compute, kind: SqlType, nullable: bool) -> Scalar:
        """A Scalar whose numbers, or intervals, are those of its type, or an error."""
        if kind is INTERVAL:
            return Scalar(strict(_bounded, compute), kind, nullable)
        if kind.is_decimal:
            fitted = cast(BIGINT, kind)  # of whole numbers and decimals
            assert fitted is not None  # noqa: S101  all numbers convert
            return Scalar(strict(fitted, compute), kind, nullable)
        if not kind.is_integer:
            return Scalar(compute, kind, nullable)
        least, most = -(1 << kind.bits - 1), (1 << kind.bits - 1) - 1

        def within(value: int) -> int:
            if not least <= value <= most:
                raise OverflowError(f"{value} is no {kind.name}")
            return value

        return Scalar(strict(within, compute), kind, nullable)

    def converted(self, scalar: Scalar, kind: SqlType) -> Scalar:
        """A Scalar as one of another type, to which its own converts."""
        if scalar.type.code == kind.code or NULL in (scalar.type, kind):
            return Scalar(scalar.compute, kind, scalar.nullable)
        convert = cast(scalar.type, kind)
        assert convert is not None  # noqa: S101  types were found to have a common one
        return Scalar(strict(convert, scalar.compute), kind, scalar.nullable)

    # --- operators -----------------------------------------------------------------------------

    def arithmetic(self, node: exp.Expr) -> Scalar:
        """`+ - * / // %`, of days and moments too."""
        left, right = self.compile(node.this), self.compile(node.expression)
        if TIME in (left.type, right.type):
            return moments.clocks(self, node, left, right)
        if INTERVAL in (left.type, right.type):
            return moments.lengths(self, node, left, right)
        if left.type.is_time or right.type.is_time:
            return moments.days(self, node, left, right)
        kind = common_type(left.type, right.type)
        if kind is None or not (kind.is_numeric or kind == NULL):
            raise self.mismatch(node, left, right, "numbers")
        kind = INTEGER if kind == NULL else kind
        name = type(node)
        if name is exp.Div and not (node.args.get("typed") and kind.is_integer):
            kind = DOUBLE
        if name is exp.IntDiv and not kind.is_integer:
            if self.statement.dialect != "duckdb":
                raise self.mismatch(node, left, right, "whole numbers")
            kind = DOUBLE  # of others DuckDB's is no whole number
        if kind.is_decimal:
            return self.exact(node, left, right, kind)
        if left.type.is_decimal or right.type.is_decimal:
            left, right = self.converted(left, kind), self.converted(right, kind)
        operate = functions.ARITHMETIC[exp.IntDiv if name is exp.Div and kind != DOUBLE else name]
        if name is exp.IntDiv and kind is DOUBLE:
            operate = functions.DIVISION["error"]
        safe = name is exp.Div and bool(node.args.get("safe"))
        if name is exp.Div and kind == DOUBLE:
            operate = functions.DIVISION["null" if safe else self.by_zero(node)]
        if kind == DOUBLE and name is not exp.Mod and self.statement.dialect == "postgres":
            operate = functions.bounded(operate)
        if name is exp.Mod and kind == DOUBLE and self.statement.dialect == "duckdb":
            operate = functions.float_remainder
        compute = strict(operate, left.compute, right.compute)
        return self.checked(compute, kind, left.nullable or right.nullable or safe)

    def exact(self, node: exp.Expr, left: Scalar, right: Scalar, kind: SqlType) -> Scalar:
        """`+ - * %` of decimals: exact, or an error where there are more digits than the type's."""
        operate = functions.DECIMAL_ARITHMETIC.get(type(node))
        if operate is None:
            raise self.mismatch(node, left, right, "whole numbers")
        digits, scale = kind.digits, kind.scale
        if isinstance(node, exp.Mul):
            digits = left.type.precision + right.type.precision
            scale = left.type.scale + right.type.scale
            if scale > MOST_DIGITS:
                message = f"a product of {scale} digits behind the point"
                way_out = f"{MOST_DIGITS} are the most: CAST(... AS ...) one side"
                raise self.statement.wrong(message, node, way_out)
        elif not isinstance(node, exp.Mod):
            digits += 1
        kind = computed_decimal(digits, scale, left.type, right.type)
        compute = strict(_fitting(operate, kind, node), left.compute, right.compute)
        return Scalar(compute, kind, left.nullable or right.nullable)

    def by_zero(self, node: exp.Expr) -> str:
        """What division by zero gives: DuckDB's `/` infinity, PostgreSQL's an error."""
        return "error" if node.args.get("typed") else "float"

    def negated(self, node: exp.Expr) -> Scalar:
        """`-x`."""
        inner = self.compile(node.this)
        if not (inner.type.is_numeric or inner.type in (INTERVAL, NULL)):
            raise self.mismatch(node, inner, inner, "numbers")
        return self.checked(strict(negative, inner.compute), inner.type, inner.nullable)

    def comparison(self, node: exp.Expr) -> Scalar:
        """`= <> < <= > >=`, and IS [NOT] DISTINCT FROM."""
        if isinstance(node.expression, exp.Any):
            return nested.any_of(self, node)
        if isinstance(node.expression, exp.All):
            way_out = "write ALL (SELECT ...), or NOT EXISTS (SELECT 1 FROM UNNEST(array) ...)"
            raise self.statement.refused("ALL of this", node.expression, way_out)
        by_parts = tuples.compared(self.statement, node)
        if by_parts is not None:
            return self.compile(by_parts)
        left, right, order = self.pair(node, node.this, node.expression)
        test = functions.COMPARE[type(node)]
        if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
            same = isinstance(node, exp.NullSafeEQ)

            def distinct(row: Any) -> bool:
                a, b = left.compute(row), right.compute(row)
                equal = a is b if a is None or b is None else order(a) == order(b)
                return equal is same

            return Scalar(distinct, BOOLEAN, nullable=False)
        compute = strict(lambda a, b: test(order(a), order(b)), left.compute, right.compute)
        return Scalar(compute, BOOLEAN, left.nullable or right.nullable)

    def pair(
        self, node: exp.Expr, first: exp.Expr, second: exp.Expr
    ) -> tuple[Scalar, Scalar, Callable[[Any], Any]]:
        """Two sides that are compared, and what makes their values comparable."""
        left, right = self.exactly(first), self.exactly(second)
        if left.type is not right.type:
            typed_first, typed_second = typed(first, right.type), typed(second, left.type)
            left = left if typed_first is first else self.compile(typed_first)
            right = right if typed_second is second else self.compile(typed_second)
        kind = common_type(left.type, right.type)
        if kind is None:
            raise self.mismatch(node, left, right, "two sides of one type")
        if not kind.is_decimal:  # Python compares these as they are, of any number of digits
            left, right = self.converted(left, kind), self.converted(right, kind)
        return left, right, functions.order_of(kind)

    def mismatch(self, node: exp.Expr, left: Scalar, right: Scalar, wanted: str) -> SqlError:
        """The error for operands of the wrong types."""
        sides = f"{left.type.name} and {right.type.name}"
        message = f"{functions.written(node)} of {sides}"
        way_out = f"it takes {wanted}: CAST(... AS ...) one side"
        if left.type.is_nested is not right.type.is_nested:
            way_out = f"it takes {wanted}; nothing else becomes an array or a struct"
        return self.statement.wrong(message, node, way_out)

    def truth(self, node: exp.Expr, inner: exp.Expr) -> Scalar:
        """An operand that is a truth value."""
        value = self.compile(inner)
        if value.type not in (BOOLEAN, NULL):
            message = f"{functions.written(node)} of {value.type.name}"
            raise self.statement.wrong(message, inner, "it takes BOOLEAN: compare with something")
        return value

    def both(self, node: exp.And | exp.Or) -> Scalar:
        """AND, OR: a chain of them at once, which may be long."""
        sides = [self.truth(node, side) for side in tests_first(node)]
        tests, decisive = [side.compute for side in sides], isinstance(node, exp.Or)

        def compute(row: Any) -> Any:
            answer: bool | None = not decisive
            for test in tests:
                value = test(row)
                if value is decisive:
                    return decisive
                if value is None:
                    answer = None
            return answer

        return Scalar(compute, BOOLEAN, any(side.nullable for side in sides))

    def negation(self, node: exp.Expr) -> Scalar:
        """NOT."""
        inner = self.truth(node, node.this)
        return Scalar(strict(lambda x: not x, inner.compute), BOOLEAN, inner.nullable)

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
        low = exp.GTE(this=node.this, expression=node.args["low"])
        high = exp.LTE(this=node.this, expression=node.args["high"])
        return self.both(exp.And(this=low, expression=high))

    def member(self, node: exp.Expr) -> Scalar:
        """`x IN (a, b, c)`."""
        if not node.args.get("expressions"):
            raise self.statement.refused("this IN", node, "write IN (a, b) or IN (SELECT ...)")
        tests = [exp.EQ(this=node.this, expression=element) for element in node.expressions]
        if all(constant(element) is not None for element in node.expressions):
            pairs = [self.pair(test, test.this, test.expression) for test in tests]
            kinds = {left.type for left, _, _ in pairs}
            if len(kinds) == 1 and all(kind in (TEXT, UUID) or kind.is_integer for kind in kinds):
                with suppress(ValueError):  # one that is none is told where a row asks for it
                    return _among(pairs[0][0], [right for _, right, _ in pairs])
        parts = [self.comparison(test) for test in tests]

        def compute(row: Any) -> bool | None:
            answer: bool | None = False
            for part in parts:  # what stands behind one that is equal is not asked for
                equal = part.compute(row)
                if equal is True:
                    return True
                answer = None if equal is None else answer
            return answer

        return Scalar(compute, BOOLEAN, any(part.nullable for part in parts))

    def cast(self, node: exp.Expr) -> Scalar:
        """CAST, TRY_CAST."""
        kind = written_type(self.statement, node.args["to"], node, bounded=True)
        most = length_of(node.args["to"])
        if most is not None:
            text = self.compile(type(node)(this=node.this.copy(), to=data_type("TEXT")))
            return Scalar(strict(itemgetter(slice(most)), text.compute), kind, text.nullable)
        inner = self.exactly(inside(node, kind))
        tries = isinstance(node, exp.TryCast)
        convert = cast(inner.type, kind, tries=tries, dialect=self.statement.dialect)
        if convert is None:
            message, way_out = f"no cast from {inner.type.name} to {kind.name}", "write CASE"
            if UUID in (kind, inner.type):
                way_out = "a UUID is cast to TEXT, and a TEXT to a UUID"
            if INTERVAL in (kind, inner.type):
                way_out = "EXTRACT(EPOCH FROM x) has its seconds, TO_SECONDS(n) makes one of them"
            if kind.is_nested or inner.type.is_nested:
                way_out = "make it anew of its parts, its elements or its fields"
            if kind.element is not None and inner.type is TEXT:
                way_out = "write its elements: [1, 2]"
            raise self.statement.wrong(message, node, way_out)
        if inner.type == kind:
            return inner
        if not tries:
            return self.checked(strict(convert, inner.compute), kind, inner.nullable)
        converted = _attempted(
            self.checked(strict(convert, functions.itself), kind, inner.nullable).compute
        )
        return Scalar(lambda row: converted(inner.compute(row)), kind, nullable=True)

    def tried(self, node: exp.Expr) -> Scalar:
        """TRY(x): NULL where x cannot be computed."""
        way_out = "write it around what is computed of columns"
        if node.find(exp.Query, exp.AggFunc):
            what = "TRY around a subquery or an aggregate"
            raise self.statement.refused(what, node, way_out)
        if self.statement.dialect != "duckdb":
            raise self.statement.refused("TRY in this dialect", node, "write TRY_CAST, or CASE")
        inner = self.compile(node.this)
        return Scalar(_attempted(inner.compute), inner.type, nullable=True)

    def type_of(self, node: exp.Expr) -> Scalar:
        """TYPEOF(x): the name of its type as DuckDB has it."""
        if self.statement.dialect != "duckdb":
            raise self.statement.refused("TYPEOF in this dialect", node, "CAST says which it is")
        return literal(_name_of(self.compile(node.this).type))

    def choice(self, node: exp.Expr) -> Scalar:
        """CASE, IF(condition, then, else), and Spark's NVL2(x, there, missing)."""
        if isinstance(node, exp.Nvl2):
            known = exp.Not(this=exp.Is(this=node.this, expression=exp.Null()))
            branch = exp.If(this=known, true=node.args["true"])
            return self.cases(node, [branch], node.args.get("false"), None)
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
        for branch in ifs:
            condition = (
                branch.this if subject is None else exp.EQ(this=subject, expression=branch.this)
            )
            tests.append(self.truth(node, condition))
        results = [branch.args["true"] for branch in ifs]
        results.append(exp.Null() if default is None else default)
        kind, values = self.one_type(node, results)
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
        scalar = self.compile(value)
        return Scalar(
            lambda row: None if same.compute(row) is True else scalar.compute(row),
            scalar.type,
            nullable=True,
        )

    def alike(self, nodes: Sequence[exp.Expr]) -> list[Scalar]:
        """Alternatives: a literal in quotes is of the type of the others, but in Spark."""
        values = [self.compile(node) for node in nodes]
        kind = common([value.type for value in values if value.type is not TEXT])
        if kind is None or self.statement.dialect == "spark":
            return values
        return [self.compile(typed(node, kind)) for node in nodes]

    def one_type(self, node: exp.Expr, nodes: Sequence[exp.Expr]) -> tuple[SqlType, list[Scalar]]:
        """The common type of alternatives, and these as ones of it."""
        kind, values = NULL, self.alike(nodes)
        for value in values:
            both = common_type(kind, value.type)
            if both is None:
                message = f"{node.key.upper()} of {kind.name} and {value.type.name}"
                raise self.statement.wrong(message, node, "CAST(... AS ...) to one type")
            kind = both
        return kind, [self.converted(value, kind) for value in values]


def _attempted(compute: Compute) -> Compute:
    """A function that is NULL where there is an error."""

    def attempt(row: Any) -> Any:
        try:
            return compute(row)
        except (ValueError, ArithmeticError):
            return None

    return attempt


_OTHERWISE: Final = {"TEXT": "VARCHAR", "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE", "NULL": '"NULL"'}


def _name_of(kind: SqlType) -> str:
    """A type as DuckDB calls it."""
    if kind.element is not None:
        return f"{_name_of(kind.element)}[]"
    if kind.fields:
        named = ((name if name.isidentifier() else f'"{name}"', of) for name, of in kind.fields)
        parts = (f"{name} {_name_of(of)}" for name, of in named)
        return f"STRUCT({', '.join(parts)})"
    if kind.is_decimal:
        return kind.name.replace(", ", ",")
    return _OTHERWISE.get(kind.name, kind.name)


_LETTER: Final = {True: "t", False: "f"}
"""BOOLEANs as PostgreSQL shows them, in CONCAT too."""

_NODES: Final[dict[Any, Callable[[Scalars, Any], Scalar]]] = {
    tuple(functions.ARITHMETIC): Scalars.arithmetic,
    (exp.Round, exp.Trunc): Scalars.rounded,
    exp.Neg: Scalars.negated,
    exp.Interval: moments.interval,
    exp.AtTimeZone: moments.in_zone,
    tuple(functions.COMPARE): Scalars.comparison,
    (exp.And, exp.Or): Scalars.both,
    exp.Not: Scalars.negation,
    exp.Paren: Scalars.paren,
    exp.Escape: Scalars.escaped,
    exp.Is: Scalars.is_,
    exp.Between: Scalars.between,
    exp.In: Scalars.member,
    exp.Cast: Scalars.cast,
    exp.Try: Scalars.tried,
    exp.Typeof: Scalars.type_of,
    (exp.Case, exp.If, exp.Nvl2): Scalars.choice,
    exp.Nullif: Scalars.nullif,
    (
        exp.Extract,
        exp.Year,
        exp.Quarter,
        exp.Month,
        exp.Day,
        exp.DayOfMonth,
        exp.DayOfWeek,
        exp.DayOfWeekIso,
        exp.DayOfYear,
        exp.WeekOfYear,
        exp.Week,
        exp.Hour,
        exp.Minute,
        exp.Second,
    ): moments.part,
    (exp.TimeToUnix, exp.StrToUnix, exp.UnixToTime): moments.since,
    (exp.TsOrDsAdd, exp.AddMonths): moments.day_later,
    json_paths.NODES: json_paths.extracted,
    exp.TimeToStr: formats.written,
    (exp.StrToTime, exp.StrToDate): formats.read,
    exp.TsOrDsToDate: formats.day,
    exp.DateDiff: moments.difference,
    (exp.LastDay, exp.Dayname, exp.Monthname): moments.of_day,
    exp.DateFromParts: moments.make_date,
    exp.DateBin: moments.bucket,
    exp.Date: moments.as_date,
    exp.Format: filled.filled,
    exp.DateAdd: moments.later,
    (exp.TimestampTrunc, exp.DateTrunc): moments.truncated,
    exp.Array: nested.array,
    exp.Comprehension: lambdas.comprehension,
    exp.ArrayContains: nested.contains,
    exp.Bracket: nested.at,
    exp.Struct: nested.struct,
    (exp.Dot, exp.StructExtract): lambda self, node: nested.field(
        self, node, node.this, node.expression
    ),
    exp.ArraySlice: lambda self, node: nested.part(self, node, node),
    lambdas.NODES: lambdas.compiled,
    regexes.NODES: regexes.compiled,
    lists.NODES: lists.compiled,
}


_BY_NAME: Final[dict[str, Callable[[Scalars, Any], Scalar]]] = {
    "DATE_PART": moments.part_named,
    "MAKE_DATE": moments.make_date,
    "TRY_STRPTIME": formats.read,
    "PRINTF": filled.printed,
    "EPOCH_US": moments.since,
    "DATE_SUB": moments.over,
    "DATESUB": moments.over,
    "TIMEZONE": moments.in_zone,
    **dict.fromkeys(moments.PARTS_BY_NAME, moments.part_called),
}
"""What sqlglot has no node for, and is no function of values alone."""


@cache
def _method(kind: Any) -> Callable[[Scalars, Any], Scalar] | None:
    """What compiles nodes of a class: asked for every node of every statement."""
    return next((method for of, method in _NODES.items() if issubclass(kind, of)), None)


def _bounded(interval: Interval) -> Interval:
    if not fits(interval, INTERVAL):
        raise OverflowError(f"{shown(str(interval))} is no INTERVAL: it is of more than 64 bits")
    return interval


def _fitting(
    operate: Callable[[Any, Any], Decimal], kind: SqlType, node: exp.Expr
) -> Callable[[Any, Any], Decimal]:
    """An operator of decimals whose result is one of a type, or an error that says of which."""
    unit, sign = Decimal(1).scaleb(-kind.scale), functions.written(node)
    way_out = f"CAST(... AS DECIMAL({MOST_DIGITS}, {kind.scale})) one side"
    if kind.is_wide:
        way_out = "CAST(... AS ...) one side, to fewer digits behind the point, or to DOUBLE"

    def fitted(left: Any, right: Any) -> Decimal:
        value = DECIMALS.quantize(operate(left, right), unit)
        if not fits(value, kind):
            whole = f"{left} {sign} {right} is {value}"
            raise OverflowError(f"{whole}, which is no {kind.name}: {way_out}")
        return value or abs(value)  # one zero

    return fitted


def _among(subject: Scalar, others: Sequence[Scalar]) -> Scalar:
    """Whether a text, a UUID or a whole number is among constants: its value is computed once."""
    values = {other.compute(()) for other in others}
    missing = None if None in values else False

    def compute(row: Any) -> bool | None:
        value = subject.compute(row)
        return None if value is None else True if value in values else missing

    return Scalar(compute, BOOLEAN, subject.nullable or missing is None)
