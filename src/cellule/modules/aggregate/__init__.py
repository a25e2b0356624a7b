"""Aggregates: count, sum, avg, min, max and distinct by namespace and window, declared as data.

A module of `code.kind: aggregate` keeps one cell for each namespace; `aggregate` does the same for a batch of
Python values, as a pure function. Both keep exact partials, so what is aggregated in parts can be merged.
"""

from cellule.modules.aggregate.batch import Aggregates, aggregate
from cellule.modules.aggregate.kind import AggregateKind

__all__ = ["AggregateKind", "Aggregates", "aggregate"]
