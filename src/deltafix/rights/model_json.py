"""A model's JSON form, as OpenFGA's API has it.

Invariant: the JSON and the DSL of one model give equal models. An error says where in the JSON it
is (`type_definitions[2].relations.viewer`), which has no lines of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from deltafix.diagnostics import Diagnostic, render
from deltafix.errors import RightsModelError
from deltafix.rights.contexts import TYPES
from deltafix.rights.dsl import by_name
from deltafix.rights.model import (
    Computed,
    Condition,
    Direct,
    Exclusion,
    FromRelated,
    Intersection,
    Model,
    ParameterType,
    RelationDefinition,
    Restriction,
    Rewrite,
    TypeDefinition,
    Union,
)

_DEEPEST: Final = 20
"""Types of parameters inside each other."""
_REWRITES: Final = (
    "this", "computedUserset", "tupleToUserset", "union", "intersection", "difference",
)  # fmt: skip


def model_of_json(given: str | Mapping[str, Any], path: str | None = None) -> Model:
    """Read a model from JSON text, or from what `json.loads` made of it.

    Raises RightsModelError with the place.
    """
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise _error(f"this is no JSON: {error}", path or "$", "") from None
    return _Reader(path).model(given)


def _error(message: str, where: str, valid: str) -> RightsModelError:
    diagnostic = Diagnostic(RightsModelError.code, f"{where}: {message}", None, valid or None)
    return RightsModelError(render(diagnostic), [diagnostic])


class _Reader:
    def __init__(self, path: str | None) -> None:
        self.path = path

    def model(self, value: Any) -> Model:
        top = self._mapping(value, "$")
        if top.get("schema_version") not in ("1.1", "1.2"):
            message = f"schema_version is {top.get('schema_version')!r}"
            raise _error(message, "$.schema_version", 'expected "1.1" or "1.2"')
        types = self._list(top.get("type_definitions"), "$.type_definitions")
        types_read = [self._type(value, f"type_definitions[{n}]") for n, value in enumerate(types)]
        conditions = self._mapping(top.get("conditions") or {}, "conditions")
        read = [self._condition(name, value) for name, value in conditions.items()]
        return Model(tuple(types_read), by_name(read))

    def _condition(self, name: str, value: Any) -> Condition:
        where = f"conditions.{name}"
        fields = self._mapping(value, where)
        declared = self._mapping(fields.get("parameters") or {}, f"{where}.parameters")
        parameters = tuple(
            (parameter, self._parameter(declared[parameter], f"{where}.parameters.{parameter}", 0))
            for parameter in sorted(declared)
        )
        expression = self._text(fields.get("expression"), f"{where}.expression")
        return Condition(name, parameters, expression.strip())

    def _parameter(self, value: Any, where: str, depth: int) -> ParameterType:
        fields = self._mapping(value, where)
        name = self._text(fields.get("type_name"), f"{where}.type_name")
        kind = name.removeprefix("TYPE_NAME_").lower()
        if kind not in TYPES or depth > _DEEPEST:
            valid = f"expected one of {', '.join(f'TYPE_NAME_{kind.upper()}' for kind in TYPES)}"
            raise _error(f"this is {name}", self._at(f"{where}.type_name"), valid)
        if kind not in ("list", "map"):
            return ParameterType(kind)
        location = f"{where}.generic_types"
        of = self._list(fields.get("generic_types"), location)
        if len(of) != 1:
            raise _error(f"there are {len(of)}", self._at(location), "expected one type")
        return ParameterType(kind, self._parameter(of[0], f"{location}[0]", depth + 1))

    def _type(self, value: Any, where: str) -> TypeDefinition:
        fields = self._mapping(value, where)
        name = self._text(fields.get("type"), f"{where}.type")
        metadata = self._mapping(fields.get("metadata") or {}, f"{where}.metadata")
        about = self._mapping(metadata.get("relations") or {}, f"{where}.metadata.relations")
        relations = []
        rewrites = self._mapping(fields.get("relations") or {}, f"{where}.relations")
        for relation, rewrite in rewrites.items():
            location = f"{where}.metadata.relations.{relation}"
            types = self._mapping(about.get(relation) or {}, location)
            allowed = types.get("directly_related_user_types") or []
            location = f"{location}.directly_related_user_types"
            direct = tuple(
                self._restriction(restriction, f"{location}[{n}]")
                for n, restriction in enumerate(self._list(allowed, location))
            )
            read = self._rewrite(rewrite, direct, f"{where}.relations.{relation}")
            relations.append(RelationDefinition(relation, read))
        return TypeDefinition(name, tuple(relations))

    def _restriction(self, value: Any, where: str) -> Restriction:
        fields = self._mapping(value, where)
        name = self._text(fields.get("type"), f"{where}.type")
        relation, condition = fields.get("relation") or "", fields.get("condition") or ""
        return Restriction(name, relation, "wildcard" in fields, condition)

    def _rewrite(self, value: Any, direct: tuple[Restriction, ...], where: str) -> Rewrite:
        fields = self._mapping(value, where)
        kinds = [kind for kind in _REWRITES if kind in fields]
        if len(kinds) != 1:
            kinds_there = ", ".join(fields) or "nothing"
            raise _error(
                f"there is {kinds_there}", where, f"expected one of {', '.join(_REWRITES)}"
            )
        kind = kinds[0]
        inner, location = fields[kind], f"{where}.{kind}"
        if kind == "this":
            return Direct(direct)
        body = self._mapping(inner, location)
        if kind == "computedUserset":
            return Computed(self._text(body.get("relation"), f"{location}.relation"))
        if kind == "tupleToUserset":
            tupleset = self._mapping(body.get("tupleset"), f"{location}.tupleset")
            computed = self._mapping(body.get("computedUserset"), f"{location}.computedUserset")
            return FromRelated(
                self._text(computed.get("relation"), f"{location}.computedUserset.relation"),
                self._text(tupleset.get("relation"), f"{location}.tupleset.relation"),
            )
        if kind == "difference":
            base = self._rewrite(body.get("base"), direct, f"{location}.base")
            return Exclusion(
                base, self._rewrite(body.get("subtract"), direct, f"{location}.subtract")
            )
        children = self._list(body.get("child"), f"{location}.child")
        parts = tuple(
            self._rewrite(child, direct, f"{location}.child[{n}]")
            for n, child in enumerate(children)
        )
        if not parts:
            raise _error("there is no child", f"{location}.child", "expected two or more")
        return (Union if kind == "union" else Intersection)(parts)

    def _mapping(self, value: Any, where: str) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise _error(f"this is {_kind(value)}", self._at(where), "expected an object")
        return value

    def _list(self, value: Any, where: str) -> list[Any]:
        if not isinstance(value, list):
            raise _error(f"this is {_kind(value)}", self._at(where), "expected an array")
        return value

    def _text(self, value: Any, where: str) -> str:
        if not isinstance(value, str) or not value:
            raise _error(f"this is {_kind(value)}", self._at(where), "expected a name")
        return value

    def _at(self, where: str) -> str:
        return f"{self.path}: {where}" if self.path else where


def _kind(value: Any) -> str:
    return "missing" if value is None else f"{json.dumps(value, default=str)[:60]}"
