"""Put a text on the pull request of a workflow's run as one comment, which the next run replaces.

    comment.py FILE         the text; its first line is a mark by which the comment is found again

Invariant: the text is in the job's summary in any case; on the pull request it is once, whatever
was there before, and no comment of somebody else is touched. Where there is no pull request, or the
token may not write (that of a fork may not), the summary is all, and the run is no failure.
Standard library only: it runs in other people's jobs, beside what is checked out there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

_LONGEST = 65_000  # letters; the API refuses more than 65,536
_PAGE = 100
_MAY_NOT = (401, 403, 404)
_OF_THE_JOB = "github-actions[bot]"  # whose comments are made with a job's own token


class Host:
    """The API of a code host, asked as the token's owner."""

    def __init__(self, url: str, repository: str, token: str) -> None:
        self._repository = f"{url.rstrip('/')}/repos/{repository}"
        self._user = f"{url.rstrip('/')}/user"
        self._token = token

    def _ask(self, method: str, url: str, body: str | None = None) -> Any:
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self._token}",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "deltafix",
        }
        data = None if body is None else json.dumps({"body": body}).encode()
        request = Request(url, data, headers, method=method)  # noqa: S310  the host's own API
        with urlopen(request, timeout=60) as answer:  # noqa: S310  likewise
            text = answer.read()
        return json.loads(text) if text else None

    def login(self) -> str:
        """Who the token's owner is; a job's own token may not ask."""
        try:
            return str(self._ask("GET", self._user)["login"])
        except HTTPError as error:
            if error.code not in _MAY_NOT:
                raise
            return _OF_THE_JOB

    def comments(self, number: int) -> Iterator[dict[str, Any]]:
        """The comments of a pull request, oldest first."""
        page = 1
        while True:
            url = f"{self._repository}/issues/{number}/comments?per_page={_PAGE}&page={page}"
            found = self._ask("GET", url)
            yield from found
            if len(found) < _PAGE:
                return
            page += 1

    def put(self, number: int, text: str) -> str:
        """Have the text there once; says what was done."""
        mark = text.partition("\n")[0]
        login = self.login()
        ours = [
            one
            for one in self.comments(number)
            if one["user"]["login"] == login and one["body"].startswith(mark)
        ]
        if not ours:
            self._ask("POST", f"{self._repository}/issues/{number}/comments", text)
            return "commented"
        first, *more = ours
        for one in more:  # two runs at once made them
            self._ask("DELETE", f"{self._repository}/issues/comments/{one['id']}")
        if first["body"] == text:
            return "the comment says so already"
        self._ask("PATCH", f"{self._repository}/issues/comments/{first['id']}", text)
        return "updated the comment"


def _pull_request() -> int | None:
    """The number of the pull request that the run is about, if it is about one."""
    path = os.environ.get("GITHUB_EVENT_PATH")
    event = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    number = event.get("pull_request", {}).get("number")
    return int(number) if number is not None else None


def main(file: str) -> int:
    """Comment, and write the summary; the exit code."""
    text = Path(file).read_text(encoding="utf-8").strip()[:_LONGEST]
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as sink:
            sink.write(f"{text}\n")
    number, token = _pull_request(), os.environ.get("GITHUB_TOKEN", "")
    if os.environ.get("COMMENT", "true") != "true":
        done = "no comment is wanted: see the job's summary"
    elif number is None:
        done = "this is no pull request: see the job's summary"
    elif not token:
        done = "there is no token: see the job's summary"
    else:
        url = os.environ.get("GITHUB_API_URL", "https://api.github.com")
        try:
            done = Host(url, os.environ["GITHUB_REPOSITORY"], token).put(number, text)
        except HTTPError as error:
            if error.code not in _MAY_NOT:
                print(f"::error title=deltafix::the comment failed: {error}")
                return 1
            done = f"the token may not comment ({error.code}): see the job's summary"
        except OSError as error:
            print(f"::error title=deltafix::the comment failed: {error}")
            return 1
    print(f"deltafix: {done}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
