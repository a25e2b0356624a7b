"""The floor of `effects`: a bare asyncio loop over a bare SQLite file that makes the very same writes.

Every group of batches that Cellule's writer committed is one transaction here, with the same rows set and
deleted: frames, heads, outbox rows, receipts in the inbox, and their clearing. They are taken down as they
are committed, and done again later (WAL, `synchronous=FULL`), in a thread, as whoever has other things to
do on the loop would. Per intent: the event is decoded, converted and stepped, the state and the params are
encoded; a task decodes the params, awaits the adapter's function under a timeout, at most 16 at once as in
the pool, and encodes the receipt; the receipt is decoded and stepped, the state encoded. No routing,
records, hashes, signatures, grants, retries, queues or ids.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Iterable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import libipld
import msgspec

from bench.effects_app import Answer, Ask, Job, Wanted, job, nothing
from cellule import Receipt
from cellule.host.ingress.handles import WorldHandle
from cellule.kernel.journal.records import EventRecord, ReceiptRecord, Record, StepRecord
from cellule.store import keys
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.engines.sqlite.group import Decision
from cellule.store.engines.sqlite.writer import Waiting
from cellule.values.envelope import value_of

_UPSERT = "INSERT INTO rows (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_DELETE = "DELETE FROM rows WHERE key = ?"

Rows = dict[bytes, bytes | None]
CONCURRENCY, TIMEOUT_S = 16, 60.0  # as the pool treats an adapter that says nothing else


class Commit(NamedTuple):
    """One transaction: the events, answers and receipts that go into it, and its rows."""

    events: list[bytes]
    answers: int
    receipts: list[tuple[str, bytes]]
    set: list[tuple[bytes, bytes]]
    clear: list[tuple[bytes]]
    states: dict[str, bytes]


class TakenDown:
    """What the engine's writer commits while the block runs."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._writer = engine._writer
        self._settle = self._writer._settle
        self.groups: list[Rows] = []

    def __enter__(self) -> Self:
        def settle(group: list[Waiting], decision: Decision) -> None:
            self.groups.append(decision.rows)
            self._settle(group, decision)

        self._writer._settle = settle
        return self

    def __exit__(self, *_: object) -> None:
        self._writer._settle = self._settle


async def commits_of(world: WorldHandle, groups: Iterable[Rows], first: int) -> list[Commit]:
    """The groups, with what was worked out for the frames and receipts in each."""
    universe = world.info.universe
    journal, inbox = keys.journal_range(universe, world.id), keys.inbox_range(universe, world.id)
    frames = {frame.header.last: frame async for frame in world.frames(first)}
    commits = []
    for rows in groups:
        written = [(key, value) for key, value in rows.items() if value is not None]
        cleared = [(key,) for key, value in rows.items() if value is None]
        heights = {keys.journal_height(key) for key, _ in written if journal[0] <= key < journal[1]}
        answers = sum(inbox[0] <= key < inbox[1] for key, _ in written)
        records = [record for height in sorted(heights) for record in frames[height].records]
        commits.append(
            Commit(_events(records), answers, _receipts(records), written, cleared, _states(records))
        )
    return commits


def _events(records: list[Record]) -> list[bytes]:
    events = [each for each in records if isinstance(each, EventRecord) and each.schema == "bench/Wanted@1"]
    return [_inline(event.value) for event in events]


def _receipts(records: list[Record]) -> list[tuple[str, bytes]]:
    receipts = [each for each in records if isinstance(each, ReceiptRecord)]
    return [(receipt.key.decode(), _inline(receipt.value)) for receipt in receipts]


def _states(records: list[Record]) -> dict[str, bytes]:
    """The newest state of each job that stepped."""
    steps = [each for each in records if isinstance(each, StepRecord) and each.key]
    return {step.key.decode(): _inline(step.state) for step in steps}


def _inline(stored: Any) -> bytes:
    value = value_of(stored)
    assert isinstance(value, bytes)
    return value


class _WireReceipt(msgspec.Struct, frozen=True):
    intent_id: str
    kind: str
    status: Literal["ok"]
    value: Answer


async def _attempt(params: bytes, limit: asyncio.Semaphore) -> None:
    """What stands for an attempt: the adapter's function under a timeout."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            given = msgspec.convert(libipld.decode_dag_cbor(params), Ask)
            libipld.encode_dag_cbor(msgspec.to_builtins(await nothing.function(given)))
    finally:
        limit.release()


class Floor:
    """The bare loop and its file."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode=WAL").fetchall()
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE rows (key BLOB PRIMARY KEY, value BLOB NOT NULL)")
        self._states: dict[str, bytes] = {}
        self._params: deque[bytes] = deque()

    def closing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Close the file at the end of the block."""
        return closing(self._connection)

    async def run(self, commits: list[Commit]) -> None:
        """Do all transactions, one after another."""
        for events, answers, receipts, rows, cleared, _ in commits:
            self._ask(events)
            await self._answer(answers)
            self._receive(receipts)
            await asyncio.to_thread(self._commit, cleared, rows)

    def _commit(self, cleared: list[tuple[bytes]], rows: list[tuple[bytes, bytes]]) -> None:
        execute, executemany = self._connection.execute, self._connection.executemany
        execute("BEGIN IMMEDIATE")
        executemany(_DELETE, cleared)
        executemany(_UPSERT, rows)
        execute("COMMIT")

    def _ask(self, events: list[bytes]) -> None:
        read, write = libipld.decode_dag_cbor, libipld.encode_dag_cbor
        convert, to_builtins, states, params = (
            msgspec.convert,
            msgspec.to_builtins,
            self._states,
            self._params,
        )
        for value in events:
            event = convert(read(value), Wanted)
            stored = states.get(event.job)
            step = job(None if stored is None else convert(read(stored), Job), event)
            states[event.job] = write(to_builtins(step.state))
            params.append(write(to_builtins(step.effects[0].params)))

    async def _answer(self, count: int) -> None:
        limit = asyncio.Semaphore(CONCURRENCY)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                await limit.acquire()
                tasks.create_task(_attempt(self._params.popleft(), limit))

    def _receive(self, receipts: list[tuple[str, bytes]]) -> None:
        read, write = libipld.decode_dag_cbor, libipld.encode_dag_cbor
        convert, to_builtins, states = msgspec.convert, msgspec.to_builtins, self._states
        for name, value in receipts:
            wire = convert(read(value), _WireReceipt)
            receipt = Receipt(wire.intent_id, wire.kind, wire.status, wire.value)
            states[name] = write(to_builtins(job(convert(read(states[name]), Job), receipt).state))

    def check(self, commits: list[Commit]) -> None:
        """Prove that both sides came to the same bytes."""
        newest: dict[str, bytes] = {}
        for commit in commits:
            newest.update(commit.states)
        for name, state in newest.items():
            assert self._states[name] == state, name
        assert not self._params
