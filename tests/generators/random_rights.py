"""Random authorization models, in OpenFGA's JSON form and as its DSL, and random tuples for them.

Drawn so that most are valid: `from` follows relations that take objects only; relations refer to
those of the same number or below in other objects, to those below in the same object, and to those
below under an exclusion. So each number is a stratum, with cycles of groups and folders within it.
Types are few and objects fewer, so that such cycles are there. Half of the models have conditions,
on every kind of user and on parents, with contexts that leave them open, decide them, or clash with
that of a question.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

TYPES = ("user", "bot", "group", "folder", "document")
IDS = {"user": "abcd", "bot": "xy", "group": "ghi", "folder": "pqr", "document": "mn"}

Json = dict[str, Any]
Triple = tuple[str, ...]
"""And the condition and its context behind it, if it has one."""

CONDITIONS: Json = {
    "under": {
        "name": "under",
        "expression": "x < limit",
        "parameters": {
            "x": {"type_name": "TYPE_NAME_INT"}, "limit": {"type_name": "TYPE_NAME_INT"},
        },
    },
    "flagged": {
        "name": "flagged",
        "expression": "flag",
        "parameters": {"flag": {"type_name": "TYPE_NAME_BOOL"}},
    },
    "either": {
        "name": "either",
        "expression": "x > 2 || flag",
        "parameters": {
            "flag": {"type_name": "TYPE_NAME_BOOL"}, "x": {"type_name": "TYPE_NAME_INT"},
        },
    },
}  # fmt: skip
STORED = {
    "under": ("{}", '{"limit":2}', '{"limit":5}', '{"limit":1,"x":0}', '{"x":3}'),
    "flagged": ("{}", '{"flag":true}', '{"flag":false}'),
    "either": ("{}", '{"x":1}', '{"x":3}'),
}
CONTEXTS: tuple[Json, ...] = (
    {}, {"x": 1}, {"x": 3, "limit": 4}, {"flag": True}, {"flag": False, "x": 4},
    {"flag": False, "x": 0, "limit": 1}, {"flag": True, "x": 4, "limit": 9, "other": [1]},
    {"flag": "maybe", "x": 1, "limit": 2},
)  # fmt: skip
"""Of questions. One has a value that is none."""


def random_model(random: Random) -> Json:
    """A model; not every one is valid."""
    conditional = random.random() < 0.5
    types: list[Json] = [{"type": "user"}, {"type": "bot"}]
    names = {one: [f"{one[0]}{n}" for n in range(random.randint(2, 4))] for one in TYPES[2:]}
    for one in TYPES[2:]:
        relations: Json = {"base": {"this": {}}}
        direct: Json = {"base": {"directly_related_user_types": [{"type": "user"}]}}
        if one != "group" or random.random() < 0.5:
            relations["parent"] = {"this": {}}
            parents = random.sample(TYPES[2:4], random.randint(1, 2))
            allowed = [{"type": p} for p in parents]
            direct["parent"] = {"directly_related_user_types": allowed}
        for level, name in enumerate(names[one]):
            drawn = _Drawn(random, one, names, direct.get("parent"), level)
            relations[name] = drawn.rewrite(2, top=True)
            if drawn.direct:
                direct[name] = {"directly_related_user_types": drawn.direct}
        if conditional:
            for about in direct.values():
                allowed = about["directly_related_user_types"]
                about["directly_related_user_types"] = with_conditions(random, allowed)
        types.append({"type": one, "relations": relations, "metadata": {"relations": direct}})
    more = {"conditions": CONDITIONS} if conditional else {}
    return {"schema_version": "1.1", "type_definitions": types, **more}


def with_conditions(random: Random, allowed: list[Json]) -> list[Json]:
    """Some of these with a condition, or with and without one."""
    found: list[Json] = []
    for one in allowed:
        drawn = random.random()
        if drawn < 0.7:
            found.append(one)
        if drawn > 0.5:
            found.append({**one, "condition": random.choice(sorted(CONDITIONS))})
    return found


class _Drawn:
    def __init__(
        self, random: Random, type_: str, names: dict[str, list[str]], up: Any, level: int
    ) -> None:
        self.random, self.type, self.names, self.up, self.level = random, type_, names, up, level
        self.direct: list[Json] = []

    def rewrite(self, depth: int, *, top: bool = False, below: bool = False) -> Json:
        random = self.random
        kind = random.choice(("union", "union", "intersection", "difference", "leaf", "leaf"))
        if depth == 0 or kind == "leaf":
            return self.leaf(top, below)
        if kind == "difference" and self.level:
            base = self.rewrite(depth - 1, top=top, below=below)
            return {"difference": {"base": base, "subtract": self.rewrite(depth - 1, below=True)}}
        if kind == "difference":
            kind = "union"
        count = random.randint(2, 3)
        parts = [self.rewrite(depth - 1, top=top and n == 0, below=below) for n in range(count)]
        return {kind: {"child": parts}}

    def leaf(self, top: bool, below: bool) -> Json:
        random = self.random
        # The list of types is drawn once, and may come to stand under an exclusion.
        if not self.direct and (top or random.random() < 0.4):
            self.direct = self.restrictions(below)
            return {"this": {}}
        level = self.level - below
        if self.up is not None and random.random() < 0.6:
            parent = random.choice(self.up["directly_related_user_types"])["type"]
            computed = random.choice(self.names[parent][: level + 1])
            up = {"tupleset": {"relation": "parent"}, "computedUserset": {"relation": computed}}
            return {"tupleToUserset": up}
        if self.level:
            return {
                "computedUserset": {"relation": random.choice(self.names[self.type][: self.level])}
            }
        self.direct = self.direct or self.restrictions(below)
        return {"this": {}} if top else {"computedUserset": {"relation": "base"}}

    def restrictions(self, below: bool) -> list[Json]:
        random = self.random
        usersets = [
            {"type": one, "relation": random.choice(self.names[one][: self.level + 1 - below])}
            for one in ("group", "folder")
            if self.names[one][: self.level + 1 - below]
        ]
        known: list[Json] = [
            {"type": "user"}, {"type": "user"}, {"type": "bot"}, {"type": "user", "wildcard": {}},
            {"type": "group"}, *usersets, *usersets[:1],
        ]  # fmt: skip
        chosen = random.sample(known, random.randint(1, 4))
        return [one for n, one in enumerate(chosen) if one not in chosen[:n]]


def dsl_of(model: Json) -> str:
    """The model in OpenFGA's language."""
    lines = ["model", "  schema 1.1"]
    for one in model["type_definitions"]:
        lines.append(f"type {one['type']}")
        direct = one.get("metadata", {}).get("relations", {})
        for n, (name, rewrite) in enumerate(one.get("relations", {}).items()):
            lines += ["  relations"] if n == 0 else []
            allowed = direct.get(name, {}).get("directly_related_user_types", [])
            lines.append(f"    define {name}: {_text(rewrite, allowed, outer=True)}")
    for name, one in model.get("conditions", {}).items():
        given = one["parameters"].items()
        kinds = [f"{p}: {kind['type_name'][len('TYPE_NAME_') :].lower()}" for p, kind in given]
        lines.append(f"condition {name}({', '.join(kinds)}) {{ {one['expression']} }}")
    return "\n".join(lines)


def _text(rewrite: Json, allowed: list[Json], *, outer: bool = False) -> str:
    ((kind, body),) = rewrite.items()
    if kind == "this":
        return f"[{', '.join(map(kind_of, allowed))}]"
    if kind == "computedUserset":
        return str(body["relation"])
    if kind == "tupleToUserset":
        return f"{body['computedUserset']['relation']} from {body['tupleset']['relation']}"
    if kind == "difference":
        parts, word = [body["base"], body["subtract"]], "but not"
    else:
        parts, word = body["child"], {"union": "or", "intersection": "and"}[kind]
    text = f" {word} ".join(_text(part, allowed) for part in parts)
    return text if outer else f"({text})"


def kind_of(allowed: Json) -> str:
    """`user`, `user:*` or `group#member`, `with` a condition."""
    end = f" with {allowed['condition']}" if "condition" in allowed else ""
    if "wildcard" in allowed:
        return f"{allowed['type']}:*{end}"
    return allowed["type"] + (f"#{allowed['relation']}" if "relation" in allowed else "") + end


def every_tuple(model: Json) -> list[Triple]:
    """All tuples over the few objects that the model allows."""
    found = []
    for one in model["type_definitions"]:
        direct = one.get("metadata", {}).get("relations", {})
        for name, about in direct.items():
            for allowed in about["directly_related_user_types"]:
                end = f"#{allowed['relation']}" if "relation" in allowed else ""
                ids = "*" if "wildcard" in allowed else IDS[allowed["type"]]
                for user in ids:
                    for at in IDS[one["type"]]:
                        plain = (f"{allowed['type']}:{user}{end}", name, f"{one['type']}:{at}")
                        condition = allowed.get("condition")
                        if condition is None:
                            found.append(plain)
                        else:
                            found += [(*plain, condition, text) for text in STORED[condition]]
    return found


def below(model: Json) -> dict[tuple[str, str], set[tuple[str, str]]]:
    """The relations that each relation rests on, itself among them.

    A relation of parents only where one with a condition has what is looked for there.
    """
    found: dict[tuple[str, str], set[tuple[str, str]]] = {}
    types = model["type_definitions"]
    known = {(one["type"], name) for one in types for name in one.get("relations", {})}
    for owner in model["type_definitions"]:
        direct = owner.get("metadata", {}).get("relations", {})
        for name, rewrite in owner.get("relations", {}).items():
            about = direct.get(name, {}).get("directly_related_user_types", [])
            near = {(owner["type"], name)}
            near |= {(one["type"], one["relation"]) for one in about if "relation" in one}
            waiting = [rewrite]
            while waiting:
                ((kind, body),) = waiting.pop().items()
                if kind == "computedUserset":
                    near.add((owner["type"], body["relation"]))
                elif kind == "tupleToUserset":
                    parents = direct[body["tupleset"]["relation"]]["directly_related_user_types"]
                    computed = body["computedUserset"]["relation"]
                    led = [one for one in parents if (one["type"], computed) in known]
                    near |= {(one["type"], computed) for one in led}
                    if any("condition" in one for one in led):
                        near.add((owner["type"], body["tupleset"]["relation"]))
                else:
                    waiting += [one for one in body.values() if isinstance(one, dict)]
                    waiting += body.get("child", [])
            found[owner["type"], name] = near
    for _ in range(40):
        for near in found.values():
            near.update(*(found.get(one, set()) for one in list(near)))
    return found


def conditional(model: Json) -> set[tuple[str, str]]:
    """The relations that rest on tuples with conditions, in any part."""
    own = {
        (one["type"], name)
        for one in model["type_definitions"]
        for name, about in one.get("metadata", {}).get("relations", {}).items()
        if any("condition" in allowed for allowed in about["directly_related_user_types"])
    }
    return {one for one, near in below(model).items() if near & own}


def objects() -> list[str]:
    """All objects."""
    return [f"{kind}:{one}" for kind in TYPES for one in IDS[kind]]


def goals(model: Json) -> Iterator[tuple[str, str]]:
    """Each relation at each object."""
    for one in model["type_definitions"]:
        for name in one.get("relations", {}):
            for at in IDS[one["type"]]:
                yield name, f"{one['type']}:{at}"


def negation_depth(model: Json) -> int:
    """How many exclusions may lie inside each other, up to 2; relations are followed."""
    found: dict[tuple[str, str], int] = {}

    def depth(owner: Json, name: str, rewrite: Json) -> int:
        ((kind, body),) = rewrite.items()
        if kind == "this":
            about = owner["metadata"]["relations"][name]["directly_related_user_types"]
            usersets = [(one["type"], one["relation"]) for one in about if "relation" in one]
            return max((found.get(one, 0) for one in usersets), default=0)
        if kind == "computedUserset":
            return found.get((owner["type"], body["relation"]), 0)
        if kind == "tupleToUserset":
            computed = body["computedUserset"]["relation"]
            return max(found.get((one, computed), 0) for one in TYPES)
        if kind == "difference":
            excluded = depth(owner, name, body["subtract"])
            return max(depth(owner, name, body["base"]), min(2, excluded + 1))
        return max(depth(owner, name, child) for child in body["child"])

    for _ in range(40):
        for owner in model["type_definitions"]:
            for name, rewrite in owner.get("relations", {}).items():
                found[owner["type"], name] = depth(owner, name, rewrite)
    return max(found.values(), default=0)
