"""Models as text and as JSON, and every way in which one can be none."""

from __future__ import annotations

import json
from random import Random

import pytest
from tests.generators.random_rights import dsl_of, random_model

import deltafix.rights
from deltafix.errors import RightsModelError
from deltafix.rights.dsl import parse_dsl
from deltafix.rights.model_json import model_of_json
from deltafix.rights.validate import checked

MODEL = """model
  schema 1.1
# who
type user
type group
  relations
    define member: [user, group#member] # nested
type document
  relations
    define parent: [document]
    define blocked: [user]
    define viewer: [user, user:*, group#member] or viewer from parent
    define can_read: (viewer but not blocked) and (viewer or blocked)
"""


def refused(text: str):
    with pytest.raises(RightsModelError) as caught:
        checked(parse_dsl(text, "m.fga"))
    return caught.value


def edited(old: str, new: str) -> str:
    assert old in MODEL
    return MODEL.replace(old, new)


def test_text_and_json_of_a_model_are_equal_and_print_what_they_were():
    for seed in range(50):
        model = random_model(Random(seed))
        text = dsl_of(model)
        read = parse_dsl(text)
        assert read == model_of_json(json.dumps(model))
        assert parse_dsl(str(read)) == read
    assert parse_dsl(str(parse_dsl(MODEL))) == parse_dsl(MODEL)


def test_line_breaks_and_spaces_mean_nothing():
    squeezed = " ".join(line.split(" #")[0] for line in MODEL.splitlines() if line[:1] != "#")
    assert parse_dsl(squeezed) == parse_dsl(MODEL)


ERRORS = [
    # The text, then the place, what is said, and the way out.
    (edited("model\n", ""), (1, 3), "unexpected `schema`", "expected `model`"),
    (edited("1.1", "1.0"), (2, 10), "schema 1.0 is not known", "write `schema 1.1`"),
    (edited("type group", "typ group"), (5, 1), "unexpected `typ`", "did you mean `type`?"),
    (edited("from parent", "form parent"), (12, 59), "unexpected `form`", "mean `from`?"),
    (edited("from parent", "from parant"), (12, 52), "`parant`", "did you mean `parent`?"),
    (edited("viewer from", "viewr from"), (12, 52), "relation of document `viewr`", "`viewer`?"),
    (edited("[user]\n", "[usr]\n"), (11, 22), "unknown type `usr`", "did you mean `user`?"),
    (edited("group#member] or", "group#membr] or"), (12, 35), "`membr`", "`member`?"),
    (edited("or blocked", "or blockd"), (13, 62), "`blockd`", "did you mean `blocked`?"),
    (edited(") and (", " and ("), (13, 46), "`but not` and `and` without", "(a but not b) and c"),
    (edited("but not blocked", "but blocked"), (13, 34), "unexpected `blocked`", "`not`"),
    (edited("[document]", "[user:*]"), (12, 52), "takes `user:*`", "`define parent: [user]`"),
    (edited("[document]", "viewer"), (12, 52), "is `viewer`", "`define parent: [type]`"),
    (edited("[document]", "[document"), (11, 5), "unexpected `define`", "expected `,` or `]`"),
    (edited("blocked: [user]", "viewer: [user]"), (12, 12), "defined twice", "with `or`"),
    (edited("type group", "type user"), (5, 6), "type `user` is defined twice", "one place"),
    (edited("type group", "type self"), (5, 6), "cannot be called `self`", "another name"),
    (edited("[user, group#member] #", "[user, user] #"), (7, 27), "stands twice", "take one out"),
    (edited("[user, group#member] #", "[group#member] #"), (7, 12), "nobody can ever", "[user]"),
    (edited("blocked: [user]", "blocked: can_read"), (11, 12), "a cycle without", "keep one"),
    (edited("blocked: [user]", "blocked: [user] but not blocked"), (11, 12),
     "`document#blocked` excludes itself: document#blocked -> document#blocked", "rest on"),
    (edited("blocked: [user]", "blocked: [user] or blocked"), (11, 12), "a cycle without",
     "keep one"),
    (edited("blocked: [user]", "blocked: [user, document#can_read]"), (13, 23),
     "`document#can_read` excludes itself: document#can_read -> document#blocked", "rest on"),
    (edited("[user]\n", "[user] or [group]\n"), (11, 31), "2 lists of types", "into one"),
    (edited("blocked: [user]", "blocked: {user}"), (11, 21), "unexpected `{`", "a relation"),
    (edited("    define blocked: [user]\n", "    define blocked\n"), (12, 5), "`define`", "`:`"),
    (MODEL + "type", (14, 5), "unexpected the end of the text", "the name of a type"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "said", "way_out"), ERRORS)
def test_an_error_has_its_place_and_a_way_out(text, place, said, way_out):
    error = refused(text)
    found = error.diagnostics[0]
    assert (found.span.line, found.span.column) == place, str(error)
    assert said in found.message
    assert way_out in found.help
    assert f"m.fga:{place[0]}:{place[1]}: error[DF741]" in str(error)
    assert "^" in str(error)


CONDITION = MODEL.replace("user:*", "user:* with on_call") + (
    """condition on_call(at: timestamp, days: list<string>, no: map<int>) {
  // not "}"
  at > timestamp("2024-01-01T00:00:00Z") && "}" in days && days.all(d, no[d] < 2)
}
"""
)
CONDITION_ERRORS = [
    (CONDITION.replace("with on_call", "with on_cal"), (12, 27), "`on_cal`", "`on_call`?"),
    (CONDITION.replace("list<string>", "list<text>"), (14, 45), "unexpected `text`", "`string`"),
    (CONDITION.replace("list<string>", "list"), (14, 44), "unexpected `,`", "`<`"),
    (CONDITION.replace("at > ", "ot > "), (14, 11), "`ot` is no parameter; there is: at", "//"),
    (CONDITION.replace("at > ", "at > > "), (14, 11), "it is no CEL", "the expression is"),
    (CONDITION.replace("days.all", "days.every"), (14, 11), "`every` is no function", ""),
    (CONDITION.replace("at > ", "a.b{c: 1} > "), (14, 11), "messages", ""),
    (CONDITION.replace("days: list", "at: list"), (14, 11), "two parameters `at`", "another name"),
    (CONDITION.replace("days: list", "d-s: list"), (14, 11), "called `d-s`", "letters, digits"),
    (CONDITION.replace("at > ", "(" * 20 + "at" + ")" * 20 + " > "), (14, 11), "too deep", ""),
    (CONDITION.replace("at > ", "at > at || " * 400 + "at > "), (14, 11), "4,096 characters", ""),
    (CONDITION.replace(" }", "").rstrip("}\n"), (14, 68), "nothing closes this brace", "`}`"),
    (CONDITION + CONDITION[CONDITION.index("condition") :], (18, 11), "defined twice", "another"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "said", "way_out"), CONDITION_ERRORS)
def test_an_error_in_a_condition_has_its_place_and_a_way_out(text, place, said, way_out):
    test_an_error_has_its_place_and_a_way_out(text, place, said, way_out)


def test_a_condition_is_read_as_it_stands():
    (condition,) = parse_dsl(CONDITION).conditions
    assert condition.expression.endswith('&& "}" in days && days.all(d, no[d] < 2)')
    assert [str(kind) for _, kind in condition.parameters] == [
        "timestamp", "list<string>", "map<int>",
    ]  # fmt: skip
    assert parse_dsl(str(parse_dsl(CONDITION))) == parse_dsl(CONDITION)
    checked(parse_dsl(CONDITION.replace("1.1", "1.2")))


def test_a_file_of_a_module_alone_is_no_model():
    error = refused("module core\n" + MODEL)
    assert "a file of a module" in error.diagnostics[0].message
    assert "fga.mod" in error.diagnostics[0].help
    error = refused(MODEL + "extend type user")
    assert "unexpected `extend`" in error.diagnostics[0].message


def test_all_errors_of_names_come_at_once():
    error = refused(edited("[user]\n", "[usr]\n").replace("[document]", "[documen]"))
    assert [found.span.line for found in error.diagnostics] == [10, 11]


def test_parentheses_end():
    error = refused(edited("[user]\n", f"{'(' * 5000}[user]{')' * 5000}\n"))
    assert "parentheses inside each other" in str(error)


JSON = json.loads(
    """{"schema_version": "1.1", "type_definitions": [{"type": "user"}, {"type": "doc",
    "relations": {"viewer": {"this": {}}}, "metadata": {"relations": {"viewer":
    {"directly_related_user_types": [{"type": "user"}]}}}}]}"""
)


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (("schema_version",), "1.0", "$.schema_version"),
        (("type_definitions",), {}, "$.type_definitions"),
        (("type_definitions", 1, "type"), 7, "type_definitions[1].type"),
        (
            ("type_definitions", 1, "relations", "viewer"),
            {},
            "type_definitions[1].relations.viewer",
        ),
        (("type_definitions", 1, "relations", "viewer"), {"union": {"child": []}}, "union.child"),
        (("type_definitions", 1, "relations", "viewer"), {"this": {}, "union": {}}, "viewer"),
        (("type_definitions", 1, "relations", "viewer"), {"difference": {}}, "difference.base"),
        (("type_definitions", 1, "relations", "a b"), {"this": {}}, "called `a b`"),
        (("type_definitions", 1, "metadata"), {}, "nobody can be related as `doc#viewer`"),
        (("conditions",), {"c": {}}, "conditions.c.expression"),
        (
            ("conditions",),
            {"c": {"expression": "x", "parameters": {"x": {"type_name": "TYPE_NAME_TEXT"}}}},
            "conditions.c.parameters.x.type_name",
        ),
        (
            ("conditions",),
            {"c": {"expression": "x", "parameters": {"x": {"type_name": "TYPE_NAME_LIST"}}}},
            "conditions.c.parameters.x.generic_types",
        ),
    ],
)
def test_an_error_in_json_says_where_it_is(path, value, where):
    found = json.loads(json.dumps(JSON))
    deltafix.rights.open(found).close()
    inner = found
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(RightsModelError) as caught:
        deltafix.rights.open(found)
    assert where in str(caught.value)


def test_text_that_is_no_json_is_an_error():
    with pytest.raises(RightsModelError, match="this is no JSON"):
        deltafix.rights.open('{"schema_version": ')
