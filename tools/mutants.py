"""Plant defects in the kernel, one at a time, and see whether a test fails.

    python tools/mutants.py [--count 300] [--seed 1] [--jobs 2] [--only decide/timers.py] [--json FILE]
    python tools/mutants.py --keep --json FILE --again survived    those that survived, once more

A defect is one small change of the source: another comparison, a constant off by one, a statement left out.
The sample is drawn by the seed from all places of the rooms below, so a run can be repeated. Each defect is
put into a copy of the package, and the tests that execute its line run against that copy until one fails;
which tests those are was recorded by a run with coverage first. A defect that no test executes counts as not
caught, as does one that all of them pass. One that runs into the limit of time is caught. Every outcome is
written to FILE as it comes, and a run that finds one there does not try that defect again.

`tools/mutants.toml` lists the survivors that change nothing anybody can see, with the reason.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
KERNEL = "src/cellule/kernel"
ROOMS = ("state", "decide", "fast", "prove", "heartbeat")
TESTS = ("tests/unit/kernel", "tests/golden", "tests/properties", "tests/edge/test_shadow.py")
EXPLAINED = ROOT / "tools" / "mutants.toml"
DATA = ROOT / ".mutants.coverage"
SECONDS = ROOT / ".mutants.seconds"
LIMIT_CPU_S = 120  # of the processor: on a busy machine a test is slow without a defect
LIMIT_S = 1_800  # for one that waits for ever
LIMIT_BYTES = 3_000_000_000  # of memory: a loop that never ends may gather without end
PYTEST = ("-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--hypothesis-seed=0")
PATIENT = ("--timeout", str(LIMIT_S))
TESTS_S_MAX = 60  # of those that execute a line, the quickest that take so long together
CAUGHT_MIN = 0.95
_OUTCOMES = {0: "survived", 1: "caught", 2: "caught"}  # pytest's: all passed, one failed, none could be read
_USAGE_ERROR = 4
_UNREADABLE = (b"while loading conftest", b"ERROR collecting ")  # as pytest says it
_OUTCOMES[-signal.SIGXCPU] = "timeout"

_COMPARED = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_ADDED = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*")}


class Mutant(NamedTuple):
    """One change: `before` at an offset of a file becomes `after`."""

    file: str  # below the kernel
    line: int
    column: int  # in the text of the line
    text: str  # the line
    start: int
    before: str
    after: str

    @property
    def name(self) -> str:
        """How it is named in lists, wherever the line moves to."""
        return f"{self.file}: {self.text} | {self.column} {' '.join(self.before.split())} -> {self.after}"


# Where defects can be planted


class Source:
    """One file, and the changes that can be made in it."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._text = text
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def mutants(self) -> Iterator[Mutant]:
        """All changes."""
        for node in walked(ast.parse(self._text)):
            yield from self._operators(node)
            yield from self._values(node)
            yield from self._statements(node)

    def _operators(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                for op, (first, second) in zip(ops, pairwise([left, *comparators]), strict=True):
                    yield from self._between(first, second, *_COMPARED[type(op)])
            case ast.BoolOp(op=boolean, values=values):
                words = ("and", "or") if isinstance(boolean, ast.And) else ("or", "and")
                for first, second in pairwise(values):
                    yield from self._between(first, second, *words)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ADDED and not is_text(left, right):
                yield from self._between(left, right, *_ADDED[type(op)])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._whole(node, f"({self._text[slice(*self._span(operand))]})")

    def _values(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Constant(value=bool() as value):
                yield self._whole(node, str(not value))
            case ast.Constant(value=int() as number):
                yield self._whole(node, str(number + 1))

    def _statements(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Expr(value=ast.Call()) | ast.AugAssign():
                yield self._whole(node, "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield self._whole(node, "pass")

    def _whole(self, node: ast.AST, after: str) -> Mutant:
        begin, end = self._span(node)
        return Mutant(self._file, *self._place(begin), begin, self._text[begin:end], after)

    def _between(self, left: ast.AST, right: ast.AST, before: str, after: str) -> Iterator[Mutant]:
        """The operator between two operands."""
        found = self._text.find(before, self._span(left)[1], self._span(right)[0])
        if found >= 0:
            yield Mutant(self._file, *self._place(found), found, before, after)

    def _span(self, node: Any) -> tuple[int, int]:
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _at(self, line: int, column: int) -> int:
        """An offset in characters; the tree counts columns in bytes."""
        start, end = self._starts[line - 1], self._starts[line]
        return start + len(self._text[start:end].encode()[:column].decode())

    def _place(self, offset: int) -> tuple[int, int, str]:
        """The line, the place in its text, and the text."""
        line = self._text.count("\n", 0, offset) + 1
        whole = self._text[self._starts[line - 1] : self._starts[line]]
        text = whole.strip()
        return line, offset - self._starts[line - 1] - whole.index(text) + 1, text


def walked(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes in which a defect would be one of logic: no annotations, messages or imports."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, ast.AST) or isinstance(each, ast.Raise | ast.Import | ast.ImportFrom):
                continue
            if isinstance(each, ast.Expr) and (isinstance(each.value, ast.Constant) or is_ensure(each.value)):
                continue
            if isinstance(each, ast.JoinedStr) or is_type_checking(each):
                continue
            yield each
            yield from walked(each)


def is_ensure(node: ast.AST) -> bool:
    """Whether this is a check of ours: its opposite is not a defect of the world."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ensure"


def is_type_checking(node: ast.AST) -> bool:
    """Whether this is for type checkers only."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def is_text(*nodes: ast.AST) -> bool:
    """Whether one of these is a text."""
    return any(isinstance(each, ast.JoinedStr | ast.Constant) and not is_number(each) for each in nodes)


def is_number(node: ast.AST) -> bool:
    """Whether this is a number."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def all_mutants(only: str | None = None) -> list[Mutant]:
    """Every change that can be made in the rooms."""
    found: list[Mutant] = []
    for room in ROOMS:
        for path in sorted((ROOT / KERNEL / room).rglob("*.py")):
            name = str(path.relative_to(ROOT / KERNEL))
            if only is None or only in name:
                found += Source(name, path.read_text()).mutants()
    return found


# Which tests execute a line


def record() -> None:
    """Run the tests once with coverage, one context a test; those that fail count for nothing."""
    settings = ROOT / ".mutants.coveragerc"
    settings.write_text(f"[run]\ndata_file = {DATA}\nsource = {KERNEL}\n")
    command = [sys.executable, "-m", "coverage", "run", "--rcfile", str(settings), *PYTEST]
    tools = f"{ROOT / 'tools'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = {**os.environ, "PYTHONPATH": tools, "MUTANTS_SECONDS": str(SECONDS)}
    subprocess.run(  # noqa: S603 - our own command
        [*command, "-p", "mutants_record", *PATIENT, *TESTS], cwd=ROOT, env=environment, check=False
    )
    settings.unlink()


def tests_by_line() -> dict[str, dict[int, list[str]]]:
    """The tests that execute each line of each file, the quickest first."""
    from coverage import CoverageData

    seconds: dict[str, float] = json.loads(SECONDS.read_text())
    data = CoverageData(str(DATA))
    data.read()
    found: dict[str, dict[int, list[str]]] = {}
    for file in data.measured_files():
        lines = data.contexts_by_lineno(file)
        every = sorted({name for names in lines.values() for name in names})
        found[str(Path(file).relative_to(ROOT / KERNEL))] = {
            # a line without a test runs at import: whoever uses the file may notice
            line: quickest(names if any(names) else every, seconds)
            for line, names in lines.items()
        }
    return found


def quickest(names: list[str], seconds: dict[str, float]) -> list[str]:
    """Of the tests that pass, the quickest, as many as are run for one defect."""
    chosen: list[str] = []
    spent = 0.0
    for name in sorted((name for name in names if name in seconds), key=seconds.__getitem__):
        spent += seconds[name]
        if chosen and spent > TESTS_S_MAX:
            break
        chosen.append(name)
    return chosen


def tests_of(mutant: Mutant, known: dict[str, dict[int, list[str]]]) -> list[str]:
    """The tests for a defect; a line inside a statement may have none of its own, then those before it."""
    lines = known.get(mutant.file, {})
    before = [line for line in lines if line <= mutant.line]
    return lines[max(before)] if before else []


# Planting one


class Place:
    """A copy of the package in which one defect at a time is planted."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "src"
        shutil.copytree(ROOT / "src", self.source)

    def try_one(self, mutant: Mutant, tests: list[str]) -> str:
        """What became of it: caught, survived, not executed, or timeout."""
        if not tests:
            return "not executed"
        path = self.source / "cellule" / "kernel" / mutant.file
        text = path.read_text()
        assert text[mutant.start :].startswith(mutant.before)
        path.write_text(text[: mutant.start] + mutant.after + text[mutant.start + len(mutant.before) :])
        try:
            return self._run(tests)
        finally:
            path.write_text(text)

    def _run(self, tests: list[str]) -> str:
        command = [sys.executable, *PYTEST, *PATIENT, "-x", *tests]
        environment = {**os.environ, "PYTHONPATH": str(self.source), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(  # noqa: S603 - our own command
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                timeout=LIMIT_S,
                check=False,
                preexec_fn=limited,
            )
        except subprocess.TimeoutExpired:
            return "timeout"
        said = done.stderr + done.stdout
        if done.returncode == _USAGE_ERROR and any(each in said for each in _UNREADABLE):
            return "caught"  # the package, or what a test makes with it, cannot even be imported
        if done.returncode not in _OUTCOMES:  # a test that is not there, say: nothing was tried
            raise SystemExit(done.stdout.decode() + done.stderr.decode())
        return _OUTCOMES[done.returncode]


def limited() -> None:
    """In the process of the tests: so much of the processor and of memory, and no more."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_CPU_S, LIMIT_CPU_S + 10))
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))


def main() -> int:
    """Draw, plant, report; 0 if enough were caught."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", help="files whose names hold this")
    parser.add_argument("--json", type=Path, help="write every outcome there; outcomes found there stand")
    parser.add_argument("--again", help="try those again that have this outcome there")
    parser.add_argument("--keep", action="store_true", help="use the coverage that an earlier run recorded")
    given = parser.parse_args()
    if not given.keep or not DATA.exists():
        record()
    chosen = draw(given.count, given.seed, given.only)
    return report(run(chosen, given.jobs, Outcomes(given.json, given.again)))


def draw(count: int, seed: int, only: str | None = None) -> list[Mutant]:
    """A sample, the same for the same seed and source."""
    found = all_mutants(only)
    return random.Random(seed).sample(found, min(count, len(found)))  # noqa: S311 - no secret


class Outcomes:
    """What became of the defects tried so far, kept in a file so that a run which was cut off goes on."""

    def __init__(self, file: Path | None, again: str | None) -> None:
        self._file = file
        self._rows: list[list[Any]] = []
        if file is not None and file.exists():
            self._rows = [row for row in json.loads(file.read_text()) if row[-1] != again]
        self._known = {(name, line): outcome for name, line, outcome in self._rows}

    def of(self, mutant: Mutant) -> str | None:
        """What is known of one, as long as its line is where it was."""
        return self._known.get((mutant.name, mutant.line))

    def add(self, mutant: Mutant, outcome: str) -> None:
        """Keep one; from several threads."""
        self._rows.append([mutant.name, mutant.line, outcome])
        if self._file is not None:
            self._file.write_text(json.dumps(self._rows, indent=1) + "\n")


def run(chosen: list[Mutant], jobs: int, outcomes: Outcomes) -> list[tuple[Mutant, str]]:
    """Try all of them that have no outcome yet, some at once."""
    known = tests_by_line()
    places: SimpleQueue[Place] = SimpleQueue()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        for number in range(jobs):
            places.put(Place(Path(folder) / str(number)))

        def try_one(mutant: Mutant) -> str:
            if (found := outcomes.of(mutant)) is not None:
                return found
            place = places.get()
            try:
                outcome = place.try_one(mutant, tests_of(mutant, known))
            finally:
                places.put(place)
            print(
                f"{time.monotonic() - began:7.1f} s  {outcome:12} {mutant.line:4} {mutant.name}", flush=True
            )
            outcomes.add(mutant, outcome)
            return outcome

        return list(zip(chosen, pool.map(try_one, chosen), strict=True))


def report(outcomes: list[tuple[Mutant, str]]) -> int:
    """Say how many were caught, and list the others with their reasons."""
    explained = tomllib.loads(EXPLAINED.read_text())["same"] if EXPLAINED.exists() else {}
    left = [(mutant.name, outcome) for mutant, outcome in outcomes if outcome in ("survived", "not executed")]
    same = [name for name, _ in left if name in explained]
    counted = len(outcomes) - len(same)
    rate = 1 - (len(left) - len(same)) / counted if counted else 1.0
    for name, outcome in left:
        print(f"{outcome:12} {name}  {explained.get(name, '')}")
    for name in sorted(set(explained) - {mutant.name for mutant in all_mutants()}):
        print(f"take it off {EXPLAINED.name}, the line is another now: {name}")
    print(dict(Counter(outcome for _, outcome in outcomes)))
    print(f"{rate:.1%} of {counted} defects were caught; {len(same)} more change nothing")
    return 0 if rate >= CAUGHT_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
