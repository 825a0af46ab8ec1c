"""Why a symbol is alive: the shortest chain from a root, and why it is not if it is dead.

Aliveness has two kinds of steps (see `program.dl`, part 5): a `link` needs one living symbol; a
name that living code mentions also needs the owner of the symbol to be alive. So the chain is found
by breadth-first search that enters such a symbol only once its owner was reached.
Invariant: the symbols reached are exactly the view `alive`; a test compares them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from deltafix.analyses.dead_code.findings import Finding, short_name
from deltafix.analyses.dead_code.symbols import find_symbol

_SAYS = frozenset({"refers to", "imports", "asks for the fixture"})  # links of what is written

Row: TypeAlias = tuple[Any, ...]
"""One row of a relation; in this program all columns are symbols."""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a chain: `symbol` is alive because `how` (and through `by`, if not a root)."""

    symbol: str
    how: str
    by: str | None = None


class Explainer:
    """Chains over one state of the analysis. `rows` gives the rows of a relation by name.

    Building reads four relations; O(links). Each question is O(1) afterwards but for the answer.
    """

    def __init__(self, rows: Callable[[str], Iterable[Row]]) -> None:
        self.kinds: dict[str, str] = {row[0]: row[1] for row in rows("symbol")}
        links: dict[str, list[Row]] = defaultdict(list)
        for user, symbol, how in rows("link"):
            links[user].append((symbol, how))
        mentions: dict[str, list[str]] = defaultdict(list)
        for user, name in rows("mentions"):
            mentions[user].append(name)
        named: dict[str, list[Row]] = defaultdict(list)
        for symbol, owner, name in rows("named"):
            named[name].append((symbol, owner))
        self._links = links
        self._mentions = mentions
        self._named = named
        self.steps = _search(rows("root"), links, mentions, named)

    def find(self, text: str) -> str:
        """The symbol that `text` means, see `find_symbol`. Raises UnknownSymbolError."""
        return find_symbol(text, self.kinds)

    def chain(self, symbol: str) -> list[Step]:
        """Steps from a root to `symbol`, the root first; empty if the symbol is dead."""
        steps: list[Step] = []
        at: str | None = symbol if symbol in self.steps else None
        while at is not None:
            step = self.steps[at]
            steps.append(step)
            at = step.by
        return steps[::-1]

    def users(self, symbol: str) -> list[str]:
        """Symbols that refer to `symbol` directly, sorted; all of them dead if it is."""
        return sorted(
            user
            for user, targets in self._links.items()
            if user != symbol and any(t == symbol and how == "refers to" for t, how in targets)
        )

    def targets(self, user: str, name: str, *, member: bool) -> list[str]:
        """The symbols that `name` may mean where `user` says it, sorted; of a `.name`, `member`."""
        direct = {
            symbol
            for symbol, how in self._links.get(user, ())
            if how in _SAYS and short_name(symbol) == name
        }
        if not direct and member and name in self._mentions.get(user, ()):
            direct = {symbol for symbol, _ in self._named.get(name, ())}
        return sorted(direct)

    def referrers(self, symbol: str) -> set[str]:
        """Who refers to `symbol`, imports it, or mentions its name as an attribute. O(links)."""
        name = short_name(symbol)
        referrers = self.dependents(symbol)
        if any(named == symbol for named, _ in self._named.get(name, ())):
            referrers |= {user for user, names in self._mentions.items() if name in names}
        return referrers

    def dependents(self, symbol: str) -> set[str]:
        """Who cannot do without `symbol`: who refers to it, or imports it."""
        return self._users.get(symbol, set()) - {symbol}

    @cached_property
    def _users(self) -> dict[str, set[str]]:
        users: dict[str, set[str]] = defaultdict(set)
        for user, links in self._links.items():
            for symbol, how in links:
                if how in _SAYS:
                    users[symbol].add(user)
        return users

    def explain(self, symbol: str, finding: Finding | None = None) -> str:
        """The chain as text, one step a line; of a dead symbol who refers to it, and what is found.

        That is how sure it is, `DeadCode.judged`.
        """
        chain = self.chain(symbol)
        if not chain:
            users = self.users(symbol)
            who = "only dead code" if users else "nothing"
            lines = [f"{symbol} is dead: {who} refers to it", *(f"  {user}" for user in users)]
            if finding is not None:
                lines += finding.doubts() or ["sure: nothing speaks against it"]
            return "\n".join(lines)
        lines = [f"{symbol} is alive:", f"  {chain[0].symbol} is a root ({chain[0].how})"]
        for step in chain[1:]:
            lines.append(f"  {step.by} {step.how} {step.symbol}")
        return "\n".join(lines)


def _search(
    roots: Iterable[Row],
    links: dict[str, list[Row]],
    mentions: dict[str, list[str]],
    named: dict[str, list[Row]],
) -> dict[str, Step]:
    steps: dict[str, Step] = {}
    pending: dict[str, list[Step]] = defaultdict(list)  # owner -> steps it would allow
    wanted: set[str] = set()
    queue: deque[str] = deque()

    def reach(step: Step) -> None:
        if step.symbol not in steps:
            steps[step.symbol] = step
            queue.append(step.symbol)

    for symbol, why in sorted(roots):
        reach(Step(symbol, why))
    while queue:
        at = queue.popleft()
        for step in pending.pop(at, ()):
            reach(step)
        for symbol, how in sorted(links.get(at, ())):
            reach(Step(symbol, how, at))
        for name in sorted(mentions.get(at, ())):
            if name in wanted:
                continue
            wanted.add(name)
            for symbol, owner in sorted(named.get(name, ())):
                step = Step(symbol, f"mentions .{name}, which may be", at)
                if owner in steps:
                    reach(step)
                else:
                    pending[owner].append(step)
    return steps
