"""Reactive collections: key -> multiset of values, kept up to date in time O(change).

Start at `collection` (what a user holds), then `graph` (the pass of an epoch), then `reducer` (the
law). Layer 1 of the two: layer 2, recursive views, sits in the same graph as `fixpoint` nodes.

Does not know about rules, files or Spark.
"""

from __future__ import annotations

from deltafix.reactive.collection import Collection
from deltafix.reactive.delta import CollectionDelta, Subscription
from deltafix.reactive.fixpoint import FixpointViews, fixpoint
from deltafix.reactive.graph import EpochPass
from deltafix.reactive.inputs import InputCollection
from deltafix.reactive.lazy import KeyWatch, LazyCall, LazyCollection
from deltafix.reactive.reduce import Drift, ReducerDriftWarning
from deltafix.reactive.transaction import CollectionTransaction
from deltafix.reducers.algebra import contramap, enriched, group_of, product, scaled, where
from deltafix.reducers.bag import Bag
from deltafix.reducers.check import CounterExample, LawReport, check_reducer
from deltafix.reducers.connected import Holds
from deltafix.reducers.extremes import First, Last, Max, Median, Min, Quantile, TopK
from deltafix.reducers.numeric import Count, Histogram, Mean, Sum, Variance
from deltafix.reducers.reducer import Mergeable, Partial, Reducer, WellFormed, reducer
from deltafix.reducers.sets import Distinct, Union
from deltafix.reducers.sketches import ApproxDistinct, ApproxQuantile, HeavyHitters

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
