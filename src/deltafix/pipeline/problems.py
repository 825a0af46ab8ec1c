"""Errors of parts that do not rest on each other, told together.

Invariant: what is raised at the end is of the first error's class and has its values, and the words
of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltafix.errors import DeltafixError, ProgramError


class Problems:
    """Errors, in the order in which parts were looked at."""

    def __init__(self) -> None:
        self.errors: list[DeltafixError] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the error of what is looked at inside, and go on behind it."""
        try:
            yield
        except DeltafixError as error:
            self.errors.append(error)

    def tell(self) -> None:
        """Raise what there is, if there is any."""
        if not self.errors:
            return
        first, *others = self.errors
        if not others:
            raise first
        message = "\n".join([str(first), *map(_shown, others)])
        if isinstance(first, ProgramError):
            raise type(first)(message, first.diagnostics)
        raise type(first)(message, **first.values)


def _shown(error: DeltafixError) -> str:
    """An error as the command line shows one; of a program they are shown so already."""
    return str(error) if isinstance(error, ProgramError) else f"error[{error.code}]: {error}"
