"""The error tree: codes are stable and each is one class's alone."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

import deltafix
import deltafix.rights
import deltafix.sql
from deltafix.errors import DeltafixError

# Modules that need an extra which a small installation may lack.
OPTIONAL = ("deltafix.spark", "deltafix.changes.symbolic", "deltafix.pytest_plugin")


def classes(root: type[DeltafixError]) -> Iterator[type[DeltafixError]]:
    yield root
    for child in root.__subclasses__():
        yield from classes(child)


def test_every_error_class_has_a_code_of_its_own() -> None:
    for module in pkgutil.walk_packages(deltafix.__path__, "deltafix."):
        if not module.name.startswith(OPTIONAL) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: dict[str, type[DeltafixError]] = {}
    for error in set(classes(DeltafixError)):
        if not error.__module__.startswith("deltafix"):
            continue
        assert re.fullmatch(r"DF\d{3}", error.code), error
        assert found.setdefault(error.code, error) is error, (error, found[error.code])
    assert len(found) > 30


@pytest.mark.parametrize("door", ["collection", "database", "connection", "watch", "rights"])
def test_what_cannot_be_called_is_refused_before_an_epoch(warm_kernel: None, door: str) -> None:
    program = deltafix.Program.parse(".decl a(x: number)")
    model = "model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define reader: [user]\n"
    with (
        deltafix.connect(program) as rules,
        deltafix.sql.connect() as db,
        deltafix.rights.open(model) as rights,
    ):
        db.execute("CREATE TABLE t (a INTEGER)")
        subscribe: Any = {
            "collection": deltafix.Collection.input().subscribe,
            "database": lambda callback: rules.watch("a", callback),
            "connection": lambda callback: db.subscribe("t", callback),
            "watch": db.watch,
            "rights": lambda callback: rights.watch(None, callback),
        }[door]
        with pytest.raises(deltafix.errors.TypeMismatchError, match=r"3 cannot be called; .* of a"):
            subscribe(3)
        db.execute("INSERT INTO t VALUES (1)")
