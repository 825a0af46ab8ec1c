"""`deltafix serve`: what it refuses, and that the address it prints answers."""

from __future__ import annotations

import socket
import subprocess
import sys

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
    monkeypatch.setattr("deltafix.cli.serve.find_spec", lambda name: None)
    done = deltafix("serve", folder / "program.dl", "-F", folder)
    assert done.code == 2
    assert "pip install 'deltafix[web]'" in done.err


def test_all_extras_that_a_script_of_sql_lacks_are_named_at_once(deltafix, tmp_path, monkeypatch):
    monkeypatch.setattr("deltafix.cli.serve.find_spec", lambda name: None)
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


def test_an_interrupt_as_the_files_begin_to_be_followed_leaves_no_thread(monkeypatch, warm_kernel):
    import threading
    from types import SimpleNamespace

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
            page.run(SimpleNamespace(poll=lambda: None), 0.01)
    started[0].join(10)
    assert not started[0].is_alive()


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
