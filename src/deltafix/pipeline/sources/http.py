"""Requests as an input: each brings lines of JSON, and is one epoch (`deltafix pipeline serve`).

Marks: `http/<input>` = how many requests are in; `http/<input>/<number>` = [idempotency key, digest
of the body, epoch], of those of the last `REMEMBERED` that had a key. Invariant: a request is in
exactly if its marks are, since both are one record of the state: one that comes again under its
key, after an answer that was lost or a kill, is found and changes nothing. This source never has
anything to say by itself: who serves requests (`deltafix.web.inlet`) makes portions of them.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

from deltafix.diagnostics import Diagnostic, Span, plural, render
from deltafix.errors import BadRowError, RepeatedRequestError
from deltafix.facts.carets import place_of
from deltafix.pipeline.portion import Portion, State
from deltafix.pipeline.signed import Bad
from deltafix.pipeline.sources.single import Single
from deltafix.pipeline.sources.topic import decode_records

REMEMBERED: Final = 10_000
"""Of so many requests the keys are known."""

_ORIGIN: Final = "request"


class _Known(NamedTuple):
    number: int
    digest: str
    epoch: int


class HttpInput(Single):
    """A source of requests (`source = "http"`).

    Args:
        given: as for `Single`.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._mark = f"http/{self.name}"
        self._known: dict[str, _Known] = {}
        self._read = 0

    def poll(self, state: State, limit: int) -> Portion | None:
        """Nothing: requests come when they come."""
        del state, limit
        return None

    def close(self) -> None:
        """Nothing is held."""

    def find(self, state: State, key: str, body: bytes) -> int | None:
        """The epoch of the request that came under a key; None if it is not in.

        Raises RepeatedRequestError if that one had another body.
        """
        count = state.marks.get(self._mark, 0)
        for number in range(max(self._read, count - REMEMBERED) + 1, count + 1):
            mark = state.marks.get(f"{self._mark}/{number}")
            if mark is not None:
                self._known[mark[0]] = _Known(number, *mark[1:])
        self._read = count
        known = self._known.get(key)
        if known is None or known.number <= count - REMEMBERED:
            self._known.pop(key, None)
            return None
        if known.digest != _digest(body):
            message = (
                f"input {self.name}: the key {key!r} came with another body before, in epoch "
                f"{known.epoch}; a key is of one request, and of its repetitions"
            )
            raise RepeatedRequestError(message, input=self.name, key=key, epoch=known.epoch)
        return known.epoch

    def take(self, state: State, epoch: int, key: str, body: bytes) -> Portion:
        """What a request says, which is to be that epoch; without a `key` nobody can repeat it.

        Raises BadRowError, with the line, where rows may not be set aside; DriftError.
        """
        lines = body.split(b"\n")
        signed = decode_records(self.schema, lines, self.values, _ORIGIN)
        if signed.bad and not self.policy.quarantine:
            raise _refused(signed.bad, lines)
        portion = Portion(self.name, [signed], policy=self.policy)
        if not (portion or key):
            return portion
        marks, number = portion.marks, state.marks.get(self._mark, 0) + 1
        marks[self._mark] = number
        if key:
            marks[f"{self._mark}/{number}"] = [key, _digest(body), epoch]
        if f"{self._mark}/{number - REMEMBERED}" in state.marks:
            marks[f"{self._mark}/{number - REMEMBERED}"] = None
        return portion


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def _refused(bad: list[Bad], lines: list[bytes]) -> BadRowError:
    """The error for the first of the bad rows by its line, drawn with a caret under the value."""
    numbers = [int(bad_row.origin.rpartition(" ")[2]) for bad_row in bad]
    number = min(numbers)
    first = bad[numbers.index(number)]
    line = lines[number - 1].decode("utf-8", "replace").rstrip("\r")
    start, end = place_of(line, _value(first))
    span = Span(start, end, number, start + 1, _ORIGIN)
    drawn = render(Diagnostic("DF663", first.reason, span), "\n" * (number - 1) + line)
    more = f" (and {plural(len(bad) - 1, 'more bad row')})" if len(bad) > 1 else ""
    message = (
        f"line {number}: {first.reason}{more}; nothing of the request was taken; "
        'bad_rows = "quarantine" sets such rows aside'
    )
    return BadRowError(
        message, line=number, column=start + 1, reason=first.reason, row=first.row, drawn=drawn
    )


def _value(bad: Bad) -> str | None:
    """The value that is wrong, as its line has it."""
    if not isinstance(bad.row, dict):
        return None
    mentioned = [value for name, value in bad.row.items() if bad.reason.startswith(f"{name} = ")]
    return str(mentioned[0]) if mentioned and mentioned[0] is not None else None
