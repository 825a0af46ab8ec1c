"""`python -m bench.fuzz`: random programs and random edits for as long as you like.

Lives here: a loop over seeds. Each seed makes a program and an edit script (the generators of the
tests), plays it on one strategy after the other, and compares every epoch's change with the
oracle's recomputation; invariants of the live structure are checked after each epoch. A script is
also played one edit per epoch, on a program with a filter for each index of one column: the end
must be the same (split invariance).
A failure is shrunk (epochs, then edits, then rules are dropped while it still fails) and saved
as a story under `tests/fixtures/incremental`, where it stays as a test.
Invariant: a seed alone decides program and script, so `--seed N --programs 1` repeats a finding.

Exit code 0: no difference; 1: at least one; 2: a wrong command line.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar
from unittest.mock import patch

from tests.generators import strategies
from tests.support import stories

from deltafix import Program
from deltafix.engine import link

__all__ = ["Case", "Failure", "case_of", "main", "shrink", "trial"]

STRATEGIES = ("wavefront", "local", "deletes_first", "inserts_first", "dred", "recompute", "auto")
Script = tuple[tuple[stories.Edit, ...], ...]
Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True)
class Case:
    """A program's text and a valid script for it."""

    program: str
    script: Script

    def parsed(self) -> Program:
        """The program, checked."""
        return Program.parse(self.program)


@dataclasses.dataclass(frozen=True)
class Failure:
    """What went wrong with a case on one strategy."""

    case: Case
    strategy: str
    kind: str
    detail: str


def case_of(seed: int, features: frozenset[str] = strategies.FEATURES) -> Case:
    """The program and script of a seed. Sizes vary with the seed."""
    rng = Random(seed)
    program = strategies.random_program(rng, rng.randint(1, 6), features)
    script = strategies.random_script(
        rng, program, epochs=rng.randint(5, 40), edits=rng.randint(1, 10), far=True
    )
    assert program.source is not None
    return Case(program.source, tuple(tuple(epoch) for epoch in script))


def _split(script: Script) -> Script:
    return tuple((edit,) for epoch in script for edit in epoch)


def _sum(changes: Sequence[stories.Change]) -> dict[tuple[str, tuple[object, ...]], int]:
    """The rows that came (1) or went (-1) in all; those that came back are not among them."""
    net: Counter[tuple[str, tuple[object, ...]]] = Counter()
    for change in changes:
        for sign, name, row in change:
            net[name, row] += 1 if sign == "+" else -1
    return {row: sign for row, sign in net.items() if sign}


def trial(
    case: Case,
    strategy: str,
    split: bool = True,
    expected: Sequence[stories.Change] | None = None,
) -> Failure | None:
    """Play a case on a strategy; what differs from the oracle, or None.

    Args:
        case: what to play.
        strategy: deltafix's maintenance strategy.
        split: play it a second time, one edit per epoch, and compare where it ends.
        expected: the oracle's changes if they are known already.
    """
    program = case.parsed()
    if expected is None:
        expected = stories.judged(program, case.script)
    scripts = (case.script, _split(case.script)) if split else (case.script,)
    for prefix, script in zip(("", "split "), scripts, strict=False):
        try:
            with patch.object(link, "_MANY", 1 if prefix else link._MANY):
                found = stories.told(program, script, strategy)
        except Exception as error:
            return Failure(case, strategy, prefix + type(error).__name__, str(error)[:500])
        if prefix and _sum(found) != _sum(expected):
            return Failure(case, strategy, "split", "one edit per epoch ends elsewhere")
        if prefix or found == list(expected):
            continue
        pairs = enumerate(zip(expected, found, strict=True), 1)
        number, (want, have) = next((n, pair) for n, pair in pairs if pair[0] != pair[1])
        missing = sorted(map(stories.show, want - have))
        extra = sorted(map(stories.show, have - want))
        detail = f"epoch {number}: missing {missing}, not expected {extra}"
        return Failure(case, strategy, "difference", detail)
    return None


# -- shrinking --------------------------------------------------------------------------------


def _smaller(
    items: tuple[Item, ...], fails: Callable[[tuple[Item, ...]], bool]
) -> tuple[Item, ...]:
    """Delta debugging: drop ever smaller runs of items while `fails` stays true."""
    run = max(1, len(items) // 2)
    while run >= 1:
        at = 0
        while at < len(items):
            fewer = items[:at] + items[at + run :]
            if fails(fewer):
                items = fewer
            else:
                at += run
        run //= 2
    return items


def _valid(script: Script) -> Script:
    """Drop edits that insert what is there or delete what is not, as their cause was dropped."""
    present: set[tuple[str, tuple[object, ...]]] = set()
    kept = []
    for epoch in script:
        edits = []
        for sign, name, row in epoch:
            if ((name, row) in present) == (sign == "-"):
                edits.append((sign, name, row))
                (present.discard if sign == "-" else present.add)((name, row))
        kept.append(tuple(edits))
    return tuple(kept)


def shrink(failure: Failure, seconds: float = 60) -> Failure:
    """A smaller case that fails on the same strategy in the same way, found within `seconds`."""
    stop = time.monotonic() + seconds
    best = [failure]

    def fails(case: Case) -> bool:
        if time.monotonic() > stop:
            return False
        try:
            found = trial(case, failure.strategy, split=failure.kind.startswith("split"))
        except Exception:
            return (
                False  # dropping a rule may leave a program that does not check: not this failure
            )
        if found is None or found.kind != failure.kind:
            return False
        best[0] = found
        return True

    def with_script(script: Script) -> Case:
        return Case(best[0].case.program, _valid(script))

    before = None
    while before != best[0].case and time.monotonic() < stop:
        before = best[0].case
        _smaller(best[0].case.script, lambda epochs: fails(with_script(epochs)))
        flat = tuple((i, e) for i, epoch in enumerate(best[0].case.script) for e in epoch)
        count = len(best[0].case.script)

        def rebuilt(pairs: tuple[tuple[int, stories.Edit], ...], count: int = count) -> Script:
            return tuple(tuple(e for i, e in pairs if i == n) for n in range(count))

        _smaller(flat, lambda pairs: fails(with_script(rebuilt(pairs))))
        lines = tuple(best[0].case.program.splitlines())

        def with_lines(lines: tuple[str, ...]) -> Case:
            return Case("\n".join(lines) + "\n", best[0].case.script)

        _smaller(lines, lambda kept: fails(with_lines(kept)))
    return best[0]


def _save(failure: Failure, seed: int) -> Path:
    """Write a shrunk failure as a story; its expected changes are the oracle's."""
    program = failure.case.parsed()
    name = f"found-{failure.strategy.replace('_', '-')}-{seed}"
    story = stories.Story(
        name,
        f"Found by a long random run: {failure.strategy}, {failure.kind}.",
        failure.case.program,
        failure.case.script,
        tuple(stories.judged(program, failure.case.script)),
    )
    folder: Path = stories.FOLDER / name
    story.save(folder)
    return folder


def main(arguments: list[str] | None = None) -> int:
    """Run until the epochs, the programs or the minutes are used up; give the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.fuzz", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--seed", type=int, help="first seed (default: from the clock, printed)")
    parser.add_argument("--epochs", type=int, default=20_000, help="stop after so many")
    parser.add_argument("--programs", type=int, help="stop after so many programs")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=STRATEGIES)
    known = sorted(strategies.FEATURES)
    parser.add_argument("--without", nargs="+", choices=known, default=[], metavar="FEATURE")
    parser.add_argument("--failures", type=int, default=3, help="stop after so many failures")
    args = parser.parse_args(arguments)
    first = int(time.time()) if args.seed is None else args.seed
    stop = time.monotonic() + 60 * args.minutes
    features = strategies.FEATURES - set(args.without)
    print(f"seeds from {first}: {', '.join(args.strategies)}; {', '.join(sorted(features))}")
    epochs = programs = failures = 0
    refused: Counter[str] = Counter()
    said = time.monotonic()
    while epochs < args.epochs and time.monotonic() < stop and failures < args.failures:
        if args.programs is not None and programs >= args.programs:
            break
        seed = first + programs
        case = case_of(seed, features)
        programs += 1
        try:
            expected = stories.judged(case.parsed(), case.script)
        except Exception as error:
            failures += 1
            print(f"seed {seed}: the oracle raised {type(error).__name__}: {error}", flush=True)
            print(case.program, flush=True)
            continue
        for number, strategy in enumerate(args.strategies):
            # One strategy a program is enough for split invariance; all get their turn.
            split = seed % len(args.strategies) == number
            failure = trial(case, strategy, split, expected)
            if failure is not None and failure.kind == "ProgramError":
                # A documented limit, said before anything runs, is no wrong answer; it is counted.
                refused[
                    re.sub(r"`\w+`|rule \d+", "…", failure.detail.split("error[")[-1])[:70]
                ] += 1
                break
            epochs += len(case.script)
            if failure is not None:
                failures += 1
                print(f"seed {seed}, {strategy}: {failure.kind}: {failure.detail}", flush=True)
                small = shrink(failure)
                print(f"  shrunk: {small.detail}\n  saved: {_save(small, seed)}", flush=True)
        if time.monotonic() - said > 30:
            said = time.monotonic()
            print(f"  {programs:,} programs, {epochs:,} epochs, {failures} failures", flush=True)
    last = first + programs - 1
    print(f"{programs:,} programs, {epochs:,} epochs, {failures} failures; last seed {last}")
    for reason, count in refused.most_common():
        print(f"  refused by name {count} times: {reason}")
    if failures == 0 and epochs < args.epochs and args.programs is None:
        print(f"stopped by the time limit before {args.epochs:,} epochs")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
