"""One measurement, and how it is shown: JSON lines for programs, a table for people."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from dataclasses import asdict, dataclass

COLUMNS = ["bench", "case", "metric", "value", "target", ""]


@dataclass(frozen=True, slots=True)
class Row:
    """One number; `target` and `ok` are None where it only informs."""

    bench: str
    case: str
    metric: str
    value: float
    unit: str
    target: float | None = None
    ok: bool | None = None


def measured(bench: str, case: str, metric: str, value: float, unit: str) -> Row:
    """A number that only informs."""
    return Row(bench, case, metric, _rounded(value), unit)


def ratio(bench: str, case: str, metric: str, value: float, target: float | None = None) -> Row:
    """How many times as fast as the other side of the same run; at least `target`, where there is one."""
    ok = None if target is None else value >= target
    return Row(bench, case, metric, _rounded(value), "x", target, ok)


def at_most(bench: str, case: str, metric: str, value: float, unit: str, target: float) -> Row:
    """A number that should not be above `target`."""
    return Row(bench, case, metric, _rounded(value), unit, target, value <= target)


def none_of(bench: str, case: str, metric: str, count: int) -> Row:
    """A count that should be 0."""
    return Row(bench, case, metric, count, "", 0, count == 0)


def stream(rows: AsyncGenerator[Row, None]) -> Iterator[Row]:
    """The rows of an asynchronous benchmark, as they come."""

    async def following() -> Row | None:
        return await anext(rows, None)

    with asyncio.Runner() as runner:
        try:
            while (row := runner.run(following())) is not None:
                yield row
        finally:
            runner.run(rows.aclose())


def as_line(row: Row) -> str:
    """The row as one JSON object."""
    return json.dumps(asdict(row))


def show_table(rows: list[Row]) -> None:
    """Print all rows, and how many targets were reached."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*COLUMNS)
    for row in rows:
        *cells, mark = _cells(row)
        table.add_row(*cells, f"[{'green' if row.ok else 'red'}]{mark}[/]")
    aimed = [row for row in rows if row.ok is not None]
    console = Console(width=130)
    console.print(table)
    console.print(f"{sum(row.ok is True for row in aimed)} of {len(aimed)} targets reached")


def as_markdown(rows: list[Row]) -> str:
    """All rows as a table for documents."""
    lines = [COLUMNS, ["---", "---", "---", "---:", "---:", "---"], *map(_cells, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(row: Row) -> list[str]:
    target = "" if row.target is None else f"{row.target:g} {row.unit}".strip()
    mark = {True: "ok", False: "missed", None: ""}[row.ok]
    return [row.bench, row.case, row.metric, f"{row.value:,g} {row.unit}".strip(), target, mark]


def _rounded(value: float) -> float:
    """Four digits: more would claim what no such measurement gives."""
    return float(f"{value:.4g}")
