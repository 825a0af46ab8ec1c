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


def model_of_json(found: str | Mapping[str, Any], path: str | None = None) -> Model:
    """Read a model from JSON text, or from what `json.loads` made of it.

    Raises RightsModelError with the place.
    """
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError) as error:
            raise _error(f"this is no JSON: {error}", path or "$", "") from None
    return _Reader(path).model(found)


def _error(message: str, where: str, valid: str) -> RightsModelError:
    one = Diagnostic(RightsModelError.code, f"{where}: {message}", None, valid or None)
    return RightsModelError(render(one), [one])


class _Reader:
    def __init__(self, path: str | None) -> None:
        self.path = path

    def model(self, found: Any) -> Model:
        top = self._mapping(found, "$")
        if top.get("schema_version") not in ("1.1", "1.2"):
            message = f"schema_version is {top.get('schema_version')!r}"
            raise _error(message, "$.schema_version", 'expected "1.1" or "1.2"')
        types = self._list(top.get("type_definitions"), "$.type_definitions")
        made = [self._type(one, f"type_definitions[{n}]") for n, one in enumerate(types)]
        conditions = self._mapping(top.get("conditions") or {}, "conditions")
        read = [self._condition(name, one) for name, one in conditions.items()]
        return Model(tuple(made), by_name(read))

    def _condition(self, name: str, found: Any) -> Condition:
        where = f"conditions.{name}"
        one = self._mapping(found, where)
        given = self._mapping(one.get("parameters") or {}, f"{where}.parameters")
        parameters = tuple(
            (parameter, self._parameter(given[parameter], f"{where}.parameters.{parameter}", 0))
            for parameter in sorted(given)
        )
        expression = self._text(one.get("expression"), f"{where}.expression")
        return Condition(name, parameters, expression.strip())

    def _parameter(self, found: Any, where: str, depth: int) -> ParameterType:
        one = self._mapping(found, where)
        name = self._text(one.get("type_name"), f"{where}.type_name")
        kind = name.removeprefix("TYPE_NAME_").lower()
        if kind not in TYPES or depth > _DEEPEST:
            valid = f"expected one of {', '.join(f'TYPE_NAME_{one.upper()}' for one in TYPES)}"
            raise _error(f"this is {name}", self._at(f"{where}.type_name"), valid)
        if kind not in ("list", "map"):
            return ParameterType(kind)
        place = f"{where}.generic_types"
        of = self._list(one.get("generic_types"), place)
        if len(of) != 1:
            raise _error(f"there are {len(of)}", self._at(place), "expected one type")
        return ParameterType(kind, self._parameter(of[0], f"{place}[0]", depth + 1))

    def _type(self, found: Any, where: str) -> TypeDefinition:
        one = self._mapping(found, where)
        name = self._text(one.get("type"), f"{where}.type")
        metadata = self._mapping(one.get("metadata") or {}, f"{where}.metadata")
        about = self._mapping(metadata.get("relations") or {}, f"{where}.metadata.relations")
        relations = []
        given = self._mapping(one.get("relations") or {}, f"{where}.relations")
        for relation, rewrite in given.items():
            place = f"{where}.metadata.relations.{relation}"
            types = self._mapping(about.get(relation) or {}, place)
            allowed = types.get("directly_related_user_types") or []
            place = f"{place}.directly_related_user_types"
            direct = tuple(
                self._restriction(one, f"{place}[{n}]")
                for n, one in enumerate(self._list(allowed, place))
            )
            read = self._rewrite(rewrite, direct, f"{where}.relations.{relation}")
            relations.append(RelationDefinition(relation, read))
        return TypeDefinition(name, tuple(relations))

    def _restriction(self, found: Any, where: str) -> Restriction:
        one = self._mapping(found, where)
        name = self._text(one.get("type"), f"{where}.type")
        relation, condition = one.get("relation") or "", one.get("condition") or ""
        return Restriction(name, relation, "wildcard" in one, condition)

    def _rewrite(self, found: Any, direct: tuple[Restriction, ...], where: str) -> Rewrite:
        one = self._mapping(found, where)
        kinds = [kind for kind in _REWRITES if kind in one]
        if len(kinds) != 1:
            there = ", ".join(one) or "nothing"
            raise _error(f"there is {there}", where, f"expected one of {', '.join(_REWRITES)}")
        kind = kinds[0]
        inner, place = one[kind], f"{where}.{kind}"
        if kind == "this":
            return Direct(direct)
        body = self._mapping(inner, place)
        if kind == "computedUserset":
            return Computed(self._text(body.get("relation"), f"{place}.relation"))
        if kind == "tupleToUserset":
            tupleset = self._mapping(body.get("tupleset"), f"{place}.tupleset")
            computed = self._mapping(body.get("computedUserset"), f"{place}.computedUserset")
            return FromRelated(
                self._text(computed.get("relation"), f"{place}.computedUserset.relation"),
                self._text(tupleset.get("relation"), f"{place}.tupleset.relation"),
            )
        if kind == "difference":
            base = self._rewrite(body.get("base"), direct, f"{place}.base")
            return Exclusion(base, self._rewrite(body.get("subtract"), direct, f"{place}.subtract"))
        children = self._list(body.get("child"), f"{place}.child")
        parts = tuple(
            self._rewrite(child, direct, f"{place}.child[{n}]") for n, child in enumerate(children)
        )
        if not parts:
            raise _error("there is no child", f"{place}.child", "expected two or more")
        return (Union if kind == "union" else Intersection)(parts)

    def _mapping(self, found: Any, where: str) -> Mapping[str, Any]:
        if not isinstance(found, Mapping):
            raise _error(f"this is {_kind(found)}", self._at(where), "expected an object")
        return found

    def _list(self, found: Any, where: str) -> list[Any]:
        if not isinstance(found, list):
            raise _error(f"this is {_kind(found)}", self._at(where), "expected an array")
        return found

    def _text(self, found: Any, where: str) -> str:
        if not isinstance(found, str) or not found:
            raise _error(f"this is {_kind(found)}", self._at(where), "expected a name")
        return found

    def _at(self, where: str) -> str:
        return f"{self.path}: {where}" if self.path else where


def _kind(found: Any) -> str:
    return "missing" if found is None else f"{json.dumps(found, default=str)[:60]}"
