"""Points-to of C: by hand, against Andersen's worklist, and against what pointers really held."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numba
import pytest
from tests.judges import oracle
from tests.judges.c_pointers import Andersen, Facts, Heaps

from deltafix.analyses.c_points_to import C_POINTS_TO
from deltafix.analyses.facts import Fragment
from deltafix.analyses.job import Job

PROGRAM = C_POINTS_TO.load_program()
NUMBA = Path(numba.__file__).parent


@pytest.fixture
def job() -> Iterator[Job]:
    with Job(C_POINTS_TO) as made:
        yield made


def fragment(path: str, text: str | bytes) -> Fragment:
    return C_POINTS_TO.extract(path, text if isinstance(text, bytes) else text.encode(), "")


def facts_of(*fragments: Fragment) -> Facts:
    facts: Facts = {}
    for relation, row in (*C_POINTS_TO.tables, *(fact for one in fragments for fact in one.facts)):
        facts.setdefault(relation, set()).add(row)
    return facts


def told(job: Job, *texts: str) -> set[str]:
    """The rows of points_to for files m.c, n.c, ..., locals by their names alone."""
    job.update([fragment(f"{name}.c", text) for name, text in zip("mno", texts, strict=False)])
    short = lambda symbol: symbol.rpartition("/")[2].removeprefix("m.c:")  # noqa: E731
    return {f"{short(str(p))} {short(str(o))}" for p, o in job.rows("points_to")}


def test_the_program_declares_the_inputs_that_files_and_the_library_fill() -> None:
    assert PROGRAM.warnings == ()
    assert set(PROGRAM.names("input")) == set(C_POINTS_TO.inputs)
    for name, columns in C_POINTS_TO.inputs.items():
        assert tuple(a.name for a in PROGRAM.relation(name).attributes) == columns


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("int *p = &x; int *q; q = p;", ["p x", "q x"]),
        ("int *p = &x; int **q = &p; int *r = *q; *q = &y;", ["p x", "p y", "q p", "r x", "r y"]),
        ("int *a[2] = {&x, &y}, **p = a, *q = a[1];", ["a x", "a y", "p a", "q x", "q y"]),
        ("int *a[2][2]; a[1][0] = &x; int *p = a[0][1];", ["a x", "p x"]),
        ("S s; s.a = &x; s.b = &y; int *p = s.a;", ["p x", "s.a x", "s.b y"]),
        ("S s, *p = &s; p->b = &y; int *q = s.b;", ["p s", "q y", "s.b y"]),
        ("S s; int **p = &s.a; *p = &x; int *q = s.a, *r = s.b;", ["p s.a", "q x", "s.a x"]),
        ("S s = {.b = &y}, t = s; int *p = t.b, *q = t.a;", ["p y", "s.b y", "t.b y"]),
        ("S s, t; s.a = &x; S *p = &s, *q = &t; *q = *p;",
         ["p s", "q t", "s.a x", "t.a x"]),
        ("S s; s.in.c = &x; int *p = s.in.c;", ["p x", "s.c x"]),
        ("S s, t; s.in.c = &x; t.in = s.in; int *p = t.in.c;", ["p x", "s.c x", "t.c x"]),
        ("S s; struct in *i = &s.in; i->c = &x; S *p = (S *)((char *)i - 8); int *q = p->in.c;",
         ["i s.in", "p s.in", "q x", "s.c x"]),
        ("S s; s.rows[1][2] = &x; int *p = s.rows[0][0];",
         ["p x", "p s.rows", "s.rows x", "x x"]),  # rows are not told from their elements
        ("S s; s.arr[1] = &x; int **p = s.arr, *q = *p;", ["p s.arr", "q x", "s.arr x"]),
        ("union { int *i; struct { char *c; } n; } u; u.i = &x; char *p = u.n.c;",
         ["p x", "u.c x", "u.i x"]),
        ("int *p = x ? &x : &y; int *q = (0, p + 1); long r = (long) p; int *s = (int *) r;",
         ["p x", "p y", "q x", "q y", "r x", "r y", "s x", "s y"]),
        ("int *p = malloc(4), **q = malloc(8); *q = p;",
         ["p f@malloc#1", "q f@malloc#2", "f@malloc#2 f@malloc#1"]),
        ("S *p = malloc(9), *q = realloc(p, 99); q->a = &x;",
         ["p f@malloc#1", "q f@malloc#1", "q f@realloc#1", "f@malloc#1.a x", "f@realloc#1.a x"]),
        ('char *p = "one", q[] = "two", *r = strchr(p, 1);',
         ["p f@string#1", "r f@string#1"]),
        ("S s, t; s.a = &x; memcpy(&t, &s, sizeof s);", ["s.a x", "t.a x"]),
        ("int *p = ({ int *r = &x; r; });", ["p x", "r x"]),
        ("struct in *p = &(struct in){.c = &x}; int *q = p->c;", ["p f@literal#1", "q x"]),
        ("int n = 3, *p = &n; n = (int) p;", ["p n"]),
        ("#ifdef A\nint *p = &x;\n#else\nint *p = &y;\n#endif\nint *q = p;",
         ["p x", "p#2 y", "q y"]),
        ("for (int *p = &x; p; p++) { int *q = p; { int *q = &y; } }", ["p x", "q x", "q#2 y"]),
    ],
)  # fmt: skip
def test_statements_point_where_they_should(job: Job, body: str, expected: list[str]) -> None:
    types = "struct in { int *c; };\n"
    types += (
        "typedef struct { int *a, *b; struct in in; int *arr[4], *rows[2][3]; } S;\nint x, y;\n"
    )
    found = told(job, types + "void f(void) {\n" + body + "\n}\n")
    assert found == set(expected)


def test_calls_by_name_and_through_pointers_carry_arguments_and_results(job: Job) -> None:
    text = """
    int x, y, z;
    static int *id(int *p) { return p; }
    int *other(int *p) { return &z; }
    struct ops { int *(*run)(int *); } ops = { .run = id }, *all[] = { &ops };
    int *(*choose)(int *);
    void f(void) {
        int *a = id(&x);
        choose = other;
        int *b = (*choose)(&y);
        int *c = all[0]->run(&y);
        int *d = unknown(&x);
    }
    """
    found = told(job, text)
    assert {"a x", "a y", "b z", "c x", "c y", "p x", "p y", "choose other"} <= found
    assert not {"b x", "b y", "a z"} & found
    assert not [one for one in found if one.startswith("d ")]
    assert job.rows("calls") == [("f", "m.c:id"), ("f", "other")]


def test_the_library_calls_back(job: Job) -> None:
    text = """
    int *t[3], x; struct job { int *in; } j;
    int less(const void *a, const void *b) { return 0; }
    void *work(void *given) { struct job *mine = given; return mine->in; }
    void bye(void) { t[0] = &x; }
    void f(void) {
        qsort(t, 3, sizeof *t, less);
        pthread_create(0, 0, work, &j);
        atexit(bye);
    }
    """
    found = told(job, text)
    assert {"a t", "b t", "given j", "mine j", "t x"} <= found
    assert job.rows("calls") == [("f", "bye"), ("f", "less"), ("f", "work")]


def test_names_with_external_linkage_meet_and_others_do_not(job: Job) -> None:
    one = "int shared; static int own; int *p = &shared; static int *q = &own; int *many[2];"
    two = """
    static int own;
    void f(void) { int *a = p, *b = q, **c = many; g = handler; static int *q = &own; *c = a; }
    """
    three = "int *q = 0; void handler(void) { } void (*g)(void); void h(void) { g(); many[0] = q; }"
    found = told(job, one, two, three)
    assert {"p shared", "q own", "a shared", "c many", "g handler", "many shared"} <= found
    assert not [row for row in found if row.startswith("b ")]
    assert ("n.c:f/q", "n.c:own") in job.rows("points_to")
    assert job.rows("calls") == [("h", "handler")]


def test_what_is_static_in_a_header_is_shared_by_name(job: Job) -> None:
    job.update(
        [
            fragment("u.h", "static inline int *first(int *p) { return p; }"),
            fragment("m.c", '#include "u.h"\nint x; void f(void) { int *q = first(&x); }'),
        ]
    )
    assert ("m.c:f/q", "x") in job.rows("points_to")
    assert job.rows("calls") == [("f", "first")]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("int *a; void (*f)(void);", {"t.a x", "t.f g", "p x"}),
        ("int *a; void (*f)(void); int n[2];", {"t.? x", "t.? g", "p x", "p g"}),  # no braces
        ("HEAD(x) int *a; void (*f)(void);", {"t.? x", "t.? g", "p x", "p g"}),
    ],
)
def test_an_initialiser_by_position_is_a_field_if_the_tree_says_which(
    job: Job, fields: str, expected: set[str]
) -> None:
    text = "int x; void g(void) { } struct s t[] = { { &x, g } };"
    text += " void f(void) { int *p = t[0].a; t[0].f(); }"
    assert told(job, text, f"struct s {{ {fields} }};") == expected
    assert job.rows("calls") == [("f", "g")]
    told(job, text, "struct s;")
    assert ("t.?", "x") in job.rows("points_to")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"int *p;\0", "a binary file: byte 7 is zero"),
        (b"\xff\xfe", "line 1: this is not C"),
        (b"int *p = " + b"(" * 5000 + b"0" + b")" * 5000 + b";", "line 1: nested deeper"),
    ],
)
def test_what_is_not_c_is_skipped_with_a_reason(job: Job, data: bytes, reason: str) -> None:
    assert "p x" in told(job, "int x, *p = &x;")
    change = job.update([fragment("m.c", data)])
    assert change.unreadable["m.c"].startswith(reason)
    assert job.rows("points_to") == [("p", "x")]


def test_a_function_with_text_that_is_not_c_is_named(job: Job) -> None:
    text = "int x; void f(void) { int *p = &x; else } @ ; } void g(void) { int *q = &x; }"
    found = told(job, text)
    assert {"p x", "q x"} <= found
    assert job.rows("unread") == [("m.c:f",)]


def test_random_edits_agree_with_the_worklist(job: Job) -> None:
    random = Random(3)
    tree: dict[str, Fragment] = {}
    for _ in range(16):
        path = random.choice(["m.c", "n.c"])
        tree[path] = fragment(path, Heaps(random.randrange(1000), 2, 8).plain)
        job.update([tree[path]])
        assert set(job.rows("points_to")) == Andersen(facts_of(*tree.values())).points_to()
    assert len(job.rows("points_to")) > 50
    assert job.update(tree.values()).came == dict.fromkeys(C_POINTS_TO.views, ())
    assert job.update([], list(tree)).went["points_to"]
    assert job.rows("points_to") == []


def test_the_rules_agree_with_the_naive_evaluator(job: Job) -> None:
    text = "int x; int *id(int *p) { return p; } struct s { int *a; } s;"
    text += "void f(void) { struct s *q = &s; q->a = &x; int *(*g)(int *) = id; int *r = g(q->a); }"
    one = fragment("m.c", text)
    job.update([one])
    judged = oracle.evaluate(PROGRAM, facts_of(one))
    assert {view: set(job.rows(view)) for view in C_POINTS_TO.views} == {
        view: judged[view] for view in C_POINTS_TO.views
    }
    assert judged["calls"] == {("f", "id")}


@pytest.mark.parametrize("seed", range(4))
def test_what_pointers_held_when_the_program_ran_is_in_the_answer(
    job: Job, tmp_path: Path, seed: int
) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    program = Heaps(seed, functions=3)
    seen = program.run(tmp_path, compiler)
    job.update([fragment("m.c", program.plain)])
    answer = set(job.rows("points_to"))
    assert len(seen) > 30
    assert seen <= answer
    assert len(answer) < 6 * len(seen)


def test_the_c_sources_of_numba(job: Job) -> None:
    """Facts found by reading `cext/dictobject.c` and `_helperlib.c`, and the cost of one edit."""
    found = sorted(p for s in ("*.c", "*.h") for p in NUMBA.rglob(s))
    read = [fragment(str(p.relative_to(NUMBA)), p.read_bytes()) for p in found]
    first = job.update(read)
    assert (
        set(job.rows("points_to"))
        == Andersen(facts_of(*(one for one in read if one.error is None))).points_to()
    )
    calls = set(job.rows("calls"))
    assert ("numba_dict_insert", "numba_dict_lookup") in calls
    assert ("numba_dict_insert_ez", "numba_dict_insert") in calls
    path = "cext/dictobject.c"
    rows = set(job.rows("points_to"))
    assert {o for p, o in rows if p == f"{path}:numba_dict_new/d"}
    source = (NUMBA / path).read_bytes()
    edited = source.replace(b"return d->used;", b"numba_dict_free(d); return d->used;", 1)
    change = job.update([fragment(path, edited)])
    assert change.came["calls"] == (("numba_dict_length", "numba_dict_free"),)
    assert change.work.touched < first.work.touched / 50
    back = job.update([fragment(path, source)])
    assert (back.came["calls"], back.went["calls"]) == (change.went["calls"], change.came["calls"])
    assert job.update([fragment(path, b"\n\n" + source)]).work.touched == 0
