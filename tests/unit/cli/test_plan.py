"""`deltafix plan`: the plan in words and as JSON, with estimates where facts are given.

Each `tests/fixtures/plans/<construct>.dl` has a sibling `.expected`: what `deltafix plan` prints;
`tests/fixtures/forms/<program>.dl` one a pass: what `--stage` prints.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from deltafix.datalog.program import Program
from deltafix.plan.build import PASSES, forms, plan
from deltafix.plan.clause import Match, slots_of
from deltafix.plan.explain import explain
from deltafix.plan.ir import Variant
from deltafix.plan.tell import tell
from deltafix.rules.check import typed

FOLDER = Path(__file__).parents[2] / "fixtures" / "plans"
FORMS = FOLDER.parent / "forms"
PLANS = sorted(FOLDER.glob("*.dl"))

TWO_HOPS = """\
.decl edge(x: number, y: number)
.input edge
.decl two(x: number, z: number)
.output two
two(x, z) :- edge(x, y), edge(y, z).
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "p.dl").write_text(TWO_HOPS)
    (tmp_path / "edge.facts").write_text("1\t2\n1\t3\n1\t4\n2\t3\n")
    return tmp_path / "p.dl"


@pytest.mark.parametrize("file", PLANS, ids=lambda file: file.stem)
def test_the_plan_of_a_construct_in_words(file: Path) -> None:
    found = explain(plan(typed(Program.from_file(file))))
    assert tell(found) == file.with_suffix(".expected").read_text(encoding="utf-8")


@pytest.mark.parametrize("program", ["access", "choices"])
@pytest.mark.parametrize("name", [step.name for step in PASSES])
def test_what_a_pass_makes_of_a_program(deltafix, name: str, program: str) -> None:
    file = FORMS / f"{program}.dl"
    wanted = file.with_suffix(f".{name}").read_text(encoding="utf-8")
    assert dict(forms(Program.from_file(file)))[name] == wanted
    ended = deltafix("plan", file, "--stage", name)
    assert (ended.code, ended.err, ended.out) == (0, "", wanted)


@pytest.mark.parametrize("name", ["typed", "executable"])
def test_what_a_pass_makes_of_a_program_without_demand_is_a_program(name: str) -> None:
    """Printed forms are the language: reading one gives the same plan."""
    file = FORMS / "access.dl"
    text = file.read_text(encoding="utf-8").replace(" magic", "")
    shown = {key: _readable(form) for key, form in forms(Program.parse(text))}
    again = {key: _readable(form) for key, form in forms(Program.parse(shown[name]))}
    assert again["core"] == shown["core"]


def _readable(form: str) -> str:
    """Made names and names of components are not for texts."""
    return form.replace("'i", "_i").replace("graph.", "graph_")


def test_stages_other_than_the_plan_have_no_estimates_and_no_json(deltafix, program) -> None:
    for option in (("-F", program.parent), ("--format", "json")):
        ended = deltafix("plan", program, "--stage", "core", *option)
        assert ended.code == 2
        assert "goes with --stage plan alone" in ended.err
    assert "'cor' is not one of" in deltafix("plan", program, "--stage", "cor").err


@pytest.mark.parametrize("file", PLANS, ids=lambda file: file.stem)
def test_text_and_data_say_the_same(deltafix, file: Path) -> None:
    text = deltafix("plan", file)
    data = deltafix("plan", file, "--format", "json")
    assert (text.code, text.err, data.code, data.err) == (0, "", 0, "")
    found = json.loads(data.out)
    assert tell(found) == text.out
    for stratum in found["strata"]:
        for rule in stratum["rules"]:
            for delta in rule["deltas"]:
                steps = delta["steps"]
                ends = [step for step in steps if not step["options"]]
                assert ends, "a variant that emits nothing"
                assert {o["then"] for s in steps for o in s["options"]} <= set(range(len(steps)))


def test_every_index_serves_a_search_or_a_fold() -> None:
    for file in PLANS:
        found = explain(plan(typed(Program.from_file(file))))
        folded = {line for s in found["strata"] for line in s["outside"]}
        for relation in found["relations"]:
            for index in relation["indexes"]:
                assert index["serves"] or any(relation["name"] in line for line in folded)


def test_a_body_that_hangs_together_is_no_product_and_tests_as_soon_as_it_can() -> None:
    rng = Random("long bodies")
    paths = 0
    for _ in range(12):
        count = rng.choice((3, 6, 9, 13))
        body = [f"e(x{rng.randrange(n)}, x{n})" for n in range(1, count)]
        body += [f"x{rng.randrange(count)} != x{n}" for n in rng.sample(range(count), 2)]
        body += [f"!e(x{rng.randrange(count)}, x{rng.randrange(count)})"]
        rng.shuffle(body)
        text = f".decl e(x: number, y: number) .decl r(x: number) r(x0) :- {', '.join(body)}."
        for stage in plan(typed(Program.parse(text))).stages:
            for found in stage.lower:
                paths += _walk(found, 0, {arg for _, arg, binds in found.binds if binds}, set())
    assert paths > 300


def test_what_a_record_holds_is_looked_up_from_either_side() -> None:
    """A value gives its fields and fields their value, in bodies of a few atoms and of many."""
    rng = Random("records")
    paths = 0
    for number in range(16):
        count = (2, 3, 6, 9)[number % 4]
        body = ["e(x0, y0)"]
        for n in range(1, count):
            x, y = rng.sample([f"{name}{rng.randrange(n)}" for name in "xy"], 2)
            body.append(f"p(q{n}, y{n}), q{n} = [{x}, {y}]")
            body.append(
                rng.choice((f"e(x{n}, {x})", f"o(r{n}, y{n}), r{n} = [x{n}], e(x{n}, {y})"))
            )
        body += ["o(s, _), o(t, x0), s = [z], t = [z], p(u, y0), p(v, _), u = [a, b], [a, b] = v"]
        rng.shuffle(body)
        text = f"""
        .type One = [v: number]
        .type Two = [a: number, b: number]
        .decl e(x: number, y: number) .decl o(r: One, y: number) .decl p(r: Two, y: number)
        .decl f(x: number) f(x0) :- {", ".join(body)}.
        """
        for stage in plan(typed(Program.parse(text))).stages:
            for found in stage.lower:
                paths += _looked_up(found, 0)
    assert paths > 300


def _looked_up(found: Variant, place: int) -> int:
    """Check that a variant looks up each atom from a node on; how many paths there are."""
    options = found.nodes[place].candidates
    assert all(option.way.by for option in options), f"a product: {found.show()}"
    return sum(_looked_up(found, option.child) for option in options) or 1


@pytest.mark.parametrize("joined", ["JOIN", "LEFT JOIN"])
def test_a_key_is_looked_up_from_columns_that_may_be_null(joined: str, tmp_path, deltafix) -> None:
    """Behind an outer join any column may be NULL, and a condition may look at several of them."""
    script = tmp_path / "views.sql"
    script.write_text(
        f"""
        CREATE TABLE part (name TEXT PRIMARY KEY, size DECIMAL(8, 2), maker INTEGER);
        CREATE TABLE maker (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE needs (part TEXT NOT NULL, other TEXT NOT NULL, PRIMARY KEY (part, other));
        CREATE VIEW made AS
          SELECT p.name, m.name AS maker FROM part p {joined} maker m ON m.id = p.maker;
        CREATE VIEW weight AS
          SELECT p.name, COUNT(*) FILTER (WHERE q.name IS NULL AND n.other IS NOT NULL) AS missing
          FROM part p LEFT JOIN needs n ON n.part = p.name {joined} part q ON q.name = n.other
          GROUP BY p.name;
        """
    )
    found = json.loads(deltafix("plan", script, "--format", "json").out)
    rules = [rule for stratum in found["strata"] for rule in stratum["rules"]]
    met = [d for rule in rules if "= nil" not in rule["clause"] for d in rule["deltas"]]
    only = [step["options"] for d in met for step in d["steps"] if len(step["options"]) == 1]
    assert len(only) > 7
    assert [option["join"] for (option,) in only if not option["by"]] == []


def _walk(found: Variant, place: int, known: set[object], done: set[object]) -> int:
    """Check a variant from a node on; how many paths there are."""
    node = found.nodes[place]
    done = {*done, *(check.literal for check in node.checks)}
    for literal in found.clause.body:
        if not isinstance(literal, Match) and set(slots_of(literal)) <= known:
            own = found.trigger is not None and literal is found.clause.body[found.trigger]
            assert own or literal in done
    paths = not node.candidates
    for option in node.candidates:
        assert option.way.by, "a product"
        assert option.way.match not in done
        paths += _walk(
            found, option.child, known | {*option.way.match.args}, {*done, option.way.match}
        )
    return paths


def test_estimates_are_rows_by_keys(deltafix, program) -> None:
    ended = deltafix("plan", program, "-F", program.parent)
    assert ended.code == 0
    assert "relation edge(number, number), 4 rows\n  index on column 0, 2 keys; serves" in ended.out
    assert "index on column 1, 3 keys" in ended.out
    assert "0: join new edge(y, z) by column 0, about 2 rows, then 1" in ended.out
    assert "0: join old edge(x, y) by column 1, about 1.3 rows, then 1" in ended.out
    data = json.loads(deltafix("plan", program, "-F", program.parent, "--format", "json").out)
    assert [one["rows"] for one in data["relations"]] == [4, 1]


def test_without_facts_there_are_no_estimates(deltafix, program) -> None:
    data = json.loads(deltafix("plan", program, "--format", "json").out)
    assert {one["rows"] for one in data["relations"]} == {None}
    steps = [
        step for rule in data["strata"][0]["rules"] for d in rule["deltas"] for step in d["steps"]
    ]
    assert {option["estimate"] for step in steps for option in step["options"]} == {None}


def test_a_broken_program_and_missing_facts_are_errors(deltafix, program) -> None:
    (program.parent / "edge.facts").unlink()
    missing = deltafix("plan", program, "-F", program.parent)
    assert missing.code == 2
    assert "no such fact file" in missing.err
    program.write_text("a(x).")
    broken = deltafix("plan", program)
    assert broken.code == 2
    assert "error[DF1" in broken.err
