"""What is imported when: the difference between 0.2 s and 2 s before the first answer."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("numba", "llvmlite", "numpy", "pyarrow", "pyspark", "pandas", "rich")


def loaded_after(statement: str, *names: str) -> list[str]:
    found = f"[name for name in {names!r} if name in sys.modules]"
    code = f"{statement}\nimport json, sys\nprint(json.dumps({found}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def test_import_deltafix_loads_no_heavy_package():
    assert loaded_after("import deltafix", *HEAVY, "typer") == []


def test_a_program_can_be_parsed_and_its_errors_named_without_a_heavy_package():
    statement = (
        'import deltafix; deltafix.Program.parse(".decl a(x: number) a(1)."); deltafix.Delta'
    )
    assert loaded_after(statement, *HEAVY) == []


@pytest.mark.parametrize(
    "command",
    ["--help", "--version", "run --help", "lsp --help", "check p.dl", "fmt p.dl", "plan p.dl"],
)
def test_what_needs_no_kernel_loads_none(tmp_path, command):
    (tmp_path / "p.dl").write_text(".decl a(x: number)\na(1).\n")
    statement = (
        f"import os; os.chdir({str(tmp_path)!r})\n"
        "from deltafix.cli.main import main\n"
        f"try: main({command.split()!r})\n"
        "except SystemExit as ended: assert not ended.code"
    )
    heavy = ("numba", "llvmlite", "numpy", "pyarrow", "pyspark", "pandas")
    assert loaded_after(statement, *heavy) == []


def test_run_reads_fact_files_without_pandas_and_spark(tmp_path):
    (tmp_path / "p.dl").write_text(
        ".decl a(x: symbol, n: number)\n.input a\n.decl b(n: number)\n.output b\nb(n) :- a(_, n).\n"
    )
    (tmp_path / "a.facts").write_text("x\t1\ny\t2\n")
    statement = (
        "from deltafix.cli.main import main\n"
        f"try: main(['run', '{tmp_path}/p.dl', '-F', '{tmp_path}', '-D', '-', '-q'])\n"
        "except SystemExit as ended: assert ended.code == 0"
    )
    assert loaded_after(statement, "pandas", "polars", "pyspark", "rich") == []


def test_sql_without_proofs_loads_nothing_of_them():
    statement = (
        "import deltafix.sql; db = deltafix.sql.connect();"
        " db.execute('CREATE TABLE t (a INTEGER)'); db.execute('SELECT a FROM t').fetchall()"
    )
    assert loaded_after(statement, "deltafix.provenance", "pyarrow", "pandas", "numba") == []


def test_the_command_s_own_process_collects_seldom(tmp_path):
    (tmp_path / "p.dl").write_text(".decl a(x: number)\n" + "a(1).\n" * 2000)
    code = (
        "import gc, sys\nfrom deltafix.__main__ import main\n"
        f"sys.argv = ['deltafix', 'check', '{tmp_path}/p.dl']\n"
        "before = sum(one['collections'] for one in gc.get_stats())\n"
        "try: main()\n"
        "finally: print(sum(one['collections'] for one in gc.get_stats()) - before)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout.splitlines()[-1]) < 30  # 200, as Python begins


def test_public_names_resolve_and_unknown_ones_do_not():
    import deltafix

    assert deltafix.Delta.__module__ == "deltafix.facts.delta"
    assert set(deltafix.__all__) <= set(dir(deltafix))
    assert all(hasattr(deltafix, name) for name in deltafix.__all__)
    assert deltafix.__version__.count(".") == 2
    assert not hasattr(deltafix, "nonsense")
