"""Opening a database: the one door from a program to the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from deltafix.diagnostics import suggest
from deltafix.engine.bind import require_reducers
from deltafix.engine.database import Database
from deltafix.engine.outside import Users
from deltafix.engine.run import STRATEGIES, Budget
from deltafix.errors import ProgramError
from deltafix.rules.ast import Program
from deltafix.store.disk import FSYNC

if TYPE_CHECKING:
    from deltafix.reducers.aggregate import UserReducer


def connect(
    program: Program | str | Callable[[Mapping[str, Any]], Program],
    path: str | Path = ":memory:",
    *,
    fsync: str = "always",
    strategy: str = "wavefront",
    max_rows: int | None = None,
    max_rounds: int | None = None,
    max_recursion: int | None = None,
    timeout: float | None = None,
    threads: int | None = None,
    functors: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
    reducers: Mapping[str, UserReducer] = MappingProxyType({}),
    profile: bool = False,
    physical: bool = False,
) -> Database:
    """Open a database for a program.

    The program's own facts are evaluated now, unless inputs can bound what follows from them: then
    nothing is, before the first commit or the first read (docs/semantics.md).

    Args:
        program: a Program, its text, or a function that gives a Program for the marks of the state
            (docs/concepts/state.md): called once, before anything else is read of the program,
            `functors` and `reducers`.
        path: `":memory:"`, or a state folder (made if it is not there), by path or by URL (`s3://`,
            `gs://`, `az://`): its given rows outlive the process, and derived ones come back from
            its image or are derived when it is opened (docs/concepts/state.md).
        fsync: when an epoch's record is on the disk: `always` (before its commit returns),
            `interval` (within a second after), or `never` (when the system likes).
        strategy: the schedule of maintenance: `wavefront`, `local`, `deletes_first`,
            `inserts_first`, `dred`, `recompute`, or `auto` (wavefront, but recompute when a
            large share of the given rows changes). All give the same deltas.
        max_rows: bound on rows that one epoch may derive.
        max_rounds: bound on facts that one epoch may take up in recursive strata.
        max_recursion: bound on facts that one epoch may take up in a recursion that computes new
            values, such as `n(x + 1) :- n(x).`, which may have no end. One within the bound is
            never ended; one without end may take up 1,000,000 facts more.
        timeout: bound on the seconds of one epoch.
        threads: how many may share the evaluation of a large change (docs/kernel.md, "Lanes");
            None: one for each processor that the process may use, up to 16. No answer depends on
            it.
        functors: the Python function behind each `@name` of the program: same arguments, same
            value, no side effects; None means that there is no value, and nothing is derived.
        reducers: the reducer behind each user aggregate of the program.
        physical: have rows as the engine has them, days and units for dates and decimals
            (docs/reference/language.md, "Logical types"): for those who convert columns themselves.
        profile: take the seconds of every stratum (`db.last_epoch.strata`); 1 µs a stratum.

    Raises:
        ProgramError: the program is not valid; carries every diagnostic.
        FunctorError: a functor or reducer of the program was not given, or failed on its facts.
        ReducerError: what was given for a reducer is none.
        ValueError: an unknown strategy or fsync policy, or less than one thread.
        StateInUseError: another database has the folder.
        StateError: the folder is damaged, or of another program.
    """
    require_settings(strategy, fsync, threads)
    require_reducers(reducers)
    if isinstance(program, str):
        from deltafix.datalog.program import Program as Text  # noqa: PLC0415

        if program.endswith(".dl") and "\n" not in program:
            message = f"{program!r} is a path, and connect takes a program or the text of one"
            raise ProgramError(f"{message}: deltafix.Program.from_file({program!r})")
        program = Text.parse(program)
    budget = Budget(max_rows, max_rounds, timeout, threads, max_recursion)
    users = Users(functors, reducers)
    if str(path) == ":memory:":
        if not isinstance(program, Program):
            program = program({})
        return Database(
            program, strategy=strategy, budget=budget, users=users, profile=profile,
            physical=physical,
        )  # fmt: skip
    from deltafix.engine.state.durable import DurableDatabase  # noqa: PLC0415  pyarrow is slow

    return DurableDatabase(
        program, path, fsync, strategy=strategy, budget=budget, users=users, profile=profile,
        physical=physical,
    )  # fmt: skip


def require_settings(
    strategy: str = "wavefront", fsync: str = "always", threads: int | None = None
) -> None:
    """Raise ValueError for what `connect` does not take of these."""
    if fsync not in FSYNC:
        raise ValueError(f"unknown fsync={fsync!r}; one of {', '.join(FSYNC)}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads={threads}: at least 1, or None for one a processor")
    known = [*STRATEGIES, "auto"]
    if strategy not in known:
        hint = suggest(strategy, known)
        message = f"unknown strategy {strategy!r}; one of {', '.join(known)}"
        raise ValueError(message + (f" (did you mean {hint!r}?)" if hint else ""))
