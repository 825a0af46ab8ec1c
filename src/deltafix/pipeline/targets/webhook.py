"""Epochs to a web server, as JSON by POST: at least once, in order.

    {"output": "can", "epoch": 17, "part": 1, "parts": 1, "rows": [{"row": {…}, "sign": 1}, …]}

Each request has an `Idempotency-Key` of the output, the epoch and the part, the same whenever it is
said again: after an answer that was lost, or a kill. Invariant: the next request is made when this
one was answered with success (2xx); a server that is away, busy or late is asked again, with longer
and longer pauses, and any other answer is an error. `FunctionTarget` notes how far it is. No error
and no line of a log has more of the address than scheme, host and port: Slack's and Teams' have a
secret in the path.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from deltafix.errors import ConfigError, MissingDependencyError, SinkError
from deltafix.pipeline.targets.target import EpochRows, json_text

try:
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.exceptions import NameResolutionError, NewConnectionError, ReadTimeoutError
    from urllib3.util import Retry
except ImportError as _error:
    raise MissingDependencyError(
        "webhooks need the package requests: `pip install 'deltafix[webhook]'`"
    ) from _error

_AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Answers that say that it may go better later."""

_PAUSE = 0.5
"""Half of the seconds to wait before the third attempt; then twice as long, up to a minute."""

_SHOWN = 120
"""Characters of an answer that an error shows."""

_LOGGERS = [logging.getLogger(f"urllib3.{part}") for part in ("connectionpool", "util.retry")]
"""They tell of each request, and of each that is made again, with the path of its address."""

_SECRET = 8
"""Characters from which on a part of the address may be a secret, where an answer repeats it."""

_NEXT = "the epoch is kept, and posted again when the pipeline runs again"


class Webhook:
    """Posts the signed rows of epochs to a URL.

    Args:
        url: `http` or `https`, without a password.
        name: this output, in keys.
        timeout: seconds that the server may take to answer.
        attempts: how often it is asked.
        rows: how many rows a request has; an epoch with more is posted in parts.
        token_env: an environment variable with a token, for `Authorization: Bearer`; or empty.

    Raises ConfigError for a URL or a variable that cannot be.
    """

    def __init__(
        self, url: str, name: str, *, timeout: int, attempts: int, rows: int, token_env: str
    ) -> None:
        if not _is_address(url):
            message = (
                f'url = "{_origin(url)}" is not valid; it takes http://… or https://…, '
                "a secret by token_env"
            )
            raise ConfigError(message, key="url")
        token = os.environ.get(token_env, "") if token_env else ""
        if token_env and not token:
            message = f'token_env = "{token_env}": there is no such variable in the environment'
            raise ConfigError(message, key="token_env", value=token_env)
        self._url = url
        self._origin = _origin(url)
        self._name = name
        self._timeout = timeout
        self._rows = rows
        self._retry = Retry(
            total=attempts - 1, backoff_factor=_PAUSE, backoff_max=60, status_forcelist=_AGAIN,
            allowed_methods=None, raise_on_status=False,
        )  # fmt: skip
        self._token = token

    def __call__(self, rows: EpochRows) -> None:
        """Post an epoch. Raises SinkError."""
        signed = rows.signed.to_pylist()
        parts = max(1, -(-len(signed) // self._rows))
        with self._failing(rows), _hidden(self._url), requests.Session() as session:
            session.auth = self._signed  # and nothing from ~/.netrc in its place
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=self._retry))
            for part in range(parts):
                some = signed[part * self._rows : (part + 1) * self._rows]
                self._post(session, rows, some, part + 1, parts)

    @contextmanager
    def _failing(self, rows: EpochRows) -> Iterator[None]:
        """What the library raises as a SinkError in words: who did not answer, and what is next."""
        try:
            yield
        except requests.RequestException as error:
            times = "once" if not self._retry.total else f"{self._retry.total + 1} times"
            message = f"{self._cause(error)}, asked {times}"
            raise self._failed(rows, message) from None  # the library's message has the whole URL

    def _failed(self, rows: EpochRows, what: str, **values: object) -> SinkError:
        name, epoch = rows.schema.relation, rows.epoch
        message = f"[output.{name}] {self._origin}: epoch {epoch}: {what}; {_NEXT}"
        return SinkError(message, relation=name, epoch=epoch, path=self._origin, **values)

    def _cause(self, error: requests.RequestException) -> str:
        """Why there was no answer."""
        cause = error.args[0] if error.args else error
        reason = getattr(cause, "reason", None) or cause
        text = str(reason).rsplit(": ", 1)[-1]
        if isinstance(reason, NameResolutionError):
            return f"no host {urlsplit(self._url).hostname!r} is known here"
        if isinstance(reason, NewConnectionError):
            return f"no connection ({re.sub(r'^.*] ', '', text).lower()})"
        if isinstance(error, requests.Timeout) or isinstance(reason, ReadTimeoutError):
            return f"no answer within {self._timeout} s (timeout)"
        if isinstance(error, requests.exceptions.SSLError):
            return f"no trust in its certificate ({text.strip('()')})"
        return f"the connection broke ({text.strip('()')})"

    def _signed(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request

    def _post(
        self, session: requests.Session, rows: EpochRows, some: list[dict[str, object]],
        part: int, parts: int,
    ) -> None:  # fmt: skip
        names = rows.schema.names
        message = {
            "output": rows.schema.relation, "epoch": rows.epoch, "part": part, "parts": parts,
            "rows": [
                {"row": dict(zip(names, values, strict=True)), "sign": sign}
                for *values, sign, _ in (row.values() for row in some)
            ],
        }  # fmt: skip
        answer = session.post(
            self._url,
            data=json_text(message).encode(),
            headers={
                "Content-Type": "application/json",
                "Idempotency-Key": f"{self._name}-{rows.epoch}-{part}",
            },
            timeout=self._timeout,
            allow_redirects=False,  # a redirected POST may become a GET
        )
        if not 200 <= answer.status_code < 300:
            status, body = answer.status_code, self._excerpt(answer.text)
            what = f"answered {status} {self._excerpt(answer.reason)}{f': {body}' if body else ''}"
            raise self._failed(rows, what, status=status)

    def _excerpt(self, text: str) -> str:
        """The start of what a server said, on one line, without what it repeats of the address."""
        for part in re.split(r"[/?&=#]", self._url.partition("://")[2])[1:]:
            if len(part) >= _SECRET:
                text = text.replace(part, "…")
        text = "".join(character if character.isprintable() else " " for character in text)
        return " ".join(text.split())[:_SHOWN]


@contextmanager
def _hidden(url: str) -> Iterator[None]:
    """Have the log of requests say nothing of the path of an address."""
    path = url.removeprefix(_origin(url))

    def hide(record: logging.LogRecord) -> bool:
        given = record.args if path.strip("/") and isinstance(record.args, tuple) else ()
        if given:
            record.args = tuple("…" if part == path else part for part in given)
        return True

    for logger in _LOGGERS:
        logger.addFilter(hide)
    try:
        yield
    finally:
        for logger in _LOGGERS:
            logger.removeFilter(hide)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  raises for what is no number
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username


def _origin(url: str) -> str:
    """What may be shown of an address, valid or not: up to its path, without a password."""
    scheme, separator, rest = url.rpartition("://")
    return scheme + separator + re.split(r"[/?#]", rest.rpartition("@")[2])[0]
