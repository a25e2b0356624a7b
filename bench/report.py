"""One measurement, and how it is shown: JSON lines for programs, a table for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Row:
    bench: str
    case: str
    metric: str
    value: float
    unit: str
    target: float | None = None
    ok: bool | None = None


def ratio(bench: str, case: str, metric: str, value: float, target: float) -> Row:
    """A ratio within one run that should reach at least `target`."""
    return Row(bench, case, metric, round(value, 3), "x", target, value >= target)


def at_most(bench: str, case: str, metric: str, value: float, target: float) -> Row:
    """A ratio within one run that should stay at or below `target`."""
    return Row(bench, case, metric, round(value, 3), "x", target, value <= target)


def as_lines(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(asdict(row))


def show_table(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("bench", "case", "metric", "value", "target", "", title="Cellule benchmarks")
    for row in rows:
        mark = {True: "[green]ok[/]", False: "[red]below target[/]", None: ""}[row.ok]
        target = "" if row.target is None else f"{row.target:g} {row.unit}"
        table.add_row(row.bench, row.case, row.metric, f"{row.value:,.4g} {row.unit}", target, mark)
    Console(width=120).print(table)
