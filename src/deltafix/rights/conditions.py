"""Conditions of tuples: their expressions, in CEL, and the values that these are evaluated with.

A context is a JSON object. The one that a tuple carries is judged when the tuple is written: its
names are parameters of the condition, its values of their types. The one of a question may have
more names, for other conditions; where both have a name, the tuple's value counts.

Invariant: a verdict is true, false, or open (None): parameters are missing, or do not fit, or the
evaluation fails. CEL decides what `a || b` is when `b` is open. An expression is interpreted in
bounded steps, over contexts of bounded size; nothing that a model or a question says is compiled
to Python. What follows from verdicts is not known here.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from deltafix.errors import (
    MissingDependencyError,
    RightsContextError,
    RightsParameterError,
)
from deltafix.rights.model import Condition, Model, ParameterType

Verdict: TypeAlias = bool | None

TYPES: Final = (
    "any", "bool", "bytes", "double", "duration", "int", "ipaddress", "list", "map", "string",
    "timestamp", "uint",
)  # fmt: skip
"""Of parameters; `list` and `map` are of another one."""

_STEPS: Final = 20_000
"""Nodes of an expression that one evaluation visits at most, those of macros once an element."""
_DEEPEST: Final = 150
"""Nodes inside each other; a pair of parentheses is about ten."""
_LONGEST: Final = 4_096
"""Characters of an expression."""
_CONTEXT: Final = 32_768
"""Characters of a tuple's context, or of a question's, as JSON."""
_VALUES: Final = 1_000
"""Values in either."""
_NESTED: Final = 20
"""Lists and objects inside each other in either."""

_MACROS: Final = ("all", "exists", "exists_one", "filter", "map")
_FUNCTIONS: Final = (
    "bool", "bytes", "contains", "double", "duration", "dyn", "endsWith", "getDate",
    "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds",
    "getMinutes", "getMonth", "getSeconds", "has", "in_cidr", "int", "ipaddress", "matches", "size",
    "startsWith", "string", "timestamp", "type", "uint", *_MACROS,
)  # fmt: skip
_NAMES: Final = ("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint")


# --- contexts ------------------------------------------------------------------------------------


class MisfitError(ValueError):
    """A context that is none; the message says what is wrong and what would be valid."""


def written(condition: Condition, given: Any) -> str:
    """A tuple's context for a condition, as JSON text that is the same for the same context.

    Raises MisfitError.
    """
    context = checked_context(given)
    types = dict(condition.parameters)
    for name, value in context.items():
        if name not in types:
            there = ", ".join(types) or "none"
            message = f"condition `{condition.name}` has no parameter {name!r}; it has {there}"
            raise MisfitError(message)
        _Values.of(types[name], value, name)
    return json.dumps(context, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def checked_context(given: Any) -> Mapping[str, Any]:
    """A context as a JSON object; text is read as JSON. Raises MisfitError."""
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}", parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise MisfitError(f"the context is no JSON: {error}") from None
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise MisfitError(
            f'the context is {given!r:.60}; it takes an object, such as {{"ip": "10.0.0.1"}}'
        )
    if sum(1 for _ in _values(given, 0)) > _VALUES:
        raise MisfitError(f"the context has more than {_VALUES:,} values")
    try:
        text = json.dumps(given, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise MisfitError(f"the context is no JSON: {error}") from None
    if len(text) > _CONTEXT:
        raise MisfitError(f"the context has {len(text):,} characters as JSON; {_CONTEXT:,} may be")
    return given


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _values(given: Any, depth: int) -> Iterator[Any]:
    if depth > _NESTED:
        raise MisfitError(
            f"the context has more than {_NESTED} lists and objects inside each other"
        )
    if isinstance(given, Mapping):
        for name, value in given.items():
            if not isinstance(name, str):
                raise MisfitError(f"the context has a name that is no text: {name!r}")
            yield from _values(value, depth + 1)
    elif isinstance(given, list | tuple):
        for value in given:
            yield from _values(value, depth + 1)
    yield given


_DURATION: Final = re.compile(r"([+-]?)((?:\d+(?:\.\d+)?(?:h|ms|m|s|us|µs|ns))+|0)")
_PARTS: Final = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)")
_MICROSECONDS: Final = {
    "h": Decimal(3_600_000_000), "m": Decimal(60_000_000), "s": Decimal(1_000_000),
    "ms": Decimal(1_000), "us": Decimal(1), "µs": Decimal(1), "ns": Decimal("0.001"),
}  # fmt: skip
_TIMESTAMP: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.(\d{1,6})0*)?(?:[Zz]|[+-]\d\d:\d\d)"
)


class _Values:
    """JSON values as values of CEL, by the types of parameters; each raises MisfitError."""

    @classmethod
    def of(cls, kind: ParameterType, given: Any, name: str) -> Any:
        try:
            made = getattr(cls, f"_{kind.name}")(kind, given, name)
        except MisfitError:
            raise
        except (ValueError, TypeError, OverflowError, ArithmeticError):
            made = None
        if made is None:
            shown = json.dumps(given, default=repr, ensure_ascii=False)
            raise MisfitError(
                f"parameter `{name}` is {shown:.60}; {kind} takes {_EXAMPLES[kind.name]}"
            )
        return made

    @staticmethod
    def _any(_: ParameterType, given: Any, __: str) -> Any:
        return _cel().json_to_cel(given)

    @staticmethod
    def _bool(_: ParameterType, given: Any, __: str) -> Any:
        texts = {"true": True, "false": False}
        value = texts.get(given) if isinstance(given, str) else given
        return _cel().celtypes.BoolType(value) if isinstance(value, bool) else None

    @staticmethod
    def _bytes(_: ParameterType, given: Any, __: str) -> Any:
        return _cel().celtypes.BytesType(given.encode()) if isinstance(given, str) else None

    @staticmethod
    def _string(_: ParameterType, given: Any, __: str) -> Any:
        return _cel().celtypes.StringType(given) if isinstance(given, str) else None

    @staticmethod
    def _number(given: Any) -> int | None:
        if isinstance(given, bool) or not isinstance(given, int | float | str):
            return None
        if isinstance(given, str):
            return int(given) if re.fullmatch(r"[+-]?\d{1,20}", given) else None
        return int(given) if given == int(given) else None

    @classmethod
    def _int(cls, _: ParameterType, given: Any, __: str) -> Any:
        value = cls._number(given)
        return None if value is None else _cel().celtypes.IntType(value)

    @classmethod
    def _uint(cls, _: ParameterType, given: Any, __: str) -> Any:
        value = cls._number(given)
        return None if value is None else _cel().celtypes.UintType(value)

    @staticmethod
    def _double(_: ParameterType, given: Any, __: str) -> Any:
        numbers = isinstance(given, int | float | str) and not isinstance(given, bool)
        return _cel().celtypes.DoubleType(float(given)) if numbers else None

    @staticmethod
    def _duration(_: ParameterType, given: Any, __: str) -> Any:
        match = _DURATION.fullmatch(given)
        if match is None:
            return None
        parts = _PARTS.findall(match[2])
        whole = sum((Decimal(count) * _MICROSECONDS[unit] for count, unit in parts), Decimal(0))
        if whole != int(whole):
            return None
        sign = -1 if match[1] == "-" else 1
        return _cel().celtypes.DurationType(timedelta(microseconds=sign * int(whole)))

    @staticmethod
    def _timestamp(_: ParameterType, given: Any, __: str) -> Any:
        if _TIMESTAMP.fullmatch(given) is None:
            return None
        return _cel().celtypes.TimestampType(datetime.fromisoformat(given.upper()))

    @staticmethod
    def _ipaddress(_: ParameterType, given: Any, __: str) -> Any:
        return ipaddress.ip_address(given) if isinstance(given, str) else None

    @classmethod
    def _list(cls, kind: ParameterType, given: Any, name: str) -> Any:
        if not isinstance(given, list | tuple) or kind.of is None:
            return None
        values = [cls.of(kind.of, one, f"{name}[{place}]") for place, one in enumerate(given)]
        return _cel().celtypes.ListType(values)

    @classmethod
    def _map(cls, kind: ParameterType, given: Any, name: str) -> Any:
        if not isinstance(given, Mapping) or kind.of is None:
            return None
        types = _cel().celtypes
        pairs = {
            types.StringType(key): cls.of(kind.of, one, f"{name}.{key}")
            for key, one in given.items()
        }
        return types.MapType(pairs)


_EXAMPLES: Final = {
    "any": "any value",
    "bool": "true or false",
    "bytes": "a text",
    "double": "a number",
    "duration": 'a text such as "1h30m", in whole microseconds',
    "int": "a whole number of 64 bits",
    "ipaddress": 'a text such as "192.168.0.1"',
    "list": "an array",
    "map": "an object",
    "string": "a text",
    "timestamp": 'a text such as "2024-02-03T10:00:00Z", in whole microseconds',
    "uint": "a whole number of 64 bits, not negative",
}


# --- expressions ---------------------------------------------------------------------------------


def _cel() -> Any:
    try:
        import celpy  # noqa: PLC0415  optional
    except ImportError as error:
        message = "conditions need cel-python: pip install 'deltafix[conditions]'"
        raise MissingDependencyError(message, extra="conditions") from error
    return celpy


class _TooLongError(Exception):
    """An evaluation takes too many steps."""


def _in_cidr(address: Any, network: Any) -> Any:
    return _cel().celtypes.BoolType(address in ipaddress.ip_network(str(network), strict=False))


def _ip(text: Any) -> Any:
    return ipaddress.ip_address(str(text))


@cache
def _environment() -> Any:
    """What reads and interprets expressions; each evaluation counts its steps."""
    cel = _cel()
    from celpy.evaluation import Evaluator  # noqa: PLC0415  optional

    class Counting(Evaluator):  # type: ignore[misc]
        def __init__(self, ast: Any, activation: Any, left: list[int]) -> None:
            super().__init__(ast, activation)
            self.left = left

        def visit_children(self, tree: Any) -> Any:
            self.left[0] -= 1
            if self.left[0] < 0:
                raise _TooLongError
            return super().visit_children(tree)

        def sub_evaluator(self, ast: Any) -> Any:
            return Counting(ast, self.activation, self.left)

    class Runner(cel.InterpretedRunner):  # type: ignore[misc, name-defined]
        def evaluate(self, context: Any) -> Any:
            return Counting(self.ast, self.new_activation(), [_STEPS]).evaluate(context)

    return cel.Environment(runner_class=Runner)


def wrong_with(condition: Condition) -> str:
    """What is wrong with the expression of a condition; empty if nothing is. O(characters)."""
    if len(condition.expression) > _LONGEST:
        return f"it has more than {_LONGEST:,} characters"
    cel = _cel()
    try:
        tree = _environment().compile(condition.expression)
    except (cel.CELParseError, RecursionError) as error:
        first = str(error).strip().splitlines()[:1]
        return f"it is no CEL: {first[0] if first else 'nothing is there'}"
    return next(_wrong(tree, [name for name, _ in condition.parameters]), "")


def _wrong(tree: Any, parameters: Iterable[str]) -> Iterator[str]:
    waiting: list[tuple[Any, frozenset[str], int]] = [(tree, frozenset(parameters), 0)]
    while waiting:
        node, known, depth = waiting.pop()
        if depth > _DEEPEST:
            yield "its parts stand too deep inside each other"
            return
        children = [one for one in node.children if hasattr(one, "children")]
        words = [str(one) for one in node.children if not hasattr(one, "children")]
        if node.data == "ident" and words[0] not in known and words[0] not in _NAMES:
            there = ", ".join(sorted(known)) or "none"
            yield f"`{words[0]}` is no parameter; there is: {there}"
        elif node.data in ("ident_arg", "member_dot_arg"):
            if words[0] not in _FUNCTIONS:
                yield f"`{words[0]}` is no function; there is: {', '.join(_FUNCTIONS)}"
            if node.data == "member_dot_arg" and words[0] in _MACROS and len(children) > 1:
                bound, *rest = children[1].children
                name = [str(one.children[0]) for one in bound.find_data("ident")]
                waiting.append((children[0], known, depth + 1))
                waiting += [(one, known.union(name), depth + 2) for one in rest]
                continue
        elif node.data in ("dot_ident", "dot_ident_arg", "member_object"):
            yield "messages and names that begin with a dot are not known"
        waiting += [(one, known, depth + 1) for one in children]


class Conditions:
    """The conditions of a model, each compiled when it is first asked for."""

    def __init__(self, model: Model) -> None:
        self.by_name = {one.name: one for one in model.conditions}
        self._programs: dict[str, Any] = {}

    def evaluate(self, name: str, values: Mapping[str, Any]) -> bool:
        """The value of a condition. Raises MisfitError if it has none."""
        program = self._programs.get(name)
        if program is None:
            environment = _environment()
            tree = environment.compile(self.by_name[name].expression)
            own: dict[str, Callable[..., Any]] = {"in_cidr": _in_cidr, "ipaddress": _ip}
            program = self._programs[name] = environment.program(tree, functions=own)
        try:
            found = program.evaluate(values)
        except _TooLongError:
            raise MisfitError(f"it takes more than {_STEPS:,} steps") from None
        except _cel().CELEvalError as error:
            raise MisfitError(str(error.args[0]) if error.args else "it fails") from None
        except Exception as error:
            raise MisfitError(f"it fails with {type(error).__name__}: {error}") from None
        if not isinstance(found, _cel().celtypes.BoolType):
            raise MisfitError("its value is neither true nor false")
        return bool(found)


class _Open(NamedTuple):
    condition: str
    missing: tuple[str, ...]
    problem: str


class Judge:
    """Whether conditional tuples hold in the context of one question.

    Attributes:
        undecided: whether a verdict was open.
    """

    def __init__(self, conditions: Conditions, context: Mapping[str, Any]) -> None:
        self._conditions, self._context = conditions, context
        self._known: dict[tuple[str, str], Verdict] = {}
        self._open: dict[_Open, None] = {}

    @property
    def undecided(self) -> bool:  # noqa: D102  above
        return bool(self._open)

    def verdict(self, name: str, stored: str) -> Verdict:
        """Of a condition, with the context that a tuple carries. O(the evaluation), once."""
        key = (name, stored)
        if key not in self._known:
            self._known[key] = self._judged(name, stored)
        return self._known[key]

    def _judged(self, name: str, stored: str) -> Verdict:
        given = {**self._context, **json.loads(stored)}
        condition = self._conditions.by_name[name]
        missing = tuple(one for one, _ in condition.parameters if one not in given)
        try:
            values = {
                one: _Values.of(kind, given[one], one)
                for one, kind in condition.parameters
                if one in given
            }
            return self._conditions.evaluate(name, values)
        except MisfitError as error:
            self._open[_Open(name, missing, str(error))] = None
            return None

    def error(self, question: str) -> RightsContextError:
        """Why a question has no answer."""
        by_name: dict[str, list[str]] = {}
        for one in self._open:
            names = by_name.setdefault(one.condition, [])
            names += [name for name in one.missing if name not in names]
        by_name = {name: missing for name, missing in by_name.items() if missing}
        if by_name:
            shown = "; ".join(f"`{name}` needs {', '.join(by_name[name])}" for name in by_name)
            message = (
                f"{question}: the answer rests on conditions whose parameters are missing: "
                f'{shown}; give them as `context={{"{next(iter(by_name.values()))[0]}": ...}}`'
            )
            return RightsParameterError(message, parameters=by_name)
        first = next(iter(self._open))
        message = f"{question}: condition `{first.condition}` cannot be evaluated: {first.problem}"
        return RightsContextError(message, value=first.condition)
