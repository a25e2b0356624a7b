"""Pictures and tables of the newest full run: `docs/pictures/*.svg`, and the marked parts of pages.

Everything comes from `bench/results/`: `latest.jsonl` is our run, `peers.jsonl` what other systems did on the
same job on the same kind of machine. A page marks a table with `<!-- results: NAME -->` and `<!-- end -->`;
what stands between is written here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.record import LATEST, Results, load
from bench.report import Row, as_markdown
from bench.svg import Chart, Line, draw

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
PEERS = LATEST.with_name("peers.jsonl")
PAGES = (ROOT / "README.md", ROOT / "docs" / "performance.md")

_SMALL = "small record, 1,000 in flight"
_ALONE = "small record, one at a time, applied"
_WAY = re.compile(r"1,000 in flight, (.+)")
_MARKED = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_GROWTH = {
    "opening and first event vs 1,000 cells": "open, first event",
    "1,000 active: an event vs 1,000 cells": "an event, 1,000 cells active",
    "at random: an event vs 1,000 cells": "an event, cells at random",
    "at random, with the snapshot: an event vs 1,000 cells": "the same, with the snapshot",
}


@dataclass(frozen=True, slots=True)
class System:
    """One line of the comparison; a number that was not taken is None."""

    name: str
    events_per_s: float
    in_flight: int | None
    latency_ms: float | None
    is_ours: bool


def systems(results: Results) -> list[System]:
    """Ours and the others, fastest first."""
    ours = [
        System(
            "Cellule on SQLite",
            results.value("ingest", _SMALL, "events"),
            1_000,
            results.value("ingest", _ALONE, "latency") / 1_000,
            True,
        ),
        System(
            "Cellule on PostgreSQL",
            results.value("ingest_postgres", _SMALL, "events"),
            1_000,
            results.value("ingest_postgres", _ALONE, "an event") / 1_000,
            True,
        ),
    ]
    library_s = results.value("ingest", _SMALL, "events of eventsourcing")
    others = [System("eventsourcing on SQLite", library_s, 1, 1_000 / library_s, False)]
    for line in PEERS.read_text().splitlines():
        peer = json.loads(line)
        others.append(
            System(peer["peer"], peer["events_per_s"], peer["in_flight"], peer["latency_ms"], False)
        )
    return sorted([*ours, *others], key=lambda system: -system.events_per_s)


def pictures(results: Results) -> dict[str, str]:
    """Every picture by its file's name."""
    charts = {"peers": _peers, "latency": _latency, "ways": _ways, "growth": _growth}
    return {f"{name}.svg": draw(make(results)) for name, make in charts.items()}


def page_with(text: str, results: Results) -> str:
    """A page with its marked tables written anew."""
    tables = {"peers": peers_table, "targets": targets_table, "all": all_table, "machine": machine_line}
    return _MARKED.sub(lambda found: f"{found[1]}{tables[found[2]](results)}\n{found[3]}", text)


def peers_table(results: Results) -> str:
    """Events per second and the latency of one event, beside other systems."""
    rows = [["system", "durable events/s", "in flight", "one event alone"], ["---", "---:", "---:", "---:"]]
    for system in systems(results):
        name = f"**{system.name}**" if system.is_ours else system.name
        in_flight = "" if system.in_flight is None else f"{system.in_flight:,}"
        latency = "" if system.latency_ms is None else f"{system.latency_ms:.2g} ms"
        rows.append([name, f"{system.events_per_s:,.0f}", in_flight, latency])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def targets_table(results: Results) -> str:
    """The rows that have a target."""
    return as_markdown([row for row in results.rows if row.target is not None])


def all_table(results: Results) -> str:
    """Every row."""
    return as_markdown(list(results.rows))


def machine_line(results: Results) -> str:
    """Where and when."""
    return f"Measured on {results.machine.sentence()}."


def _peers(results: Results) -> Chart:
    lines = [
        Line(system.name, system.events_per_s, f"{system.events_per_s:,.0f}", system.is_ours)
        for system in systems(results)
    ]
    return Chart(
        "Durable events per second",
        "1,000 keys, read-add-write; more is better; log scale",
        lines,
        is_log=True,
    )


def _latency(results: Results) -> Chart:
    floor_ms = results.value("ingest", _ALONE, "latency of the floor") / 1_000
    lines = [Line("bare SQLite transaction", floor_ms, f"{floor_ms:.2g} ms", is_ours=False)]
    lines += [
        Line(system.name, system.latency_ms, f"{system.latency_ms:.2g} ms", system.is_ours)
        for system in systems(results)
        if system.latency_ms is not None
    ]
    lines.sort(key=lambda line: line.value)
    return Chart(
        "One event alone, until it is durable", "milliseconds; less is better; log scale", lines, is_log=True
    )


def _ways(results: Results) -> Chart:
    found = [
        (named[1], row.value)
        for row in _of(results.rows, "ingest", "events vs the plainest")
        if (named := _WAY.fullmatch(row.case))
    ]
    lines = [Line(name, value, f"{value:.2f}") for name, value in found]
    return Chart(
        "Events that do more", "speed as a share of the plainest event's; more is better", lines,
        mark=(1.0, "the plainest"),
    )  # fmt: skip


def _growth(results: Results) -> Chart:
    rows = {row.metric: row.value for row in results.rows if row.case == "1,000,000 cells"}
    lines = [Line(label, rows[metric], f"{rows[metric]:.2f} x") for metric, label in _GROWTH.items()]
    return Chart(
        "A world of 1,000,000 cells", "time beside a world of 1,000 cells; less is better", lines,
        mark=(1.0, "1,000 cells"),
    )  # fmt: skip


def _of(rows: Iterable[Row], bench: str, metric: str) -> list[Row]:
    return [row for row in rows if (row.bench, row.metric) == (bench, metric)]


def main() -> None:
    """Write all of it."""
    results = load()
    PICTURES.mkdir(exist_ok=True)
    for name, picture in pictures(results).items():
        (PICTURES / name).write_text(picture)
    for page in PAGES:
        page.write_text(page_with(page.read_text(), results))


if __name__ == "__main__":
    main()
