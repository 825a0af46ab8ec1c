"""Functions of Python that SQL may call: `deltafix.sql.create_function`.

They are the process's: a view that calls one is made again by its text, when a state folder is
opened, so the function has to be there before. Invariant: a name is one function for as long as the
process lives, since views and remembered queries hold it; what a function gives is a value of the
type that was said, or an error with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlglot.errors import SqlglotError

from deltafix.errors import SqlError, SqlRefusedError
from deltafix.sql.signatures import Function
from deltafix.sql.text import DIALECTS, Statement, exp
from deltafix.sql.types import NULL, SqlType, as_sql, common_type, encode, shown, written_type

__all__ = ["USER", "create_function"]

USER: Final[dict[str, Function]] = {}
"""By names in capitals."""


def create_function(
    name: str,
    function: Callable[..., Any],
    parameters: Sequence[str],
    return_type: str,
    *,
    takes_null: bool = False,
) -> None:
    """Have SQL call a function of Python, from now on, in every connection of this process.

    It is called once for each combination of arguments, and its value is remembered: for the same
    ones it must give the same value, whenever it is asked.

    Args:
        name: what SQL calls it, in any case of letters.
        function: takes an argument for each of `parameters`, as Python's values, lists and dicts;
            what it gives is a value of `return_type`, or None for NULL.
        parameters: the types of its arguments, in DuckDB's spelling: `["TEXT", "DECIMAL(9, 2)"]`.
        return_type: the type of its value.
        takes_null: whether it is called for NULLs, which are None; otherwise it is NULL for them.

    Raises:
        ValueError: SQL or this process has another function of that name, or it is no name.
        SqlRefusedError: a type that no column has.
    """
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no name of a function: letters, digits and _")
    if _is_taken(name):
        raise ValueError(f"SQL has a function {name.upper()} of its own; choose another name")
    kinds, returned = [_type(parameter) for parameter in parameters], _type(return_type)

    def compute(*values: Any) -> Any:
        if not takes_null and any(value is None for value in values):
            return None
        given = [shown(value) for value in values]
        try:
            value = function(*given)
            if value is None:
                return None
            code = encode(value, returned, nullable=False)
        except RecursionError:
            raise
        except Exception as error:
            reason = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            call = f"{name.upper()}({', '.join(map(as_sql, given))})"
            raise ValueError(f"{call}: {reason}") from error
        return code if returned.read is None else returned.read(code)

    def result(types: Sequence[SqlType]) -> SqlType | None:
        fit = len(types) == len(kinds) and all(
            kind is NULL or common_type(kind, parameter) is parameter
            for kind, parameter in zip(types, kinds, strict=True)
        )
        return returned if fit else None

    definition = Function(
        f"{name.upper()}({', '.join(kind.name for kind in kinds)})",
        ("expressions",),
        result,
        compute,
        strict=False,
        nullable=lambda _: True,
        least=len(kinds),
        takes=tuple(kinds),
        flags=("this",),
    )
    before = USER.setdefault(name.upper(), definition)
    if before is not definition:
        raise ValueError(f"there is a function {name.upper()} already, which views may call")


def _is_taken(name: str) -> bool:
    """Whether SQL means something by a name in any dialect: it is no function that is not known."""
    from deltafix.sql.scalar import Scalars  # noqa: PLC0415  which looks in `USER`

    for dialect in DIALECTS:
        call = f"{name}(NULL)"
        statement = Statement(call, 0, len(call), exp.Null(), explain="", dialect=dialect)
        try:
            node: exp.Expr = exp.maybe_parse(call, dialect=dialect)
        except SqlglotError:
            return True
        if not isinstance(node, exp.Anonymous):
            return True
        if name.upper() in USER:
            continue
        try:
            Scalars(statement, lambda _: None).compile(node)
        except SqlRefusedError as error:
            if f"{name}(...)" in str(error):
                continue
        except SqlError:
            pass
        return True
    return False


def _type(name: str) -> SqlType:
    """A type by its name. Raises SqlRefusedError."""
    statement = Statement(name, 0, len(name), exp.Null(), explain="")
    try:
        written = exp.DataType.build(name, dialect="duckdb")
    except SqlglotError:
        written = None
    return written_type(statement, written, statement.node)
