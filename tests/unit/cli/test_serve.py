"""`deltafix serve`: what it refuses, and that the address it prints answers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from deltafix.web.server import Server

PROGRAM = ".decl r(x: symbol)\n.input r\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.dl").write_text(PROGRAM)
    (tmp_path / "r.facts").write_text("a\n")
    return tmp_path


def test_a_port_in_use_is_exit_code_2(deltafix, folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = deltafix("serve", folder / "program.dl", "-F", folder, "--port", port)
    assert done.code == 2
    assert f"port {port} cannot be used" in done.err


def test_a_missing_extra_is_named(deltafix, folder, monkeypatch):
    monkeypatch.setattr("deltafix.cli.console.find_spec", lambda name: None)
    done = deltafix("serve", folder / "program.dl", "-F", folder)
    assert done.code == 2
    assert "pip install 'deltafix[web]'" in done.err


def test_all_extras_that_a_script_of_sql_lacks_are_named_at_once(deltafix, tmp_path, monkeypatch):
    monkeypatch.setattr("deltafix.cli.console.find_spec", lambda name: None)
    done = deltafix("serve", tmp_path / "views.sql")
    said = "serve needs starlette and uvicorn and sqlglot: pip install 'deltafix[web,sql]'"
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_without_sqlglot_sql_is_refused_before_a_kernel_is_compiled():
    code = """
import sys
sys.modules["sqlglot"] = None
try:
    import deltafix.sql
except ImportError as error:
    print(error, "deltafix.kernel" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "SQL needs sqlglot: pip install 'deltafix[sql]' False\n"


def test_the_address_is_printed_and_a_missing_fact_file_is_an_error(deltafix, folder, monkeypatch):
    seen = []

    def look_once(server, folder, interval):
        seen.append((server.url, len(folder.paths), interval))
        server._socket.close()

    monkeypatch.setattr(Server, "run", look_once)
    done = deltafix("serve", folder / "program.dl", "-F", folder, "--port", 0, "--quiet")
    assert done.out.strip() == seen[0][0]
    assert seen[0][1:] == (2, 0.3)
    (folder / "r.facts").unlink()
    again = ("serve", folder / "program.dl", "-F", folder, "--port", 0)
    assert deltafix(*again, "--strict").code == 2
    missing = deltafix(*again)
    assert missing.code == 0
    assert "r.facts: no such fact file" in missing.err


@pytest.fixture
def run_once(monkeypatch):
    """The servers that commands would have run."""
    seen = []

    def close(server, folder, interval):
        seen.append(server)
        server._socket.close()

    monkeypatch.setattr(Server, "run", close)
    return seen


KEY = "kept-by-its-owner_0123456789"


def test_a_key_of_a_file_is_taken_and_not_printed(deltafix, folder, run_once):
    (folder / "key").write_text(f"{KEY}\n")
    (folder / "key").chmod(0o600)
    (folder / "views.sql").write_text("CREATE TABLE t (a INTEGER);")
    for program in ("program.dl", "views.sql"):
        ask = ("serve", folder / program, "-F", folder, "--port", 0)
        done = deltafix(*ask, "--key-file", folder / "key")
        server = run_once.pop()
        assert (done.code, done.out.strip()) == (0, server.address), done.err
        assert server.url == f"{server.address}{KEY}/"
        assert KEY not in done.out + done.err
        assert f"{server.address}KEY/" in done.err


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ((KEY, 0o640), "-rw-r-----: others than its owner may use it; chmod 600 "),
        ((KEY, 0o602), "-rw-----w-: others than its owner may use it"),
        (("too-short", 0o600), "has 9 characters; a key is 22 to 512 of"),
        (("", 0o600), "has 0 characters"),
        (("x" * 513, 0o600), "has 513 characters"),
        ((f"{KEY}/{KEY}", 0o600), "has '/' in it"),
        ((f"{KEY}\n{KEY}", 0o600), "has '\\n' in it"),
        ((f"{KEY}é", 0o600), "in it; a key is"),
        (None, "No such file or directory; a key file is made by (umask 077; openssl rand"),
    ],
)  # fmt: skip
def test_a_key_file_that_cannot_be_taken_is_told(deltafix, folder, run_once, file, says):
    path = folder / "the key"
    if file is not None:
        path.write_text(file[0])
        path.chmod(file[1])
    ask = ("serve", folder / "program.dl", "-F", folder, "--port", 0)
    done = deltafix(*ask, "--key-file", path)
    assert (done.code, run_once) == (2, [])
    assert f"error[DF692]: {path} " in done.err
    assert says in done.err
    assert KEY not in done.err


@pytest.mark.parametrize("owner", [0, 1])
def test_a_key_file_of_another_user_is_refused_unless_that_is_root(
    deltafix, folder, run_once, monkeypatch, owner
):
    (folder / "key").write_text(KEY)
    found = SimpleNamespace(st_uid=owner and os.geteuid() + 1, st_mode=0o100600)
    system = SimpleNamespace(geteuid=os.geteuid, fstat=lambda _: found)
    monkeypatch.setattr("deltafix.web.guard.os", system)
    ask = ("serve", folder / "program.dl", "-F", folder, "--port", 0)
    done = deltafix(*ask, "--key-file", folder / "key")
    assert (done.code, "another user's" in done.err) == ((2, True) if owner else (0, False))


@pytest.mark.parametrize(
    "origin",
    [
        "*", "null", "", "app.example", "ftp://app.example", "https://", "https://app.example/app",
        "https://*.example", "https://user@app.example", "https://app.example:0",
        "https://app.example:65536", "https://app.example?x", "https://bücher.example",
        "https://a https://b", "https://app.example\n",
    ],
)  # fmt: skip
def test_an_origin_that_is_none_is_told(deltafix, folder, run_once, origin):
    ask = ("serve", folder / "program.dl", "-F", folder, "--port", 0)
    done = deltafix(*ask, "--origin", "https://app.example", "--origin", origin)
    assert (done.code, run_once) == (2, [])
    assert "error[DF692]: " in done.err
    assert "is no origin; one is a scheme, a host and perhaps a port" in done.err


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("https://App.Example:443/", "https://app.example"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://x:80", "http://x"),
        ("http://x:443", "http://x:443"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_an_origin_is_compared_as_browsers_send_it(given, sent):
    from deltafix.web.guard import origin_of

    assert origin_of(given) == sent


def test_an_interrupt_as_the_files_begin_to_be_followed_leaves_no_thread(monkeypatch, warm_kernel):
    import deltafix
    from deltafix.web import server

    started = []

    class Interrupted(threading.Thread):
        def start(self):
            self.daemon = True  # or this process waits for it, where it is left
            super().start()
            started.append(self)
            raise KeyboardInterrupt

    monkeypatch.setattr(server.threading, "Thread", Interrupted)
    with deltafix.connect(deltafix.Program.parse(".decl a(x: number)")) as db:
        page = server.Server(db, port=0, writable=False, title="a")
        with pytest.raises(KeyboardInterrupt):
            page.run(SimpleNamespace(poll=lambda: None, problems=(), edit=None), 0.01)
    started[0].join(10)
    assert not started[0].is_alive()


TASKS = """
CREATE TABLE task (name TEXT PRIMARY KEY, done BOOLEAN NOT NULL DEFAULT FALSE);
CREATE VIEW left_over AS SELECT name FROM task WHERE NOT done;
INSERT INTO task (name) VALUES ('plan');
"""


@pytest.fixture
def edited(monkeypatch):
    """What a page of each server does: edits, and the rows of two relations as it left them."""
    edits, seen = [], []

    def run(server, folder, interval):
        source = server._feed.source
        with source.editing() as tx:
            for name, row in edits.pop(0):
                tx.insert(name, row)
        assert folder is None
        seen.append({name: source.rows(name) for name in source.relations()})
        server._socket.close()

    monkeypatch.setattr(Server, "run", run)
    return edits, seen


def test_edits_of_a_script_outlive_the_server_in_a_state_folder(deltafix, tmp_path, edited):
    edits, seen = edited
    script, state = tmp_path / "tasks.sql", tmp_path / "state"
    script.write_text(TASKS)
    ask = ("serve", script, "--state", state, "--port", 0, "--write")
    edits += [[("task", {"name": "build"})], [("task", {"name": "ship"})]]
    first, second = deltafix(*ask), deltafix(*ask)
    assert (first.code, second.code) == (0, 0), second.err
    assert "rows are those of" not in first.err
    assert f"rows are those of {state}, which has the tables and views of {script}" in second.err
    assert seen[1]["left_over"] == [("build",), ("plan",), ("ship",)]
    # Another layout of the text is the same view; another view, or one that is missing, is told.
    edits += [[]]
    script.write_text(TASKS.replace("SELECT name", "SELECT\n  name"))
    assert deltafix(*ask).code == 0
    for text, says in (
        (TASKS.replace("NOT done", "done"), f"{state} has another view left_over than"),
        (TASKS + "CREATE VIEW v AS SELECT 1 AS x;", f"{state} has no view v, which"),
    ):
        script.write_text(text)
        other = deltafix(*ask)
        assert other.code == 2
        assert says in other.err
        assert f"`deltafix sql --state {state}`" in other.err


MADE = """
CREATE TABLE k (n INTEGER PRIMARY KEY);
CREATE TABLE t (a INTEGER NOT NULL DEFAULT 1, b VARCHAR, n INTEGER REFERENCES k (n), CHECK (a < 9));
CREATE MATERIALIZED VIEW v AS SELECT a, b FROM t;
"""


@pytest.mark.parametrize(
    "edit",
    [
        ("b VARCHAR", "b VARCHAR, c DOUBLE", "table t than {}: only {} has column c DOUBLE;"),
        ("DEFAULT 1", "DEFAULT 2", "only {} has column a INTEGER NOT NULL DEFAULT 2;"),
        (" NOT NULL", "", "only {} has column a INTEGER DEFAULT 1;"),
        ("a < 9", "a < 8", "only {} has CHECK (a < 8);"),
        ("(n), CHECK", "(n) ON DELETE CASCADE, CHECK",
         "only {} has FOREIGN KEY (n) REFERENCES k (n) ON DELETE CASCADE;"),
        (" REFERENCES k (n)", "", "has FOREIGN KEY (n) REFERENCES k (n);"),
        ("b VARCHAR", "b VARCHAR UNIQUE", "only {} has UNIQUE (b);"),
        ("n INTEGER R", "m INTEGER R", "only {} has column m INTEGER, FOREIGN KEY (m) REF"),
        ("a, b FROM", "b, a FROM", "view v than {}: only "),
        ("MATERIALIZED VIEW v AS SELECT a, b FROM t", "TABLE v (a INTEGER, b VARCHAR)",
         "another table v than {}: only "),
    ],
)  # fmt: skip
def test_a_script_of_other_definitions_than_its_folder_is_told_what_differs(
    deltafix, tmp_path, edited, edit
):
    old, new, says = edit
    script, state = tmp_path / "made.sql", tmp_path / "state"
    ask = ("serve", script, "--state", state, "--port", 0)
    script.write_text(MADE)
    edited[0].append([])
    assert deltafix(*ask).code == 0
    assert MADE.count(old) == 1
    script.write_text(MADE.replace(old, new))
    other = deltafix(*ask)
    assert other.code == 2
    assert says.replace("than {}", f"than {script} makes").replace("{}", str(script)) in other.err
    assert f"write what is there into {script}, or have it changed" in other.err
    assert len(edited[1]) == 1  # none was served


def test_a_script_may_follow_what_was_altered_in_its_folder(deltafix, tmp_path, edited):
    script, state = tmp_path / "made.sql", tmp_path / "state"
    ask = ("serve", script, "--state", state, "--port", 0)
    script.write_text(MADE)
    edited[0].extend([[], [], []])
    assert deltafix(*ask).code == 0
    alter = "ALTER TABLE t ADD COLUMN c DOUBLE; ALTER TABLE t ADD CONSTRAINT few UNIQUE (b);"
    assert deltafix("sql", "--state", state, "-c", alter).code == 0
    said = deltafix(*ask)
    assert f"only {state} has column c DOUBLE, UNIQUE (b); " in said.err
    with_them = MADE.replace(", CHECK", ", c DOUBLE, CHECK").replace("VARCHAR", "VARCHAR UNIQUE")
    for text in (MADE + alter, with_them):
        script.write_text(text)
        done = deltafix(*ask)
        assert done.code == 0, done.err


def test_a_script_that_fails_leaves_nothing_in_its_folder(deltafix, tmp_path, edited):
    edits, seen = edited
    script, state = tmp_path / "made.sql", tmp_path / "state"
    ask = ("serve", script, "--state", state, "--port", 0)
    filled = MADE + "INSERT INTO k VALUES (1), (2); INSERT INTO t VALUES (3, 'x', 1);"
    script.write_text(filled + "INSERT INTO t VALUES (1, 'y', 7);")
    assert deltafix(*ask).code == 2
    script.write_text(filled)
    edits += [[], []]
    for _ in range(2):
        done = deltafix(*ask)
        assert done.code == 0, done.err
    assert [(one["t"], one["v"]) for one in seen] == [([(3, "x", 1)], [(3, "x")])] * 2


def test_a_script_that_is_kept_has_no_transactions_of_its_own(deltafix, tmp_path):
    script, state = tmp_path / "made.sql", tmp_path / "state"
    script.write_text("CREATE TABLE k (n INTEGER);\nBEGIN;\nINSERT INTO k VALUES (1);\nCOMMIT;\n")
    done = deltafix("serve", script, "--state", state, "--port", 0)
    assert done.code == 2
    assert f"{script}:2:1" in done.err
    assert "leave BEGIN, COMMIT and ROLLBACK out" in done.err


def test_edits_of_rules_outlive_the_server_in_a_state_folder(deltafix, folder, edited):
    edits, seen = edited
    ask = ("serve", folder / "program.dl", "--state", folder / "state", "--port", 0, "--write")
    edits += [[("r", {"x": "b"})], [("r", {"x": "c"})]]
    assert (deltafix(*ask).code, deltafix(*ask).code) == (0, 0)
    assert [one["r"] for one in seen] == [[("b",)], [("b",), ("c",)]]


def test_rows_are_of_files_or_of_a_state_folder(deltafix, folder):
    done = deltafix("serve", folder / "program.dl", "-F", folder, "--state", folder / "state")
    assert done.code == 2
    assert "give one" in done.err
    assert not (folder / "state").exists()


def test_a_script_of_sql_is_served_with_its_files(deltafix, tmp_path, monkeypatch):
    (tmp_path / "views.sql").write_text(
        "CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW v AS SELECT a + 1 AS b FROM t;"
    )
    (tmp_path / "t.csv").write_text("a\n1\n")
    seen = []

    def look_once(server, folder, interval):
        seen.append((server.url, folder.paths, interval))
        server._socket.close()

    monkeypatch.setattr(Server, "run", look_once)
    ask = ("serve", tmp_path / "views.sql", "-F", tmp_path, "--port", 0)
    done = deltafix(*ask, "--quiet")
    assert (done.code, done.out.strip()) == (0, seen[0][0]), done.err
    assert seen[0][1:] == ((tmp_path / "t.csv",), 0.3)
    assert deltafix(*ask, "--word-size", 32).code == 2
    (tmp_path / "t.csv").write_text("a\nx\n")
    wrong = deltafix(*ask)
    assert wrong.code == 2
    assert "t.csv:2: 'x' in column 'a' is no INTEGER" in wrong.err
