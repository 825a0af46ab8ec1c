"""A PostgreSQL server that tells changes: its tables, publications and slots, asked by SQL.

`Server` is a connection of a pipeline to one database; `Table` is what its catalog says of a
table as a publication tells it, `Slot` how far a replication slot is. Changes are looked at
(`pg_logical_slot_peek_binary_changes`) and a slot moves on only when whoever reads says that they
are durable, so nothing depends on this process staying alive. Invariant: what cannot be exact
(a publication without deletes, rows that nothing tells apart) is refused, with the statement that
mends it. What changes mean is `sources.postgres`' business.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import pyarrow as pa
from pyarrow import csv as arrow_csv

from deltafix.errors import MissingDependencyError, PipelineError, ReplicationError

try:
    import psycopg
    from psycopg import errors, sql
    from psycopg.rows import dict_row
except ImportError as _error:
    raise MissingDependencyError(
        "PostgreSQL needs the package psycopg: `pip install 'deltafix[postgres]'`"
    ) from _error

Position = int
"""A place in the server's log (an LSN)."""

_SETTINGS: Final = (
    "DateStyle = 'ISO, YMD'", "IntervalStyle = 'postgres'", "TimeZone = 'UTC'",
    "extra_float_digits = 1", "bytea_output = 'hex'", "row_security = off",
)  # fmt: skip
"""How values are printed, the same for a copy and for changes; rows that a policy would hide from
a copy, though not from the changes, are an error."""

_LEAST: Final = 13_00_00
"""The oldest version: snapshots with numbers of 64 bits, partitioned tables as a whole."""


def position(text: str) -> Position:
    """A place in the log, from `16/B374D848`."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def shown(at: Position) -> str:
    """A place in the log as PostgreSQL prints it."""
    return f"{at >> 32:X}/{at & 0xFFFFFFFF:X}"


class Column(NamedTuple):
    """A column: its name, number in the table, type's number; `base` is that of a domain's type.

    `category` is the type's, as the catalog has it: `S` for texts.
    """

    name: str
    number: int
    type: int
    base: int
    category: str
    type_name: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table as a publication tells it.

    Attributes:
        oid: its number; `database`, `publication` and `member` are those of its database, of the
            publication, and of the one in the other (0 if that has all tables of a schema).
        system: the server's identifier, and its timeline.
        schema, name: where it is.
        columns: those that are told.
        where: the publication's row filter, in SQL; empty for none.
        identity: what is told of a row that went: `d` or `i` the columns `old`, `f` all, `n` none.
        unique: sets of columns, none NULL, of which no two rows have the same values.
        partitioned: whether it is.
    """

    oid: int
    database: int
    publication: int
    member: int
    system: str
    schema: str
    name: str
    columns: tuple[Column, ...]
    where: str
    identity: str
    old: tuple[str, ...]
    unique: tuple[frozenset[str], ...]
    partitioned: bool


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot: what was before `confirmed` is not told again; `lost` says why, if so."""

    confirmed: Position
    lost: str = ""


class Server:
    """A connection to one database, opened when it is needed.

    Sources of a pipeline share it, and with it the position up to which they read (`horizon`): a
    transaction over several tables is then in one epoch, if that has room for it.

    Args:
        dsn: where it is, as libpq takes it.
        timeout: seconds to wait for a connection, for a lock, and for a slot that is in use.
    """

    def __init__(self, dsn: str, timeout: int) -> None:
        self._dsn = dsn
        self._timeout = timeout
        self._open: psycopg.Connection[Any] | None = None
        self._inputs: list[str] = []
        self._away: set[str] = set()
        self._quiet: dict[str, Position] = {}
        self._horizon: Position = 0
        self._last = 0

    @contextmanager
    def asking(self, where: str, **values: Any) -> Iterator[None]:
        """Errors of the server as PipelineError that begins with `where`, with a way out."""
        try:
            yield
        except PipelineError as error:
            if str(error).startswith(where):
                raise
            raise type(error)(f"{where}: {error}", **{**values, **error.values}) from error
        except psycopg.Error as error:
            text = " ".join(str(error).split())
            hint = next((hint for kind, hint in _HINTS if isinstance(error, kind)), "")
            message = f"{where}: {text}{hint}"
            raise PipelineError(message, **values) from error

    def close(self) -> None:
        """Let go of the connection. Idempotent."""
        if self._open is not None:
            self._open.close()
            self._open = None

    # --- how far ---------------------------------------------------------------------------------

    def join(self, name: str) -> None:
        """An input reads here, and is looked at behind those that joined before."""
        if name not in self._inputs:
            self._inputs.append(name)
            self._last = len(self._inputs)

    def leave(self, name: str) -> None:
        """The input of this name does not read for now: others need not wait for it."""
        self._quiet.pop(name, None)
        self._away.add(name)
        if self._away.issuperset(self._inputs):
            self._horizon = 0

    def horizon(self, name: str, marks: Mapping[str, Position]) -> Position:
        """Up to where the input of this name reads, given what is in of each.

        It moves on when every input that reads here is in up to it, and never between two inputs
        of one look.
        """
        index = self._inputs.index(name)
        begins, self._last = index <= self._last, index
        self._away.discard(name)
        reading = [other for other in self._inputs if other in marks and other not in self._away]
        if begins and all(
            max(marks[other], self._quiet.get(other, 0)) >= self._horizon for other in reading
        ):
            self._horizon = self.now()
        return self._horizon

    def reach(self, name: str, at: Position) -> None:
        """The input of this name has nothing to say before a position, though its mark is older."""
        self._quiet[name] = at

    def now(self) -> Position:
        """The end of the server's log."""
        return position(self._one("SELECT pg_current_wal_flush_lsn()::text"))

    # --- what is there ---------------------------------------------------------------------------

    def require_logical(self) -> None:
        """Raise PipelineError unless the server can tell changes at all."""
        query = (
            "SELECT pg_is_in_recovery(), current_setting('wal_level'), "
            "current_setting('server_version_num')::int"
        )
        try:
            standby, level, version = self._row(query)
        except psycopg.OperationalError:
            if self._open is None or not self._open.closed:
                raise
            standby, level, version = self._row(query)  # the server was started anew meanwhile
        if version < _LEAST:
            raise PipelineError(f"it is PostgreSQL {version // 10_000}; changes need 13 or newer")
        if standby:
            raise PipelineError("it is a standby: name the server that it follows")
        if level != "logical":
            message = (
                f"its wal_level is {level}, which keeps no changes of rows: ALTER SYSTEM SET "
                "wal_level = logical, and restart the server"
            )
            raise PipelineError(message, wal_level=level)

    def table(self, table: str, publication: str | None) -> Table:
        """A table as the publication tells it, now; without one, as a new one would tell it.

        Raises PipelineError if it is not told.
        """
        row = self._dict(
            "SELECT c.oid, n.nspname, c.relname, c.relkind::text AS kind, "
            "c.relreplident::text AS identity, d.oid AS database, "
            "s.system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) "
            "AS system FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, "
            "pg_control_system() s, pg_database d "
            "WHERE c.oid = to_regclass(%s) AND d.datname = current_database()",
            [self._quoted(table)],
        )
        if row is None:
            raise PipelineError(f"there is no table {table} in this database", table=table)
        if row["kind"] not in ("r", "p"):
            raise PipelineError(f"{table} is no table, but a view or the like: name its tables")
        oid, number, member = row["oid"], 0, 0
        published: Any = {}
        if publication is not None:
            published = self._dict(
                "SELECT * FROM pg_publication_tables "
                "WHERE pubname = %s AND schemaname = %s AND tablename = %s",
                [publication, row["nspname"], row["relname"]],
            )
            number, member = self._publication(
                publication, table, oid, published, row["kind"] == "p"
            )
        names = published.get("attnames")
        columns = self._all(
            "WITH RECURSIVE base AS (SELECT oid, oid AS of, typbasetype, typcategory FROM pg_type "
            "UNION ALL SELECT b.oid, t.oid, t.typbasetype, t.typcategory FROM base b "
            "JOIN pg_type t ON t.oid = b.typbasetype) "
            "SELECT attname::text, attnum::int, atttypid, b.of, b.typcategory::text, "
            "format_type(atttypid, atttypmod) "
            "FROM pg_attribute JOIN base b ON b.oid = atttypid AND b.typbasetype = 0 "
            "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = '' "
            "ORDER BY attnum",
            [oid],
        )
        indexes = self._all(
            "SELECT i.indisprimary, i.indisreplident, i.indisunique AND i.indisvalid AND "
            "i.indimmediate AND i.indpred IS NULL AND bool_and(a.attnotnull), "
            "array_agg(a.attname::text) FROM pg_index i, unnest(i.indkey::int2[]) "
            "WITH ORDINALITY k(number, place) JOIN pg_attribute a ON a.attnum = k.number "
            "WHERE i.indrelid = %s AND a.attrelid = %s AND i.indexprs IS NULL "
            "AND k.place <= i.indnkeyatts GROUP BY i.indexrelid, 1, 2, i.indisunique, "
            "i.indisvalid, i.indimmediate, i.indpred",
            [oid, oid],
        )
        chosen = {"d": 0, "i": 1}.get(row["identity"])
        old = [names for *is_it, names in indexes if chosen is not None and is_it[chosen]]
        return Table(
            oid, row["database"], number, member, row["system"],
            row["nspname"], row["relname"],
            tuple(Column(*column) for column in columns if names is None or column[0] in names),
            published.get("rowfilter") or "", row["identity"],
            tuple(old[0]) if old else (),
            tuple(frozenset(names) for _, _, unique, names in indexes if unique),
            row["kind"] == "p",
        )  # fmt: skip

    def _publication(
        self, name: str, table: str, oid: int, published: Any, is_partitioned: bool
    ) -> tuple[int, int]:
        """The numbers of a publication and of a table in it. Raises PipelineError."""
        row = self._dict("SELECT * FROM pg_publication WHERE pubname = %s", [name])
        quoted = sql.Identifier(name).as_string(None)
        if row is None:
            raise ReplicationError(f"publication {name} is gone", publication=name)
        silent = [operation for operation in _TOLD if not row[f"pub{operation}"]]
        if silent:
            message = (
                f"publication {name} does not tell of {', '.join(silent)}: ALTER PUBLICATION "
                f"{quoted} SET (publish = '{', '.join(_TOLD)}')"
            )
            raise PipelineError(message, publication=name)
        if is_partitioned and not row["pubviaroot"]:
            message = (
                f"publication {name} tells changes by partition, not of {table}: ALTER "
                f"PUBLICATION {quoted} SET (publish_via_partition_root = true)"
            )
            raise PipelineError(message, publication=name)
        if published is None:
            message = (
                f"publication {name} has no table {table}: ALTER PUBLICATION {quoted} ADD TABLE "
                f"{self._quoted(table)}"
            )
            raise PipelineError(message, publication=name, table=table)
        member = self._row(
            "SELECT coalesce(max(oid::bigint), 0) FROM pg_publication_rel "
            "WHERE prpubid = %s AND prrelid = %s",
            [row["oid"], oid],
        )
        return int(row["oid"]), int(member[0])

    def slot(self, name: str) -> Slot | None:
        """A slot; None if there is none. Raises PipelineError for one that is of no use here."""
        row = self._dict(
            "SELECT *, database = current_database() AS here, confirmed_flush_lsn::text AS at "
            "FROM pg_replication_slots WHERE slot_name = %s",
            [name],
        )
        if row is None:
            return None
        if row["plugin"] != "pgoutput" or not row["here"]:
            kind = f"of plugin {row['plugin']}" if row["plugin"] else "a physical one"
            where = f", in database {row['database']}" if row["database"] else ""
            message = f"slot {name} is {kind}{where}; name another, which is made here"
            raise PipelineError(message, slot=name)
        if row.get("two_phase"):
            message = f"slot {name} tells of prepared transactions twice; name another"
            raise PipelineError(message, slot=name)
        lost = row["wal_status"] == "lost" or row["at"] is None or row.get("conflicting")
        why = "the server has removed the log that it needs (max_slot_wal_keep_size)"
        return Slot(position(row["at"] or "0/0"), why if lost else "")

    # --- what is made ----------------------------------------------------------------------------

    def has_publication(self, name: str) -> bool:
        """Whether there is a publication of this name."""
        query = "SELECT count(*) FROM pg_publication WHERE pubname = %s"
        return bool(self._row(query, [name])[0])

    def publish(self, name: str, table: str) -> None:
        """Make the publication of a table, if there is none of this name."""
        if self.has_publication(name):
            return
        root = self._dict(
            "SELECT 1 AS it FROM pg_class WHERE oid = to_regclass(%s) AND relkind = 'p'",
            [self._quoted(table)],
        )
        more = " WITH (publish_via_partition_root = true)" if root else ""
        text = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}" + more)
        with suppress(errors.DuplicateObject):  # by another input at once
            self._db().execute(text.format(sql.Identifier(name), _identifier(table)))

    def begin(self, name: str) -> None:
        """Have a slot that tells all that is committed from now on, made if need be."""
        slot = self.slot(name)
        if slot is not None and slot.lost:
            self._waiting(lambda: self._run("SELECT pg_drop_replication_slot(%s)", [name]))
            slot = None
        if slot is None:
            self._run("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])
        else:
            self.advance(name, self.now())
        self._see_all()

    def _see_all(self) -> None:
        """Wait for the transactions that go on now.

        What one of them wrote to the log before the slot begins is not told, and may yet be to
        become visible: a commit is in the log first (and waits there for synchronous standbys).
        """
        number = int(self._one("SELECT pg_current_xact_id()::text"))
        lowest = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"
        began = time.monotonic()
        while int(self._one(lowest)) < number:
            if time.monotonic() - began > self._timeout:
                raise PipelineError(f"the slot cannot begin{_OPEN}")
            time.sleep(_PAUSE)

    def advance(self, name: str, at: Position) -> None:
        """Have a slot forget what is before a position: it is durable here."""
        slot = self.slot(name)
        if slot is None or slot.lost or slot.confirmed >= at:
            return
        query = "SELECT pg_replication_slot_advance(%s, %s::pg_lsn)"
        self._waiting(lambda: self._run(query, [name, shown(at)]))

    # --- rows ------------------------------------------------------------------------------------

    @contextmanager
    def still(self, table: str) -> Iterator[tuple[str, Position]]:
        """A transaction that sees the database as of one moment, in which the table stays as it is.

        Gives which transactions it sees, and a position behind all of them.
        """
        db = self._db()
        db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            db.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(_identifier(table)))
            seen, until = self._row(
                "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text"
            )
            yield seen, position(until)
        finally:
            if not db.closed:
                db.execute("ROLLBACK")

    def copy(self, table: Table, names: list[str]) -> pa.Table:
        """These columns of all rows, as text with nulls; within `still`. O(rows) of memory."""
        where = f" WHERE {table.where}" if table.where else ""
        only = "" if table.partitioned else "ONLY "
        query = sql.SQL(" ").join(
            [
                sql.SQL("COPY (SELECT"),
                sql.SQL(", ").join(map(sql.Identifier, names)),
                sql.SQL("FROM " + only),
                sql.Identifier(table.schema, table.name),
                sql.SQL(where + ") TO STDOUT (FORMAT csv)"),
            ]
        )
        buffer, longest = BytesIO(), 0
        with self._db().cursor() as cursor, cursor.copy(query) as rows:
            for row in rows:  # a row at a time
                longest = max(longest, len(row))
                buffer.write(row)
        if not buffer.tell():
            return pa.table({name: pa.array([], pa.string()) for name in names})
        kinds = {name: pa.string() for name in names}
        return arrow_csv.read_csv(
            pa.py_buffer(buffer.getbuffer()),
            read_options=arrow_csv.ReadOptions(
                column_names=names, block_size=max(1 << 20, 2 * longest)
            ),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types=kinds, null_values=[""],
                strings_can_be_null=True, quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip

    def changes(self, slot: str, publication: str, until: Position, limit: int) -> Generator[bytes]:
        """Messages of whole transactions, up to a position, about `limit` of them; none is used up.

        Raises ReplicationError if the server cannot tell them any more.
        """
        query = (
            "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, %s::int, "
            "'proto_version', '1', 'publication_names', %s)"
        )
        named = sql.Identifier(publication).as_string(None)
        values = [slot, shown(until), min(limit, 1 << 30), named]
        with self._db().cursor(binary=True) as cursor:

            def opened() -> tuple[Any, Any]:
                messages = cursor.stream(query, values, size=_AT_ONCE)
                return next(messages, None), messages

            try:
                first, rest = self._waiting(opened)
                with closing(rest):
                    for (data,) in chain([] if first is None else [first], rest):
                        yield data
            except (errors.ObjectNotInPrerequisiteState, errors.UndefinedObject) as error:
                raise ReplicationError(" ".join(str(error).split()), slot=slot) from error

    # --- SQL -------------------------------------------------------------------------------------

    def _waiting(self, act: Callable[[], Any]) -> Any:
        """Do what needs a slot that somebody may use: a process that was killed is let go of."""
        began = time.monotonic()
        while True:
            try:
                return act()
            except errors.ObjectInUse:
                if time.monotonic() - began > self._timeout:
                    raise
                time.sleep(_PAUSE)

    def _db(self) -> psycopg.Connection[Any]:
        if self._open is None or self._open.closed:
            self._open = psycopg.connect(
                self._dsn, autocommit=True, client_encoding="utf8",
                connect_timeout=self._timeout, fallback_application_name="deltafix",
            )  # fmt: skip
            for setting in (*_SETTINGS, f"lock_timeout = '{self._timeout}s'"):
                self._open.execute(f"SET {setting}")
        return self._open

    def _run(self, query: str, values: Any = ()) -> Any:
        return self._db().execute(query, values)

    def _all(self, query: str, values: Any = ()) -> list[Any]:
        rows: list[Any] = self._run(query, values).fetchall()
        return rows

    def _row(self, query: str, values: Any = ()) -> Any:
        return self._run(query, values).fetchone()

    def _one(self, query: str) -> Any:
        return self._row(query)[0]

    def _dict(self, query: str, values: Any) -> dict[str, Any] | None:
        with self._db().cursor(row_factory=dict_row) as cursor:
            row: dict[str, Any] | None = cursor.execute(query, values).fetchone()
            return row

    def _quoted(self, table: str) -> str:
        return str(_identifier(table).as_string(None))


_PAUSE: Final = 0.1
_AT_ONCE: Final = 1000 if psycopg.capabilities.has_stream_chunked() else 1
"""Messages that are received together: from libpq 17 on more than one."""

_TOLD: Final = ("insert", "update", "delete", "truncate")

_OPEN: Final = (
    "; a transaction that is open holds it up, see pg_stat_activity: try again when it ended"
)

_HINTS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (errors.ObjectInUse, "; stop what uses it, or name a slot of this pipeline's own"),
    (errors.ConfigurationLimitExceeded, "; drop a slot that nobody needs, or raise the setting"),
    (
        errors.LockNotAvailable,
        _OPEN,
    ),
    (
        errors.InsufficientPrivilege,
        "; it takes a role with REPLICATION that may SELECT from the table, and its owner to make "
        "the publication",
    ),
)

_servers: WeakValueDictionary[tuple[Any, ...], Server] = WeakValueDictionary()


def server_at(state: str, dsn: str, timeout: int) -> Server:
    """The server of a pipeline's inputs, one for all that name it alike. Connects to nothing yet.

    `state` tells pipelines apart: one process at a time has a state.
    """
    key = (state, dsn, timeout)
    server = _servers.get(key)
    if server is None:
        server = _servers[key] = Server(dsn, timeout)
    return server


def _identifier(table: str) -> sql.Identifier:
    return sql.Identifier(*table.split("."))
