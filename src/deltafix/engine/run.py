"""Driving the kernel through an epoch: budgets, time, cancellation, errors.

The kernel works in slices of `SLICE` rows probed and derivations found; between slices Python
sees signals (Ctrl-C), the clock and `cancel`. Invariant: a run that does not finish leaves the
arena for `rollback`, and raises an error that names the setting.

Between two slices limits are looked at, and a word is said on how far the epoch is; nothing there
changes a row, and a run does not keep its database alive. `.limitsize`: Soufflé stops a recursion
after the round in which a relation comes to its limit. What is there after so many rounds is no
function of the rules, so there is no delta of it: here the epoch fails, and no committed epoch
leaves a recursive relation over its limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

from deltafix.diagnostics import plural
from deltafix.doing import hearer, tell
from deltafix.engine.lanes import Lanes
from deltafix.engine.link import Linked
from deltafix.engine.store import relation_cell
from deltafix.engine.threads import processors
from deltafix.errors import BudgetError, CancelledError, FunctorError, InternalError, LimitError
from deltafix.kernel import layout as at
from deltafix.kernel.arena import Arena, Words
from deltafix.kernel.entries import maintain
from deltafix.kernel.jit import JIT_DISABLED
from deltafix.plan.clause import Absent, Match
from deltafix.plan.ir import Plan
from deltafix.rules.ast import Program
from deltafix.rules.strata import recursive_relations, strata

SLICE = 20_000 if JIT_DISABLED else 1_000_000
"""Rows and derivations between two looks at the clock: about a tenth of a second.

As plain Python some fifty times as long a step: a million of them took twenty minutes.
"""

_LEAST_SLICE = 1000
"""Where `max_recursion`, which is looked at between slices, is so small."""

_ON = frozenset((at.YIELD, at.ASK, at.OUTSIDE, at.SHARE))

STRATEGIES = {
    "wavefront": at.WAVEFRONT,
    "local": at.LOCAL,
    "deletes_first": at.DELETES_FIRST,
    "inserts_first": at.INSERTS_FIRST,
    "dred": at.DRED,
    "recompute": at.RECOMPUTE,
}


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds of one epoch: rows created, facts taken up, seconds, threads. None: no bound.

    `max_recursion` is of facts taken up in one stratum that may have no end (`Stage.may_grow`).
    """

    max_rows: int | None = None
    max_rounds: int | None = None
    timeout: float | None = None
    threads: int | None = None
    max_recursion: int | None = None


def set_budget(arena: Arena, budget: Budget) -> None:
    """Write a budget where the kernel looks."""
    arena.cells[at.MAX_ROWS] = budget.max_rows or 0
    arena.cells[at.MAX_ROUNDS] = budget.max_rounds or 0
    arena.cells[at.LANES] = min(processors(), budget.threads or at.MAX_LANES)
    length = min(SLICE, max(budget.max_recursion or SLICE, _LEAST_SLICE))
    arena.cells[at.SLICE] = length
    arena.cells[at.QUOTA] = length
    arena.cells[at.S_STRATUM] = -1


def stratum_of(arena: Arena) -> int:
    """The number of the stratum that a run is in, or has just left."""
    return int(arena.cells[at.S_STRATUM]) - int(arena.cells[at.S_PHASE] == -1)


def is_in_doubt(arena: Arena) -> bool:
    """Whether a run that a functor's error ended may have called it of a row that goes.

    While a recursion is retracted, what is newly given is joined with rows that nobody knows to
    hold (SAVE, WAVE); where inserts come first, in all phases. Everywhere else rows do hold.
    """
    cells = arena.cells
    doubtful = (
        cells[at.S_PHASE] % 16 in (at.PHASE_SAVE, at.PHASE_WAVE)
        or cells[at.STRATEGY] == at.INSERTS_FIRST
    )
    return bool(cells[at.RECURSIVE] and doubtful)


class Run:
    """One epoch of the kernel, from `maintain` to its end.

    `reply` and `compute` do what it stops for: ASK a functor's value, OUTSIDE for a stratum (which
    is told when the epoch began, and its bounds). Threads share what is large (`lanes`). `size` is
    how many strata the program has; `strata` collects seconds by number of stratum where
    `BY_STRATUM` is set; `watch` is called between slices, with the budget and what had been taken
    up when each stratum was met (`Limits.check_recursion`), and what it raises ends the epoch.
    Between slices pages that tables have outgrown are given back, too, under `gate`, which other
    threads hold while they read: at the end of the epoch they were 0.9 of 4.9 GB (galen).
    """

    __slots__ = (
        "_arena", "_compute", "_gate", "_lanes", "_reply", "_taken", "program", "size", "strata",
        "watch",
    )  # fmt: skip

    def __init__(
        self,
        arena: Arena,
        program: Words,
        reply: Callable[[], None],
        compute: Callable[[float, Budget], None],
        gate: AbstractContextManager[object] | None = None,
    ) -> None:
        self._arena = arena
        self.program = program
        self.size = int(program[0])
        self._reply = reply
        self._gate = gate or nullcontext()
        self._compute = compute
        self._lanes = Lanes(arena, self._gate)
        self.strata: dict[int, float] = {}
        self.watch: Callable[[Budget, dict[int, int]], None] | None = None
        self._taken: dict[int, int] = {}

    def epoch(self, budget: Budget) -> None:
        """Run an epoch to its end.

        Raises BudgetError, CancelledError, LimitError, MemoryError, and what user functions raise.
        """
        arena, program = self._arena, self.program
        words, cells, numbers = arena.words, arena.cells, arena.numbers
        clocked = numbers[at.BY_STRATUM] != 0
        began = time.perf_counter() if clocked else 0.0
        if numbers[at.TO_FILL]:
            self._lanes.fill()
        outcome = maintain(words, cells, program)
        if outcome == at.DONE:
            if numbers[at.TO_FILL]:
                self._lanes.fill()
            return
        began = began or time.perf_counter()
        last = began
        self.strata.clear()
        self._taken.clear()
        while outcome in _ON:
            if clocked:
                last = self._clock(last)
            if budget.timeout is not None and time.perf_counter() - began > budget.timeout:
                raise _took_longer(budget)
            if outcome == at.ASK:
                self._reply()
            elif outcome == at.OUTSIDE:
                self._compute(began, budget)
            elif outcome == at.SHARE:
                between = partial(self._between, began, budget)
                self._lanes.run(program, between)
                between()
            elif numbers[at.C_PROBED] + numbers[at.C_DERIVATIONS] > numbers[at.QUOTA]:
                numbers[at.QUOTA] += numbers[at.SLICE]
                with self._gate:
                    arena.release(keep=True)
                if self.watch is not None:
                    self.watch(budget, self._taken)
            outcome = maintain(words, cells, program)
        if outcome == at.STOPPED:
            _raise(numbers[at.ERROR], budget)
        if numbers[at.TO_FILL]:
            self._lanes.fill()

    def _between(self, began: float, budget: Budget) -> None:
        """What is looked at between two slices, where lanes are at work."""
        cells = self._arena.cells
        if cells[at.CANCEL] or cells[at.ERROR]:
            _raise(int(cells[at.ERROR]) or at.ERR_CANCEL, budget)
        if budget.timeout is not None and time.perf_counter() - began > budget.timeout:
            raise _took_longer(budget)
        with self._gate:
            self._arena.release(keep=True)
        if self.watch is not None:
            self.watch(budget, self._taken)
        cells[at.QUOTA] = cells[at.C_PROBED] + cells[at.C_DERIVATIONS] + cells[at.SLICE]

    def _clock(self, last: float) -> float:
        """Add the time since `last` to the stratum that the run is in, or has just left."""
        now = time.perf_counter()
        stratum = stratum_of(self._arena)
        self.strata[stratum] = self.strata.get(stratum, 0.0) + now - last
        return now


def _took_longer(budget: Budget) -> BudgetError:
    return BudgetError(f"the epoch took longer than timeout={budget.timeout} s; rolled back")


def _raise(error: int, budget: Budget) -> None:
    if error == at.ERR_ROWS:
        message = f"the epoch derived more than max_rows={budget.max_rows} new rows; rolled back"
        raise BudgetError(message)
    if error == at.ERR_ROUNDS:
        message = f"the epoch took up more than max_rounds={budget.max_rounds} facts; rolled back"
        raise BudgetError(message)
    if error == at.ERR_CANCEL:
        raise CancelledError("cancelled; rolled back")
    if error == at.ERR_SUPPORT:
        raise LimitError("a row has more than 2147483647 derivations; rolled back")
    raise InternalError(f"kernel: stopped with unknown error {error}")


_SHOWN = 2
"""Relations of a stratum that are named: a line has room for no more."""


def between(arena: Arena, limits: Limits, budget: Budget, taken: dict[int, int]) -> None:
    """Hold the rows against the limits, and tell how far the epoch is. Raises BudgetError."""
    limits.check()
    limits.check_recursion(budget, taken)
    if hearer() is None:
        return
    linked = limits.linked
    stages, number = linked.plan.stages, stratum_of(arena)
    if 0 <= number < len(stages):
        rows = {
            name: relation_cell(arena, linked.ids[name], at.R_NOW)
            for name in stages[number].relations
        }
        named = named_in(linked.plan, number)
        if rows.keys() >= set(named):
            sizes = [f"{name}: {plural(rows[name], 'row')}" for name in named[:_SHOWN]]
            shown = ", ".join(sizes) + (", …" if named[_SHOWN:] else "")
        else:
            shown = f"for {', '.join(named[:_SHOWN])}: {plural(sum(rows.values()), 'row')}"
        tell(f"{shown} (stratum {number + 1} of {len(stages)})")


def named_in(plan: Plan, number: int) -> list[str]:
    """The relations of a stratum that somebody wrote; where none is, the first ones it is for."""
    made_for = {relation.name: relation.of for relation in plan.relations if not relation.hidden}
    needed = set(plan.stages[number].relations)
    for stage in plan.stages[number:]:
        own = stage.relations
        reads = {
            literal.relation
            for clause in stage.clauses
            for literal in clause.body
            if isinstance(literal, Match | Absent)
        }
        reads.update(stage.outside.reads if stage.outside is not None else ())
        if not needed.isdisjoint((*own, *reads)):
            needed.update(own)
            known = [name for name in own if name in made_for]
            names = [name for name in known if not made_for[name]]
            names = names or [made_for[name] for name in known]
            if names:
                return list(dict.fromkeys(names))
    return [*plan.stages[number].relations]


def stopped(
    arena: Arena, linked: Linked, error: BudgetError | FunctorError
) -> BudgetError | FunctorError:
    """The error of a run with what was computed then; of a budget, with the ways out."""
    stages, number = linked.plan.stages, stratum_of(arena)
    if not (0 <= number < len(stages) and stages[number].relations):
        return error
    named = named_in(linked.plan, number)
    shown = ", ".join(f"`{name}`" for name in named[:_SHOWN]) + (", …" if named[_SHOWN:] else "")
    message, _, said = str(error).partition("; rolled back")
    if isinstance(error, FunctorError):
        values = {**error.values, "relations": named}
        return FunctorError(f"{message}, in {shown}; rolled back{said}", **values)
    limit = message.rpartition("=")[0].rpartition(" ")[2]
    ways_out = ["bound its recursion"] if stages[number].recursive else []
    advice = " or ".join([*ways_out, f"raise {limit}"])
    values = {"relations": named, "limit": limit}
    return BudgetError(f"{message}, in {shown}; rolled back: {advice}", **values)


class Limits:
    """The `limits` of a program, `linked` as epochs run it; `check` holds rows against them."""

    __slots__ = ("_arena", "limits", "linked")

    def __init__(self, program: Program, arena: Arena, linked: Linked) -> None:
        self._arena = arena
        self.linked = linked
        given = [directive for directive in program.directives if directive.kind == "limitsize"]
        recursive = recursive_relations(strata(program)) if given else ()
        self.limits = [
            (directive.relation, linked.ids[directive.relation], int(directive.parameters["n"]))
            for directive in given
            if directive.relation in recursive
        ]

    def check(self) -> None:
        """Raise BudgetError if a relation has more rows now than its limit. O(limits)."""
        for name, number, most in self.limits:
            rows = relation_cell(self._arena, number, at.R_NOW)
            if rows > most:
                message = (
                    f"`{name}` has {rows} rows, .limitsize allows n={most}; rolled back, since "
                    "a recursion that is stopped has no exact answer"
                )
                raise BudgetError(message)

    def check_recursion(self, budget: Budget, taken: dict[int, int]) -> None:
        """Raise BudgetError if the stratum that runs may have no end, and took up too much.

        `taken` says, of each stratum that was met in the epoch, how much had been taken up in it
        and before when it was first met: a slice behind its start at most, so that no recursion
        within the bound is ended.
        """
        stages, number = self.linked.plan.stages, stratum_of(self._arena)
        if budget.max_recursion is None or not 0 <= number < len(stages):
            return
        facts = int(self._arena.cells[at.C_TAKEN])
        more = facts - taken.setdefault(number, facts)
        if more > budget.max_recursion and stages[number].may_grow:
            raise grew(budget)


def grew(budget: Budget) -> BudgetError:
    """The error of a recursion that may have no end."""
    return BudgetError(
        f"a recursion that computes new values had no end after max_recursion="
        f"{budget.max_recursion} facts; rolled back"
    )
