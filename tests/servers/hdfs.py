"""A namenode and a datanode on loopback, from Hadoop's own classes, and ways for them to fail.

`Hdfs` starts both from jars beside Spark's. Requests to the namenode pass a proxy whose `fault` is
asked before each: it can answer with an error, before or behind the work, or do it later
(`settle`). Not here: what must hold.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from tests.connectors.jars import SPARK_JARS, jars

from deltafix.spark.java import find_java

_HOME = "org.apache.hadoop.hdfs.server"
_PATIENCE = 90.0


class Hdfs:
    """From `with` on until its end. `url()` is a new folder that is not there."""

    def __init__(self, folder: Path) -> None:
        self.fault: Callable[[str, str], str] = lambda method, path: ""
        self.late: list[tuple[str, str]] = []
        self.asked: list[str] = []
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._web, rpc = _free(), _free()
        conf = self._folder / "conf"
        conf.mkdir(parents=True)
        _configure(conf / "core-site.xml", {"fs.defaultFS": f"hdfs://127.0.0.1:{rpc}"})
        _configure(
            conf / "hdfs-site.xml",
            {
                "dfs.namenode.name.dir": f"file://{self._folder}/name",
                "dfs.namenode.http-address": f"127.0.0.1:{self._web}",
                "dfs.namenode.rpc-address": f"127.0.0.1:{rpc}",
                "dfs.datanode.data.dir": f"file://{self._folder}/data",
                "dfs.datanode.address": "127.0.0.1:0",
                "dfs.datanode.http.address": "127.0.0.1:0",
                "dfs.datanode.ipc.address": "127.0.0.1:0",
                "dfs.datanode.hostname": "127.0.0.1",
                "dfs.namenode.edits.noeditlogchannelflush": "true",
                "dfs.replication": "1",
                "dfs.permissions.enabled": "false",
                # Else a file whose block is not reported yet takes 400 ms more.
                "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "5",
            },
        )
        try:
            self._java("namenode.NameNode", "-format", "-nonInteractive").wait(_PATIENCE)
            self._running = [self._java("namenode.NameNode"), self._java("datanode.DataNode")]
            self._wait()
        except BaseException:
            self._stop()
            raise
        self._proxy = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._proxy.daemon_threads = True
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()
        self.port = self._proxy.server_address[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._proxy.shutdown()
        self._proxy.server_close()
        self._stop()

    def url(self) -> str:
        return f"webhdfs://tests@127.0.0.1:{self.port}/{uuid4().hex[:8]}"

    def settle(self) -> None:
        """Do now what was to be late."""
        late, self.late = self.late, []
        for method, path in late:
            self.forward(method, path)

    def forward(self, method: str, path: str) -> tuple[int, list[tuple[str, str]], bytes]:
        """What the namenode answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self._web, timeout=_PATIENCE)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hdfs = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer is one packet: the second waits for the first one's receipt

            def answer(self) -> None:
                op = self.path.partition("op=")[2].partition("&")[0]
                hdfs.asked.append(op)
                what = hdfs.fault(op, self.path)
                if what == "late":
                    hdfs.late.append((self.command, self.path))
                if what in ("", "done"):
                    status, headers, content = hdfs.forward(self.command, self.path)
                if what:
                    status, headers, content = 500, [], b""
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() in ("location", "content-type"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_DELETE = answer  # noqa: N815  the server's names

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        return Handler

    def _java(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        path = [str(self._folder / "conf"), *map(str, jars("hdfs")), f"{SPARK_JARS}/*"]
        command = [str(find_java().executable), "-Xmx256m", "-cp", os.pathsep.join(path)]
        command += [f"{_HOME}.{name}", *arguments]
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def _wait(self) -> None:
        """Until the datanode takes bytes."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            assert all(one.poll() is None for one in self._running), "see the logs"
            try:
                asked = "/webhdfs/v1/begun?op=CREATE&user.name=tests&noredirect=true"
                if self.forward("PUT", asked)[0] == http.client.OK:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        raise TimeoutError(f"no HDFS within {_PATIENCE:.0f} s: see {self._folder}")

    def _stop(self) -> None:
        for one in self._running:
            one.kill()
            one.wait()


def _free() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _configure(path: Path, values: dict[str, str]) -> None:
    lines = (
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in values.items()
    )
    path.write_text(f"<configuration>{''.join(lines)}</configuration>\n")
