"""Random SQL: schemas with NULLs and duplicates, views over all that is maintained, edit scripts.

A `Case` is text only: tables, views, transactions. Invariant: what is made means the same in
DuckDB and, where SQLite can say it, in SQLite: numbers stay small, floats are halves (in some cases
NaN, infinity and -0.0, too), nothing divides by zero, no text is compared with a number. A
seed alone decides the case.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.generators.random_schema import Columns, Table, altered, referring, truncated

__all__ = ["Case", "case_of"]

INT, DOUBLE, TEXT, BOOL = "INTEGER", "DOUBLE", "TEXT", "BOOLEAN"
DATE, TIMESTAMP, DECIMAL, BLOB = "DATE", "TIMESTAMP", "DECIMAL(6, 2)", "BLOB"
WIDE, INTERVAL, TIME, UUID = "DECIMAL(38, 4)", "INTERVAL", "TIME", "UUID"
NUMBERS = (INT, DOUBLE, DECIMAL, WIDE)
PORTABLE = (INT, INT, INT, TEXT, TEXT, DOUBLE, BOOL)
INTS, TEXTS, LISTS, BLOBS = "INTEGER[]", "VARCHAR[]", "INTEGER[][]", "BLOB[]"
UUIDS = "UUID[]"
STRUCT = "STRUCT(x INTEGER, y VARCHAR)"
STRUCTS = f"{STRUCT}[]"
DOUBLES = "DOUBLE[]"
RECORD = f"STRUCT(f DOUBLE, d DATE, p {DECIMAL}, n {INTS}, s {STRUCT}, b BLOB)"
FIELDS = {
    STRUCT: {"x": INT, "y": TEXT},
    RECORD: {"f": DOUBLE, "d": DATE, "p": DECIMAL, "n": INTS, "s": STRUCT, "b": BLOB},
}
ARRAYS = {
    INTS: INT, TEXTS: TEXT, LISTS: INTS, STRUCTS: STRUCT, DOUBLES: DOUBLE, BLOBS: BLOB, UUIDS: UUID,
}  # fmt: skip
NESTED = (*ARRAYS, *FIELDS)
OFFSETS = {
    INT: ("0", "1", "2"),
    DOUBLE: ("0.5", "1", "3"),
    DECIMAL: ("0.25", "1", "2.5"),
    WIDE: ("0.0001", "1", "90000000000000000000.5"),
    DATE: ("INTERVAL '1' DAY", "INTERVAL '1' MONTH"),
    TIMESTAMP: ("INTERVAL '3' HOUR", "INTERVAL '40' DAY"),
}
"""How far RANGE reaches over values of a type."""
_JOINS = (0, 1, 1, 2)
"""How many joins a SELECT has."""
_WIDER = {
    frozenset((INT, DOUBLE)): DOUBLE,
    frozenset((DECIMAL, DOUBLE)): DOUBLE,
    frozenset((DECIMAL, WIDE)): WIDE,
    frozenset((INT, WIDE)): WIDE,
    frozenset((DATE, TIMESTAMP)): TIMESTAMP,
}
"""Types that USING compares, and what it shows of a FULL JOIN."""
NEW = (DATE, TIME, TIMESTAMP, DECIMAL, WIDE, BLOB, INTERVAL, UUID, *NESTED)
TYPES = (*PORTABLE, *NEW)


@dataclass(frozen=True)
class Case:
    """Tables and views as statements by name, and transactions as lists of statements."""

    tables: tuple[str, ...]
    views: tuple[tuple[str, str], ...]
    transactions: tuple[tuple[str, ...], ...]

    def script(self) -> str:
        """The case as text, to be read by people and by `read_case`."""
        lines = [f"{one};" for one in self.tables]
        lines += [f"CREATE MATERIALIZED VIEW {name} AS {query};" for name, query in self.views]
        for statements in self.transactions:
            lines += ["", "-- transaction", *(f"{one};" for one in statements)]
        return "\n".join(lines) + "\n"

    @classmethod
    def read(cls, text: str) -> Case:
        """The case of a script: one statement a line."""
        head, *rest = text.split("-- transaction\n")
        tables, views = [], []
        for line in filter(None, head.split("\n")):
            if line.startswith("CREATE TABLE"):
                tables.append(line.removesuffix(";"))
            elif line.startswith("CREATE MATERIALIZED VIEW"):
                name, query = line.removesuffix(";").split(" AS ", 1)
                views.append((name.rsplit(" ", 1)[-1], query))
        transactions = [
            tuple(line.removesuffix(";") for line in part.split("\n") if line) for part in rest
        ]
        return cls(tuple(tables), tuple(views), tuple(transactions))


def case_of(
    seed: int,
    *,
    views: int = 4,
    transactions: int = 6,
    chains: bool = False,
    arrays: bool = True,
    schemas: bool = True,
    correlated: bool = False,
    numbered: bool = False,
    computed: bool = False,
    one_sided: bool = False,
) -> Case:
    """The case of a seed; with `chains` the joins of a view are three LEFT JOINs of tables.

    With `correlated` views are aggregates of subqueries that read the query around, with
    `numbered` those rows of a query that a number leaves, under any names. With `computed` most
    joins, those of subqueries and recursions too, compare expressions; with `one_sided` views are
    groups of a LEFT JOIN, most of whose aggregates are of its right side alone. Without `arrays` no
    column is one; without `schemas` there are no foreign keys, and no table changes.
    """
    maker = _Maker(Random(seed), chains, arrays, schemas)
    maker.correlated, maker.numbers, maker.computes = correlated, numbered, computed
    maker.one_sided = one_sided
    return maker.case(views, transactions)


class _Maker:
    def __init__(self, random: Random, chains: bool, *drawn: bool) -> None:
        arrays, schemas = drawn
        self.random = random
        self.chains = chains
        self.tables: list[Table] = []
        self.sources: list[Table] = []
        self.names = 0
        self.joins = _JOINS
        self.correlated = self.numbers = self.computes = self.one_sided = False
        self.hidden = ""
        """A column that the query just made may be sorted by, though it need not show it."""
        # without what SQLite has not, in most cases: views that read others would be lost with them
        self.portable = random.random() < 0.6
        self.types = PORTABLE if self.portable else TYPES
        if not arrays:
            self.types = tuple(kind for kind in self.types if kind not in NESTED)
        self.nan = not self.portable and self.maybe(0.4)
        """Whether there are NaN, infinity and -0.0."""
        self.alters = schemas and self.maybe(0.35)
        self.refers = schemas and self.maybe(0.35)
        """Whether there are foreign keys: what becomes of the rows, SQLite is asked."""
        if self.refers:
            self.types, self.nan = PORTABLE, False
        elif self.nan:
            self.types = (*self.types, *(DOUBLE,) * 6)
        elif not self.portable and self.maybe(0.4):
            self.types = (*self.types, *(self.random.choice((WIDE, INTERVAL)),) * 6)

    def name(self, word: str) -> str:
        self.names += 1
        return f"{word}{self.names}"

    def maybe(self, share: float) -> bool:
        return self.random.random() < share

    # --- tables and edits ----------------------------------------------------------------------

    def case(self, views: int, transactions: int) -> Case:
        created = tuple(self.table(f"t{n}") for n in range(self.random.randint(2, 3)))
        self.sources = list(self.tables)
        made = []
        for n in range(views):
            if self.numbers:
                query, columns = self.select(0, (INT, *self.random.choices(self.types, k=n % 3)))
            elif self.one_sided:
                query, columns = self.grouped(1)
            else:
                query, columns = self.aggregated() if self.correlated else self.query(2)
            name = f"v{n}"
            if self.maybe(0.3) and not re.search(r"ORDER BY|LIMIT|OFFSET", query):
                query += f" ORDER BY {self.sorted_by_hidden()}{self.ordered(columns)}"
            made.append((name, query))
            self.sources.append(Table(name, columns))
        queries = [query for _, query in made]
        first = tuple(edit for table in self.tables for edit in self.filled(table))
        script = [first]
        for _ in range(transactions):
            if self.alters and self.maybe(0.4):
                kind = self.random.choice(self.types)
                added = kind, self.value(kind) if self.maybe(0.6) else "NULL"
                one = altered(self.random, self.tables, queries, added, self.name)
                script.append((one,))
            else:
                script.append(self.transaction())
        return Case(created, tuple(made), tuple(script))

    def merges(self, left: str | None, right: str) -> bool:
        """Whether USING may compare columns of these types."""
        alike = left is not None and frozenset((left, right)) in _WIDER
        return left == right or (alike and not self.portable)

    def filled(self, table: Table) -> list[str]:
        """The first rows of a table; where some may refer to nothing, one a statement."""
        if not table.refers:
            return [self.insert(table, 7)]
        return [self.insert(table, 1) for _ in range(9)]

    def table(self, name: str) -> str:
        width = self.random.randint(2, 4)
        columns = tuple((f"{'abcd'[n]}", self.random.choice(self.types)) for n in range(width))
        if self.maybe(0.7):
            columns = (("a", INT), *columns[1:])
        if self.maybe(0.5):
            columns = (*columns[:-1], (columns[-1][0], INT))
        required = frozenset(n for n, _ in columns if self.maybe(0.3))
        key: tuple[str, ...] = ()
        if self.maybe(0.85 if self.refers else 0.35):
            sizes = (1, 1, 1, 2) if self.refers else (1, 1, 2)
            keyed = columns[: self.random.choice(sizes)]
            key = tuple(n for n, _ in keyed) if INTERVAL not in dict(keyed).values() else ()
        made, refers = Table(name, columns, required | frozenset(key), key), ""
        if self.refers:
            made, refers = referring(self.random, made, self.tables)
        self.tables.append(made)
        written = ", ".join(
            f"{n} {kind}{' NOT NULL' if n in required else ''}" for n, kind in columns
        )
        keys = f", PRIMARY KEY ({', '.join(key)})" if key else ""
        return f"CREATE TABLE {name} ({written}{keys}{refers})"

    def value(self, kind: str, *, required: bool = False) -> str:
        if not required and self.maybe(0.2):
            return "NULL"
        day = "DATE'2024-02-29'"
        choices = {
            INT: ("0", "1", "2", "3", "4"),
            DOUBLE: ("0.0", "0.5", "1.0", "2.5", "-1.5"),
            TEXT: ("'a'", "'b'", "'ab'", "''", "'B'"),
            BOOL: ("TRUE", "FALSE"),
            DATE: ("'2024-02-29'", "'2026-01-31'", "'2026-02-01'", "'1969-12-31'"),
            TIME: ("'00:00:00'", "'10:20:30.5'", "'12:00:00'", "'23:59:59.999999'"),
            TIMESTAMP: ("'2026-01-31 00:00:00'", "'2026-01-31 10:20:30.5'", "'1969-12-31 23:59'"),
            DECIMAL: ("0", "1.50", "-2.25", "0.01", "2"),
            WIDE: (
                *("0", "1.5", "-2.25", "98765432109876543210.1234", "98765432109876543210.1235"),
                *("-0.0001", "-1234567890123456789012345678.5", "2"),
            ),
            INTERVAL: (  # none of the length of another of other parts, nor of sums of them
                *("'0 days'", "'3 days 00:10:00'", "'1 month 7 days 00:00:01'", "'-05:07:00'"),
                *("'31:00:01.5'", "'-1 year -2 months 00:00:00.000003'", "'5 months -00:00:07'"),
            ),
            BLOB: ("''", "'a'", "'a\\x00'", "'\\xFF'", "'\\x00'"),
            UUID: tuple(
                f"'{digits}-0000-4000-8000-00000000000a'"
                for digits in ("00000000", "7fffffff", "80000000", "a0eebc99")
            ),
            UUIDS: ("[]", "['a0eebc999c0b4ef8bb6d6bb9bd380a11'::UUID,NULL]"),
            BLOBS: ("[]", "['\\xFF',NULL]", "['a','']"),
            INTS: ("[]", "[1]", "[1,2]", "[2,NULL]", "[3,1,1]"),
            TEXTS: ("[]", "['a']", "['a','b']", "[NULL]", "['','B','a']"),
            STRUCT: ("{'x':1,'y':'a'}", "{'x':1,'y':NULL}", "{'x':NULL,'y':''}", "{'x':2,'y':'B'}"),
            STRUCTS: ("[]", "[{'x':1,'y':'a'}]", "[NULL,{'x':2,'y':NULL}]"),
            DOUBLES: ("[]", "['nan'::DOUBLE,0.5]", "[NULL]", "[-0.0,1.0]", "[0.5]"),
            RECORD: tuple(
                f"{{'f':{f},'d':{d},'p':{p},'n':{n},'s':{s},'b':{b}}}"
                for f, d, p, n, s, b in (
                    ("'nan'::DOUBLE", day, "1.50", "[1,NULL]", "{'x':1,'y':'a'}", "NULL"),
                    ("-0.0", "NULL", "NULL", "[]", "NULL", "'a\\xFF'::BLOB"),
                    ("NULL", "DATE'1969-12-31'", "-2.25", "NULL", "{'x':NULL,'y':'B'}", "NULL"),
                    ("0.5", day, "1.50", "[2]", "{'x':2,'y':NULL}", "''::BLOB"),
                )
            ),
            LISTS: ("[]", "[[]]", "[[1],[]]", "[NULL,[2,NULL]]", "[[3],[1,2],[3]]"),
        }
        if self.nan:
            choices[DOUBLE] += ("'nan'::DOUBLE", "'inf'::DOUBLE", "-0.0")
        found = self.random.choice(choices[kind])
        return found if self.nan else found.replace("'nan'::DOUBLE", "2.5")

    def beside(self, kind: str, *, required: bool = False) -> str:
        """A value beside a column, which gives a literal in quotes its type."""
        value = self.value(kind, required=required)
        # SQLite has no booleans in quotes: such a key would be another one there.
        other = kind == BOOL and (self.portable or any(table.key for table in self.tables))
        quoted = value != "NULL" and "'" not in value and not (other or kind in NESTED)
        return f"'{value.lower()}'" if quoted and self.maybe(0.1) else value

    def transaction(self) -> tuple[str, ...]:
        sizes = (2, 3, 4, 5) if any(one.is_target for one in self.tables) else (1, 1, 1, 2, 3)
        return tuple(self.edit() for _ in range(self.random.choice(sizes)))

    def edit(self) -> str:
        """A statement, in some cases with what it is to return."""
        said = self.plain_edit()
        verb = re.match(r"(INSERT(?: OR \w+)?|UPDATE|DELETE) (?:INTO |FROM )?(\w+)", said)
        if not (self.portable and verb) or re.search(r" USING | FROM \(", said) or self.maybe(0.8):
            return said
        columns = next(one.columns for one in self.tables if one.name == verb[2])
        shown = [
            n if self.maybe(0.7) else f"COALESCE({n}, {self.value(k, required=True)}) AS {n}"
            for n, k in columns
        ]  # of IS NULL SQLite 3.40 says the contrary here
        return f"{said} RETURNING {', '.join(shown) if self.maybe(0.5) else '*'}"

    def plain_edit(self) -> str:
        table = self.random.choice(self.tables)
        kind = self.random.random()
        if self.alters and self.maybe(0.08):
            return truncated(self.random, self.tables)
        targets = [one for one in self.tables if one.is_target]
        if targets and self.maybe(0.6):  # what goes there, or changes, others may follow
            table, kind = self.random.choice(targets), 0.4 + 0.6 * kind
        if kind < 0.5:
            is_keyed = self.portable and table.key and not (table.is_target or table.refers)
            if is_keyed and self.maybe(0.4):
                return self.upsert(table)
            plain = all(k in PORTABLE for _, k in table.columns)
            if plain and not table.refers and self.maybe(0.2):
                return self.insert_by_name(table)
            return self.insert(table, self.random.randint(1, 3))
        if self.portable and not table.is_target and self.maybe(0.3):
            return self.random.choice((self.edit_beside, self.merge))(table)
        scope = [(f"{table.name}.{n}", k) for n, k in table.columns]
        where = f" WHERE {self.simple_condition(tuple(scope))}" if self.maybe(0.9) else ""
        if table.is_target and self.maybe(0.6):
            name, of = next(one for one in scope if one[0].endswith(f".{table.key[0]}"))
            op, value = self.random.choice(("=", "<")), self.value(of, required=True)
            where = f" WHERE {name} {op} {value}"
        free = [(n, k) for n, k in table.columns if n not in table.key]
        if table.is_target and self.maybe(0.7):
            free = [(n, k) for n, k in table.columns if n in table.key]
        if kind < 0.75 or not free:
            return f"DELETE FROM {table.name}{where}"
        chosen = self.random.sample(free, self.random.randint(1, min(2, len(free))))
        sets = ", ".join(f"{n} = {self.beside(k, required=n in table.required)}" for n, k in chosen)
        return f"UPDATE {table.name} SET {sets}{where}"

    def edit_beside(self, table: Table) -> str:
        """An UPDATE with FROM, or a DELETE with USING: of each row beside it there is one."""
        other = self.random.choice(self.tables)
        kinds = (INT, TEXT, DOUBLE)
        pairs = [(c, d) for c, k in table.columns for d, j in other.columns if k == j in kinds]
        fixed = {*table.key, *table.ruled}  # SQLite changes a key row by row
        free = [(n, k) for n, k in table.columns if n not in fixed and k in kinds]
        if not pairs:
            return f"DELETE FROM {table.name} WHERE {self.simple_condition(table.columns)}"
        mine, theirs = self.random.choice(pairs)
        name = self.name("y")
        where = f"WHERE {table.name}.{mine} = {name}.k"
        if self.maybe(0.3):
            scope = tuple((f"{table.name}.{n}", k) for n, k in table.columns)
            where += f" AND {self.simple_condition(scope)}"
        values = [(n, c) for n, k in free for c, j in other.columns if k == j]
        if not values or self.maybe(0.4):
            beside = f"(SELECT {theirs} AS k FROM {other.name}) AS {name}"
            return f"DELETE FROM {table.name} USING {beside} {where}"
        to, value = self.random.choice(values)
        beside = f"(SELECT {theirs} AS k, MAX({value}) AS v FROM {other.name} GROUP BY {theirs})"
        return f"UPDATE {table.name} SET {to} = {name}.v FROM {beside} AS {name} {where}"

    def merge(self, table: Table) -> str:
        """A MERGE of random clauses; a row of the table may meet two, which is an error then."""
        other, t, s = self.random.choice(self.tables), table.name, self.name("s")
        kinds = (INT, TEXT, DOUBLE)
        pairs = [(c, d) for c, k in table.columns for d, j in other.columns if k == j in kinds]
        if not pairs:
            return f"DELETE FROM {t} WHERE {self.simple_condition(table.columns)}"
        mine, theirs = self.random.choice(pairs)
        named = [(n, k) for n, k in other.columns if n != theirs]
        source = f"{other.name} AS {s}"
        if self.maybe(0.7):  # of each key one row
            rest = "".join(f", MAX({n}) AS {n}" for n, _ in named)
            source = f"(SELECT {theirs}{rest} FROM {other.name} GROUP BY {theirs}) AS {s}"
        there = tuple((f"{t}.{n}", k) for n, k in table.columns)
        here = tuple((f"{s}.{n}", k) for n, k in other.columns)
        on = f"{t}.{mine} {self.random.choice('===<')} {s}.{theirs}"
        if self.maybe(0.3):
            on += f" AND {self.simple_condition((*there, *here))}"
        fixed = {*table.key, *table.refers, *table.ruled}

        def value(name: str, kind: str, scope: Columns) -> str:
            plain = self.value(kind, required=name in table.required)
            found = [n for n, k in scope if k == kind]
            if not found or self.maybe(0.3):
                return plain
            one = self.random.choice(found)
            if kind == INT and self.maybe(0.3):
                one = f"{one} + 1"
            return f"COALESCE({one}, {plain})" if name in table.required else one

        def sets(scope: Columns) -> str:
            free = [(n, k) for n, k in table.columns if n not in fixed]
            some = self.random.sample(free, self.random.randint(1, len(free))) if free else ()
            said = ", ".join(f"{n} = {value(n, k, scope)}" for n, k in some)
            return f"UPDATE SET {said}" if said else "DELETE"

        def inserts() -> str:
            columns = [c for c in table.columns if c[0] in table.required or self.maybe(0.8)]
            columns = self.random.sample(columns, len(columns)) or [table.columns[0]]
            names = ", ".join(n for n, _ in columns)
            values = ", ".join(value(n, k, here) for n, k in columns)
            return f"INSERT ({names}) VALUES ({values})"

        whens = []
        for word, scope, ways in (
            ("MATCHED", (*there, *here), (sets((*there, *here)), "DELETE", "DO NOTHING")),
            ("NOT MATCHED", here, (inserts(), inserts(), "DO NOTHING")),
            ("NOT MATCHED BY SOURCE", there, (sets(there), "DELETE", "DO NOTHING")),
        ):
            some = [self.random.choice(ways) for _ in range(self.random.choice((0, 1, 1, 2)))]
            for place, way in enumerate(some):
                tested = place < len(some) - 1 or self.maybe(0.4)
                test = f" AND {self.simple_condition(scope)}" if tested else ""
                whens.append(f"WHEN {word}{test} THEN {way}")
        whens = whens or ["WHEN MATCHED THEN DELETE"]
        return f"MERGE INTO {t} USING {source} ON {on} {' '.join(whens)}"

    def upsert(self, table: Table) -> str:
        """An INSERT of rows whose key may be there, and what becomes of them."""
        form = self.random.choice(("nothing", "update", "update", "ignore", "replace"))
        insert = self.insert(table, self.random.randint(1, 3))
        places = [place for place, (n, _) in enumerate(table.columns) if n in table.key]
        rows = re.findall(r"\(([^()]*)\)", insert)
        by_key = {tuple(row.split(", ")[place] for place in places): row for row in rows}
        # quotes tell no two keys apart, and 1 is 1.0
        alike = {tuple(one.strip("'").removesuffix(".0") for one in key) for key in by_key}
        if len(alike) < len(by_key):
            by_key = dict([by_key.popitem()])
        values = ", ".join(f"({row})" for row in by_key.values())
        free = [n for n, _ in table.columns if n not in {*table.key, *table.ruled}]
        kinds = dict(table.columns)
        # of a table that is all key DuckDB's REPLACE returns nothing, and SQLite's the row
        if (form == "ignore" or (form == "replace" and free)) and not table.constraints:
            return f"INSERT OR {form.upper()} INTO {table.name} VALUES {values}"
        if form == "update" and free:
            scope = tuple(
                (f"{of}.{n}", k) for of in (table.name, "excluded") for n, k in kinds.items()
            )
            sets = []
            for name in self.random.sample(free, self.random.randint(1, len(free))):
                one = f"excluded.{name}"
                if kinds[name] == INT and self.maybe(0.5) and name not in table.required:
                    one = f"{table.name}.{name} + {one}"
                sets.append(f"{name} = {one}")
            where = f" WHERE {self.simple_condition(scope)}" if self.maybe(0.4) else ""
            what = f"({', '.join(table.key)}) DO UPDATE SET {', '.join(sets)}{where}"
        else:
            what = f"({', '.join(table.key)}) DO NOTHING" if self.maybe(0.5) else "DO NOTHING"
        return f"INSERT INTO {table.name} VALUES {values} ON CONFLICT {what}"

    def insert(self, table: Table, count: int) -> str:
        rows: dict[str, None] = {}
        for _ in range(count):
            cells = (self.beside(k, required=n in table.required) for n, k in table.columns)
            rows[", ".join(cells)] = None
        if table.key and self.maybe(0.85):  # else a key may be there twice
            places = [place for place, (n, _) in enumerate(table.columns) if n in table.key]
            by_key = {tuple(row.split(", ")[place] for place in places): row for row in rows}
            rows = dict.fromkeys(by_key.values())
        written = [f"({row})" for row in rows]
        if not table.key and self.maybe(0.5):
            written.append(written[0])
        return f"INSERT INTO {table.name} VALUES {', '.join(written)}"

    def insert_by_name(self, table: Table) -> str:
        """An INSERT of a query, each of whose columns goes to the one of its name."""
        columns = [c for c in table.columns if c[0] in table.required or self.maybe(0.8)]
        columns = self.random.sample(columns, len(columns)) or [table.columns[0]]
        cells = (
            f"CAST({self.value(k, required=n in table.required)} AS {k}) AS {n}" for n, k in columns
        )
        return f"INSERT INTO {table.name} BY NAME SELECT {', '.join(cells)}"

    def simple_condition(self, scope: Columns) -> str:
        name, kind = self.random.choice(scope)
        if self.maybe(0.2):
            return f"{name} IS {self.random.choice(('', 'NOT '))}NULL"
        ops = ("=", "=", "<>", "<", ">=")
        op = self.random.choice(ops[: 3 if kind in (*NESTED, WIDE, INTERVAL) else None])
        # A view's column gives no literal a type in SQLite.
        value = self.value if self.portable else self.beside
        return f"{name} {op} {value(kind, required=True)}"

    # --- expressions -----------------------------------------------------------------------------

    def of(self, scope: Columns, kind: str) -> str | None:
        found = [n for n, k in scope if k == kind]
        return self.random.choice(found) if found else None

    def expression(self, scope: Columns, kind: str, depth: int, inner: bool = True) -> str:
        column = self.of(scope, kind)
        if depth <= 0 or (column and self.maybe(0.5)):
            if column and self.maybe(0.85):
                return column
            return f"CAST({self.value(kind)} AS {kind})" if kind in NEW else self.value(kind)
        if kind == BOOL:
            return f"({self.condition(scope, depth - 1, inner)})"

        def again(of: str = kind) -> str:
            return self.expression(scope, of, depth - 1, inner)

        typed = f"CAST({{}} AS {kind})"
        forms: list[Callable[[], str]] = [
            lambda: (
                f"CASE WHEN {self.condition(scope, depth - 1, inner)} THEN "
                f"{typed.format(again())} ELSE {again()} END"
            ),
            lambda: (
                f"CASE WHEN {self.condition(scope, depth - 1, inner)} THEN "
                f"{typed.format(again())} END"
            ),
            lambda: f"COALESCE({typed.format(again())}, {again()})",
            lambda: f"NULLIF({typed.format(again())}, {again()})",
        ]
        if kind == INT:
            forms += [
                lambda: f"({typed.format(again())} {self.random.choice('+-')} {again()})",
                lambda: f"({typed.format(again())} + {self.value(INT)})",
                lambda: f"ABS({typed.format(again())})",
                lambda: f"({typed.format(again())} % 3)",
                lambda: f"CAST(LENGTH({typed.format(again(TEXT)).replace(INT, TEXT)}) AS INTEGER)",
                lambda: f"(- {typed.format(again())})",
            ]
            if not self.portable:
                forms += [
                    lambda: f"CAST(SIGN(CAST({again(WIDE)} AS {WIDE})) AS INTEGER)",
                    lambda: f"CAST(EXTRACT(MONTH FROM {again(DATE)}) AS INTEGER)",
                    lambda: f"CAST(({again(DATE)} - {again(DATE)}) % 1000 AS INTEGER)",
                    lambda: f"CAST(EXTRACT(MINUTE FROM {again(TIME)}) AS INTEGER)",
                    lambda: (
                        f"CAST(EXTRACT({self.random.choice(('YEAR', 'MONTH', 'DAY', 'HOUR'))} "
                        f"FROM CAST({again(INTERVAL)} AS INTERVAL)) AS INTEGER)"
                    ),
                    lambda: f"CAST(OCTET_LENGTH(CAST({again(BLOB)} AS BLOB)) AS INTEGER)",
                    lambda: f"(CAST({again(INT)} AS INTEGER) >> 1)",
                    lambda: f"CAST(LEN(REGEXP_SPLIT_TO_ARRAY({again(TEXT)}, 'a|b')) AS INTEGER)",
                ]
            if INTS in self.types:
                forms += [
                    lambda: f"CAST(LEN(CAST({again(INTS)} AS {INTS})) AS INTEGER)",
                    lambda: f"(CAST({again(LISTS)} AS {LISTS}))[1][2]",
                    lambda: f"(CAST({again(INTS)} AS {INTS}))[{again(INT)}]",
                    lambda: f"(CAST({again(INTS)} AS {INTS}))[{self.random.randint(1, 3)}]",
                ]
            if inner:
                forms += [lambda: self.scalar_query(scope)] * 3
        elif kind == DOUBLE:
            forms += [
                lambda: f"({typed.format(again())} {self.random.choice('+-')} {again()})",
                lambda: f"CAST({again(INT)} AS DOUBLE)",
                lambda: f"(CAST({again(INT)} AS DOUBLE) * 0.5)",
            ]
        elif kind == DECIMAL:
            forms += [
                lambda: f"({typed.format(again())} {self.random.choice('+-')} {again()})",
                lambda: f"CAST({again(INT)} AS {DECIMAL})",
                lambda: typed.format(f"{again()} * {self.random.choice(('0.5', '1.25', '2'))}"),
                lambda: f"ROUND({typed.format(again())}, 1)",
                lambda: typed.format(f"{again()} + {again(INT)}"),
            ]
        elif kind == WIDE:
            forms += [
                lambda: f"({typed.format(again())} {self.random.choice('+-')} {again()})",
                lambda: typed.format(again(INT)),
                lambda: typed.format(again(DECIMAL)),
                lambda: typed.format(f"{again()} * {self.random.choice(('0.5', '1.25', '2'))}"),
                # of fewer digits behind the point: DuckDB's COALESCE of this one would round others
                lambda: typed.format(f"ROUND({again()}, {self.random.randint(0, 2)})"),
                lambda: typed.format(f"{again()} + {again(DECIMAL)}"),
                lambda: typed.format(f"{again()} % {self.random.choice(('7', '1.25'))}"),
                lambda: f"ABS({typed.format(again())})",
                lambda: f"(- {typed.format(again())})",
                lambda: f"GREATEST({typed.format(again())}, {again(DECIMAL)})",
            ]
        elif kind in ARRAYS:
            of = ARRAYS[kind]
            if kind != DOUBLES or not self.nan:
                forms += [
                    lambda: f"LIST_SORT({typed.format(again())}, 'DESC')",
                    lambda: f"LIST_CONCAT({typed.format(again())}, {typed.format(again())})",
                    lambda: f"LIST_REVERSE({typed.format(again())})",
                    lambda: f"LIST_SORT(LIST_DISTINCT({typed.format(again())}))",
                ]
            forms += [lambda: typed.format(f"[{again(of)}, {again(of)}]")] * 2
            forms += [lambda: f"({typed.format(again())})[{self.place()}:{self.place()}]"]
        elif kind == RECORD:
            fields = FIELDS[RECORD].items()
            forms += [
                lambda: typed.format(f"{{{', '.join(f'{n!r}: {again(k)}' for n, k in fields)}}}"),
            ]
        elif kind == STRUCT:
            forms += [
                lambda: typed.format(f"{{'x': {again(INT)}, 'y': {again(TEXT)}}}"),
                lambda: typed.format(f"ROW({again(INT)}, {again(TEXT)})"),
                lambda: typed.format(f"STRUCT_PACK(y := {again(TEXT)}, x := {again(INT)})"),
            ]
        elif kind == BLOB:
            forms += [
                lambda: f"({typed.format(again())} || {typed.format(again())})",
                lambda: f"ENCODE(CAST({again(TEXT)} AS TEXT))",
                lambda: f"UNHEX(HEX({typed.format(again())}))",
            ]
        elif kind == UUID:
            forms += [
                lambda: f"GREATEST({typed.format(again())}, {typed.format(again())})",
                lambda: typed.format(f"UPPER(CAST({typed.format(again())} AS TEXT))"),
                lambda: typed.format(f"REPLACE(CAST({typed.format(again())} AS TEXT), '-', '')"),
            ]
        elif kind == DATE:
            forms += [
                lambda: f"({typed.format(again())} + {self.value(INT)})",
                lambda: typed.format(again(TIMESTAMP)),
                lambda: typed.format(f"{again()} - INTERVAL '1' MONTH"),
            ]
        elif kind == TIMESTAMP:
            forms += [
                lambda: typed.format(again(DATE)),
                lambda: f"({typed.format(again())} + INTERVAL '{self.random.randint(1, 30)}' HOUR)",
                lambda: f"DATE_TRUNC('month', {typed.format(again())})",
            ]
            forms += [
                lambda: f"({typed.format(again())} + CAST({again(INTERVAL)} AS INTERVAL))",
                lambda: f"(CAST({again(DATE)} AS DATE) + CAST({again(TIME)} AS TIME))",
            ]
        elif kind == TIME:
            forms += [
                lambda: (
                    f"({typed.format(again())} {self.random.choice('+-')} "
                    f"CAST({again(INTERVAL)} AS INTERVAL))"
                ),
                lambda: typed.format(f"CAST({again(TIMESTAMP)} AS {TIMESTAMP})"),
                lambda: typed.format(f"CAST({typed.format(again())} AS TEXT)"),
            ]
        elif kind == INTERVAL:
            moments = f"CAST({{}} AS {TIMESTAMP})"
            forms += [
                lambda: f"({typed.format(again())} {self.random.choice('+-')} {again()})",
                lambda: f"({typed.format(again())} * {self.random.choice(('2', '-1', '3'))})",
                lambda: f"({typed.format(again())} * CAST({again(INT)} AS INTEGER))",
                lambda: f"({typed.format(again())} * 2.5)",
                lambda: f"({typed.format(again())} / 7)",
                lambda: f"(- {typed.format(again())})",
                lambda: (
                    f"({moments.format(again(TIMESTAMP))} - {moments.format(again(TIMESTAMP))})"
                ),
                lambda: (
                    f"AGE({moments.format(again(TIMESTAMP))}, {moments.format(again(TIMESTAMP))})"
                ),
                lambda: f"TO_DAYS(CAST({again(INT)} AS INTEGER))",
                lambda: f"INTERVAL (CAST({again(INT)} AS INTEGER)) HOUR",
                lambda: typed.format(f"CAST({typed.format(again())} AS TEXT)"),
            ]
        else:
            forms += [
                lambda: f"({again()} || {again()})",
                lambda: f"UPPER({typed.format(again())})",
                lambda: f"SUBSTR({typed.format(again())}, 1, 1)",
                lambda: f"CAST({again(INT)} AS TEXT)",
                lambda: f"REPLACE({typed.format(again())}, 'a', 'c')",
            ]
            if not self.portable:
                forms.append(lambda: f"CAST(CAST({again(WIDE)} AS {WIDE}) AS TEXT)")
                forms.append(lambda: f"CAST(CAST({again(INTERVAL)} AS INTERVAL) AS TEXT)")
                forms.append(lambda: f"CAST(CAST({again(TIME)} AS TIME) AS TEXT)")
                forms.append(lambda: f"CAST(CAST({again(UUID)} AS UUID) AS TEXT)")
                forms.append(lambda: f"HEX(CAST({again(BLOB)} AS BLOB))")
                forms.append(lambda: f"CAST(CAST({again(BLOB)} AS BLOB) AS TEXT)")
                pattern = self.random.choice(("'[ab]'", "'(a)(b?)'", "'^.'", "'B|a+'"))
                forms += [
                    lambda: f"REGEXP_REPLACE({typed.format(again())}, {pattern}, '<\\0>', 'g')",
                    lambda: f"REGEXP_EXTRACT({typed.format(again())}, {pattern})",
                    lambda: f"({typed.format(again())} || CAST({again(INT)} AS INTEGER))",
                    lambda: f"STRFTIME(CAST({again(DATE)} AS DATE), '%d.%m.%Y')",
                ]
        if STRUCT in self.types:
            found = [
                (of, n) for of, fields in FIELDS.items() for n, k in fields.items() if k == kind
            ]
            forms += [lambda: self.field(scope, *self.random.choice(found), again)] * len(found)
        return self.random.choice(forms)()

    def field(self, scope: Columns, of: str, name: str, again: Callable[[str], str]) -> str:
        """A field of a column, or of some other struct."""
        column = self.of(scope, of)
        if column and self.maybe(0.7):
            return self.random.choice(
                (f"{column}.{name}", f"({column}).{name}", f"{column}['{name}']")
            )
        forms = [f"(CAST({again(of)} AS {of})).{name}"]
        if of == STRUCT:
            forms.append(f"(CAST({again(STRUCTS)} AS {STRUCTS}))[1].{name}")
        return self.random.choice(forms)

    def with_fields(self, columns: Columns) -> Columns:
        """Columns, and fields of them, which stand wherever a column does."""
        found = list(columns)
        for name, kind in found:  # those of a struct inside of one, too
            found.extend((f"{name}.{n}", k) for n, k in FIELDS.get(kind, {}).items())
        return tuple(c for c in found if c in columns or self.maybe(0.7))

    def place(self) -> str:
        """An end of a slice, or none."""
        return self.random.choice(("", "-2", "-1", "0", "1", "2", "3"))

    def scalar_query(self, scope: Columns, nested: int = 2) -> str:
        """A subquery of one value; as deep as `nested` others decide which rows it is of."""
        table = self.random.choice(self.tables)
        alias = self.name("q")
        columns = self.with_fields(tuple((f"{alias}.{n}", k) for n, k in table.columns))
        ints = [n for n, k in columns if k == INT]
        wanted = [f"CAST(COUNT({self.random.choice((*ints, '*'))}) AS INTEGER)"]
        for one in ints:
            wanted += [f"MAX({one})", f"MIN({one})", f"CAST(SUM({one}) AS INTEGER)"]
            wanted += [f"MAX({one}) - MIN({one})", f"CAST(2 * COUNT(*) - SUM({one}) AS INTEGER)"]
        if ints and self.maybe(0.25):
            where = f" WHERE {self.simple_condition(columns)}" if self.maybe(0.5) else ""
            where = self.correlation(scope, columns) if self.maybe(0.5) else where
            way = self.random.choice(("ASC NULLS FIRST", "DESC NULLS LAST"))
            first = self.random.choice(("LIMIT 1", "LIMIT 1 OFFSET 1", "LIMIT 0"))
            if not self.portable:
                first = "OFFSET 2 ROWS FETCH NEXT 1 ROWS ONLY"
            one = self.random.choice(ints)
            order = f"ORDER BY {one} {way} {first}"
            return f"(SELECT {one} FROM {table.name} AS {alias}{where} {order})"
        where = self.correlation(scope, columns)
        arrays = [n for n, k in columns if k == INTS]
        if arrays and self.maybe(0.5):
            item = f"{alias}u"
            where = f" CROSS JOIN UNNEST({self.random.choice(arrays)}) AS {item}(x){where}"
            wanted = [f"CAST({one}({item}.x) AS INTEGER)" for one in ("MAX", "SUM", "COUNT")]
        elif nested > 0 and self.maybe(0.7 if self.correlated else 0.3):
            return f"(SELECT {self.among(scope, table, alias, where, nested - 1)})"
        return f"(SELECT {self.random.choice(wanted)} FROM {table.name} AS {alias}{where})"

    def among(self, scope: Columns, table: Table, alias: str, where: str, nested: int) -> str:
        """An aggregate of rows that others decide about: each counts once, however many do."""
        columns = self.with_fields(tuple((f"{alias}.{n}", k) for n, k in table.columns))
        ints = [n for n, k in columns if k == INT]
        one = self.random.choice((*ints, "*"))
        call = f"COUNT({one})" if one == "*" or self.maybe(0.4) else f"SUM({one})"
        around = tuple(column for column in scope if "." in column[0])
        there = (*columns, *around)
        plain = f"{table.name} AS {alias}"
        form = self.random.randrange(4)
        if form == 0:  # rows of a query, of which equal ones may be one
            first = {one.split(".")[1] for one in (one, columns[0][0]) if "." in one}
            names = [n for n, _ in table.columns if n in first or self.maybe(0.3)]
            distinct = self.random.choice(("DISTINCT ", "DISTINCT ", ""))
            query = f"SELECT {distinct}{', '.join(names)} FROM {table.name} AS {alias}{where}"
            if not distinct or self.maybe(0.3):
                ops = ("UNION", "UNION", "UNION ALL", "EXCEPT", "INTERSECT")
                other = self.name("q")
                found = self.with_fields(tuple((f"{other}.{n}", k) for n, k in table.columns))
                also = self.correlation(around, found)
                query += f" {self.random.choice(ops)} SELECT {', '.join(names)} FROM"
                query += f" {table.name} AS {other}{also}"
            return f"CAST({call} AS INTEGER) FROM ({query}) AS {alias}"
        if form == 1:  # a join with a condition of the query around
            other, name = self.random.choice(self.tables), self.name("q")
            found = self.with_fields(tuple((f"{name}.{n}", k) for n, k in other.columns))
            pairs = [(a, b) for a, k in columns for b, j in found if j == k]
            if pairs:
                kind = self.random.choice(
                    ("LEFT", "") if self.portable else ("LEFT", "SEMI", "ANTI")
                )
                on = " = ".join(self.random.choice(pairs))
                more = self.correlation(around, found).removeprefix(" WHERE ")
                on += f" AND {more}" if more else ""
                join = f"{plain} {kind} JOIN {other.name} AS {name} ON {on}{where}"
                return f"CAST({call} AS INTEGER) FROM {join}"
        tests = []
        for _ in range(self.random.choice((1, 1, 2))):
            left, of = self.random.choice(columns)
            forms = [self.exists(there), self.in_query(there, left, of)]
            if of == INT:
                forms.append(f"{left} >= {self.scalar_query(there, nested)}")
            tests.append(self.random.choice(forms))
        if self.maybe(0.4):
            tests.append(self.simple_condition(columns))
        self.random.shuffle(tests)
        test = f" {self.random.choice(('AND', 'OR', 'OR'))} ".join(f"({one})" for one in tests)
        if self.maybe(0.2):
            return f"CAST({call} FILTER (WHERE {test}) AS INTEGER) FROM {plain}{where}"
        where = f"{where} AND ({test})" if where else f" WHERE {test}"
        return f"CAST({call} AS INTEGER) FROM {plain}{where}"

    def aggregated(self) -> tuple[str, Columns]:
        """Rows of a table beside an aggregate of a subquery for each, or those where it tests."""
        table, name = self.random.choice(self.tables), self.name("x")
        scope = self.with_fields(tuple((f"{name}.{n}", k) for n, k in table.columns))
        ints = [n for n, k in scope if k == INT]
        self.hidden = ""
        tables, tests = f"{table.name} AS {name}", []
        if self.maybe(0.6):
            tables, tests = self.asking(tables, scope)
        if ints and self.maybe(0.4):
            test = f"{self.random.choice(ints)} {self.random.choice(('<>', '>=', '<', '='))}"
            tests.append(f"{test} {self.scalar_query(scope)}")
            self.random.shuffle(tests)
            return f"SELECT {name}.a AS c0 FROM {tables} WHERE {' AND '.join(tests)}", (
                ("c0", table.columns[0][1]),
            )
        shown = f"SELECT {name}.a AS c0, {self.scalar_query(scope)} AS c1"
        columns = (("c0", table.columns[0][1]), ("c1", INT))
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        return f"{shown} FROM {tables}{where}", columns

    def asking(self, tables: str, scope: Columns) -> tuple[str, list[str]]:
        """A FROM, and conditions for WHERE that few of its rows pass, or few of another table."""
        form, more = self.random.randrange(4), self.simple_condition(scope)
        if form < 2:
            return tables, [self.few(scope), more][: form + 1]
        other, alias = self.random.choice(self.tables), self.name("y")
        there = tuple((f"{alias}.{n}", k) for n, k in other.columns)
        pairs = [(a, b) for a, k in scope for b, j in there if j == k]
        if not pairs:
            return tables, [self.few(scope), more]
        (here, of), named = self.random.choice(pairs), f"{other.name} AS {alias}"
        if form == 2:
            return tables, [f"{here} IN (SELECT {of} FROM {named} WHERE {self.few(there)})"]
        return f"{tables} JOIN {named} ON {here} = {of}", [self.few(there)]

    def few(self, scope: Columns) -> str:
        """A condition that says by itself that few rows pass it."""
        plain = [c for c in scope if c[1] not in (*NESTED, WIDE, INTERVAL)]
        name, kind = self.random.choice(plain or scope)
        value = self.value if self.portable else self.beside
        if kind == TEXT and self.maybe(0.5):
            return f"{name} LIKE {self.random.choice(('a%', '%b', '%'))!r}"
        if plain and self.maybe(0.3):
            return f"{name} IN ({value(kind, required=True)}, {value(kind, required=True)})"
        return f"{name} = {value(kind, required=True)}"

    def shared(self, scope: Columns) -> list[tuple[str, str, str]]:
        """Tables, and a column that the query around has of the same name, as that is there."""
        names = [(name.rsplit(".", 1)[-1], name) for name, of in scope if of == INT and "." in name]
        return [
            (table.name, name, around)
            for table in self.tables
            for name, kind in table.columns
            for one, around in names
            if kind == INT and name == one
        ]

    def shadowed(self, scope: Columns) -> str:
        """Of two subqueries one that reads a name of its own, and one that of the query around."""
        table, name, around = self.random.choice(self.shared(scope))
        both, e = [], self.name("e")
        for least in self.random.sample((name, around), 2):
            where = f"{e}.{name} >= {least}"
            both.append(f"(SELECT MIN({e}.{name}) FROM {table} AS {e} WHERE {where})")
        return f"SUM({both[0]}) - MAX({both[1]})"

    def correlation(self, scope: Columns, columns: Columns) -> str:
        parts = []
        inside = {name.split(".")[1] for name, _ in columns}  # they hide what USING has merged
        pairs = [(a, b) for a, k in scope for b, j in columns if j == k and a not in inside]
        around = tuple(c for c in scope if c[0] not in inside)
        if around and self.computes and self.maybe(0.6):
            parts.append(self.computed(around, columns))
        elif pairs and self.maybe(0.75):
            one, two = self.random.choice(pairs)
            op = self.random.choice(("=", "=", "=", "<", "<>"))
            parts.append(f"{two} {op} {one}")
        if self.maybe(0.4):
            parts.append(self.simple_condition(columns))
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def together(self, scope: Columns) -> str:
        """Values of a few columns that go together, as of TPC-H's two nations."""
        columns = self.random.sample(scope, min(len(scope), self.random.choice((2, 2, 3))))
        sides = []
        for _ in range(self.random.choice((2, 2, 3))):
            chosen = columns if self.maybe(0.7) else columns[: self.random.randint(1, 2)]
            tests = [
                f"{name} {self.random.choice(('=', '=', '=', '<', '>=', '<>'))} {self.value(kind)}"
                if kind not in NESTED and self.maybe(0.8)
                else f"{name} IS {self.random.choice(('', 'NOT '))}NULL"
                for name, kind in chosen
            ]
            sides.append(f"({' AND '.join(tests)})")
        return f"({' OR '.join(sides)})"

    def condition(self, scope: Columns, depth: int, inner: bool = True) -> str:
        kind = self.random.choice([k for _, k in scope] or [INT])
        if depth > 0 and self.maybe(0.4):
            choice = self.random.randrange(5)
            if choice == 4:
                return self.together(scope)
            one = self.condition(scope, depth - 1, inner)
            if choice == 0:
                return f"NOT ({one})"
            if choice == 3:  # every side requires it, and one of them nothing else perhaps
                two = f"({one}) AND ({self.condition(scope, depth - 1, inner)})"
                other = self.condition(scope, depth - 1, inner=False)
                three = self.random.choice((f"({other}) AND ({one})", one))
                return f"({two}) OR ({three})"
            op = ("AND", "OR")[choice - 1]
            return f"({one}) {op} ({self.condition(scope, depth - 1, inner)})"
        left = self.of(scope, kind) or self.value(kind, required=True)
        if depth > 0 and self.maybe(0.4):
            left = f"CAST({self.expression(scope, kind, depth - 1, inner)} AS {kind})"
        right = (self.of(scope, kind) if self.maybe(0.4) else None) or self.value(kind)
        forms = [
            lambda: f"{left} {self.random.choice(('=', '<>', '<', '<=', '>', '>='))} {right}",
            lambda: f"{left} {self.random.choice(('=', '<>', '<', '<=', '>', '>='))} {right}",
            lambda: f"{left} IS {self.random.choice(('', 'NOT '))}NULL",
            lambda: f"{left} IN ({right}, {self.value(kind)})",
            lambda: f"{left} NOT IN ({self.value(kind, required=True)}, {right})",
            lambda: f"{left} BETWEEN {self.value(kind)} AND {right}",
            lambda: f"{left} IS {self.random.choice(('', 'NOT '))}DISTINCT FROM {right}",
            lambda: self.distinct_from_null(kind, right),
        ]
        if kind in NESTED:
            del forms[-3]  # DuckDB breaks off
        if kind == BOOL:
            forms += [lambda: left, lambda: f"{left} IS TRUE"]
        if kind == TEXT:
            pattern = self.random.choice(("'a%'", "'_'", "'%b'"))
            forms.append(lambda: f"{left} {self.random.choice(('', 'NOT '))}LIKE {pattern}")
            forms.append(lambda: f"{left} LIKE {pattern} ESCAPE '!'")
            begun, count = self.random.choice((("'a'", 1), ("'ab'", 2), ("'b'", 2)))
            same = self.random.choice(("= {}", "<> {}", "IN ({}, 'B')")).format(begun)
            forms.append(lambda: f"SUBSTR({left}, 1, {count}) {same}")
            if not self.portable:
                forms.append(lambda: f"{left} {self.random.choice(('~', '!~'))} '^[ab]|B'")
        if kind == INT:
            forms.append(lambda: f"{left} < {self.value(DOUBLE)}")
        if kind in ARRAYS:
            one = self.of(scope, ARRAYS[kind]) or self.value(ARRAYS[kind])
            forms += [lambda: f"{one} = ANY({left})", lambda: f"LIST_CONTAINS({left}, {one})"]
            test = f"x {self.random.choice(('=', '<', 'IS NOT DISTINCT FROM'))} {one}"
            if inner:
                forms.append(lambda: f"EXISTS (SELECT 1 FROM UNNEST({left}) AS e(x) WHERE {test})")
        if not (self.portable or kind in NESTED):
            forms.append(lambda: self.row_values(scope, (left, right), kind))
        if inner:
            forms += [
                lambda: self.exists(scope),
                lambda: self.exists(scope),
                lambda: self.in_query(scope, left, kind),
                lambda: self.in_query(scope, left, kind),
                lambda: self.rows_in_query(scope, left, kind),
            ]
        return self.random.choice(forms)()

    def distinct_from_null(self, kind: str, other: str) -> str:
        """A NULL that has a type beside a value, or another NULL."""
        right = self.random.choice((f"CAST(NULL AS {kind})", f"CAST({other} AS {kind})"))
        no = self.random.choice(("", "NOT "))
        return f"CAST(NULL AS {kind}) IS {no}DISTINCT FROM {right}"

    def row_values(self, scope: Columns, sides: tuple[str, str], kind: str) -> str:
        """A comparison of two rows of values; as DuckDB has it, in which NULLs are equal."""
        other = self.random.choice([k for _, k in scope if k not in NESTED] or [INT])

        def one(of: str) -> str:
            return self.of(scope, of) or f"CAST({self.value(of)} AS {of})"

        def row(first: str) -> str:
            return f"(ROW(CAST({first} AS {kind}), {one(other)}))"  # sqlglot takes ROW < for a type

        left, right = map(row, sides)
        if self.maybe(0.2):
            return f"{left} IN ({right}, {row(self.value(kind))})"
        op = self.random.choice(("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"))
        return f"{left} {op} {right}"

    def rows_in_query(self, scope: Columns, left: str, kind: str) -> str:
        """A row of values among those of a table; every engine says the same of its NULLs."""
        kinds = {k for _, k in scope if k not in NESTED}
        found = [
            (t, n, m, j)
            for t in self.tables
            for n, k in t.columns
            for m, j in t.columns
            if k == kind and j in kinds and n != m and kind not in NESTED
        ]
        if not found:
            return f"{left} IS NOT NULL"
        table, one, two, other = self.random.choice(found)
        no = self.random.choice(("", "NOT "))
        beside = self.of(scope, other)
        where = f" WHERE {self.simple_condition(table.columns)}" if self.maybe(0.4) else ""
        return f"({left}, {beside}) {no}IN (SELECT {one}, {two} FROM {table.name}{where})"

    def exists(self, scope: Columns) -> str:
        table = self.random.choice(self.tables)
        alias = self.name("e")
        columns = self.with_fields(tuple((f"{alias}.{n}", k) for n, k in table.columns))
        no = self.random.choice(("", "NOT "))
        where = self.correlation(scope, columns)
        if self.maybe(0.15):  # and one inside that is made for the rows of this one
            inner = self.name("e")
            there = self.with_fields(tuple((f"{inner}.{n}", k) for n, k in table.columns))
            found = f"{table.name} AS {inner}{self.correlation(columns, there)}{self.groups(there)}"
            where += f"{' AND' if where else ' WHERE'} EXISTS (SELECT 1 FROM {found})"
        elif self.maybe(0.25):
            return (
                f"{no}EXISTS (SELECT 1 FROM {table.name} AS {alias}{where}{self.groups(columns)})"
            )
        return f"{no}EXISTS (SELECT 1 FROM {table.name} AS {alias}{where})"

    def groups(self, columns: Columns) -> str:
        """A GROUP BY by one of these columns, and a HAVING."""
        count = self.random.choice((1, 1, 2))
        return f" GROUP BY {self.random.choice(columns)[0]} HAVING COUNT(*) > {count}"

    def lateral(self, scope: Columns, name: str) -> tuple[str, Columns]:
        """A subquery of a FROM for each of its rows so far, and what it shows."""
        table = self.random.choice(self.tables)
        alias = self.name("l")
        columns = self.with_fields(tuple((f"{alias}.{n}", k) for n, k in table.columns))
        picked = self.random.sample(columns, self.random.randint(1, min(2, len(columns))))
        where = self.correlation(scope, columns)
        shown = [f"{one} AS p{n}" for n, (one, _) in enumerate(picked)]
        kinds = [kind for _, kind in picked]
        form = self.random.randrange(7)
        other = ""
        if form == 5:
            other = self.other_side(scope, table, kinds)
        elif form == 6:
            other = self.name("l")
            one = self.random.choice(table.columns)[0]
            kind = self.random.choice(("FULL", "RIGHT"))
            where = f" {kind} JOIN {table.name} AS {other} ON {other}.{one} = {alias}.{one}{where}"
            other = ""
        if form == 0:
            where += f" GROUP BY {', '.join(one for one, _ in picked)}"
        elif form == 1:
            order = ", ".join(f"{n + 1} DESC NULLS LAST" for n in range(len(picked)))
            where += f" ORDER BY {order} LIMIT {self.random.choice((1, 2))}"
        elif form == 2:
            shown, kinds = ["CAST(COUNT(*) AS INTEGER) AS p0"], [INT]
        distinct = "DISTINCT " if form == 3 else ""
        query = f"SELECT {distinct}{', '.join(shown)} FROM {table.name} AS {alias}{where}{other}"
        found = tuple((f"{name}.p{n}", kind) for n, kind in enumerate(kinds))
        return f"LATERAL ({query}) AS {name}", self.with_fields(found)

    def nearest(self, column: tuple[str, str], name: str) -> tuple[str, Columns]:
        """An ASOF JOIN with groups of a table, of which no two are as near."""
        one, kind = column
        table = self.random.choice(self.tables)
        found = [n for n, k in table.columns if k == kind]
        key = self.random.choice(found) if found else f"CAST({self.value(kind)} AS {kind})"
        query = f"SELECT {key} AS p0, CAST(COUNT(*) AS INTEGER) AS p1 FROM {table.name} GROUP BY 1"
        way = self.random.choice(("ASOF JOIN", "ASOF LEFT JOIN"))
        op = self.random.choice((">=", ">", "<=", "<"))
        return f" {way} ({query}) AS {name} ON {one} {op} {name}.p0", (
            (f"{name}.p0", kind),
            (f"{name}.p1", INT),
        )

    def other_side(self, scope: Columns, table: Table, kinds: list[str]) -> str:
        """The rest of a set operation of columns of these kinds, of the rows around or a table."""
        ops = ("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL")
        alias, where = self.name("l"), ""
        columns = self.with_fields(tuple((f"{alias}.{n}", k) for n, k in table.columns))
        if self.maybe(0.5):
            where = f" FROM {table.name} AS {alias}{self.correlation(scope, columns)}"
        there = columns if where and self.maybe(0.8) else tuple(c for c in scope if "." in c[0])
        shown = [self.of(there, kind) or f"CAST(NULL AS {kind})" for kind in kinds]
        return f" {self.random.choice(ops)} SELECT {', '.join(shown)}{where}"

    def in_query(self, scope: Columns, left: str, kind: str) -> str:
        found = [(t, n) for t in self.sources for n, k in t.columns if k == kind]
        if not found:
            return f"{left} IS NULL"
        table, name = self.random.choice(found)
        alias = self.name("i")
        columns = self.with_fields(tuple((f"{alias}.{n}", k) for n, k in table.columns))
        where = self.correlation(scope, columns) if self.maybe(0.5) else ""
        no = self.random.choice(("", "NOT "))
        if self.maybe(0.3):  # and one inside, which is asked for as often as this one
            one, other = self.random.choice(columns)
            where += f"{' AND' if where else ' WHERE'} {self.in_query(columns, one, other)}"
        if where and self.maybe(0.3):
            where += f" GROUP BY {alias}.{name} HAVING COUNT(*) > {self.random.choice((0, 1))}"
        if not self.portable and kind not in NESTED and self.maybe(0.4):
            op = self.random.choice(("=", "<>", "<", "<=", ">", ">="))
            op += self.random.choice((" ANY", " ALL", " SOME"))
            return f"{left} {op} (SELECT {alias}.{name} FROM {table.name} AS {alias}{where})"
        return f"{left} {no}IN (SELECT {alias}.{name} FROM {table.name} AS {alias}{where})"

    # --- queries ---------------------------------------------------------------------------------

    def query(self, depth: int) -> tuple[str, Columns]:
        """A query, or the first of its rows in an order of all columns: then they are decided."""
        query, columns = self.unlimited(depth)
        if self.maybe(0.85):
            return query, columns
        places = self.random.sample(range(1, len(columns) + 1), len(columns))
        order = self.ordered(tuple((str(place), "") for place in places))
        if not self.portable and self.maybe(0.4):
            on = columns[places[0] - 1][0]
            query = f"SELECT DISTINCT ON ({on}) * FROM ({query}) AS {self.name('x')}"
            self.hidden = ""
            if self.maybe(0.5):
                return f"{query} ORDER BY {order}", columns
        order = self.sorted_by_hidden() + order
        limit = f"LIMIT {self.random.choice((1, 2, 3, 5))}"
        offset = f" OFFSET {self.random.choice((1, 2))}" if self.maybe(0.3) else ""
        return f"{query} ORDER BY {order} {limit}{offset}", columns

    def sorted_by_hidden(self) -> str:
        """The first part of an ORDER BY of the query just made; the rest is of what it shows."""
        hidden, self.hidden = self.hidden, ""
        return f"{self.ordered(((hidden, ''),))}, " if hidden and self.maybe(0.5) else ""

    def starred(self, depth: int) -> tuple[str, Columns]:
        """What `*` and COLUMNS say of the columns of a query, and names that stand for others."""
        query, columns = self.query(depth - 1)
        name, fresh = self.name("y"), self.name("q")
        self.hidden = ""
        place = self.random.randrange(len(columns))
        one, kind = columns[place]
        ways = [
            "REPLACE",
            "RENAME",
            "COLUMNS",
            "name",
            "UNPIVOT",
            *["EXCLUDE"] * (len(columns) > 1),
        ]
        ways += ["PIVOT"] * 2 * (kind in (INT, TEXT))
        keyed = [(t, c) for t in self.sources for c, k in t.columns if k == kind]
        way = self.random.choice(["USING"] if self.portable else [*ways, "USING"])
        if way == "USING" and keyed:
            table, key = self.random.choice(keyed)
            right = f"(SELECT {key} AS {one}, CAST(COUNT(*) AS INTEGER) AS {fresh}"
            right += f" FROM {table.name} GROUP BY {key}) AS {self.name('y')}"
            side = self.random.choice(("", "LEFT "))
            query = f"SELECT * FROM ({query}) AS {name} {side}JOIN {right} USING ({one})"
            return query, (*columns, (fresh, INT))
        if way == "PIVOT":
            values = [self.value(kind, required=True) for _ in range(2)]
            text = ", ".join(f"{value} AS {fresh}_{n}" for n, value in enumerate(values))
            measured = [c for c in columns if c[0] != one and c[1] != BOOL] or [("'x'", TEXT)]
            what, of = self.random.choice(measured)
            rest = [c for c in columns if c[0] not in (one, what)]
            by = self.random.sample(rest, min(1, len(rest))) if self.maybe(0.5) else []
            group = f" GROUP BY {by[0][0]}" if by else ""
            text = f"PIVOT (MIN({what}) AS m FOR {one} IN ({text}){group})"
            made = ((f"{fresh}_{n}_m", of) for n in range(2))
            return f"SELECT * FROM ({query}) AS {name} {text}", (*(by or rest), *made)
        if way == "UNPIVOT":
            picked = [n for n, k in columns if k == kind and (n == one or self.maybe(0.7))]
            nulls = self.random.choice(("", " INCLUDE NULLS"))
            text = f"UNPIVOT{nulls} ({fresh} FOR {fresh}_k IN ({', '.join(picked)}))"
            rest = [c for c in columns if c[0] not in picked]
            shown = (*rest, (f"{fresh}_k", TEXT), (fresh, kind))
            return f"SELECT * FROM ({query}) AS {name} {text}", shown
        if way == "EXCLUDE":
            columns = columns[:place] + columns[place + 1 :]
            return f"SELECT * EXCLUDE ({one}) FROM ({query}) AS {name}", columns
        scope = tuple((f"{name}.{n}", k) for n, k in columns)
        if way == "REPLACE":
            value = f"CAST({self.expression(scope, kind, 1)} AS {kind}) AS {one}"
            return f"SELECT {name}.* REPLACE ({value}) FROM ({query}) AS {name}", columns
        if way == "RENAME":
            columns = (*columns[:place], (fresh, kind), *columns[place + 1 :])
            return f"SELECT * RENAME ({one} AS {fresh}) FROM ({query}) AS {name}", columns
        if way == "COLUMNS":
            picked = [c for c in columns if c[0] == one or self.maybe(0.5)]
            asked = f"'^({'|'.join(n for n, _ in picked)})$'"
            shown = self.random.choice(("COLUMNS({})", "MIN(COLUMNS({}))", "COUNT(COLUMNS({}))"))
            if shown.startswith("MIN") and BOOL in dict(columns).values():
                shown = "COLUMNS({})"
            kinds = tuple((n, INT) if shown.startswith("COUNT") else (n, k) for n, k in picked)
            return f"SELECT {shown.format(asked)} FROM ({query}) AS {name}", kinds
        value = self.expression(((fresh, kind), *scope), kind, 1, inner=False)
        again = f"{one} AS {fresh}, CAST({value} AS {kind}) AS {fresh}_2"
        return f"SELECT {again} FROM ({query}) AS {name}", ((fresh, kind), (f"{fresh}_2", kind))

    def unlimited(self, depth: int) -> tuple[str, Columns]:
        if depth > 0 and self.maybe(0.08):
            return self.starred(depth)
        choice = self.random.random()
        if depth > 0 and choice < 0.2:
            return self.set_operation(depth)
        if depth > 0 and choice < 0.3:
            return self.with_query(depth)
        if depth > 0 and choice < 0.4:
            return self.recursive()
        if choice < 0.65:
            return self.grouped(depth)
        return self.select(depth)

    def source(self, depth: int) -> tuple[str, str, Columns]:
        alias = self.name("x")
        if depth > 0 and self.maybe(0.2):
            query, columns = self.query(depth - 1)
            listed, columns = self.listed(columns)
            return f"({query}) AS {alias}{listed}", alias, columns
        table = self.random.choice(self.tables if self.chains else self.sources)
        listed, columns = self.listed(table.columns)
        return f"{table.name} AS {alias}{listed}", alias, columns

    def listed(self, columns: Columns) -> tuple[str, Columns]:
        """Names behind an alias, for the first columns or for all, and the columns that it has.

        A name may be one that another of them has inside.
        """
        if self.portable or self.chains or self.maybe(0.8):
            return "", columns
        count = self.random.randint(1, len(columns))
        known, others = ([n for n, _ in part] for part in (columns[:count], columns[count:]))
        fresh = [name for name in ("k0", "k1") if name not in (*known, *others)]
        names = self.random.sample([*known, *fresh], count)
        found = zip(names, columns, strict=False)
        return f" ({', '.join(names)})", (*((n, k) for n, (_, k) in found), *columns[count:])

    def joined(self, depth: int) -> tuple[str, Columns]:
        text, alias, columns = self.source(depth)
        scope = self.with_fields(tuple((f"{alias}.{n}", k) for n, k in columns))
        plain = True
        chain = self.chains and depth > 0
        for _ in range(3 if chain else self.random.choice(self.joins)):
            right, name, more = self.source(depth - 1)
            there = self.with_fields(tuple((f"{name}.{n}", k) for n, k in more))
            joins = ("", "INNER", "LEFT", "LEFT", "RIGHT", "FULL", "CROSS", "USING")
            kind = self.random.choice(joins if self.portable else (*joins, "SEMI", "ANTI"))
            kind = "LEFT" if chain else kind
            arrays = [(n, k) for n, k in scope if k in ARRAYS and "." in n]
            if arrays and not chain and self.maybe(0.5):
                one, array = self.random.choice(arrays)
                plain = False
                more = self.with_fields(((f"{name}.x", ARRAYS[array]),))
                numbered = self.maybe(0.3)
                if numbered:
                    more = (*more, (f"{name}.n", INT))
                shown = " WITH ORDINALITY" if numbered else ""
                item = f"UNNEST({one}){shown} AS {name}({'x, n' if numbered else 'x'})"
                outer = self.maybe(0.4)
                text += f" LEFT JOIN {item} ON TRUE" if outer else f" CROSS JOIN {item}"
                scope = (*scope, *more)
                continue
            if not (self.portable or chain) and self.tables and self.maybe(0.12):
                item, more = self.lateral(scope, name)
                text += self.random.choice((f" CROSS JOIN {item}", f" LEFT JOIN {item} ON TRUE"))
                scope, plain = (*scope, *more), False
                continue
            near = [c for c in scope if c[1] in (INT, DATE, TIMESTAMP) and "." in c[0]]
            if near and not (self.portable or chain) and self.tables and self.maybe(0.06):
                item, more = self.nearest(self.random.choice(near), name)
                text, scope, plain = text + item, (*scope, *more), False
                continue
            if kind == "CROSS":
                text += f" CROSS JOIN {right}"
                scope = (*scope, *there)
                continue
            known = [n.rsplit(".", 1)[-1] for n, _ in scope]
            kinds = dict(columns)
            shared = [n for n, k in more if self.merges(kinds.get(n), k) and known.count(n) == 1]
            if kind == "USING":
                if not shared or not plain:
                    kind = "LEFT"
                else:
                    side = self.random.choice(("", "LEFT ", "RIGHT ", "FULL "))
                    using = self.random.choice(shared)
                    text += f" {side}JOIN {right} USING ({using})"
                    left, other = kinds[using], dict(more)[using]
                    merged = {"RIGHT ": other, "FULL ": _WIDER.get(frozenset((left, other)), left)}
                    scope = (
                        (using, merged.get(side, left)),
                        *(c for c in (*scope, *there) if c[0].split(".")[1] != using),
                    )
                    plain = False
                    continue
            plain = False
            condition = self.on(scope, there, "FULL" if chain else kind)  # equal columns alone
            text += f" {kind} JOIN {right} ON {condition}"
            scope = scope if kind in ("SEMI", "ANTI") else (*scope, *there)
        return text, scope

    def on(self, scope: Columns, there: Columns, kind: str) -> str:
        pairs = [(a, b) for a, k in scope for b, j in there if j == k and "." in a]
        parts = []
        if self.computes and self.maybe(0.8):
            parts.append(self.computed(scope, there))
            if self.maybe(0.2):
                parts.append(self.computed(scope, there))
        elif pairs and (self.maybe(0.9) or kind == "FULL"):
            one, two = self.random.choice(pairs)
            parts.append(f"{one} = {two}")
        if not parts or (self.maybe(0.25) and kind != "FULL"):
            parts.append(f"({self.condition((*scope, *there), 1, inner=False)})")
        elif kind in ("", "INNER") and self.tables and self.maybe(0.1):
            parts.append(self.exists((*scope, *there)))
        return " AND ".join(parts)

    def computed(self, scope: Columns, there: Columns) -> str:
        """That what is computed of columns of one side is a column of the other, or computed."""
        left, right = ([c for c in side if c[1] not in NESTED] for side in (scope, there))
        kind = self.random.choice([k for _, k in (*left, *right)] or [INT])

        def of(side: Columns, depth: int) -> str:
            made = [self.expression(side, kind, depth, inner=False) for _ in range(4)]
            names = [name for name, _ in side]
            return next((one for one in made if any(name in one for name in names)), made[0])

        sides = [of(tuple(left), self.random.choice((0, 1, 2))), of(tuple(right), 1)]
        self.random.shuffle(sides)
        return " = ".join(sides)

    def where(self, scope: Columns) -> str:
        return f" WHERE {self.condition(scope, 2)}" if self.maybe(0.45) else ""

    def select(self, depth: int, kinds: tuple[str, ...] | None = None) -> tuple[str, Columns]:
        text, scope = self.joined(depth)
        if kinds is None:
            kinds = tuple(self.random.choice(self.types) for _ in range(self.random.randint(1, 3)))
        shown = []
        small = len(re.findall(r"\b[vwr]\d+ AS ", text)) < 2  # windows are kept in Python
        for n, kind in enumerate(kinds):
            windows = small and self.maybe(0.12)
            one = self.window(scope, kind) if windows else self.expression(scope, kind, 2)
            arrays = [name for name, of in scope if ARRAYS.get(of) == kind]
            if arrays and self.maybe(0.3):
                one = f"UNNEST({self.random.choice(arrays)})"
            shown.append(f"CAST({one} AS {kind}) AS c{n}")
        distinct = "DISTINCT " if self.maybe(0.2) else ""
        columns = tuple((f"c{n}", kind) for n, kind in enumerate(kinds))
        if self.maybe(0.3):  # plain columns, as people write them
            picked = [c for c in scope if c[1] in kinds]
            shown = (
                [
                    f"{self.of(scope, kind) or 'CAST(NULL AS ' + kind + ')'} AS c{n}"
                    for n, kind in enumerate(kinds)
                ]
                if picked
                else shown
            )
        self.hidden = "" if distinct else self.random.choice([n for n, _ in scope])
        where = self.where(scope)
        named = self.by_name(scope, shown)
        within = [] if self.portable else self.named_within(scope, shown)
        if within and self.maybe(0.3):
            named = self.random.choice(within)
        if named and self.maybe(0.15):
            where = f"{where} AND {named}" if where else f" WHERE {named}"
        follows = not any(" OVER " in one for one in shown)  # of equal rows any may be left out
        if small and not self.portable and self.maybe(0.1) and follows:
            where += f" QUALIFY {self.window(scope, INT)} <= {self.value(INT, required=True)}"
        if (small and self.maybe(0.06) and follows) or self.numbers:
            rest = f"FROM {text}{where}"
            return self.numbered(columns, distinct, scope, shown, rest), columns
        return f"SELECT {distinct}{', '.join(shown)} FROM {text}{where}", columns

    def numbered(
        self, columns: Columns, distinct: str, scope: Columns, shown: list[str], rest: str
    ) -> str:
        """Of a query the rows that a number does not leave out, as people rid tables of copies."""
        self.hidden = ""
        sorts = self.ordered(scope)
        keys = [(t.name, n) for t in self.tables for n, k in t.columns if k == INT]
        near = self.random.choice(keys) if keys and not self.portable and self.maybe(0.25) else None
        is_parted = self.maybe(0.7) and near is None  # no two rows are as near as each other
        part = f"PARTITION BY {self.random.choice(scope)[0]} " if is_parted else ""
        forms = (f"ROW_NUMBER() OVER ({part}ORDER BY {sorts})",
                 f"RANK() OVER ({part}ORDER BY {sorts.split(', ')[0]})")  # fmt: skip
        number = self.random.choice(forms) if near is None else forms[0]
        inner = f"SELECT {distinct}{', '.join(shown)}, {number} AS rn {rest}"
        names = [*(n for n, _ in columns), "rn"]
        if self.maybe(0.5):  # outside `rn` is another column
            place = self.random.choice(
                [n for n, (_, k) in enumerate((*columns, ("", INT))) if k == INT]
            )
            names[place], names[-1] = names[-1], names[place]
        alias, inside, head = self.name("q"), self.name("q"), ""
        outside = alias
        listed = f" ({', '.join(names)})" if names[-1] != "rn" or self.maybe(0.2) else ""
        form = self.random.choice(("FROM", "WITH", *("AS", "WITH AS", "UNPIVOT") * 2))
        if self.portable and form != "FROM":
            form = "WITH"  # SQLite has no other list of names
        if form == "FROM":
            source = f"({inner}) AS {alias}{listed}"
        elif form == "AS":
            outside = self.random.choice((alias, inside))
            source = f"(({inner}) AS {inside}{listed})" + f" AS {alias}" * (outside == alias)
        elif form == "WITH":
            head, source = f"WITH {alias}{listed} AS ({inner}) ", alias
        elif form == "WITH AS":
            head, source = f"WITH {inside} AS ({inner}) ", f"{inside} AS {alias}{listed}"
        else:
            pivot = "UNPIVOT INCLUDE NULLS (v FOR z IN (rn))"
            source = f"({inner}) AS {inside} {pivot} AS {alias} "
            source += f"({', '.join((*names[:-1], 'z', names[-1]))})"
        if near is not None:
            table, key = near
            way = self.random.choice(("ASOF JOIN", "ASOF LEFT JOIN"))
            on = f"{inside}n.{key} {self.random.choice(('>=', '>=', '<='))} {outside}.{names[-1]}"
            source = f"{table} AS {inside}n {way} {source} ON {on}"
        tests = ("{} = 1", "{} <= 2", "2 >= {}", "{} < 3", "{} BETWEEN 1 AND 2", "{} > 1", "{} = 2",
                 "{} <= 1 OR {} = 3", "NOT {} <= 1", "1 = {} AND {} IS NOT NULL")  # fmt: skip
        asked = self.random.choice(("rn", "rn", names[-1]) if near is None else names[-1:])
        if near is not None or self.maybe(0.5):
            asked = f"{outside}.{asked}"
        test = self.random.choice(tests).format(asked, asked)
        given = ", ".join(
            f"{outside}.{n} AS {c}" for n, (c, _) in zip(names, columns, strict=False)
        )
        return f"{head}SELECT {given} FROM {source} WHERE {test}"

    def by_name(self, scope: Columns, shown: list[str]) -> str:
        """A condition of what SELECT shows, by its name; a column that has the name means itself.

        SQLite and DuckDB differ in which comes first in HAVING: no column has it where both are.
        """
        found = []
        for one in shown:
            value, name = one.rsplit(" AS ", 1)
            kind = value.rsplit(" AS ", 1)[-1].removesuffix(")")
            known = dict(scope).get(value) or (kind if kind in self.types else "")
            there = [k for n, k in scope if n.rsplit(".", 1)[-1] == name]
            if known and there in ([], [known][self.portable :]) and "UNNEST" not in value:
                found += [(name, known)] * (" OVER " not in value)
        return self.simple_condition(tuple(found)) if found else ""

    def named_within(self, scope: Columns, shown: list[str]) -> list[str]:
        """Correlated subqueries that read plain columns of SELECT by their names there."""
        found = []
        for one in shown:
            value, name = one.rsplit(" AS ", 1)
            kind = dict(scope).get(value) if value.count(".") < 2 else None  # not a field of one
            there = [n for n, _ in scope if n.rsplit(".", 1)[-1] == name]
            for table in self.tables if kind and not there else ():
                e = self.name("e")
                for other, of in table.columns:
                    # what USING has merged has no table's name: one of the subquery would hide it
                    if of == kind and not {name, value} & set(dict(table.columns)):
                        test = f"{e}.{other} {self.random.choice(('=', '<>'))} {name}"
                        found.append(f"EXISTS (SELECT 1 FROM {table.name} AS {e} WHERE {test})")
        return found

    def grouped(self, depth: int) -> tuple[str, Columns]:
        text, scope = self.joined(depth)
        there = scope
        if self.one_sided:
            right, name, more = self.source(1)
            there = self.with_fields(tuple((f"{name}.{n}", k) for n, k in more))
            text += f" LEFT JOIN {right} ON {self.on(scope, there, 'LEFT')}"
        keys = []
        for _ in range(self.random.choice((0, 1, 1, 1, 2))):
            kind = self.random.choice(self.types)
            key = self.of(scope, kind)
            if self.maybe(0.3):
                key = f"CAST({self.expression(scope, kind, 1, inner=False)} AS {kind})"
            if self.maybe(0.05) and self.shared(scope):
                table, name, _ = self.random.choice(self.shared(scope))
                key, kind = f"(SELECT MAX({name}) FROM {table})", INT
            if key and key not in [k for k, _ in keys]:
                keys.append((key, kind))
        shown = [(f"{key} AS c{n}", kind) for n, (key, kind) in enumerate(keys)]
        shown = [one for one in shown if self.maybe(0.85)]
        if self.one_sided and self.maybe(0.15):
            there = (*scope, *there)
        aggregates = [self.aggregate(there) for _ in range(self.random.randint(1, 3))]
        scope = (*scope, *there) if self.one_sided else scope
        start = len(keys)
        shown += [(f"{text_} AS c{start + n}", kind) for n, (text_, kind) in enumerate(aggregates)]
        group = f" GROUP BY {', '.join(k for k, _ in keys)}" if keys else ""
        if keys and not self.portable and self.maybe(0.3):
            one, two = keys[0][0], keys[-1][0]
            sets = (
                *(f"ROLLUP ({one}, {two})", f"CUBE ({one}, {two})", f"{one}, ROLLUP ({two})"),
                f"GROUPING SETS (({one}, {two}), ({two}), ({one}, {two}), ())",
            )
            group = f" GROUP BY {self.random.choice(sets)}"
            shown.append((f"CAST(GROUPING({two}, {one}) AS INTEGER) AS w", INT))
        elif keys and self.maybe(0.2):
            sorts = self.ordered(tuple((key, "") for key, _ in keys))
            one, _ = self.aggregate(scope)
            form = (
                f"ROW_NUMBER() OVER (ORDER BY {sorts})",
                f"SUM(COUNT(*)) OVER (PARTITION BY {keys[-1][0]} ORDER BY {sorts})",
                f"DENSE_RANK() OVER (ORDER BY {one} DESC NULLS LAST)",
            )
            shown.append((f"CAST({self.random.choice(form)} AS INTEGER) AS w", INT))
        having = ""
        if self.maybe(0.3):
            one, kind = self.aggregate(scope)
            fixed = tuple((key, kind) for key, kind in keys if "(" not in key)
            other = (
                self.scalar_query(fixed) if kind == INT and self.maybe(0.4) else self.value(kind)
            )
            having = f" HAVING {one} {self.random.choice(('<', '>=', '<>'))} {other}"
        named = self.by_name(scope, [one for one, _ in shown])
        if named and self.maybe(0.2):
            having = f"{having} AND {named}" if having else f" HAVING {named}"
        self.hidden = self.random.choice(keys)[0] if keys else ""
        columns = tuple((one.rsplit(" AS ", 1)[1], kind) for one, kind in shown)
        written = ", ".join(one for one, _ in shown)
        return f"SELECT {written} FROM {text}{self.where(scope)}{group}{having}", columns

    def aggregate(self, scope: Columns) -> tuple[str, str]:
        if self.maybe(0.05) and self.shared(scope):
            return f"CAST({self.shadowed(scope)} AS INTEGER)", INT
        kind = self.random.choice([k for _, k in scope])
        column = self.of(scope, kind) or "1"
        if self.maybe(0.25):
            column = f"CAST({self.expression(scope, kind, 1, inner=self.maybe(0.3))} AS {kind})"
        distinct = self.random.choice(("", "", "", "DISTINCT "))
        forms = [("COUNT(*)", INT), (f"COUNT({distinct}{column})", INT)]
        if kind in NUMBERS:
            forms += [
                (f"SUM({distinct}{column})", kind),
                (f"SUM({column})", kind),
                (f"AVG({distinct}{column})", DOUBLE),
            ]
            share = self.random.choice(("0", "0.3", "0.5", "1"))
            if kind == WIDE:
                forms += [(f"QUANTILE_DISC({column}, {share})", kind)]
            elif not self.portable and not self.nan:  # of NaN DuckDB has none
                one = f"CAST({column} AS DOUBLE)"  # DuckDB's median of a DECIMAL is a DECIMAL
                forms += [
                    (f"STDDEV({distinct}{one})", DOUBLE),
                    (f"VAR_POP({one})", DOUBLE),
                    (f"MEDIAN({distinct}{one})", DOUBLE),
                    (f"COVAR_POP({one}, {one} * {one})", DOUBLE),
                    (f"REGR_SXX({one}, {self.of(scope, INT) or 1})", DOUBLE),
                    (f"PERCENTILE_CONT({share}) WITHIN GROUP (ORDER BY {one} DESC)", DOUBLE),
                    (f"QUANTILE_DISC({column}, {share})", kind),
                    (f"PRODUCT(DISTINCT {one})", DOUBLE),  # of few values: DuckDB rounds each time
                ]
        if kind == INT and not self.portable:
            forms += [(f"BIT_{self.random.choice(('AND', 'OR', 'XOR'))}({column})", INT)]
        if kind == TEXT and not self.portable:
            by = [n for n, k in scope if k != BOOL]
            keys = [f"{n} {self.random.choice(('DESC', 'ASC NULLS FIRST'))}" for n in by[-2:]]
            keys = [column] if distinct else [*keys, column]
            forms += [(f"STRING_AGG({distinct}{column}, '-' ORDER BY {', '.join(keys)})", TEXT)] * 5
        if not self.portable:
            keys = [f"{n} {self.random.choice(('DESC', 'ASC NULLS FIRST'))}" for n, _ in scope[-2:]]
            pick = self.random.choice(("FIRST", "LAST", "ANY_VALUE"))
            forms.append((f"{pick}({column} ORDER BY {', '.join((*keys, column))})", kind))
            if kind not in NESTED:  # of those with the same greatest value, the value
                most = self.random.choice(("ARG_MAX", "ARG_MIN", "MAX_BY"))
                forms.append((f"{most}({column}, {column})", kind))
        made = next((array for array, of in ARRAYS.items() if of == kind), None)
        if made in self.types:
            keys = [f"{n} {self.random.choice(('DESC', 'ASC NULLS FIRST'))}" for n, _ in scope[-2:]]
            keys = [column] if distinct else [*keys, column]
            forms += [(f"ARRAY_AGG({distinct}{column} ORDER BY {', '.join(keys)})", made)] * 3
        if kind != BOOL:
            forms += [(f"MIN({column})", kind), (f"MAX({column})", kind)]
        else:
            forms += [(f"BOOL_AND({column})", BOOL), (f"BOOL_OR({column})", BOOL)][
                self.portable * 2 :
            ]
        text, result = self.random.choice(forms)
        if self.maybe(0.2):
            text += f" FILTER (WHERE {self.condition(scope, 1, inner=self.maybe(0.2))})"
        if text.startswith(
            ("STDDEV", "VAR_POP", "COVAR", "REGR")
        ):  # of one view DuckDB has two, by their last bits
            text = f"ROUND({text}, 6)"
        if result in NUMBERS and self.maybe(0.9):
            text = f"CAST({text} AS {result})"
        else:
            result = "OTHER" if result in NUMBERS else result
        return text, result if result != "OTHER" else INT

    # --- windows ---------------------------------------------------------------------------------

    def ordered(self, scope: Columns) -> str:
        """All columns, in any order: then rows that are equal by it are equal."""
        ways = ("ASC NULLS FIRST", "ASC NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST")
        picked = self.random.sample([n for n, _ in scope], len(scope))
        return ", ".join(f"{name} {self.random.choice(ways)}" for name in picked)

    def window(self, scope: Columns, kind: str) -> str:
        """A window function whose value is of a type, and follows from the data."""
        sorts = self.ordered(scope)
        some = sorts.split(", ")[0]
        parts = []
        if self.maybe(0.7):
            parts.append(f"PARTITION BY {self.random.choice(scope)[0]}")
        frame = self.random.choice(
            (
                "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
                "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
                "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
                "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
                "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                "ROWS 2 PRECEDING",
                "GROUPS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
            )
        )
        frame += self.excluded()
        peers = self.random.choice(("", " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"))
        peers += self.excluded() if peers else ""
        by_peers = self.random.choice(("", f"ORDER BY {some}{peers}"))
        groups = f"ORDER BY {some} GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW{self.excluded()}"
        measured = [name for name, of in scope if of in OFFSETS and not (self.nan and of == DOUBLE)]
        if measured and self.maybe(0.4):
            groups = self.measured(dict(scope), self.random.choice(measured))
        framed = self.random.choice((f"ORDER BY {sorts} {frame}", by_peers, groups))
        column = self.of(scope, kind) or f"CAST({self.value(kind)} AS {kind})"
        by, default = self.random.choice(("", ", 2", ", -1")), self.value(kind)
        shift = f"{self.random.choice(('LAG', 'LEAD'))}({column}{by})"
        if by and self.maybe(0.5):
            shift = f"{shift[:-1]}, CAST({default} AS {kind}))"
        which = self.random.choice(("FIRST_VALUE({})", "LAST_VALUE({})", "NTH_VALUE({}, 2)"))
        forms = [(shift, f"ORDER BY {sorts}"), (which.format(column), f"ORDER BY {sorts} {frame}")]
        ranks = [(f"{one}()", f"ORDER BY {some}") for one in ("RANK", "DENSE_RANK")]
        if kind == INT:
            forms += [*ranks, ("ROW_NUMBER()", f"ORDER BY {sorts}"), ("COUNT(*)", framed)]
            forms += [("NTILE(3)", f"ORDER BY {sorts}"), (f"COUNT({column})", framed)]
        if kind == DOUBLE:
            forms += [(f"{one}()", f"ORDER BY {some}") for one in ("PERCENT_RANK", "CUME_DIST")]
            number = self.of(scope, INT)
            forms += [(f"AVG({number or column})", framed)]
        if kind in NUMBERS:
            forms += [(f"SUM({column})", framed)] * 2
        if kind != BOOL:
            forms += [(f"{one}({column})", framed) for one in ("MIN", "MAX")]
        if not self.portable:
            forms += self.united(scope, column, kind, f"ORDER BY {sorts} {frame}")
            forms += [(f"COUNT(DISTINCT {column})", framed)] * (kind == INT)
            if kind in NUMBERS:
                forms += [(f"SUM(DISTINCT {column})", framed)]
        call, order = self.random.choice(forms)
        if self.maybe(0.2):  # words as people write them; names and values have capitals in quotes
            order = re.sub(
                r"\b[A-Z]{2,}\b(?=[^']*(?:'[^']*'[^']*)*$)", lambda w: w[0].lower(), order
            )
        aggregates = ("COUNT", "SUM", "AVG", "MIN", "MAX")
        if call.startswith(aggregates) and self.maybe(0.2):
            call += f" FILTER (WHERE {self.condition(scope, 1, inner=False)})"
        return f"{call} OVER ({' '.join((*parts, order)).strip()})"

    def measured(self, kinds: dict[str, str], column: str) -> str:
        """A frame of RANGE with offsets."""
        one, two = self.random.choices(OFFSETS[kinds[column]], k=2)
        way = self.random.choice(("ASC NULLS FIRST", "ASC NULLS LAST", "DESC NULLS LAST"))
        frames = (
            *(f"{one} PRECEDING", f"BETWEEN {one} PRECEDING AND {two} FOLLOWING"),
            f"BETWEEN UNBOUNDED PRECEDING AND {one} PRECEDING",
            f"BETWEEN CURRENT ROW AND {two} FOLLOWING",
            f"BETWEEN {one} FOLLOWING AND UNBOUNDED FOLLOWING",
        )
        return f"ORDER BY {column} {way} RANGE {self.random.choice(frames)}{self.excluded()}"

    def excluded(self) -> str:
        """What a frame leaves out, often nothing."""
        if self.maybe(0.7):
            return ""
        return f" EXCLUDE {self.random.choice(('CURRENT ROW', 'GROUP', 'TIES', 'NO OTHERS'))}"

    def united(self, scope: Columns, column: str, kind: str, order: str) -> list[tuple[str, str]]:
        """Aggregates that put values together, in the window's order, and what skips NULLs."""
        found = [(f"{one}({column})", order) for one in ("FIRST", "LAST")]
        found += [(f"{one}_VALUE({column} IGNORE NULLS)", order) for one in ("FIRST", "LAST")]
        if kind == TEXT:
            found += [(f"STRING_AGG({column}, '-')", order)] * 2
        element = self.of(scope, ARRAYS[kind]) if kind in ARRAYS else None
        return [*found, *[(f"ARRAY_AGG({element})", order)] * 3] if element else found

    def set_operation(self, depth: int) -> tuple[str, Columns]:
        kinds = tuple(self.random.choice(self.types) for _ in range(self.random.randint(1, 2)))
        one, columns = self.select(depth - 1, kinds)
        plain = ("UNION", "UNION ALL", "UNION ALL", "EXCEPT", "INTERSECT")
        op = self.random.choice(plain if self.portable else (*plain, "EXCEPT ALL", "INTERSECT ALL"))
        two, _ = self.select(depth - 1, kinds)
        if op.startswith("UNION") and self.maybe(0.3):
            three, _ = self.select(depth - 1, kinds)
            two = f"{two} {op} {three}"
        self.hidden = ""
        if not self.portable and op.startswith("UNION") and self.maybe(0.25):
            op += " BY NAME"
            shown = self.random.sample([n for n, _ in columns], self.random.randint(1, len(kinds)))
            two = f"SELECT {', '.join(shown)} FROM ({two}) AS {self.name('y')}"
        return f"{one} {op} {two}", columns

    def with_query(self, depth: int) -> tuple[str, Columns]:
        query, columns = self.query(depth - 1)
        if query.startswith("WITH"):
            return query, columns
        name = self.name("w")
        names = tuple(f"k{n}" for n in range(len(columns)))
        if self.maybe(0.5):  # a name may be one that another column has inside
            names = tuple(self.random.sample([n for n, _ in columns], len(columns)))
        self.sources.append(Table(name, tuple(zip(names, (k for _, k in columns), strict=True))))
        outer, shown = self.select(0) if self.maybe(0.5) else self.grouped(0)
        self.sources.pop()
        outer = f", {outer.removeprefix('WITH ')}" if outer.startswith("WITH ") else f" {outer}"
        return f"WITH {name} ({', '.join(names)}) AS ({query}){outer}", shown

    def counted(self, name: str, table: Table, names: list[str]) -> tuple[str, Columns]:
        """Paths by UNION ALL, up to a depth, or as far as they lead up: every way counts."""
        one, two = self.random.sample(names, 2)
        kind, bound = self.random.choice((
            ("JOIN", f"{name}.d < 2"), ("LEFT JOIN", f"{name}.d < 2"),
            ("JOIN", f"g.{one} < g.{two} AND {name}.y < 3"),
        ))  # fmt: skip
        query = (
            f"WITH RECURSIVE {name}(x, y, n, d) AS (SELECT {one}, {two}, {one} + 1, 0 FROM "
            f"{table.name} UNION ALL SELECT {name}.x, g.{two}, {name}.n * 2 + g.{one}, "
            f"{name}.d + 1 FROM {name} {kind} {table.name} AS g ON {name}.y = g.{one} "
            f"WHERE {bound}) "
        )
        columns = (("x", INT), ("y", INT), ("n", INT), ("d", INT))
        kept, self.sources, self.joins = self.sources, [Table(name, columns)], (0,)
        text, shown = f"SELECT x, y, n FROM {name}", columns[:3]
        if self.maybe(0.5):  # joined with themselves, 10,000 paths would be 100 million rows
            text, shown = self.grouped(0)
        self.sources, self.joins = kept, _JOINS
        self.hidden = ""
        return query + text, shown

    def recursive(self) -> tuple[str, Columns]:
        """A closure, or a count, from a table with whole numbers."""
        found = [(t, [n for n, k in t.columns if k == INT]) for t in self.sources]
        pairs = [(t, names) for t, names in found if len(names) > 1]
        name = self.name("r")
        if pairs and self.maybe(0.3):
            return self.counted(name, *self.random.choice(pairs))
        if not pairs or self.maybe(0.25):
            table, names = self.random.choice([(t, n) for t, n in found if n] or [(None, [])])
            if table is None:
                return self.select(1)
            query = (
                f"WITH RECURSIVE {name}(n) AS (SELECT {names[0]} FROM {table.name} UNION "
                f"SELECT {name}.n + 1 FROM {name} WHERE {name}.n < 4) "
            )
            columns: Columns = (("n", INT),)
        else:
            table, names = self.random.choice(pairs)
            one, two = self.random.sample(names, 2)
            condition = ""
            if self.maybe(0.4):
                scope = ((f"{name}.x", INT), (f"g.{one}", INT))
                condition = f" WHERE {self.condition(scope, 1, inner=False)}"
            if self.maybe(0.3) and self.tables:
                other = self.random.choice(self.tables)
                key = self.random.choice([n for n, _ in other.columns])
                more = f"NOT EXISTS (SELECT 1 FROM {other.name} AS d WHERE d.{key} IS NULL)"
                condition = f"{condition} AND {more}" if condition else f" WHERE {more}"
            first = (
                self.simple_condition(tuple((n, INT) for n in names)) if self.maybe(0.4) else "TRUE"
            )
            step = f"{name}.y = g.{one}"
            if self.computes and self.maybe(0.8):
                step = self.computed(((f"{name}.y", INT),), ((f"g.{one}", INT),))
            query = (
                f"WITH RECURSIVE {name}(x, y) AS (SELECT {one}, {two} FROM {table.name} WHERE "
                f"{first} UNION SELECT {name}.x, g.{two} FROM {name} JOIN {table.name} AS g ON "
                f"{step}{condition}) "
            )
            columns = (("x", INT), ("y", INT))
        kept, self.sources = self.sources, [*self.sources, Table(name, columns)]
        outer, shown = f"SELECT * FROM {name}", columns
        if self.maybe(0.4):
            self.sources = [self.sources[-1]]
            outer, shown = self.grouped(0) if self.maybe(0.6) else self.select(0)
        self.sources = kept
        self.hidden = ""
        return query + outer, shown
