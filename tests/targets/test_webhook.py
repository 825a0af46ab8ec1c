"""Webhooks: a server that fails, is late, or loses its answer, and what is never asked again."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.targets.hook import Hook

from deltafix.errors import ConfigError, SinkError
from deltafix.facts.schema import Schema
from deltafix.pipeline.targets import webhook
from deltafix.pipeline.targets.target import EpochRows
from deltafix.pipeline.targets.webhook import Webhook

SCHEMA = Schema.of("view", ["x", "f"], ["symbol", "float"])


@pytest.fixture
def hook(monkeypatch) -> Iterator[Hook]:
    monkeypatch.setattr(webhook, "_PAUSE", 0.01)
    with Hook() as server:
        yield server


def target(hook: Hook, **options) -> Webhook:
    options = {"timeout": 1, "attempts": 4, "rows": 2, "token_env": "", **options}
    return Webhook(f"{hook.url}/view", "name", **options)


def epoch(*rows, number: int = 7) -> EpochRows:
    table = pa.table({"x": [x for x, _ in rows], "f": pa.array([f for _, f in rows], pa.float64())})
    return EpochRows(SCHEMA, number, table, table.slice(0, 0))


def test_an_epoch_is_posted_in_parts_with_keys(hook, monkeypatch) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "secret")
    by = {"token_env": "HOOK_TOKEN"}
    target(hook, **by)(epoch(("a", 1.5), ("b", math.nan), ("c", -math.inf)))
    assert hook.rows("/view") == [
        {"x": "a", "f": 1.5, "sign": 1, "epoch": 7}, {"x": "b", "f": "NaN", "sign": 1, "epoch": 7},
        {"x": "c", "f": "-Infinity", "sign": 1, "epoch": 7},
    ]  # fmt: skip
    assert [key for key, _ in hook.seen] == ["name-7-1", "name-7-2"]
    assert hook.headers["Authorization"] == "Bearer secret"
    assert hook.headers["Content-Type"] == "application/json"


def test_a_log_of_requests_has_no_path(hook, caplog) -> None:
    hook.answer = lambda number: "gone" if number == 0 else 503 if number == 1 else 200
    caplog.set_level("DEBUG", logger="urllib3")
    target(hook)(epoch(("a", 1.0)))
    retried = [one for one in caplog.records if one.levelname == "WARNING"]
    assert "Retrying" in retried[0].getMessage()
    assert len(hook.seen) == 3
    assert "…" in caplog.text
    assert "/view" not in caplog.text


@pytest.mark.parametrize("answer", [429, 500, 503, "lost", "gone", "late"])
def test_a_server_that_fails_is_asked_again_with_the_same_key(hook, answer) -> None:
    hook.answer = lambda number: answer if number in (0, 1, 3) else 200
    target(hook)(epoch(("a", 1.0), ("b", 2.0), ("c", 3.0)))
    assert [key for key, _ in hook.seen] == ["name-7-1"] * 3 + ["name-7-2"] * 2
    assert [row["x"] for row in hook.rows("/view")] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("answer", "asked", "said"),
    [
        (500, 4, "epoch 7: answered 500 Internal Server Error: no"),
        (404, 1, "answered 404 Not Found"),
        (302, 1, "answered 302 Found"),
        ("gone", 4, "the connection broke"),
        ("late", 4, r"no answer within 1 s \(timeout\), asked 4 times; the epoch is kept"),
    ],
)
def test_what_stays_wrong_is_an_error(hook, answer, asked, said) -> None:
    hook.answer = lambda number: answer
    with pytest.raises(SinkError, match=said) as raised:
        target(hook)(epoch(("a", 1.0)))
    assert len(hook.seen) == asked
    assert "\n" not in str(raised.value)


def test_of_an_answer_the_error_has_a_short_line_without_the_secret_of_the_address(hook) -> None:
    hook.answer = lambda number: 404
    hook.says = b"Cannot POST\x1b[31m\r\n /services/T0/SECRETSECRET/view\x00 " + b"x" * 500
    hook.url += "/services/T0/SECRETSECRET"
    with pytest.raises(SinkError, match="answered 404 Not Found: Cannot POST") as raised:
        target(hook)(epoch(("a", 1.0)))
    said = str(raised.value)
    assert said.isprintable()
    assert "SECRET" not in said
    excerpt = said.partition("Not Found: ")[2].partition("; the epoch is kept")[0]
    assert len(excerpt) == 120
    assert "POST [31m /…/T0/…/view xxx" in excerpt


def test_nobody_is_there() -> None:
    hook = Hook()
    hook.url = "http://127.0.0.1:9/services/secret?token=secret"
    where = r"^\[output.view\] http://127.0.0.1:9: epoch 7: no connection \(connection refused\)"
    with pytest.raises(SinkError, match=where) as raised:
        target(hook, attempts=1)(epoch(("a", 1.0)))
    assert "secret" not in "".join(traceback.format_exception(raised.value))
    assert raised.value.values["path"] == "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("ftp://a/secret", "ftp://a"),
        ("nothing", "nothing"),
        ("hooks.slack.com/services/secret", "hooks.slack.com"),
        ("https://me:secret@host/secret", "https://host"),
        ("https://host:port/secret", "https://host:port"),
        ("https://[host/secret", "https://[host"),
        ("https://?secret", "https://"),
    ],
)
def test_an_address_that_is_none_is_shown_without_what_may_be_secret(url, shown) -> None:
    with pytest.raises(ConfigError) as raised:
        Webhook(url, "name", timeout=1, attempts=1, rows=1, token_env="")
    assert f'url = "{shown}" is not valid; it takes http' in str(raised.value)


def test_a_token_that_the_environment_does_not_have(hook) -> None:
    with pytest.raises(ConfigError, match="no such variable"):
        target(hook, **{"token_env": "DELTAFIX_NOBODY_SET_THIS"})
