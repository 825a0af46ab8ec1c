"""`deltafix sql` and `shell` on a terminal: Ctrl-C, what the prompt knows, what is left."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from deltafix import Transaction
from deltafix.cli.main import main
from deltafix.sql import Connection

SECONDS = 60.0


class Terminal:
    """A command on a terminal: what is typed, and what has appeared since."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process, self.master, self.seen = process, master, ""

    def type(self, text: str) -> None:
        os.write(self.master, f"{text}\n".encode())

    def until(self, wanted: str) -> str:
        """What appears up to a text; fails if it does not come."""
        end = time.monotonic() + SECONDS
        while wanted not in self.seen:
            assert time.monotonic() < end, (wanted, self.seen)
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65536).decode()
        before, self.seen = self.seen.split(wanted, 1)
        return before

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def worked(self) -> float:
        """Seconds of the processor."""
        return float(psutil.Process(self.process.pid).cpu_times().user)

    def interrupt_prompt(self) -> None:
        """Ctrl-C as soon as a key would be read.

        Between the prompt and that, readline remembers a signal until the next key (400 signals as
        soon as the prompt was seen: 25 waited; once the process slept, none did).
        """
        end = time.monotonic() + SECONDS
        while psutil.Process(self.process.pid).status() != psutil.STATUS_SLEEPING:
            assert time.monotonic() < end
            time.sleep(0.001)
        self.interrupt()


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "deltafix", *arguments]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_of_many_changed_rows_a_terminal_is_shown_some_and_how_many(warm_kernel) -> None:
    with terminal("sql") as typed:
        typed.until("sql> ")
        typed.type("CREATE TABLE t (a BIGINT); CREATE VIEW doubled AS SELECT 2 * a AS b FROM t;")
        typed.until("sql> ")
        typed.type(f"INSERT INTO t VALUES {', '.join(f'({n})' for n in range(120))};")
        shown = typed.until("sql> ")
    assert len(re.findall(r"^\+doubled\t", shown, re.MULTILINE)) == 100
    assert "... and 20 more changed rows of doubled; all are listed where" in shown


def test_ctrl_c_drops_a_statement_and_not_the_session(warm_kernel) -> None:
    with terminal("sql") as typed:
        typed.until("sql> ")
        typed.type("CREATE TABLE t (a BIGINT PRIMARY KEY, s TEXT);")
        typed.until("sql> ")
        typed.type("SELECT broken")
        typed.until("...> ")
        typed.interrupt_prompt()
        typed.until("sql> ")
        typed.interrupt_prompt()
        typed.until("sql> ")
        typed.type(".tables")
        assert "table t (a BIGINT, s TEXT)" in typed.until("sql> ")
        typed.type(".dump")
        assert "there is no .dump: statements end with ;" in typed.until("sql> ")
        typed.type("\\x")
        assert "there is no \\x: statements end with ;" in typed.until("sql> ")
        typed.type("\\d t")
        assert "CREATE TABLE t (a BIGINT PRIMARY KEY, s TEXT);" in typed.until("sql> ")
        typed.type("HELP;")
        told = typed.until("sql> ")
        assert ".read FILE" in told
        assert "there is no" not in told
        typed.type("CREATE VIEW v AS WITH RECURSIVE r(n) AS "
                   "(SELECT a FROM t UNION SELECT n + 1 FROM r) SELECT * FROM r;")  # fmt: skip
        typed.until("sql> ")
        typed.type("INSERT INTO t VALUES (1, 'never ends');")
        typed.until("(stratum")  # it is at work, and says so
        typed.interrupt()
        assert "interrupted: the statement changed nothing" in typed.until("sql> ")
        typed.type("DROP VIEW v; CREATE VIEW w AS SELECT 9223372036854775806 + a AS b FROM t;")
        typed.until("sql> ")
        typed.type("BEGIN; INSERT INTO t VALUES (5, 'large');")
        typed.until("sql> ")
        typed.type("SELECT * FROM w;")
        typed.until("the transaction was rolled back")
        typed.until("help: ROLLBACK ends it")
        typed.until("sql> ")
        typed.type("INSERT INTO t VALUES (1, 'alone');")
        typed.until("error[DF727]: the transaction was rolled back by an error: ")
        typed.until("sql> ")
        typed.type("COMMIT;")
        typed.until("nothing was committed: the transaction was rolled back by an error: ")
        typed.until("sql> ")
        typed.type("BEGIN; INSERT INTO t VALUES (0, 'open');")
        typed.until("sql> ")
        typed.type("SELECT COUNT(*) FROM t;")
        assert "\n1\r" in typed.until("sql> ")
        typed.type(".quit")
        typed.until("BEGIN opened a transaction that nothing committed; it is rolled back")
        assert typed.process.wait(SECONDS) == 0


def test_ctrl_c_in_a_commit_leaves_the_shell_and_drops_the_edits(warm_kernel, tmp_path) -> None:
    program = tmp_path / "p.dl"
    program.write_text(
        ".decl n(x: number)\n.input n\n.decl m(x: number)\nm(x) :- n(x).\nm(x + 1) :- m(x).\n"
    )
    with terminal("shell", str(program)) as typed:
        typed.until("deltafix> ")
        typed.type("+n(1)")
        typed.until("deltafix*> ")
        before = typed.worked()
        typed.type("commit")
        while typed.worked() < before + 0.3:  # seconds of the processor: it is at work
            assert typed.process.poll() is None
            time.sleep(0.01)
        typed.interrupt()
        typed.until("interrupted: the line has changed nothing that is committed")
        typed.until("deltafix> ")
        typed.type("? n(x)")
        assert "n(1)" not in typed.until("deltafix> ").split("\n", 1)[1]


def test_a_transaction_that_nothing_commits_is_said_to_be_lost(
    tmp_path, capsys: pytest.CaptureFixture[str], warm_kernel
) -> None:
    state = str(tmp_path / "state")
    assert ends(["sql", "--state", state, "-c", "CREATE TABLE t (a INTEGER)"]) == 0
    assert "rolled back" not in capsys.readouterr().err
    assert ends(["sql", "--state", state, "-c", "BEGIN; INSERT INTO t VALUES (1)"]) == 0
    assert "nothing committed; it is rolled back" in capsys.readouterr().err
    assert ends(["sql", "--state", state, "-c", "SELECT COUNT(*) FROM t"]) == 0
    assert capsys.readouterr().out == "0\n"


def ends(arguments: list[str]) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def lines(*typed: str) -> Callable[[str], str]:
    """`input`, for these lines and the end."""
    waiting = iter(typed)

    def read(_: str) -> str:
        try:
            return next(waiting)
        except StopIteration:
            raise EOFError from None

    return read


def test_an_interrupt_behind_a_commit_is_not_said_to_undo_it(monkeypatch, capsys, tmp_path) -> None:
    """What stands is said to stand: by the connection's count of commits, by the epoch."""
    run, once = Connection._tell, [KeyboardInterrupt]

    def interrupted(connection: Connection) -> None:
        run(connection)
        if connection.commits and once:
            raise once.pop()

    monkeypatch.setattr(Connection, "_tell", interrupted)
    typed = lines("CREATE TABLE t (a BIGINT);", "INSERT INTO t VALUES (1);")
    monkeypatch.setattr("builtins.input", typed)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    with pytest.raises(SystemExit):
        main(["sql"])
    assert "interrupted: what it changed was committed before" in capsys.readouterr().err
    program = tmp_path / "p.dl"
    program.write_text(".decl n(x: number)\n.input n\n")
    end = Transaction._end

    def behind(transaction: Transaction) -> None:
        end(transaction)
        if transaction._db.epoch:  # not of the one in which the program's own facts come
            raise KeyboardInterrupt

    monkeypatch.setattr(Transaction, "_end", behind)
    monkeypatch.setattr("builtins.input", lines("+n(1)", "commit"))
    with pytest.raises(SystemExit):
        main(["shell", str(program)])
    said = capsys.readouterr().err
    assert "interrupted: what it changed was committed before, as epoch 1" in said


def test_what_is_typed_with_a_dot(monkeypatch, capsys, tmp_path, warm_kernel) -> None:
    script, rows = tmp_path / "a script.sql", tmp_path / "t.csv"
    script.write_text("CREATE TABLE t (a INTEGER, b TEXT); CREATE VIEW v AS SELECT a FROM t;")
    rows.write_text("a,b,c\n1,x,y\n2,,z\n")
    typed = lines(
        ".read",
        f".read {tmp_path}/none.sql",
        f".read '{script}'",
        f"\\i {script}",
        ".schema",
        ".schema w",
        ".SCHEMA v",
        f".import {rows} s",
        f".import {rows} t",
        ".import x",
        ".mode xml",
        ".mode csv",
        "INSERT INTO t VALUES (3, 'z');",
        "SELECT b FROM t ORDER BY a;",
        ".mode json",
        "SELECT a FROM t WHERE a = 1;",
        ".mode text",
        "DELETE FROM t WHERE a = 3;",
        ".reed x",
        "\\?",
        ".exit",
    )
    monkeypatch.setattr("builtins.input", typed)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert ends(["sql"]) == 0
    told = capsys.readouterr()
    wanted = [
        "CREATE TABLE t (a INTEGER, b TEXT);", "CREATE VIEW v AS SELECT a FROM t;",
        "CREATE VIEW v AS SELECT a FROM t;", "+v\t1", "+v\t2", "2 rows more in t",
        '"b"', '"x"', "", '"z"', '{"a": 1}', "-v\t3",
    ]  # fmt: skip
    assert told.out.splitlines()[: len(wanted)] == wanted
    assert ".read FILE             run the statements of a file" in told.out
    _, *said = told.err.splitlines()
    wrong = [line for line in said if line.startswith("error: ")]
    assert [line.removeprefix("error: ") for line in wrong] == [
        "use: .read FILE",
        f"cannot read {tmp_path}/none.sql: No such file or directory",
        "there is no table or view 'w': .tables lists what there is",
        "there is no table 's': CREATE TABLE makes one",
        "use: .import FILE TABLE",
        "rows are written as text, csv or json, and not as 'xml'",
        "there is no .reed: statements end with ;, and did you mean `.read`?",
    ]
    assert "there is a table or view 't' already" in told.err
    assert "note: table t has no column c" in told.err


@pytest.mark.parametrize("word", [".quit", "quit", "Exit;", "\\q"])
def test_a_word_that_leaves_other_prompts_leaves(warm_kernel, word: str) -> None:
    with terminal("sql") as typed:
        typed.until("sql> ")
        typed.type("SELECT 1 AS")
        typed.until("...> ")
        typed.type("exit;")  # within a statement it is a name
        typed.until("sql> ")
        typed.type(word)
        assert typed.process.wait(SECONDS) == 0
