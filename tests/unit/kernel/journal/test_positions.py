"""Only `kernel/journal` knows where a field of a record stands: everybody else asks for it by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
FILES = [
    path
    for folder in ("src", "tests", "bench", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "kernel/journal/" not in path.as_posix()
]
RECORDS = {"record", "origin"}


def positions(source: str) -> Iterator[int]:
    """The lines in which a record is indexed by a number, cut, or taken apart in order."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant() | ast.Slice() | ast.UnaryOp()):
                if name in RECORDS and not _is_text(node.slice):
                    yield node.lineno
            case ast.Assign(targets=[ast.Tuple()], value=ast.Name(id=name)) if name in RECORDS:
                yield node.lineno


def _is_text(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and isinstance(index.value, str)


def test_no_file_outside_the_journal_knows_a_position_of_a_record() -> None:
    assert len(FILES) > 500
    found = [f"{path.relative_to(ROOT)}:{line}" for path in FILES for line in positions(path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    "line", ["record[3]", "record[-1]", "record[2:5]", "[*origin[2:5]]", "_, cause, *rest = record"]
)
def test_a_position_of_a_record_is_found(line: str) -> None:
    assert list(positions(line)) == [1]


@pytest.mark.parametrize("line", ["record.cause", 'record["height"]', "rows[3]", "height, record = pair"])
def test_names_are_no_positions(line: str) -> None:
    assert list(positions(line)) == []
