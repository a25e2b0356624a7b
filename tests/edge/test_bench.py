"""The benchmarks run, and speak to programs in lines of JSON. No speed is asserted anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.postgres import missing_reason

ROOT = Path(__file__).parents[2]
BENCHES = (
    "values", "engines", "cas", "kernel", "ingest", "ingest_postgres", "effects", "growth", "history",
    "worlds", "storage", "styles",
)  # fmt: skip
ON_A_SERVER = ("engines", "ingest_postgres")
KEYS = ["bench", "case", "metric", "value", "unit", "target", "ok"]
REASON = missing_reason()
NEEDS_SERVER = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_an_unknown_name_is_refused_and_the_known_ones_are_told():
    done = bench("values", "nonsense", "--quick")
    assert done.returncode != 0
    assert done.stdout == ""
    assert "nonsense" in done.stderr
    for name in BENCHES:
        assert name in done.stderr


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=NEEDS_SERVER if name in ON_A_SERVER else ()) for name in BENCHES],
)
def test_a_benchmark_prints_one_json_object_a_line_with_exactly_the_agreed_keys(name):
    done = bench(name, "--json", "--quick")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows
    for row in rows:
        assert list(row) == KEYS
        assert row["bench"] == name
        assert all(isinstance(row[key], str) for key in ("case", "metric", "unit"))
        assert isinstance(row["value"], int | float)
        assert (row["target"] is None) == (row["ok"] is None)
        assert row["ok"] in (None, True, False)
    assert len({(row["case"], row["metric"]) for row in rows}) == len(rows)


def test_the_table_can_be_printed_for_documents():
    done = bench("values", "--quick", "--markdown")
    assert done.returncode == 0, done.stderr
    head, rule, *rows = done.stdout.splitlines()
    assert head.startswith("| bench | case | metric | value | target |")
    assert set(rule) <= set("|-: ")
    assert rows
    assert all(row.startswith("| values | ") and row.count("|") == head.count("|") for row in rows)


def test_without_json_a_table_is_printed_with_every_row_and_the_count_of_targets():
    done = bench("values", "--quick")
    assert done.returncode == 0, done.stderr
    assert "encode vs cbor2 canonical" in done.stdout
    assert "of 2 targets reached" in done.stdout
    assert "running values" in done.stderr
