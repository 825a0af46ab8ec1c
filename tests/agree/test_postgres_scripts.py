"""Scripts as users of PostgreSQL write them: a statement's rows, or its error, are the server's.

Rows without ORDER BY are compared as bags; of an error it is asked that there is one.
"""

from __future__ import annotations

import random
from typing import Any, Protocol

import psycopg
import pytest

import deltafix.sql

LENGTHS = """
CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);
INSERT INTO t VALUES (1, 'abc'), (2, 'ab'), (12345, NULL);
SELECT id, CAST(v AS VARCHAR(2)), CAST(id AS VARCHAR(5)), v::VARCHAR(9) FROM t ORDER BY 1;
SELECT CAST(id AS VARCHAR(3)) FROM t;
SELECT CAST('abc' AS VARCHAR(2));
CREATE MATERIALIZED VIEW w AS SELECT v::VARCHAR(2) AS x, id::VARCHAR(2) AS y FROM t;
SELECT * FROM w;
SELECT id FROM t WHERE v::VARCHAR(1) = 'a' AND v::VARCHAR(2) LIKE '%b';
SELECT MAX(v)::VARCHAR(1), COUNT(DISTINCT v::VARCHAR(1)) FROM t;
DROP MATERIALIZED VIEW w;
ALTER TABLE t ALTER COLUMN v TYPE VARCHAR(2);
ALTER TABLE t ALTER COLUMN v TYPE VARCHAR(2) USING CAST(v AS VARCHAR(2));
INSERT INTO t VALUES (4, 'abc');
SELECT * FROM t;
CREATE TABLE u (v VARCHAR(0));
CREATE TABLE u (v CHARACTER VARYING(1) DEFAULT 'ab');
INSERT INTO u DEFAULT VALUES;
SELECT * FROM u
"""
SERIES = """
CREATE TABLE t (id INT PRIMARY KEY, n INT);
INSERT INTO t VALUES (1, 2), (2, 0), (3, NULL), (4, -1);
SELECT g FROM generate_series(1, 3) AS g;
SELECT * FROM generate_series(1, 7, 3);
SELECT g.n FROM generate_series(3, 1, -1) AS g(n);
SELECT generate_series FROM generate_series(3, 1);
SELECT generate_series(1, 3);
SELECT id, generate_series(0, n) AS s FROM t;
SELECT t.id, g FROM t, generate_series(-1, t.n) AS g;
SELECT t.id, g FROM t CROSS JOIN LATERAL generate_series(1, t.n) AS g;
SELECT t.id, g.i, g.o FROM t
  LEFT JOIN LATERAL generate_series(5, 4 + t.n) WITH ORDINALITY AS g(i, o) ON true;
SELECT * FROM generate_series(2, 4) WITH ORDINALITY AS g(i);
SELECT d FROM generate_series('2024-01-01'::date, '2024-01-03'::date, interval '1 day') AS d;
SELECT mode() WITHIN GROUP (ORDER BY g / 2), mode() WITHIN GROUP (ORDER BY -g),
  percentile_disc(0.5) WITHIN GROUP (ORDER BY g DESC) FROM generate_series(1, 9) AS g;
SELECT n % 2 AS k, mode() WITHIN GROUP (ORDER BY n) FILTER (WHERE id < 3) FROM t GROUP BY 1;
SELECT d FROM generate_series(timestamp '2024-01-31', '2024-05-01', '1 month') AS d;
SELECT d FROM
  generate_series(timestamptz '2024-03-01 00:00+00', '2024-01-01 12:00+00', '-1 month') AS d;
SELECT count(*) FROM generate_series(1, 3, 0) AS g;
CREATE VIEW w AS
  SELECT id, sum(g) AS s FROM t, generate_series(1, n) AS g GROUP BY id;
SELECT * FROM w;
UPDATE t SET n = 4 WHERE id > 1;
SELECT * FROM w
"""
DUMPED = """
START TRANSACTION;
CREATE TABLE public.users (id bigint NOT NULL, email character varying(255) NOT NULL,
  is_active boolean DEFAULT true NOT NULL, created timestamp with time zone NOT NULL);
CREATE TABLE public.orders (id integer NOT NULL, user_id bigint NOT NULL,
  total numeric(12,2) DEFAULT 0.00 NOT NULL, status text DEFAULT 'new'::text NOT NULL, tags text[],
  CONSTRAINT orders_status_check CHECK ((status = ANY (ARRAY['new'::text, 'paid'::text]))));
ALTER TABLE ONLY public.users ADD CONSTRAINT users_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders ADD CONSTRAINT orders_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.orders
  ADD CONSTRAINT o_fk FOREIGN KEY (user_id) REFERENCES public.users(id);
COMMIT;
INSERT INTO public.users (id, email, created) VALUES (1, 'a@x', '2024-01-01 10:00:00+02');
INSERT INTO orders (id, user_id, tags) VALUES (1, 1, '{a,"b c",NULL}'), (2, 1, NULL)
  RETURNING id, status;
INSERT INTO orders (id, user_id, status) VALUES (3, 1, 'lost');
INSERT INTO orders (id, user_id) VALUES (4, 9);
SELECT public.orders.id, users.* FROM public.orders JOIN public.users ON user_id = users.id;
SELECT id FROM orders WHERE tags = '{a,b c,null}' OR tags @> '{zz}';
CREATE VIEW public.v AS SELECT email, count(*) AS n
  FROM public.users JOIN orders o ON o.user_id = users.id GROUP BY email;
CREATE VIEW w AS SELECT n FROM v;
SELECT * FROM w;
DROP TABLE orders, nothing CASCADE;
DROP TABLE orders;
SELECT * FROM w;
DROP VIEW v CASCADE;
SELECT * FROM w;
DROP TABLE IF EXISTS nothing CASCADE;
CREATE VIEW v AS SELECT id FROM users;
CREATE VIEW w AS SELECT id FROM v;
DROP VIEW v;
DROP VIEW v, w;
CREATE VIEW v AS SELECT id FROM users;
CREATE VIEW w AS SELECT id FROM v;
DROP VIEW v, w CASCADE;
DROP TABLE users;
DROP TABLE users, public.orders;
SELECT * FROM users
"""


class Runs(Protocol):
    """What runs a statement."""

    def execute(self, statement: str, /) -> Any: ...


def told(engine: Runs, script: str) -> list[Any]:
    """What each statement gives."""
    answers: list[Any] = []
    for statement in script.split(";\n"):
        try:
            cursor = engine.execute(statement)
            answers.append(sorted(map(repr, cursor.fetchall())) if cursor.description else None)
        except (psycopg.Error, deltafix.sql.Error):
            answers.append("error")
    return answers


def server_at(postgres: str) -> psycopg.Connection[Any]:
    """A connection to a server whose `public` is empty."""
    server = psycopg.connect(postgres, autocommit=True)
    server.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    server.execute("SET TIME ZONE 'UTC'")
    return server


@pytest.mark.parametrize(
    ("script", "errors"),
    [(LENGTHS, 4), (SERIES, 1), (DUMPED, 8)],
    ids=["lengths", "series", "dump"],
)
def test_oracle_a_script_is_answered_as_postgres_does(
    postgres: str, script: str, errors: int
) -> None:
    with server_at(postgres) as server, deltafix.sql.connect(dialect="postgres") as db:
        wanted = told(server, script)
        for statement, ours, theirs in zip(
            script.split(";\n"), told(db, script), wanted, strict=True
        ):
            assert ours == theirs, statement
        assert wanted.count("error") == errors


def test_oracle_texts_of_arrays_are_those_of_postgres(postgres: str) -> None:
    rng, seen = random.Random(3), {"error": 0, "value": 0}
    with server_at(postgres) as server, deltafix.sql.connect(dialect="postgres") as db:
        for _ in range(400):
            parts = ["a", "1", " ", ",", ",", '"', '"', "\\", "NULL", "null", "b c"]
            first, last = rng.choice(("{", "{", "{", " {", "")), rng.choice(("}", "}", "} ", ""))
            text = "".join((first, *rng.choices(parts, k=rng.randrange(7)), last))
            kind = rng.choice(("TEXT", "INTEGER"))
            asked = f"SELECT CAST('{text}' AS {kind}[])"
            (theirs,), (ours,) = told(server, asked), told(db, asked)
            assert ours == theirs, text
            seen["error" if theirs == "error" else "value"] += 1
    assert min(seen.values()) > 50
