"""pytest plugin: reducers' laws as tests.

pytest finds it by itself wherever deltafix is installed (`pytest -p no:deltafix` leaves it out).
Two ways in:

- the fixture `check_reducer`: `check_reducer(MyReducer(), [3, 5])` fails the test with the
  counter-example as its message;
- the ini option `deltafix_reducers`, lines of `module:name`, each collected as a test of its own.

Invariant: nothing of deltafix is imported before a reducer is checked, so loading the plugin costs
a test session nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from deltafix.reducers.check import LawReport


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini option."""
    parser.addini(
        "deltafix_reducers",
        "reducers whose laws are checked as tests, one module:name per line",
        type="linelist",
        default=[],
    )


@pytest.fixture
def check_reducer() -> Callable[..., LawReport]:
    """Check a reducer's laws: `check_reducer(reducer, values, cases=200, seed=0)`.

    Returns the report; fails the test with the counter-examples if a law is broken.
    """
    return _checked


def _checked(reducer: Any, values: Iterable[Any], **options: Any) -> LawReport:
    __tracebackhide__ = True
    from deltafix.reducers.check import check_reducer as check  # noqa: PLC0415  see the module

    report = check(reducer, values, **options)
    if not report:
        pytest.fail(str(report), pytrace=False)
    return report


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add one test for each reducer of the ini option."""
    for name in config.getini("deltafix_reducers"):
        items.append(_ReducerLaws.from_parent(session, name=f"laws of {name}", reducer=name))


class _ReducerLaws(pytest.Item):
    """The laws of one reducer, tried on its `examples` or on integers."""

    def __init__(self, *, reducer: str, **given: Any) -> None:
        super().__init__(**given)
        self.reducer = reducer

    def runtest(self) -> None:
        """Check the laws."""
        from deltafix.cli.check_reducer import SAMPLES, find_reducer  # noqa: PLC0415

        found = find_reducer(self.reducer)
        _checked(found, getattr(found, "examples", None) or SAMPLES["int"])

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """The counter-example alone."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[str, int | None, str]:
        """Where and how it is called in reports."""
        return self.reducer.partition(":")[0], None, self.name
