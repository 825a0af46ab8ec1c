"""Contexts: values for parameters of conditions, as JSON has them and as expressions take them.

The context that a tuple carries is judged when the tuple is written: its names are parameters of
the condition, its values of their types. That of a question may have more names, for other
conditions. Invariant: a context is a JSON object of bounded size, and a value that does not fit its
type exactly is none: nothing is rounded.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from deltafix.errors import MissingDependencyError
from deltafix.rights.model import Condition, ParameterType

TYPES: Final = (
    "any", "bool", "bytes", "double", "duration", "int", "ipaddress", "list", "map", "string",
    "timestamp", "uint",
)  # fmt: skip
"""Of parameters; `list` and `map` are of another one."""

CONTEXT: Final = 32_768
"""Characters of a tuple's context, or of a question's, as JSON."""
_VALUES: Final = 1_000
"""Values in either."""
_NESTED: Final = 20
"""Lists and objects inside each other in either."""


def cel() -> Any:
    """The library. Raises MissingDependencyError."""
    try:
        import celpy  # noqa: PLC0415  optional
    except ImportError as error:
        message = "conditions need cel-python: pip install 'deltafix[conditions]'"
        raise MissingDependencyError(message, extra="conditions") from error
    return celpy


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
            valid = ", ".join(types) or "none"
            message = f"condition `{condition.name}` has no parameter {name!r}; it has {valid}"
            raise MisfitError(message)
        Values.of(types[name], value, name)
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
    if len(text) > CONTEXT:
        raise MisfitError(f"the context has {len(text):,} characters as JSON; {CONTEXT:,} may be")
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


class Values:
    """JSON values as values of CEL, by the types of parameters; each raises MisfitError."""

    @classmethod
    def of(cls, kind: ParameterType, given: Any, name: str) -> Any:
        """A value of a type, as expressions take it. O(its size)."""
        try:
            converted = getattr(cls, f"_{kind.name}")(kind, given, name)
        except MisfitError:
            raise
        except (ValueError, TypeError, OverflowError, ArithmeticError):
            converted = None
        if converted is None:
            text = json.dumps(given, default=repr, ensure_ascii=False)
            raise MisfitError(
                f"parameter `{name}` is {text:.60}; {kind} takes {_EXAMPLES[kind.name]}"
            )
        return converted

    @staticmethod
    def _any(_: ParameterType, given: Any, __: str) -> Any:
        return cel().json_to_cel(given)

    @staticmethod
    def _bool(_: ParameterType, given: Any, __: str) -> Any:
        texts = {"true": True, "false": False}
        value = texts.get(given) if isinstance(given, str) else given
        return cel().celtypes.BoolType(value) if isinstance(value, bool) else None

    @staticmethod
    def _bytes(_: ParameterType, given: Any, __: str) -> Any:
        return cel().celtypes.BytesType(given.encode()) if isinstance(given, str) else None

    @staticmethod
    def _string(_: ParameterType, given: Any, __: str) -> Any:
        return cel().celtypes.StringType(given) if isinstance(given, str) else None

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
        return None if value is None else cel().celtypes.IntType(value)

    @classmethod
    def _uint(cls, _: ParameterType, given: Any, __: str) -> Any:
        value = cls._number(given)
        return None if value is None else cel().celtypes.UintType(value)

    @staticmethod
    def _double(_: ParameterType, given: Any, __: str) -> Any:
        numbers = isinstance(given, int | float | str) and not isinstance(given, bool)
        return cel().celtypes.DoubleType(float(given)) if numbers else None

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
        return cel().celtypes.DurationType(timedelta(microseconds=sign * int(whole)))

    @staticmethod
    def _timestamp(_: ParameterType, given: Any, __: str) -> Any:
        if _TIMESTAMP.fullmatch(given) is None:
            return None
        return cel().celtypes.TimestampType(datetime.fromisoformat(given.upper()))

    @staticmethod
    def _ipaddress(_: ParameterType, given: Any, __: str) -> Any:
        return ipaddress.ip_address(given) if isinstance(given, str) else None

    @classmethod
    def _list(cls, kind: ParameterType, given: Any, name: str) -> Any:
        if not isinstance(given, list | tuple) or kind.of is None:
            return None
        values = [
            cls.of(kind.of, element, f"{name}[{index}]") for index, element in enumerate(given)
        ]
        return cel().celtypes.ListType(values)

    @classmethod
    def _map(cls, kind: ParameterType, given: Any, name: str) -> Any:
        if not isinstance(given, Mapping) or kind.of is None:
            return None
        types = cel().celtypes
        pairs = {
            types.StringType(key): cls.of(kind.of, element, f"{name}.{key}")
            for key, element in given.items()
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
