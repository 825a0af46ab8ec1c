"""The process `deltafix`, or `python -m deltafix`: listens for Ctrl-C before all else."""

from __future__ import annotations

import sys
from typing import NoReturn

from deltafix.interrupt import INTERRUPTED, SAID, Interrupt, ended, listen


def main() -> NoReturn:
    """Run the command line, and end the process with its code."""
    code = INTERRUPTED
    try:
        listen()
        from deltafix.cli.main import main as command_line  # noqa: PLC0415  it takes its time

        command_line()
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    except Interrupt:  # before there was a command
        sys.stderr.write(SAID)
    finally:
        ended(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
