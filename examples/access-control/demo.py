"""Run the pipeline, revoke, run it again: what each epoch changed, and that it is exact.

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
    ("bo leaves the compilers", "member", "sign,who,group\n-,bo,compilers\n"),
    (
        "staff may not read the company's folder",
        "grant",
        "sign,group,item\n-,staff,company\n",
    ),
    ("finance may read the money folder", "grant", "sign,group,item\n+,finance,money\n"),
)


def run(folder: Path, what: str) -> None:
    """One run, as `deltafix pipeline run` does it, and the rights that came and went."""
    sys.stdout.write(f"{what}\n")
    config = read_config(folder / "pipeline.toml")
    with Pipeline(config) as pipeline:
        for epoch in pipeline.drain():
            table = read_deltas(config.outputs[0].path, epoch.epoch, epoch.epoch)
            rows = [] if table is None else table.to_pylist()
            for row in sorted(rows, key=lambda row: (row["sign"], row["who"], row["item"])):
                sign = "+" if row["sign"] > 0 else "-"
                sys.stdout.write(f"  epoch {epoch.epoch}: {sign}{row['who']} {row['item']}\n")


def main() -> None:
    """The whole story."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "job"
        shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("run"))
        run(folder, "the beginning")
        for number, (what, relation, text) in enumerate(NEWS, start=2):
            (folder / "in" / relation / f"{number}-news.csv").write_text(text)
            run(folder, what)


if __name__ == "__main__":
    main()
