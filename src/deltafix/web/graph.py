"""A relation of two columns as a graph: what lies around nodes, or its first edges.

Invariant: at most `NODES` nodes and `EDGES` edges are told, and `is_whole` says whether these are
all that was asked for. Neighbours are found on codes, a level at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from deltafix.errors import FactError
from deltafix.facts.schema import Schema, show_row
from deltafix.web.table import labels

if TYPE_CHECKING:
    from deltafix.engine.codes import Codes
    from deltafix.engine.database import Database

NODES: Final = 2000
EDGES: Final = 6000

Ids = np.ndarray[Any, np.dtype[np.int64]]


def graph(db: Database, relation: str, focus: str = "", depth: int = 1) -> dict[str, Any]:
    """Nodes and edges for JSON; `focus` is a node, or else what nodes' labels contain.

    O(depth * rows of the relation).

    Raises:
        UnknownRelationError: no such relation.
        FactError: it has not two columns, or no node fits `focus`.
    """
    schema = db.relation(relation).schema
    if schema.arity != 2:
        message = f"{schema.show()} is no graph: only a relation of two columns is one"
        raise FactError(message, relation=relation)
    values, codes = db.committed(relation)
    ends: Ids = codes.astype(np.int64)
    ends[:, 1] += _shift(schema)
    focused = _named(db, values, schema, ends, focus) if focus else ends[:0, 0]
    inside, is_whole = _around(ends, focused, depth) if focus else _first(ends)
    within = np.flatnonzero(np.isin(ends, inside).all(axis=1))
    is_whole = is_whole and len(within) <= EDGES
    within = within[:EDGES]
    rows = values.rows(schema, codes[within])
    texts = _labels(values, schema, inside)
    numbers = {node: number for number, node in enumerate(inside.tolist())}
    return {
        "nodes": [{"key": key, "label": text} for key, text in zip(numbers, texts, strict=True)],
        "focus": [numbers[node] for node in focused.tolist() if node in numbers],
        "edges": [
            {"from": numbers[a], "to": numbers[b], "fact": show_row(relation, row)}
            for (a, b), row in zip(ends[within].tolist(), rows, strict=True)
        ],
        "is_whole": is_whole,
        "size": len(codes),
    }


def _shift(schema: Schema) -> int:
    """What is added to codes of the second column, so that values of two types are two nodes.

    Codes are 32 bits with a sign: half of it divides those of the two columns.
    """
    return 0 if schema.columns[0].type == schema.columns[1].type else 1 << 33


def _first(ends: Ids) -> tuple[Ids, bool]:
    """The nodes of the first rows, and whether these are all rows."""
    flat = ends[:EDGES].reshape(-1)
    distinct, first = np.unique(flat, return_index=True)
    inside = distinct[np.argsort(first)]
    return inside[:NODES], len(ends) <= EDGES and len(inside) <= NODES


def _around(ends: Ids, start: Ids, depth: int) -> tuple[Ids, bool]:
    """Nodes at most `depth` edges away, in either direction, nearest first; whether it is all."""
    inside = start
    for _ in range(depth):
        if len(inside) > NODES:
            break
        near = ends[np.isin(ends, inside).any(axis=1)]
        new = np.setdiff1d(near, inside)
        if not len(new):
            break
        inside = np.concatenate((inside, new))
    return inside[:NODES], len(inside) <= NODES


def _named(db: Database, values: Codes, schema: Schema, ends: Ids, focus: str) -> Ids:
    """The nodes with this label, or if there is none those whose label contains it."""
    with db.instance.gate:  # a commit may enter symbols meanwhile
        code = values.known("symbol", focus)
    if code is not None:  # the labels of all nodes need not be read
        shifts = [0, _shift(schema)]
        columns = enumerate(schema.columns)
        symbols = [n for n, column in columns if column.type == "symbol" and column.of is None]
        exact = np.unique(np.array([code + shifts[column] for column in symbols], dtype=np.int64))
        exact = exact[np.isin(exact, ends)]
        if len(exact):
            return exact
    nodes = np.unique(ends)
    texts = _labels(values, schema, nodes)
    matches = [index for index, text in enumerate(texts) if text == focus]
    if not matches:
        wanted = focus.casefold()
        matches = [index for index, text in enumerate(texts) if wanted in text.casefold()]
    if not matches:
        message = f"no node of {schema.relation} contains {focus!r}"
        raise FactError(message, relation=schema.relation, value=focus)
    return nodes[np.array(matches, dtype=np.int64)]


def _labels(values: Codes, schema: Schema, nodes: Ids) -> list[str]:
    shift = _shift(schema)
    if not shift:
        column = schema.columns[0]
        return labels(column, values.column(column, nodes.astype(np.int32)))
    of_second = nodes >= shift // 2
    texts = np.empty(len(nodes), dtype=object)
    for column, mask, less in zip(schema.columns, (~of_second, of_second), (0, shift), strict=True):
        codes = (nodes[mask] - less).astype(np.int32)
        texts[mask] = labels(column, values.column(column, codes))
    return texts.tolist()
