"""What works on the Spark that runs, for the page `docs/reference/spark.md`: `make versions`.

A plugin of pytest's: tests marked `shows` say what works if they pass; of several with one text
all must. Invariant: the file tells what ran, version by version, and the day of the last run; what
never ran is not there, and what ran before stays until it runs again.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any, Final

import pyspark
import pytest
from tests.connectors.jars import SETS

FILE: Final = Path(__file__).parents[1] / "connectors" / "versions.json"
_JARS: Final = ("delta", "iceberg", "kafka")
_ORDER: Final = ("failed", "skipped", "passed")
_SHOWN: dict[str, str] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Keep how it ended."""
    report: pytest.TestReport = yield
    if report.when == "call" or report.outcome != "passed":
        for mark in item.iter_markers("shows"):
            before = _SHOWN.get(mark.args[0], "passed")
            _SHOWN[mark.args[0]] = min(before, report.outcome, key=_ORDER.index)
            _write()
    return report


def _write() -> None:
    """Write what came out so far: a run that is stopped has seen that much."""
    table = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    before = table.get(pyspark.__version__, {}).get("shown", {})
    table[pyspark.__version__] = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "jars": {name: ":".join(SETS[name][0][1:]) for name in _JARS if name in SETS},
        "shown": dict(sorted({**before, **_SHOWN}.items())),
    }
    text = json.dumps(dict(sorted(table.items())), indent=1)
    FILE.write_text(text + "\n", encoding="utf-8")
