"""`SqliteEngine`: the engine contract over one SQLite file.

Lives on the event loop that opened it; the work is done by one writer thread and two reader threads, which
answer through one call into the loop per group; batches of one turn of the loop go to the writer together.
Any number of processes may open the same file. Waiting batches are bounded; beyond the bound commits are
refused, never queued. A task that stops waiting for its commit changes nothing: the batch may still be
applied, and its answer is dropped.

Rejected: an exception inside the future. A cancelled waiter would leave it unread, and asyncio complain.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from cellule.errors import CelluleError, Unavailable
from cellule.store.engine import Batch, Page, Row, Stamp, check_key, check_scan
from cellule.store.engines.sqlite.check import CheckReport, Progress, check
from cellule.store.engines.sqlite.connection import Connect, Settings, absolute_path, connect_sqlite3
from cellule.store.engines.sqlite.dump import every_row
from cellule.store.engines.sqlite.errors import told
from cellule.store.engines.sqlite.group import Decision, Outcome, prepare
from cellule.store.engines.sqlite.reader import ReadQueue, ReadRequest, ScanRequest, serve_reads, serve_scans
from cellule.store.engines.sqlite.watch import Watchers
from cellule.store.engines.sqlite.writer import GROUP_BATCHES_MAX, GROUP_BYTES_MAX, Waiting, Writer
from cellule.store.families import check_one_family
from cellule.store.format import check_format
from cellule.store.resource import Resource

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

BUSY_MS = 5_000
CHECKPOINT_BYTES = 4_194_304
POLL_MS = 20
WAITING_BYTES_MAX = 256_000_000
SINGLE_GROUPS = 4
"""After so many groups of one batch each, the next batch that finds none waiting is not kept for company."""

R = TypeVar("R", ReadRequest, ScanRequest)
T = TypeVar("T")


class SqliteEngine(Resource):
    """An ordered key-value store in one SQLite file; `open` makes one. See `cellule.store.engine.Engine`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._watchers = Watchers(lambda on: self._writer.poll(on=on))
        self._reads: ReadQueue[ReadRequest] = ReadQueue(settings, serve_reads, self._answer)
        self._scans: ReadQueue[ScanRequest] = ReadQueue(settings, serve_scans, self._answer)
        pauses = (self._reads.pause, self._scans.pause)
        self._writer = Writer(settings, self._settle, self._changed, pauses)
        self._opened: asyncio.Future[CelluleError | None] = self._loop.create_future()
        self._closed: asyncio.Future[None] | None = None
        self._gathered: list[Waiting] = []
        self._gathered_bytes = 0
        self._waiting = self._single_groups = 0
        self._waiting_bytes = 0

    @classmethod
    async def open(
        cls,
        path: str | PathLike[str],
        *,
        connect: Connect = connect_sqlite3,
        busy_ms: int = BUSY_MS,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
        poll_ms: int = POLL_MS,
    ) -> Self:
        """Open the file at `path`, making it if its folder exists, and check its format.

        A lock held by another process is waited for up to `busy_ms`; the log is copied into the file each
        time it grew by `checkpoint_bytes`; watches look for commits of other processes every `poll_ms`.
        """
        engine = cls(Settings(absolute_path(path), connect, busy_ms, checkpoint_bytes, poll_ms))
        threading.Thread(target=engine._work, name=f"cellule sqlite {engine.path}", daemon=True).start()
        try:
            failure = await asyncio.shield(engine._opened)
            if failure is not None:
                raise failure
            await check_format(engine)
        except BaseException:
            await engine.close()
            raise
        return engine

    @property
    def path(self) -> str:
        """The absolute path of the file."""
        return self._settings.path

    @property
    def files(self) -> list[Path]:
        """The file, its log and the log's index: none becomes another one while the engine is open."""
        return [Path(self.path + ending) for ending in ("", "-wal", "-shm")]

    async def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of `keys`, in their order, from one snapshot; `None` where absent."""
        self._check_open()
        for key in keys:
            check_key(key)
        if not keys:
            return []
        answer: asyncio.Future[list[bytes | None] | CelluleError] = self._loop.create_future()
        self._reads.submit(ReadRequest(tuple(keys), answer))
        return _value(await answer)

    async def scan(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Page:
        """Return at most `limit` rows of `[begin, end)` from one snapshot; causes no conflict."""
        self._check_open()
        check_scan(begin, end, limit)
        check_one_family(begin, end)
        answer: asyncio.Future[Page | CelluleError] = self._loop.create_future()
        self._scans.submit(ScanRequest(begin, end, limit, reverse, answer))
        return _value(await answer)

    async def rows(self) -> AsyncGenerator[list[Row], None]:
        """Yield every row of one snapshot; while it is kept, the log cannot start over and grows."""
        self._check_open()
        async with contextlib.aclosing(every_row(self._settings)) as pages:
            async for page in pages:
                yield page

    async def commit(self, batch: Batch) -> list[Stamp]:
        """Apply `batch` as a whole, durably, and return one stamp per `ordered` entry.

        Everything it is given is copied before the first wait.
        """
        self._check_open()
        prepared = prepare(batch)
        if self._waiting_bytes > WAITING_BYTES_MAX:
            raise Unavailable(
                "store.overloaded", "{waiting} bytes wait for the disk under {path}",
                waiting=self._waiting_bytes, path=self.path,
                hint="Retry with backoff: the disk is slower than the writers.",
            )  # fmt: skip
        answer: asyncio.Future[Outcome] = self._loop.create_future()
        self._waiting_bytes += prepared.size
        self._gather(Waiting(prepared, answer))
        return _value(await answer)

    async def watch(self, key: bytes, seen: bytes | None) -> None:
        """Return once the value of `key` differs from `seen`; may return for nothing."""
        self._check_open()
        check_key(key)
        written = False
        while not written:
            waiter = self._watchers.add(key)
            try:
                if (await self.read([key]))[0] != seen:
                    return
                written = await waiter
            finally:
                self._watchers.remove(key, waiter)

    async def check(self, progress: Progress | None = None) -> CheckReport:
        """Prove the whole file while it is in use; see `check`."""
        self._check_open()
        return await check(self.path, connect=self._settings.connect, progress=progress)

    async def close(self) -> None:
        """Release everything. Commits already submitted finish first; later calls raise `Unavailable`."""
        if self._closed is None:
            self._closed = self._loop.create_future()
            self._watchers.wake_all()
            self._hand_over()
            self._writer.stop()
        await asyncio.shield(self._closed)

    def _work(self) -> None:
        """The writer thread's whole life; the reader threads live inside it."""
        failure: CelluleError | None = None
        try:
            self._writer.open()
        except Exception as error:  # noqa: BLE001 - whatever happened, the caller of open must hear of it
            failure = told(error)
        threads = [
            threading.Thread(target=reader.run, name=f"cellule sqlite reader {self.path}", daemon=True)
            for reader in (self._reads, self._scans)
        ]
        for thread in threads:
            thread.start()
        self._on_loop(self._opened.set_result, failure)
        self._writer.run()
        self._reads.stop()
        self._scans.stop()
        for thread in threads:
            thread.join()
        self._writer.close()
        self._on_loop(self._finish)

    def _finish(self) -> None:
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def _gather(self, waiting: Waiting) -> None:
        """Keep a batch until this turn of the loop ends: the writer is woken once for all of them.

        Where batches come one after the other, there is nothing to keep them for: a turn may be a long one,
        and the disk could work meanwhile.
        """
        is_single = not self._waiting and self._single_groups >= SINGLE_GROUPS
        if not self._gathered and not is_single:
            self._loop.call_soon(self._hand_over)
        self._waiting += 1
        self._gathered.append(waiting)
        self._gathered_bytes += waiting.batch.size
        if is_single or self._gathered_bytes >= GROUP_BYTES_MAX or len(self._gathered) >= GROUP_BATCHES_MAX:
            self._hand_over()

    def _hand_over(self) -> None:
        if self._gathered:
            self._writer.submit(self._gathered)
            self._gathered, self._gathered_bytes = [], 0

    def _settle(self, group: list[Waiting], decision: Decision) -> None:
        self._on_loop(self._settled, group, decision)

    def _settled(self, group: list[Waiting], decision: Decision) -> None:
        self._waiting -= len(group)
        self._single_groups = self._single_groups + 1 if len(group) == 1 else 0
        for waiting, outcome in zip(group, decision.outcomes, strict=True):
            self._waiting_bytes -= waiting.batch.size
            if not waiting.answer.done():
                waiting.answer.set_result(outcome)
        self._watchers.wake_touched(decision)

    def _answer(self, requests: list[R], answers: list[Any]) -> None:
        self._on_loop(_answered, requests, answers)

    def _changed(self) -> None:
        self._on_loop(self._watchers.wake_all)

    def _on_loop(self, function: Callable[..., None], *arguments: object) -> None:
        # A loop that was closed without closing the engine has nobody left who could be told.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise Unavailable("store.closed", "{path} was closed", path=self.path)


def _answered(requests: list[R], answers: list[Any]) -> None:
    for request, answer in zip(requests, answers, strict=True):
        if not request.answer.done():
            request.answer.set_result(answer)


def _value(answer: T | CelluleError) -> T:
    if isinstance(answer, CelluleError):
        raise answer
    return answer
