"""The program that is run for the program that was written.

Invariant: `executable(checked)` is checked itself, and is `checked` where no pass applies. What is
wrong with a hint was reported by `check`; here nothing is refused any more.
"""

from __future__ import annotations

from dataclasses import replace

from deltafix.rules.check import CheckedProgram, typed
from deltafix.rules.passes.hints import inline_names, magic_names
from deltafix.rules.passes.inline import inlined
from deltafix.rules.passes.magic import magic


def executable(checked: CheckedProgram) -> CheckedProgram:
    """Inline, then compute on demand. Raises ProgramError as `typed` does."""
    program = checked.program
    if not inline_names(program) and not magic_names(program):
        return checked
    written_out, _ = inlined(program, [one.rule for one in checked.rules])
    # The pragmas of the passes were obeyed; their names may be gone.
    pragmas = tuple(pragma for pragma in program.pragmas if pragma[0] == "word-size")
    return typed(replace(magic(written_out), pragmas=pragmas))
