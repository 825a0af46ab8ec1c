"""The example of a cluster whose workers have no deltafix: it prints what its README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parents[3] / "examples" / "cluster"


def test_workers_without_deltafix_keep_the_rows_of_a_pipeline() -> None:
    wanted = re.search(r"```text\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    ran = subprocess.run(
        [sys.executable, EXAMPLE / "run.py"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert wanted is not None
    assert ran.stdout == wanted[1]
    assert "deltafix on the workers: no" in ran.stdout
