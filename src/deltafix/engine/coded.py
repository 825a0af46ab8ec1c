"""Rows that were checked and turned into codes once, for several calls of a transaction.

Invariant: the codes are of one database's tables and of one relation; calls for another refuse
them. Made by `Transaction.coded`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deltafix.errors import FactError
from deltafix.facts.schema import Schema
from deltafix.kernel.arena import Words

if TYPE_CHECKING:
    from deltafix.engine.codes import Codes


@dataclass(frozen=True, slots=True)
class CodedRows:
    """Rows of one relation as codes (n, arity); `tables` are those the codes belong to."""

    schema: Schema
    codes: Words
    tables: Codes

    def __len__(self) -> int:
        return len(self.codes)

    def where(self, mask: np.ndarray[Any, np.dtype[np.bool_]]) -> CodedRows:
        """The rows under a mask of n bools, in their order."""
        return CodedRows(self.schema, self.codes[mask], self.tables)

    def flat(self, schema: Schema, tables: Codes) -> Words:
        """The codes row after row. Raises FactError for another relation or database."""
        if tables is not self.tables or schema.relation != self.schema.relation:
            message = (
                f"{schema.relation}: the rows were coded for {self.schema.relation}"
                + ("" if tables is self.tables else " of another database")
                + "; code them with this transaction's coded(relation, rows)"
            )
            raise FactError(message, relation=schema.relation, value=self.schema.relation)
        return np.ascontiguousarray(self.codes).reshape(-1)
