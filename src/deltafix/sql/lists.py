"""Functions of arrays, as each dialect has them: sorted, put together, searched, summed.

A form says what it takes, letter by letter (`A` an array, `E` an element of it, `N` a whole number,
`T` a text), and computes with a key that makes elements as equal and as great as they are in SQL.
Invariant: every array of a call, and each element beside one, is of one type first. Places, slices
and fields are `sql.nested`'s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from deltafix.reducers.aggregate import UserReducer
from deltafix.sql import reducers, times
from deltafix.sql.casts import cast
from deltafix.sql.functions import itself, order_of
from deltafix.sql.intervals import size
from deltafix.sql.literals import Scalar, strict, typed
from deltafix.sql.text import exp
from deltafix.sql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMALS,
    DOUBLE,
    MOST_DIGITS,
    NULL,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    SqlType,
    array_type,
    common_type,
    computed_decimal,
)

if TYPE_CHECKING:
    from deltafix.sql.scalar import Scalars

__all__ = ["NODES", "compiled", "is_of_arrays", "named"]

_Array: TypeAlias = tuple[Any, ...]
_Key: TypeAlias = Callable[[Any], Any]

_MOST: Final = 1 << 20
"""The most numbers that a series has."""


@dataclass(frozen=True, slots=True)
class _Form:
    """One function in one dialect.

    Attributes:
        takes: a letter for each argument; those behind the dot may be missing.
        result: a type, `A` for the array's, `E` for its element's.
        compute: of the key, and the values.
        strict: NULL where an argument is; otherwise `compute` sees None.
        folds: in place of `compute`, what makes a reducer of an element's type, which folds those
            that are there, and how many there are to be; None for a type that it does not take.
    """

    takes: str
    result: SqlType | str
    compute: Callable[..., Any] = len
    strict: bool = True
    folds: Callable[[SqlType], tuple[UserReducer, int] | None] | None = None


def _sorted(key: _Key, array: _Array, *, down: bool = False, first: bool = False) -> _Array:
    known = sorted((element for element in array if element is not None), key=key, reverse=down)
    nulls = (None,) * (len(array) - len(known))
    return (*nulls, *known) if first else (*known, *nulls)


def _nullable_key(key: _Key) -> _Key:
    """The key of elements of which NULL is one, equal to itself."""
    return lambda element: (element is None, None if element is None else key(element))


def _distinct(key: _Key, array: _Array, *, nulls: bool = False) -> _Array:
    """In the order in which they are first there."""
    seen: dict[Any, Any] = {}
    for element in array:
        if element is not None or nulls:
            seen.setdefault(_nullable_key(key)(element), element)
    return tuple(seen.values())


def _kept(key: _Key, array: _Array, other: _Array, *, there: bool, nulls: bool = False) -> _Array:
    """What is in another one, or is not; once each."""
    key_of = _nullable_key(key)
    others = {key_of(element) for element in other}
    return tuple(
        element
        for element in _distinct(key, array, nulls=nulls)
        if (key_of(element) in others) is there
    )


def _position(
    key: _Key, array: _Array | None, element: Any, missing: int | None = None
) -> int | None:
    if array is None:
        return None
    key_of = _nullable_key(key)
    positions = (at for at, other in enumerate(array, 1) if key_of(other) == key_of(element))
    return next(positions, missing)


def _any_there(key: _Key, array: _Array, other: _Array) -> bool:
    return not {key(element) for element in array if element is not None}.isdisjoint(
        key(element) for element in other if element is not None
    )


def _all_there(key: _Key, array: _Array, other: _Array, *, nulls: bool = True) -> bool:
    """Whether all of the second are in the first; of NULLs only if they are told apart."""
    if not nulls and None in other:
        return False
    keys = {key(element) for element in array if element is not None}
    return all(key(element) in keys for element in other if element is not None)


def _overlap(key: _Key, array: _Array, other: _Array) -> bool | None:
    """Spark's: unknown where only a NULL may be in both."""
    if _any_there(key, array, other):
        return True
    return None if array and other and (None in array or None in other) else False


def _joined(_: _Key, *arrays: _Array | None) -> _Array:
    return tuple(element for array in arrays if array is not None for element in array)


def _all_or_null(_: _Key, *arrays: _Array) -> _Array:
    return tuple(element for array in arrays for element in array)


def _appended(_: _Key, array: _Array | None, element: Any) -> _Array:
    return (*(array or ()), element)


def _without(key: _Key, array: _Array | None, element: Any) -> _Array | None:
    key_of = _nullable_key(key)
    return None if array is None else tuple(x for x in array if key_of(x) != key_of(element))


def _extreme(choose: Callable[..., Any]) -> Callable[[_Key, _Array], Any]:
    return lambda key, array: choose((x for x in array if x is not None), key=key, default=None)


def _total(known: Sequence[Any]) -> Any:
    """The sum of numbers of one type, which are there: exact, or rounded once."""
    if isinstance(known[0], float):
        return math.fsum(known)
    return reduce(DECIMALS.add, known) if isinstance(known[0], Decimal) else sum(known)


def _sum(_: _Key, array: _Array) -> Any:
    known = [element for element in array if element is not None]
    return _total(known) if known else None


def _average(_: _Key, array: _Array) -> float | None:
    known = [element for element in array if element is not None]
    if not known:
        return None
    total = _total(known)
    if isinstance(total, Decimal):
        return float(Fraction(total) / len(known))
    return float(total / len(known))


def _text(_: _Key, array: _Array, between: str) -> str:
    return between.join(element for element in array if element is not None)


def _aggregated(_: _Key, array: _Array | None, between: str | None) -> str | None:
    """DuckDB's, which is STRING_AGG: of NULLs alone it is one."""
    if not array:
        return "" if array == () else None
    between = "," if between is None else between
    return None if array.count(None) == len(array) else _text(_, array, between)


def _flat(_: _Key, array: _Array) -> _Array:
    return tuple(element for inner in array if inner is not None for element in inner)


def _flat_or_null(_: _Key, array: _Array) -> _Array | None:
    return None if None in array else _flat(_, array)


def _series(_: _Key, start: int, end: int, step: int = 1, *, last: bool) -> _Array:
    if step == 0:  # of which there are none, or no end of them
        return ()
    numbers = range(start, end + (last if step > 0 else -last), step)
    if len(numbers) > _MOST:
        raise ValueError(f"a series of {len(numbers)} numbers: {_MOST} are the most")
    return tuple(numbers)


def _series_of_steps(key: _Key, start: int, end: int, step: int = 1) -> _Array:
    """PostgreSQL's, which is to have an end."""
    if step == 0:
        raise ValueError("the step of a series is 0")
    return _series(key, start, end, step, last=True)


def _moments(scalars: Scalars, node: exp.GenerateSeries) -> Scalar:
    """A series of days or moments, by an INTERVAL: the end of it, too, but in RANGE."""
    statement = scalars.statement
    step = times.interval(statement, node.args["step"].unnest())
    nodes = [node.args[key] for key in ("start", "end")]
    kinds = {scalars.compile(end).type for end in nodes} - {TEXT}  # in quotes it is as the other
    ends = [scalars.compile(typed(end, next(iter(kinds), TEXT))) for end in nodes]
    zoned = [TIMESTAMPTZ] if statement.dialect == "postgres" else []  # its days are moments of UTC
    if any(end.type not in (DATE, TIMESTAMP, NULL, *zoned) for end in ends):
        shown = ", ".join(end.type.name for end in ends)
        raise statement.wrong(f"a series from {shown}", node, "it takes a DATE or a TIMESTAMP")
    is_of_days = statement.dialect == "spark" and ends[0].type is DATE
    has_zone = statement.dialect == "postgres" and TIMESTAMP not in {end.type for end in ends}
    if step.months * step.rest < timedelta() or (is_of_days and step.rest % timedelta(days=1)):
        raise statement.refused("this step", node, "write INTERVAL '1' DAY")
    last, again = not node.args.get("is_end_exclusive"), statement.dialect != "spark"

    def compute(start: Any, end: Any) -> _Array:
        series: list[Any] = []
        at, way = start, 1 if size(step) > 0 else -1
        while size(step) and (
            (times.micros(end) - times.micros(at)) * way > 0 or (last and at == end)
        ):
            if len(series) == _MOST:
                raise ValueError(f"a series of more than {_MOST} moments")
            series.append(at)
            try:
                at = times.moved(at, step, 1) if again else times.moved(start, step, len(series))
            except OverflowError:  # the next one is of no year, and so behind the end
                break
        if has_zone:
            return tuple(moment.replace(tzinfo=UTC) for moment in series)
        return tuple(moment.date() for moment in series) if is_of_days else tuple(series)

    moments = [scalars.converted(end, TIMESTAMP) for end in ends]
    return Scalar(
        strict(compute, *(moment.compute for moment in moments)),
        array_type(DATE if is_of_days else TIMESTAMPTZ if has_zone else TIMESTAMP),
        any(end.nullable for end in ends),
    )


def _sort(node: exp.Expr) -> _Form | None:
    """A sort, whose directions sqlglot has read."""
    ways = [node.args.get("asc"), node.args.get("nulls_first")]
    if node.args.get("expression") or not all(
        w is None or isinstance(w, exp.Boolean) for w in ways
    ):
        return None
    down = ways[0] is not None and not ways[0].this
    first = ways[1] is not None and bool(ways[1].this)
    return _Form("A", "A", partial(_sorted, down=down, first=first))


def _of_numbers(make: Callable[[int], UserReducer], least: int = 1) -> _Form:
    """A statistic of numbers, of a scale: a DOUBLE."""

    def folds(kind: SqlType) -> tuple[UserReducer, int] | None:
        if not (kind.is_numeric or kind is NULL):
            return None
        reducer = make(kind.scale)
        return (reducers.Wide(reducer, itself) if kind.is_wide else reducer), least

    return _Form("A", DOUBLE, folds=folds)


def _spread(*, ddof: int, root: bool) -> _Form:
    return _of_numbers(lambda scale: reducers.Spread(ddof=ddof, root=root, scale=scale), 1 + ddof)


def _bits(op: str) -> _Form:
    reducer = reducers.Bits(op)
    return _Form(
        "A", BIGINT, folds=lambda kind: (reducer, 1) if kind.is_integer or kind is NULL else None
    )


def _truths(op: str) -> _Form:
    reducer = reducers.Bits(op)  # a BOOLEAN is 0 or 1
    return _Form("A", BOOLEAN, folds=lambda kind: (reducer, 1) if kind in (BOOLEAN, NULL) else None)


_FOLDED: Final = {
    "PRODUCT": _of_numbers(reducers.Product),
    "MEDIAN": _of_numbers(
        lambda scale: reducers.Quantile(
            Fraction(1, 2), scale, itself, continuous=True, descending=False
        )
    ),
    "STDDEV_POP": _spread(ddof=0, root=True),
    "STDDEV_SAMP": _spread(ddof=1, root=True),
    "VAR_POP": _spread(ddof=0, root=False),
    "VAR_SAMP": _spread(ddof=1, root=False),
    "BIT_AND": _bits("and"),
    "BIT_OR": _bits("or"),
    "BIT_XOR": _bits("xor"),
    "BOOL_AND": _truths("and"),
    "BOOL_OR": _truths("or"),
    "MODE": _Form("A", "E", folds=lambda _: (reducers.Mode(), 1)),
}
"""Aggregates of the elements, by the reducers that those of rows have."""

_ANY: Final = _Form("AA", BOOLEAN, _any_there)
_ALL: Final = _Form("AA", BOOLEAN, _all_there)
_WITHIN: Final = _Form("AA", BOOLEAN, lambda key, left, right: _all_there(key, right, left))
_REVERSED: Final = _Form("A", "A", lambda _, array: array[::-1])
_MIN: Final = _Form("A", "E", _extreme(min))
_MAX: Final = _Form("A", "E", _extreme(max))
_TEXT: Final = _Form("JT", TEXT, _text)

_DUCKDB: Final[dict[Any, _Form]] = {
    exp.ArrayDistinct: _Form("A", "A", _distinct),
    "LIST_UNIQUE": _Form("A", BIGINT, lambda key, array: len(_distinct(key, array))),
    exp.ArrayPosition: _Form("AE", BIGINT, _position, strict=False),
    exp.ArrayOverlaps: _ANY,
    exp.ArrayContainsAll: _ALL,
    exp.ArrayContainedBy: _WITHIN,
    exp.ArrayConcat: _Form("AA.AAAAAAA", "A", _joined, strict=False),
    exp.ArrayAppend: _Form("AE", "A", _appended, strict=False),
    exp.ArrayPrepend: _Form(
        "AE", "A", lambda _, array, element: (element, *(array or ())), strict=False
    ),
    exp.ArrayReverse: _REVERSED,
    "LIST_INTERSECT": _Form(
        "AA", "A",
        lambda key, a, b: None if a is None else _kept(key, a, b or (), there=True),
        strict=False,
    ),
    exp.ArrayMin: _MIN,
    exp.ArrayMax: _MAX,
    "LIST_SUM": _Form("A", "S", _sum),
    "LIST_AVG": _Form("A", DOUBLE, _average),
    "LIST_COUNT": _Form("A", BIGINT, lambda _, array: len(array) - array.count(None)),
    **{f"LIST_{name}": form for name, form in _FOLDED.items()},
    "LIST_ANY_VALUE": _Form(
        "A", "E", lambda _, array: next((x for x in array if x is not None), None)
    ),
    "LIST_STRING_AGG": _Form(
        "J.T", TEXT, lambda key, array, between=",": _aggregated(key, array or None, between),
        strict=False,
    ),
    "LIST_FIRST": _Form("A", "E", lambda _, array: array[0] if array else None),
    "LIST_LAST": _Form("A", "E", lambda _, array: array[-1] if array else None),
    "ARRAY_POP_BACK": _Form("A", "A", lambda _, array: array[:-1]),
    "ARRAY_POP_FRONT": _Form("A", "A", lambda _, array: array[1:]),
    exp.ArrayToString: _Form("JT", TEXT, _aggregated, strict=False),
    exp.Flatten: _Form("A", "E", _flat),
    "RANGE": _Form("NN.N", array_type(BIGINT), partial(_series, last=False)),
    exp.GenerateSeries: _Form("NN.N", array_type(BIGINT), partial(_series, last=True)),
}  # fmt: skip

_POSTGRES: Final[dict[Any, _Form]] = {
    exp.ArrayPosition: _DUCKDB[exp.ArrayPosition],
    exp.ArrayOverlaps: _ANY,
    exp.ArrayContainsAll: _Form("AA", BOOLEAN, partial(_all_there, nulls=False)),
    exp.ArrayContainedBy: _Form(
        "AA", BOOLEAN, lambda key, left, right: _all_there(key, right, left, nulls=False)
    ),
    exp.ArrayConcat: _Form(
        "AA", "A", lambda _, *arrays: _joined(_, *arrays) if any(arrays) or () in arrays else None,
        strict=False,
    ),
    exp.ArrayAppend: _DUCKDB[exp.ArrayAppend],
    exp.ArrayPrepend: _DUCKDB[exp.ArrayPrepend],
    exp.ArrayRemove: _Form("AE", "A", _without, strict=False),
    exp.ArrayToString: _TEXT,
    exp.GenerateSeries: _Form("NN.N", array_type(BIGINT), _series_of_steps),
}  # fmt: skip

_SPARK: Final[dict[Any, _Form]] = {
    exp.ArrayDistinct: _Form("A", "A", partial(_distinct, nulls=True)),
    exp.ArrayPosition: _Form("AE", BIGINT, partial(_position, missing=0)),
    "ARRAYS_OVERLAP": _Form("AA", BOOLEAN, _overlap),
    "ARRAY_UNION": _Form(
        "AA", "A", lambda key, left, right: _distinct(key, (*left, *right), nulls=True)
    ),
    exp.ArrayIntersect: _Form("AA", "A", partial(_kept, there=True, nulls=True)),
    exp.ArrayExcept: _Form("AA", "A", partial(_kept, there=False, nulls=True)),
    exp.ArrayAppend: _Form(
        "AE", "A", lambda _, array, last: None if array is None else (*array, last), strict=False
    ),
    exp.ArrayPrepend: _Form(
        "AE", "A", lambda _, array, first: None if array is None else (first, *array), strict=False
    ),
    exp.ArrayRemove: _Form("AE", "A", _without),
    exp.ArrayConcat: _Form("AA.AAAAAAA", "A", _all_or_null),
    exp.Reverse: _REVERSED,
    exp.ArrayMin: _MIN,
    exp.ArrayMax: _MAX,
    exp.ArrayToString: _TEXT,
    exp.Flatten: _Form("A", "E", _flat_or_null),
    exp.GenerateSeries: _Form(
        "NN", array_type(BIGINT),
        lambda key, start, end: _series(key, start, end, 1 if start <= end else -1, last=True),
    ),
}  # fmt: skip

_FORMS: Final = {"duckdb": _DUCKDB, "postgres": _POSTGRES, "spark": _SPARK}

_ALIASES: Final[dict[str, Any]] = {
    "ARRAY_UNIQUE": "LIST_UNIQUE", "LIST_POSITION": exp.ArrayPosition,
    "LIST_INDEXOF": exp.ArrayPosition, "ARRAY_INDEXOF": exp.ArrayPosition,
    "ARRAY_HAS_ANY": exp.ArrayOverlaps, "LIST_HAS_ALL": exp.ArrayContainsAll,
    "ARRAY_HAS_ALL": exp.ArrayContainsAll, "LIST_CAT": exp.ArrayConcat,
    "ARRAY_CAT": exp.ArrayConcat, "ARRAY_PUSH_BACK": exp.ArrayAppend,
    "LIST_REVERSE": exp.ArrayReverse,
    "ARRAY_INTERSECT": "LIST_INTERSECT", "LIST_TO_STRING": exp.ArrayToString,
}  # fmt: skip
"""Other names of what sqlglot has no node for."""

NODES: Final = (
    exp.ArraySort,
    *{kind for forms in _FORMS.values() for kind in forms if isinstance(kind, type)}
    - {exp.Reverse},
)
"""What sqlglot makes of functions of arrays alone."""


_BY_NAME: Final = ("LIST_AGGREGATE", "LIST_AGGR", "ARRAY_AGGREGATE", "ARRAY_AGGR")
_AGGREGATES: Final = {"MEAN": "AVG", "STDDEV": "STDDEV_SAMP", "VARIANCE": "VAR_SAMP"}
_NODES_OF: Final = {"LIST_MIN": exp.ArrayMin, "LIST_MAX": exp.ArrayMax}


def _by_name(node: exp.Expr) -> exp.Expr:
    """LIST_AGGREGATE(array, 'sum') as LIST_SUM(array); another node as it is."""
    is_call = isinstance(node, exp.Anonymous) and node.name.upper() in _BY_NAME
    if not is_call or len(node.expressions) < 2 or not node.expressions[1].is_string:
        return node
    array, name, *more = node.expressions
    aggregate = name.name.upper()
    called = f"LIST_{_AGGREGATES.get(aggregate, aggregate)}"
    if called in _NODES_OF and not more:
        return _NODES_OF[called](this=array)
    return exp.Anonymous(this=called, expressions=[array, *more])


def _name(node: exp.Expr) -> Any:
    node = _by_name(node)
    if isinstance(node, exp.GenerateSeries) and node.args.get("is_end_exclusive"):
        return "RANGE"
    if not isinstance(node, exp.Anonymous):
        return type(node)
    return _ALIASES.get(node.name.upper(), node.name.upper())


def _fold(reducer: UserReducer, least: int, kind: SqlType, result: SqlType, array: _Array) -> Any:
    """What a reducer makes of the elements that are there, NULL if they are too few."""
    codes = [kind.write(element) for element in array if element is not None]
    if len(codes) < least:
        return None
    value = reducer.finish(reduce(reducer.add, codes, reducer.initial))
    return value if result.read is None else result.read(value)


def named(node: exp.Expr, dialect: str) -> bool:
    """Whether a function that sqlglot has no node for is one of these."""
    if not isinstance(node, exp.Anonymous) or _name(node) not in _FORMS[dialect]:
        return False
    return dialect == "duckdb" or node.name.upper() not in _BY_NAME


def is_of_arrays(scalars: Scalars, node: exp.Expr) -> bool:
    """Whether what is of texts, too, is of arrays here: `||`, CONCAT, Spark's REVERSE."""
    kinds = (
        exp.DPipe,
        exp.Concat,
        *([exp.Reverse] if scalars.statement.dialect == "spark" else []),
    )
    if not isinstance(node, kinds):
        return False
    args = node.expressions or [node.this, *filter(None, [node.args.get("expression")])]
    return any(scalars.compile(arg).type.element is not None for arg in args)


def compiled(scalars: Scalars, node: exp.Expr) -> Scalar:
    """A function of arrays. Raises SqlProgrammingError, SqlRefusedError."""
    statement, node = scalars.statement, _by_name(node)
    if isinstance(node, exp.GenerateSeries) and isinstance(node.args.get("step"), exp.Interval):
        return _moments(scalars, node)
    if isinstance(node, exp.DPipe) and statement.dialect == "postgres":
        left, right = (scalars.compile(side).type for side in (node.this, node.expression))
        if right.element is None and right is not NULL:
            node = exp.ArrayAppend(this=node.this, expression=node.expression)
        elif left.element is None and left is not NULL:
            node = exp.ArrayPrepend(this=node.expression, expression=node.this)
    name = _name(node)
    word = node.name.upper() if isinstance(node, exp.Anonymous) else node.key.upper()
    if isinstance(node, exp.DPipe | exp.Concat):
        form: _Form | None = _Form("AA.AAAAAAA", "A", _all_or_null)
        if statement.dialect == "postgres":
            form = _POSTGRES[exp.ArrayConcat]
    elif name is exp.ArraySort:
        form = _sort(node)
    else:
        form = _FORMS[statement.dialect].get(name)
    if form is None:
        way_out = "UNNEST it, and ARRAY_AGG what is left"
        raise statement.refused(f"{word} as it is here", node, way_out)
    args = [
        arg
        for key, value in node.args.items()
        if key in ("this", "start", "end", "step", "expression", "expressions")
        for arg in (value if isinstance(value, list) else [value])
        if isinstance(arg, exp.Expr) and not isinstance(node, exp.Anonymous)
    ] or list(node.expressions)
    if isinstance(node, exp.ArraySort):
        args = args[:1]
    least, _, more = form.takes.partition(".")
    takes = least + more
    if not len(least) <= len(args) <= len(takes):
        raise statement.wrong(f"{word} of {len(args)} values", node, f"it takes {len(least)}")
    values, kind = _of_one_type(scalars, node, args, takes)
    result = form.result
    if result == "A":
        result = array_type(kind)
    elif result == "E":
        result = kind
    elif result == "S":
        result = computed_decimal(MOST_DIGITS, kind.scale, kind) if kind.is_decimal else kind
        result = BIGINT if result.is_integer or result is NULL else result
    assert isinstance(result, SqlType)  # noqa: S101  letters are those above
    if name is exp.Flatten:
        if kind.element is None:
            raise statement.wrong(f"FLATTEN of {kind.name}[]", node, "it takes an array of arrays")
        result = kind
    compute: Callable[..., Any] = partial(form.compute, order_of(kind))
    if form.folds is not None:
        folded = form.folds(kind)
        if folded is None:
            message = f"{word} of {kind.name}[]"
            raise statement.wrong(message, node, "UNNEST it, and CAST what is left")
        compute = partial(_fold, *folded, kind, result)
    parts = [value.compute for value in values]
    if form.strict:
        return scalars.checked(strict(compute, *parts), result, nullable=True)
    return scalars.checked(lambda row: compute(*(get(row) for get in parts)), result, nullable=True)


def _of_one_type(
    scalars: Scalars, node: exp.Expr, args: Sequence[exp.Expr], takes: str
) -> tuple[list[Scalar], SqlType]:
    """The arguments, with arrays of one type and elements of it; and the type of an element."""
    statement = scalars.statement
    kind: SqlType | None = NULL
    values = []
    if statement.dialect == "postgres":  # '{a,b}' beside an array is one
        arrays = [one for one in (scalars.compile(arg).type for arg in args) if one.element]
        pairs = zip(args, takes, strict=False)
        args = [typed(arg, arrays[0]) if letter == "A" and arrays else arg for arg, letter in pairs]
    for arg, letter in zip(args, takes, strict=False):
        value = scalars.compile(arg)
        if letter in "AJ" and value.type is not NULL:
            if value.type.element is None:
                message = f"{scalars.statement.called(node)} of {value.type.name}"
                raise statement.wrong(message, arg, "it takes an array")
            kind = None if kind is None else common_type(kind, value.type.element)
        values.append(value)
    for index, (arg, letter) in enumerate(zip(args, takes, strict=False)):
        value = values[index]
        if letter == "E" and kind is not None:
            value = values[index] = scalars.compile(typed(arg, kind))
            kind = common_type(kind, value.type)
        fits = {"N": value.type.is_integer, "T": value.type == TEXT}.get(letter, True)
        if kind is None or not (fits or value.type is NULL):
            shown = ", ".join(value.type.name for value in values)
            message = f"{scalars.statement.called(node)}({shown}) has no meaning"
            raise statement.wrong(message, node, "it takes arrays and elements of one type")
    assert kind is not None  # noqa: S101  or it was refused
    if "J" in takes:
        kind = TEXT
    to = array_type(kind)
    converted = []
    for value, letter in zip(values, takes, strict=False):
        wanted = {"A": to, "J": to, "E": kind}.get(letter, value.type)
        if letter == "J" and value.type not in (to, NULL):
            convert = cast(value.type, to, dialect=statement.dialect)
            assert convert is not None  # noqa: S101  all have a text
            converted.append(Scalar(strict(convert, value.compute), to, value.nullable))
        else:
            converted.append(scalars.converted(value, wanted))
    return converted, kind
