"""Tables of PostgreSQL as inputs: types, what is refused and how to go on, what a slot may meet."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors
from psycopg.pq import ExecStatus
from tests.servers.postgres import Postgres
from tests.support.pipelines import open_pipeline

from deltafix.errors import (
    BadRowError,
    ConfigError,
    DeltafixError,
    DriftError,
    PipelineError,
    ReplicationError,
)
from deltafix.pipeline.check import check
from deltafix.pipeline.config import read_config
from deltafix.pipeline.sources import postgres as source_module
from deltafix.pipeline.sources.pgoutput import (
    UNCHANGED,
    Begin,
    Change,
    Commit,
    Relation,
    Truncate,
    parse,
)
from deltafix.pipeline.sources.replication import position, shown
from deltafix.pipeline.sources.transactions import Seen
from deltafix.pipeline.status import status

TEXT = """
.decl edge(x: symbol, n: number)
.input edge
.decl twice(x: symbol, n: number)
twice(x, n + n) :- edge(x, n).
"""


class One:
    """A table, and a pipeline with it as input `edge`."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.uri, self.folder = uri, folder
        self.name = f"t{uuid4().hex[:10]}"
        self.db = psycopg.connect(uri, autocommit=True)
        self.made = [self.name]

    def make(self, columns: str = "x text, n int, PRIMARY KEY (x, n)", *more: str) -> None:
        self.say(f"CREATE TABLE {{}} ({columns})", *more)

    def say(self, *texts: str) -> Any:
        for text in texts:
            found = self.db.execute(text.replace("{}", self.name))
        return found.fetchall() if found.description else None

    def write(
        self, section: str = 'key = ["x", "n"]', head: str = "", text: str = TEXT,
        state: str = "state", **words: str,
    ) -> None:  # fmt: skip
        (self.folder / "p.dl").write_text(text)
        words = {"dsn": self.uri, "table": self.name, "slot": self.name, **words}
        given = "\n".join(f'{name} = "{value}"' for name, value in words.items() if value)
        (self.folder / "p.toml").write_text(
            f'[pipeline]\nprogram = "p.dl"\nstate = "{state}"\nrunner = "local"\n{head}\n'
            f'[input.edge]\nsource = "postgres"\n{given}\n{section}\n'
        )

    def take(self) -> tuple[int, set]:
        """Run; (epochs, the rows there are)."""
        with open_pipeline(self.folder / "p.toml") as pipeline:
            many = len([epoch for epoch in pipeline.drain() if epoch.read])
            return many, set(pipeline.maintainer.db.rows("edge"))

    def refused(self, match: str, kind: type[DeltafixError] = PipelineError) -> None:
        """A run, and a check, end with the error, in one line; the rows are as before."""
        for act in (self.take, lambda: list(check(read_config(self.folder / "p.toml")))):
            with pytest.raises(kind, match=match) as raised:
                act()
            assert str(raised.value).startswith(f"input edge: table {self.name}"), raised.value
            assert "\n" not in str(raised.value)

    def table(self) -> set:
        return set(self.say("SELECT x, n FROM {}"))

    def close(self) -> None:
        for (slot,) in self.say("SELECT slot_name FROM pg_replication_slots WHERE NOT active"):
            if slot.startswith(tuple(self.made)):
                with suppress(errors.Error):
                    self.db.execute("SELECT pg_drop_replication_slot(%s)", [slot])
        self.say("DROP TABLE IF EXISTS {} CASCADE", "DROP PUBLICATION IF EXISTS {}")
        self.db.close()


@pytest.fixture
def one(postgres, tmp_path) -> Iterator[One]:
    made = One(postgres, tmp_path)
    yield made
    made.close()


def test_rows_then_changes(one, runner) -> None:
    one.make()
    one.say("INSERT INTO {} VALUES ('a', 1), ('b', 2)")
    one.write()
    assert one.take() == (1, {("a", 1), ("b", 2)})
    assert one.take() == (0, {("a", 1), ("b", 2)})
    one.say("UPDATE {} SET n = 3 WHERE x = 'a'", "DELETE FROM {} WHERE x = 'b'")
    assert one.take() == (1, {("a", 3)})
    one.say("BEGIN", "TRUNCATE {}", "INSERT INTO {} VALUES ('c', 4)", "COMMIT")
    assert one.take()[1] == {("c", 4)}


def test_long_values_and_rows_that_are_there_twice(one, runner) -> None:
    one.make("x text, n int", "ALTER TABLE {} REPLICA IDENTITY FULL")
    one.say("ALTER TABLE {} ALTER x SET STORAGE EXTERNAL")
    one.say(f"INSERT INTO {{}} VALUES ('{'x' * 3000}', 1), ('b', 2), ('b', 2)")
    one.write('duplicates = "count"')
    assert one.take()[1] == {("x" * 3000, 1), ("b", 2)}
    one.say("UPDATE {} SET n = n + 1 WHERE n = 1", "DELETE FROM {} WHERE ctid = '(0,2)'")
    assert one.take()[1] == {("x" * 3000, 2), ("b", 2)}
    one.say("DELETE FROM {} WHERE x = 'b'")
    assert one.take()[1] == {("x" * 3000, 2)}
    one.say("TRUNCATE {}")
    assert one.take()[1] == set()


def test_a_key_whose_row_is_given_tells_long_values(one, runner) -> None:
    one.make("x text, n int PRIMARY KEY", "ALTER TABLE {} ALTER x SET STORAGE EXTERNAL")
    one.say(f"INSERT INTO {{}} VALUES ('{'x' * 3000}', 1)")
    one.write('key = "n"')
    one.take()
    one.say("UPDATE {} SET n = n + 1")
    one.say("UPDATE {} SET n = n + 1")
    assert one.take()[1] == {("x" * 3000, 3)}


def test_a_transaction_is_in_one_epoch_however_large(one) -> None:
    one.make()
    one.write(head="rows_per_epoch = 10")
    one.take()
    one.say("INSERT INTO {} SELECT 'x', generate_series(1, 100)")
    for _ in range(4):
        one.say("INSERT INTO {} SELECT 'y', max(n) + generate_series(1, 4) FROM {}")
    with open_pipeline(one.folder / "p.toml") as pipeline:
        assert [sum(epoch.read.values()) for epoch in pipeline.drain()] == [100, 8, 8]
    assert one.take() == (0, one.table())


def test_the_first_rows_are_taken_in_parts(one) -> None:
    one.make()
    one.say("INSERT INTO {} SELECT 'x', generate_series(1, 25)")
    one.write(head="rows_per_epoch = 10")
    with open_pipeline(one.folder / "p.toml") as pipeline:
        pipeline.step()
        one.say("DELETE FROM {} WHERE n % 2 = 0")
    # Nobody knows what that run had seen: rows are compared with those that it took.
    assert one.take()[1] == one.table()
    assert one.take()[0] == 0


def test_values_are_read_alike_from_rows_and_changes(one) -> None:
    text = """
.decl edge(i: number, u: unsigned, f: float, g: float, d: float, s: symbol, b: symbol,
           day: symbol, at: symbol, c: symbol, j: number, e: symbol)
.input edge
"""
    one.db.execute("DROP TYPE IF EXISTS mood; DROP DOMAIN IF EXISTS small")
    one.say("CREATE TYPE mood AS ENUM ('good', 'bad')", "CREATE DOMAIN small AS int")
    one.make(
        "i bigint PRIMARY KEY, u numeric, f float8, g float4, d numeric(6, 2), s varchar, b bool, "
        "day date, at timestamptz, c char(3), j small, e mood, "
        "made int GENERATED ALWAYS AS (1) STORED"
    )
    one.write('key = "i"', text=text)
    rows = [
        "(1, 18446744073709551615, 'NaN', 0.1, 1.50, 'a,\"b\nc', true, '2020-02-29', "
        "'2020-01-01 12:00+02', 'x', 1, 'bad')",
        "(-9223372036854775808, 0, '-Infinity', 'Infinity', -0.01, '', false, '0044-03-15 BC', "
        "'infinity', 'abc', -5, 'good')",
        "(3, 5, -0.0, 1e-40, 0, '\\N', true, 'infinity', '2020-01-01', '', 0, 'bad')",
    ]
    one.say(f"INSERT INTO {{}} VALUES {', '.join(rows)}")
    first = one.take()[1]
    one.say("TRUNCATE {}", f"INSERT INTO {{}} VALUES {', '.join(rows)}")
    with open_pipeline(one.folder / "p.toml") as pipeline:
        assert len(list(pipeline.drain())) == 1
        assert set(pipeline.maintainer.db.rows("edge")) == first
    by_key = {row[0]: row for row in first}
    assert by_key[1][1:] == (
        2**64 - 1, by_key[1][2], struct.unpack("f", struct.pack("f", 0.1))[0], 1.5, 'a,"b\nc',
        "true", "2020-02-29", "2020-01-01 10:00:00+00", "x  ", 1, "bad",
    )  # fmt: skip
    assert math.isnan(by_key[1][2])
    assert by_key[-(2**63)][2:4] == (-math.inf, math.inf)
    assert math.copysign(1, by_key[3][2]) == 1
    one.say("DROP TABLE {}", "DROP TYPE mood", "DROP DOMAIN small")


def test_rows_that_do_not_fit_fail_the_epoch_or_are_set_aside(one) -> None:
    one.make("x text PRIMARY KEY, n numeric")
    one.say("INSERT INTO {} VALUES ('a', 1), ('b', NULL)")
    one.write('key = "x"')
    with pytest.raises(BadRowError, match="n is missing"):
        one.take()
    one.write('key = "x"\nbad_rows = "quarantine"')
    assert one.take()[1] == {("a", 1)}
    # What cannot be taken takes the row of its key away; what can be brings it back.
    one.say("UPDATE {} SET n = 1.5 WHERE x = 'a'", "UPDATE {} SET n = 2 WHERE x = 'b'")
    assert one.take()[1] == {("b", 2)}
    one.say(
        "UPDATE {} SET n = 3 WHERE x = 'a'", "INSERT INTO {} VALUES ('c', 'NaN')", "TRUNCATE {}"
    )
    with open_pipeline(one.folder / "p.toml") as pipeline:
        list(pipeline.drain())
        assert pipeline.maintainer.db.rows("edge") == []
        aside = [(row["reason"], row["row"]["x"]) for row in
                 pipeline.maintainer.quarantine.rows("edge")]  # fmt: skip
    assert aside == [
        ("n is missing", "b"), ("n = '1.5' is no number", "a"), ("n = 'NaN' is no number", "c"),
    ]  # fmt: skip


def test_a_long_value_that_is_not_told_and_not_known_is_set_aside(one) -> None:
    one.make("x text, n int, id int PRIMARY KEY", "ALTER TABLE {} ALTER x SET STORAGE EXTERNAL")
    text = ".decl edge(id: number, x: symbol, n: number)\n.input edge\n"
    one.write('key = "id"\nbad_rows = "quarantine"', text=text)
    one.say(f"INSERT INTO {{}} VALUES ('{'x' * 3000}', NULL, 1), ('{'y' * 3000}', 2, 2)")
    one.take()
    one.say("UPDATE {} SET n = 3")
    assert one.take()[1] == {(2, "y" * 3000, 3)}
    with open_pipeline(one.folder / "p.toml") as pipeline:
        _, last = pipeline.maintainer.quarantine.rows("edge")
    assert "REPLICA IDENTITY FULL" in last["reason"]
    one.say("UPDATE {} SET id = 7 WHERE id = 2")
    assert one.take()[1] == {(7, "y" * 3000, 3)}
    one.say("ALTER TABLE {} REPLICA IDENTITY FULL", "UPDATE {} SET n = 4")
    assert one.take()[1] == {(7, "y" * 3000, 4), (1, "x" * 3000, 4)}


def test_a_table_that_cannot_be_followed_exactly_is_refused_with_a_way_out(one) -> None:
    one.write(table="nowhere")
    with pytest.raises(PipelineError, match=r"nowhere.* does not exist"):
        one.take()
    one.make()
    one.write("", state="other")
    one.refused(r"say key = \['x', 'n'\], or ALTER TABLE .* REPLICA IDENTITY FULL")
    one.write('key = "x"', state="more")
    one.refused(r"is not what tells its rows apart: .*; say key = \['x', 'n'\]")
    one.say("ALTER TABLE {} DROP CONSTRAINT {}_pkey")
    one.write("", state="other")
    one.refused('say duplicates = "count"')
    one.write('duplicates = "count"', state="another")
    assert one.take() == (1, set())  # nothing ever goes: the server refuses that
    one.say("INSERT INTO {} VALUES ('a', 1), ('a', 1)")
    assert one.take()[1] == {("a", 1)}
    with pytest.raises(errors.ObjectNotInPrerequisiteState):
        one.say("DELETE FROM {}")
    one.say("ALTER TABLE {} REPLICA IDENTITY FULL", "DELETE FROM {} WHERE ctid = '(0,1)'")
    assert one.take()[1] == {("a", 1)}
    one.say("DELETE FROM {}")
    assert one.take()[1] == set()


def test_keys_need_to_be_told_of_rows_that_go(one) -> None:
    one.make("x text NOT NULL UNIQUE, n int NOT NULL, PRIMARY KEY (n)")
    one.write('key = "x"')
    one.refused("tells n .*but the key has x: ALTER TABLE .* REPLICA IDENTITY FULL")
    one.say("ALTER TABLE {} REPLICA IDENTITY USING INDEX {}_x_key")
    one.say("INSERT INTO {} VALUES ('a', 1)")
    assert one.take()[1] == {("a", 1)}
    one.say("UPDATE {} SET x = 'b'", "UPDATE {} SET n = 2")
    assert one.take()[1] == {("b", 2)}
    one.say("ALTER TABLE {} REPLICA IDENTITY DEFAULT", "UPDATE {} SET x = 'c', n = 5")
    one.say("ALTER TABLE {} REPLICA IDENTITY USING INDEX {}_x_key")
    with pytest.raises(PipelineError, match="the key of a row that goes is not told"):
        one.take()


def test_columns_are_chosen_by_name_and_drift_is_refused(one) -> None:
    one.make()
    one.say("ALTER TABLE {} ADD d date")
    one.write()
    one.refused("has 'd' beside what is wanted", DriftError)
    one.write('columns = ["x", "n"]\nkey = ["x", "n"]')
    one.say("INSERT INTO {} VALUES ('a', 1)")
    assert one.take()[1] == {("a", 1)}
    one.say("ALTER TABLE {} ADD more text DEFAULT 'x'", "ALTER TABLE {} DROP d",
            "INSERT INTO {} VALUES ('b', 2)")  # fmt: skip
    assert one.take()[1] == {("a", 1), ("b", 2)}
    one.say("ALTER TABLE {} ADD m date")
    one.write('columns = ["x", "m"]\nkey = ["x", "n"]')
    one.refused("'m' is of type date, but 'n' is a number", DriftError)


def lose(one: One, what: str) -> None:
    """Something after which not all changes are told."""
    one.say("INSERT INTO {} VALUES ('lost', 1)")
    if what == "slot":
        one.say("SELECT pg_drop_replication_slot('{}')")
    elif what == "slot made anew":
        one.say("SELECT pg_drop_replication_slot('{}')",
                "SELECT pg_create_logical_replication_slot('{}', 'pgoutput')")  # fmt: skip
    elif what == "somebody else":
        one.say("SELECT pg_replication_slot_advance('{}', pg_current_wal_flush_lsn())")
    elif what == "table":
        one.say("DROP TABLE {}")
        one.make()
        one.say("ALTER PUBLICATION {} ADD TABLE {}")
    elif what == "publication":
        one.say("DROP PUBLICATION {}")
    elif what == "publication made anew":
        one.say("DROP PUBLICATION {}", "CREATE PUBLICATION {} FOR TABLE {}")
    elif what == "member":
        one.say("ALTER PUBLICATION {} DROP TABLE {}", "INSERT INTO {} VALUES ('un', 1)",
                "ALTER PUBLICATION {} ADD TABLE {}")  # fmt: skip
    elif what == "filter":
        one.say("ALTER PUBLICATION {} SET TABLE {} WHERE (n < 100)")
    elif what == "type":
        one.say("ALTER TABLE {} ALTER n TYPE bigint USING n * 2")
    elif what == "log":
        one.say("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
        for _ in range(40):
            one.say("SELECT pg_logical_emit_message(false, 'x', repeat('x', 1000000))",
                    "SELECT pg_switch_wal()", "CHECKPOINT")  # fmt: skip
            (status,) = one.say("SELECT wal_status FROM pg_replication_slots "
                                "WHERE slot_name = '{}'")  # fmt: skip
            if status[0] == "lost":
                break
        one.say("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("slot", "is gone"),
        ("slot made anew", "it was made anew"),
        ("somebody else", "somebody else reads it"),
        ("table", "the table was made anew"),
        ("publication", "publication .* is gone"),
        ("publication made anew", "the publication was made anew"),
        ("member", "lost the table for a while"),
        ("filter", "another row filter"),
        ("type", "columns were changed"),
        ("log", "max_slot_wal_keep_size"),
    ],
)
def test_changes_that_were_missed_are_refused_or_read_again(one, what, why) -> None:
    one.make()
    one.say("INSERT INTO {} VALUES ('a', 1), ('b', 2)")
    one.write()
    one.take()
    lose(one, what)
    one.say("DELETE FROM {} WHERE x = 'b'", "INSERT INTO {} VALUES ('c', 7)")
    one.refused(f'{why}.*lost = "snapshot"', ReplicationError)
    one.write('key = ["x", "n"]\nlost = "snapshot"')
    assert any("read again" in line for line in check(read_config(one.folder / "p.toml")))
    assert one.take()[1] == one.table()
    one.write()
    one.say("INSERT INTO {} VALUES ('d', 8)")
    assert one.take()[1] == one.table()


def test_a_publication_that_does_not_tell_all_is_refused(one) -> None:
    one.make()
    one.say("CREATE PUBLICATION {} FOR TABLE {} WITH (publish = 'insert, update')")
    one.write()
    with pytest.raises(PipelineError, match=r"does not tell of delete, truncate: ALTER PUBLIC"):
        one.take()
    one.say("DROP PUBLICATION {}", "CREATE PUBLICATION {}")
    with pytest.raises(PipelineError, match=r"has no table .*: ALTER PUBLICATION .* ADD TABLE"):
        one.take()


def test_a_publication_with_a_filter_and_a_list_of_columns(one) -> None:
    one.make("x text, n int, secret text, PRIMARY KEY (x, n)")
    one.say("CREATE PUBLICATION {} FOR TABLE {} (x, n) WHERE (n > 1)",
            "INSERT INTO {} VALUES ('a', 1, 's'), ('b', 2, 's')")  # fmt: skip
    one.write()
    assert one.take()[1] == {("b", 2)}
    one.say("UPDATE {} SET n = n + 1")
    assert one.take()[1] == {("b", 3), ("a", 2)}
    one.say("UPDATE {} SET n = 1 WHERE x = 'b'", "INSERT INTO {} VALUES ('c', 0)")
    assert one.take()[1] == {("a", 2)}


def test_partitions_are_told_as_one_table(one) -> None:
    one.say(
        "CREATE TABLE {} (x text, n int, PRIMARY KEY (x, n)) PARTITION BY RANGE (n)",
        "CREATE TABLE {}_low PARTITION OF {} FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE {}_high PARTITION OF {} FOR VALUES FROM (10) TO (100)",
        "INSERT INTO {} VALUES ('a', 1), ('b', 20)",
    )
    one.write()
    assert one.take()[1] == {("a", 1), ("b", 20)}
    one.say("UPDATE {} SET n = 30 WHERE x = 'a'", "DELETE FROM {} WHERE x = 'b'",
            "INSERT INTO {} VALUES ('c', 5)")  # fmt: skip
    assert one.take()[1] == {("a", 30), ("c", 5)}
    one.say("TRUNCATE {}")
    assert one.take()[1] == set()
    one.say("ALTER PUBLICATION {} SET (publish_via_partition_root = false)")
    one.refused("by partition, not of .*publish_via_partition_root = true")


def test_rows_of_tables_that_inherit_are_not_the_tables(one) -> None:
    one.make()
    one.say("CREATE TABLE {}_more () INHERITS ({})", "INSERT INTO {}_more VALUES ('no', 1)")
    one.write()
    assert one.take()[1] == set()


def test_slots_that_are_of_no_use(one, postgres) -> None:
    one.make()
    one.write(slot=f"{one.name}_p")
    one.say("SELECT pg_create_physical_replication_slot('{}_p')")
    one.refused("is a physical one; name another")
    one.write(slot=f"{one.name}_o")
    one.say("CREATE DATABASE {}_db")
    with psycopg.connect(postgres, dbname=f"{one.name}_db", autocommit=True) as other:
        other.execute(
            "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [f"{one.name}_o"]
        )
    one.refused("in database .*_db; name another")
    one.say("SELECT pg_drop_replication_slot('{}_o')", "DROP DATABASE {}_db")
    one.write(slot=f"{one.name}_2")
    one.say("SELECT pg_create_logical_replication_slot('{}_2', 'pgoutput', false, true)")
    one.refused("prepared transactions")


def test_a_slot_that_another_uses_is_waited_for_and_then_refused(one, postgres) -> None:
    one.make()
    one.write('key = ["x", "n"]\ntimeout = 1')
    one.take()
    with psycopg.connect(postgres, replication="database", autocommit=True) as other:
        found = other.pgconn.exec_(
            f"START_REPLICATION SLOT {one.name} LOGICAL 0/0 "
            f"(proto_version '1', publication_names '{one.name}')".encode()
        )
        assert found.status == ExecStatus.COPY_BOTH
        one.say("INSERT INTO {} VALUES ('a', 1)")
        with pytest.raises(PipelineError, match=r"is active for PID .*pipeline's own"):
            one.take()
        other.pgconn.finish()
    assert one.take()[1] == {("a", 1)}


def test_a_transaction_that_is_open_holds_up_the_slot_with_an_error(one, postgres) -> None:
    one.make()
    one.write('key = ["x", "n"]\ntimeout = 1')
    with psycopg.connect(postgres) as other:
        other.execute(f"INSERT INTO {one.name} VALUES ('a', 1)")
        with pytest.raises(PipelineError, match="a transaction that is open holds it up"):
            one.take()
        other.commit()
    assert one.take()[1] == {("a", 1)}


def test_a_commit_that_is_in_the_log_and_not_visible_yet_is_not_missed(tmp_path) -> None:
    with Postgres() as server:
        one = One(server.uri, tmp_path)
        one.make()
        one.write('key = ["x", "n"]\ntimeout = 1')
        one.say("CREATE PUBLICATION {} FOR TABLE {}",
                "SELECT pg_create_logical_replication_slot('{}', 'pgoutput')",
                "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
                "SELECT pg_reload_conf()")  # fmt: skip
        with psycopg.connect(server.uri, autocommit=True) as other:
            setting = "SHOW synchronous_standby_names"  # which the server reads in its own time
            while other.execute(setting).fetchone() != ("nobody",):
                time.sleep(0.01)

            def commit() -> None:
                other.execute(f"INSERT INTO {one.name} VALUES ('late', 1)")

            thread = Thread(target=commit)
            thread.start()
            try:
                waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
                while not one.say(waits):
                    thread.join(0.05)
                with pytest.raises(PipelineError, match="a transaction that is open holds it up"):
                    one.take()
            finally:
                one.say("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
                thread.join()
        assert one.take()[1] == {("late", 1)}
        one.close()


def test_a_role_needs_replication_and_select_and_nothing_more(one) -> None:
    one.make("x text, n int, PRIMARY KEY (x, n)", "CREATE PUBLICATION {} FOR TABLE {}")
    one.say("CREATE ROLE {}_role LOGIN", "INSERT INTO {} VALUES ('a', 1)")
    role = one.uri.replace("postgres:@", f"{one.name}_role@")
    one.write(dsn=role)
    try:
        with pytest.raises(PipelineError, match="a role with REPLICATION that may SELECT"):
            one.take()
        one.say("ALTER ROLE {}_role REPLICATION")
        with pytest.raises(PipelineError, match=r"permission denied .* may SELECT from the table"):
            one.take()
        one.say("GRANT SELECT ON {} TO {}_role")
        assert one.take()[1] == {("a", 1)}
        one.say("INSERT INTO {} VALUES ('b', 1)")
        assert one.take()[1] == one.table()
        # What a policy hides is told among the changes: that is not passed over.
        one.say("ALTER TABLE {} ENABLE ROW LEVEL SECURITY",
                "SELECT pg_drop_replication_slot('{}')")  # fmt: skip
        one.write('key = ["x", "n"]\nlost = "snapshot"', dsn=role)
        with pytest.raises(PipelineError, match="row-level security"):
            one.take()
    finally:
        one.say("REVOKE ALL ON {} FROM {}_role", "DROP ROLE {}_role")


def test_a_quiet_table_lets_go_of_the_log_that_others_fill(one, monkeypatch) -> None:
    one.make()
    one.write()
    one.take()
    before = position(one.say("SELECT confirmed_flush_lsn::text FROM pg_replication_slots "
                              "WHERE slot_name = '{}'")[0][0])  # fmt: skip
    one.say("CREATE TABLE {}_other AS SELECT generate_series(1, 1000)", "DROP TABLE {}_other")
    assert one.take()[0] == 0
    monkeypatch.setattr(source_module, "_SEGMENT", 1000)
    assert one.take() == (1, set())  # an epoch that says nothing but how far it is read
    assert one.take()[0] == 0
    after = position(one.say("SELECT confirmed_flush_lsn::text FROM pg_replication_slots "
                             "WHERE slot_name = '{}'")[0][0])  # fmt: skip
    assert after > before + 1000


def test_a_server_without_logical_decoding_and_one_that_is_away(tmp_path) -> None:
    with Postgres(("wal_level = replica",)) as server:
        one = One(server.uri, tmp_path)
        one.make()
        one.write()
        one.refused("wal_level is replica.*ALTER SYSTEM SET wal_level = logical, and restart")
        one.close()
    one.refused("connection failed|No such file")


def test_a_server_that_was_put_back_is_refused(tmp_path, one, monkeypatch) -> None:
    one.make()
    one.write()
    one.take()
    from deltafix.pipeline.sources.replication import Server

    monkeypatch.setattr(Server, "now", lambda server: 7)
    one.refused("the server is at 0/7, before .* put back from an older copy", ReplicationError)


def test_check_makes_nothing(one) -> None:
    one.write()
    with pytest.raises(PipelineError, match=f"there is no table {one.name} in this database"):
        list(check(read_config(one.folder / "p.toml")))
    one.make("x text, m int, PRIMARY KEY (x, m)")
    with pytest.raises(DriftError, match="lacks 'n' and has 'm' beside what is wanted"):
        list(check(read_config(one.folder / "p.toml")))
    one.say("ALTER TABLE {} RENAME m TO n")
    line = next(check(read_config(one.folder / "p.toml")))
    assert line.endswith(
        f"(all rows are read first; makes publication {one.name}, slot {one.name})"
    )
    assert one.say("SELECT 1 FROM pg_publication WHERE pubname = '{}'") == []
    one.take()
    assert "(read up to " in next(check(read_config(one.folder / "p.toml")))
    assert any(line.startswith("input edge: changes up to ") for line in
               status(read_config(one.folder / "p.toml")))  # fmt: skip


def test_the_same_words_in_python(one) -> None:
    from deltafix.spark import pipeline

    one.make()
    one.write()
    one.say("INSERT INTO {} VALUES ('a', 1)")
    words = {"source": "postgres", "dsn": one.uri, "table": one.name, "slot": one.name,
             "key": ("x", "n")}  # fmt: skip
    state = one.folder / "state"
    with pipeline(
        one.folder / "p.dl", state=state, inputs={"edge": words}, outputs={}, runner="local"
    ) as access:
        access.run(progress=lambda line: None)
        assert access.opened.maintainer.db.rows("edge") == [("a", 1)]
    one.say("DELETE FROM {}")
    assert one.take()[1] == set()


def test_sections_that_are_not_right(one) -> None:
    for words, wrong in (
        ({"slot": ""}, "has no 'slot'"),
        ({"slot": "A b"}, "is no name of a replication slot"),
        ({"table": "a."}, "is no name"),
        ({"lost": "skip"}, 'it takes "fail" or "snapshot"'),
    ):
        one.write(**words)
        with pytest.raises(ConfigError, match=wrong):
            read_config(one.folder / "p.toml")
    one.write('key = "x"\nmissing = "bad"')
    with pytest.raises(ConfigError, match="missing says nothing with key"):
        read_config(one.folder / "p.toml")
    one.write("late = 'bad'")
    with pytest.raises(ConfigError, match="unknown key 'late'"):
        read_config(one.folder / "p.toml")
    one.write('key = "x"', text=TEXT + ".decl more(x: symbol)\n.input more\n")
    text = (one.folder / "p.toml").read_text()
    section = text.partition("[input.edge]")[2]
    (one.folder / "p.toml").write_text(f"{text}\n[input.more]{section}")
    with pytest.raises(ConfigError, match="each input has a slot of its own"):
        read_config(one.folder / "p.toml")


def test_the_page_on_permissions_follows_its_tables(postgres, tmp_path) -> None:
    from tests.test_docs import ROOT, blocks

    page = blocks(ROOT / "docs" / "guides" / "permissions.md")
    with psycopg.connect(postgres, autocommit=True) as db:
        db.execute("CREATE DATABASE follow")
    uri = postgres.replace("/postgres?", "/follow?")
    for block in page:
        if block.title in ("access.dl", "follow.toml"):
            text = block.text.replace("postgresql://postgres@localhost:5432/access", uri)
            (tmp_path / block.title).write_text(text)
    asked = [block.text for block in page if block.kind in ("sql", "text")]
    make, ask, first, change, _, second = asked[:6]

    with psycopg.connect(uri, autocommit=True) as db:

        def run() -> str:
            with open_pipeline(tmp_path / "follow.toml") as pipeline:
                epochs = [epoch.epoch for epoch in pipeline.drain() if epoch.read]
                assert len(epochs) == 1
            return "".join(f"{who} {item}\n" for who, item in db.execute(ask))

        db.execute(make)
        for table in ("member", "inside", "granted"):
            db.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        assert run() == first
        db.execute(change)
        assert run() == second
        with db.transaction():
            db.execute("TRUNCATE granted")
            db.execute("INSERT INTO granted VALUES ('ada', 'lexer')")
            db.execute("INSERT INTO inside VALUES ('token', 'lexer')")
            db.execute("INSERT INTO member VALUES ('cy', 'ada')")
        assert run() == "cy lexer\ncy token\n"
        for (slot,) in db.execute("SELECT slot_name FROM pg_replication_slots").fetchall():
            if slot.startswith("access_"):
                db.execute("SELECT pg_drop_replication_slot(%s)", [slot])


# --- messages ------------------------------------------------------------------------------------


def row(*values: bytes | None) -> bytes:
    """A tuple as the manual lays it out; b"u" stands for what is unchanged."""
    parts = [struct.pack(">h", len(values))]
    for value in values:
        if value is None or value == b"u":
            parts.append(b"n" if value is None else b"u")
        else:
            parts.append(b"t" + struct.pack(">I", len(value)) + value)
    return b"".join(parts)


OID = struct.pack(">I", 7)
MESSAGES = [
    (b"B" + struct.pack(">qqI", 1, 86_400_000_000, 9), Begin(946_771_200.0, 9)),
    (b"C" + struct.pack(">Bqqq", 0, 1, 2, 3), Commit(2)),
    (b"R" + OID + b"public\0t\0d\0\2\1id\0" + struct.pack(">Ii", 23, -1) + b"\0x\0"
     + struct.pack(">Ii", 25, -1), Relation(7, (("id", 23, True), ("x", 25, False)))),
    (b"I" + OID + b"N" + row(b"1", None), Change(7, None, False, [b"1", None], was_there=False)),
    (b"U" + OID + b"N" + row(b"1", b"u"), Change(7, None, False, [b"1", UNCHANGED])),
    (b"U" + OID + b"K" + row(b"0", None) + b"N" + row(b"1", b"a"),
     Change(7, [b"0", None], True, [b"1", b"a"])),
    (b"U" + OID + b"O" + row(b"0", b"b") + b"N" + row(b"1", b"a"),
     Change(7, [b"0", b"b"], False, [b"1", b"a"])),
    (b"D" + OID + b"K" + row(b"0", None), Change(7, [b"0", None], True, None)),
    (b"D" + OID + b"O" + row(b"0", b""), Change(7, [b"0", b""], False, None)),
    (b"T" + struct.pack(">IB", 2, 1) + OID + OID, Truncate((7, 7))),
    (b"O" + struct.pack(">q", 1) + b"origin\0", None),
    (b"Y" + OID + b"public\0mood\0", None),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), MESSAGES)
def test_messages(data, message) -> None:
    assert parse(data) == message


def test_messages_that_are_torn_or_unknown_are_refused() -> None:
    for data, message in MESSAGES:
        for end in range(len(data) if message is not None else 0):
            with pytest.raises(ValueError, match=r"message|subsection"):
                parse(data[:end])
    with pytest.raises(ValueError, match="no message of pgoutput"):
        parse(b"?")


def test_positions_and_what_a_moment_saw() -> None:
    assert position("16/B374D848") == 0x16_B374D848
    assert shown(0x16_B374D848) == "16/B374D848"
    epoch = 5 << 32
    seen = Seen.of({"seen": f"{epoch + 3}:{epoch + 9}:{epoch + 3},{epoch + 7}"})
    assert [xid for xid in range(12) if seen.sees(xid)] == [0, 1, 2, 4, 5, 6, 8]
    assert seen.sees((1 << 32) - 1)  # of the epoch before
    assert not Seen.of({}).sees(5)
