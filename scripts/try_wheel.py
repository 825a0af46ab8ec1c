"""Try a wheel as a stranger would: `scripts/try_wheel.py FILE.whl`. Run by `make try-wheel`.

For each version of Python that can be had (`pythons`): an environment of its own with the wheel and
the newest of what it asks for, an empty home folder, and a working folder that is not the
project's. Invariant: what is tried is what was installed, and nothing is skipped in silence: a
Python that cannot be had has a line that says why. Exit code 1 where something failed, or where no
Python was found.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pythons

KEPT = Path(__file__).resolve().parent.parent / "build" / "pythons"

PROGRAM = """\
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
PATHS = "---------------\npath\n===============\na\tb\na\tc\nb\tc\n===============\n"

SCRIPT = """\
CREATE TABLE sold(item VARCHAR, price INT);
CREATE VIEW total AS SELECT item, sum(price) AS price FROM sold GROUP BY item;
INSERT INTO sold VALUES ('pen', 2), ('pen', 3);
DELETE FROM sold WHERE price = 2;
"""
CHANGES = "+total\tpen\t5\n-total\tpen\t5\n+total\tpen\t3\n"

# The types that come with the package are seen: the last line is the one error, and says what for.
TYPED = """\
import deltafix

program = deltafix.Program.parse(".decl n(x: number)  .input n  .output n")
with deltafix.connect(program) as db:
    with db.transaction() as tx:
        count: int = tx.insert("n", [(1,), (2,)])
    assert tx.delta["n"].added == [(1,), (2,)], tx.delta
    assert count == 2, count
print(deltafix.__file__)
wrong: str = db.count("n")
"""
MISTAKE = "typed.py:10: error: Incompatible types in assignment"


class TryError(Exception):
    """What did not come out as it should."""


def try_on(python: Path, wheel: Path, place: Path, *, typed: bool) -> None:
    """Install it below `place` and use it there, and its types if `typed`. Raises TryError."""
    home, work, venv = (place / name for name in ("home", "work", "venv"))
    home.mkdir()
    work.mkdir()
    here = venv / "bin"
    alone = {"HOME": str(home), "PATH": f"{here}:/usr/bin:/bin", "LANG": "C.UTF-8"}

    def run(*command: str | Path, code: int = 0) -> tuple[str, str]:
        ran = subprocess.run(
            command, cwd=work, env=alone, capture_output=True, text=True, check=False
        )
        if ran.returncode != code:
            shown = f"{' '.join(map(str, command))}: exit code {ran.returncode}, not {code}"
            raise TryError(f"{shown}\n{ran.stdout}{ran.stderr}")
        return ran.stdout, ran.stderr

    def install(what: str) -> None:  # with the environment as it is: where packages come from
        pip = (sys.executable, "-m", "pip", "--python", here / "python", "install")
        command = (*pip, "--quiet", "--no-compile", what)
        ran = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise TryError(f"pip install {what}\n{ran.stderr}")

    def same(what: str, found: str, expected: str) -> None:
        if found != expected:
            raise TryError(f"{what}: expected\n{expected}\nand got\n{found}")

    (work / "p.dl").write_text(PROGRAM)
    (work / "edge.facts").write_text("a\tb\nb\tc\n")
    (work / "s.sql").write_text(SCRIPT)
    (work / "typed.py").write_text(TYPED)
    run(python, "-m", "venv", "--without-pip", venv)
    install(str(wheel))
    (package,) = venv.glob("lib/python*/site-packages/deltafix")
    run(here / "python", "-W", "error", "-m", "compileall", "-q", package)  # warns of nothing

    same("--version", run("deltafix", "--version")[0], f"deltafix {wheel.name.split('-')[1]}\n")
    out, said = run("deltafix", "run", "p.dl", "-D", "-")
    same("deltafix run", out, PATHS)
    if not wheel.name.endswith("-any.whl"):  # it brings the kernel compiled
        same("deltafix run, on standard error", said, "")
    missing = run("deltafix", "sql", "s.sql", code=2)[1]
    if "pip install 'deltafix[sql]'" not in missing or "Traceback" in missing:
        raise TryError(f"deltafix sql without its extra:\n{missing}")
    install(f"{wheel}[sql]")
    same("deltafix sql", run("deltafix", "sql", "s.sql")[0], CHANGES)
    if not Path(run(here / "python", "typed.py")[0].strip()).is_relative_to(venv):
        raise TryError("import deltafix: not from where it was installed")
    if not typed:
        return
    types = ("--strict", "--python-executable", here / "python", "--cache-dir", place / "mypy")
    found = run(sys.executable, "-m", "mypy", *types, "typed.py", code=1)[0]
    if not found.startswith(MISTAKE) or "Found 1 error" not in found:
        raise TryError(f"mypy: expected one error, {MISTAKE}\n{found}")


def main(wheel: Path) -> int:
    """Try it on each Python and say what came of it; the exit code."""
    passed = failed = 0
    for version, python in pythons.find(KEPT):
        if isinstance(python, str):
            print(f"{version}: not on this machine, and {python}: not tried")
            continue
        began = time.perf_counter()
        place = Path(tempfile.mkdtemp(prefix="deltafix-wheel-")).resolve()
        try:
            try_on(python, wheel.resolve(), place, typed=not passed)  # once: they are the same
        except TryError as error:
            failed += 1
            print(f"{version}: FAILED ({python})\n{error}")
        else:
            took = time.perf_counter() - began
            print(
                f"{version}: --version, run, sql, a missing extra{', types' * (not passed)} and "
                f"import passed in {took:.0f} s ({python})"
            )
            passed += 1
        finally:
            shutil.rmtree(place)
    if not passed + failed:
        print(f"none of {', '.join(pythons.VERSIONS)} can be had: the wheel is not tried")
    return int(failed or not passed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
