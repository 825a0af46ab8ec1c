"""A program's `.functor` declarations and the Python functions that stand behind them.

Invariant: what is bound was checked when the database was opened (a function for each functor that
is called, and one that takes its arguments); what a function returns was checked on every call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from deltafix.diagnostics import did_you_mean
from deltafix.errors import FunctorError, ReducerError
from deltafix.facts.logical_types import LogicalType
from deltafix.facts.shapes import Shape
from deltafix.facts.values import (
    RANGES,
    WORD,
    Value,
    canonical,
    encodable,
    fitting,
    show_value,
    shown,
    valid_values,
)
from deltafix.rules.ast import BASES, FunctorDecl, Program
from deltafix.rules.logical import logical_functor
from deltafix.rules.schemas import constructed_by
from deltafix.rules.terms import Aggregate, Call, Term
from deltafix.rules.values import NATIVE, NO_VALUE
from deltafix.rules.walk import subterms, terms_of

if TYPE_CHECKING:
    from deltafix.reducers.aggregate import UserReducer

_EXACT = {"number": int, "unsigned": int, "float": float, "symbol": str}


@dataclass(frozen=True, slots=True)
class UserFunctor:
    """A user's function with the result type that its functor declares.

    None is no value for a base type, and `nil` for a record type. It is called with the engine's
    values, and gives one: of logical types, `given` its arguments' and `of` its result's, the
    function has Python's.
    """

    declared: FunctorDecl
    compute: Callable[..., Any]
    result: str
    shape: Shape | None
    bits: int = WORD
    given: tuple[LogicalType | None, ...] = ()
    of: LogicalType | None = None

    def is_of(self, declared: FunctorDecl, compute: Callable[..., Any]) -> bool:
        """Whether it is this function, declared so."""
        return self.compute is compute and self.declared == declared

    def __call__(self, *values: Value) -> Any:
        """The function's value. Raises FunctorError where it raises or gives another type."""
        values = self._taken(values)
        try:
            value = self.compute(*values)
        except Exception as error:
            message = f"{self._shown(values)} raised {type(error).__name__}: {error}; rolled back"
            raise FunctorError(message, functor=self.declared.name) from error
        return self._fitted(values, value)

    def all(self, calls: Sequence[tuple[Value, ...]]) -> list[Any]:
        """The values of many calls. Raises FunctorError as the first call that fails by itself.

        What is of the declared type already is looked at together: a third of the time of a short
        function of SQL.
        """
        compute = self.compute
        if self.given or self.of is not None:
            return [self(*values) for values in calls]
        try:
            results = [compute(*values) for values in calls]
        except Exception:
            return [self(*values) for values in calls]
        exact = self._exact(results)
        return [*map(self._fitted, calls, results)] if exact is None else exact

    def _taken(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Arguments as the function has them."""
        if not self.given:
            return values
        pairs = zip(self.given, values, strict=True)
        return tuple(value if kind is None else kind.decode(value) for kind, value in pairs)

    def _exact(self, results: list[Any]) -> list[Any] | None:
        """The values, if each is of exactly the declared type, or of a record with one such field.

        Else, and for other records, None.
        """
        if self.shape is None:
            return _exact(self.result, results, self.bits)
        only = self.shape.only
        present = [value for value in results if value is not None]
        if only is None or {*map(type, present)} - {tuple} or {*map(len, present)} - {1}:
            return None
        parts = _exact(only, [part for (part,) in present], self.bits)
        if parts is None or only != "float":
            return None if parts is None else results
        fields = iter(parts)
        return [None if value is None else (next(fields),) for value in results]

    def _fitted(self, values: tuple[Value, ...], value: Any) -> Any:
        """What a call with these values gave, as its type has it."""
        if self.shape is not None:
            try:
                return self.shape.check(value)
            except ValueError as error:
                message = f"{self._shown(values)} gave {shown(value)}, but {error}; rolled back"
                raise FunctorError(message) from None
        if self.of is not None and not (value is None and not self.of.nullable):
            try:
                return self.of.encode(value)
            except ValueError as error:
                message = f"{self._shown(values)} gave {shown(value)}, but {error}; rolled back"
                raise FunctorError(message) from None
        if value is None:
            return NO_VALUE
        fit = fitting(self.result, value, self.bits)
        if fit is None:
            valid = valid_values(self.result, self.bits)
            message = f"{self._shown(values)} gave {shown(value)}, but {self.result} takes {valid}"
            raise FunctorError(f"{message}; rolled back")
        return fit

    def _shown(self, values: tuple[Value, ...]) -> str:
        return f"@{self.declared.name}({', '.join(map(show_value, values))})"


def _exact(kind: str, values: list[Any], bits: int) -> list[Any] | None:
    """Values that are all of exactly the Python type of a base type; None for any other."""
    if {*map(type, values)} - {_EXACT[kind]}:
        return None
    if kind == "float":
        return [*map(canonical, values)]
    if kind == "symbol":
        return values if all(text.isascii() or encodable(text) for text in values) else None
    low, high = RANGES[bits][kind]
    return values if not values or (low <= min(values) and max(values) <= high) else None


def bound(
    program: Program,
    functions: Mapping[str, Callable[..., Any]],
    known: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
) -> dict[str, UserFunctor]:
    """The functors of a checked program bound to functions.

    Those that are `known` from another program are taken as they are where they are declared so
    here and have the same function: a type's name means the same in all programs of one database.

    Raises FunctorError: a functor that is called has no function, a function does not take its
    arguments, or a name belongs to no functor.
    """
    declared = {functor.name: functor for functor in program.functors}
    functions = {**functions, **{name: NATIVE[name] for name in declared if name in NATIVE}}
    for name in functions:
        if name not in declared:
            hint = did_you_mean(name, declared, f"declared: {', '.join(declared)}", "'")
            message = f"the program declares no functor {name!r}; {hint if declared else 'none is'}"
            raise FunctorError(message)
    for name in called(program):
        if name not in functions and logical_functor(name) is None:
            message = (
                f"the program calls @{name}; pass it: connect(..., functors={{{name!r}: f}}), "
                "or --functors FILE.py on the command line"
            )
            raise FunctorError(message)
    constructed = constructed_by(program)
    functors = {}
    for name, compute in functions.items():
        before = known.get(name)
        if isinstance(before, UserFunctor) and before.is_of(declared[name], compute):
            functors[name] = before
            continue
        _require_callable(declared[name], compute)
        kind = program.kind(declared[name].result)
        of = program.logical(kind)
        given = tuple(
            program.logical(program.kind(argument.type)) for argument in declared[name].arguments
        )
        shape = None if kind in BASES or of is not None else Shape(constructed, kind)
        functors[name] = UserFunctor(
            declared[name], compute, program.base_type(kind), shape, program.word_size,
            given if any(given) else (), of,
        )  # fmt: skip
    return functors


@dataclass(frozen=True, slots=True)
class _Folds:
    """A reducer over values of logical types, for the engine's values: `given` in, `of` out."""

    reducer: UserReducer
    given: LogicalType | None
    of: LogicalType | None

    @property
    def initial(self) -> Any:
        """The reducer's."""
        return self.reducer.initial

    def add(self, acc: Any, value: Any) -> Any:
        """With one more value."""
        return self.reducer.add(acc, self._taken(value))

    def remove(self, acc: Any, value: Any) -> Any:
        """With one value fewer, or None."""
        return self.reducer.remove(acc, self._taken(value))

    def finish(self, acc: Any) -> Any:
        """The result as the engine has it. Raises ValueError for one of another type."""
        value = self.reducer.finish(acc)
        return value if self.of is None else self.of.encode(value)

    def _taken(self, value: Any) -> Any:
        return value if self.given is None else self.given.decode(value)


def require_reducers(reducers: Mapping[str, Any]) -> None:
    """Raise ReducerError for what is no reducer: a class, a function, anything without `remove`."""
    for name, given in reducers.items():
        if isinstance(given, type):
            way_out = f"write {given.__name__}(), one that the class makes"
        elif all(hasattr(given, part) for part in ("initial", "add", "remove", "finish")):
            continue
        else:
            way_out = "deltafix.reactive.reducer(initial, add, remove) makes one"
        raise ReducerError(f"reducers[{name!r}] is no reducer: {given!r}; {way_out}")


def folding(program: Program, reducers: Mapping[str, UserReducer]) -> Mapping[str, UserReducer]:
    """The reducers of a program, for the engine's values."""
    by_name = dict(reducers)
    for declared in program.functors:
        kinds = [declared.result, *(argument.type for argument in declared.arguments[:1])]
        of, *given = (program.logical(program.kind(kind)) for kind in kinds)
        if declared.name in reducers and (of or any(given)):
            by_name[declared.name] = _Folds(reducers[declared.name], next(iter(given), None), of)
    return by_name


def called(program: Program) -> tuple[str, ...]:
    """Functors that rules and lattices call, each once; reducers are not among them."""
    return tuple(dict.fromkeys(_called(program)))


def folded(program: Program) -> tuple[str, ...]:
    """Names that the program aggregates with as `@@name`, each once."""
    parts = (part for term in _terms(program) for part in subterms(term))
    names = (part.op[2:] for part in parts if isinstance(part, Aggregate) and part.op[:2] == "@@")
    return tuple(dict.fromkeys(names))


def _terms(program: Program) -> list[Term]:
    terms = [t for rule in program.rules for f in (*rule.heads, rule.body) for t in terms_of(f)]
    terms += [term for order in program.orders for term in terms_of(order.rule.body)]
    return terms


def _called(program: Program) -> Iterator[str]:
    for rule in program.rules:
        yield from (name[1:] for name in rule.calls if name.startswith("@"))
    terms = [term for order in program.orders for term in terms_of(order.rule.body)]
    used = {program.kind(a.type) for r in program.relations for a in r.attributes if a.join == "<>"}
    for lattice in program.lattices:
        join = lattice.operation("Lub")
        if program.kind(lattice.type) in used and join is not None:
            terms.append(join)
    for term in terms:
        for part in subterms(term):
            if isinstance(part, Call) and part.functor.startswith("@"):
                yield part.functor[1:]


def _require_callable(functor: FunctorDecl, compute: Callable[..., Any]) -> None:
    wanted = len(functor.arguments)
    shown = ", ".join(f"{a.name}: {a.type}" for a in functor.arguments)
    if not callable(compute):
        message = f"functor @{functor.name}({shown}) wants a function, not {compute!r}"
        raise FunctorError(message)
    try:
        inspect.signature(compute).bind(*range(wanted))
    except ValueError:  # a function that does not tell its signature, as some in C
        return
    except TypeError as error:
        message = f"functor @{functor.name}({shown}): its function does not fit: {error}"
        raise FunctorError(message) from None
