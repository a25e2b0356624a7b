"""Compare this checkout with another one: the same benchmarks in turns, so that both meet the same machine.

    git worktree add ../before main~10 && make -C ../before setup
    python -m bench.compare ../before kernel ingest --rounds 3

Each round runs a benchmark there and then here. A row tells the median there, the median here, and how many
times as good here is: above 1 it is better here, whether more or less is better for its unit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

from bench.__main__ import BENCHES
from bench.report import Row

HERE = Path(__file__).parents[1]
MORE_IS_BETTER = ("/s", "x")
Case = tuple[str, str, str, str]


def main() -> int:
    """Run the rounds and print a line for each metric that both sides have."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description="Compare with a checkout.")
    parser.add_argument("other", type=Path, help="another checkout, set up with `make setup`")
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []], help="which to run (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="run tiny sizes: shows that it works, not speed")
    options = parser.parse_args()
    there: dict[Case, list[float]] = defaultdict(list)
    here: dict[Case, list[float]] = defaultdict(list)
    for number in range(options.rounds):
        for name in options.names or BENCHES:
            for folder, found in ((options.other, there), (HERE, here)):
                print(f"round {number + 1}: {name} in {folder}", file=sys.stderr, flush=True)
                for row in _run(folder, name, quick=options.quick):
                    found[row.bench, row.case, row.metric, row.unit].append(row.value)
    for case, before in there.items():
        if case in here:
            print(_line(case, median(before), median(here[case])))
    return 0


def _run(folder: Path, name: str, *, quick: bool) -> list[Row]:
    command = [folder.resolve() / ".venv/bin/python", "-m", "bench", name, "--json"]
    answer = subprocess.run(
        [*command, "--quick"] if quick else command, cwd=folder, check=True, stdout=subprocess.PIPE
    )
    return [Row(**json.loads(line)) for line in answer.stdout.splitlines()]


def _line(case: Case, before: float, after: float) -> str:
    bench, name, metric, unit = case
    good, bad = (after, before) if unit in MORE_IS_BETTER else (before, after)
    times = f"{good / bad:.2f}" if bad else "-"
    return f"{times:>6}  {bench}: {name}: {metric}: {before:g} -> {after:g} {unit}".rstrip()


if __name__ == "__main__":
    sys.exit(main())
