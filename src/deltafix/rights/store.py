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
            stored = set(rights.tuples())
            own = [tuple_ for tuple_ in dict.fromkeys(_tuples(test, path)) if tuple_ not in stored]
            rights.write(own)
            yield from _judged(rights, name, test, path)
            rights.delete(own)


def _judged(rights: Rights, name: str, test: Mapping[str, Any], path: Path) -> Iterator[Outcome]:
    for check in _list(test.get("check"), path, "check"):
        for user in _several(check, "user", path):
            for at in _several(check, "object", path):
                for relation, expected in _assertions(check, path):
                    if not isinstance(expected, bool):
                        raise _wrong(path, f"{relation}: {expected!r}", "expected true or false")
                    answer = rights.check(user, relation, at, context=_context(check, path))
                    yield Outcome(name, f"check {user} {relation} {at}", expected, answer)
    for case in _list(test.get("list_objects"), path, "list_objects"):
        user, kind = _text(case, "user", path), _text(case, "type", path)
        for relation, expected in _assertions(case, path):
            objects = rights.list_objects(user, relation, kind, context=_context(case, path))
            expected_objects = sorted(_list(expected, path, relation))
            yield Outcome(name, f"list objects {user} {relation} {kind}", expected_objects, objects)
    for case in _list(test.get("list_users"), path, "list_users"):
        at = _text(case, "object", path)
        kinds = [
            _text(kind, "type", path) + (f"#{kind['relation']}" if "relation" in kind else "")
            for kind in _list(case.get("user_filter"), path, "user_filter")
        ]
        for relation, expected in _assertions(case, path):
            context = _context(case, path)
            lists = [rights.list_users(relation, at, kind, context=context) for kind in kinds]
            listed = expected.get("users") if isinstance(expected, Mapping) else expected
            expected_users = sorted(_list(listed, path, relation))
            # Who is one of everyone may be expected beside `user:*`.
            among = {user for user in expected_users if any(answer.has(user) for answer in lists)}
            users = sorted(among.union(*(answer.users for answer in lists)))
            yield Outcome(name, f"list users {relation} {at}", expected_users, users)


def _tuples(section: Mapping[str, Any], path: Path) -> list[AnyTuple]:
    """Those under `tuples`, and those of the files that `tuple_file` and `tuple_files` name."""
    tuples = [tuple_of(tuple_) for tuple_ in _list(section.get("tuples"), path, "tuples")]
    files = [section["tuple_file"]] if "tuple_file" in section else []
    for name in [*files, *_list(section.get("tuple_files"), path, "tuple_files")]:
        tuples += read_tuples(path.parent / str(name))
    return tuples


def _assertions(test: Any, path: Path) -> Iterable[tuple[str, Any]]:
    assertions = test.get("assertions")
    if not isinstance(assertions, Mapping):
        raise _wrong(path, f"assertions are {assertions!r}", "expected a mapping by relation")
    return assertions.items()


def _context(test: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    context = test.get("context") or {}
    if not isinstance(context, Mapping):
        raise _wrong(path, f"the context is {context!r}", "expected a mapping")
    return context


def _several(test: Any, name: str, path: Path) -> list[str]:
    """The text under `user`, or those under `users`."""
    if isinstance(test, Mapping) and f"{name}s" in test:
        return [str(text) for text in _list(test[f"{name}s"], path, f"{name}s")]
    return [_text(test, name, path)]


def _text(section: Any, name: str, path: Path) -> str:
    value = section.get(name) if isinstance(section, Mapping) else None
    if not isinstance(value, str):
        raise _wrong(path, f"{name!r} is {value!r} in {section!r}", "expected a text")
    return value


def _list(value: Any, path: Path, name: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(path, f"{name!r} is {value!r}", "expected a list")
    return value


def _wrong(path: Path, message: str, valid: str) -> RightsTupleError:
    return RightsTupleError(f"{path}: {message}; {valid}", value=str(path))
