"""Reader threads: each takes all waiting requests and answers them from its own connection.

A reader has one kind of request. Point reads that wait together share one snapshot and a few statements; a
scan is one statement, so one snapshot. Every snapshot begins after its requests were made and so sees all
that was acknowledged before. Reading never waits for a writer, nor a writer for reading.

Rejected: one reader for both. A page of 10,000 rows would delay every point read behind it.
Rejected: reading on the event loop. A cold page is a disk read of milliseconds, for all tasks.
Rejected: more readers. Rows become Python objects under the interpreter lock, so they add turns, not speed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cellule.errors import CelluleError
from cellule.store.engine import Page
from cellule.store.engines.sqlite.connection import (
    Connection,
    Settings,
    close_quietly,
    open_connection,
    patiently,
    roll_back,
)
from cellule.store.engines.sqlite.errors import told
from cellule.store.engines.sqlite.statements import scan_rows, select_rows
from cellule.store.rows import open_row

if TYPE_CHECKING:
    from asyncio import Future

PASS_REQUESTS_MAX = 1_024

R = TypeVar("R", bound="ReadRequest | ScanRequest")


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Some keys and the future of who asked."""

    keys: tuple[bytes, ...]
    answer: Future[list[bytes | None] | CelluleError]


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """A range, how much of it, and the future of who asked."""

    begin: bytes
    end: bytes
    limit: int
    reverse: bool
    answer: Future[Page | CelluleError]


class ReadQueue(Generic[R]):
    """One thread and one connection for one kind of request.

    `serve` answers many requests at once; `settle` gets the answers, on this thread. `pause` is held while a
    snapshot is open; whoever takes it knows that this thread reads nothing.
    """

    def __init__(
        self,
        settings: Settings,
        serve: Callable[[Connection, list[R]], list[Any]],
        settle: Callable[[list[R], list[Any]], None],
    ) -> None:
        self._settings = settings
        self._serve = serve
        self._settle = settle
        self._inbox: SimpleQueue[R | None] = SimpleQueue()
        self._connection: Connection | None = None
        self.pause = threading.Lock()

    def submit(self, request: R) -> None:
        """Queue a request; it is answered through `settle`."""
        self._inbox.put(request)

    def stop(self) -> None:
        """Finish what was submitted, then end `run`."""
        self._inbox.put(None)

    def run(self) -> None:
        """Work until stopped; every request taken is answered."""
        going = True
        while going:
            requests, going = self._take()
            if requests:
                self._settle(requests, self._answers(requests))
        self._drop()

    def _take(self) -> tuple[list[R], bool]:
        requests: list[R] = []
        item = self._inbox.get()
        try:
            while item is not None:
                requests.append(item)
                if len(requests) >= PASS_REQUESTS_MAX:
                    return requests, True
                item = self._inbox.get_nowait()
        except Empty:
            return requests, True
        return requests, False

    def _answers(self, requests: list[R]) -> list[Any]:
        """Answer all together; if that fails, each alone, so that a damaged page fails only its readers."""
        try:
            with self.pause:
                return patiently(lambda: self._serve(self._connected(), requests), self._settings)
        except Exception as error:  # noqa: BLE001 - whatever happened, the callers must hear of it
            self._drop()
            if len(requests) == 1:
                return [told(error)]
        return [answer for request in requests for answer in self._answers([request])]

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = open_connection(self._settings, read_only=True)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            close_quietly(self._connection)
            self._connection = None


def serve_reads(
    connection: Connection, requests: list[ReadRequest]
) -> list[list[bytes | None] | CelluleError]:
    """Read the keys of all requests from one snapshot."""
    keys = list({key: None for request in requests for key in request.keys})
    if len(keys) <= 1:
        return _opened(requests, select_rows(connection, keys))
    connection.execute("BEGIN")
    try:
        stored = select_rows(connection, keys)
    finally:
        roll_back(connection)
    return _opened(requests, stored)


def serve_scans(connection: Connection, requests: list[ScanRequest]) -> list[Page | CelluleError]:
    """Scan for each request, each from a snapshot of its own."""
    return [_scanned(connection, request) for request in requests]


def _opened(
    requests: list[ReadRequest], stored: dict[bytes, bytes]
) -> list[list[bytes | None] | CelluleError]:
    answers: list[list[bytes | None] | CelluleError] = []
    for request in requests:
        try:
            rows = [(key, stored.get(key)) for key in request.keys]
            answers.append([None if row is None else open_row(key, row) for key, row in rows])
        except CelluleError as error:
            answers.append(error)
    return answers


def _scanned(connection: Connection, request: ScanRequest) -> Page | CelluleError:
    try:
        return scan_rows(connection, request.begin, request.end, request.limit, reverse=request.reverse)
    except CelluleError as error:
        return error
