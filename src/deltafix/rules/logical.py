"""What rules compute with values of logical types, and how a program is without such types.

The engine runs on numbers and texts. So inference (`rules.infer`) gives constants as the engine has
them, and writes what is computed with dates or decimals as a call of a functor that is named here,
`@~logical:+:date:number:date`; `erased` declares those that are called, and the columns as the
engine has them.
Invariants: a functor's value is one of its type's, or it raises: nothing wraps around and nothing
is rounded but by `to_number`, `to_float` and the day of a moment; a name says all of a functor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from deltafix.errors import FunctorError
from deltafix.facts.logical_types import (
    DECIMALS,
    MOST_DIGITS,
    NARROW_DIGITS,
    LogicalType,
    logical_type,
)
from deltafix.facts.values import fitting, logical_text, show_value
from deltafix.facts.wide import as_number, as_text
from deltafix.rules.ast import (
    Atom,
    Attribute,
    Comparison,
    Formula,
    FunctorDecl,
    Not,
    Program,
    Rule,
    conjunction,
)
from deltafix.rules.terms import Call, Const, Term, Var
from deltafix.rules.walk import uses

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARK: Final = "~logical:"

OPERATORS: Final = ("+", "-", "*", "neg", "to_number", "to_float", "to_string", "as")
"""Functors that may be of logical types."""

_DAY: Final = 86_400_000_000
_MOMENTS: Final = ("timestamp", "timestamptz")
_PLAIN: Final = ("number", "float", "symbol")


def signatures(functor: str, kinds: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """What a functor takes and gives, where one of these logical types is among them.

    Of `as` the result is the type that is cast to.
    """
    named = sorted(kinds)
    decimals = [kind for kind in named if kind.startswith("decimal")]
    moments = [kind for kind in named if kind in _MOMENTS]
    if functor in ("+", "-"):
        yield from ((kind, kind, kind) for kind in decimals)
        for kind in (*moments, *(kind for kind in named if kind == "date")):
            yield (kind, "number", kind)
            yield ("number", kind, kind) if functor == "+" else (kind, kind, "number")
    elif functor == "*":
        for kind in decimals:
            yield from ((kind, "number", kind), ("number", kind, kind))
    elif functor == "neg":
        yield from ((kind, kind) for kind in decimals)
    elif functor in ("to_number", "to_float"):
        yield from ((kind, functor[3:]) for kind in decimals)
    elif functor == "to_string":
        yield from ((kind, "symbol") for kind in named)
    elif functor == "as":
        every = (*named, "number", "symbol")
        yield from (pair for pair in product(every, every) if _converts(*pair))


def _converts(given: str, wanted: str) -> bool:
    if given in _PLAIN and wanted in _PLAIN:
        return False  # the language's own
    if given in (wanted, "symbol"):
        return True
    numbers = {"number", *(kind for kind in (given, wanted) if kind.startswith("decimal"))}
    if {given, wanted} <= numbers:
        return True
    if "number" in (given, wanted):
        return not {"blob", "uuid", "symbol"} & {given, wanted}
    return {given, wanted} == {"date", "timestamp"} or (given, wanted) == ("timestamp", "time")


def call_name(functor: str, kinds: Sequence[str]) -> str:
    """The functor for a signature, as a call has it."""
    return f"@{_MARK}{functor}:{':'.join(kinds)}"


def functor_kinds(name: str) -> tuple[str, list[str]] | None:
    """The functor that a call of this name stands for, and its signature; None for any other."""
    if not name.startswith(f"@{_MARK}"):
        return None
    functor, *kinds = name.removeprefix(f"@{_MARK}").split(":")
    return functor, kinds


@cache
def logical_functor(name: str) -> tuple[FunctorDecl, Callable[..., Any]] | None:
    """The functor of a name, and its function on the engine's values; None for a user's."""
    known = functor_kinds(f"@{name}")
    if known is None:
        return None
    functor, kinds = known
    bases = [_base(kind) for kind in kinds]
    attributes = tuple(Attribute(f"x{n}", base) for n, base in enumerate(bases[:-1]))
    declared = FunctorDecl(name, attributes, bases[-1], partial=True)
    return declared, _function(functor, kinds)


def _base(kind: str) -> str:
    logical = logical_type(kind)
    return kind if logical is None else logical.base


def _kind(name: str) -> LogicalType:
    logical = logical_type(name)
    if logical is None:
        raise KeyError(name)
    return logical


def _function(functor: str, kinds: Sequence[str]) -> Callable[..., Any]:
    *given, result = kinds
    if functor == "to_string":
        kind = _kind(given[0])
        return lambda held: logical_text(kind.read(held))
    if functor == "to_float":
        kind = _kind(given[0])
        return lambda held: float(kind.read(held))
    if functor == "to_number":
        scale = _kind(given[0]).scale
        compute: Callable[..., Any] = lambda units: _cut(units, 10**scale)  # noqa: E731
    else:
        compute = _cast(given[0], result) if functor == "as" else _COMPUTE[functor]
    opens = [as_number if _is_wide(kind) else _itself for kind in given]
    close = as_text if _is_wide(result) else _itself

    def checked(*values: Any) -> Any:
        try:
            computed = compute(
                *(opened(value) for opened, value in zip(opens, values, strict=True))
            )
        except (ValueError, OverflowError):
            computed = None
        held = None if computed is None else close(computed)
        if held is None or not holds(result, held):
            call = _shown_call(functor, [*map(_said, given, values)])
            message = f"{call} is no {result}; rolled back{_way_out(functor, result, computed)}"
            raise FunctorError(message, functor=functor)
        return held

    return checked


def _shown_call(functor: str, args: list[str]) -> str:
    """A call as a rule has it."""
    if functor == "neg":
        return f"-{args[0]}"
    return f" {functor} ".join(args) if len(args) == 2 else f"{functor}({args[0]})"


def _way_out(functor: str, result: str, units: int | None) -> str:
    """Which type has the digits of what a functor gave: those that it takes, if it is no cast."""
    kind = logical_type(result)
    if kind is None or not kind.is_decimal or units is None:
        return ""
    room = with_digits(units, kind.scale)
    if room is None:
        return f": it has more than {MOST_DIGITS} digits; to_float(x) is near"
    return f": {room} has room" if functor == "as" else f": compute with `as(x, {room})`"


def with_digits(units: int, scale: int) -> str | None:
    """A type of decimals with room for units of the last digit; None: they have too many digits."""
    digits = len(str(abs(units)))
    most = next((capacity for capacity in (NARROW_DIGITS, MOST_DIGITS) if digits <= capacity), None)
    return None if most is None else f"decimal({most}, {scale})"


def bounded_sum(total: Any, most: int | None, scale: int | None) -> int:
    """A sum of decimals, in units. Raises FunctorError where it is more than its type holds."""
    if most is None or abs(total) <= most:
        return int(total)
    behind = scale or 0
    shown = logical_text(DECIMALS.scaleb(Decimal(total), -behind))
    room = with_digits(total, behind)
    way_out = f"no sum of decimals has more than {NARROW_DIGITS} digits; sum to_float(x) is near"
    if room is not None and len(str(abs(total))) <= NARROW_DIGITS:
        way_out = f"`sum as(x, {room}) : ..` has room"
    message = f"a sum is {shown}, which is no decimal({len(str(most))}, {behind})"
    raise FunctorError(f"{message}; rolled back: {way_out}", functor="sum")


def _cut(units: int, unit: int) -> int:
    """The whole number of units, towards zero."""
    return units // unit if units >= 0 else -(-units // unit)


def _itself(held: Any) -> Any:
    return held


def _is_wide(name: str) -> bool:
    """Whether a type's numbers are texts of the engine."""
    kind = logical_type(name)
    return kind is not None and kind.is_wide


def _said(kind: str, held: Any) -> str:
    """A value of the engine's as a message has it."""
    logical = logical_type(kind)
    return show_value(held if logical is None else logical.read(held))


_COMPUTE: Final[dict[str, Callable[..., Any]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "neg": lambda a: -a,
}
"""Of units, days and microseconds; Python's numbers do not wrap around."""


def holds(name: str, held: Any) -> bool:
    """Whether what the engine may hold is a value of the type of a name."""
    kind = logical_type(name)
    if kind is None:
        return fitting(name, held) is not None
    try:
        return bool(kind.write(kind.read(held)) == held)
    except (ValueError, OverflowError):
        return False


def _cast(given: str, wanted: str) -> Callable[[Any], Any]:
    if given == wanted:
        return lambda held: held
    target, source = logical_type(wanted), logical_type(given)
    if given == "symbol":
        kind = _kind(wanted)
        opened = as_number if kind.is_wide else _itself
        return lambda text: opened(kind.encode(kind.from_text(text)))
    if (given, wanted) == ("date", "timestamp"):
        return lambda days: days * _DAY
    if (given, wanted) == ("timestamp", "date"):
        return lambda micros: micros // _DAY
    if (given, wanted) == ("timestamp", "time"):
        return lambda micros: micros % _DAY
    less = (0 if target is None else target.scale) - (0 if source is None else source.scale)
    if less >= 0:
        return lambda held: held * 10**less

    def exactly(units: int) -> int:
        whole, rest = divmod(units, 10**-less)
        if rest:
            raise ValueError(f"it has digits that a {wanted} has not")
        return int(whole)

    return exactly


def erased(program: Program, rules: Sequence[Rule], calls: Iterable[str]) -> Program:
    """A program whose rules were found to be these, without logical types. O(program).

    `calls` are the functors of logical types that they and its orders call. It is itself where it
    has none.
    """
    known = {functor.name for functor in program.functors}
    new = [name for name in dict.fromkeys(calls) if name not in known]
    if not new and not any(map(program.logical, program.kinds)):
        return program

    def plain(attributes: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
        return tuple(
            replace(attribute, type=base_name(program, attribute.type)) for attribute in attributes
        )

    functors = (
        replace(
            functor, arguments=plain(functor.arguments), result=base_name(program, functor.result)
        )
        for functor in program.functors
    )
    own = (functor_pair[0] for name in new if (functor_pair := logical_functor(name)) is not None)
    return replace(
        program,
        relations=tuple(replace(r, attributes=plain(r.attributes)) for r in program.relations),
        rules=tuple(rules),
        types=tuple(
            declared
            for declared in program.types
            if not program.logical(program.kind(declared.name))
        ),
        functors=(*functors, *own),
    )


def base_name(program: Program, name: str) -> str:
    """A type's name in the program without logical types."""
    kind = program.logical(program.kind(name))
    return name if kind is None else kind.base


def in_user_terms(rule: Rule, columns: Callable[[str], Sequence[LogicalType | None]]) -> Rule:
    """A rule without logical types with its constants and functors as users write them.

    `columns` gives the logical types of a relation's columns, none if it has none.
    """
    kinds: dict[str, LogicalType] = {}
    for atom, _ in uses(conjunction((*rule.heads, rule.body))):
        for arg, kind in zip(atom.args, columns(atom.relation), strict=False):
            _note(arg, kind, kinds)

    def formula(node: Formula) -> Formula:
        if isinstance(node, Atom):
            of = columns(node.relation) or [None] * len(node.args)
            return replace(node, args=tuple(map(_user_term, node.args, of)))
        if isinstance(node, Comparison):
            sides = (
                kinds.get(side.name) for side in (node.left, node.right) if isinstance(side, Var)
            )
            kind = next((side_kind for side_kind in sides if side_kind is not None), None)
            return replace(
                node, left=_user_term(node.left, kind), right=_user_term(node.right, kind)
            )
        if isinstance(node, Not):
            return replace(node, body=formula(node.body))
        return replace(node, parts=tuple(map(formula, node.parts)))

    heads = tuple(replace(head, args=formula(head).args) for head in rule.heads)  # type: ignore[union-attr]
    return replace(rule, heads=heads, body=formula(rule.body))


def _note(term: Term, kind: LogicalType | None, kinds: dict[str, LogicalType]) -> None:
    """What a pattern in a column of a type says of its variables."""
    if isinstance(term, Var) and kind is not None:
        kinds.setdefault(term.name, kind)
    elif isinstance(term, Call) and kind is not None and kind.nullable and len(term.args) == 1:
        _note(term.args[0], logical_type(kind.inner), kinds)


def _user_term(term: Term, kind: LogicalType | None) -> Term:
    """A term in the place of a value of a type."""
    if isinstance(term, Const) and kind is not None and term.value is not None:
        return replace(term, value=kind.read(term.value))
    if not isinstance(term, Call):
        return term
    signature = functor_kinds(term.functor)
    if signature is not None:
        functor, names = signature
        args = tuple(map(_user_term, term.args, map(logical_type, names)))
        more = (Const(names[-1], "symbol"),) if functor == "as" else ()
        return replace(term, functor=functor, args=(*args, *more))
    inner = logical_type(kind.inner) if kind is not None and kind.nullable else None
    return replace(term, args=tuple(_user_term(arg, inner) for arg in term.args))


def called(rules: Sequence[Rule]) -> dict[str, None]:
    """The functors of logical types that rules call, each once."""
    named = (functor for rule in rules for functor in rule.calls)
    return dict.fromkeys(name[1:] for name in named if name.startswith(f"@{_MARK}"))
