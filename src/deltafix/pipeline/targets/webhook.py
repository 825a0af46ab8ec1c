"""Epochs to a web server, as JSON by POST: at least once, in order.

    {"output": "can", "epoch": 17, "part": 1, "parts": 1, "rows": [{"row": {…}, "sign": 1}, …]}

Each request has an `Idempotency-Key` of the output, the epoch and the part, the same whenever it is
said again: after an answer that was lost, or a kill. Invariant: the next request is made when this
one was answered with success (2xx); a server that is away, busy or late is asked again, with longer
and longer pauses, and any other answer is an error. `FunctionTarget` notes how far it is.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from deltafix.errors import ConfigError, MissingDependencyError, SinkError
from deltafix.pipeline.targets.target import EpochRows, failing, json_text

try:
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry
except ImportError as _error:
    raise MissingDependencyError(
        "webhooks need the package requests: `pip install 'deltafix[webhook]'`"
    ) from _error

__all__ = ["Webhook"]

_AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Answers that say that it may go better later."""

_PAUSE = 0.5
"""Half of the seconds to wait before the third attempt; then twice as long, up to a minute."""

_SHOWN = 300


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
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            message = (
                f'url = "{parts._replace(netloc=parts.hostname or "").geturl()}" is not valid; it '
                "takes http://… or https://…, a secret by token_env"
            )
            raise ConfigError(message, key="url")
        token = os.environ.get(token_env, "") if token_env else ""
        if token_env and not token:
            message = f'token_env = "{token_env}": there is no such variable in the environment'
            raise ConfigError(message, key="token_env", value=token_env)
        self._url = url
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
        with failing(self._url, requests.RequestException), requests.Session() as session:
            session.auth = self._signed  # and nothing from ~/.netrc in its place
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=self._retry))
            for part in range(parts):
                some = signed[part * self._rows : (part + 1) * self._rows]
                self._post(session, rows, some, part + 1, parts)

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
            said = " ".join(answer.text.split())[:_SHOWN]
            raise SinkError(
                f"{self._url}: epoch {rows.epoch}: answered {answer.status_code} {answer.reason}"
                + (f": {said}" if said else ""),
                epoch=rows.epoch, status=answer.status_code,
            )  # fmt: skip
