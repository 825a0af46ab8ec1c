"""How far a query counts: `ROW_NUMBER() ... = 1` needs no number of any other row.

Tables are rid of duplicates so, in QUALIFY or around a subquery that numbers its rows. Invariant: a
row without a number is one that the query leaves out by a condition that it says; where it is not
certain which numbers are meant (a name of two tables, a query read twice) all are computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from deltafix.sql.connectives import conditions
from deltafix.sql.literals import whole
from deltafix.sql.text import exp

__all__ = ["most_of", "numbered"]

_LESS: Final[Mapping[Any, int]] = {exp.LT: -1, exp.LTE: 0, exp.EQ: 0}
_TURNED: Final[Mapping[Any, type[exp.Expr]]] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ}
_COUNTED = (exp.RowNumber, exp.Rank, exp.DenseRank)
_CUTS = ("limit", "offset")


def most_of(node: exp.Expr | None) -> Iterable[tuple[exp.Expr, int]]:
    """What a condition says to be at most a number, and the number; both as they are written."""
    for condition in conditions(node):
        kind: type[exp.Expr] | None = type(condition)
        part, limit = condition.this, condition.args.get("expression")
        if isinstance(condition, exp.Between):
            kind, limit = exp.LTE, condition.args["high"]
        elif kind in _TURNED and whole(part) is not None:
            kind, part, limit = _TURNED[kind], limit, part
        number = None if limit is None or kind not in _LESS else whole(limit)
        if number is not None:
            yield part.unnest(), max(number + _LESS[kind], 1)


def numbered(root: exp.Expr) -> Mapping[int, Mapping[str, int]]:
    """The SELECTs, by `id`, of which numbers are asked for up to some, and which columns they are.

    O(nodes).
    """
    if root.find(*_COUNTED) is None:
        return {}
    named = {cte.alias: cte.this for cte in root.find_all(exp.CTE) if not _renames(cte)}
    read = Counter(table.name for table in root.find_all(exp.Table) if not table.db)
    twice = Counter(cte.alias for cte in root.find_all(exp.CTE))
    bounds: dict[int, dict[str, int]] = {}
    for select in root.find_all(exp.Select):
        clause = select.args.get("from_")
        if clause is None:
            continue
        sources: dict[str, exp.Select] = {}
        joins = select.args.get("joins") or ()
        items = [clause.this, *(join.this for join in joins)]
        nearest = [join.this for join in joins if join.args.get("method")]
        for item in items:
            inner = item.this if isinstance(item, exp.Subquery) else None
            if isinstance(item, exp.Table) and not item.db:
                once = read[item.name] == 1 == twice[item.name]
                inner = named.get(item.name) if once else None
            if _renames(item) or any(item is joined for joined in nearest):
                inner = None
            while isinstance(inner, exp.Subquery | exp.Paren) and not _renames(inner):
                inner = inner.this
            if isinstance(inner, exp.Select) and _is_whole(inner):
                sources[item.alias_or_name] = inner
        where = select.args.get("where")
        for part, most in most_of(where and where.this):
            if isinstance(part, exp.Column) and (part.table or len(items) == 1):
                inner = sources.get(part.table or items[0].alias_or_name)
                if inner is not None:
                    bounds.setdefault(id(inner), {})[part.name] = most
    return bounds


def _renames(node: exp.Expr) -> bool:
    """Whether columns have other names behind it: `AS q (a, b)`, PIVOT."""
    alias = node.args.get("alias")
    return bool(node.args.get("pivots")) or (alias is not None and bool(alias.columns))


def _is_whole(select: exp.Select) -> bool:
    """Whether a row that is left out changes nothing of the others."""
    distinct = select.args.get("distinct")
    is_first = distinct is not None and distinct.args.get("on") is not None
    return not is_first and not any(select.args.get(key) for key in _CUTS)
