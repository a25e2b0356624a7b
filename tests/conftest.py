"""Fixtures that all tests share: real servers, one per test process."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.places import FOLDER_AND_OBJECTS, KINDS, SHARED_KINDS, Place, folder_place, postgres_place
from tests.support.servers.postgres import PostgresServer, missing_reason
from tests.support.servers.s3 import S3Server

# Processes that tests start import `tests.support` too.
_ROOT = Path(__file__).parents[1]
os.environ["PYTHONPATH"] = os.pathsep.join((str(_ROOT / "src"), str(_ROOT)))
# Hundreds of them: each would compile the whole package again where nothing may keep the bytecode.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


# A busy machine is slow, and no test is about speed: examples have no deadline.
settings.register_profile("without deadline", deadline=None)
settings.load_profile("without deadline")

# A shell starts what it runs in the background with SIGINT and SIGQUIT ignored, `nohup` with SIGHUP, and
# children inherit that.
_USUAL = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGQUIT: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
for _sign, _handler in _USUAL.items():
    if signal.getsignal(_sign) is signal.SIG_IGN:
        signal.signal(_sign, _handler)


def pytest_collection_finish():
    """Thousands of tests and what they import are no garbage: collections need not look at them."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def open_umask():
    """Nothing is taken from the modes that files and folders are made with."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def postgres_server():
    """A running PostgreSQL, one per test process; whoever stops or kills servers makes one of its own."""
    reason = missing_reason()
    if reason is not None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    with PostgresServer.create() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory):
    """A running S3 server, one per test process."""
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(params=KINDS)
async def place(request, tmp_path):
    """An address of each kind, proven when the test ends; `KINDS` of an indirect parameter chooses some."""
    made = made_place(request.param, request, tmp_path)
    yield made
    await made.prove()


@pytest.fixture
async def another_place(place, request, tmp_path):
    """An address of another kind than `place` is, proven too."""
    made = made_place(KINDS[(KINDS.index(place.kind) + 3) % len(KINDS)], request, tmp_path / "another")
    yield made
    await made.prove()


def made_place(kind, request, folder) -> Place:
    if kind not in SHARED_KINDS:
        return folder_place(folder, objects=kind == FOLDER_AND_OBJECTS)
    s3 = request.getfixturevalue("s3_server") if kind == SHARED_KINDS[1] else None
    return postgres_place(request.getfixturevalue("postgres_server"), s3)
