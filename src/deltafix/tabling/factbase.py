"""Predicates: their rules, and their facts indexed by what goals bind.

A *bucket* holds the facts that fit one pattern of bound arguments and the consumers waiting on
it: the paper's fact base as a producer. Invariant: every ground fact of a predicate stands in
exactly one bucket of each view; facts with variables stand in `loose` and belong to every bucket.
Buckets with neither facts nor consumers are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltafix.tabling.clauses import Key, Rule
    from deltafix.tabling.table import Consumer, Forest, Generator
    from deltafix.tabling.terms import Term


class Bucket:
    """Facts with the same values at the bound positions of a view, and who waits on them."""

    __slots__ = ("consumers", "facts", "key", "view")

    def __init__(self, view: dict[tuple[Term, ...], Bucket], key: tuple[Term, ...]) -> None:
        self.view = view
        self.key = key
        self.facts: dict[Rule, None] = {}
        self.consumers: dict[Consumer, None] = {}


class Predicate:
    """One predicate. `derived` says that its goals go through tables, not through buckets.

    `tabled` and `dynamic` say that it was declared so.
    """

    __slots__ = (
        "derived", "dynamic", "facts", "generators", "key", "loose", "rules", "tabled", "views",
    )  # fmt: skip

    def __init__(self, key: Key) -> None:
        self.key = key
        self.derived = False
        self.tabled = False
        self.dynamic = False
        self.rules: dict[Rule, None] = {}
        self.facts: dict[Rule, None] = {}
        self.loose: dict[Rule, None] = {}
        self.views: dict[tuple[int, ...], dict[tuple[Term, ...], Bucket]] = {}
        self.generators: dict[tuple[Term, ...], Generator] = {}

    def bucket(self, args: tuple[Term, ...]) -> Bucket:
        """The bucket of a goal's instantiated arguments; its view is built on first use.

        Complexity: O(arity), and once per set of bound positions O(facts).
        """
        mask = tuple([i for i, a in enumerate(args) if a.ground])
        view = self.views.get(mask)
        if view is None:
            view = {}
            for fact in self.facts:
                self._file(fact, mask, view)
            self.views[mask] = view  # whole, whatever interrupts this
        key = tuple([args[i] for i in mask])
        bucket = view.get(key)
        if bucket is None:
            bucket = view[key] = Bucket(view, key)
        return bucket

    def matching(self, bucket: Bucket) -> Iterator[Rule]:
        """The facts that may unify with the goals of a bucket."""
        return chain(bucket.facts, self.loose)

    @property
    def clauses(self) -> Iterator[Rule]:
        """Its rules and facts."""
        return chain(self.rules, self.facts, self.loose)

    def waiting(self, fact: Rule) -> list[Consumer]:
        """The consumers whose goal may unify with a fact."""
        if not fact.ground:
            buckets = [b for view in self.views.values() for b in view.values()]
        else:
            buckets = []
            for mask, view in self.views.items():
                bucket = view.get(tuple([fact.args[i] for i in mask]))
                if bucket is not None:
                    buckets.append(bucket)
        return [c for bucket in buckets for c in bucket.consumers]

    def add(self, rule: Rule) -> None:
        """Put a rule or fact where goals find it."""
        if rule.body:
            self.rules[rule] = None
        elif not rule.ground:
            self.loose[rule] = None
        else:
            self.facts[rule] = None
            for mask, view in self.views.items():
                self._file(rule, mask, view)

    def drop(self, rule: Rule) -> list[Bucket]:
        """Take a rule or fact away; returns the buckets it stood in, for `release`.

        One of which an interrupt has put in a part, or nothing, goes as well.
        """
        left: list[Bucket] = []
        if rule.body:
            self.rules.pop(rule, None)
        elif not rule.ground:
            self.loose.pop(rule, None)
        else:
            self.facts.pop(rule, None)
            for mask, view in self.views.items():
                bucket = view.get(tuple([rule.args[i] for i in mask]))
                if bucket is not None:
                    bucket.facts.pop(rule, None)
                    left.append(bucket)
        return left

    def _file(
        self, fact: Rule, mask: tuple[int, ...], view: dict[tuple[Term, ...], Bucket]
    ) -> None:
        key = tuple([fact.args[i] for i in mask])
        bucket = view.get(key)
        if bucket is None:
            bucket = view[key] = Bucket(view, key)
        bucket.facts[fact] = None


def subscribe(forest: Forest, bucket: Bucket, consumer: Consumer) -> None:
    """Let a consumer wait on a bucket."""
    forest.log(release, forest, bucket)
    forest.put(bucket.consumers, consumer)


def unsubscribe(forest: Forest, bucket: Bucket, consumer: Consumer) -> None:
    """Let a consumer wait on a bucket no longer."""
    forest.take(bucket.consumers, consumer)
    release(forest, bucket)


def release(forest: Forest, bucket: Bucket) -> None:
    """Forget a bucket that nothing uses any more.

    Remembered inside an update: what is brought back stands on this bucket, not on one like it.
    """
    if not bucket.facts and not bucket.consumers:
        forest.take(bucket.view, bucket.key)
