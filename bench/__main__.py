"""Run one, several or all benchmarks."""

from __future__ import annotations

import argparse
import importlib
import sys

from bench.report import Row, as_lines, show_table

BENCHES = ("values", "engines", "cas")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(BENCHES)} (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line instead of a table")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    rows: list[Row] = []
    for name in options.names or BENCHES:
        if not options.json:
            print(f"running {name} ...", file=sys.stderr, flush=True)
        for row in importlib.import_module(f"bench.{name}").run():
            rows.append(row)
            if options.json:
                print(*as_lines([row]), flush=True)
    if not options.json:
        show_table(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
