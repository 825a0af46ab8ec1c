"""The JSON form of a model, as OpenFGA's API takes it, to a `Model`.

Invariant: the DSL and the JSON of one model give equal models. An error says where in the JSON it
is (`type_definitions[2].relations.viewer`): JSON has no lines of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from deltafix.diagnostics import Diagnostic, render
from deltafix.errors import RightsModelError, RightsRefusedError
from deltafix.rights.model import (
    Computed,
    Direct,
    Exclusion,
    FromRelated,
    Intersection,
    Model,
    RelationDefinition,
    Restriction,
    Rewrite,
    TypeDefinition,
    Union,
)

_REWRITES: Final = (
    "this", "computedUserset", "tupleToUserset", "union", "intersection", "difference",
)  # fmt: skip


def model_of_json(found: str | Mapping[str, Any], path: str | None = None) -> Model:
    """Read a model from JSON text, or from what `json.loads` made of it.

    Raises RightsModelError with the place, RightsRefusedError for conditions.
    """
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError) as error:
            raise _error(f"this is no JSON: {error}", path or "$", "") from None
    return _Reader(path).model(found)


def _error(message: str, where: str, valid: str) -> RightsModelError:
    return _made(RightsModelError, message, where, valid)


def _made(kind: type[RightsModelError], message: str, where: str, valid: str) -> RightsModelError:
    one = Diagnostic(kind.code, f"{where}: {message}", None, valid or None)
    return kind(render(one), [one])


class _Reader:
    def __init__(self, path: str | None) -> None:
        self.path = path

    def model(self, found: Any) -> Model:
        top = self._mapping(found, "$")
        if top.get("conditions"):
            raise _made(
                RightsRefusedError, "conditions are not maintained", "$.conditions",
                "write and delete tuples when a condition changes",
            )  # fmt: skip
        if top.get("schema_version") != "1.1":
            message = f"schema_version is {top.get('schema_version')!r}"
            raise _error(message, "$.schema_version", 'expected "1.1"')
        types = self._list(top.get("type_definitions"), "$.type_definitions")
        made = [self._type(one, f"type_definitions[{n}]") for n, one in enumerate(types)]
        return Model(tuple(made), None, self.path)

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
        if one.get("condition"):
            raise _made(
                RightsRefusedError, "a condition on a tuple is not maintained", where,
                "write and delete the tuple when the condition changes",
            )  # fmt: skip
        name = self._text(one.get("type"), f"{where}.type")
        relation = one.get("relation") or ""
        return Restriction(name, relation, "wildcard" in one)

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
