"""Tables of tuples to rows of input relations, by columns: for loads of millions.

Tuples with conditions are read one by one: their contexts are.

Invariant: what a table gives is what its tuples would give one by one, errors too: groups of equal
type, relation and kind of user are judged by one tuple each, and ids by the whole column.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltafix.errors import RightsTupleError
from deltafix.rights.graph import Graph
from deltafix.rights.tuples import Tuple, placed, tuple_of

_PATTERN: Final = r"^(?P<type>[^:]*):(?P<id>[^#]*)(?P<mark>#?)(?P<relation>.*)$"
_BAD_ID: Final = r"^$|\s"


def rows_of_table(graph: Graph, given: Any) -> list[tuple[str, Any]]:
    """The rows of a table with the columns user, relation and object, by input relation. O(rows).

    Where there is a column `condition` that is not null or empty, `context` may have JSON text.

    Raises RightsTupleError as `placed` does, with the first tuple of a kind that is not allowed.
    """
    table = pa.table(given).unify_dictionaries() if not isinstance(given, pa.Table) else given
    missing = [name for name in Tuple._fields if name not in table.column_names]
    if missing:
        message = f"the table has no column {missing[0]!r}; it has {', '.join(table.column_names)}"
        raise RightsTupleError(message, value=table.column_names)
    named_tables: list[tuple[str, Any]] = []
    if "condition" in table.column_names:
        plain = pc.equal(pc.fill_null(table["condition"].cast(pa.string()), ""), "")
        named_tables += _conditional(graph, table.filter(pc.invert(plain)))
        table = table.filter(plain)
    for batch in table.select(list(Tuple._fields)).to_batches(max_chunksize=1 << 20):
        named_tables += _rows(graph, pa.Table.from_batches([batch]))
    joined: dict[str, list[Any]] = {}
    for name, rows in named_tables:
        joined.setdefault(name, []).append(rows)
    return [(name, pa.concat_tables(tables)) for name, tables in joined.items()]


def _conditional(graph: Graph, table: Any) -> list[tuple[str, Any]]:
    rows: dict[str, list[tuple[str, ...]]] = {}
    for fields in table.to_pylist():
        source, row = placed(graph, tuple_of(fields))
        rows.setdefault(source, []).append(row)
    sources = graph.sources()
    return [
        (name, pa.table(dict(zip(sources[name].columns, zip(*columns, strict=True), strict=True))))
        for name, columns in rows.items()
    ]


def _rows(graph: Graph, table: Any) -> list[tuple[str, Any]]:
    texts = {}
    for name in Tuple._fields:
        column = table[name].combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        kind = column.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)) or column.null_count:
            message = f"column {name!r} of the tuples is {kind}, or has nulls; it takes texts"
            raise RightsTupleError(message, value=name)
        texts[name] = column.cast(pa.string())
    user = pc.extract_regex(texts["user"], _PATTERN)
    object_ = pc.extract_regex(texts["object"], _PATTERN)
    parts = {
        "type": pc.struct_field(object_, "type"),
        "relation": texts["relation"],
        "users": pc.struct_field(user, "type"),
        "everyone": pc.equal(pc.struct_field(user, "id"), "*"),
        "within": pc.struct_field(user, "relation"),
    }
    ids = {"user": pc.struct_field(user, "id"), "object": pc.struct_field(object_, "id")}
    _judge(graph, table, user, object_, ids)
    keys = pa.table(parts).append_column("place", pa.array(range(table.num_rows), pa.int32()))
    groups = keys.group_by(list(parts)).aggregate([("place", "list")])
    tables = []
    for groups_rows in groups["place_list"]:
        rows = groups_rows.values
        source, _ = placed(graph, _tuple(table, rows[0].as_py()))
        columns = ("object",) if source.endswith(":*") else ("user", "object")
        tables.append((source, pa.table({name: ids[name].take(rows) for name in columns})))
    return tables


def _judge(graph: Graph, table: Any, user: Any, object_: Any, ids: dict[str, Any]) -> None:
    """Refuse texts that name nothing: `placed` says what is wrong with the first one."""
    bad = pc.or_(pc.is_null(user), pc.is_null(object_))
    for texts in ids.values():
        bad = pc.or_(bad, pc.fill_null(pc.match_substring_regex(texts, _BAD_ID), True))
    bad = pc.or_(bad, pc.fill_null(pc.not_equal(pc.struct_field(object_, "mark"), ""), True))
    bad = pc.or_(bad, pc.fill_null(pc.equal(ids["object"], "*"), True))
    marked = pc.and_(
        pc.not_equal(pc.struct_field(user, "mark"), ""),
        pc.or_(
            pc.equal(pc.struct_field(user, "relation"), ""),
            pc.equal(ids["user"], "*"),
        ),
    )
    bad = pc.or_(bad, pc.fill_null(marked, True))
    first = pc.index(bad, True).as_py()
    if first >= 0:
        placed(graph, _tuple(table, first))


def _tuple(table: Any, row: int) -> Tuple:
    return Tuple(*(table[name][row].as_py() for name in Tuple._fields))
