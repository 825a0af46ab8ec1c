"""What the kernel computes of conditions and of records of one field, against plain Python.

Values lie where codes end: a record of one field has the field's code, and `nil` one beside them.
"""

from __future__ import annotations

import math
from itertools import product

import pytest

import deltafix
from deltafix.rules.ast import Atom, Attribute, Comparison, Program, RelationDecl, Rule, conjunction
from deltafix.rules.terms import Call, Const, Term, Var
from deltafix.rules.values import NATIVE, native
from deltafix.sql.types import NATIVE_FUNCTORS, NULLABLE_TYPES

VALUES = {
    "number": [0, 1, -1, 2**30 - 1, 2**30, -(2**31), -(2**31) - 1, 2**31 - 1, 2**63 - 1, -(2**63)],
    "float": [0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 5e-324],
    "symbol": [
        "", "a", "b", "é", "ab", "aab", "aéb", "日本", "%", "_", "__", "%%", "a%", "%b", "a%b",
        "%é%", "%日_%", "%a%_b", "\\", "\\%", "\\_%", "a\\b", "%\\", "a\nb", "%ab%ab", "abaabab",
    ],
}  # fmt: skip


def values_of(kind: str) -> list:
    base = kind.removeprefix("nullable_")
    found = VALUES[base]
    return found if base == kind else [None, *((value,) for value in found)]


def program(name: str, *, lifted: bool) -> Program:
    """`made(x, f(x))`, and `same(x)` where that is the value; numbers are computed if `lifted`."""
    functor = NATIVE_FUNCTORS[name]
    columns = tuple(Attribute(one.name, one.type) for one in functor.arguments)
    given = tuple(Var(one.name) for one in columns)
    args: list[Term] = []
    for one, variable in zip(columns, given, strict=True):
        is_raw = lifted and one.type in ("number", "float")
        zero = Const(0 if one.type == "number" else 0.0, one.type)  # type: ignore[arg-type]
        args.append(Call("+", (variable, zero)) if is_raw else variable)
    result = Attribute("result", functor.result)
    value, call = Var("result"), Call(f"@{name}", tuple(args))
    made, tests = Atom("made", (*given, value)), Comparison("=", value, call)
    return Program(
        relations=(
            RelationDecl("given", columns),
            RelationDecl("made", (*columns, result)),
            RelationDecl("same", columns),
        ),
        rules=(
            Rule((made,), conjunction((Atom("given", given), tests))),
            Rule((Atom("same", given),), conjunction((made, tests))),
        ),
        types=NULLABLE_TYPES,
        functors=(functor,),
    )


@pytest.mark.parametrize("lifted", [False, True])
@pytest.mark.parametrize("name", sorted(NATIVE))
def test_a_native_functor_is_its_function(name: str, lifted: bool) -> None:
    columns = [one.type for one in NATIVE_FUNCTORS[name].arguments]
    rows = [*product(*map(values_of, columns))]
    wanted = {(*row, NATIVE[name](*row)) for row in rows}
    assert native(f"@{name}") in name
    with deltafix.connect(program(name, lifted=lifted)) as db:
        with db.transaction() as tx:
            tx.insert("given", rows)
        assert set(db.rows("made")) == wanted
        assert set(db.rows("same")) == set(rows)
        for row in rows[::7]:
            with db.transaction() as tx:
                tx.delete("given", [row])
            assert tx.delta["made"].removed == [(*row, NATIVE[name](*row))]
        db.check_invariants()
        assert db.count("same") == len(rows) - len(rows[::7])
        assert not db.instance.linked.memos, "Python was asked"
