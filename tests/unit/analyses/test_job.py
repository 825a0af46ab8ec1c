"""The job: files in and out, and exactly what became dead or alive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.judges import dead_code_oracle

from deltafix.analyses.dead_code.extract import extract
from deltafix.analyses.dead_code.findings import Confidence, Finding
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.facts import Fragment
from deltafix.engine.transaction import Transaction
from deltafix.errors import FactError, OperatorError

MAIN = 'if __name__ == "__main__": '


@pytest.fixture
def job() -> Iterator[DeadCode]:
    with DeadCode(roots=["entry-points"], confidence="likely") as made:
        yield made


@pytest.fixture
def guess() -> Iterator[DeadCode]:
    """A job that tells a library from an application."""
    with DeadCode(confidence="likely") as made:
        yield made


def fragments(**sources: str) -> list[Fragment]:
    """Fragments of modules given by name."""
    return [extract(f"{name}.py", text.encode()) for name, text in sources.items()]


def names(findings: tuple[Finding, ...] | list[Finding]) -> list[str]:
    return [finding.symbol for finding in findings]


def test_removing_a_call_buries_what_only_it_needed(job: DeadCode) -> None:
    lib = "def f(): return g()\ndef g(): return h()\ndef h(): ...\ndef k(): return h()"
    job.update(fragments(lib=lib, main=f"import lib\n{MAIN}lib.f(); lib.k()"))
    assert job.dead() == []

    change = job.update(fragments(main=f"import lib\n{MAIN}lib.k()"))
    assert names(change.became_dead) == ["lib:f", "lib:g"]  # not h: k still needs it
    assert change.became_alive == ()
    # The one fact that went is the reference; the candidate import of lib.f went with it.
    assert (change.work.facts_removed, change.work.facts_added) == (2, 0)
    assert change.work.touched < job.fact_count

    change = job.update(fragments(main=f"import lib\n{MAIN}lib.f(); lib.k()"))
    assert names(change.became_alive) == ["lib:f", "lib:g"]
    assert (change.became_dead, change.gone) == ((), ())
    job.check_invariants()


def test_a_cycle_that_loses_its_root_dies(job: DeadCode) -> None:
    cycle = "def a(): b()\ndef b(): c()\ndef c(): a()"
    job.update(fragments(lib=cycle, main=f"import lib\n{MAIN}lib.b()"))
    assert job.dead() == []
    change = job.update(fragments(main=f"import lib\n{MAIN}pass"))
    assert names(change.became_dead) == ["lib:a", "lib:b", "lib:c"]


def test_a_fact_that_two_files_state_survives_the_loss_of_one(job: DeadCode) -> None:
    # src/m.py and m.py are both module m, and both say that m is alive and refers to lib.f.
    main = f"import lib\n{MAIN}lib.f()"
    both = [extract("src/m.py", main.encode()), extract("m.py", main.encode())]
    job.update([*fragments(lib="def f(): ..."), *both])
    assert job.dead() == []

    change = job.update([], ["src/m.py"])
    assert (change.became_dead, change.work.facts_added) == ((), 0)
    assert change.work.facts_removed > 0  # what only src/m.py said: that it is importable as src.m
    job.check_invariants()

    change = job.update([], ["m.py"])
    assert names(change.became_dead) == ["lib", "lib:f"]
    job.check_invariants()


def test_a_deleted_file_takes_its_dead_symbols_along(job: DeadCode) -> None:
    job.update(fragments(a="def f(): ...", b=f"import a\n{MAIN}a.f()", c="def lost(): ..."))
    assert names(job.dead()) == ["c", "c:lost"]
    change = job.update([], ["c.py"])
    assert change.gone == ("c", "c:lost")
    assert (change.became_alive, job.dead()) == ((), [])
    change = job.update([], ["b.py"])
    assert names(change.became_dead) == ["a", "a:f"]
    assert job.paths == ["a.py"]


def test_a_renamed_file_moves_its_findings(job: DeadCode) -> None:
    body = "def unused(): ...\n" + MAIN + "pass"
    job.update(fragments(old=body))
    change = job.update(fragments(new=body), ["old.py"])
    assert names(change.became_dead) == ["new:unused"]
    assert change.gone == ("old:unused",)
    assert [(f.path, f.line) for f in job.dead()] == [("new.py", 1)]


def test_a_file_that_breaks_keeps_its_facts_until_it_is_whole_again(job: DeadCode) -> None:
    job.update(fragments(lib="def f(): ...", main=f"import lib\n{MAIN}lib.f()"))
    change = job.update(fragments(main="def broken(:"))
    assert list(change.unreadable) == ["main.py"]
    assert (change.work.facts_added, change.work.facts_removed, change.work.touched) == (0, 0, 0)
    assert job.dead() == []
    assert job.errors == {"main.py": "line 1: invalid syntax"}
    assert len(job.notes()) == 1

    change = job.update(fragments(main=MAIN + "pass"))
    assert names(change.became_dead) == ["lib", "lib:f"]
    assert job.errors == {}

    job.update(fragments(main="def broken(:"))
    job.update([], ["main.py"])
    assert (job.errors, job.paths) == ({}, ["lib.py"])


@pytest.fixture
def sure() -> Iterator[DeadCode]:
    """A job that tells sure findings alone."""
    with DeadCode(roots=["entry-points"]) as made:
        yield made


def test_what_an_unread_file_names_is_not_sure_to_be_dead(sure: DeadCode) -> None:
    job = sure
    shop = "def _a(): _b()\ndef _b(): ...\ndef _c(): ...\n"
    job.update(fragments(shop=shop, main=f"import shop\n{MAIN}pass", test="def test(_a:"))
    job.check_invariants()
    assert names(job.dead()) == ["shop:_c"]
    change = job.update(fragments(test="def test(_c:"))
    job.check_invariants()
    assert names(change.became_dead) == ["shop:_a", "shop:_b"]
    assert names(job.dead()) == ["shop:_a", "shop:_b"]
    # Once it can be read, what it says counts, and stays when it breaks again.
    job.update(fragments(test="from shop import _b\ndef test(): _b()\ntest()\n"))
    job.check_invariants()
    assert "shop:_b" not in names(job.dead())
    before = job.dead()
    assert job.update(fragments(test="def test(_a:")).work.facts_added == 0
    job.check_invariants()
    assert job.dead() == before
    job.update((), ["test.py"])
    job.check_invariants()
    assert names(job.dead()) == ["shop:_a", "shop:_b", "shop:_c"]
    job.update(fragments(test="def test(_c:"))
    job.update((), ["test.py"])
    job.check_invariants()
    assert names(job.dead()) == ["shop:_a", "shop:_b", "shop:_c"]


def test_a_broken_file_does_not_stop_the_others(job: DeadCode) -> None:
    job.update(fragments(bad="\x00", lib="def f(): ...", main=f"import lib\n{MAIN}lib.f()"))
    assert (list(job.errors), job.paths) == (["bad.py"], ["lib.py", "main.py"])
    assert job.dead() == []


def test_moving_code_within_a_file_changes_no_fact(job: DeadCode) -> None:
    job.update(fragments(m="def f(): ...\n" + MAIN + "pass"))
    change = job.update(fragments(m="\n\n\ndef f(): ...\n" + MAIN + "pass"))
    assert (change.work.facts_added, change.work.facts_removed, change.became_dead) == (0, 0, ())
    assert [finding.line for finding in job.dead()] == [4]


def test_a_symbol_defined_twice_in_a_file_is_found_at_its_first_line(job: DeadCode) -> None:
    twice = "if x:\n    def f(): ...\nelse:\n    def f(): ...\n"
    for source in (twice, "\n" + twice, "def f(): ...\n"):
        job.update(fragments(m=source + MAIN + "pass"))
        job.check_invariants()
        assert names(job.dead()) == ["m:f"]
    assert job.dead()[0].line == 1


def test_saving_without_a_change_does_nothing(job: DeadCode) -> None:
    sources = {"m": "def f(): ...\n" + MAIN + "pass"}
    job.update(fragments(**sources))
    change = job.update(fragments(**sources))
    assert replace(change.work, seconds=0.0, files=0) == replace(
        change.work, files=0, facts_added=0, facts_removed=0, touched=0, seconds=0.0
    )


def test_an_update_that_fails_leaves_everything_as_it_was(
    job: DeadCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.update(fragments(lib="def f(): ...", main=f"import lib\n{MAIN}lib.f()"))

    def refuse(*_: object) -> None:
        raise FactError("no")

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "insert", refuse)
        with pytest.raises(OperatorError, match="no"):
            job.update(fragments(main="pass", new="def g(): ..."), ["lib.py"])
    assert job.paths == ["lib.py", "main.py"]
    assert job.dead() == []
    job.check_invariants()


def test_roots_by_pattern_and_by_policy() -> None:
    tree = fragments(a="def f(): g()\ndef g(): ...\ndef _h(): ...", b="def x(): ...")
    with DeadCode(roots=["a:f"], confidence="likely") as job:
        job.update(tree)
        assert names(job.dead()) == ["a:_h", "b", "b:x"]
    with DeadCode(roots=["public"], confidence="likely") as job:
        job.update(tree)
        assert names(job.dead()) == ["a:_h"]
    with DeadCode(roots=["a:*", "b*"], confidence="likely") as job:
        job.update(tree)
        assert job.dead() == []


def test_a_pattern_that_fits_no_symbol_is_noted() -> None:
    with DeadCode(roots=["a:f", "app.task:*"]) as job:
        job.update(fragments(a="def f(): ..."))
        assert job.notes() == ("--roots app.task:* fits no symbol; one is called 'a:f'",)
        job.update([extract("app/task.py", b"def g(): ...")])
        assert job.notes() == ()


SCRIPT = '[project.scripts]\np = "p.m:run"\n'
PUBLIC = "def run(): ...\ndef spare(): ...\ndef _own(): ...\n"


@pytest.mark.parametrize(
    ("files", "kind", "dead"),
    [
        ({"p/m.py": PUBLIC}, "library", ["p.m:_own"]),
        ({"src/p/m.py": PUBLIC, "tests/h.py": MAIN + "1"}, "library", ["p.m:_own"]),
        ({"p/m.py": PUBLIC, "pyproject.toml": SCRIPT}, "application", ["p.m:spare", "p.m:_own"]),
        (
            {"p/m.py": PUBLIC, "p-1.dist-info/entry_points.txt": "[console_scripts]\nx = p.m:run"},
            "application",
            ["p.m:spare", "p.m:_own"],
        ),
        (
            {"p/m.py": PUBLIC, "p-1.dist-info/entry_points.txt": "[plugins]\nx:y = p.m:_own"},
            "library",
            [],
        ),
        (
            {"p/__init__.py": "from .m import run", "p/m.py": PUBLIC, "pyproject.toml": SCRIPT},
            "library",
            ["p.m:_own"],
        ),
        (
            {"p/__init__.py": "", "p/m.py": PUBLIC, "p/__main__.py": "from .m import run; run()"},
            "application",
            ["p.m:spare", "p.m:_own"],
        ),
        (
            {
                "p/__init__.py": "from .m import run",
                "p/m.py": PUBLIC,
                "manage.py": f"import p\n{MAIN}p.run()",
            },
            "application",
            ["p.m:spare", "p.m:_own"],
        ),
        (
            {
                "p/__init__.py": "from .m import run",
                "p/m.py": PUBLIC,
                "manage.py": f"import p\n{MAIN}p.run()",
                "pyproject.toml": "[build-system]\nrequires = []",
            },
            "library",
            ["p.m:_own"],
        ),
        (
            {
                "p/m.py": PUBLIC,
                "../setup.py": "setup(entry_points={'console_scripts': ['p = p.m:_own']})",
            },
            "application",
            ["p.m:run", "p.m:spare"],
        ),
        (
            {"p/m.py": "", "p/__about__.py": "version = 1\n_own = 2\n", "p/_in.py": "x = 1"},
            "library",
            ["p.__about__:_own", "p._in", "p._in:x"],
        ),
        (  # what builds a distribution is offered to nobody, and is not dead
            {
                "p/m.py": PUBLIC,
                "back/__init__.py": "def build_wheel(): ...\ndef _own(): ...\n",
                "pyproject.toml": f'{SCRIPT}[build-system]\nbackend-path = ["./back"]\n',
            },
            "application",
            ["back:_own", "p.m:spare", "p.m:_own"],
        ),
        (  # alembic's, in a folder that is no package below one that is
            {"p/m.py": PUBLIC, "p/db/migrations/env.py": "def go(): ...\ngo()\n"},
            "library",
            ["p.m:_own"],
        ),
        (
            {"p/m.py": PUBLIC, "tool.py": "def go(): ...\ngo()\n"},
            "application",
            ["p", "p.m", "p.m:run", "p.m:spare", "p.m:_own"],
        ),
    ],
)
def test_a_library_is_told_from_an_application(
    guess: DeadCode, files: dict[str, str], kind: str, dead: list[str]
) -> None:
    package = {"p/__init__.py": "", **files}
    read = [extract(path, text.encode()) for path, text in package.items()]
    guess.update(read)
    found = guess.assumption()
    assert found is not None
    assert (found.kind, names(guess.dead())) == (kind, dead)
    guess.update([], [one.path for one in read[1:]])
    guess.update(read[1:])
    assert (guess.assumption(), names(guess.dead())) == (found, dead)
    guess.check_invariants()


def test_too_much_that_is_dead_and_a_renamed_folder_are_noted(guess: DeadCode) -> None:
    modules = {f"new/m{n}.py": f"def a{n}(): ...\ndef b{n}(): ...\n" for n in range(9)}
    start = "".join(f"from old.m{n} import a{n}\n" for n in range(9)) + MAIN + "a1()"
    guess.update([extract(path, text.encode()) for path, text in modules.items()])
    assert guess.notes() == ()  # a library
    guess.update([extract("new/__main__.py", start.encode())])
    renamed, share = guess.notes()
    assert renamed.startswith("9 imports name modules of old, which is not here, and fit new:")
    relative = "from . import m8\n" + start
    guess.update([extract("new/__main__.py", relative.encode())])
    assert guess.notes()[0] == renamed
    shared = "".join(f"from new.m{n} import b{n}\n" for n in range(4))
    guess.update([extract("new/__main__.py", (shared + start).encode())])
    assert not any("renamed" in note for note in guess.notes())
    guess.update([extract("new/__main__.py", start.encode())])
    assert share.startswith("96% of the symbols are dead")
    assert "--roots public" in share
    guess.update([extract("new/__main__.py", start.replace("old.", "new.").encode())])
    assert not any("renamed" in note for note in guess.notes())


def test_decorators_that_the_user_knows_to_be_pure() -> None:
    tree = fragments(a="import lib\n@lib.timed\ndef f(): ...\n" + MAIN + "pass")
    with DeadCode() as job:
        job.update(tree)
        assert job.dead() == []
    with DeadCode(pure_decorators=["lib.timed"], confidence="likely") as job:
        job.update(tree)
        assert names(job.dead()) == ["a:f"]


def test_why_gives_the_chain_of_the_present_state(job: DeadCode) -> None:
    job.update(
        fragments(lib="def f(): return g()\ndef g(): ...", main=f"import lib\n{MAIN}lib.f()")
    )
    chain = [step.symbol for step in job.explainer().chain("lib:g")]
    assert chain == ["main", "lib:f", "lib:g"]
    assert set(job.explainer().steps) == {row[0] for row in job.rows("alive")}
    job.update(fragments(main=MAIN + "pass"))
    assert job.explainer().chain("lib:g") == []


def test_what_is_told_follows_how_sure_it_is() -> None:
    lib = "def f(): g()\ndef g(): ...\n"
    with DeadCode() as sure, DeadCode(confidence="likely") as likely:

        def save(**sources: str) -> list[tuple[list[str], ...]]:
            """What died, rose and changed its confidence, as both tell it."""
            found = [job.update(fragments(**sources)) for job in (sure, likely)]
            for job in (sure, likely):
                job.check_invariants()
            assert all(one.gone == () for one in found)
            return [
                tuple(map(names, (one.became_dead, one.became_alive, one.confidence_changed)))
                for one in found
            ]

        save(lib=lib, main=f"import lib\n{MAIN}lib.f()")
        both, none = ["lib:f", "lib:g"], []
        assert save(main=f"import lib\n{MAIN}1") == [(both, none, none)] * 2
        # A text says f, and what may be alive refers to g.
        assert save(main=f"import lib\n{MAIN}print('f')") == [(none, none, both)] * 2
        assert (names(sure.dead()), sure.left_out) == ([], 2)
        assert [(one.symbol, one.doubt) for one in likely.dead()] == [
            ("lib:f", "its name is written in main"),
            ("lib:g", "what may be alive refers to it"),
        ]
        assert likely.left_out == 0
        told = save(main=f"import lib\n{MAIN}print('x')")
        assert told == [(both, none, none), (none, none, both)]
        assert save(main=f"import lib\n{MAIN}lib.f()") == [(none, both, none)] * 2


LINES = (
    "import a", "import b", "from a import f", "from b import f as g", "from . import c",
    "from c import *", "def f(): g()", "def g(): a.f()", "def h(): h()", "x = [f, g]",
    "class K(a.K):\n    def f(self): self.m()\n    def m(self): ...", "class K:\n    x = f",
    "b.g()", "x.m()", "__all__ = ['f', 'K']", MAIN + "g()", "getattr(x, 'h')", "def broken(:",
    "@a.f\ndef r(): g()", "def k(): return globals()", "import c as a",
    "import_module(f'c.{x}')", "import_module('.d' + x, __name__)", "list(iter_modules(__path__))",
    "def n(): return getattr(import_module('c.d_%s' % x), y)", "n()", "print('f', f'{x}_h')",
    "def test_x(): h()", "from c import test_g",
    "# see `g`", "class _P:\n    def _q(self): _r()\ndef _r(): ...", "import_module(x)",
)  # fmt: skip

FILES = (
    "a.py",
    "b.py",
    "c.py",
    "c/__init__.py",
    "c/d_e.py",
    "c/f.py",
    "c/test_g.py",
    "tests/test_h.py",
)

sources_ = st.lists(st.sampled_from(LINES), max_size=5).map("\n".join)
edits = st.lists(
    st.tuples(st.sampled_from(FILES), st.none() | sources_),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40)
@given(edits, st.booleans(), st.sampled_from(["sure", "likely"]))
@example(
    [
        ("c/d_e.py", ""),
        ("a.py", MAIN + "g()"),
        ("c/__init__.py", "import_module(f'c.{x}')"),
    ],
    False,
    "sure",
)
def test_oracle_after_random_edits_every_view_equals_recomputation(
    script: list[tuple[str, str | None]], tests: bool, confidence: Confidence
) -> None:
    tree: dict[str, str] = {}
    words: dict[str, list[Any]] = {}  # of files that could never be parsed
    told: set[str] = set()
    policies = ("recognise", "tests") if tests else ("recognise",)
    with DeadCode(tests=tests, confidence=confidence) as job:
        for path, text in script:
            if text is None:
                tree.pop(path, None)
                words.pop(path, None)
                change = job.update([], [path])
            else:
                fragment = extract(path, text.encode())
                if fragment.error is None:
                    tree[path] = text
                    words.pop(path, None)
                elif path not in tree:
                    words[path] = [*fragment.facts]
                change = job.update([fragment])
            said = [one for some in words.values() for one in some]
            expected = dead_code_oracle.evaluate(tree, policies, more=said)
            for view in ("dead", "live", "sure", "doubt", "waived"):
                assert set(job.rows(view)) == expected[view]
            likely = [one for one in change.confidence_changed if one.confidence != confidence]
            told = told.union(names(change.became_dead)) - {
                *names(change.became_alive),
                *change.gone,
                *(names(likely) if confidence == "sure" else ()),
            }
            shown = expected["sure" if confidence == "sure" else "dead"] - expected["waived"]
            assert told == set(names(job.dead())) == {row[0] for row in shown}
            assert {(name,) for name in job.explainer().steps} == expected["alive"]
        job.check_invariants()
