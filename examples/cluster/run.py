"""A cluster of two workers that have no deltafix, and a pipeline whose rows are in shards on them.

Usage: python run.py. Starts the cluster on this machine, runs the pipeline of `access-control` on
it, revokes, runs it again, and stops the cluster.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

from standalone import cluster

from deltafix.cli.main import main as deltafix
from deltafix.pipeline.manifest import read_view

HERE = Path(__file__).resolve().parent
JOB = """
[spark]
master = "{master}"
pyspark.python = "{python}"
deltafix.ship = true
cores.max = 2
executor.memory = "512m"
"""


def main() -> None:
    """The whole story."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        job = scratch / "job"
        shutil.copytree(HERE.parent / "access-control", job, ignore=shutil.ignore_patterns("run"))
        python = worker_python(scratch / "python")
        tell("deltafix on the workers:", "yes" if has_deltafix(python) else "no")
        with cluster(scratch) as here:
            with (job / "pipeline.toml").open("a") as file:
                file.write(JOB.format(master=here.address, python=python))
            run(job, "the beginning")
            (job / "in" / "member" / "2-news.csv").write_text("sign,who,group\n-,bo,compilers\n")
            run(job, "bo leaves the compilers")


def run(job: Path, what: str) -> None:
    """One run, as on the command line, and the view that it leaves."""
    try:
        deltafix(["pipeline", "run", "--quiet", "--executor", "shards", str(job / "pipeline.toml")])
    except SystemExit as ended:
        if ended.code:
            raise
    epoch, view = read_view(job / "run" / "can_read")
    tell(f"{what}: epoch {epoch}")
    for row in sorted(view.to_pylist(), key=lambda row: (row["who"], row["item"])):
        tell(f"  {row['who']} {row['item']}")
    shards = sorted(path.name for path in (job / "run" / "state" / "shards").iterdir())
    assert "manifest.json" in shards, shards  # noqa: S101  the rows are in shards


def worker_python(folder: Path) -> Path:
    """A Python with what deltafix needs, and without deltafix."""
    venv.create(folder, symlinks=True)
    places = {"base": str(folder), "platbase": str(folder)}
    here = Path(sysconfig.get_path("purelib", vars=places))
    # A path that a .pth names is not searched for more of them: where deltafix is installed to be
    # edited, it stays out.
    (here / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder / "bin" / "python"


def has_deltafix(python: Path) -> bool:
    """Whether it can be imported there."""
    ran = subprocess.run(  # noqa: S603  our own
        [python, "-c", "import numba, pyarrow, deltafix"],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode and "No module named 'deltafix'" not in ran.stderr:
        raise SystemExit(ran.stderr)
    return not ran.returncode


def tell(*words: str) -> None:
    """A line of output."""
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
