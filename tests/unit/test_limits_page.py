"""The page of limits says what the code says."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"
ROWS = re.findall(r"^\| [^|]+ \| (\d+) \| [^|]+ \| `([\w.]+)` \|$", PAGE.read_text(), re.MULTILINE)


def test_the_page_has_rows():
    assert len(ROWS) > 50


def test_every_row_of_a_table_is_read_here():
    """A row that does not fit the pattern would be compared with nothing."""
    tables = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert len(ROWS) == len([line for line in tables if not line.startswith("| what |")])


@pytest.mark.parametrize(("limit", "name"), ROWS)
def test_a_limit_on_the_page_is_the_one_in_the_code(limit, name):
    module, _, constant = name.rpartition(".")
    assert getattr(importlib.import_module(module), constant) == int(limit)
