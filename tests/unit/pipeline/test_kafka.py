"""Records of a topic without a broker: what their values say, and offsets that go on."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from tests.servers.topics import LocalMemoryTopic, MemorySpark, MemoryTopic, Records
from tests.support.amount import cases

import deltafix
from deltafix.errors import DriftError, OffsetError
from deltafix.facts.schema import Schema
from deltafix.pipeline.config import schemas_of
from deltafix.pipeline.policy import Policy, lowest
from deltafix.pipeline.portion import Portion
from deltafix.pipeline.sources.topic import decode_records, share
from deltafix.sql.program import program_of

EXAMPLES = cases(100)
EDGE = Schema.of("edge", ["x", "n"], ["symbol", "number"])
OPTIONS: dict[str, Any] = {
    "servers": "127.0.0.1:9092", "topic": "edges", "timeout": 1, "lost": "fail",
    "options": {}, "columns": None, "duplicates": "",
    "envelope": "sign", "sign": "sign", "version": "",
}  # fmt: skip


def rows(signed) -> list:
    return list(zip(*(one.to_pylist() for one in signed.table.columns), strict=True))


def test_records_with_a_sign() -> None:
    values = ['{"x": "a", "n": 1, "sign": 1}', None, "{", '{"x": "b", "n": 2, "sign": "-"}']
    signed = decode_records(EDGE, values, OPTIONS, "topic edges")
    assert rows(signed) == [("a", 1, 1), ("b", 2, -1)]
    assert [bad.origin for bad in signed.bad] == ["topic edges, line 3"]
    assert rows(decode_records(EDGE, [None], OPTIONS, "topic edges")) == []
    with pytest.raises(DriftError, match="has 'm' beside"):
        decode_records(EDGE, ['{"x": "a", "m": 1, "sign": 1}'], OPTIONS, "topic edges")


TYPES = {
    "rules": schemas_of(deltafix.Program.parse(
        ".decl t(a: symbol, b: number, c: float, d: unsigned)\n.input t\n"
    ))["t"],
    "sql": schemas_of(program_of(
        "CREATE TABLE t (a INTEGER NOT NULL, b TEXT, c DECIMAL(9, 2), d DATE, e TIMESTAMP, "
        "f DOUBLE, g BOOLEAN, h TEXT[], i STRUCT(p INTEGER, q TEXT), j BLOB, k TIMESTAMPTZ, "
        "l BIGINT[], m SMALLINT, n DATE[])"
    ))["t"],
}  # fmt: skip
VALUES: list[Any] = [
    None, 0, 1, -1, 5, 2**31, 2**53 + 1, 2**63, 2**64, 0.5, -0.0, 1.0, 1e300, True, False, "", "5",
    "x", "0.5", "true", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00+01:00", "nan",
    "\\x00ff", [], [1], ["a"], [None], [1, "a"], [[1]], [True], [0.5], ["2026-01-01"], {},
    {"p": 1, "q": "a"}, {"p": None}, {"z": 1}, {"p": 1.5, "q": 2}, "[1]", '["a"]', '{"p": 1}',
    "__debezium_unavailable_value", ["__debezium_unavailable_value"],
]  # fmt: skip
GOOD = {"rules": ("s", 3, "1.5", 7), "sql": (1, "t", "1.5", "2026-01-01")}


def draw_records(rng: Random, language: str, envelope: str) -> list[str]:
    """Records of a relation with some values of any kind, left out, or named in other capitals."""
    names, some = TYPES[language].names, rng.sample(VALUES, rng.randrange(1, 8))
    records = []
    for _ in range(rng.randrange(1, 6)):
        row = dict(zip(names, GOOD[language], strict=False))
        row = {name: row.get(name) for name in names}
        row |= {name: rng.choice(some) for name in names if rng.random() < rng.choice((0.1, 0.5))}
        if language == "sql" and rng.random() < 0.4:
            row = {rng.choice((name, name.upper())): value for name, value in row.items()}
        if envelope == "sign" and rng.random() < 0.4:
            row.pop(rng.choice([*row]))
        said = {**row, "sign": rng.choice("+-")}
        if envelope == "debezium":
            op = rng.choice("crud")
            before = {name: rng.choice(some) for name in names} if rng.random() < 0.5 else row
            said = {"op": op, "after": None if op == "d" else row}
            said["before"] = before if op in "ud" else None
        records.append(json.dumps(said))
    return records


@pytest.mark.parametrize("envelope", ["sign", "debezium"])
@pytest.mark.parametrize("language", TYPES)
def test_law_records_are_judged_as_if_each_came_alone(language, envelope, judged) -> None:
    schema = TYPES[language]
    options = {**OPTIONS, "envelope": envelope, "duplicates": "ignore"}

    def decoded(records: list[str]) -> tuple[Counter[Any], Counter[Any]]:
        signed = decode_records(schema, records, options, "topic")
        reasons = (one.reason.replace("'", "") for one in signed.bad)  # 5 stands beside texts
        return Counter(map(repr, rows(signed))), Counter(reasons)

    for seed in range(EXAMPLES):
        records = draw_records(Random(f"{language} {envelope} {seed}"), language, envelope)
        alone = [decoded([one]) for one in records]
        wanted = tuple(sum(side, Counter()) for side in zip(*alone, strict=True))
        assert decoded(records) == wanted
        assert "__debezium" not in str(wanted[0]) or envelope == "sign"
        judged["records judged alone and together"] += len(records)


def test_an_envelope_whose_table_lost_a_column_stops_its_input() -> None:
    full, less = ({"op": "c", "after": one} for one in ({"x": "a", "n": 1}, {"x": "b"}))
    options = {**OPTIONS, "envelope": "debezium"}
    for records in ([less], [full, less], [less, full]):
        with pytest.raises(DriftError, match="lacks 'n'"):
            decode_records(EDGE, list(map(json.dumps, records)), options, "topic edges")


@pytest.mark.parametrize(
    ("text", "reason"),
    [('{"x": "a", "sign": 1}', "n is missing"), ('{"x": "a", "n": 1}', "sign = None is no sign")],
)
def test_what_a_record_leaves_out_is_missing(text, reason) -> None:
    good = '{"x": "a", "n": 1, "sign": 1}'
    for records in ([text], [good, text], [text, good]):
        (bad,) = decode_records(EDGE, records, OPTIONS, "topic edges").bad
        assert bad.reason.startswith(reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"x": "\\ud800", "n": 1, "sign": 1}', "it is no JSON: a lone surrogate"),
        (b'{"\\ud800": 1, "n": 1, "sign": 1}', "it is no JSON: a lone surrogate"),
        ("[" * 1_000_000, "it is n"),  # no JSON, or nested, as Python has it
        ("[" * 900 + "]" * 900, "it is nested more than 100 deep"),
        ('{"x": ' * 102 + "1" + "}" * 102, "it is nested more than 100 deep"),
        (b"\xff", "it is no JSON: 'utf-8' codec can't decode byte 0xff"),
        ('{"x": "a", "n": ' + "9" * 5000 + "}", "it is no JSON: Exceeds the limit"),
        ('{"x": "a", "n": ' + "9" * 50 + ', "sign": 1}', f"n = '{'9' * 50}' is no number"),
        ('{"x": "a", "n": 1, "sign": 0}', "sign = '0' is no sign"),
        ("7", "it is no JSON object"),
        ('{"x": 5, "n": 1, "sign": 1}', "x = 5 is no symbol"),
        ('{"x": {"a": 1}, "n": 1, "sign": 1}', "x = {'a': 1} is no symbol"),
        ('{"x": "a", "n": 1.5, "sign": 1}', "n = 1.5 is no number"),
        ('{"x": "a", "n": true, "sign": 1}', "n = True is no number"),
        ('{"x": "a", "n": 1e999, "sign": 1}', "n = inf is no number"),
    ],
)
def test_a_poisoned_record_is_one_bad_row_with_its_place(text, reason) -> None:
    good = '{"x": "a", "n": 1, "sign": 1}'
    signed = decode_records(EDGE, [None, good, "", text, good], OPTIONS, "topic edges")
    assert rows(signed) == [("a", 1, 1)] * 2
    (bad,) = signed.bad
    alone = decode_records(EDGE, [text], OPTIONS, "topic edges")  # by itself it is as bad
    assert [one.reason for one in alone.bad] == [bad.reason]
    assert bad.reason.startswith(reason)
    assert bad.origin in ("topic edges, line 4", "topic edges, message 4")


def test_records_with_envelopes() -> None:
    after = {"op": "c", "before": None, "after": {"x": "a", "n": 1}}
    values = [json.dumps(after), None, json.dumps({**after, "op": "d", "before": after["after"]})]
    signed = decode_records(EDGE, values, {**OPTIONS, "envelope": "debezium"}, "topic edges")
    assert rows(signed) == [("a", 1, 1), ("a", 1, -1)]
    assert signed.bad == []


@pytest.mark.parametrize("x", [5, True, {"a": 1}, ["a"], 1.5])
def test_an_envelope_of_values_of_another_kind_is_one_bad_row(x) -> None:
    options = {**OPTIONS, "envelope": "debezium"}
    good = {"op": "c", "after": {"x": "a", "n": 1}}
    poison = {"op": "u", "before": {"x": "a", "n": 1}, "after": {"x": x, "n": 1}}
    for values in ([poison], [good, poison, good]):
        signed = decode_records(EDGE, [json.dumps(one) for one in values], options, "topic edges")
        assert rows(signed) == [("a", 1, 1)] * (len(values) - 1)
        assert [bad.reason for bad in signed.bad] == [f"x = {x!r} is no symbol"]


def test_envelopes_take_a_row_by_the_key_of_their_message() -> None:
    keyed = {**OPTIONS, "envelope": "debezium", "key": ["x"], "sequence_by": ["lsn"]}
    gone = {"op": "d", "before": None, "after": None, "source": {"lsn": 7}}
    moved = {"op": "u", "before": {"x": "b"}, "after": {"x": "c", "n": 3}, "lsn": 8}
    plain = {"op": "u", "before": None, "after": {"x": "d", "n": 4}, "lsn": 9}
    values = [json.dumps(one) for one in (gone, moved, plain, gone, {**gone, "source": None})]
    keys = ['{"payload": {"x": "a"}}', '{"x": "c"}', None, '{"y": 1}', '{"x": "a"}']
    signed = decode_records(EDGE, values, keyed, "topic edges", keys)
    assert rows(signed) == [("a", 0, -1, 7), ("b", 0, -1, 8), ("c", 3, 1, 8), ("d", 4, 1, 9)]
    assert [bad.reason for bad in signed.bad] == [
        "lsn of the envelope is missing", "op d without 'before', and no key of the message has x",
    ]  # fmt: skip


class State:
    def __init__(self, **marks: Any) -> None:
        self.marks = marks


def told(*numbers: int) -> list[str | None]:
    return [json.dumps({"x": "a", "n": n, "sign": 1}) for n in numbers]


Either = MemoryTopic | LocalMemoryTopic


@pytest.fixture(params=["spark", "local"])
def topic_of(request):
    def made(there: dict[str, Records], **options: Any) -> Either:
        given = ("edge", EDGE, {**OPTIONS, **options}, Policy("apply", "count"))
        topic: Either
        if request.param == "spark":
            topic = MemoryTopic(MemorySpark(Random("tasks")), *given)
        else:
            topic = LocalMemoryTopic(*given)
            topic.rng = Random("partitions")
        topic.there = there
        return topic

    return made


def numbers(portion: Portion) -> list[int]:
    """What a portion says, as tasks give it."""
    if portion.settle is not None:
        portion.settle()
    return [n for signed in portion.signed for n in signed.table.column("n").to_pylist()]


def test_oracle_every_record_is_taken_once_in_bounded_portions(topic_of) -> None:
    rng = Random("offsets")
    topic = topic_of({"0": (5, []), "1": (0, []), "10": (3, [])})
    marks: dict[str, Any] = {}
    said: dict[str, list[int]] = {name: [] for name in topic.there}
    taken: list[int] = []
    for number in range(200):
        name = rng.choice(["0", "1", "10"])
        topic.there[name][1].extend(told(number))
        said[name].append(number)
        if rng.random() < 0.3:
            limit, left = rng.randrange(1, 9), number + 1 - len(taken)
            portion = topic.poll(State(**marks), limit)
            assert portion is not None
            assert portion.more == (limit < left)
            taken += numbers(portion)
            assert portion.rows == min(limit, left)
            marks |= portion.marks
    while (portion := topic.poll(State(**marks), 50)) is not None:
        taken += numbers(portion)
        marks |= portion.marks
    assert sorted(taken) == list(range(200))
    for some in said.values():  # the order of a partition is kept
        assert [one for one in taken if one in some] == some
    topic.close()


def test_offsets_that_are_gone_or_of_another_topic(topic_of) -> None:
    topic = topic_of({"0": (4, told(1, 2)), "1": (0, [])})
    with pytest.raises(OffsetError, match="partition 0: offsets 3 to 3 are gone"):
        topic.poll(State(**{"kafka/edge": {"0": 3}}), 9)
    with pytest.raises(OffsetError, match="partition 0: it ends before offset 7"):
        topic.poll(State(**{"kafka/edge": {"0": 7}}), 9)
    with pytest.raises(OffsetError, match="partition 2: it ends before offset 1"):
        topic.poll(State(**{"kafka/edge": {"0": 4, "2": 1}}), 9)
    skipping = topic_of(topic.there, lost="skip")
    portion = skipping.poll(State(**{"kafka/edge": {"0": 3}}), 9)
    assert portion is not None
    assert portion.marks == {"kafka/edge": {"0": 6, "1": 0}}
    assert numbers(portion) == [1, 2]


def test_a_topic_that_was_made_anew_and_has_grown_is_refused(topic_of) -> None:
    topic = topic_of({"0": (0, told(1, 2))})
    topic.identity = "first"
    portion = topic.poll(State(), 1)
    assert portion is not None
    assert portion.marks == {"kafka/edge": {"0": 1}, "kafka/edge/topic": "first"}
    marks = dict(portion.marks)
    portion = topic.poll(State(**marks), 9)
    assert portion is not None
    assert portion.marks == {"kafka/edge": {"0": 2}}  # it is known
    topic.there["0"][1].extend(told(3, 4, 5))
    topic.identity = ""  # a broker that tells none
    assert topic.poll(State(**marks), 9) is not None
    topic.identity = "second"
    with pytest.raises(OffsetError, match="topic edges: it was made anew since it was read"):
        topic.poll(State(**marks), 9)


def test_a_partition_without_rows_holds_tombstones_back() -> None:
    assert lowest({"": 7}) == 7
    assert lowest({"0": 7, "1": 5}) == 5
    assert lowest({"0": 7, "1": None}) is None
    assert lowest({}) is None


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10, 100])
def test_a_share_of_each_partition(limit) -> None:
    waiting = {"0": 9, "1": 0, "2": 2, "10": 1}
    taken = share(waiting, limit)
    assert sum(taken.values()) == min(limit, 12)
    assert all(0 <= taken[name] <= waiting[name] for name in waiting)
    full = [name for name in waiting if taken[name] < waiting[name]]
    if full:  # nobody who waits has less than another by more than the rest of a division
        assert max(taken.values()) - min(taken[name] for name in full) <= 1
