"""`python -m cellule.testing.vectors FILE`: run the cases of a file, name those that fail, count them.

The last line is `N passed, M failed`. What is no case has
failed, too. The exit code is 0 when all passed, 1 when a case failed, 2 when the file could not be read.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from cellule.errors import CelluleError
from cellule.testing.vectors.document import read
from cellule.testing.vectors.real import REAL
from cellule.testing.vectors.report import run


def main(arguments: Sequence[str]) -> int:
    """Run one file and print what came of it."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python -m cellule.testing.vectors FILE", file=sys.stderr)
        return 2
    try:
        entries = read(Path(arguments[0]))
    except CelluleError as error:
        print(f"{error.code}: {error}", file=sys.stderr)
        return 2
    passed = failed = 0
    for case in run(entries, REAL):
        failed += bool(case.failures)
        passed += not case.failures
        for failure in case.failures:
            print(_printable(f"FAILED {case.section}/{case.id}: {failure}"))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _printable(text: str) -> str:
    """A line that any terminal takes."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
