"""Run one, several or all benchmarks.

Each lives in a module of its name with a function `run(quick)` that yields rows as they are measured; its
docstring says what each side does. A missed target is shown, never an exit code: one run on a busy machine
proves nothing.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator, Sequence

from bench.report import Row, as_line, as_markdown, show_table

BENCHES = (
    "values", "engines", "cas", "kernel", "ingest", "ingest_postgres", "effects", "growth", "history",
    "worlds", "storage", "styles", "heartbeat", "branches",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rows of the benchmarks named, of all if none is."""
    options = _options(arguments)
    if options.json:
        for row in _rows(options.names, quick=options.quick):
            print(as_line(row), flush=True)
        return 0
    rows = list(_rows(options.names, quick=options.quick, announce=True))
    if options.markdown:
        print(as_markdown(rows))
    else:
        show_table(rows)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Run one, several or all benchmarks."
    )
    known = ", ".join(BENCHES)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {known} (default: all)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print one JSON object a line instead of a table")
    shape.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument(
        "--quick", action="store_true", help="run tiny sizes once: shows that it works, not speed"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {known}")
    return options


def _rows(names: Sequence[str], *, quick: bool, announce: bool = False) -> Iterator[Row]:
    for name in names or BENCHES:
        if announce:
            print(f"running {name} ...", file=sys.stderr, flush=True)
        yield from importlib.import_module(f"bench.{name}").run(quick=quick)


if __name__ == "__main__":
    sys.exit(main())
