"""Reaching definitions of C: by hand, against two other routes, and against runs of gcc's code."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numba
import pytest
from tests.judges import oracle
from tests.judges.c_flow import Facts, Programs, worklist

from deltafix.analyses.facts import Fragment
from deltafix.analyses.job import Job
from deltafix.analyses.reaching import REACHING
from deltafix.analyses.reaching.extract import FLOW_INPUTS, extract_flow

PROGRAM = REACHING.load_program()
NUMBA = Path(numba.__file__).parent


@pytest.fixture
def job() -> Iterator[Job]:
    with Job(REACHING) as made:
        yield made


def facts_of(*fragments: Fragment) -> Facts:
    facts: Facts = {}
    for one in fragments:
        assert one.error is None
        for relation, row in one.facts:
            facts.setdefault(relation, set()).add(row)
    return facts


def told(job: Job, text: str, view: str) -> list[str]:
    """The rows of a view for one file, steps as lines and variables by name."""
    one = extract_flow("m.c", text.encode())
    job.update([one])
    line = {place.symbol: str(place.line) for place in one.places if place.kind == "step"}
    return sorted(
        " ".join(line.get(str(cell), str(cell).rpartition("/")[2]) for cell in row)
        for row in job.rows(view)
    )


def body(*lines: str) -> str:
    """A function whose first line is line 2."""
    return "int f(int a, int b) {\n" + "\n".join(lines) + "\n}\n"


def test_the_program_declares_the_inputs_that_the_extractor_fills() -> None:
    assert PROGRAM.warnings == ()
    assert set(PROGRAM.names("input")) == set(FLOW_INPUTS)
    for name, columns in FLOW_INPUTS.items():
        assert tuple(a.name for a in PROGRAM.relation(name).attributes) == columns


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["a = 1;", "return a;"], ["3 a 2"]),
        (["if (b)", "a = 1;", "return a;"], ["2 b 1", "4 a 1", "4 a 3"]),
        (["if (b) a = 1;", "else a = 2;", "return a;"], ["2 b 1", "4 a 2", "4 a 3"]),
        (["while (a)", "a--;", "return a;"],
         ["2 a 1", "2 a 3", "3 a 1", "3 a 3", "4 a 1", "4 a 3"]),
        (["do", "a = 2;", "while (0);", "return a;"], ["5 a 3"]),
        (["for (;;) {", "a = 2; break; }", "return a;"], ["4 a 3"]),
        (["while (1)", "if (b) break;", "else a = 1;", "return a;"], ["3 b 1", "5 a 1", "5 a 4"]),
        (["for (;;)", "a = 2;", "return a;"], []),
        (["for (int i = 0;", "i < 9;", "i++) ;"], ["3 i 2", "3 i 4", "4 i 2", "4 i 4"]),
        (
            ["switch (b) { case 1: a = 1;", "case 2 ... 4: a = 2; break;", "case 9: a = 3;", "}",
             "return a;"],
            ["2 b 1", "6 a 1", "6 a 3", "6 a 4"],
        ),
        (["switch (b) { default:", "a = 1;", "}", "return a;"], ["2 b 1", "5 a 3"]),
        (["a = 2; goto out;", "a = 3;", "out:", "return a;"], ["5 a 2"]),
        (["a = 2; goto *b;", "x: a = 3;", "y: return a;"], ["2 b 1", "4 a 2", "4 a 3"]),
        (["b && (a = 1);", "return a;"], ["2 b 1", "3 a 1", "3 a 2"]),
        (["if (b || !(a = 1))", "return a;", "return a;"],
         ["2 b 1", "3 a 1", "3 a 2", "4 a 2"]),
        (["a = 1, b = a;", "return b;"], ["2 a 2", "3 b 2"]),
        (["return b ? (a = 1) :", "a;"], ["2 b 1", "3 a 1"]),
        (["{ int a = 5; a++; }", "return a;"], ["2 a 2", "3 a 1"]),
        (["#if X", "a = 1;", "#else", "a = 2;", "#endif", "return a;"], ["7 a 3", "7 a 5"]),
        (["#ifdef X", "a = 1;", "#endif", "return a;"], ["5 a 1", "5 a 3"]),
        (["return sizeof(a) + sizeof b;"], []),
        ([" CHECK(b)", "switch (b) { case 1: a = 1; }", "return a;"],
         ["2 b 1", "3 b 1", "3 b 2", "4 a 1", "4 a 3"]),
    ],
)  # fmt: skip
def test_definitions_reach_uses_along_the_flow(
    job: Job, lines: list[str], expected: list[str]
) -> None:
    rows = told(job, body(*lines), "reaches")
    assert sorted({row.replace("a#2", "a") for row in rows}) == expected


def test_writes_that_may_happen_let_earlier_values_pass(job: Job) -> None:
    text = body(
        "int *p = &a, t[4]; struct { int x; } s;",
        "*p = 1;",  # may write a, whose address is known, and never b
        "t[b] = 2;",
        "s.x = a;",
        "g();",
        "return a + b + t[0] + s.x;",
    )
    rows = told(job, text, "reaches")
    assert [row for row in rows if row.startswith("7 ")] == [
        "7 a 1", "7 a 3", "7 a 6",
        "7 b 1",
        "7 s 3", "7 s 5", "7 s 6",
        "7 t 3", "7 t 4", "7 t 6",
    ]  # fmt: skip


def test_globals_come_in_with_a_value_and_calls_may_change_them(job: Job) -> None:
    text = "static int s; int g; int f(void) {\ng = 1;\ncall();\nelsewhere = g;\nreturn s; }\n"
    rows = told(job, text, "reaches")
    assert rows == ["4 g 2", "4 g 3", "5 m.c:s 1", "5 m.c:s 3"]


def test_reads_without_a_value(job: Job) -> None:
    text = body(
        "int x, y, z, w; va_list l; T t; int v[3]; static int s;",
        "if (a) x = 1;",
        "y = x + z;",  # x perhaps, z surely
        "scanf(f, &w); va_start(l, b); init(t); SET(y);",
        "return y + w + s + t + v[0];",
    )
    assert told(job, text, "uninitialised") == ["m.c:f x 4", "m.c:f z 4"]
    text = body("for (;;) { int x;", "if (a) return x;", "x = 1; }")
    assert told(job, text, "uninitialised") == ["m.c:f x 3"]  # each round has a new x


def test_values_that_nobody_reads(job: Job) -> None:
    text = "int g; " + body(
        "int x = 0; volatile int v = 0; static int s; int *p = &b;",
        "x = 1;",
        "g = 2; s = 3; *p = x;",
        "x = 4;",
        "b = 5;",
        "v = 6; }",
        "int h(int unused) { return unread_macro(",
    )
    assert told(job, text.rpartition("int h")[0], "dead_store") == ["m.c:f x 2", "m.c:f x 5"]


def test_a_function_with_text_that_is_not_c_is_named_and_not_judged(job: Job) -> None:
    text = (
        "int f(int a) { int x = 1; else } @ ; return a; }\nint g(int b) { int y = b; return 0; }\n"
    )
    assert told(job, text, "unread") == ["m.c:f"]
    assert told(job, text, "dead_store") == ["m.c:g y 2"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"int f(void) {\0}", "a binary file: byte 13 is zero"),
        (b"\xff\xfe\xfd", "line 1: this is not C"),
        (b"Dear reader,\nthis is prose. It says nothing.\n", "line 1: this is not C"),
        (
            b"int f(void) { return " + b"(" * 500 + b"1" + b")" * 500 + b"; }",
            "line 1: nested deeper",
        ),
        (b"int f(void) {" + b"{" * 5000 + b"}" * 5000 + b"}", "line 1: nested deeper"),
    ],
)
def test_what_is_not_c_is_skipped_with_a_reason(job: Job, data: bytes, reason: str) -> None:
    job.update([extract_flow("m.c", body("return a;").encode())])
    before = job.rows("reaches")
    change = job.update([extract_flow("m.c", data)])
    assert change.unreadable["m.c"].startswith(reason)
    assert job.rows("reaches") == before != []


def test_what_says_nothing_and_what_is_odd_is_read() -> None:
    assert extract_flow("m.c", b"").facts == ()
    assert extract_flow("m.c", b"/* h\xe9 */ int g;").error is None
    old = extract_flow("m.c", b"int f(a, b) int a; char *b; { return a; }")
    assert ("uses", ("m.c:f@1", "m.c:f/a")) in old.facts
    old = extract_flow("m.c", b"char *\nf(a, b)\nint a; char *b;\n{ return b; }")
    assert ("uses", ("m.c:f@1", "m.c:f/b")) in old.facts
    commented = extract_flow("m.c", b"int g; char *f(a) char *a; /* why */ { return a; }")
    assert commented.facts == (("broken", ("m.c:f",)),)
    nested = b"int f(int a) { return " + b"(" * 90 + b"a" + b")" * 90 + b"; }"
    assert ("uses", ("m.c:f@1", "m.c:f/a")) in extract_flow("m.c", nested).facts
    sums = b"int f(int a) { return a" + b" + a" * 300 + b"; }"
    assert extract_flow("m.c", sums).error is None


def random_file(seed: int, functions: int = 3) -> str:
    return "\n".join(Programs(seed, functions).plain)


def test_random_edits_agree_with_the_worklist(job: Job) -> None:
    random = Random(5)
    tree: dict[str, Fragment] = {}
    for _ in range(40):
        path = random.choice(["a.c", "b.c", "c.h"])
        tree[path] = extract_flow(path, random_file(random.randrange(1000)).encode())
        job.update([tree[path]])
        assert set(job.rows("reaches")) == worklist(facts_of(*tree.values()))
    assert len(job.rows("reaches")) > 100
    assert job.update(tree.values()).came == dict.fromkeys(REACHING.views, ())
    gone = job.update([], list(tree))
    assert job.rows("reaches") == []
    assert len(gone.went["reaches"]) > 100


@pytest.mark.parametrize("edit", ["", "return b;", "b = a; goto out;", "if (a) *p = b++;"])
def test_the_rules_agree_with_the_naive_evaluator(job: Job, edit: str) -> None:
    text = body("int *p = &b, x;", "while (a--) {", edit, "x = a; }", "out: return b + x;")
    job.update([extract_flow("m.c", body("return a;").encode())])
    one = extract_flow("m.c", text.encode())
    job.update([one])
    judged = oracle.evaluate(PROGRAM, facts_of(one))
    assert {view: set(job.rows(view)) for view in REACHING.views} == {
        view: judged[view] for view in REACHING.views
    }
    assert judged["reaches"]


def test_what_reached_when_the_program_ran_is_in_the_answer(job: Job, tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    programs = Programs(seed=11, count=60)
    seen = programs.run(tmp_path, compiler)
    text = "\n".join(programs.plain)
    reached = {tuple(row.split()) for row in told(job, text, "reaches")}
    unset = {tuple(row.split()[1:]) for row in told(job, text, "uninitialised")}
    really = {(str(use), name, str(line)) for use, name, line in seen if line > 0}
    assert len(really) > 500
    assert really <= reached
    uses, writes = job.rows("uses"), job.rows("writes")
    inside = [(u, v) for u, v in uses for d, w in writes if w == v and d.split("@")[0] in u]
    assert len(job.rows("reaches")) < len(inside) / 2  # and not everything
    private = {str(row[1]).rpartition("/")[2] for row in job.rows("private")}
    empty = {(name, str(use)) for use, name, line in seen if line < 0 and name in private - {"b"}}
    assert len(empty) > 20
    assert {(n, u) for n, u in empty if n == "d"} <= unset


def numba_sources() -> list[Fragment]:
    found = sorted(p for s in ("*.c", "*.h") for p in NUMBA.rglob(s))
    return [extract_flow(str(p.relative_to(NUMBA)), p.read_bytes()) for p in found]


def test_the_c_sources_of_numba(job: Job) -> None:
    """Facts found by reading `cext/listobject.c` and `_dynfunc.c`, and the cost of one edit."""
    read = numba_sources()
    first = job.update(read)
    assert len(job.rows("unread")) <= 10
    assert first.work.touched > 100_000
    stores = {(row[0], row[1]) for row in job.rows("dead_store")}
    assert ("_dynfunc.c:dup_string", "_dynfunc.c:dup_string/tmp") in stores  # = NULL, then a call
    assert set(job.rows("reaches")) == worklist(facts_of(*(f for f in read if f.error is None)))
    path = "cext/listobject.c"
    source = (NUMBA / path).read_bytes()
    edited = source.replace(b"    return lp->size;", b"    int n = lp->size; return n;", 1)
    change = job.update([extract_flow(path, edited)])
    length = f"{path}:numba_list_length"
    assert change.came["reaches"] == ((f"{length}@2", f"{length}/n", f"{length}@1"),)
    assert change.went["reaches"] == ()
    assert change.work.touched < first.work.touched / 1000
    back = job.update([extract_flow(path, source)])
    assert (back.came["reaches"], back.went["reaches"]) == (
        change.went["reaches"], change.came["reaches"],
    )  # fmt: skip
    moved = job.update([extract_flow(path, b"\n\n" + source)])
    assert moved.work.touched == 0
