"""`deltafix pipeline draw`: the graph is that of the rules, less what nobody wrote."""

from __future__ import annotations

import random
import re

import pytest

from deltafix.pipeline.config import read_config
from deltafix.pipeline.drawing import arrows, relations
from deltafix.rules.strata import dependencies

SQL = """
CREATE TABLE person (id INTEGER PRIMARY KEY, boss INTEGER, pay INTEGER);
CREATE TABLE gone (id INTEGER PRIMARY KEY);
CREATE VIEW here AS SELECT id, boss FROM person WHERE id NOT IN (SELECT id FROM gone);
CREATE VIEW bosses AS SELECT DISTINCT boss FROM here;
CREATE VIEW over AS WITH RECURSIVE r (a, b) AS (
    SELECT id, boss FROM here UNION SELECT r.a, h.boss FROM r JOIN here h ON h.id = r.b)
    SELECT a, COUNT(*) AS n FROM r LEFT JOIN gone ON gone.id = r.b GROUP BY a;
CREATE VIEW ranked AS SELECT id, pay, ROW_NUMBER() OVER (ORDER BY pay, id) AS n FROM person;
CREATE VIEW both AS SELECT DISTINCT o.a, k.n FROM over o JOIN ranked k ON k.id = o.a;
CREATE VIEW alone AS SELECT 1 AS one;
"""
SECTIONS = """
[input.person]
source = "snapshot"
path = "in/person"

[input.gone]
source = "http"
key = "id"

[output.both]
path = "out/both"

[output.bosses]
sink = "webhook"
url = "http://localhost/hook"
"""


def configured(folder, program, text, sections):
    (folder / program).write_text(text)
    path = folder / "p.toml"
    path.write_text(
        f'[pipeline]\nprogram = "{program}"\nstate = "state"\nrunner = "local"\n{sections}'
    )
    return path


def steps(edges, within):
    """Pairs of relations that edges lead between, by way of none of those but the ends."""
    found = set()
    for start in within:
        seen, waiting = set(), {start}
        while waiting:
            after = {b for a, b in edges if a in waiting}
            found |= {(start, one) for one in after & within}
            waiting = after - within - seen
            seen |= waiting
    return found


def rules(rng):
    """A program of random rules over a few relations, each reading those before it or itself."""
    lines = [".decl r0(x: number)", ".input r0"]
    for n in range(1, 8):
        lines += [f".decl r{n}(x: number)", f".output r{n}"]
        for _ in range(rng.randrange(3)):
            atoms = [
                f"r{rng.randrange(n + 1)}(x)",
                f"{rng.choice(('', '!'))}r{rng.randrange(n)}(x)",
            ]
            if rng.random() < 0.3:
                atoms.append(f"x = count : {{ r{rng.randrange(n)}(_) }}")
            lines.append(f"r{n}(x) :- {', '.join(atoms)}.")
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(8))
def test_relations_lead_where_rules_do(tmp_path, seed):
    section = '[input.r0]\nsource = "snapshot"\npath = "in"\n[output.r7]\npath = "out"\n'
    path = configured(tmp_path, "p.dl", rules(random.Random(seed)), section)
    config = read_config(path)
    drawn = [*arrows(config)]
    assert len(drawn) == len(set(drawn))
    edges = {(one.body, one.head) for one in dependencies(config.program)}
    ends = {("from snapshot in", "r0"), ("r7", "to parquet out")}
    assert set(drawn) == edges | ends
    assert relations(config.program) == [f"r{n}" for n in range(8)]


def test_what_sql_makes_for_itself_is_passed_through(tmp_path):
    config = read_config(configured(tmp_path, "p.sql", SQL, SECTIONS))
    drawn = {*arrows(config)}
    wrote = set(re.findall(r"CREATE (?:TABLE|VIEW) (\w+)", SQL))
    assert set(relations(config.program)) == wrote
    edges = {(one.body, one.head) for one in dependencies(config.program)}
    assert any(one not in wrote for edge in edges for one in edge)  # there is something to pass
    between = {pair for pair in drawn if " " not in "".join(pair)}
    assert between == steps(edges, wrote)
    assert between == {
        ("person", "here"), ("gone", "here"), ("here", "bosses"), ("here", "over"),
        ("gone", "over"), ("person", "ranked"), ("over", "both"), ("ranked", "both"),
    }  # fmt: skip
    assert drawn - between == {
        ("from snapshot in/person", "person"), ("from http gone", "gone"),
        ("both", "to parquet out/both"), ("bosses", "to webhook http://localhost/hook"),
    }  # fmt: skip


def test_the_command_writes_mermaid_and_dot(tmp_path, deltafix):
    path = configured(tmp_path, "p.sql", SQL, SECTIONS)
    for form, arrow in (("mermaid", "-->"), ("dot", "->")):
        done = deltafix("pipeline", "draw", path, "--format", form)
        assert (done.code, done.err) == (0, "")
        assert "\n\n" not in done.out
        config = read_config(path)
        assert done.out.count(arrow) == len([*arrows(config)])
        assert '"alone"' in done.out  # nothing leads there, and it is a view
    assert not (tmp_path / "state").exists()
    path.write_text("[pipeline]")
    assert deltafix("pipeline", "draw", path).code == 2
