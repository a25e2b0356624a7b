"""Run every benchmark and keep what came out: `bench/results/latest.jsonl`, from which pictures are made.

The first line tells the machine and the day; each line after it is a row as `python -m bench --json` prints
it. The file is replaced whole when the run is complete, so an interrupted one leaves the old numbers.

python -m bench.record          # about ten minutes on an idle machine
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from bench.__main__ import BENCHES
from bench.report import Row, as_line

LATEST = Path(__file__).parent / "results" / "latest.jsonl"


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and when the numbers were taken."""

    machine: str
    date: str
    python: str
    sqlite: str
    load: float

    def sentence(self) -> str:
        """The machine as a page tells it."""
        software = f"Python {self.python}, SQLite {self.sqlite}"
        return f"{self.machine}, {software}, {self.date}, load {self.load:g} at the start"


@dataclass(frozen=True, slots=True)
class Results:
    """A full run."""

    machine: Machine
    rows: tuple[Row, ...]

    def value(self, bench: str, case: str, metric: str) -> float:
        """One number; `LookupError` names what the run does not have."""
        for row in self.rows:
            if (row.bench, row.case, row.metric) == (bench, case, metric):
                return row.value
        raise LookupError(f"the run has no row {bench}: {case}: {metric}")


def load(path: Path = LATEST) -> Results:
    """The results of a file."""
    first, *rest = path.read_text().splitlines()
    return Results(Machine(**json.loads(first)), tuple(Row(**json.loads(line)) for line in rest))


def save(machine: Machine, rows: Iterable[Row], path: Path = LATEST) -> None:
    """Replace the file by this run."""
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(f"{line}\n" for line in [json.dumps(asdict(machine)), *map(as_line, rows)]))
    fresh.replace(path)


def this_machine() -> Machine:
    """The kind of machine, without its name."""
    kind = f"{os.cpu_count()} cores ({platform.machine()}), {platform.system()}"
    today = datetime.now(UTC).date().isoformat()
    return Machine(
        kind, today, platform.python_version(), sqlite3.sqlite_version, round(os.getloadavg()[0], 2)
    )


def main() -> None:
    """Run all, and tell what runs."""
    machine, rows = this_machine(), list[Row]()
    for name in BENCHES:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        rows += import_module(f"bench.{name}").run(quick=False)
    save(machine, rows)


if __name__ == "__main__":
    main()
