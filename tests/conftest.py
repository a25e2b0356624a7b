"""Fixtures that all tests share: real servers, one per test process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.servers.postgres import PostgresServer, missing_reason

# Processes that tests start import `tests.support` too.
os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])


# A shell starts what it runs in the background with SIGINT ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres_server():
    """A running PostgreSQL, one per test process; whoever stops or kills servers makes one of its own."""
    reason = missing_reason()
    if reason is not None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    with PostgresServer.create() as server:
        yield server
