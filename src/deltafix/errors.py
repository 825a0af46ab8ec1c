"""Every error deltafix raises on purpose, as one small tree.

Invariant: an error carries a stable `code`, the offending values, and what would be valid;
a class also subclasses the built-in a caller would already catch. Wording may change, codes may
not.
This module does not print: `diagnostics` renders errors that have a place in a text.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "BudgetError",
    "CancelledError",
    "DeltafixError",
    "FactError",
    "InternalError",
    "LimitError",
    "MissingDependencyError",
    "MissingRowError",
    "ProgramError",
    "SourceError",
    "StateError",
    "StateInUseError",
    "TransactionError",
    "TypeMismatchError",
    "UnknownRelationError",
]


class DeltafixError(Exception):
    """Base of everything deltafix raises on purpose. `code` is stable across releases."""

    code: ClassVar[str] = "DF000"

    def __init__(self, message: str = "", **values: object) -> None:
        super().__init__(message)
        self.values = values
        """The offending values by name (relation, row, column, line, …), for callers and tests."""


class ProgramError(DeltafixError, ValueError):
    """A program cannot be accepted. Carries every diagnostic found, not only the first."""

    code = "DF100"


class FactError(DeltafixError, ValueError):
    """A row does not fit its relation: wrong width, unreadable value, wrong place in a file."""

    code = "DF200"


class UnknownRelationError(FactError, KeyError):
    """A relation name that the program does not declare."""

    code = "DF201"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class TypeMismatchError(FactError, TypeError):
    """A value whose Python type does not fit the column's declared type."""

    code = "DF202"


class MissingRowError(FactError, LookupError):
    """Deleting a row that is not there; `missing="ignore"` makes it a no-op."""

    code = "DF203"


class SourceError(DeltafixError, OSError):
    """An input file or folder cannot be read or is not what it should be."""

    code = "DF300"


class TransactionError(DeltafixError, RuntimeError):
    """A transaction is used out of turn: nested, finished, or in a closed database."""

    code = "DF400"


class BudgetError(DeltafixError, RuntimeError):
    """A run went over `max_rows`, `max_rounds` or `timeout`; the transaction was rolled back."""

    code = "DF410"


class CancelledError(DeltafixError, RuntimeError):
    """The run was cancelled (Ctrl-C or `db.cancel()`); the transaction was rolled back."""

    code = "DF411"


class LimitError(DeltafixError, OverflowError):
    """A documented limit of the implementation was reached; see docs/limits.md."""

    code = "DF420"


class StateError(DeltafixError, OSError):
    """A state folder cannot be used: damaged, of another program, of another version."""

    code = "DF500"


class StateInUseError(StateError):
    """Another process holds the state; the message names it."""

    code = "DF501"


class MissingDependencyError(DeltafixError, ImportError):
    """An optional package is not installed; the message says which extra brings it."""

    code = "DF600"


class InternalError(DeltafixError, AssertionError):
    """An invariant of deltafix itself is broken: a bug. Names the stage."""

    code = "DF900"
