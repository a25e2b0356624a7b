"""The floor of `ingest`: a bare loop over a bare SQLite file that does only what cannot be left out.

Per event: what `ingest_jobs` says for its record; the bytes are kept by key. Per batch: one transaction (WAL,
`synchronous=FULL`) with the very rows that Cellule committed for the same events: the frame in its parts and
the head. Which events shared a frame, and its bytes, are read back from Cellule's journal outside the clock.
No routing, versions, records or hashes; nobody waits for an answer, and events come encoded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, NamedTuple

from bench.ingest_jobs import Job, States
from cellule.host.ingress.handles import WorldHandle
from cellule.host.journal import frame_rows
from cellule.kernel.journal.frame import Frame, decode_frame
from cellule.kernel.journal.records import EventRecord, StepRecord
from cellule.store import keys
from tests.support.frames import encode_records

_UPSERT = "INSERT INTO rows (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


class Commit(NamedTuple):
    """One batch: the events that go into it, the rows it writes, and the states Cellule made of them."""

    events: Sequence[bytes]
    rows: list[tuple[bytes, bytes]]
    states: dict[bytes, bytes]


async def commits_since(world: WorldHandle, height: int, events: Sequence[Any], job: Job) -> list[Commit]:
    """What Cellule committed for these events, which are all that came after `height`."""
    encoded = [job.encode(event) for event in events]
    head_key = keys.world_head(world.info.universe, world.id)
    head = (await world.head()).row()
    commits: list[Commit] = []
    start = 0
    async for frame, data, count in _frames(world, height + 1):
        rows = frame_rows(world.info.universe, world.id, frame.header.last, data)
        commits.append(
            Commit(encoded[start : start + count], [*rows.items(), (head_key, head)], _states(frame))
        )
        start += count
    assert start == len(encoded)
    return commits


async def _frames(world: WorldHandle, first: int) -> AsyncIterator[tuple[Frame, bytes, int]]:
    """Each frame with its bytes, and how many events it holds."""
    async for frame in world.frames(first):
        data = encode_records(frame.header, frame.records, frame.names)
        assert decode_frame(data).cid == frame.cid
        yield frame, data, sum(1 for _ in frame.of(EventRecord))  # a frame may note a snapshot too


def _states(frame: Frame) -> dict[bytes, bytes]:
    """The newest state of each cell that stepped."""
    return {step.key: step.state[0] for _, step in frame.of(StepRecord) if isinstance(step.state, list)}


class Floor:
    """The bare loop and its file."""

    def __init__(self, path: Path, job: Job) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL").fetchall()
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE rows (key BLOB PRIMARY KEY, value BLOB NOT NULL)")
        self._step = job.step
        self._states: States = {}

    def closing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Close the file at the end of the block."""
        return closing(self._connection)

    def run(self, commits: list[Commit]) -> None:
        """Do all batches, one after another."""
        execute, executemany = self._connection.execute, self._connection.executemany
        step, states = self._step, self._states
        for events, rows, _ in commits:
            step(events, states)
            execute("BEGIN IMMEDIATE")
            executemany(_UPSERT, rows)
            execute("COMMIT")

    def check(self, commits: list[Commit]) -> None:
        """Prove that both sides came to the same bytes."""
        for key, state in commits[-1].states.items():
            assert self._states[key.decode()] == state, key
