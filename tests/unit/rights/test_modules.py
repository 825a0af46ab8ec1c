"""Models in several files: what they come to together, and what does not fit.

The modules of the first test are like those of OpenFGA's documentation.
"""

from __future__ import annotations

import pytest

import deltafix.rights
from deltafix.errors import RightsModelError, SourceError
from deltafix.rights.dsl import parse_dsl

FILES = {
    "fga.mod": """schema: '1.2'
contents:
  - core.fga
  - issues/projects.fga
  - issues/tickets.fga
  - wiki.fga
""",
    "core.fga": """module core

type user
type organization
  relations
    define member: [user] or admin
    define admin: [user]
""",
    "issues/projects.fga": """module issues

extend type organization
  relations
    define can_create_project: admin

type project
  relations
    define organization: [organization]
    define viewer: member from organization
""",
    "issues/tickets.fga": """module issues

type ticket
  relations
    define project: [project]
    define owner: [user, user with in_turn]

condition in_turn(now: int, turn: int) { now == turn }
""",
    "wiki.fga": """module wiki

extend type organization
  relations
    define can_create_space: admin

type space
  relations
    define organization: [organization]
    define can_view_pages: member from organization
""",
}
WHOLE = """model
  schema 1.1
type user
type organization
  relations
    define member: [user] or admin
    define admin: [user]
    define can_create_project: admin
    define can_create_space: admin
type project
  relations
    define organization: [organization]
    define viewer: member from organization
type ticket
  relations
    define project: [project]
    define owner: [user, user with in_turn]
type space
  relations
    define organization: [organization]
    define can_view_pages: member from organization
condition in_turn(now: int, turn: int) { now == turn }
"""


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def edit(folder, name, old, new):
    assert old in FILES[name]
    (folder / name).write_text(FILES[name].replace(old, new))


def test_modules_together_are_one_model(folder):
    model = deltafix.rights.read_model(folder / "fga.mod")
    assert model == parse_dsl(WHOLE)
    names = [name for name in FILES if name != "fga.mod"]
    assert deltafix.rights.read_model([folder / name for name in names]) == model
    assert parse_dsl(str(model)) == model
    with deltafix.rights.open(folder / "fga.mod", materialise=["space#can_view_pages"]) as rights:
        rights.write(
            [
                ("user:anne", "admin", "organization:acme"),
                ("organization:acme", "organization", "space:acme"),
                ("user:bo", "owner", "ticket:1", "in_turn", {"turn": 2}),
            ]
        )
        assert rights.check("user:anne", "can_create_space", "organization:acme")
        assert rights.list_objects("user:anne", "can_view_pages", "space") == ["space:acme"]
        assert rights.check("user:bo", "owner", "ticket:1", context={"now": 2})


@pytest.mark.parametrize(
    "case",  # file, edit, place, what is said, the way out
    [
        ("wiki.fga", ("type organization", "type organisation"), "wiki.fga:3:13",
         "unknown type `organisation` is extended", "did you mean `organization`?"),
        ("wiki.fga", ("extend type", "type"), "wiki.fga:3:6",
         "type `organization` is defined in ", "write `extend type organization`"),
        ("wiki.fga", ("can_create_space", "can_create_project"), "wiki.fga:5:12",
         "relation `organization#can_create_project` is defined twice", "`or`"),
        ("wiki.fga", ("type space", "extend type organization\n  relations\n    define b: admin\n"
         "type space"), "wiki.fga:7:13", "is extended twice in this file", "together"),
        ("wiki.fga", ("  relations\n    define can_create_space: admin\n", ""), "wiki.fga:3:13",
         "is extended by nothing", "`define`"),
        ("wiki.fga", ("member from", "membr from"), "wiki.fga:10:28",
         "unknown relation of organization `membr`", "`member`?"),
        ("wiki.fga", ("module wiki", "model schema 1.1"), "wiki.fga:1:1",
         "unexpected `model`", "`module`"),
        ("core.fga", ("type user\n", "condition in_turn(a: bool) { a }\ntype user\n"),
         "issues/tickets.fga:8:11", "condition `in_turn` is defined twice", "another name"),
    ],
)  # fmt: skip
def test_what_does_not_fit_has_its_file_and_place(folder, case):
    name, edits, place, said, way_out = case
    edit(folder, name, *edits)
    with pytest.raises(RightsModelError) as caught:
        deltafix.rights.open(folder / "fga.mod")
    text = str(caught.value).replace(f"{folder}/", "")
    assert f"{place}: error[DF741]" in text
    assert said in text
    assert way_out in text
    assert "^" in text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("wiki.fga", "../wiki.fga", "takes .fga files in the folder or below"),
        ("wiki.fga", "/etc/wiki.fga", "takes .fga files in the folder or below"),
        ("wiki.fga", "wiki.json", "takes .fga files in the folder or below"),
        ("wiki.fga", "core.fga", "names a file twice"),
        ("wiki.fga", "7", "takes .fga files"),
        ("wiki.fga", "none.fga", "cannot read"),
        ("1.2", "1.1", "has `schema: '1.2'`"),
        ("contents", "content", "lists files under `contents`"),
        ("contents:", "contents: {", "this is no YAML"),
    ],
)
def test_a_manifest_that_is_none_is_an_error(folder, old, new, said):
    edit(folder, "fga.mod", old, new)
    with pytest.raises(SourceError) as caught:
        deltafix.rights.open(folder / "fga.mod")
    assert said in str(caught.value)
    assert str(folder) in str(caught.value)
