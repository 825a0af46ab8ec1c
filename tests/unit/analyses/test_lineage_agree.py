"""Lineage by two other routes: sqlglot's optimizer with the whole schema, the naive evaluator.

Trees of SQL files are random, and so are the edits: columns come, go and move, views get other
queries. The maintained answer must be that of both after every edit, and cost what it changes.
"""

from __future__ import annotations

import pytest
from sqlglot.errors import SqlglotError
from tests.generators.lineage_trees import Row, Tree, expected
from tests.judges import oracle

from deltafix.analyses.job import Job
from deltafix.analyses.lineage import LINEAGE

PROGRAM = LINEAGE.load_program()


def changed(tree: Tree, before: dict[str, str]) -> dict[str, str]:
    return {path: text for path, text in tree.files().items() if before.get(path) != text}


def update(job: Job, files: dict[str, str]) -> None:
    job.update([LINEAGE.extract(path, text.encode(), "") for path, text in files.items()])


def bases(job: Job) -> set[Row]:
    """The columns of base tables that every view's columns reach, by whichever way."""
    steps: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for table, column, source, source_column, _ in job.rows("flows"):
        if column != "(rows)":
            steps.setdefault((str(table), str(column)), set()).add(
                (str(source), str(source_column))
            )
    found: set[Row] = set()
    for start in steps:
        reached, todo = set(), [start]
        while todo:
            for step in steps.get(todo.pop(), ()):
                if step not in reached:
                    reached.add(step)
                    todo.append(step)
        found |= {(*start, *step) for step in reached if step[0].startswith("t")}
    return found


@pytest.mark.parametrize("indirect", [False, True])
def test_agree_with_sqlglot_that_knows_the_whole_schema(indirect: bool) -> None:
    compared = refused = 0
    with Job(LINEAGE) as job:
        for seed in range(7):
            tree = Tree(seed, indirect, tables=3, views=4)
            before: dict[str, str] = {}
            for _ in range(6):
                update(job, changed(tree, before))
                before = tree.files()
                state = ({k: list(v) for k, v in tree.tables.items()}, dict(tree.views))
                try:
                    wanted = expected(tree)
                except SqlglotError:  # the edit made a view invalid
                    refused += 1
                else:
                    assert bases(job) == wanted, tree.files()
                    if not indirect:
                        assert set(job.rows("origin")) == wanted
                    assert job.rows("ambiguous") == job.rows("unknown_column") == []
                    compared += 1
                    good = state
                tree.tables, tree.views = ({k: list(v) for k, v in good[0].items()}, dict(good[1]))
                tree.edit()
            job.update([], deleted=list(job.fragments))
            assert not any(job.answer().values())
    assert compared >= 20, (compared, refused)


def test_oracle_after_every_edit() -> None:
    """The naive evaluator on the facts, invalid trees included."""
    with Job(LINEAGE) as job:
        for seed in range(100, 103):
            tree = Tree(seed, indirect=True, tables=3, views=3)
            before: dict[str, str] = {}
            for _ in range(4):
                update(job, changed(tree, before))
                before = tree.files()
                facts: dict[str, set[tuple[str, ...]]] = {}
                for one in job.fragments.values():
                    for relation, row in one.facts:
                        facts.setdefault(relation, set()).add(row)
                judged = oracle.evaluate(PROGRAM, facts)
                assert {v: set(job.rows(v)) for v in LINEAGE.views} == {
                    v: judged[v] for v in LINEAGE.views
                }
                tree.edit()
            job.check_invariants()
            job.update([], deleted=list(job.fragments))


def warehouse(domains: int) -> dict[str, str]:
    """Raw tables, staging views with a star over each, marts that join neighbours."""
    files: dict[str, str] = {}
    for n in range(domains):
        beside = (n + 1) % domains
        files[f"raw/r{n}.sql"] = (
            f"CREATE TABLE raw.r{n} (id INT, other INT, amount{n} INT, note{n} TEXT)"
        )
        files[f"staging/s{n}.sql"] = (
            f"CREATE VIEW s{n} AS WITH source AS (SELECT * FROM raw.r{n})"
            f" SELECT *, amount{n} / 100 AS euros{n} FROM source WHERE id > 0"
        )
        files[f"marts/m{n}.sql"] = (
            f"CREATE TABLE m{n} AS SELECT a.id, note{n}, SUM(euros{n}) AS total, amount{beside}"
            f" FROM s{n} AS a JOIN s{beside} AS b ON a.other = b.id GROUP BY 1, 2, 4"
        )
    return files


def test_adding_a_column_in_one_file_updates_its_dependents_alone() -> None:
    files = warehouse(40)
    with Job(LINEAGE) as job:
        update(job, files)
        first = job.last_work
        assert job.rows("unknown_column") == job.rows("ambiguous") == []
        assert len(job.rows("origin")) == 40 * 5 + 40 * 4
        text = files["raw/r7.sql"].replace("note7", "extra7 INT, note7")
        change = job.update([LINEAGE.extract("raw/r7.sql", text.encode(), "")])
        assert change.came["flows"] == (("s7", "extra7", "raw.r7", "extra7", "value"),)
        assert change.went["flows"] == ()
        assert change.work.touched < first.touched / 100
        # note7 now comes from the neighbour too: the unqualified name in one mart is ambiguous
        text = files["raw/r8.sql"].replace("other INT", "other INT, note7 TEXT")
        change = job.update([LINEAGE.extract("raw/r8.sql", text.encode(), "")])
        assert {row[:2] for row in change.came["ambiguous"]} == {("m7", "note7")}
        assert change.work.touched < first.touched / 100
        update(job, {"raw/r7.sql": files["raw/r7.sql"], "raw/r8.sql": files["raw/r8.sql"]})
        assert len(job.rows("origin")) == 40 * 5 + 40 * 4


@pytest.mark.parametrize("how", ["statement", "template", "computed", "bytes"])
def test_what_a_file_that_cannot_be_read_might_read_is_never_unread(how: str) -> None:
    """Of a random tree one file is mangled after another; the whole tree says what it reads."""
    mangled = {
        "statement": lambda text: text.replace("SELECT", "SELECT FROM WHERE", 1).encode(),
        "template": lambda text: b"{% for x in y %}" + text.encode(),
        "computed": lambda text: b"SELECT * FROM {{ ref(some) }}",
        "bytes": lambda text: text.encode("utf-16"),
    }[how]
    doubted = 0
    for seed in range(200, 206):
        files = Tree(seed, indirect=True, tables=3, views=4).files()
        with Job(LINEAGE) as whole:
            update(whole, files)
            unread = set(whole.rows("unread"))
        for path, text in files.items():
            broken = LINEAGE.extract(path, mangled(text), "")
            if not {"skipped"} & {relation for relation, _ in broken.facts}:
                continue  # nothing in it is a query
            with Job(LINEAGE) as job:
                update(job, {other: one for other, one in files.items() if other != path})
                job.update([broken])
                assert set(job.rows("unread")) <= unread, (path, files)
                maybe = {row[:2] for row in job.rows("maybe_read")}
                there = {row for row in unread if job.rows("has").count(row)}
                assert there <= maybe | set(job.rows("unread"))
                doubted += len(maybe - unread)
    assert doubted > 0
