"""Models in the manner of OpenFGA's modelling guides and of Zanzibar's paper, with tuples.

Each is one guide's idea in words of our own, as JSON (what the judge reads; the DSL is printed from
it), with a few answers worked out by hand: `yes` and `no`. Not here: what must hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Triple = tuple[str, str, str]


@dataclass(frozen=True)
class Guide:
    """A model, its tuples, and answers: each a text `user relation object`."""

    name: str
    model: Json
    tuples: tuple[Triple, ...]
    yes: tuple[Triple, ...]
    no: tuple[Triple, ...]


def _guide(name: str, types: dict[str, dict[str, Any]], tuples: str, yes: str, no: str) -> Guide:
    found = []
    for kind, relations in types.items():
        one: Json = {"type": kind}
        if relations:
            one["relations"] = {name: _rewrite(told) for name, told in relations.items()}
            one["metadata"] = {"relations": {
                name: {"directly_related_user_types": [_allowed(a) for a in _direct(told)]}
                for name, told in relations.items()
            }}  # fmt: skip
        found.append(one)
    model = {"schema_version": "1.1", "type_definitions": found}
    return Guide(name, model, _triples(tuples), _triples(yes), _triples(no))


def _triples(text: str) -> tuple[Triple, ...]:
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        user, relation, at = line.split()
        found.append((user, relation, at))
    return tuple(found)


def _rewrite(told: Any) -> Json:
    if isinstance(told, list):
        return {"this": {}}
    if isinstance(told, str):
        relation, found, up = told.partition(" from ")
        if not found:
            return {"computedUserset": {"relation": told}}
        return {"tupleToUserset": {"tupleset": {"relation": up},
                                   "computedUserset": {"relation": relation}}}  # fmt: skip
    word, *parts = told
    children = [_rewrite(one) for one in parts]
    if word == "but not":
        return {"difference": {"base": children[0], "subtract": children[1]}}
    return {{"or": "union", "and": "intersection"}[word]: {"child": children}}


def _direct(told: Any) -> list[str]:
    if isinstance(told, list):
        return told
    return [] if isinstance(told, str) else [a for part in told[1:] for a in _direct(part)]


def _allowed(text: str) -> Json:
    kind, _, relation = text.partition("#")
    if kind.endswith(":*"):
        return {"type": kind[:-2], "wildcard": {}}
    return {"type": kind, **({"relation": relation} if relation else {})}


GUIDES = (
    _guide(
        "direct access",
        {"user": {}, "team": {}, "report": {"owner": ["user"], "reader": ["user", "team"]}},
        """
        user:una owner report:q1
        team:board reader report:q1
        user:vic reader report:q1
        """,
        "user:una owner report:q1\nteam:board reader report:q1",
        "user:una reader report:q1\nuser:vic owner report:q1\nuser:vic reader report:q2",
    ),
    _guide(
        "user groups",
        {
            "user": {},
            "team": {"member": ["user", "team#member"]},
            "report": {"editor": ["user", "team#member"]},
        },
        """
        user:una member team:db
        user:vic member team:web
        team:db#member member team:all
        team:web#member member team:all
        team:all#member member team:db
        team:all#member editor report:q1
        """,
        """
        user:una editor report:q1
        user:vic editor report:q1
        user:vic member team:db
        team:web#member editor report:q1
        """,
        "user:una member team:web\nuser:xi editor report:q1",
    ),
    _guide(
        "roles and permissions",
        {
            "user": {},
            "trip": {
                "owner": ["user"],
                "guest": ["user"],
                "can_book": "owner",
                "can_see": ("or", "owner", "guest"),
            },
        },
        "user:una owner trip:rome\nuser:vic guest trip:rome",
        "user:una can_book trip:rome\nuser:una can_see trip:rome\nuser:vic can_see trip:rome",
        "user:vic can_book trip:rome\nuser:xi can_see trip:rome",
    ),
    _guide(
        "parent and child",
        {
            "user": {},
            "space": {"up": ["space"], "admin": ("or", ["user"], "admin from up")},
            "page": {
                "space": ["space"],
                "editor": ("or", ["user"], "admin from space"),
                "reader": ("or", ["user"], "editor"),
            },
        },
        """
        space:root up space:eng
        space:eng up space:db
        space:db up space:root
        user:una admin space:root
        user:vic admin space:db
        space:db space page:plan
        user:xi reader page:plan
        """,
        """
        user:una editor page:plan
        user:una reader page:plan
        user:vic admin space:eng
        user:xi reader page:plan
        """,
        "user:xi editor page:plan\nuser:yan reader page:plan",
    ),
    _guide(
        "block lists",
        {
            "user": {},
            "team": {"member": ["user"]},
            "report": {
                "blocked": ["user", "team#member"],
                "shared": ["user", "team#member"],
                "editor": ("but not", "shared", "blocked"),
            },
        },
        """
        user:una member team:db
        user:vic member team:db
        user:vic member team:gone
        team:db#member shared report:q1
        team:gone#member blocked report:q1
        user:xi shared report:q1
        user:xi blocked report:q1
        """,
        "user:una editor report:q1",
        "user:vic editor report:q1\nuser:xi editor report:q1",
    ),
    _guide(
        "public access",
        {
            "user": {},
            "bot": {},
            "report": {
                "viewer": ["user", "user:*"],
                "banned": ["user"],
                "can_view": ("but not", "viewer", "banned"),
            },
        },
        "user:* viewer report:open\nuser:vic banned report:open\nuser:una viewer report:closed",
        "user:anyone can_view report:open\nuser:una can_view report:closed",
        "user:vic can_view report:open\nbot:b can_view report:open\nuser:vic viewer report:closed",
    ),
    _guide(
        "multiple restrictions",
        {
            "user": {},
            "company": {"member": ["user"]},
            "report": {
                "company": ["company"],
                "writer": ["user"],
                "can_delete": ("and", "writer", "member from company"),
            },
        },
        """
        user:una member company:a
        user:una writer report:q1
        user:vic writer report:q1
        user:xi member company:a
        company:a company report:q1
        """,
        "user:una can_delete report:q1",
        "user:vic can_delete report:q1\nuser:xi can_delete report:q1",
    ),
    _guide(
        "custom roles",
        {
            "user": {},
            "role": {"assignee": ["user", "role#assignee"]},
            "board": {"can_post": ["role#assignee"], "can_pin": ["role#assignee"]},
        },
        """
        user:una assignee role:lead
        user:vic assignee role:writer
        role:lead#assignee assignee role:writer
        role:writer#assignee can_post board:news
        role:lead#assignee can_pin board:news
        """,
        "user:una can_post board:news\nuser:una can_pin board:news\nuser:vic can_post board:news",
        "user:vic can_pin board:news\nuser:xi can_post board:news",
    ),
    _guide(
        "roles of one resource",
        {
            "user": {},
            "role": {"assignee": ["user"]},
            "scope": {"role": ["role"], "project": ["project"],
                      "holder": ("and", "assignee from role", "member from project")},
            "project": {"member": ["user"], "editor": ["scope#holder"]},
        },
        """
        user:una assignee role:editor
        user:vic assignee role:editor
        user:una member project:p
        user:vic member project:q
        role:editor role scope:p-editors
        project:p project scope:p-editors
        scope:p-editors#holder editor project:p
        """,
        "user:una editor project:p",
        "user:vic editor project:p\nuser:una editor project:q",
    ),
    _guide(
        "super administrators",
        {
            "user": {},
            "system": {"root": ["user"]},
            "company": {"system": ["system"], "admin": ("or", ["user"], "root from system")},
            "project": {"company": ["company"],
                        "can_close": ("or", ["user"], "admin from company")},
        },
        """
        user:una root system:one
        system:one system company:a
        company:a company project:p
        user:vic admin company:a
        """,
        "user:una can_close project:p\nuser:vic can_close project:p",
        "user:xi can_close project:p\nuser:vic can_close project:q",
    ),
    _guide(
        "objects that are related to objects",
        {
            "user": {},
            "plan": {"subscriber": ["company"]},
            "company": {"member": ["user"]},
            "feature": {"plan": ["plan"], "has": "subscriber from plan"},
        },
        """
        company:a subscriber plan:gold
        plan:gold plan feature:sso
        user:una member company:a
        """,
        "company:a has feature:sso",
        "user:una has feature:sso\ncompany:b has feature:sso",
    ),
    _guide(
        "Zanzibar's concentric relations, with a folder",
        {
            "user": {},
            "group": {"member": ["user", "group#member"]},
            "folder": {"parent": ["folder"],
                       "viewer": ("or", ["user", "user:*", "group#member"], "viewer from parent")},
            "doc": {
                "parent": ["folder"],
                "owner": ["user", "group#member"],
                "editor": ("or", ["user", "group#member"], "owner"),
                "viewer": ("or", ["user", "group#member"], "editor", "viewer from parent"),
            },
        },
        """
        user:una owner doc:readme
        user:vic member group:eng
        group:eng#member viewer doc:readme
        folder:a parent doc:readme
        folder:b parent folder:a
        group:all#member viewer folder:b
        user:xi member group:all
        """,
        """
        user:una editor doc:readme
        user:una viewer doc:readme
        user:vic viewer doc:readme
        user:xi viewer doc:readme
        group:all#member viewer doc:readme
        """,
        "user:vic editor doc:readme\nuser:xi owner doc:readme",
    ),
    _guide(
        "an exclusion under an intersection under a union",
        {
            "user": {},
            "unit": {"member": ["user"], "guest": ["user"]},
            "case": {
                "unit": ["unit"],
                "sealed": ["user:*", "user"],
                "officer": ["user"],
                "open": ("or", "officer",
                         ("and", "member from unit",
                          ("but not", "member from unit", "guest from unit"))),
                "can_read": ("but not", "open", ("but not", "sealed", "officer")),
            },
        },
        """
        user:una member unit:u
        user:vic member unit:u
        user:vic guest unit:u
        user:xi officer case:c
        unit:u unit case:c
        unit:u unit case:d
        user:* sealed case:d
        user:xi officer case:d
        """,
        "user:una can_read case:c\nuser:xi can_read case:c\nuser:xi can_read case:d",
        "user:vic can_read case:c\nuser:una can_read case:d\nuser:vic open case:c",
    ),
)  # fmt: skip
