"""Reactive collections: key -> multiset of values, kept up to date in time O(change).

Start at `collection` (what a user holds), then `graph` (the pass of an epoch), then `reducer` (the
law). Layer 1 of the two: layer 2, recursive views, sits in the same graph as `fixpoint` nodes.

Does not know about rules, files or Spark.
"""

from __future__ import annotations

from deltafix.reactive.algebra import contramap, enriched, group_of, product, scaled, where
from deltafix.reactive.bag import Bag
from deltafix.reactive.check import CounterExample, LawReport, check_reducer
from deltafix.reactive.collection import Collection
from deltafix.reactive.connected import Holds
from deltafix.reactive.delta import CollectionDelta, Subscription
from deltafix.reactive.extremes import First, Last, Max, Median, Min, Quantile, TopK
from deltafix.reactive.fixpoint import FixpointViews, fixpoint
from deltafix.reactive.graph import EpochPass
from deltafix.reactive.inputs import InputCollection
from deltafix.reactive.lazy import KeyWatch, LazyCall, LazyCollection
from deltafix.reactive.numeric import Count, Histogram, Mean, Sum, Variance
from deltafix.reactive.reduce import Drift, ReducerDriftWarning
from deltafix.reactive.reducer import Mergeable, Partial, Reducer, WellFormed, reducer
from deltafix.reactive.sets import Distinct, Union
from deltafix.reactive.sketches import ApproxDistinct, ApproxQuantile, HeavyHitters
from deltafix.reactive.transaction import CollectionTransaction

__all__ = [
    "ApproxDistinct",
    "ApproxQuantile",
    "Bag",
    "Collection",
    "CollectionDelta",
    "CollectionTransaction",
    "Count",
    "CounterExample",
    "Distinct",
    "Drift",
    "EpochPass",
    "First",
    "FixpointViews",
    "HeavyHitters",
    "Histogram",
    "Holds",
    "InputCollection",
    "KeyWatch",
    "Last",
    "LawReport",
    "LazyCall",
    "LazyCollection",
    "Max",
    "Mean",
    "Median",
    "Mergeable",
    "Min",
    "Partial",
    "Quantile",
    "Reducer",
    "ReducerDriftWarning",
    "Subscription",
    "Sum",
    "TopK",
    "Union",
    "Variance",
    "WellFormed",
    "check_reducer",
    "contramap",
    "enriched",
    "fixpoint",
    "group_of",
    "product",
    "reducer",
    "scaled",
    "where",
]
