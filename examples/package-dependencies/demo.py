"""What would autoremove take away? Wishes in, and what changes, epoch by epoch.

    python demo.py                                the small lists beside this file
    python demo.py / -curl +figlet -figlet        this machine's own lists; nothing is changed

A wish is -PACKAGE (remove it), +PACKAGE (install it); they add up. The inputs are copied to a
scratch folder first, so that the example can be run again.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from deltafix.pipeline.config import read_config
from deltafix.pipeline.manifest import read_deltas
from deltafix.pipeline.runner import Pipeline

HERE = Path(__file__).resolve().parent
SHOWN = 12


def run(pipeline: Pipeline, what: str) -> None:
    """What an epoch changes in each output."""
    began = time.perf_counter()
    sys.stdout.write(f"{what}\n")
    epochs = [epoch.epoch for epoch in pipeline.drain()]
    seconds = time.perf_counter() - began
    for output in pipeline.config.outputs:
        table = read_deltas(output.path, epochs[0], epochs[-1])
        rows = [] if table is None else table.to_pylist()
        for sign, shown in ((-1, f"no longer {output.relation}"), (1, output.relation)):
            names = sorted(row["package"] for row in rows if row["sign"] == sign)
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            if names:
                sys.stdout.write(f"  {shown}: {', '.join(names[:SHOWN])}{more}\n")
    sys.stderr.write(f"  ({seconds:.2f} s)\n")


def main(root: str, wishes: list[str]) -> None:
    """The lists, then each wish."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "job"
        shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("run"))
        file = folder / "pipeline.toml"
        file.write_text(file.read_text().replace('path = "small"', f'path = "{root}"'))
        with Pipeline(read_config(file)) as pipeline:
            run(pipeline, f"the lists of {root}")
            for number, wish in enumerate(wishes, start=1):
                sign, package = wish[0], wish[1:]
                relation = "wish_install" if sign == "+" else "wish_remove"
                path = folder / "in" / relation / f"{number}.csv"
                path.write_text(f"sign,package\n+,{package}\n")
                run(pipeline, f"{'install' if sign == '+' else 'remove'} {package}")


if __name__ == "__main__":
    main(*(sys.argv[1:2] or ["small"]), sys.argv[2:] or ["-plugin", "+viewer", "-editor"])
