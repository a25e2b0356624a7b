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


KINDS = ("folder", "folder and objects", "postgres", "postgres and s3")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An address of each kind that outlives a node, with nothing there yet."""
    return place_of(request.param, request, tmp_path)


@pytest.fixture
def another_place(place: Place, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An address of another kind than `place` is."""
    kind = KINDS[(KINDS.index(place.kind) + 3) % len(KINDS)]
    return place_of(kind, request, tmp_path / "another")


def place_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    """An address of this kind."""
    number = next(numbers)
    folder.mkdir(exist_ok=True)
    match kind:
        case "folder":
            return Place(kind, str(folder / "data"))
        case "folder and objects":
            return Place(kind, str(folder / "data"), str(folder / "objects"))
    dsn = f"{request.getfixturevalue('postgres_server').dsn}?schema=place_{number}"
    if kind == "postgres":
        return Place(kind, dsn)
    s3 = request.getfixturevalue("s3_server")
    return Place(kind, dsn, s3.url(f"place{number}"), StoreOptions(credentials=s3.credentials))
