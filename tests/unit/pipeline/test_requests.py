"""Requests into a pipeline: real HTTP against the real server, and what is in after each.

`Job.check` asserts that the state is recomputation, and that outputs, applied in order, are views.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.pipelines import Job

from deltafix.errors import BadRowError
from deltafix.pipeline import check, status
from deltafix.pipeline.config import read_config
from deltafix.pipeline.runner import Pipeline
from deltafix.pipeline.sources import http as source
from deltafix.web import inlet
from deltafix.web.server import PipelineServer

MEMBER = """
[input.member]
source = "http"
{more}
[input.grant]
source = "{grant}"
"""


def job_of(folder: Path, more: str = "", grant: str = "http") -> Job:
    job = Job(folder)
    head, _, rest = job.toml.read_text().partition("[input.member]")
    outputs = rest[rest.index("[output.can]") :]
    files = 'path = "in/grant"\n' if grant == "files" else ""
    job.toml.write_text(head + MEMBER.format(more=more, grant=grant) + files + outputs)
    return job


class Client:
    """Asks a running server."""

    def __init__(self, server: PipelineServer) -> None:
        self.port = int(server.address.rstrip("/").rpartition(":")[2])
        self.token = server.url.rstrip("/").rpartition("/")[2]

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = {"Authorization": f"Bearer {self.token}"}
        given |= {name.replace("_", "-"): text for name, text in headers.items()}
        line.request(method, path, body, given)
        answer = line.getresponse()
        text = answer.read()
        line.close()
        return answer.status, json.loads(text) if text.startswith((b"{", b"[")) else text

    def post(self, name: str, *rows: Any, query: str = "", **headers: str) -> tuple[int, Any]:
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        return self.ask("POST", f"/inputs/{name}{query}", "\n".join(lines).encode(), **headers)


@contextmanager
def serving(job: Job, every: float | None = None, **options: Any) -> Iterator[Client]:
    with Pipeline(read_config(job.toml)) as pipeline:
        server = PipelineServer(pipeline, port=0, **options)
        failed: list[BaseException] = []

        def run() -> None:
            try:
                server.run(every)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield Client(server)
        finally:
            server.stop()
            thread.join()
        if failed:
            raise failed[0]
        job.check(pipeline)


def member(who: str, team: str, sign: object = "+") -> dict[str, object]:
    return {"who": who, "team": team, "sign": sign}


def grant(team: str, doc: int, sign: object = "+") -> dict[str, object]:
    return {"team": team, "doc": doc, "sign": sign}


def test_a_request_is_an_epoch_and_the_answer_says_what_changed(tmp_path) -> None:
    job = job_of(tmp_path)
    with serving(job) as client:
        code, first = client.post("grant", grant("b", 7))
        assert (code, first["read"], first["given"], first["taken"]) == (200, 1, 1, 0)
        code, said = client.post(
            "member", member("ann", "a"), "", member("a", "b"), query="?changes=can,stands"
        )
        assert (code, said["epoch"]) == (200, first["epoch"] + 1)
        can = said["changes"]["can"]
        wanted = [{"who": "a", "doc": 7}, {"who": "ann", "doc": 7}]
        assert (sorted(can["added"], key=str), can["removed"]) == (wanted, [])
        assert said["changes"]["stands"]["counts"] == [3, 0]
        code, gone = client.post("member", member("a", "b", "-"), query="?changes=*")
        assert gone["changes"]["can"]["counts"] == [0, 2]
        code, idle = client.post("member", query="?changes=can")
        assert (code, idle["epoch"], idle["read"]) == (200, gone["epoch"], 0)
        _, listed = client.ask("GET", "/inputs")
        assert listed["epoch"] == gone["epoch"]
        assert [one["name"] for one in listed["inputs"]] == ["member", "grant"]
        job.rows = {"member": {("ann", "a")}, "grant": {("b", 7)}}
    lines = list(status.status(read_config(job.toml)))
    assert [line for line in lines if line.endswith((" request", " requests"))] == [
        "input member: 2 requests", "input grant: 1 request"
    ]  # fmt: skip
    assert "input member: http requests to" in "".join(check.check(read_config(job.toml)))


def test_oracle_requests_that_come_again_are_in_once(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(source, "REMEMBERED", 12)
    job, rng = job_of(tmp_path), Random("requests")
    sent: list[tuple[str, str, list[Any], int]] = []
    for _ in range(3):  # over restarts
        with serving(job) as client:
            for _ in range(20):
                if sent and rng.random() < 0.4:
                    name, key, rows, epoch = rng.choice(sent[-5:])
                    code, said = client.post(name, *rows, idempotency_key=key)
                    assert (code, said) == (200, {"epoch": epoch, "replayed": True})
                    continue
                held = job.rows["member"]
                row = (rng.choice("abc"), rng.choice("abc"))
                rows = [member(*row, -1 if row in held else 1)]
                (held.discard if row in held else held.add)(row)
                key = f"key-{len(sent)}"
                code, said = client.post("member", *rows, idempotency_key=key)
                assert (code, said["replayed"]) == (200, False)
                sent.append(("member", key, rows, said["epoch"]))
    with Pipeline(read_config(job.toml)) as pipeline:
        marks = pipeline.maintainer.db.marks
        assert marks["http/member"] == len(sent) > 20
        assert sum(name.startswith("http/member/") for name in marks) == 12


def test_a_key_of_another_body_or_of_no_shape_is_refused(tmp_path) -> None:
    job = job_of(tmp_path)
    with serving(job) as client:
        assert client.post("member", member("a", "b"), idempotency_key="one")[0] == 200
        code, said = client.post("member", member("a", "c"), idempotency_key="one")
        assert (code, said["code"]) == (422, "DF669")
        code, said = client.post("grant", grant("b", 1), idempotency_key="one")
        assert (code, said["replayed"]) == (200, False)  # each input has keys of its own
        for key in ("", "a b", "x" * 201):
            assert client.post("member", member("z", "z"), idempotency_key=key)[0] == 400
        job.rows = {"member": {("a", "b")}, "grant": {("b", 1)}}


@pytest.mark.parametrize(
    ("line", "column", "under", "reason"),
    [
        ('{"team": "a", "doc": "many", "sign": 1}', 23, "many", "doc = 'many' is no number"),
        ('{"team": "a", "doc": 1, "sign": "up"}', 34, "up", "sign = 'up' is no sign"),
        ('{"team": "a"', 1, None, "it is no JSON"),
        ("[1]", 1, None, "it is no JSON object"),
        ('{"team": "\\ud800", "doc": 1, "sign": 1}', 1, None, "it is no JSON: a lone surrogate"),
        ("[" * 900 + "]" * 900, 1, None, "it is nested more than 100 deep"),
    ],
)
def test_a_bad_line_is_named_and_drawn_and_nothing_is_taken(
    line, column, under, reason, tmp_path
) -> None:
    job = job_of(tmp_path)
    with serving(job) as client:
        code, said = client.post("grant", grant("a", 1), "", line, grant("a", 2))
        assert (code, said["code"], said["line"], said["column"]) == (400, "DF663", 3, column)
        assert reason in said["error"]
        assert said["error"].startswith("line 3: ")
        *_, shown, carets = said["drawn"].splitlines()
        if under is not None:
            place = carets.index("^")
            assert shown[place : place + carets.count("^")] == under
        assert client.ask("GET", "/inputs")[1]["epoch"] == said.get("epoch", 1)


def test_other_columns_and_rows_that_are_not_there_are_refused(tmp_path) -> None:
    job = job_of(tmp_path)
    with serving(job) as client:
        code, said = client.post("grant", grant("a", 1), {"team": "a", "sign": 1})
        assert (code, said["code"], said["line"]) == (400, "DF663", 2)
        code, said = client.post("grant", {**grant("a", 1), "who": "b"})
        assert (code, said["code"]) == (400, "DF662")
        code, said = client.post("grant", grant("a", 1, "-"))
        assert (code, said["code"]) == (400, "DF663")
        assert "not there" in said["error"]


def test_bad_rows_go_to_the_quarantine_where_they_may(tmp_path) -> None:
    job = job_of(tmp_path, more='bad_rows = "quarantine"')
    with serving(job) as client:
        code, said = client.post("member", "{", member("a", "b"))
        assert (code, said["read"], said["bad"], said["given"]) == (200, 2, 1, 1)
        job.rows["member"] = {("a", "b")}


def test_what_is_too_large_packed_unknown_or_without_the_key(tmp_path, monkeypatch) -> None:
    job = job_of(tmp_path, more="bytes = 100")
    with serving(job) as client:
        rows = [member("a", "b")] * 3
        assert client.post("member", *rows)[0] == 413
        assert client.post("member", rows[0], content_encoding="gzip")[0] == 415
        code, said = client.post("nobody", rows[0])
        assert (code, "member, grant" in said["error"]) == (404, True)
        code, said = client.post("member", rows[0], query="?changes=cann")
        assert (code, "can, stands" in said["error"]) == (404, True)
        assert client.ask("GET", "/inputs/member")[0] == 405
        assert client.ask("GET", "/inputs", host="example.org")[0] == 421
        client.token = "x" * 43
        assert client.post("member", rows[0])[0] == 404


def test_a_request_that_is_cut_off_is_not_taken(tmp_path, capfd) -> None:
    job = job_of(tmp_path)
    with serving(job) as client:
        line = json.dumps(member("a", "b")).encode() + b"\n"
        with socket.create_connection(("127.0.0.1", client.port)) as raw:
            head = (
                f"POST /{client.token}/inputs/member HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n"
            )
            raw.sendall(f"{head}Content-Length: {2 * len(line)}\r\n\r\n".encode() + line)
            raw.shutdown(socket.SHUT_WR)
            assert raw.recv(1 << 16) == b""  # the server has seen it
        assert client.post("grant", grant("b", 1))[1]["read"] == 1
        job.rows["grant"] = {("b", 1)}
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("more", "rows"),
    [
        (
            'key = "who"',
            [
                member("a", "x"),
                member("b", "q"),
                member("a", "y"),
                {"who": "b", "team": None, "sign": "-"},
            ],
        ),
        (
            'envelope = "debezium"\nkey = "who"\nsequence_by = "lsn"',
            [
                {"op": "c", "after": {"who": "a", "team": "y"}, "source": {"lsn": 5}},
                {"op": "u", "after": {"who": "a", "team": "x"}, "source": {"lsn": 3}},
                {"op": "d", "before": {"who": "b"}, "source": {"lsn": 3}},
            ],
        ),
    ],
    ids=["signs", "debezium"],
)
def test_rows_of_a_request_replace_those_of_their_keys(more, rows, tmp_path) -> None:
    job = job_of(tmp_path, more)
    with serving(job) as client:
        for given in (1, 0):  # said twice, it says nothing new
            code, said = client.post("member", *rows)
            assert (code, said["given"], said["taken"]) == (200, given, 0)
        job.rows["member"] = {("a", "y")}


def test_more_than_may_wait_are_turned_away(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(inlet, "_WAITING", 1)
    job = job_of(tmp_path)
    entered, leave = threading.Semaphore(0), threading.Event()
    taking = source.HttpInput.take

    def slowly(self, *given):
        entered.release()
        assert leave.wait(30)
        return taking(self, *given)

    monkeypatch.setattr(source.HttpInput, "take", slowly)
    codes: list[int] = []
    with serving(job) as client:
        row = grant("a", 1)
        thread = threading.Thread(target=lambda: codes.append(client.post("grant", row)[0]))
        thread.start()
        assert entered.acquire(timeout=30)
        code, said = client.post("grant", grant("b", 1))
        assert (code, said["code"]) == (503, "DF690")
        leave.set()
        thread.join()
        job.rows["grant"] = {("a", 1)}
    assert codes == [200]


def test_other_inputs_are_looked_at_between_requests(tmp_path) -> None:
    job = job_of(tmp_path, grant="files")
    epochs: list[int] = []
    told = threading.Semaphore(0)

    def hear(epoch) -> None:
        epochs.append(epoch.epoch)
        told.release()

    with serving(job, 0.01, on_epoch=hear) as client:
        assert client.post("member", member("a", "b"))[0] == 200
        assert told.acquire(timeout=30)
        job.say("grant", ("+", ("b", 1)))
        assert told.acquire(timeout=30)
        job.rows["member"] = {("a", "b")}
    assert epochs == sorted(epochs)
    assert len(epochs) == 2


def test_what_fails_a_look_ends_the_server(tmp_path) -> None:
    job = job_of(tmp_path, grant="files")
    (tmp_path / "in" / "grant" / "1.csv").write_text("sign,team,doc\n?,a,b\n")
    with Pipeline(read_config(job.toml)) as pipeline:
        server = PipelineServer(pipeline, port=0)
        with pytest.raises(BadRowError, match="is no number"):
            server.run(0.01)
