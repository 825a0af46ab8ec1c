"""Window functions: for each row of a SELECT a value that the rows of its partition decide.

The rows are a relation (`joins.kept`); each function folds it by partition, with a reducer whose
results are what tells a row apart and its value, and these join the rows again. So an edit computes
the partitions that it touches, and no other. An aggregate of a whole partition is a group's.
Invariant: ROW_NUMBER and its like follow from the data: rows that ORDER BY leaves equal are sorted
by what tells them apart, for all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from deltafix.rules.terms import Const
from deltafix.sql import frames
from deltafix.sql.aggregates import AGGREGATE, AggregateCall, fold, read_aggregate, reducer_of, way
from deltafix.sql.builder import NIL, Operand
from deltafix.sql.formulas import Formulas
from deltafix.sql.literals import whole
from deltafix.sql.offsets import measure, offset
from deltafix.sql.partitions import Function, Windowed
from deltafix.sql.ranking import folded
from deltafix.sql.reducers import United
from deltafix.sql.text import Statement, exp
from deltafix.sql.types import BIGINT, DOUBLE, NULL, Column, SqlType, common_type

__all__ = ["compute", "windows_of"]

_RANKINGS: Final[dict[type, tuple[str, SqlType]]] = {
    exp.RowNumber: ("row_number", BIGINT),
    exp.Rank: ("rank", BIGINT),
    exp.DenseRank: ("dense_rank", BIGINT),
    exp.PercentRank: ("percent_rank", DOUBLE),
    exp.CumeDist: ("cume_dist", DOUBLE),
    exp.Ntile: ("ntile", BIGINT),
}
_PLACES: Final = (exp.FirstValue, exp.LastValue, exp.NthValue, exp.First, exp.Last)
_USAGE = (
    "window functions are ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE, LAG, LEAD, "
    "FIRST_VALUE, LAST_VALUE, NTH_VALUE and aggregates"
)

_Computed: TypeAlias = tuple[str, Function, list[tuple[Operand, SqlType]], Column]
"""A name by what a function computes, its values, its arguments, and what the values are."""


def windows_of(select: exp.Expr, qualify: exp.Expr | None = None) -> list[exp.Window]:
    """The window functions that a SELECT itself computes; not those of subqueries."""
    ends = (exp.Window, exp.Query, exp.Subquery)
    return [
        window
        for node in (*select.expressions, qualify, select.args.get("order"))
        if node is not None
        for window in node.walk(bfs=False, prune=lambda part: isinstance(part, ends))
        if isinstance(window, exp.Window)
    ]


def compute(
    formulas: Formulas,
    nodes: Sequence[exp.Window],
    definitions: Sequence[exp.Window],
    most: Mapping[exp.Expr, int],
) -> None:
    """Give the scope the values of window functions; `definitions` are those of WINDOW.

    A row that counts to more than is asked for, which is `most`, has no value. The body of
    `formulas` is one atom, of a relation of all rows.
    """
    builder, scope = formulas.builder, formulas.scope
    named = {window.name: window for window in definitions}
    rows = list(formulas.body)
    identity = [operand for source in scope.sources for operand in source.identity]
    if scope.known is not None:
        identity = list(scope.known.values())
    identity = list(dict.fromkeys(identity))
    for node in nodes:
        spelled = scope.qualified(node)
        if spelled in scope.windows:
            continue
        inner = Formulas(builder, scope, list(rows))
        window = _Window(inner, node, named)
        aggregate = window.whole()
        if aggregate is not None:
            scope.windows[spelled] = _of_partition(formulas, inner, window, aggregate, identity)
            continue
        name, function, args, result = window.function(most.get(node))
        sorts = [(inner.operand(ordered.this), ordered) for ordered in window.order]
        by = (*window.partition, *scope.outer_columns())
        partition = [inner.operand(expression) for expression in by]
        ways = [way(key, ordered) for key, ordered in sorts]
        given = [(key, key.column(f"o{n}")) for n, (key, _) in enumerate(sorts)]
        given += [
            (operand, Column(f"a{n}", kind, nullable=True))
            for n, (operand, kind) in enumerate(args)
        ]
        given += [(operand, operand.column(f"i{n}")) for n, operand in enumerate(identity)]
        written = "".join(map(str, ways))
        reducer = Windowed(ways, [way(operand, None) for operand in identity], len(args), function)
        (value,) = builder.variables([result])
        outputs = [*identity, value]
        results = [operand.column(f"r{n}") for n, operand in enumerate(outputs)]
        source = builder.relation(
            [
                *(operand.column(f"g{n}") for n, operand in enumerate(partition)),
                *(column for _, column in given),
            ]
        )
        builder.head(source, [*partition, *(operand for operand, _ in given)], inner.body)
        formulas.body.append(
            folded(
                builder,
                source,
                [formulas.operand(expression) for expression in by],
                outputs,
                results,
                (f"window_{name}_{len(args)}_{written}", reducer),
            )
        )
        scope.windows[spelled] = value


def _of_partition(
    formulas: Formulas,
    inner: Formulas,
    window: _Window,
    aggregate: AggregateCall,
    identity: Sequence[Operand],
) -> Operand:
    """An aggregate of all rows of a partition: that of a group, which the engine has.

    50,000 rows in 5,000 partitions: 22 us a row where each partition is walked, 2 so.
    """
    builder, scope = formulas.builder, formulas.scope
    by = (*window.partition, *scope.outer_columns())
    columns = [*map(inner.operand, by), *map(inner.operand, aggregate.operands), *identity]
    source = builder.relation([operand.column(f"w{n}") for n, operand in enumerate(columns)])
    builder.head(source, columns, inner.body)
    group = dict(enumerate(map(formulas.operand, by)))
    positions = range(len(by), len(by) + len(aggregate.operands))
    return fold(formulas, source, group, positions, aggregate, empty=False)


class _Window:
    """One window function as it is written."""

    def __init__(self, formulas: Formulas, node: exp.Window, named: dict[str, exp.Window]) -> None:
        self.formulas = formulas
        self.statement: Statement = formulas.scope.statement
        self.node = node
        given = dict(node.args)
        if node.alias:
            base = named.get(node.alias)
            if base is None:
                raise self.statement.unknown("window", node.alias, list(named), node)
            parts = {key: value for key, value in base.args.items() if key != "this" and value}
            if any(given.get(key) for key in parts):
                message = f"a window that says anew what {node.alias!r} says"
                raise self.statement.wrong(message, node, "write the whole window here")
            given |= parts
        self.partition: list[exp.Expr] = given.get("partition_by") or []
        order = given.get("order")
        self.order: list[exp.Ordered] = [] if order is None else order.expressions
        self.spec: exp.Expr | None = given.get("spec")

    def whole(self) -> AggregateCall | None:
        """The aggregate that it is of all rows of the partition; None: it is another function."""
        call = self.node.this
        others = (exp.WithinGroup, *_PLACES, *_RANKINGS)
        if not isinstance(call, AGGREGATE) or isinstance(call, others):
            return None
        frame = self._frame()
        is_all = frame.end is None if self.spec is not None else not self.order
        if not is_all or frame.start is not None or frame.exclude:
            return None
        aggregate = read_aggregate(self.formulas, call, window=True)
        return None if aggregate.is_united else aggregate

    def function(self, most: int | None) -> _Computed:
        """What it computes; if it counts, up to `most`."""
        call = self.node.this
        ignores = isinstance(call, exp.IgnoreNulls)
        if isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
            call = call.this
        kind = type(call)
        if kind in (exp.Lag, exp.Lead):
            return self._shifted(call, ignores=ignores)
        is_ordered = isinstance(call.this, exp.Order | exp.Distinct)
        if kind in _PLACES and not is_ordered:
            return self._nth(call, ignores=ignores)
        if ignores:
            way_out = "write it for LAG, LEAD, FIRST_VALUE, LAST_VALUE, NTH_VALUE, FIRST and LAST"
            raise self.statement.refused(
                f"{self.statement.called(call)} IGNORE NULLS", self.node, way_out
            )
        if kind in _RANKINGS:
            return self._ranking(call, most)
        if not isinstance(call, AGGREGATE) or isinstance(call, exp.WithinGroup):
            name = self.statement.called(call)
            raise self.statement.refused(f"the window function {name}", self.node, _USAGE)
        return self._aggregated(call)

    def _ranking(self, call: exp.Expr, most: int | None) -> _Computed:
        name, kind = _RANKINGS[type(call)]
        result = Column("value", kind, nullable=False)
        buckets = self._whole(call.this, least=1) if isinstance(call, exp.Ntile) else 1
        function = frames.ranking(name, buckets, most)
        return f"{name}_{buckets}_{function.most}", function, [], result

    def _shifted(self, call: exp.Expr, *, ignores: bool) -> _Computed:
        given = call.args.get("offset")
        by = 1 if given is None else self._whole(given)
        by = -by if isinstance(call, exp.Lag) else by
        value = self.formulas.operand(call.this)
        default = Operand(NIL, NULL, nullable=True)
        if call.args.get("default") is not None:
            default = self.formulas.operand(call.args["default"])
        kind = common_type(value.type, default.type)
        if kind is None:
            message = f"{self.statement.called(call)} of {value.type.name} or {default.type.name}"
            raise self.statement.wrong(message, self.node, "CAST(... AS ...) one of them")
        args = [(value, kind), (default, kind)]
        name, function = f"shifted_{by}_{ignores:d}", frames.shifted(by, ignores=ignores)
        return name, function, args, Column("value", kind, nullable=True)

    def _nth(self, call: exp.Expr, *, ignores: bool) -> _Computed:
        number = -1 if isinstance(call, exp.LastValue | exp.Last) else 1
        if isinstance(call, exp.NthValue):
            number = self._whole(call.args["offset"], least=1)
        value = self.formulas.operand(call.this)
        frame = self._frame()
        result = Column("value", value.type, nullable=True)
        name = f"nth_{number}_{ignores:d}_{_written(frame)}"
        return name, frames.nth(frame, number, ignores=ignores), [(value, value.type)], result

    def _aggregated(self, call: exp.Expr) -> _Computed:
        aggregate = read_aggregate(self.formulas, call, window=True)
        if aggregate.blank_in(self.formulas.scope.statement.dialect):
            way_out = "aggregate with GROUP BY, and join"
            raise self.formulas.builder.refused(
                f"{aggregate.op.upper()} in a window", call, way_out
            )
        value = Operand(Const(1, "number"), BIGINT, nullable=False)
        if aggregate.argument is not None:
            value = self.formulas.operand(aggregate.argument)
        frame = self._frame()
        if aggregate.is_united:
            return self._united(aggregate, frame, value)
        reducer, kind = reducer_of(self.formulas, aggregate, value.type)
        result = Column("value", kind, nullable=aggregate.op != "count")
        distinct = aggregate.by_value and aggregate.op not in ("min", "max")
        setting = f"{aggregate.setting}_{distinct:d}"
        name = f"{aggregate.op}_{setting}_{value.type.name}_{_written(frame)}"
        if aggregate.op in ("min", "max"):
            function = frames.extreme(frame, reducer, last=aggregate.op == "max")
        else:
            function = frames.aggregated(frame, reducer, aggregate.least, distinct=distinct)
        return name, function, [(value, value.type)], result

    def _united(self, aggregate: AggregateCall, frame: frames.Frame, value: Operand) -> _Computed:
        """STRING_AGG and its like: in an order of their own, or in the window's."""
        others = [self.formulas.operand(node) for node in aggregate.operands[1:]]
        keys = [Column("", operand.type, nullable=True) for operand in others]
        reducer, kind = reducer_of(self.formulas, aggregate, value.type, keys)
        assert isinstance(reducer, United)  # noqa: S101  it was asked for
        unite = reducer.unite
        is_last = aggregate.op == "last" and not aggregate.order

        def united(rows: list[Any]) -> Any:
            return rows[-is_last][1] if aggregate.is_picked else (unite(rows),)

        distinct = aggregate.by_value
        order = reducer.rank if aggregate.order or distinct else None
        ways = "".join(
            str(way(key, ordered))
            for key, ordered in zip(keys[-len(aggregate.order) :], aggregate.order, strict=False)
        )
        types = "_".join(operand.type.name for operand in (value, *others))
        setting = f"{aggregate.setting}_{distinct:d}_{ways}_{types}"
        name = f"{aggregate.op}_{setting}_{_written(frame)}"
        function = frames.united(frame, united, order, distinct=distinct)
        args = [(operand, operand.type) for operand in (value, *others)]
        return name, function, args, Column("value", kind, nullable=True)

    def _whole(self, node: exp.Expr, least: int | None = None) -> int:
        """A whole number that is written."""
        value = whole(node)
        if value is not None and (least is None or value >= least):
            return value
        message = f"{self.node.this.key.upper()} takes a whole number here"
        raise self.statement.wrong(message, node, "write a number, as in LAG(x, 2)")

    def _frame(self) -> frames.Frame:
        """Its frame; without one, all up to the row's peers."""
        spec = self.spec
        if spec is None:
            return frames.Frame("RANGE", start=None, end=0)
        # as they are written, which may be in small letters
        words = {key: word.upper() for key, word in spec.args.items() if isinstance(word, str)}
        kind: Any = words.get("kind")
        exclude = spec.args["exclude"].name.upper() if spec.args.get("exclude") else ""
        if kind not in ("ROWS", "RANGE", "GROUPS"):
            way_out = "write ROWS BETWEEN ... AND ..."
            raise self.statement.refused(f"a frame of {kind}", self.node, way_out)
        if exclude and self.statement.dialect == "spark":
            way_out = "FILTER (WHERE ...) leaves rows out"
            raise self.statement.refused("EXCLUDE, which Spark has not,", self.node, way_out)
        read = self._bound
        key = None
        ends = [words.get(key) or spec.args.get(key) or "CURRENT ROW" for key in ("start", "end")]
        if kind == "RANGE" and any(isinstance(end, exp.Expr) for end in ends):
            key, read = self._key()
        start = read(ends[0], words.get("start_side"), "PRECEDING")
        end = read(ends[1], words.get("end_side"), "FOLLOWING")
        return frames.Frame(kind, start, end, key, exclude.replace("NO OTHERS", ""))

    def _key(self) -> tuple[frames.Key, Callable[..., Any]]:
        """What RANGE measures by, and how its ends are read."""
        ordered = self.order[0] if len(self.order) == 1 else None
        key = None if ordered is None else self.formulas.operand(ordered.this)
        if ordered is None or key is None or not (key.type.is_numeric or key.type.is_time):
            message = "RANGE with an offset measures by one column"
            way_out = "write ORDER BY and one number, day or moment; or ROWS, or GROUPS"
            raise self.statement.wrong(message, self.node, way_out)
        sorts = way(key, ordered)
        turned = -1 if sorts.descending else 1

        def amount(bound: Any, side: str | None, outward: str) -> Any:
            if not isinstance(bound, exp.Expr):
                return self._bound(bound, side, outward)
            sign = turned * (-1 if side == "PRECEDING" else 1)
            return offset(self.statement, key.type, bound, sign)

        return frames.Key(*measure(key.type), sorts), amount

    def _bound(self, bound: exp.Expr | str | None, side: str | None, outward: str) -> int | None:
        """One end of a frame, in rows after this one; None for all that way."""
        if bound == "CURRENT ROW":
            return 0
        if bound == "UNBOUNDED":
            if side != outward:
                message = f"a frame that begins or ends UNBOUNDED {side}"
                raise self.statement.wrong(message, self.node, f"write UNBOUNDED {outward}")
            return None
        number = self._whole(bound if isinstance(bound, exp.Expr) else self.node, least=0)
        return -number if side == "PRECEDING" else number


def _written(frame: frames.Frame) -> str:
    return f"{frame.kind}_{frame.start}_{frame.end}_{frame.exclude}"
