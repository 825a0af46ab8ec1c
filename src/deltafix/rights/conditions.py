"""Conditions of tuples: their expressions, in CEL, and whether they hold in a context.

Where a tuple and a question both have a value for a parameter, the tuple's counts.

Invariant: a verdict is true, false, or open (None): parameters are missing, or do not fit, or the
evaluation fails. CEL decides what `a || b` is when `b` is open. An expression is interpreted in
bounded steps; nothing that a model or a question says is compiled to Python. What follows from
verdicts is not known here.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from deltafix.errors import RightsContextError, RightsParameterError
from deltafix.rights.contexts import CONTEXT, MisfitError, Values, cel
from deltafix.rights.model import Condition, Model

Verdict: TypeAlias = bool | None

_STEPS: Final = 20_000
"""Nodes of an expression that one evaluation visits at most, those of macros once an element."""
_DEEPEST: Final = 150
"""Nodes inside each other; a pair of parentheses is about ten."""
_LONGEST: Final = 4_096
"""Characters of an expression."""
_MACROS: Final = ("all", "exists", "exists_one", "filter", "map")
_FUNCTIONS: Final = (
    "bool", "bytes", "contains", "double", "duration", "dyn", "endsWith", "getDate",
    "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds",
    "getMinutes", "getMonth", "getSeconds", "has", "in_cidr", "int", "ipaddress", "matches", "size",
    "startsWith", "string", "timestamp", "type", "uint", *_MACROS,
)  # fmt: skip
_NAMES: Final = ("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint")


class _TooLongError(Exception):
    """An evaluation takes too many steps, or makes too much."""


def _plus(left: Any, right: Any) -> Any:
    """Addition; texts and lists that it makes are no longer than a context may be."""
    if hasattr(left, "__len__") and hasattr(right, "__len__") and len(left) + len(right) > CONTEXT:
        raise _TooLongError
    return left + right


def _in_cidr(address: Any, network: Any) -> Any:
    return cel().celtypes.BoolType(address in ipaddress.ip_network(str(network), strict=False))


def _ip(text: Any) -> Any:
    return ipaddress.ip_address(str(text))


@cache
def _environment() -> Any:
    """What reads and interprets expressions; each evaluation counts its steps."""
    celpy = cel()
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

    class Runner(celpy.InterpretedRunner):  # type: ignore[misc, name-defined]
        def evaluate(self, context: Any) -> Any:
            return Counting(self.ast, self.new_activation(), [_STEPS]).evaluate(context)

    return celpy.Environment(runner_class=Runner)


def wrong_with(condition: Condition) -> str:
    """What is wrong with the expression of a condition; empty if nothing is. O(characters)."""
    if len(condition.expression) > _LONGEST:
        return f"it has more than {_LONGEST:,} characters"
    try:
        tree = _environment().compile(condition.expression)
    except (cel().CELParseError, RecursionError) as error:
        first = str(error).strip().splitlines()[:1]
        return f"it is no CEL: {first[0] if first else 'nothing is there'}"
    return next(_wrong(tree, [name for name, _ in condition.parameters]), "")


def _wrong(tree: Any, parameters: Iterable[str]) -> Iterator[str]:
    pending: list[tuple[Any, frozenset[str], int]] = [(tree, frozenset(parameters), 0)]
    while pending:
        node, known, depth = pending.pop()
        if depth > _DEEPEST:
            yield "its parts stand too deep inside each other"
            return
        children = [child for child in node.children if hasattr(child, "children")]
        words = [str(child) for child in node.children if not hasattr(child, "children")]
        if node.data == "ident" and words[0] not in known and words[0] not in _NAMES:
            valid = ", ".join(sorted(known)) or "none"
            yield f"`{words[0]}` is no parameter; there is: {valid}"
        elif node.data in ("ident_arg", "member_dot_arg"):
            if words[0] not in _FUNCTIONS:
                yield f"`{words[0]}` is no function; there is: {', '.join(_FUNCTIONS)}"
            if node.data == "member_dot_arg" and words[0] in _MACROS and len(children) > 1:
                bound, *rest = children[1].children
                bound_names = [str(part.children[0]) for part in bound.find_data("ident")]
                pending.append((children[0], known, depth + 1))
                pending += [(part, known.union(bound_names), depth + 2) for part in rest]
                continue
        elif node.data in ("dot_ident", "dot_ident_arg", "member_object"):
            yield "messages and names that begin with a dot are not known"
        pending += [(child, known, depth + 1) for child in children]


class Conditions:
    """The conditions of a model, each compiled when it is first asked for."""

    def __init__(self, model: Model) -> None:
        self.by_name = {condition.name: condition for condition in model.conditions}
        self._programs: dict[str, Any] = {}

    def evaluate(self, name: str, values: Mapping[str, Any]) -> bool:
        """The value of a condition. Raises MisfitError if it has none."""
        program = self._programs.get(name)
        if program is None:
            environment = _environment()
            tree = environment.compile(self.by_name[name].expression)
            own: dict[str, Callable[..., Any]] = {
                "_+_": _plus, "in_cidr": _in_cidr, "ipaddress": _ip,
            }  # fmt: skip
            program = self._programs[name] = environment.program(tree, functions=own)
        try:
            verdict = program.evaluate(values)
        except _TooLongError:
            message = f"it takes more than {_STEPS:,} steps, or makes too long a text or list"
            raise MisfitError(message) from None
        except cel().CELEvalError as error:
            raise MisfitError(f"{error.args[0]:.200}" if error.args else "it fails") from None
        except Exception as error:
            raise MisfitError(f"it fails with {type(error).__name__}: {error!s:.200}") from None
        if not isinstance(verdict, cel().celtypes.BoolType):
            raise MisfitError("its value is neither true nor false")
        return bool(verdict)


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

    def because(self, name: str, stored: str) -> tuple[str, Mapping[str, Any]]:
        """The expression of a condition, and what the context has for it that a tuple has not."""
        condition, own = self._conditions.by_name[name], json.loads(stored)
        names = [parameter for parameter, _ in condition.parameters if parameter not in own]
        given = {
            parameter: self._context[parameter] for parameter in names if parameter in self._context
        }
        return condition.expression, given

    def _judged(self, name: str, stored: str) -> Verdict:
        values_given = {**self._context, **json.loads(stored)}
        condition = self._conditions.by_name[name]
        missing = tuple(
            parameter for parameter, _ in condition.parameters if parameter not in values_given
        )
        try:
            values = {
                parameter: Values.of(kind, values_given[parameter], parameter)
                for parameter, kind in condition.parameters
                if parameter in values_given
            }
            return self._conditions.evaluate(name, values)
        except MisfitError as error:
            self._open[_Open(name, missing, str(error))] = None
            return None

    def error(self, question: str) -> RightsContextError:
        """Why a question has no answer."""
        by_name: dict[str, list[str]] = {}
        for open_ in self._open:
            names = by_name.setdefault(open_.condition, [])
            names += [name for name in open_.missing if name not in names]
        by_name = {name: missing for name, missing in by_name.items() if missing}
        if by_name:
            needs = "; ".join(f"`{name}` needs {', '.join(by_name[name])}" for name in by_name)
            every = dict.fromkeys(name for missing in by_name.values() for name in missing)
            example = ", ".join(f'"{name}": ...' for name in every)
            example = f"{{{example}}}"
            message = (
                f"{question}: the answer rests on conditions whose parameters are missing: "
                f"{needs}; give them as `context={example}`, at the command line as "
                f"`--context '{example}'`"
            )
            return RightsParameterError(message, parameters=by_name)
        first = next(iter(self._open))
        message = f"{question}: condition `{first.condition}` cannot be evaluated: {first.problem}"
        return RightsContextError(message, value=first.condition)
