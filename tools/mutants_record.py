"""A pytest plugin for `tools/mutants.py`: which test executes which line, how long each takes, which pass.

What a fixture does for a test counts as the test's: worlds are restored and verified when a test ends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage

_seconds: dict[str, float] = {}
_failed: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Everything from setup to teardown has the test's name as its context."""
    covered = Coverage.current()
    assert covered is not None
    covered.switch_context(item.nodeid)
    result = yield
    covered.switch_context("")
    return result


def pytest_runtest_logreport(report: Any) -> None:
    """Add up the phases of a test."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.outcome != "passed":
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write down the seconds of the tests that pass."""
    passed = {name: round(spent, 3) for name, spent in _seconds.items() if name not in _failed}
    Path(os.environ["MUTANTS_SECONDS"]).write_text(json.dumps(passed, indent=0))
