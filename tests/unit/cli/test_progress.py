"""Progress: on a terminal while work is long, gone when it ends, and nowhere else."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.support.pipelines import Job

import deltafix
import deltafix.sql
from deltafix.cli import console
from deltafix.doing import heard, tell
from deltafix.engine.run import named_in
from deltafix.pipeline.augment import Additions, augment
from deltafix.pipeline.keyed import Keying
from deltafix.rules.tables import users_of
from deltafix.sql.program import program_of

# Appears sooner than for people, so that a test need not last.
DRIVER = (
    "import deltafix.cli.console as c; c.AFTER = 0.02; from deltafix.cli.main import main; main()"
)

PROGRAM = """\
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.printsize path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
SCRIPT = """\
CREATE TABLE edge(x INT, y INT);
CREATE VIEW path AS WITH RECURSIVE p(x, y) AS (
    SELECT x, y FROM edge UNION SELECT p.x, edge.y FROM p JOIN edge ON p.y = edge.x
) SELECT * FROM p WHERE x = 0 AND y > 1298;
INSERT INTO edge VALUES {};
"""
ESCAPE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")


def screen(written: str) -> list[str]:
    """What is on a terminal in the end."""
    lines, row = [""], 0
    for number, letter, start, down, text in ESCAPE.findall(written):
        if down:
            row += 1
            lines += [""] * (row == len(lines))
        elif text:
            lines[row] += text
        elif letter == "A":
            row -= int(number or 1)
        elif letter == "K":
            lines[row] = ""
        elif start:
            pass  # each line is erased before it is written anew
    return [line.rstrip() for line in lines if line.strip()]


def on_terminal(command: list[str]) -> tuple[str, str]:
    """Standard output, and all that came to the terminal on standard error."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=slave, text=True, env=environment
    ) as process:
        os.close(slave)
        assert process.stdout is not None
        kept: list[str] = []
        reader = threading.Thread(target=lambda: kept.append(process.stdout.read()))
        reader.start()
        written = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            written += piece
        reader.join()
        assert process.wait() == 0
    os.close(master)
    return kept[0], written.decode()


@pytest.fixture
def cases(tmp_path, warm_kernel):
    """By name: arguments of a long command, and what it says it is doing."""

    def make(name: str) -> tuple[list[str], str]:
        if name == "run":
            (tmp_path / "p.dl").write_text(PROGRAM)
            chain = "".join(f"{n}\t{n + 1}\n" for n in range(1200))
            (tmp_path / "edge.facts").write_text(chain)
            return ["run", f"{tmp_path}/p.dl", "-F", f"{tmp_path}"], "(stratum 2 of 2)"
        if name == "sql":
            chain = ", ".join(f"({n}, {n + 1})" for n in range(1300))
            (tmp_path / "s.sql").write_text(SCRIPT.format(chain))
            return ["sql", f"{tmp_path}/s.sql"], "INSERT INTO edge VALUES"
        if name == "analyse":
            tree = Path(deltafix.__file__).parent / "store"
            return ["analyse", "points-to", f"{tree}", "--view", "calls"], "evaluating"
        job = Job(tmp_path)
        job.say("member", *(("+", (f"t{n}", f"t{n + 1}")) for n in range(1300)))
        # Which of its short steps is drawn, ten times a second, is chance; the clock always is.
        return ["pipeline", "run", f"{job.toml}"], "0:00:0"

    return make


@pytest.mark.parametrize("name", ["run", "sql", "analyse", "pipeline"])
def test_long_work_is_told_on_a_terminal_and_nothing_of_it_stays(cases, name):
    arguments, said = cases(name)
    command = [sys.executable, "-c", DRIVER, *arguments]
    out, written = on_terminal(command)
    assert said in written
    assert "\x1b[?25h" in written.rpartition("\x1b[?25l")[2], "the cursor is there again"
    if name == "pipeline":  # what it did before is done
        again = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "nothing new" in again.stderr
        assert re.fullmatch(
            r"executor .*\nepoch 1: .*\nepoch 2: .*\n`deltafix pipeline replay .*",
            "\n".join(screen(written)),
        )
        return
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert out == piped.stdout
    assert out.strip()
    stays = re.compile(r"[\d.]+ s\b")  # a command may say how long it took
    assert [stays.sub("", line) for line in screen(written)] == [
        stays.sub("", line) for line in piped.stderr.splitlines()
    ]
    assert said not in piped.stderr
    assert "\x1b" not in piped.stderr


def test_churn_says_which_commit_of_how_many_it_is_at(tmp_path, warm_kernel):
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, "-C", tmp_path, *arguments], check=True, capture_output=True)

    git("init")
    for n in range(30):
        (tmp_path / "m.py").write_text(f"def f{n}():\n    pass\n")
        git("add", "--all")
        git("commit", "--message", f"{n}")
    arguments = ["churn", f"{tmp_path}", "HEAD~29..", "--sample", "1", "--format", "json"]
    out, written = on_terminal([sys.executable, "-c", DRIVER, *arguments])
    assert len(json.loads(out)["commits"]) == 29
    assert re.search(r"commit \d+ of 29", written)
    assert re.search(r"\d+%, 0:00:\d\d left", written)
    assert screen(written) == []


def test_quiet_shows_nothing_on_a_terminal(cases):
    arguments, _ = cases("run")
    out, written = on_terminal([sys.executable, "-c", DRIVER, *arguments, "--quiet"])
    assert out.strip()
    assert written == ""


class Terminal(io.StringIO):
    """Lets the test wait until something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Condition()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self.came:
            self.came.notify_all()
            return super().write(text)

    def wait_for(self, text: str) -> None:
        with self.came:
            assert self.came.wait_for(lambda: text in self.getvalue(), timeout=5)


def on_a(monkeypatch):
    """Standard error is such a terminal from here on; a fixture's would be pytest's by the call."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(console, "AFTER", 0.01)
    written = Terminal()
    monkeypatch.setattr("sys.stderr", written)
    return written


def test_what_is_told_takes_the_place_of_what_was_said_first(monkeypatch):
    terminal = on_a(monkeypatch)
    with console.progress("first"):
        terminal.wait_for("first")
        tell("second [with brackets]")
        terminal.wait_for("second [with brackets]")
        terminal.truncate(0)
        tell("")
        terminal.wait_for("first")
    assert screen(terminal.getvalue()) == []


def test_a_note_stands_where_progress_was(monkeypatch):
    terminal = on_a(monkeypatch)
    with console.progress("working"):
        terminal.wait_for("working")
        console.note("a note")
        terminal.truncate(0)
        terminal.wait_for("working")
    assert screen(terminal.getvalue()) == []
    terminal.truncate(0)
    with console.progress("working"):
        terminal.wait_for("working")
        console.note("a note")
    assert screen(terminal.getvalue()) == ["a note"]


def test_progress_inside_progress_draws_one_line(monkeypatch):
    terminal = on_a(monkeypatch)
    with console.progress("outer"):
        terminal.wait_for("outer")
        with console.progress("inner"):
            terminal.truncate(0)
            terminal.wait_for("inner")
            assert "outer" not in terminal.getvalue()
        terminal.wait_for("outer")
    assert screen(terminal.getvalue()) == []


def test_nothing_appears_while_it_is_hidden(monkeypatch):
    terminal = on_a(monkeypatch)
    with console.progress("working"):
        terminal.wait_for("working")
        with console.hidden():
            with console.hidden():
                pass
            terminal.truncate(0)
            told = threading.Event()
            threading.Timer(0.05, told.set).start()  # five times as long as it takes to appear
            assert told.wait(5)
            assert terminal.getvalue() == ""
        terminal.wait_for("working")


def test_what_is_counted_has_a_share_and_the_time_that_is_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    line = console._Line("counting")

    def left(seconds: float, done: int, of: int) -> str:
        now[0] += seconds
        line.say("a word", done, of)
        return line._left

    assert left(0, 0, 10) == ""
    assert left(2, 1, 10) == "10%, 0:00:18 left"
    assert left(0, 0, 0) == "10%, 0:00:18 left", "words alone change nothing about it"
    assert left(2, 4, 10) == "40%, 0:00:06 left"
    assert left(5, 10, 10) == "", "all is done"
    assert left(5, 5000, 9000) == "", "where it begins nothing is known"
    assert left(60, 6000, 9000) == "67%, 0:03:00 left", "from where it began"
    assert left(5, 0, 9000) == "", "from the start again"


def test_the_time_that_is_left_is_shown(monkeypatch):
    terminal = on_a(monkeypatch)
    with console.progress("counting"):
        tell("one", 0, 3)
        tell("two", 1, 3)
        terminal.wait_for("33%, 0:00:00 left")
        tell("done", 3, 3)
        terminal.truncate(0)
        terminal.wait_for("done")
        assert "left" not in terminal.getvalue()
    assert screen(terminal.getvalue()) == []


def test_an_error_takes_the_line_away(monkeypatch):
    terminal = on_a(monkeypatch)
    with pytest.raises(KeyboardInterrupt), console.progress("working"):
        terminal.wait_for("working")
        raise KeyboardInterrupt
    assert screen(terminal.getvalue()) == []


def test_tellers_are_heard_inside_the_block_alone():
    said = []
    tell("before")
    with heard(lambda *told: said.append(told)):
        tell("inside", 1, 3)
        with heard(lambda what, done, of: said.append(what.upper())):
            tell("deeper")
        tell("inside again")
    tell("after")
    assert said == [("inside", 1, 3), "DEEPER", ("inside again", 0, 0)]


def test_an_epoch_tells_relation_rows_and_stratum(warm_kernel, monkeypatch):
    monkeypatch.setattr("deltafix.engine.run.SLICE", 100)
    said = []
    with deltafix.connect(deltafix.Program.parse(PROGRAM)) as db:
        with heard(lambda what, done, of: said.append(what)), db.transaction() as tx:
            tx.insert("edge", [(n, n + 1) for n in range(60)])
        assert db.count("path") == 1830
    told = [re.fullmatch(r"path: ([\d,]+) rows \(stratum 2 of 2\)", one) for one in said if one]
    rows = [int(one[1].replace(",", "")) for one in told if one]
    assert len(rows) == len(told) > 3
    assert rows == sorted(rows)
    assert rows[-1] <= 1830
    assert said[-1] == ""


def test_an_epoch_tells_no_name_that_nobody_wrote(warm_kernel, monkeypatch):
    monkeypatch.setattr("deltafix.engine.run.SLICE", 100)
    said = []
    with deltafix.sql.connect() as db:
        db.execute(SCRIPT.partition("INSERT")[0].replace("1298", "0"))
        with heard(lambda what, done, of: said.append(what)):
            db.insert("edge", [(n, n + 1) for n in range(60)])
    told = [
        re.fullmatch(r"(for )?path: [\d,]+ rows \(stratum \d of \d\)", one) for one in said[1:-1]
    ]
    assert all(told), said
    assert len([one for one in told if one[1]]) > 3


VIEWS = """CREATE TABLE edge(x INTEGER, y INTEGER, PRIMARY KEY (x, y));
CREATE TABLE node(x INTEGER PRIMARY KEY, name TEXT);
CREATE VIEW path AS WITH RECURSIVE p(x, y) AS (
    SELECT x, y FROM edge UNION SELECT p.x, edge.y FROM p JOIN edge ON p.y = edge.x
) SELECT x, COUNT(*) AS n, AVG(y) AS m FROM p GROUP BY x;
CREATE VIEW alone AS SELECT DISTINCT a.x, (SELECT MAX(y) FROM edge e WHERE e.x = a.y) AS t
    FROM edge a LEFT JOIN node b ON a.y = b.x
    WHERE NOT EXISTS (SELECT 1 FROM path WHERE path.x = a.x);
"""
GROUPS = """.decl e(x: number, y: number)
.input e
.decl p(x: number, y: number)
.decl q(x: number)
.decl made__key(x: number)
p(x, y) :- e(x, y).
p(x, z) :- p(x, y), e(y, z).
q(x) :- e(x, _), !(e(x, 1), p(x, 2)), count : { p(x, _) } > 1.
made__key(x) :- q(x).
"""


@pytest.mark.parametrize(
    ("program", "wrote"),
    [
        (program_of(VIEWS), {"edge", "node", "path", "alone"}),
        (
            augment(program_of(VIEWS), Additions(("edge",), (), {"node": Keying(("x",))})),
            {"edge", "node", "path", "alone"},
        ),
        (deltafix.Program.parse(GROUPS), {"e", "p", "q", "made__key"}),
    ],
)
def test_each_stratum_is_named_by_what_somebody_wrote(program, wrote):
    with deltafix.connect(program, **users_of(program)) as db:
        plan = db.plan
    named = [named_in(plan, number) for number in range(len(plan.stages))]
    assert set().union(*named) == wrote
    assert len(named) > len(wrote)
    for stage, names in zip(plan.stages, named, strict=True):
        assert names == [one for one in stage.relations if one in wrote] or wrote.isdisjoint(
            stage.relations
        )
