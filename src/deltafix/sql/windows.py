"""Window functions: for each row of a SELECT a value that the rows of its partition decide.

The rows are a relation (`joins.kept`); each function folds it by partition, with a reducer whose
results are what tells a row apart and its value, and these join the rows again. So an edit computes
the partitions that it touches, and no other. Invariant: ROW_NUMBER and its like follow from the
data: rows that ORDER BY leaves equal are sorted by what tells them apart, for all alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from deltafix.rules.ast import Atom
from deltafix.rules.terms import Const
from deltafix.sql import frames
from deltafix.sql.aggregates import AGGREGATE, reducer_of, wanted, way
from deltafix.sql.builder import NIL, Operand
from deltafix.sql.formulas import Formulas
from deltafix.sql.ranking import several
from deltafix.sql.scalar import whole
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
_USAGE = (
    "window functions are ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE, LAG, LEAD, "
    "FIRST_VALUE, LAST_VALUE, NTH_VALUE and aggregates"
)

_Computed: TypeAlias = tuple[str, frames.Function, list[tuple[Operand, SqlType]], Column]
"""A name by what a function computes, its values, its arguments, and what the values are."""


def windows_of(select: exp.Expr, qualify: exp.Expr | None = None) -> list[exp.Window]:
    """The window functions that a SELECT itself computes; not those of subqueries."""
    others = (qualify, select.args.get("order"))
    return _windows_in(*select.expressions, *(one for one in others if one is not None))


def _windows_in(*nodes: exp.Expr) -> list[exp.Window]:
    found: list[exp.Window] = []
    for node in nodes:
        if isinstance(node, exp.Window):
            found.append(node)
        elif not isinstance(node, exp.Query | exp.Subquery):
            found += _windows_in(*node.iter_expressions())
    return found


def compute(
    formulas: Formulas, nodes: Sequence[exp.Window], definitions: Sequence[exp.Window]
) -> None:
    """Give the scope the values of window functions; `definitions` are those of WINDOW.

    The body of `formulas` is one atom, of a relation of all rows.
    """
    builder, scope = formulas.builder, formulas.scope
    named = {one.name: one for one in definitions}
    rows = list(formulas.body)
    told = [one for source in scope.sources for one in source.identity]
    if scope.known is not None:
        told = list(scope.known.values())
    identity = list(dict.fromkeys(told))
    for node in nodes:
        spelled = scope.qualified(node)
        if spelled in scope.windows:
            continue
        inner = Formulas(builder, scope, list(rows))
        window = _Window(inner, node, named)
        name, function, args, result = window.function()
        sorts = [(inner.operand(one.this), one) for one in window.order]
        partition = [inner.operand(one) for one in (*window.partition, *scope.outer_columns())]
        partition = list(dict.fromkeys(partition))
        ways = [way(key, one) for key, one in sorts]
        given = [(one, one.column(f"o{n}")) for n, (one, _) in enumerate(sorts)]
        given += [(one, Column(f"a{n}", kind, nullable=True)) for n, (one, kind) in enumerate(args)]
        given += [(one, one.column(f"i{n}")) for n, one in enumerate(identity)]
        written = "".join(map(str, ways))
        reducer = frames.Windowed(ways, [one.nullable for one in identity], len(args), function)
        columns = [one.column(f"i{n}") for n, one in enumerate(identity)]
        body, found = several(
            builder,
            inner.body,
            partition,
            given,
            [*columns, result],
            (f"window_{name}_{len(args)}_{written}", reducer),
        )
        values = builder.relation([*columns, result], (), range(len(columns)))
        builder.head(values, found, body)
        (value,) = builder.variables([result])
        formulas.body.append(Atom(values.name, (*(one.term for one in identity), value.term)))
        scope.windows[spelled] = value


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
            parts = {key: one for key, one in base.args.items() if key != "this" and one}
            if any(given.get(key) for key in parts):
                message = f"a window that says anew what {node.alias!r} says"
                raise self.statement.wrong(message, node, "write the whole window here")
            given |= parts
        self.partition: list[exp.Expr] = given.get("partition_by") or []
        order = given.get("order")
        self.order: list[exp.Ordered] = [] if order is None else order.expressions
        self.spec: exp.Expr | None = given.get("spec")

    def function(self) -> _Computed:
        """What it computes."""
        call = self.node.this
        kind = type(call)
        if kind in _RANKINGS:
            return self._ranking(call)
        if kind in (exp.Lag, exp.Lead):
            return self._shifted(call)
        if kind in (exp.FirstValue, exp.LastValue, exp.NthValue):
            return self._nth(call)
        if not isinstance(call, AGGREGATE) or isinstance(call, exp.WithinGroup):
            name = call.name if isinstance(call, exp.Anonymous) else call.key.upper()
            raise self.statement.refused(f"the window function {name}", self.node, _USAGE)
        return self._aggregated(call)

    def _ranking(self, call: exp.Expr) -> _Computed:
        name, kind = _RANKINGS[type(call)]
        result = Column("value", kind, nullable=False)
        buckets = self._whole(call.this, least=1) if isinstance(call, exp.Ntile) else 1
        return f"{name}_{buckets}", frames.ranking(name, buckets), [], result

    def _shifted(self, call: exp.Expr) -> _Computed:
        given = call.args.get("offset")
        by = 1 if given is None else self._whole(given)
        by = -by if isinstance(call, exp.Lag) else by
        value = self.formulas.operand(call.this)
        default = Operand(NIL, NULL, nullable=True)
        if call.args.get("default") is not None:
            default = self.formulas.operand(call.args["default"])
        kind = common_type(value.type, default.type)
        if kind is None:
            message = f"{call.key.upper()} of {value.type.name} or {default.type.name}"
            raise self.statement.wrong(message, self.node, "CAST(... AS ...) one of them")
        args = [(value, kind), (default, kind)]
        return f"shifted_{by}", frames.shifted(by), args, Column("value", kind, nullable=True)

    def _nth(self, call: exp.Expr) -> _Computed:
        number = -1 if isinstance(call, exp.LastValue) else 1
        if isinstance(call, exp.NthValue):
            number = self._whole(call.args["offset"], least=1)
        value = self.formulas.operand(call.this)
        frame = self._frame()
        result = Column("value", value.type, nullable=True)
        name = f"nth_{number}_{_written(frame)}"
        return name, frames.nth(frame, number), [(value, value.type)], result

    def _aggregated(self, call: exp.Expr) -> _Computed:
        asked = wanted(self.formulas, call, window=True)
        value = Operand(Const(1, "number"), BIGINT, nullable=False)
        if asked.argument is not None:
            value = self.formulas.operand(asked.argument)
        reducer, kind = reducer_of(self.formulas, asked, value.type)
        frame = self._frame()
        result = Column("value", kind, nullable=asked.op != "count")
        name = f"{asked.op}_{asked.setting}_{value.type.name}_{_written(frame)}"
        function = frames.aggregated(frame, reducer, asked.least)
        return name, function, [(value, value.type)], result

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
            return frames.Frame(peers=True, start=None, end=0)
        kind = str(spec.args.get("kind"))
        if kind not in ("ROWS", "RANGE") or spec.args.get("exclude"):
            raise self.statement.refused(f"a frame of {kind}", self.node, "write ROWS BETWEEN ...")
        start = self._bound(spec.args.get("start"), spec.args.get("start_side"), "PRECEDING")
        last = spec.args.get("end") or "CURRENT ROW"
        end = self._bound(last, spec.args.get("end_side"), "FOLLOWING")
        if kind == "RANGE" and (start or end):
            way_out = "write ROWS, or RANGE with UNBOUNDED and CURRENT ROW"
            raise self.statement.refused("RANGE with a number", self.node, way_out)
        return frames.Frame(kind == "RANGE", start, end)

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
    return f"{'peers' if frame.peers else 'rows'}_{frame.start}_{frame.end}"
