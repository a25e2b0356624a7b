"""Stores by address, for tests that run on each kind of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cellule.assembly import Options
from cellule.store.store import StoreOptions
from tests.support.servers.s3 import S3Server

numbers = count()


@dataclass(frozen=True)
class Place:
    """Where a test's store is; `options` complete what `cellule.open` is given."""

    kind: str
    address: str
    objects: str | None = None
    store: StoreOptions = field(default_factory=StoreOptions)

    def opened(self, **more: Any) -> dict[str, Any]:
        """The keyword arguments of `cellule.open` beside the address."""
        return {"objects": self.objects, "options": Options(store=self.store, **more)}


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A running S3 server, one per test process."""
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(params=["folder", "folder and objects", "postgres", "postgres and s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An address of each kind that outlives a node, with nothing there yet."""
    number = next(numbers)
    match request.param:
        case "folder":
            return Place("folder", str(tmp_path / "data"))
        case "folder and objects":
            return Place("folder and objects", str(tmp_path / "data"), str(tmp_path / "objects"))
    dsn = f"{request.getfixturevalue('postgres_server').dsn}?schema=place_{number}"
    if request.param == "postgres":
        return Place("postgres", dsn)
    s3 = request.getfixturevalue("s3_server")
    return Place("postgres and s3", dsn, s3.url(f"place{number}"), StoreOptions(credentials=s3.credentials))
