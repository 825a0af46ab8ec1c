"""What everybody knows about Python, as tables: the only place where names are listed.

Each table is a claim that can be argued with; `policy_facts` turns them into rows, the rules do
the rest. Invariant: a name missing from `PURE_DECORATORS` or `INERT_BASES` makes the analysis
keep more alive, never less.
"""

# ruff: noqa: SIM905  tables of names read better as words
from __future__ import annotations

import argparse
import ast
import asyncio
import cmd
import codecs
import io
import json
import logging
import socket
import threading
import types
import unittest
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from datetime import tzinfo
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler
from importlib import abc
from importlib.resources.abc import ResourceReader
from pathlib import Path
from queue import Queue
from string import Formatter
from xml.sax.handler import ContentHandler

from deltafix.analyses.facts import Fact

PURE_DECORATORS = frozenset(
    """
    staticmethod classmethod property abc.abstractmethod abc.abstractproperty
    functools.cached_property functools.wraps functools.lru_cache functools.cache
    functools.total_ordering functools.singledispatch functools.singledispatchmethod
    contextlib.contextmanager contextlib.asynccontextmanager
    dataclasses.dataclass attr.s attr.attrs attr.define attr.frozen attrs.define attrs.frozen
    attrs.mutable enum.unique enum.member enum.nonmember enum.verify
    typing.overload typing.final typing.override typing.no_type_check typing.runtime_checkable
    typing.type_check_only typing.dataclass_transform
    typing_extensions.overload typing_extensions.final typing_extensions.override
    typing_extensions.runtime_checkable typing_extensions.deprecated
    typing_extensions.dataclass_transform warnings.deprecated
    types.coroutine numba.njit numba.jit
    unittest.skip unittest.skipIf unittest.skipUnless unittest.expectedFailure
    unittest.mock.patch unittest.mock.patch.object unittest.mock.patch.dict
    *.setter *.getter *.deleter
    """.split()
)
"""Decorators that hand a function or class on without telling anybody about it.

Any other decorator may register what it decorates, so it makes it a root.
"""

CONTAINER_METHODS = frozenset(
    name for kind in (list, dict, set, deque, Queue) for name in vars(kind) if name[0] != "_"
)
"""Methods that keep what they are given and call nothing of it."""

INERT_BASES = frozenset(
    """
    object type BaseException Exception ArithmeticError AssertionError AttributeError BufferError
    EOFError ImportError IndexError KeyError KeyboardInterrupt LookupError ModuleNotFoundError
    NameError NotImplementedError OSError IOError OverflowError PermissionError RecursionError
    RuntimeError StopIteration SyntaxError SystemExit TimeoutError TypeError UnicodeError
    ValueError Warning UserWarning DeprecationWarning FutureWarning RuntimeWarning
    int float complex bool str bytes bytearray tuple list dict set frozenset
    abc.ABC typing.Generic typing.Protocol typing.NamedTuple typing.TypedDict
    typing_extensions.Protocol typing_extensions.TypedDict typing_extensions.NamedTuple
    enum.Enum enum.IntEnum enum.StrEnum enum.Flag enum.IntFlag
    collections.OrderedDict collections.defaultdict collections.Counter
    collections.namedtuple
    """.split()
)
"""Classes outside the tree that never call a subclass's method by a plain name."""

DATA_MAKERS = frozenset(
    """
    enum.Enum enum.IntEnum enum.StrEnum enum.Flag enum.IntFlag typing.NamedTuple typing.TypedDict
    typing_extensions.TypedDict typing_extensions.NamedTuple
    dataclasses.dataclass attr.s attr.attrs attr.define attr.frozen attrs.define attrs.frozen
    attrs.mutable
    """.split()
)
"""Bases and decorators that read a class's assigned names as its fields or members."""

INTERFACES = frozenset(
    name
    for kind in (
        io.TextIOWrapper, io.BufferedRandom, logging.Handler, logging.Filter, logging.Formatter,
        logging.Logger, abc.Loader, abc.MetaPathFinder, abc.InspectLoader, ResourceReader,
        list, dict, set, str, bytes, deque, Queue, threading.Thread, socket.socket,
        asyncio.Protocol, asyncio.SubprocessProtocol, asyncio.Task, asyncio.AbstractEventLoop,
        json.JSONEncoder, json.JSONDecoder, argparse.Action, argparse.HelpFormatter, HTMLParser,
        unittest.TestCase, unittest.TestResult, cmd.Cmd, BaseHTTPRequestHandler, tzinfo,
        Formatter, ContentHandler, codecs.IncrementalDecoder, codecs.StreamReader,
        Executor, ast.NodeVisitor, types.FrameType, types.CodeType, types.ModuleType, Path,
    )
    for name in dir(kind)
)  # fmt: skip
"""Methods of what Python's own library calls on objects that it is given: files, handlers, …"""

TEST_HOOKS = frozenset(
    """
    setup_module teardown_module setup_function teardown_function setup_class teardown_class
    setup_method teardown_method setUp tearDown setUpClass tearDownClass setUpModule
    tearDownModule setup teardown suite load_tests pytestmark collect_ignore collect_ignore_glob
    """.split()
)
"""Symbols of a test file that its runner calls, beside `test*` and `pytest_*`."""

ASIDE = frozenset(
    """
    t test tests integration doc docs site sites example examples sample samples demo demos
    benchmark benchmarks
    """.split()
)
"""Folders beside a project's own code: what they define is for nobody else's use."""

TEST_FOLDERS = frozenset({"tests", "_tests"})
"""Folders of tests, wherever they stand."""

TEST_DATA = frozenset("data testdata test_data fixtures resources scenario".split())
"""Folders of tests whose files they read, load or imitate: nobody says there what is needed."""

WATCHERS = frozenset(
    """
    raises warns deprecated_call catch_warnings
    assertRaises assertRaisesRegex assertWarns assertWarnsRegex
    """.split()
)
"""Contexts of tests that see what the statements inside them raise or warn of."""

TOOL_FILES = frozenset("conf.py dodo.py fabfile.py hatch_build.py noxfile.py tasks.py".split())
"""Files in a project's top folder, or anywhere for `conf.py`, that a tool looks for by name."""

FOUND_FOLDERS = (("management", "commands"), ("templatetags",))
"""Folders in an application of Django whose modules it imports by the names of their files."""

NAMED_POLICIES = frozenset({"public", "entry-points"})
"""Words that `--roots` understands beside patterns: a library, and an application."""


def is_dunder(name: str) -> bool:
    """Whether Python or a protocol calls it: `__init__`, and enum's `_missing_`."""
    return len(name) > 2 and name.startswith("_") and name.endswith("_")


def is_aside_folder(name: str) -> bool:
    """Whether a project's top folder of this name stands beside its code: `shop_test` does, too."""
    return name in ASIDE or name.startswith("test_") or name.endswith(("_test", "_tests"))


def is_test_file(path: str) -> bool:
    """Whether pytest or unittest would collect this file by name."""
    folder, _, name = path.rpartition("/")
    if name == "__init__.py":
        return folder.rsplit("/", 1)[-1].startswith("test_")
    return name == "conftest.py" or (
        name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))
    )


def policy_facts(
    policies: Iterable[str], pure_decorators: Iterable[str] = (), enlisters: Iterable[str] = ()
) -> Iterator[Fact]:
    """The tables as facts, with the policies in force and what users and frameworks add to them."""
    for name in sorted(policies):
        yield "policy", (name,)
    for name in sorted(PURE_DECORATORS.union(pure_decorators)):
        yield "pure", (name,)
    for name in sorted(CONTAINER_METHODS):
        yield "container", (name,)
    for name in sorted(INERT_BASES):
        yield "inert", (name,)
    for name in sorted(DATA_MAKERS):
        yield "data_maker", (name,)
    for name in sorted(enlisters):
        yield "enlister", (name,)
    for name in sorted(INTERFACES):
        yield "interface", (name,)
