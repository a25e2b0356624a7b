"""The floor of `ingest`: a bare loop over a bare SQLite file that does only what cannot be left out.

Per event: decode event and state (`libipld`), convert both (`msgspec`), call the same reducer, `to_builtins`,
encode, keep the bytes by key. Per batch: one transaction (WAL, `synchronous=FULL`) with the very rows that
Cellule committed for the same events: the frame in its parts and the head. Which events shared a frame, and
its bytes, are read back from Cellule's journal outside the clock. No routing, versions, records or hashes;
nobody waits for an answer, and events come encoded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import NamedTuple

import libipld
import msgspec

from bench.ingest_app import Account, Added, account
from cellule.host.handles import WorldHandle
from cellule.host.journal import frame_rows
from cellule.kernel.frame import decode_frame, encode_frame
from cellule.store import keys

_UPSERT = "INSERT INTO rows (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


class Commit(NamedTuple):
    """One batch: the events that go into it, and the rows it writes."""

    events: Sequence[bytes]
    rows: list[tuple[bytes, bytes]]


async def commits_since(world: WorldHandle, height: int, events: Sequence[Added]) -> list[Commit]:
    """What Cellule committed for these events, which are all that came after `height`."""
    encoded = [libipld.encode_dag_cbor(msgspec.to_builtins(event)) for event in events]
    head_key = keys.world_head(world.info.universe, world.id)
    head = (await world.head()).row()
    commits: list[Commit] = []
    start = 0
    async for frame, count in _frames(world, height + 1):
        rows = frame_rows(world.info.universe, world.id, frame[0], frame[1])
        commits.append(Commit(encoded[start : start + count], [*rows.items(), (head_key, head)]))
        start += count
    assert start == len(encoded)
    return commits


async def _frames(world: WorldHandle, first: int) -> AsyncIterator[tuple[tuple[int, bytes], int]]:
    """Each frame with its last height, and how many events it holds."""
    async for frame in world.frames(first):
        data = encode_frame(frame.header, frame.names, frame.records, linked=False)
        assert decode_frame(data).cid == frame.cid
        yield (frame.header.last, data), len(frame.records) // 2  # each event has its record and a step's


class Floor:
    """The bare loop and its file."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL").fetchall()
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE rows (key BLOB PRIMARY KEY, value BLOB NOT NULL)")
        self._states: dict[str, bytes] = {}

    def closing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Close the file at the end of the block."""
        return closing(self._connection)

    def run(self, commits: list[Commit]) -> None:
        """Do all batches, one after another."""
        execute, executemany = self._connection.execute, self._connection.executemany
        for events, rows in commits:
            self._step(events)
            execute("BEGIN IMMEDIATE")
            executemany(_UPSERT, rows)
            execute("COMMIT")

    def _step(self, events: Sequence[bytes]) -> None:
        read, write = libipld.decode_dag_cbor, libipld.encode_dag_cbor
        convert, to_builtins = msgspec.convert, msgspec.to_builtins
        states = self._states
        for value in events:
            event = convert(read(value), Added)
            stored = states.get(event.account)
            state = None if stored is None else convert(read(stored), Account)
            states[event.account] = write(to_builtins(account(state, event).state))
