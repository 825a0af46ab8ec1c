"""Which arguments of sqlglot's nodes are read: a statement in which another one is set is refused.

sqlglot keeps all that a text says as arguments of nodes. Whoever compiles a node asks for those
that he knows, so one that nobody asks for would leave an answer that is not what the SQL says.
Invariant: an argument of a class that stands here is read where such a node is compiled, or changes
nothing (the tests say which), or the statement is refused. Classes whose arguments are all required
say nothing that could be passed over; functions of `sql.functions` and `sql.regexes` have their own
lists, by dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, NamedTuple

from sqlglot import exp
from sqlglot.errors import ParseError

__all__ = ["READ", "Unread", "Whole", "other_than", "unread", "within"]


class Unread(NamedTuple):
    """An argument that is set and that nobody reads: its node and name, and where errors point."""

    node: exp.Expr
    key: str
    anchor: exp.Expr

    @property
    def word(self) -> str:
        """What errors call it."""
        value = self.node.args[self.key]
        if isinstance(value, list) and isinstance(value[0], str):  # options, as they are written
            return " ".join(value).upper()
        return _WORDS.get(self.key) or self.key.strip("_").replace("_", " ").upper()

    @property
    def way_out(self) -> str:
        """What to do instead."""
        return _WAYS_OUT.get(self.key, "leave it out, or compute it before the rows come in")


_ORDER: Final = "order limit offset"
_SET: Final = f"with_ this expression distinct {_ORDER}"

READ: Final[dict[type[exp.Expr], frozenset[str]]] = {
    kind: frozenset(read.split())
    for kinds, read in (
        # statements
        ((exp.Alter,), "this kind actions exists only"),
        ((exp.AlterColumn,), "this dtype using default drop allow_null"),
        ((exp.Create,), "this kind expression exists properties replace"),
        ((exp.Delete,), "this using where returning"),
        ((exp.Drop,), "tables kind exists materialized cascade restrict"),
        ((exp.Insert,), "this expression conflict returning by_name alternative default"),
        ((exp.Merge,), "this using on using_cond whens"),
        ((exp.OnConflict,), "action conflict_keys expressions where"),
        ((exp.RenameColumn,), "this to"),
        ((exp.Returning,), "expressions"),
        ((exp.Transaction, exp.Commit, exp.Rollback), ""),
        ((exp.Set,), "expressions"),
        ((exp.TruncateTable,), "expressions option"),
        ((exp.Update,), "this expressions from_ where returning"),
        ((exp.When,), "matched source condition then"),
        # columns and constraints of tables
        ((exp.CheckColumnConstraint,), "this"),
        ((exp.ColumnConstraint,), "this kind"),
        ((exp.ColumnDef,), "this kind constraints exists"),
        ((exp.DataType,), "this expressions nested values kind"),
        ((exp.DataTypeParam,), "this"),
        ((exp.ForeignKey,), "expressions reference"),
        ((exp.IndexParameters,), ""),
        ((exp.NotNullColumnConstraint,), "allow_null"),
        ((exp.PrimaryKey,), "expressions include"),
        ((exp.PrimaryKeyColumnConstraint,), "desc include"),
        ((exp.MaterializedProperty,), ""),
        ((exp.Reference,), "this options"),
        ((exp.Schema,), "this expressions"),
        ((exp.UniqueColumnConstraint,), "this include"),
        # queries
        ((exp.Alias, exp.PivotAlias), "this alias"),
        ((exp.CTE,), "this alias materialized key_expressions"),
        ((exp.Cube, exp.Rollup, exp.Tuple), "expressions"),
        ((exp.Distinct,), "expressions on"),
        ((exp.Except, exp.Intersect), _SET),
        ((exp.Fetch,), "direction count limit_options"),
        ((exp.Group,), "expressions cube rollup all"),
        ((exp.Join,), "this on side using kind method pivots"),
        ((exp.Lateral,), "this alias"),
        ((exp.Limit,), "expression limit_options"),
        ((exp.LimitOptions,), "rows"),
        ((exp.Offset,), "expression"),
        ((exp.Order,), "this expressions"),
        ((exp.Ordered,), "this desc nulls_first"),
        (
            (exp.Pivot,),
            "this alias expressions fields unpivot using group columns include_nulls into"
            " identify_pivot_strings prefixed_pivot_columns pivot_column_naming"
            " value_columns_first",
        ),
        (
            (exp.Select,),
            "with_ hint expressions distinct from_ joins where group having qualify windows "
            + _ORDER,
        ),
        ((exp.Star,), "except_ replace rename"),
        ((exp.Subquery,), "this alias joins pivots"),
        ((exp.Table,), "this alias joins pivots"),
        ((exp.TableAlias,), "this columns"),
        ((exp.Union,), f"{_SET} by_name"),
        ((exp.Unnest,), "expressions alias offset"),
        ((exp.Values,), "expressions alias"),
        ((exp.With,), "expressions recursive"),
        # aggregates and window functions
        ((exp.ApproxDistinct,), "this accuracy"),
        ((exp.ArgMax, exp.ArgMin), "this expression"),
        ((exp.ArrayAgg,), "this nulls_excluded"),
        ((exp.Corr,), "this expression"),
        ((exp.Count,), "this big_int"),
        ((exp.CountIf,), "this"),
        ((exp.First, exp.Last), "this"),
        ((exp.GroupConcat,), "this separator"),
        ((exp.GroupingId,), "expressions"),
        ((exp.Lag, exp.Lead), "this offset default"),
        ((exp.Max, exp.Min), "this"),
        ((exp.Mode,), "this"),
        ((exp.NthValue,), "this offset"),
        ((exp.Ntile,), "this"),
        ((exp.ApproxQuantile,), "this quantile accuracy"),
        ((exp.PercentileCont, exp.PercentileDisc), "this expression"),
        ((exp.RegrCount, exp.RegrIntercept, exp.RegrR2, exp.RegrSlope), "this expression"),
        ((exp.CumeDist, exp.DenseRank, exp.PercentRank, exp.Rank, exp.RowNumber), ""),
        ((exp.Window,), "this partition_by order spec alias over"),
        ((exp.WindowSpec,), "kind start start_side end end_side exclude"),
        ((exp.WithinGroup,), "this expression"),
        # expressions
        ((exp.AddMonths,), "this expression"),
        ((exp.Anonymous,), "this expressions"),
        ((exp.Array,), "expressions bracket_notation"),
        ((exp.ArrayAppend, exp.ArrayPrepend, exp.ArrayRemove), "this expression null_propagation"),
        ((exp.ArrayConcat,), "this expressions null_propagation"),
        ((exp.ArrayContains, exp.ArrayExcept, exp.ArrayOverlaps), "this expression"),
        ((exp.ArrayDistinct,), "this"),
        ((exp.ArrayIntersect,), "expressions"),
        ((exp.ArrayPosition,), "this expression"),
        ((exp.ArraySlice,), "this start end is_length"),
        ((exp.ArraySort,), "this expression asc nulls_first"),
        ((exp.ArrayToString,), "this expression"),
        ((exp.Between,), "this low high"),
        ((exp.Bracket,), "this expressions offset safe"),
        ((exp.ByteString,), "this is_bytes"),
        ((exp.Case,), "this ifs default"),
        ((exp.Cast,), "this to"),
        ((exp.TryCast,), "this to safe"),
        ((exp.Column,), "this table"),
        ((exp.Columns,), "this"),
        ((exp.Comprehension,), "this expression position iterator condition"),
        ((exp.Date,), "this"),
        ((exp.DateAdd, exp.DateBin), "this expression"),
        ((exp.DateDiff,), "this expression unit date_part_boundary"),
        ((exp.DateFromParts,), "year month day"),
        ((exp.DateTrunc, exp.TimestampTrunc), "this unit"),
        ((exp.Dayname, exp.Monthname), "this"),
        ((exp.Div,), "this expression typed safe"),
        ((exp.Exists,), "this"),
        ((exp.Format,), "this expressions"),
        ((exp.Explode,), "this"),
        ((exp.GenerateSeries,), "start end step is_end_exclusive"),
        ((exp.HexString,), "this"),
        ((exp.Identifier,), "this quoted"),
        ((exp.If,), "this true false"),
        ((exp.In,), "this expressions query"),
        ((exp.Interval,), "this unit fraction_in_string"),
        ((exp.JSONBExtractScalar,), "this expression"),
        ((exp.JSONExtract, exp.JSONExtractScalar), "this expression expressions only_json_types"),
        ((exp.JSONPathKey,), "this"),
        ((exp.LastDay,), "this"),
        ((exp.Is, exp.Like, exp.ILike), "this expression"),
        ((exp.Nvl2,), "this true false"),
        ((exp.Placeholder,), "this jdbc"),
        ((exp.Reduce,), "this initial merge finish"),
        ((exp.Slice,), "this expression"),
        ((exp.StrToDate, exp.StrToTime, exp.StrToUnix, exp.TimeToStr), "this format"),
        ((exp.TimeStrToTime, exp.TsOrDsToTimestamp), "this"),
        ((exp.Struct,), "expressions"),
        ((exp.TsOrDsAdd,), "this expression unit"),
        ((exp.TsOrDsToDate,), "this format safe"),
        ((exp.UnixToTime,), "this scale"),
        ((exp.Week,), "this"),
    )
    for kind in kinds
}
"""The arguments of each class that are read, and those that say nothing of what is computed:
`desc` of a key, `date_part_boundary` and others that sqlglot notes for other dialects."""

_WORDS: Final = {
    "count": "a number of rows",
    "db": "a schema's name",
    "expressions": "more arguments",
    "from_first": "FROM LAST",
    "laterals": "LATERAL VIEW",
    "locks": "FOR UPDATE",
    "sample": "TABLESAMPLE",
    "search": "SEARCH or CYCLE",
    "tables": "DELETE without FROM",
    "this": "an argument",
    "zone": "a zone",
}
"""What errors call an argument that has another name in SQL."""

_WAYS_OUT: Final = {
    "by_name": "select the columns in one order on both sides",
    "count": "write ORDER BY x DESC LIMIT n, or a ROW_NUMBER() OVER (...) of each group",
    "db": "write the name of the table alone; the prompt's `.tables` lists tables and views",
    "grouping_sets": "write GROUP BY GROUPING SETS (...)",
    "format": "dates are written 2026-01-31",
    "laterals": "join with a subquery",
    "search": "leave it out: UNION ends where rows repeat",
    "percent": "write LIMIT and a number",
    "step": "UNNEST WITH ORDINALITY, and take the places by their numbers",
    "symmetric": "write two comparisons",
    "tables": "write DELETE FROM",
    "unnest": "write IN (a, b) or IN (SELECT ...)",
    "with_ties": "write LIMIT and a number",
    "zone": "leave the zone out: days and hours are those of UTC",
}

_FALSE_SAYS: Final = frozenset(("from_first",))
"""What FALSE is set for: elsewhere it is what is not said."""


def unread(tree: exp.Expr, beside: Collection[str] = ()) -> Unread | None:
    """An argument of a statement's nodes that is set and that nobody reads.

    None is one of those `beside`, which the caller reads. O(nodes).
    """
    for node in tree.walk():
        kind: Any = type(node)
        read = READ.get(kind)
        if read is not None and _is_recurring(node):
            read |= {"db"}
        argument = None if read is None else other_than(node, read, beside)
        if argument is not None:
            return argument
    return None


def _is_recurring(node: exp.Expr) -> bool:
    """Whether it is `recurring.p`, in an expression p with USING KEY (`sql.keyed`)."""
    if not isinstance(node, exp.Table) or node.db.lower() != "recurring":
        return False
    cte = node.find_ancestor(exp.CTE)
    return cte is not None and bool(cte.args.get("key_expressions"))


def other_than(
    node: exp.Expr, read: Collection[str], beside: Collection[str] = ()
) -> Unread | None:
    """An argument of a node that is set and is none of those that are read."""
    for key, value in node.args.items():
        is_said = bool(value) or (value is False and key in _FALSE_SAYS)
        if is_said and key not in read and key not in beside:
            anchor = value[0] if isinstance(value, list) else value
            return Unread(node, key, anchor if isinstance(anchor, exp.Expr) else node)
    return None


# --- what is lost while a text is read -----------------------------------------------------------


def _too_many(argument: exp.Expr) -> ParseError:
    """The error for an argument that is in no node."""
    at = next((part.meta for part in argument.walk() if "line" in part.meta), {})
    message = f"{argument.sql()} is one argument too many"
    return ParseError.new(message, description=message, line=at.get("line"), col=at.get("col"))


def within(node: exp.Expr, arguments: Iterable[exp.Expr | None]) -> None:
    """Raise ParseError if what was read as a list is not all in the node of it."""
    for argument in arguments:
        if argument is not None and not _is_part(argument, node):
            raise _too_many(argument)


def _is_part(node: exp.Expr, root: exp.Expr) -> bool:
    """Whether a node is another one, or inside of it."""
    part: exp.Expr | None = node
    while part is not None and part is not root:
        part = part.parent
    return part is root


class Whole:
    """What makes the node of a function of its arguments; one that it passes over is an error.

    sqlglot takes what it knows, and forgets what stands behind it: `DATE_TRUNC('day', x, zone)`
    would be `DATE_TRUNC('day', x)`. Raises ParseError.
    """

    def __init__(self, make: Callable[..., exp.Expr]) -> None:
        self._make = make

    def __call__(self, args: list[exp.Expr], **more: Any) -> exp.Expr:
        """The node. Raises ParseError, and TypeError as what makes it does."""
        arguments = [*args]
        node = self._make(args, **more)
        for index, argument in enumerate(arguments):
            if not _is_part(argument, node) and self._loses(node, arguments, index, more):
                raise _too_many(argument)
        return node

    def _loses(
        self, node: exp.Expr, arguments: list[exp.Expr], index: int, more: dict[str, Any]
    ) -> bool:
        """Whether the node is the same without an argument, or with any other in its place.

        It is not where the argument has become something else: a unit, a path, a direction.
        """
        names = {column.name.lower() for column in arguments[index].find_all(exp.Column)}
        if not names <= {part.name.lower() for part in node.walk()}:
            return True
        for other in _OTHERS:
            rest = [argument.copy() for argument in arguments]
            rest[index : index + 1] = other
            try:
                if self._make(rest, **more) != node:
                    return False
            except Exception:
                return False
        return True


_OTHERS: Final[tuple[tuple[exp.Expr, ...], ...]] = (
    (),
    (exp.true(),),
    (exp.false(),),
    (exp.Literal.string("DESC"),),
)
"""What is tried in the place of an argument that is not in the node of its function."""
