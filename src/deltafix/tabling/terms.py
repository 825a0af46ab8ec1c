"""Terms of tabled programs: hash-consed, so that equal terms are one object.

Invariant: two terms are equal iff they are the same object, ground or not. Variables inside a
stored term are numbered, so two stored terms are variants iff they are the same object. Nothing
here recurses: depth is bounded by memory. The intern tables hold terms weakly: a term dies with
its last table, clause or caller. Binding lives in `unify`, text in `reader` and `writer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from weakref import WeakValueDictionary


class Term:
    """Base of all terms. `nvars` is 1 + the highest variable number inside, 0 when ground."""

    __slots__ = ("__weakref__", "ground", "nvars")

    ground: bool
    nvars: int

    def __repr__(self) -> str:
        from deltafix.tabling.writer import show  # noqa: PLC0415  writer imports terms

        return show(self)


class Var(Term):
    """Variable number `index` of the term, clause or binding row it stands in."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index
        self.ground = False
        self.nvars = index + 1


class Atom(Term):
    """A constant known by its name; `[]` and `{}` are atoms."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        self.ground = True
        self.nvars = 0


class Int(Term):
    """An integer of any size."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value
        self.ground = True
        self.nvars = 0


class Float(Term):
    """An IEEE double. `1.0` and `1` are different terms; so are `0.0` and `-0.0`."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value
        self.ground = True
        self.nvars = 0


class String(Term):
    """A double-quoted text, a constant of its own kind."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value
        self.ground = True
        self.nvars = 0


class Struct(Term):
    """A compound term `name(args)`, at least one argument."""

    __slots__ = ("args", "name")

    def __init__(self, name: str, args: tuple[Term, ...]) -> None:
        self.name = name
        self.args = args
        nvars = 0
        for argument in args:
            nvars = max(nvars, argument.nvars)
        self.nvars = nvars
        self.ground = nvars == 0


_VARS: Final[list[Var]] = []
_ATOMS: Final[WeakValueDictionary[str, Atom]] = WeakValueDictionary()
_INTS: Final[WeakValueDictionary[int, Int]] = WeakValueDictionary()
_SMALL: Final = {value: Int(value) for value in range(-16, 1024)}
_FLOATS: Final[WeakValueDictionary[str, Float]] = WeakValueDictionary()
_STRINGS: Final[WeakValueDictionary[str, String]] = WeakValueDictionary()
_STRUCTS: Final[WeakValueDictionary[tuple[str, tuple[Term, ...]], Struct]] = WeakValueDictionary()


def var(index: int) -> Var:
    """The variable numbered `index` (from 0)."""
    while index >= len(_VARS):
        _VARS.append(Var(len(_VARS)))
    return _VARS[index]


def atom(name: str) -> Atom:
    """The atom called `name`."""
    term = _ATOMS.get(name)
    if term is None:
        term = _ATOMS[name] = Atom(name)
    return term


def integer(value: int) -> Int:
    """The integer term of that value."""
    term = _SMALL.get(value)
    if term is None:
        term = _INTS.get(value)
        if term is None:
            term = _INTS[value] = Int(value)
    return term


def floating(value: float) -> Float:
    """The float term of that value; every NaN is one term."""
    key = float.hex(value)  # 0.0 == -0.0 and nan != nan as dictionary keys: the text is exact
    term = _FLOATS.get(key)
    if term is None:
        term = _FLOATS[key] = Float(value)
    return term


def string(value: str) -> String:
    """The string term of that text."""
    term = _STRINGS.get(value)
    if term is None:
        term = _STRINGS[value] = String(value)
    return term


def struct(name: str, args: Sequence[Term]) -> Struct:
    """The compound `name(args)`. O(number of arguments)."""
    key = (name, tuple(args))
    term = _STRUCTS.get(key)
    if term is None:
        term = _STRUCTS[key] = Struct(name, key[1])
    return term


NIL: Final = atom("[]")


def cons(head: Term, tail: Term) -> Struct:
    """The list cell `[head | tail]`, written `'.'(head, tail)` inside."""
    return struct(".", (head, tail))


def list_of(items: Iterable[Term], tail: Term = NIL) -> Term:
    """The list of `items`, ending in `tail`."""
    out = tail
    for item in reversed(list(items)):
        out = cons(item, out)
    return out


def list_items(term: Term) -> tuple[list[Term], Term]:
    """The items of a list and what it ends in (`NIL` for a proper list)."""
    items = []
    while type(term) is Struct and term.name == "." and len(term.args) == 2:
        items.append(term.args[0])
        term = term.args[1]
    return items, term


def from_python(value: object) -> Term:
    """A term from a Python value: int, float, str (an atom), a term, or a list of these.

    Raises:
        TypeError: the value is of another type.
    """
    if isinstance(value, Term):
        return value
    if isinstance(value, bool):
        return atom("true" if value else "false")
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return floating(value)
    if isinstance(value, str):
        return atom(value)
    if isinstance(value, list | tuple):
        return list_of([from_python(item) for item in value])
    msg = f"{value!r} is no term: int, float, str, list or Term expected"
    raise TypeError(msg)


def to_python(term: Term) -> object:
    """int, float or str (of an atom or a string); any other term comes back as itself."""
    if isinstance(term, Int | Float | String):
        return term.value
    if isinstance(term, Atom):
        return term.name
    return term
