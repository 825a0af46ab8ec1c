"""Postgres, Delta, Iceberg, functions: what a view's target holds after stops at any step.

Invariant asserted after every kill, once the pipeline has run to its end: a table that is the view
has exactly the view's rows; signed rows, in order of epochs, lead to it, each once.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
import sqlalchemy
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from tests.faults.killing import Killer, forking
from tests.support.amount import FUZZED, cases
from tests.support.pipelines import Row
from tests.targets import job as jobs
from tests.targets.hook import Hook
from tests.targets.job import (
    Calls,
    apply_at_once,
    direct,
    finish,
    go,
    job_at,
    kill_everywhere,
    replayed,
)

from deltafix.errors import SinkError
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.pipeline.manifest import read_manifest
from deltafix.pipeline.targets.registry import make_target
from deltafix.pipeline.targets.target import EpochRows

KILLS = 2 if JIT_DISABLED else cases(2, fuzz=60)
DELTA, ICEBERG = "deltafix.pipeline.targets.delta", "deltafix.pipeline.targets.iceberg"
POSTGRES, SQL = "deltafix.pipeline.targets.postgres", "deltafix.pipeline.targets.sql"


@dataclass
class Place:
    """A kind of target: its section for a name, what it then holds, the calls that change it."""

    section: Callable[[str], str]
    rows: Callable[[str], list[dict[str, Any]]]
    calls: Calls
    spoil: Callable[[str], None]
    drop: Callable[[str], None]


@pytest.fixture
def places(tmp_path, request) -> dict[str, Place]:
    """By name. Postgres is started when it is asked for."""

    def delta(name: str) -> str:
        return str(tmp_path / "lake" / name)

    def delta_rows(name: str) -> list[dict[str, Any]]:
        return DeltaTable(delta(name)).to_pyarrow_table().to_pylist()

    where = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db",
             "warehouse": f"file://{tmp_path}/warehouse"}  # fmt: skip
    options = ", ".join(f"{key} = {json.dumps(value)}" for key, value in where.items())

    def ice(name: str) -> Any:
        return load_catalog("lake", **where).load_table(f"db.{name}")

    def postgres(query: str, *, fetch: bool = True) -> list[dict[str, Any]]:
        with psycopg.connect(request.getfixturevalue("postgres"), autocommit=True) as db:
            found = db.execute(query)
            names = [one.name for one in found.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found] if fetch else []

    def url(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/access.db"
        return "postgresql+psycopg" + request.getfixturevalue("postgres").removeprefix("postgresql")

    def database(kind: str, query: str, name: str) -> list[dict[str, Any]]:
        engine = sqlalchemy.create_engine(url(kind), poolclass=sqlalchemy.NullPool)
        with engine.begin() as db:
            found = db.execute(sqlalchemy.text(query.format(name)))
            return [dict(row) for row in found.mappings()] if found.returns_rows else []

    def lines(name: str) -> list[dict[str, Any]]:
        path = tmp_path / f"{name}.jsonl"
        found: dict[int, list[dict[str, Any]]] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            one = json.loads(line)
            # At least once: an epoch that comes again says the same.
            assert found.setdefault(one["epoch"], one["rows"]) == one["rows"]
        return [row for rows in found.values() for row in rows]

    return {
        "delta": Place(
            lambda name: f'sink = "delta"\npath = "{delta(name)}"',
            delta_rows,
            [(DELTA, "write_deltalake"), (f"{DELTA}:DeltaTarget", "_change")],
            lambda name: DeltaTable(delta(name)).delete(),
            lambda name: shutil.rmtree(delta(name)),
        ),
        "iceberg": Place(
            lambda name: f'sink = "iceberg"\ntable = "db.{name}"\ncatalog = "lake"\n'
            f"options = {{ {options} }}",
            lambda name: ice(name).scan().to_arrow().to_pylist(),
            [("pyiceberg.table:Transaction", name) for name in
             ("append", "delete", "overwrite", "commit_transaction")],
            lambda name: ice(name).delete(),
            lambda name: load_catalog("lake", **where).drop_table(f"db.{name}"),
        ),
        "postgres": Place(
            lambda name: f'sink = "postgres"\ntable = "{name}"\n'
            f'dsn = "{request.getfixturevalue("postgres")}"',
            lambda name: postgres(f'SELECT * FROM "{name}"'),
            [(f"{POSTGRES}:PostgresTarget", "_run"), (f"{POSTGRES}:PostgresTarget", "_copy"),
             ("psycopg:Transaction", "__exit__")],
            lambda name: postgres(f'DELETE FROM "{name}"', fetch=False) and None,
            lambda name: postgres(f'DROP TABLE "{name}"', fetch=False) and None,
        ),
        **{
            kind: Place(
                lambda name, kind=kind: f'sink = "sql"\ntable = "{name}"\nurl = "{url(kind)}"',
                partial(database, kind, 'SELECT * FROM "{}"'),
                [(f"{SQL}:SqlTarget", name) for name in ("_make", "_remove", "_add")]
                + [("sqlalchemy.engine:RootTransaction", "_do_commit")],
                partial(database, kind, 'DELETE FROM "{}"'),
                partial(database, kind, 'DROP TABLE "{}"'),
            )
            for kind in ("sqlite", "sql")
        },
        "function": Place(
            lambda name: f'sink = "foreach_epoch"\nfunction = "tests.targets.told:{name}"',
            lines,
            [("tests.targets.told", "tell")],
            lambda name: None,
            lambda name: None,
        ),
        "webhook": Place(
            lambda name: f'sink = "webhook"\nurl = "{request.getfixturevalue("hook").url}/{name}"\n'
            "rows_per_request = 2",
            lambda name: request.getfixturevalue("hook").rows(f"/{name}"),
            [("requests:Session", "post")],
            lambda name: None,
            lambda name: None,
        ),
    }  # fmt: skip


CASES = [
    ("delta", 'mode = "merge"'), ("delta", 'mode = "append"'),
    ("iceberg", 'mode = "merge"'), ("iceberg", 'mode = "append"'),
    ("postgres", 'mode = "merge"'), ("postgres", 'mode = "merge"\nkey = ["who", "doc"]'),
    ("postgres", 'mode = "append"'),
    ("sqlite", 'mode = "merge"'), ("sql", 'mode = "merge"\nkey = ["who", "doc"]'),
    ("sql", 'mode = "append"'),
    ("function", ""), ("webhook", ""),
]  # fmt: skip
EXACT = len(CASES) - 2
"""The last ones are told epochs at least once."""

IDS = [f"{kind}-{more.split(chr(34))[1] if more else ''}{'-key' * ('key' in more)}"
       for kind, more in CASES]  # fmt: skip

KEEPERS = dict(zip(CASES, ["shards", "driver"] * len(CASES), strict=False))
"""Who keeps the rows in a case: deltas of either are the same, and a kill costs seconds."""

KILLED = CASES if FUZZED else [CASES[at] for at in (0, 2, 5, 7, 11)]
"""A kill costs seconds: `make fuzz` tries all of them, and more kills of each."""


def new_name(kind: str, tmp_path: Path) -> str:
    return str(tmp_path.name + "_told") if kind == "function" else f"t{uuid4().hex[:10]}"


def held(place: Place, name: str, more: str) -> set[Row]:
    """The view as a target has it."""
    rows = place.rows(name)
    if "merge" in more:
        found = [(row["who"], int(row["doc"])) for row in rows]
        assert len(set(found)) == len(found)
        return set(found)
    return replayed(
        (int(row["sign"]), (row["who"], int(row["doc"])), int(row["epoch"])) for row in rows
    )


def step(killer: Killer) -> None:
    """For the process that is killed: its target's calls are steps too."""
    jobs.stepping(killer, json.loads(os.environ["DELTAFIX_CALLS"]))


run = jobs.run


@pytest.fixture
def keeper(kind, more, monkeypatch) -> None:
    """The rows of a case are where it says."""
    monkeypatch.setattr("tests.support.pipelines.KEEPER", KEEPERS[kind, more])


@pytest.fixture
def hook() -> Iterator[Hook]:
    """A web server on loopback that is told of epochs."""
    with Hook() as server:
        yield server


@pytest.fixture
def told(tmp_path, monkeypatch) -> None:
    """A function that keeps what it is told in a file of its name."""
    monkeypatch.setenv("DELTAFIX_TOLD", str(tmp_path))


@pytest.mark.parametrize(("kind", "more"), KILLED, ids=[IDS[CASES.index(one)] for one in KILLED])
def test_agree_after_a_kill_at_any_step_of_a_target(
    kind, more, tmp_path, places, *, monkeypatch, told, keeper
) -> None:
    place = places[kind]
    names: dict[int, str] = {}

    def section(number: int) -> str:
        name = names.setdefault(number, new_name(kind, tmp_path) + str(number))
        return f"{place.section(name)}\n{more}"

    def check(folder: Path, number: int) -> None:
        job = job_at(folder, section(number))
        view = finish(job)
        assert held(place, names[number], more) == view
        assert view

    counted = job_at(tmp_path / "count", section(-1))
    seen = jobs.steps_of(counted, place.calls, monkeypatch)
    assert held(place, names[-1], more) == finish(counted)
    monkeypatch.setenv("DELTAFIX_CALLS", json.dumps(list(place.calls)))
    origin = job_at(tmp_path / "origin", section(-2)).folder
    calls = {name for _, name in place.calls}
    with forking("tests.targets.test_targets") as runner:
        kill_everywhere(runner, origin, seen, calls, KILLS, check=check, section=section)


@pytest.mark.parametrize(("kind", "more"), CASES[:EXACT], ids=IDS[:EXACT])
def test_a_target_that_is_away_keeps_the_pipeline_waiting_and_loses_nothing(
    kind, more, tmp_path, places, *, monkeypatch, keeper
) -> None:
    place, name = places[kind], new_name(kind, tmp_path)
    job = job_at(tmp_path / "job", f"{place.section(name)}\n{more}")
    with job.open() as pipeline:
        pipeline.step()
        at = 0
        target = pipeline.maintainer.outputs.deliveries["can"].target
        with monkeypatch.context() as patch:

            def away(*args: object) -> None:
                raise SinkError("it is away")

            patch.setattr(target, "apply", away)
            for _ in range(3):
                with pytest.raises(SinkError, match="away"):
                    while pipeline.step() is not None:
                        pass
                # Epochs that do not change the view pass; then nothing more is taken.
                at = at or pipeline.maintainer.epoch
                assert pipeline.maintainer.epoch == at
        list(pipeline.drain())
        job.check(pipeline)
        assert held(place, name, more) == set(pipeline.maintainer.db.rows("can"))


@pytest.mark.parametrize(("kind", "more"), CASES[:EXACT], ids=IDS[:EXACT])
def test_of_two_writers_of_one_epoch_one_applies_it(kind, more, tmp_path, places) -> None:
    place, name = places[kind], new_name(kind, tmp_path)
    job = job_at(tmp_path / "job", f"{place.section(name)}\n{more}")
    go(job)
    with job.open() as first:
        delivery = first.maintainer.outputs.deliveries["can"]
        schema, epoch = delivery.log.schema, first.maintainer.epoch + 1
        rows = pa.table({"who": ["new"], "doc": pa.array([99])})
        more_rows = EpochRows(schema, epoch, rows, rows.slice(0, 0))
        output = next(one for one in first.config.outputs if one.relation == "can")
        other = make_target(output, schema, first.maintainer.db.name)
        before = len(place.rows(name))
        assert other is not None
        assert other.epoch() == delivery.target.epoch()
        delivery.target.apply(more_rows)
        other.apply(more_rows)
        delivery.target.apply(more_rows)
        assert len(place.rows(name)) == before + 1
        assert other.epoch() == epoch
        other.close()


@pytest.mark.parametrize(("kind", "more"), CASES[:EXACT], ids=IDS[:EXACT])
def test_of_two_writers_that_meet_in_one_epoch_one_applies_it(
    kind, more, tmp_path, places, *, monkeypatch
) -> None:
    place, name = places[kind], new_name(kind, tmp_path)
    job = job_at(tmp_path / "job", f"{place.section(name)}\n{more}")
    go(job)
    with job.open() as opened:
        log = opened.maintainer.outputs.deliveries["can"].log
        output = next(one for one in opened.config.outputs if one.relation == "can")
        writers: list[Any] = [
            make_target(output, log.schema, opened.maintainer.db.name) for _ in range(2)
        ]
        view = sorted(opened.maintainer.db.rows("can"))
        epoch = opened.maintainer.epoch + 1
    added = pa.table({"who": ["new", "newer"], "doc": pa.array([99, 98])})
    removed = pa.table({"who": [view[0][0]], "doc": pa.array([view[0][1]])})
    rows = EpochRows(log.schema, epoch, added, removed)
    before = len(place.rows(name))
    met = threading.Barrier(2)
    step = {"postgres": "_begin", "sql": "_make", "sqlite": "_make"}.get(kind, "_table")

    def meet(target: Any, real: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any) -> Any:
            found = None if kind == "postgres" else real(*args)
            met.wait(60)  # both have seen the epoch before, and neither has done this one
            return real(*args) if kind == "postgres" else found

        return stepped

    with monkeypatch.context() as patch:
        for target in writers:
            patch.setattr(target, step, meet(target, getattr(target, step)))
        refused = apply_at_once(writers, rows)
    assert len(refused) <= 1, refused
    assert len(place.rows(name)) == before + (1 if "merge" in more else 3)
    for target in writers:
        target.apply(rows)  # the one that was refused finds the epoch there
        assert target.epoch() == epoch
        target.close()
    assert len(place.rows(name)) == before + (1 if "merge" in more else 3)


@pytest.mark.parametrize("kind", ["delta", "iceberg", "postgres", "sql", "sqlite"])
def test_a_table_with_rows_of_others_is_refused(kind, tmp_path, places) -> None:
    place, name = places[kind], new_name(kind, tmp_path)
    finish(job_at(tmp_path / "one", place.section(name)))
    with pytest.raises(SinkError, match="did not put there"):
        go(job_at(tmp_path / "two", place.section(name)))


def test_another_table_and_one_that_was_dropped_get_the_whole_view(tmp_path, places) -> None:
    for kind in ("delta", "iceberg", "postgres", "sql", "sqlite"):
        place, name = places[kind], new_name(kind, tmp_path)
        job = job_at(tmp_path / kind, place.section(name))
        view = finish(job)
        direct(job, place.section(name + "2"))
        assert finish(job) == view
        assert held(place, name + "2", "merge") == view
        place.drop(name + "2")
        assert finish(job) == view
        assert held(place, name + "2", "merge") == view


@pytest.mark.parametrize("kind", ["delta", "iceberg", "postgres", "sql", "sqlite"])
def test_other_rules_bring_the_table_up_to_them(kind, tmp_path, places) -> None:
    place, name = places[kind], new_name(kind, tmp_path)
    job = job_at(tmp_path / "job", place.section(name))
    assert finish(job)
    text = (job.folder / "access.dl").read_text()
    (job.folder / "access.dl").write_text(text.replace("grant(t, d).", "grant(t, d), d > 3."))
    with job.open(on_change=lambda _: "rebuild") as pipeline:
        list(pipeline.drain())
        view = set(pipeline.maintainer.db.rows("can"))
    assert held(place, name, "merge") == view
    assert all(doc > 3 for _, doc in view)


def test_the_log_of_a_target_is_short_where_it_was_delivered(tmp_path, places) -> None:
    job = job_at(tmp_path / "job", places["delta"].section("short"))
    finish(job)
    with job.open() as pipeline:
        pipeline.compact()
        manifest = read_manifest(job.folder / "state" / "outputs" / "can")
        assert manifest.deltas == ()
        last = pipeline.maintainer.outputs.deliveries["can"].target.epoch()
        assert manifest.floor == last + 1 <= pipeline.maintainer.epoch + 1
    job.say("member", ("+", ("zed", "a")))
    with job.open() as pipeline:
        list(pipeline.drain())
        assert held(places["delta"], "short", "merge") == set(pipeline.maintainer.db.rows("can"))


def test_a_table_that_somebody_changed_is_refused_not_left_wrong(tmp_path, places) -> None:
    for kind, more in (("postgres", ""), ("postgres", 'key = ["who", "doc"]'), ("sqlite", "")):
        place, name = places[kind], new_name(kind, tmp_path)
        job = job_at(tmp_path / name, f"{place.section(name)}\n{more}")
        view = finish(job)
        place.spoil(name)
        (who, _), *_ = sorted(view)
        gone = [row for row in job.rows["member"] if row[0] == who]
        job.say("member", *(("-", row) for row in gone))
        with pytest.raises(SinkError, match="somebody else has "):
            go(job)


def test_a_key_that_is_none_is_refused_and_rows_of_a_key_are_updated(tmp_path, places) -> None:
    place, name = places["postgres"], new_name("postgres", tmp_path)
    job = job_at(tmp_path / "job", f'{place.section(name)}\nkey = "who"')
    with pytest.raises(SinkError):
        go(job)


def test_sections_that_are_not_right(tmp_path) -> None:
    from deltafix.errors import ConfigError

    for section, wrong in (
        ('sink = "oracle"', "it takes"),
        ('sink = "postgres"', "has no 'table'"),
        ('sink = "postgres"\ntable = "t"\nkey = ["nobody"]', "no column 'nobody'"),
        ('sink = "delta"\npath = "x"\noptions = ["a"]', "a table of texts"),
        ('sink = "delta"', "has a path or, in a catalog of Spark's, a table"),
        (
            'sink = "delta"\npath = "x"\ntable = "t"',
            "has a path or, in a catalog of Spark's, a table",
        ),
        ('sink = "delta"\ntable = "t"', 'say runner = "spark"'),
        ('sink = "kafka"\nservers = "a:1"\ntopic = "t"\nenvelope = "avro"', "envelope"),
        ('sink = "foreach_epoch"\nfunction = "tests.targets.told:nothing_of_that_name_"', None),
    ):
        job = job_at(tmp_path / "job", section)
        if wrong is None:
            continue
        with pytest.raises(ConfigError, match=wrong):
            job.open()
    for shared, more in (
        ('sink = "postgres"\ntable = "t"', ""),
        ('sink = "sql"\nurl = "sqlite://"\ntable = "t"', ""),
        ('sink = "kafka"\nservers = "a:1"\ntopic = "t"', ""),
        ('sink = "delta"\npath = "lake"', ""),
        ('path = "out/here"', 'mode = "delta"'),
    ):
        job = job_at(tmp_path / "job", shared)
        text = job.toml.read_text().partition("[output.stands]")[0]
        job.toml.write_text(f"{text}\n[output.stands]\n{shared}\n{more}")
        with pytest.raises(ConfigError, match=r"is that of \[output.can\]"):
            job.open()
    direct(job, 'sink = "sql"\ntable = "t"\nurl = "nothing"')
    with pytest.raises(ConfigError, match="its url is none"):
        job.open()
    direct(job, 'sink = "sql"\ntable = "t"\nurl = "mysql+nobodys://a/b"')
    with pytest.raises(ConfigError, match="its url is none"):
        job.open()
    direct(job, 'sink = "foreach_epoch"\nfunction = "nowhere:at_all"')
    with pytest.raises(ConfigError, match="cannot be loaded"):
        job.open()
