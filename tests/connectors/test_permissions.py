"""The page on permissions: its tables, files and runs, in Postgres and Delta, on a cluster too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from examples.cluster.standalone import cluster
from tests.connectors.jars import jars, needs
from tests.servers.postgres import Postgres
from tests.test_docs import ROOT, Block, blocks

from deltafix.cli.main import main

pytestmark = pytest.mark.spark

PAGE = ROOT / "docs" / "guides" / "permissions.md"
BLOCKS = blocks(PAGE)
LAKE = next(at for at, block in enumerate(BLOCKS) if "USING delta" in block.text)


def follow(
    page: list[Block], ask: Callable[[str], list[tuple[Any, ...]]], run: Callable[[], None]
) -> int:
    """Do what the page says, a run after each change; how often its rows were asked for."""
    rows, asked = [], 0
    for block in page:
        if block.kind == "sql":
            changed = not block.text.startswith("SELECT")
            rows = [row for text in block.text.split(";") if text.strip() for row in ask(text)]
            if changed:
                run()
        elif block.kind == "text":
            assert [" ".join(row) for row in rows] == block.text.splitlines()
            asked += 1
    return asked


def write(folder: Path, **words: str) -> None:
    for block in BLOCKS:
        if block.title:
            text = block.text
            for old, new in words.items():
                text = text.replace(old, new)
            (folder / block.title).write_text(text)


def run_here(file: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "run", "--quiet", str(file)])
    assert not ended.value.code


@pytest.mark.parametrize("where", ["laptop", "cluster"])
def test_the_page_in_postgres(where, spark, tmp_path, postgres_server: Postgres) -> None:
    database = f"access_{where}"
    with psycopg.connect(postgres_server.uri, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {database}")
    words = {
        "localhost:5432/access": f"127.0.0.1:{postgres_server.port}/{database}",
        "jars.packages": "jars",
        "org.postgresql:postgresql:42.7.4": str(jars("postgres")[0]),
    }
    uri = f"postgresql://postgres@127.0.0.1:{postgres_server.port}/{database}"
    with psycopg.connect(uri, autocommit=True) as db:

        def ask(text: str) -> list[tuple[Any, ...]]:
            found = db.execute(text)
            return found.fetchall() if found.description else []

        file = tmp_path / "access.toml"
        if where == "laptop":
            write(tmp_path, **words)
            assert follow(BLOCKS[:LAKE], ask, lambda: run_here(file)) == 2
            return
        with cluster(tmp_path) as here:
            write(tmp_path, **words, **{"spark://host:7077": here.address})
            runs = [run_here]  # a driver on a cluster takes 20 s of processor: the second is one

            def run() -> None:
                if runs:
                    runs.pop()(file)
                    with file.open("a") as stream:
                        stream.write((tmp_path / "cluster.toml").read_text())
                    return
                command = [sys.executable, "-m", "deltafix", "pipeline", "run", str(file)]
                ran = subprocess.run(
                    command, env=here.environment, capture_output=True, text=True, check=False
                )
                assert ran.returncode == 0, ran.stderr[-4000:]

            assert follow(BLOCKS[:LAKE], ask, run) == 2


@needs("delta")
def test_the_page_with_delta_tables(spark, tmp_path) -> None:
    name = f"access_{uuid4().hex[:8]}"
    write(
        tmp_path,
        **{
            "access.member": f"{name}.member",
            "access.inside": f"{name}.inside",
            "access.granted": f"{name}.granted",
            "access.can_read": f"{name}.can_read",
        },
    )

    def ask(text: str) -> list[tuple[Any, ...]]:
        words = text.replace("DATABASE access", f"DATABASE {name}").replace("access.", f"{name}.")
        return [tuple(row) for row in spark.sql(words).collect()]

    page = BLOCKS[LAKE:]
    assert follow(page, ask, lambda: run_here(tmp_path / "lake.toml")) == 1
