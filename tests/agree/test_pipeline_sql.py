"""A pipeline whose program is SQL keeps the views that DuckDB evaluates on the same tables.

A case of `random_sql` is played in DuckDB; what each transaction changed in a table goes into the
files of its input (signed rows, upserts by key, snapshots, rows by file; CSV, JSON, Parquet). After
each look, every output is compared with DuckDB's view, NULLs, days and decimals in their own types,
and the log's deltas, applied in order, with the view.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import date
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import duckdb
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from tests.generators.random_sql import Case, case_of
from tests.judges.sql_judge import bag, made
from tests.support import pipelines
from tests.support.amount import cases

from deltafix.engine.database import Database
from deltafix.errors import SqlError
from deltafix.facts.logical import as_json, logical_schema
from deltafix.facts.values import plain_text
from deltafix.pipeline.config import read_config
from deltafix.pipeline.manifest import read_deltas, read_view
from deltafix.pipeline.runner import Pipeline
from deltafix.rules.tables import TableProgram
from deltafix.spark import keeping
from deltafix.sql.program import MULTIPLICITY, program_of

EXAMPLES = cases(4)
VIEWS = 3 if EXAMPLES > 4 else 2
KINDS = ("signed", "keyed", "snapshot", "rows")
FORMATS = ("csv", "json", "parquet", "debezium")

_SENT = re.compile(r"INTERVAL|\bTIME\b|UUID")
"""Types whose values outputs have as texts."""

Row = tuple[Any, ...]


def hashed(value: Any) -> Any:
    """A value of DuckDB's with tuples for lists and dicts."""
    if isinstance(value, list | dict):
        return tuple(map(hashed, value.values() if isinstance(value, dict) else value))
    return value


def arrow(value: Any, kind: pa.DataType) -> Any:
    """A value that was hashed as Arrow takes it."""
    if value is not None and pa.types.is_list(kind):
        return [arrow(one, kind.value_type) for one in value]
    if value is not None and pa.types.is_struct(kind):
        return {of.name: arrow(one, of.type) for one, of in zip(value, kind, strict=True)}
    return value


class SqlJob:
    """A case as a pipeline below a folder, beside the same tables and views in DuckDB.

    Each file has its own capitals in the names of columns, which SQL does not look at.
    """

    def __init__(self, folder: Path, case: Case, rng: Random, pipeline: str = "") -> None:
        self.folder, self.case, self.rng = folder, case, rng
        self.duck = duckdb.connect(config={"threads": 1})
        self.duck.execute("SET TimeZone = 'UTC'")
        text = ";\n".join(case.tables) + ";\n"
        for table in case.tables:
            self.duck.execute(re.sub(r", PRIMARY KEY \([^)]*\)", "", table))
        self.views: list[str] = []
        for name, query in case.views:
            gone = [one for one, _ in case.views if one not in self.views and one in query]
            if gone or not made(self.duck, name, query):
                continue
            more = f"CREATE VIEW {name} AS {query};\n"
            try:
                program_of(text + more)
            except SqlError:
                self.duck.execute(f"DROP VIEW {name}")
                continue
            text += more
            self.views.append(name)
        (folder / "views.sql").write_text(text)
        self.program: TableProgram = program_of(text)
        self.keys = {key.table: key.columns for key in self.program.keys}
        self.files = self.epoch = 0
        self.open: Pipeline | None = None
        self.inputs = {name: self._input(name) for name in self.program.tables}
        self.toml = folder / "pipeline.toml"
        self.toml.write_text(self._toml(pipeline))
        self.rows: dict[str, set[Row]] = {name: set() for name in self.program.tables}
        self.views_before: dict[str, Counter[Row]] = {name: bag(()) for name in self.views}

    def _input(self, name: str) -> tuple[str, str]:
        is_keyed = name in self.keys and "float" not in self.schema(name).types
        kind = self.rng.choice(KINDS) if is_keyed else "signed"
        (self.folder / "in" / name).mkdir(parents=True)
        return kind, self.rng.choice(FORMATS if kind in ("signed", "keyed") else FORMATS[:3])

    def _toml(self, pipeline: str) -> str:
        lines = ["[pipeline]", 'program = "views.sql"', 'state = "state"', 'runner = "local"']
        lines.append(pipeline)
        for name, (kind, form) in self.inputs.items():
            source = "snapshot" if kind == "snapshot" else "files"
            lines += [f"[input.{name}]", f'source = "{source}"', f'path = "in/{name}"']
            is_debezium = form == "debezium"
            lines.append('envelope = "debezium"' if is_debezium else f'format = "{form}"')
            if kind == "keyed":
                lines.append(f"key = {json.dumps(self.keys[name])}")
            elif kind == "rows":
                lines.append('mode = "rows"')
            elif kind == "signed":
                lines.append(f'duplicates = "{self.rng.choice(("ignore", "bad"))}"')
        self.counted = []
        for name in self.views:
            lines += [f"[output.{name}]", f'path = "out/{name}"']
            if name in self.program.bags or self.rng.random() < 0.2:
                lines.append('duplicates = "count"')
                self.counted.append(name)
        return "\n".join(lines) + "\n"

    # --- edits ---------------------------------------------------------------------------------

    def edit(self, statements: tuple[str, ...]) -> None:
        """Play a transaction in DuckDB, and tell the inputs what it changed."""
        for statement in statements:
            if not re.search("INSERT OR | ON CONFLICT ", statement):  # no table has a key there
                self.duck.execute(statement)
        for name in self.rows:
            same = ", ".join(self.keys[name]) if name in self.keys else "ALL"
            first = f"SELECT min(rowid) FROM {name} GROUP BY {same}"
            self.duck.execute(f"DELETE FROM {name} WHERE rowid NOT IN ({first})")
            found = self.rows_of(name)
            now = {tuple(map(hashed, row)) for row in found}
            before, self.rows[name] = self.rows[name], now
            kind = self.inputs[name][0]
            if kind == "snapshot":
                self.write(name, [(1, row) for row in sorted(now, key=repr)], signed=False)
            elif kind == "rows":
                self.rewrite(name, before, now)
            elif now != before:
                gone = [(-1, row) for row in sorted(before - now, key=repr)]
                if kind == "keyed":
                    gone = [one for one in gone if not self._replaced(name, one[1], now)]
                self.write(name, [*gone, *((1, row) for row in sorted(now - before, key=repr))])

    def rows_of(self, name: str) -> list[Row]:
        """The rows of a table or a view, with texts where outputs have them."""
        columns = self.duck.execute(f"DESCRIBE {name}").fetchall()
        texts = ((column, _SENT.sub("TEXT", kind)) for column, kind, *_ in columns)
        shown = (f'CAST("{column}" AS {kind})' for column, kind in texts)
        return self.duck.execute(f"SELECT {', '.join(shown)} FROM {name}").fetchall()

    def rewrite(self, name: str, before: set[Row], now: set[Row]) -> None:
        """Three files, each of some of the rows: those that differ are written anew, or go."""
        for part in range(3):
            was, is_ = (
                [row for row in sorted(rows, key=repr) if crc32(repr(row).encode()) % 3 == part]
                for rows in (before, now)
            )
            if is_ and is_ != was:
                self.write(name, [(1, row) for row in is_], signed=False, at=part)
            elif was and not is_:
                (path,) = (self.folder / "in" / name).glob(f"part{part}.*")
                path.unlink()

    def _replaced(self, name: str, row: Row, now: set[Row]) -> bool:
        names = [one[0] for one in self.duck.execute(f"DESCRIBE {name}").fetchall()]
        places = [names.index(one) for one in self.keys[name]]
        return any(all(row[n] == other[n] for n in places) for other in now)

    def write(
        self, name: str, changes: list[tuple[int, Row]], *, signed: bool = True, at: int = -1
    ) -> None:
        self.files += 1
        form = self.inputs[name][1]
        ending = "csv" if form == "debezium" else form  # the ending of the format by default
        file = f"part{at}" if at >= 0 else f"{self.files:05d}"
        path = self.folder / "in" / name / f"{file}.{ending}"
        schema = logical_schema(self.schema(name))
        spell = Random(str(path)).choice((str.lower, str.upper, str.capitalize))
        columns = list(zip(*(row for _, row in changes), strict=True)) or [() for _ in schema]
        table = pa.Table.from_arrays(
            [
                pa.array([arrow(value, field.type) for value in one], field.type)
                for one, field in zip(columns, schema, strict=True)
            ],
            names=[spell(one) for one in schema.names],
        )
        if form == "debezium":
            images = [("c", "after") if sign > 0 else ("d", "before") for sign, _ in changes]
            rows = zip(images, table.to_pylist(), strict=True)
            envelopes = [{"op": op, image: row} for (op, image), row in rows]
            texts = (json.dumps(one, default=plain_text) for one in envelopes)
            path.write_text("".join(f"{text}\n" for text in texts))
            return
        if signed:
            table = table.append_column("sign", pa.array([s for s, _ in changes], pa.int8()))
        if form == "parquet":
            pq.write_table(table, path)
        elif form == "csv":
            for place, field in enumerate(table.schema):
                if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
                    values = table.column(place).to_pylist()
                    write = as_json if pa.types.is_nested(field.type) else plain_text
                    cells = [None if one is None else write(one) for one in values]
                    table = table.set_column(place, field.name, pa.array(cells, pa.string()))
            pa_csv.write_csv(table, path)
        else:
            lines = (json.dumps(row, default=plain_text) + "\n" for row in table.to_pylist())
            path.write_text("".join(lines) or "\n")

    def schema(self, name: str) -> Any:
        from deltafix.pipeline.config import schemas_of

        return schemas_of(self.program)[name]

    # --- judging -------------------------------------------------------------------------------

    def run(self) -> None:
        """Look once, and compare each output with DuckDB's view."""
        if self.open is None or self.rng.random() < 0.3:
            self.close()
            self.open = pipelines.open_pipeline(self.toml)
        before = self.epoch
        for _ in self.open.drain():
            pass
        db = self.open.maintainer.db
        self.epoch = db.epoch
        if isinstance(db, Database):
            db.check_invariants()
        for name in self.views:
            self.judge(name, before, self.open.config.program)

    def close(self) -> None:
        """Close the pipeline; the next look opens it again."""
        if self.open is not None:
            self.open.close()
            self.open = None

    def judge(self, name: str, before: int, program: Any) -> None:
        wanted = bag(self.rows_of(name))
        folder = self.folder / "out" / name
        kinds = [one.arrow for one in program.views[name]]
        _, table = read_view(folder)
        assert self.bag_of(name, table, kinds) == wanted, name
        change: Counter[Row] = Counter()
        deltas = read_deltas(folder, before + 1)
        if deltas is not None:
            for sign in (-1, 1):
                rows = deltas.filter(pa.compute.equal(deltas.column(-2), sign))
                found = self.bag_of(name, rows.select(deltas.column_names[:-2]), kinds)
                change.update({row: sign * n for row, n in found.items()})
        for row in {*wanted, *self.views_before[name]}:
            change[row] -= wanted[row] - self.views_before[name][row]
        assert not any(change.values()), (name, change)
        self.views_before[name] = wanted

    def bag_of(self, name: str, table: pa.Table | None, kinds: list[pa.DataType]) -> Counter[Row]:
        """The rows of an output as SQL counts them, each in the types of its columns."""
        if table is None:
            return bag(())
        assert [field.type for field in table.schema] == kinds
        rows = list(zip(*(one.to_pylist() for one in table.columns), strict=True))
        if name not in self.counted:
            return bag(rows)
        assert table.column_names[-1] == MULTIPLICITY
        found: Counter[Row] = Counter()
        for *row, times in rows:
            assert times > 0
            found.update(dict.fromkeys(bag([row]), times))
        return found


def play(
    folder: Path, seed: int, *, transactions: int = 4, pipeline: str = "", nested: bool = False
) -> None:
    """Play the case of a seed; if it is to be `nested`, of the next with arrays in its tables."""
    rng = Random(seed)
    case = case_of(seed, views=VIEWS, transactions=transactions, schemas=False)
    while nested and not re.search(r"\[\]|STRUCT", " ".join(case.tables)):
        seed += 10_000
        case = case_of(seed, views=VIEWS, transactions=transactions, schemas=False)
    job = SqlJob(folder, case, rng, pipeline)
    for statements in job.case.transactions:
        job.edit(statements)
        if rng.random() < 0.8:
            job.run()
    job.run()
    job.close()


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_oracle_views_of_a_pipeline_are_duckdbs(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After random edits of files, outputs and their deltas are what DuckDB says."""
    monkeypatch.setattr(pipelines, "KEEPER", "shards" if seed % 4 == 3 else "driver")
    play(tmp_path, seed, nested=seed % 2 == 1)


@pytest.mark.spark
@pytest.mark.parametrize("keeper", ["driver", "shards"])
@pytest.mark.parametrize("seed", range(EXAMPLES // 4))
@pytest.mark.usefixtures("spark")
def test_oracle_views_of_a_pipeline_on_spark_are_duckdbs(
    tmp_path: Path, seed: int, keeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So they are where Spark's tasks read the files, and where they have the rows."""
    monkeypatch.setattr(pipelines, "RUNNER", "spark")
    monkeypatch.setattr(pipelines, "KEEPER", keeper)
    play(tmp_path, 1000 + seed, transactions=2, nested=True)


def test_story_of_a_state_that_outgrows_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows go to shards with the functions of their views, and follow changed views there."""
    views = (
        "CREATE TABLE t (id INTEGER PRIMARY KEY, d DATE, s TEXT); CREATE VIEW v AS "
        "SELECT d, STRING_AGG(UPPER(s), '-' ORDER BY s) AS a FROM t GROUP BY d"
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "views.sql").write_text(views)
    toml = tmp_path / "pipeline.toml"
    head = '[pipeline]\nprogram = "views.sql"\nstate = "state"\nrunner = "local"\n'
    rest = '[input.t]\nsource = "files"\npath = "in"\nkey = "id"\n[output.v]\npath = "out"\n'
    toml.write_text(head + rest)
    monkeypatch.setattr(pipelines, "KEEPER", "auto")
    monkeypatch.setattr(pipelines, "SHARDS", 2)

    def run(number: int, *lines: str, **options: Any) -> tuple[str, list[Row]]:
        text = "\n".join(("sign,id,d,s", *lines, ""))
        (tmp_path / "in" / f"{number}.csv").write_text(text)
        with pipelines.open_pipeline(toml, **options) as pipeline:
            list(pipeline.drain())
            why = pipeline.maintainer.keeper.why.partition(":")[0]
        table = read_view(tmp_path / "out")[1]
        assert table is not None
        columns = [one.to_pylist() for one in table.columns]
        return why, sorted(zip(*columns, strict=True), key=repr)

    day = date(2026, 1, 1)
    said = run(1, "+,1,2026-01-01,a", "+,2,2026-01-01,", "+,3,,b")
    assert said == ("driver", [(None, "B"), (day, "A")])
    monkeypatch.setattr(keeping, "_outgrown", lambda folder, rows: "it must" if rows else "")
    assert run(2, "+,2,2026-01-01,z", "-,3,,") == ("shards", [(day, "A-Z")])
    (tmp_path / "views.sql").write_text(views.replace("'-'", "'+'"))
    said = run(3, "+,4,2026-01-01,b", on_change=lambda change: "rebuild")
    assert said == ("shards", [(day, "A+B+Z")])


@pytest.mark.parametrize("keeper", ["driver", "shards"])
def test_paths_of_a_recursion_are_told_apart_as_before_the_last_start(
    tmp_path: Path, keeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UNION ALL counts paths; a pipeline that begins anew takes away those that it had put in."""
    (tmp_path / "in").mkdir()
    (tmp_path / "views.sql").write_text(
        "CREATE TABLE e (a INTEGER, b INTEGER, PRIMARY KEY (a, b)); CREATE VIEW v AS "
        "WITH RECURSIVE r (x, d) AS (SELECT b, 0 FROM e WHERE a = 1 UNION ALL "
        "SELECT e.b, r.d + 1 FROM r JOIN e ON e.a = r.x WHERE r.d < 3) SELECT x, d FROM r"
    )
    toml = tmp_path / "pipeline.toml"
    toml.write_text(
        '[pipeline]\nprogram = "views.sql"\nstate = "state"\nrunner = "local"\n'
        '[input.e]\nsource = "files"\npath = "in"\nmode = "rows"\n'
        '[output.v]\npath = "out"\nduplicates = "count"\n'
    )
    monkeypatch.setattr(pipelines, "KEEPER", keeper)

    def run(*edges: str) -> list[Row]:
        (tmp_path / "in" / "1.csv").write_text("\n".join(["a,b", *edges]) + "\n")
        pipeline = pipelines.open_pipeline(toml)
        try:
            list(pipeline.drain())
        finally:
            pipeline.close()
        _, table = read_view(tmp_path / "out")
        return sorted(zip(*(one.to_pylist() for one in table.columns), strict=True))

    assert run("1,2", "1,3", "2,4", "3,4") == [(2, 0, 1), (3, 0, 1), (4, 1, 2)]
    assert run("1,3", "3,4", "2,4") == [(3, 0, 1), (4, 1, 1)]
    assert run("1,2", "3,4", "2,4") == [(2, 0, 1), (4, 1, 1)]
    assert run("3,4") == []


@pytest.mark.parametrize("kind", ["INTEGER", "TEXT", "DATE", "INTEGER NOT NULL"])
def test_a_row_that_a_file_says_no_more_goes_whatever_its_columns_are(
    tmp_path: Path, kind: str
) -> None:
    values = ["2026-01-01", "2026-01-02"] if kind == "DATE" else ["1", "2"]
    (tmp_path / "in").mkdir()
    (tmp_path / "views.sql").write_text(
        f"CREATE TABLE t (k TEXT PRIMARY KEY, v {kind}); CREATE VIEW s AS SELECT k, v FROM t"
    )
    toml = tmp_path / "pipeline.toml"
    toml.write_text(
        '[pipeline]\nprogram = "views.sql"\nstate = "state"\nrunner = "local"\n'
        '[input.t]\nsource = "files"\npath = "in"\nmode = "rows"\n[output.s]\npath = "out"\n'
    )

    def run(*lines: str) -> set[tuple[str, str]]:
        (tmp_path / "in" / "1.csv").write_text("\n".join(["k,v", *lines]) + "\n")
        with Pipeline(read_config(toml)) as pipeline:
            list(pipeline.drain())
        return {(one["k"], str(one["v"])) for one in read_view(tmp_path / "out")[1].to_pylist()}

    assert run(f"a,{values[0]}", f"b,{values[1]}") == {("a", values[0]), ("b", values[1])}
    assert run(f"a,{values[1]}", f"b,{values[1]}") == {("a", values[1]), ("b", values[1])}
    assert run(f"b,{values[1]}") == {("b", values[1])}
