"""Store files, as OpenFGA's command line tests models: a model, tuples, and expected answers.

    name: documents
    model: |                       # or model_file: model.fga
      model
        schema 1.1
      ...
    tuples:                        # or tuple_file: tuples.csv
      - {user: "user:anne", relation: owner, object: "document:roadmap"}
    tests:
      - name: owners
        tuples: [...]              # for this test only
        check:
          - user: user:anne
            object: document:roadmap
            context: {ip: 10.0.0.1}      # for conditions; in the lists below, too
            assertions: {viewer: true}
        list_objects:
          - {user: "user:anne", type: document, assertions: {viewer: ["document:roadmap"]}}
        list_users:
          - object: document:roadmap
            user_filter: [{type: user}]
            assertions: {viewer: {users: ["user:anne"]}}

Invariant: an assertion that is not understood is an error, never one that passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from deltafix.errors import RightsTupleError
from deltafix.rights.reading import read_store, read_tuples
from deltafix.rights.rights import Rights, open  # noqa: A004  its name
from deltafix.rights.tuples import AnyTuple, tuple_of

_PARTS: Final = (
    "name",
    "description",
    "tuples",
    "tuple_file",
    "check",
    "list_objects",
    "list_users",
)


class Outcome(NamedTuple):
    """One assertion of a store file, what was expected, and what is so."""

    test: str
    question: str
    expected: Any
    found: Any

    @property
    def holds(self) -> bool:
        """Whether it is as expected."""
        return bool(self.expected == self.found)


def run_store(path: Path, *, materialise: Iterable[str] = ()) -> Iterator[Outcome]:
    """Judge the assertions of a store file, one after another.

    Raises RightsModelError, RightsTupleError, RightsQuestionError, SourceError; all name the file.
    """
    store = read_store(path)
    with open(path, materialise=materialise) as rights:
        rights.write(_tuples(store, path))
        for number, test in enumerate(_list(store.get("tests"), path, "tests"), 1):
            if not isinstance(test, Mapping):
                raise _wrong(path, f"test {number} is {test!r}", "expected a mapping")
            name = str(test.get("name", number))
            for part in test:
                if part not in _PARTS:
                    valid = f"a test has {', '.join(_PARTS)}"
                    raise _wrong(path, f"test {name!r} has {part!r}", valid)
            # Tuples of a test that the store has too are not the test's to delete.
            there = set(rights.tuples())
            own = [one for one in dict.fromkeys(_tuples(test, path)) if one not in there]
            rights.write(own)
            yield from _judged(rights, name, test, path)
            rights.delete(own)


def _judged(rights: Rights, name: str, test: Mapping[str, Any], path: Path) -> Iterator[Outcome]:
    for one in _list(test.get("check"), path, "check"):
        for user in _several(one, "user", path):
            for at in _several(one, "object", path):
                for relation, expected in _assertions(one, path):
                    if not isinstance(expected, bool):
                        raise _wrong(path, f"{relation}: {expected!r}", "expected true or false")
                    found = rights.check(user, relation, at, context=_context(one, path))
                    yield Outcome(name, f"check {user} {relation} {at}", expected, found)
    for one in _list(test.get("list_objects"), path, "list_objects"):
        user, kind = _text(one, "user", path), _text(one, "type", path)
        for relation, expected in _assertions(one, path):
            objects = rights.list_objects(user, relation, kind, context=_context(one, path))
            wanted = sorted(_list(expected, path, relation))
            yield Outcome(name, f"list objects {user} {relation} {kind}", wanted, objects)
    for one in _list(test.get("list_users"), path, "list_users"):
        at = _text(one, "object", path)
        kinds = [
            _text(kind, "type", path) + (f"#{kind['relation']}" if "relation" in kind else "")
            for kind in _list(one.get("user_filter"), path, "user_filter")
        ]
        for relation, expected in _assertions(one, path):
            context = _context(one, path)
            lists = [rights.list_users(relation, at, kind, context=context) for kind in kinds]
            given = expected.get("users") if isinstance(expected, Mapping) else expected
            wanted = sorted(_list(given, path, relation))
            # Who is one of everyone may be expected beside `user:*`.
            among = {user for user in wanted if any(one.has(user) for one in lists)}
            users = sorted(among.union(*(one.users for one in lists)))
            yield Outcome(name, f"list users {relation} {at}", wanted, users)


def _tuples(found: Mapping[str, Any], path: Path) -> list[AnyTuple]:
    """Those under `tuples`, and those of the files that `tuple_file` and `tuple_files` name."""
    tuples = [tuple_of(one) for one in _list(found.get("tuples"), path, "tuples")]
    files = [found["tuple_file"]] if "tuple_file" in found else []
    for name in [*files, *_list(found.get("tuple_files"), path, "tuple_files")]:
        tuples += read_tuples(path.parent / str(name))
    return tuples


def _assertions(found: Any, path: Path) -> Iterable[tuple[str, Any]]:
    assertions = found.get("assertions")
    if not isinstance(assertions, Mapping):
        raise _wrong(path, f"assertions are {assertions!r}", "expected a mapping by relation")
    return assertions.items()


def _context(found: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    context = found.get("context") or {}
    if not isinstance(context, Mapping):
        raise _wrong(path, f"the context is {context!r}", "expected a mapping")
    return context


def _several(found: Any, name: str, path: Path) -> list[str]:
    """The text under `user`, or those under `users`."""
    if isinstance(found, Mapping) and f"{name}s" in found:
        return [str(one) for one in _list(found[f"{name}s"], path, f"{name}s")]
    return [_text(found, name, path)]


def _text(found: Any, name: str, path: Path) -> str:
    value = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(value, str):
        raise _wrong(path, f"{name!r} is {value!r} in {found!r}", "expected a text")
    return value


def _list(found: Any, path: Path, name: str) -> list[Any]:
    if found is None:
        return []
    if not isinstance(found, list):
        raise _wrong(path, f"{name!r} is {found!r}", "expected a list")
    return found


def _wrong(path: Path, message: str, valid: str) -> RightsTupleError:
    return RightsTupleError(f"{path}: {message}; {valid}", value=str(path))
