"""Run a pipeline over views in SQL, three times: what each epoch changed in the view `cost`.

The inputs are copied to a scratch folder first, so that the example can be run again.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from deltafix.pipeline.config import read_config
from deltafix.pipeline.manifest import read_deltas
from deltafix.pipeline.runner import Pipeline

HERE = Path(__file__).resolve().parent
NEWS = (
    (
        "lighter wheels",
        "part/2-news.csv",
        "sign,product,part,quantity\n+,wheel,spoke,28\n-,hub,bolt,\n+,hub,axle,1\n",
    ),
    (
        "new prices",
        "price/2026-02.csv",
        "part,amount,valid_until\nbolt,0.05,2026-06-30\nspoke,0.20,\ntube,12.10,\naxle,3.00,\n",
    ),
)


def run(folder: Path, what: str) -> None:
    """One run, as `deltafix pipeline run` does it, and the rows that went and came."""
    sys.stdout.write(f"{what}\n")
    config = read_config(folder / "pipeline.toml")
    with Pipeline(config) as pipeline:
        for epoch in pipeline.drain():
            table = read_deltas(config.outputs[0].path, epoch.epoch, epoch.epoch)
            rows = [] if table is None else table.to_pylist()
            for row in sorted(rows, key=lambda row: (row["product"], row["sign"])):
                sign = "+" if row["sign"] > 0 else "-"
                shown = [str(value) for value in list(row.values())[:4]]
                sys.stdout.write(f"  epoch {epoch.epoch}: {sign}{' '.join(shown)}\n")


def main() -> None:
    """The whole story."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "job"
        shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("run"))
        run(folder, "the beginning")
        for what, path, text in NEWS:
            (folder / "in" / path).write_text(text)
            run(folder, what)


if __name__ == "__main__":
    main()
