"""Rows whose target is an upper bound."""

from __future__ import annotations

from bench.report import Row, measured


def at_most(bench: str, case: str, metric: str, value: float, unit: str, target: float | None) -> Row:
    """A number that should not be larger than `target`, where there is one."""
    row = measured(bench, case, metric, value, unit)
    return Row(bench, case, metric, row.value, unit, target, None if target is None else value <= target)
