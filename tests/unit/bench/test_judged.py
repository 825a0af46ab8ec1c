"""The comparison of types and calls: what it counts, on a package where the mistakes are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.analyses.checker import Checked, check
from bench.analyses.judged import (
    judge,
    judge_calls,
    judge_run,
    judge_types,
    judge_values,
    without_annotations,
)
from bench.analyses.projects import NoProjectError
from bench.analyses.traced import observe

from deltafix.analyses.job import Job
from deltafix.analyses.types import TYPES

SHOP = """
from __future__ import annotations

from collections.abc import Iterable


class Item:
    price: float = 1.0

    def __init__(self, name: str) -> None:
        self.name = name

    def cost(self) -> float:
        return self.price

    @property
    def label(self) -> str:
        return self.name


class Gift(Item):
    def cost(self) -> float:
        return 0.0


def total(items: Iterable[Item], rate: float | None = None) -> float:
    found = 0.0
    for item in items:
        found += item.cost()
    return found


def both(key: str) -> int | str:
    if key:
        return key
    return 1


def run() -> str:
    box = [Item("pen"), Gift("ink")]
    said = both("x")
    total(box)
    return box[0].label
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    folder = tmp_path_factory.mktemp("judged") / "shop"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "stock.py").write_text(SHOP)
    return check(folder)


@pytest.fixture(scope="module")
def live() -> Iterator[Job]:
    with Job(TYPES) as job:
        yield job


def read(job: Job, text: str) -> None:
    job.update([TYPES.extract("stock.py", text.encode(), "shop")])


def test_mypy_says_types_and_callees_under_the_ids_of_the_analyses(checked: Checked) -> None:
    said = {place: {str(one) for one in kinds} for place, kinds in checked.types.items()}
    assert said["parameter", "shop.stock:total", "rate"] == {"float", "None"}
    assert said["returns", "shop.stock:both", "return"] == {"int", "str"}
    assert said["attribute", "shop.stock:Item", "name"] == {"str"}
    assert said["variable", "shop.stock:run", "box"] == {"list[Any]"}
    static = {("shop.stock:total", "shop.stock:Item.cost"), ("shop.stock:run", "shop.stock:both")}
    static |= {("shop.stock:run", f"shop.stock:{one}") for one in ("total", "Item.label")}
    static |= {("shop.stock:run", "shop.stock:Item.__init__")}
    assert checked.calls == static
    assert checked.maybe == static | {("shop.stock:total", "shop.stock:Gift.cost")}
    assert checked.open == set()


def test_a_class_is_within_a_type_as_mypy_has_it(checked: Checked) -> None:
    items = checked.types["parameter", "shop.stock:total", "items"][0]
    assert checked.within("list", items) is True
    assert checked.within("str", items) is True  # arguments are left out
    assert checked.within("int", items) is False
    price = checked.types["attribute", "shop.stock:Item", "price"][0]
    assert checked.within("int", price) is True
    assert checked.within("shop.stock:Gift", price) is False
    assert checked.within("shop.stock:NoSuchClass", price) is None


def test_the_same_source_agrees(live: Job, checked: Checked) -> None:
    read(live, SHOP)
    found = judge_types(live, checked)
    assert found.differ == []
    assert set(found.verdicts) == {"agree"}
    assert found.shares() == ["100.0%", "100.0%"]
    assert found.verdicts["agree"] > 15


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("-> int | str", "-> str", "narrower"),
        ("def both(key: str)", "def both(key: str | list)", "wider"),
        ("def both(key: str)", "def both(key: list)", "disjoint"),
        ("-> int | str", "-> str | list", "overlap"),
        ("def both(key: str)", "def both(key: NoSuchClass)", "unknown"),
        ('both("x")', "None", "disjoint"),
        ("rate: float | None = None", "rate", "nothing"),
    ],
)
def test_a_mistake_is_told_as_what_it_is(
    live: Job, checked: Checked, old: str, new: str, verdict: str
) -> None:
    assert old in SHOP
    read(live, SHOP.replace(old, new))
    found = judge_types(live, checked)
    assert found.verdicts[verdict] >= 1
    told = {line.partition(":")[0] for line in found.differ}
    assert told == ({verdict} - {"unknown", "nothing"})


def test_recall_and_precision_count_what_they_say(live: Job, checked: Checked) -> None:
    read(live, SHOP)
    every = judge_types(live, checked)
    read(live, SHOP.replace("-> int | str", "-> str | list"))
    found = judge_types(live, checked)
    # `both` and what holds its answer: `int` is missed twice, `list` is said twice.
    assert (every.missed, every.wrong) == (0, 0)
    assert found.missed == found.wrong >= 1


def test_calls_are_judged_by_pairs(checked: Checked) -> None:
    a, b = "shop.stock:total", "shop.stock:run"
    every = judge_calls(checked.maybe, checked)
    assert (every.found, every.missed, every.right, every.wrong) == (5, 0, 6, 0)
    pairs = {(a, "shop.stock:Gift.cost"), (b, a), (a, b), (b, "shop.stock:Item.__eq__")}
    found = judge_calls(pairs, checked)
    assert (found.found, found.missed, found.right, found.wrong) == (1, 4, 2, 1)
    assert f"wrong: {a} -> {b}" in found.differ


def test_a_run_is_judged_by_what_happened(tmp_path: Path, live: Job) -> None:
    text = SHOP + "\n\ndef idle() -> None:\n    run()\n"
    path = tmp_path / "stock.py"
    path.write_text(text)
    read(live, text)
    space: dict[str, object] = {"__name__": "shop.stock"}
    code = compile(text, str(path), "exec")

    def script() -> None:
        exec(code, space)  # noqa: S102
        space["run"]()  # type: ignore[operator]

    seen = observe(script, tmp_path)
    functions = frozenset(str(row[0]) for row in live.rows("function"))
    a, b = "shop.stock:total", "shop.stock:run"
    ours = {(b, a), (a, b), ("shop.stock:idle", b)}  # idle did not run: nothing is said of it
    found = judge_run(ours, seen, functions)
    assert (found.found, found.right, found.wrong) == (1, 1, 1)
    assert f"missed: {a} -> shop.stock:Gift.cost" in found.differ
    values = judge_values(live, seen)
    assert values.differ == []
    assert values.found > 6
    read(live, text.replace("-> float", "-> str"))
    assert any("total return: float" in line for line in judge_values(live, seen).differ)


def test_annotations_of_functions_go_and_fields_stay() -> None:
    bare = without_annotations(SHOP.encode() + b"def f() -> int:\n    x: int = 1\n    y: int\n")
    text = bare.decode()
    assert "price: float = 1.0" in text
    assert "->" not in text
    assert "def total(items, rate=None):" in text
    assert "x = 1" in text
    assert "y" not in text.rpartition("def f()")[2].replace("x", "")


def test_the_tables_have_a_row_for_each_package_and_answer() -> None:
    lines = "\n".join(judge({"iniconfig": lambda: None}, differences=True))
    assert "| iniconfig | as written | " in lines
    assert "| iniconfig | without annotations | " in lines
    for graph in ("call-graph", "points-to", "mypy"):
        assert f"| iniconfig | {graph} | " in lines
    with pytest.raises(NoProjectError, match="no_such_package is not installed"):
        list(judge({"no_such_package": lambda: None}))
