"""SQL in: tables, views that are kept up to date, and exactly what changed in each.

    db = deltafix.sql.connect()
    db.execute("CREATE TABLE edge (a INTEGER, b INTEGER)")
    db.execute("CREATE MATERIALIZED VIEW reach AS WITH RECURSIVE ...")
    db.execute("INSERT INTO edge VALUES (1, 2)")
    db.delta("reach").added

The map: `text` reads statements (sqlglot parses); `types`, `casts`, `functions` (with
`text_functions`, `number_functions`), `regexes` of `patterns`, `literals`, `nested`, `lambdas`,
`moments`, `tuples`, `connectives`, `scalar` are values and expressions; `builder`, `scope`,
`formulas`, `stars`, `joins`, `pivots`, `aggregates`, `subqueries`, `recursion`, `query` make rules
of a query; `user_functions` are those of Python; `tables` are tables, `catalog` knows them and the
views; `reading` and `edits` are SELECT, and INSERT and its like, `rows` is what is inserted without
a statement; `durable` is what a state folder notes of all that; `maintained`, `transactions` (of
`steps`), `editing`, `definitions` are what a `connection` is made of, which with `changes` and
`cursor` is what a caller holds.
Invariant: a view holds what its query gives in SQL, duplicates and NULLs included, after every
transaction; what cannot be kept so is refused when the view is made. docs/reference/sql.md goes
through SQL construct by construct.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from deltafix.errors import DeltafixError as Error
from deltafix.errors import InternalError
from deltafix.errors import SqlDataError as DataError
from deltafix.errors import SqlError as DatabaseError
from deltafix.errors import SqlIntegrityError as IntegrityError
from deltafix.errors import SqlOperationalError as OperationalError
from deltafix.errors import SqlProgrammingError as ProgrammingError
from deltafix.errors import SqlRefusedError as NotSupportedError
from deltafix.sql import text as _text  # noqa: F401  no sqlglot: said before a kernel is compiled
from deltafix.sql.changes import Subscription, ViewDelta
from deltafix.sql.connection import Connection, open_connection
from deltafix.sql.cursor import Cursor
from deltafix.sql.intervals import Interval
from deltafix.sql.user_functions import create_function

__all__ = [
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Interval",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Subscription",
    "ViewDelta",
    "Warning",
    "apilevel",
    "connect",
    "create_function",
    "paramstyle",
    "threadsafety",
]

apilevel: Final = "2.0"
threadsafety: Final = 1
paramstyle: Final = "qmark"

InterfaceError = OperationalError
Warning = UserWarning  # noqa: A001  PEP 249 has the name


def connect(
    path: str | Path = ":memory:", *, dialect: str = "duckdb", **settings: Any
) -> Connection:
    """Open a database of SQL, in memory or in a state folder.

    Args:
        path: `":memory:"`, or a state folder (made if it is not there), by path or by URL: its
            tables, views and rows outlive the process, and what is committed outlives its end.
        dialect: whose SQL the statements are: `duckdb`, `postgres` or `spark`.
        settings: `max_rows`, `max_rounds`, `max_recursion`, `timeout`, `threads`, `strategy`,
            `fsync`, as `deltafix.connect` takes them; but `max_recursion` is 10,000,000 where it
            is not given, and None says that there is none. The statement `SET timeout = 5` sets
            one of the first five for what follows.

    Raises:
        MissingDependencyError: sqlglot is not installed: `pip install 'deltafix[sql]'`.
        StateInUseError: another connection has the folder.
        StateError: the folder is damaged, or one of rules and not of SQL.
        TypeError: an unknown setting.
        ValueError: an unknown dialect, strategy or fsync policy, or less than one thread.
    """
    return open_connection(path, dialect, settings)
