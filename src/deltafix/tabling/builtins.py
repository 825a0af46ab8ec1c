"""The built-in predicates: unification, comparison, arithmetic, `between`, type tests.

Each takes its arguments instantiated under the row and yields the values the arguments may take:
a built-in is a relation, finite once its input is bound. Invariant: built-ins read nothing but
their arguments, so the tables never depend on them. What is not here is refused by name at load.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

from deltafix.tabling.arithmetic import ArithmeticFaultError, evaluate, number_term
from deltafix.tabling.terms import NIL, Atom, Float, Int, String, Struct, Term, Var, list_items

Args: TypeAlias = tuple[Term, ...]
Builtin: TypeAlias = Callable[[Args], Iterator[Args]]
"""Instantiated arguments in, tuples to unify with them out."""


def _rank(term: Term) -> int:
    if isinstance(term, Var):
        return 0
    if isinstance(term, Int | Float):
        return 1
    if isinstance(term, String):
        return 3
    return 4 if isinstance(term, Atom) else 5


def compare(left: Term, right: Term) -> int:
    """Standard order of terms: variables, numbers, strings, atoms, compounds. -1, 0 or 1.

    Numbers compare by value (a float first when equal), compounds by arity, name, arguments.
    """
    work = [(left, right)]
    while work:
        x, y = work.pop()
        if x is y:
            continue
        a, b = _rank(x), _rank(y)
        if a != b:
            return -1 if a < b else 1
        if isinstance(x, Struct) and isinstance(y, Struct):
            key, other = (len(x.args), x.name), (len(y.args), y.name)
            if key != other:
                return -1 if key < other else 1
            work.extend(reversed(list(zip(x.args, y.args, strict=True))))
            continue
        if isinstance(x, Var) and isinstance(y, Var):
            return -1 if x.index < y.index else 1
        if isinstance(x, Atom) and isinstance(y, Atom):
            return -1 if x.name < y.name else 1
        left_value, right_value = cast("Any", x).value, cast("Any", y).value  # numbers or strings
        if left_value == right_value:
            return -1 if isinstance(x, Float) else 1
        return -1 if left_value < right_value else 1
    return 0


def _ordered(test: Callable[[int], bool]) -> Builtin:
    def run(args: Args) -> Iterator[Args]:
        if test(compare(args[0], args[1])):
            yield args

    return run


def _numeric(test: Callable[[float, float], bool]) -> Builtin:
    def run(args: Args) -> Iterator[Args]:
        if test(evaluate(args[0]), evaluate(args[1])):
            yield args

    return run


def _type_test(test: Callable[[Term], bool]) -> Builtin:
    def run(args: Args) -> Iterator[Args]:
        if test(args[0]):
            yield args

    return run


def _is(args: Args) -> Iterator[Args]:
    yield (number_term(evaluate(args[1])), args[1])


def _equal(args: Args) -> Iterator[Args]:
    # Giving both sides the other's value would need one more unification: solve asks `unify_pair`.
    yield args


def _between(args: Args) -> Iterator[Args]:
    low, high, value = args
    if isinstance(low, Var) or isinstance(high, Var):
        msg = "between/3 needs its bounds bound"
        raise ArithmeticFaultError(msg)
    first, last = evaluate(low), evaluate(high)
    if not isinstance(first, int) or not (isinstance(last, int) or last == math.inf):
        msg = f"between/3 needs whole bounds, not {first} and {last}"
        raise ArithmeticFaultError(msg)
    if isinstance(value, Int):
        if first <= value.value <= last:
            yield args
    elif isinstance(value, Var):
        at = first
        while at <= last:
            yield (low, high, number_term(at))
            at += 1
    else:
        msg = "between/3 needs an integer or a variable as its third argument"
        raise ArithmeticFaultError(msg)


def _true(args: Args) -> Iterator[Args]:
    yield args


def _fail(args: Args) -> Iterator[Args]:
    yield from ()


BUILTINS: Final[Mapping[tuple[str, int], Builtin]] = {
    ("true", 0): _true,
    ("fail", 0): _fail,
    ("false", 0): _fail,
    ("=", 2): _equal,
    ("==", 2): _ordered(lambda c: c == 0),
    ("\\==", 2): _ordered(lambda c: c != 0),
    ("@<", 2): _ordered(lambda c: c < 0),
    ("@=<", 2): _ordered(lambda c: c <= 0),
    ("@>", 2): _ordered(lambda c: c > 0),
    ("@>=", 2): _ordered(lambda c: c >= 0),
    ("is", 2): _is,
    ("=:=", 2): _numeric(lambda x, y: x == y),
    ("=\\=", 2): _numeric(lambda x, y: x != y),
    ("<", 2): _numeric(lambda x, y: x < y),
    ("=<", 2): _numeric(lambda x, y: x <= y),
    (">", 2): _numeric(lambda x, y: x > y),
    (">=", 2): _numeric(lambda x, y: x >= y),
    ("between", 3): _between,
    ("var", 1): _type_test(lambda t: isinstance(t, Var)),
    ("nonvar", 1): _type_test(lambda t: not isinstance(t, Var)),
    ("atom", 1): _type_test(lambda t: isinstance(t, Atom)),
    ("number", 1): _type_test(lambda t: isinstance(t, Int | Float)),
    ("integer", 1): _type_test(lambda t: isinstance(t, Int)),
    ("float", 1): _type_test(lambda t: isinstance(t, Float)),
    ("string", 1): _type_test(lambda t: isinstance(t, String)),
    ("atomic", 1): _type_test(lambda t: isinstance(t, Atom | Int | Float | String)),
    ("compound", 1): _type_test(lambda t: isinstance(t, Struct)),
    ("callable", 1): _type_test(lambda t: isinstance(t, Atom | Struct)),
    ("ground", 1): _type_test(lambda t: t.ground),
    ("is_list", 1): _type_test(lambda t: list_items(t)[1] is NIL),
}

_COLLECTING = "collecting answers is not monotone; query the tables from Python"
_OUTPUT = "input and output have no place in a table"

_REFUSED: Final[Mapping[str, tuple[tuple[int, ...], str]]] = {
    "!": (
        (0,),
        "it depends on the order of clauses; write a cut's cases so that they exclude each other",
    ),
    "->": ((2,), "if-then-else commits; write two clauses, the second with \\+"),
    "*->": ((2,), "soft cut commits; write two clauses"),
    "findall": ((3, 4), _COLLECTING),
    "bagof": ((3,), _COLLECTING),
    "setof": ((3,), _COLLECTING),
    "aggregate_all": ((3, 4), _COLLECTING),
    "forall": ((2,), "use \\+ over a predicate of its own"),
    "assert": ((1, 2), "change the program with update(insert=...)"),
    "asserta": ((1, 2), "change the program with update(insert=...)"),
    "assertz": ((1, 2), "change the program with update(insert=...)"),
    "retract": ((1,), "change the program with update(delete=...)"),
    "retractall": ((1,), "change the program with update(delete=...)"),
    "abolish": ((1, 2), "drop tables with Tables.abolish(goal)"),
    "call": (tuple(range(1, 9)), "the goal called must be known when the program is read"),
    "once": ((1,), "it depends on the order of answers"),
    "write": ((1, 2), _OUTPUT),
    "print": ((1, 2), _OUTPUT),
    "nl": ((0, 1), _OUTPUT),
    "read": ((1, 2), _OUTPUT),
    "format": ((1, 2, 3), _OUTPUT),
    "functor": ((3,), "not in the subset; name the shapes in clause heads"),
    "arg": ((3,), "not in the subset; name the shapes in clause heads"),
    "=..": ((2,), "not in the subset; name the shapes in clause heads"),
    "copy_term": ((2,), "not in the subset"),
}

LIBRARY: Final[Mapping[tuple[str, int], str]] = {
    ("member", 2): "member(X, [X | _]). member(X, [_ | T]) :- member(X, T).",
    ("memberchk", 2): "memberchk(X, [X | _]). memberchk(X, [_ | T]) :- memberchk(X, T).",
    ("append", 3): "append([], L, L). append([X | T], L, [X | R]) :- append(T, L, R).",
    ("select", 3): "select(X, [X | T], T). select(X, [Y | T], [Y | R]) :- select(X, T, R).",
    ("last", 2): "last([X], X). last([_ | T], X) :- last(T, X).",
    ("length", 2): "length([], 0). length([_ | T], N) :- length(T, M), N is M + 1.",
    ("sum_list", 2): "sum_list([], 0). sum_list([X | T], N) :- sum_list(T, M), N is M + X.",
}
"""Clauses of SWI-Prolog's predicates over lists, for programs to state: nothing is loaded."""


def refused(name: str, arity: int) -> str | None:
    """What to write instead of a predicate that has no place here; None if it may be used."""
    arities, advice = _REFUSED.get(name, ((), ""))
    return advice if arity in arities else None
