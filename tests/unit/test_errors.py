"""The error tree: codes are stable and each is one class's alone."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import deltafix
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
