"""The process `deltafix`, or `python -m deltafix`: listens for signals before all else."""

from __future__ import annotations

import sys
from typing import NoReturn

from deltafix.collector import seldom
from deltafix.interrupt import INTERRUPTED, Interrupt, ended, listen, outcome


def main() -> NoReturn:
    """Run the command line, and end the process with its code."""
    code = INTERRUPTED
    try:
        listen()
        seldom()
        from deltafix.cli.main import main as command_line  # noqa: PLC0415  it takes its time

        command_line()
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    except Interrupt:  # before there was a command
        code, said = outcome()
        sys.stderr.write(said)
    finally:
        ended(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
