"""The writer thread: takes all waiting batches, writes them in one transaction, commits once.

It owns the only connection that writes. A batch is answered after COMMIT returned, which is after the log was
synced. Whatever fails before COMMIT is rolled back and answered as not applied; when COMMIT itself fails the
outcome is unknown, and the connection is replaced before the next group. A batch that comes alone and only
expects and sets some rows is one statement, which commits itself. Deciding is `group.py`'s.

Between groups the log is copied into the database file, while the writer's own connection holds the write
lock. Rejected: checkpoints beside running writers. SQLite before 3.51.3 can lose committed pages when a
checkpoint meets a commit that restarts the log; under the write lock the two cannot meet, in any process.
Rejected: committing each batch. A sync costs 200 us and more; a group of 64 needs one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, cast

from cellule.errors import CelluleError
from cellule.store.engines.sqlite.connection import (
    Connection,
    Settings,
    close_quietly,
    first,
    open_connection,
    patiently,
    roll_back,
)
from cellule.store.engines.sqlite.errors import is_busy, is_full, mapped, may_be_one_batch, result_code, told
from cellule.store.engines.sqlite.group import Decision, Outcome, Prepared, decide, keys_read
from cellule.store.engines.sqlite.layout import prepare_file
from cellule.store.engines.sqlite.statements import (
    delete_ranges,
    delete_rows,
    read_stamp,
    select_rows,
    upsert_expected,
    upsert_rows,
    write_stamp,
)

if TYPE_CHECKING:
    from asyncio import Future

GROUP_BATCHES_MAX = 1_024
GROUP_BYTES_MAX = 16_000_000
COUNT_GROUPS = 16
COUNTS_PER_CHECKPOINT = 16
"""The log is looked at after so many groups, or when so much of a checkpoint's size may be in it."""
QUIET_FACTOR = 4
"""A log this many times over the checkpoint size waits for our own readers, so that it can start over."""


@dataclass(slots=True)
class Waiting:
    """One batch and the future of its caller."""

    batch: Prepared
    answer: Future[Outcome]


class Writer:
    """One thread, one writing connection.

    `settle` gets each group with its outcomes, `changed` is called when another connection committed or may
    have; both are called on this thread. `pauses` are the locks of the readers of this process.
    """

    def __init__(
        self,
        settings: Settings,
        settle: Callable[[list[Waiting], Decision], None],
        changed: Callable[[], None],
        pauses: Sequence[threading.Lock],
    ) -> None:
        self._settings = settings
        self._settle = settle
        self._changed = changed
        self._pauses = pauses
        self._inbox: SimpleQueue[list[Waiting] | bool] = SimpleQueue()
        self._kept: Connection | None = None  # never dropped: while it is open the log is never another file
        self._connection: Connection | None = None
        self._checkpointer: Connection | None = None
        self._log = Path(settings.path + "-wal")
        self._log_base = 0
        self._version = 0
        self._polling = False
        self._look_at = 0.0  # when to look for commits of others, if batches leave no time for it
        self._uncounted_groups = self._uncounted_bytes = 0  # since the log was last looked at

    def submit(self, batches: list[Waiting]) -> None:
        """Queue batches; they are answered through `settle`."""
        self._inbox.put(batches)

    def poll(self, *, on: bool) -> None:
        """Look for commits of other connections from now on, or stop doing so."""
        self._polling = on
        if on:
            self._inbox.put(True)

    def stop(self) -> None:
        """Finish what was submitted, then end `run`."""
        self._inbox.put(False)

    def open(self) -> None:
        """Open the file, prepare it, and remember its version; raises what a caller of `open` should see."""
        connection = open_connection(self._settings)
        try:
            prepare_file(connection, self._settings)
            self._kept = open_connection(self._settings, read_only=True)
            first(self._kept, "SELECT count(*) FROM sqlite_schema")  # opens the log
            self._version = first(connection, "PRAGMA data_version")
        except BaseException:
            close_quietly(connection)
            self.close()
            raise
        self._connection = connection

    def run(self) -> None:
        """Work until stopped; every batch taken is answered."""
        going = True
        while going:
            group, going = self._take()
            if group:
                self._answer(group)
                self._count(group)
            if self._polling and (not group or time.monotonic() >= self._look_at):
                self._look()

    def close(self) -> None:
        """Close the file; the last connection to it copies the log and removes it."""
        self._drop()
        if self._kept is not None:
            close_quietly(self._kept)
            self._kept = None

    def _take(self) -> tuple[list[Waiting], bool]:
        """Wait for work, then take all of it up to the group's limits; `False` once stopped."""
        group: list[Waiting] = []
        size = 0
        try:
            item = self._inbox.get(timeout=self._settings.poll_ms / 1000 if self._polling else None)
            while True:
                if isinstance(item, list):
                    group += item
                    size += sum([waiting.batch.size for waiting in item])
                    if len(group) >= GROUP_BATCHES_MAX or size >= GROUP_BYTES_MAX:
                        return group, True
                elif not item:
                    return group, False
                item = self._inbox.get_nowait()
        except Empty:
            return group, True

    def _answer(self, group: list[Waiting]) -> None:
        if len(group) == 1 and group[0].batch.is_plain:
            decision = self._at_once(group[0].batch)
            if decision is not None:
                self._settle(group, decision)
                return
        try:
            decision = self._write([waiting.batch for waiting in group])
        except Exception as error:  # noqa: BLE001 - whatever happened, the callers must hear of it
            failure = told(error)
            if len(group) > 1 and may_be_one_batch(failure):
                for waiting in group:
                    self._answer([waiting])
                return
            self._settle(group, _failed(group, failure))
            return
        try:
            self._commit()
        except Exception as error:  # noqa: BLE001 - as above; but what failed here is never tried again
            decision = _failed(group, told(error))
        self._settle(group, decision)

    def _at_once(self, batch: Prepared) -> Decision | None:
        """Check, write and commit a lone batch by one statement; None if that did nothing.

        Then an expectation does not hold, another connection writes, or there is no room, which shows before
        a commit record is complete: the longer way tells which. After any other error it may be committed.
        """
        try:
            connection = self._connected()
        except Exception:  # noqa: BLE001 - the longer way meets it too, and answers
            return None
        try:
            if upsert_expected(connection, batch.set, batch.expect):
                return Decision([[]], rows=dict(batch.set))
        except Exception as error:  # noqa: BLE001 - whatever happened, the caller must hear of it
            if is_busy(error) or is_full(error):
                return None
            self._drop()
            if result_code(error) is not None:
                error = mapped(error, self._settings.path, committing=True)
            return Decision([told(error)])
        return None

    def _write(self, batches: list[Prepared]) -> Decision:
        """Decide the batches and write what they leave behind; the transaction stays open."""
        connection = self._begun()
        try:
            stamping = any(batch.ordered for batch in batches)
            stamp = read_stamp(connection) if stamping else 0
            decision = decide(batches, select_rows(connection, keys_read(batches)), stamp)
            _perform(connection, decision, stamping=decision.stamp != stamp)
        except Exception as error:
            self._abandon(connection)
            if result_code(error) is None:
                raise
            raise mapped(error, self._settings.path) from error
        return decision

    def _begun(self) -> Connection:
        connection = self._connected()
        try:
            patiently(lambda: connection.execute("BEGIN IMMEDIATE"), self._settings)
        except CelluleError:
            self._drop()
            raise
        return connection

    def _commit(self) -> None:
        connection = self._connected()
        try:
            connection.execute("COMMIT")
        except Exception as error:
            # Busy changed nothing: a definite answer. After anything else the commit may be on the disk.
            if is_busy(error) and roll_back(connection):
                raise mapped(error, self._settings.path) from error
            self._drop()
            if result_code(error) is None:
                raise
            raise mapped(error, self._settings.path, committing=True) from error

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = open_connection(self._settings)
            self._version = -1
        return self._connection

    def _abandon(self, connection: Connection) -> None:
        if not roll_back(connection):
            self._drop()

    def _drop(self) -> None:
        """Close the connections; new ones are opened when they are needed."""
        for connection in (self._checkpointer, self._connection):
            if connection is not None:
                close_quietly(connection)
        self._checkpointer = self._connection = None

    def _look(self) -> None:
        """Report when another connection committed; our own commits do not move this number."""
        self._look_at = time.monotonic() + self._settings.poll_ms / 1000
        try:
            version = first(self._connected(), "PRAGMA data_version")
        except Exception:  # noqa: BLE001 - the watchers read for themselves, and hear of it there
            self._drop()
            version = -1
        if version != self._version or version == -1:
            self._version = version
            self._changed()

    def _count(self, group: list[Waiting]) -> None:
        """Look at the log after some groups or bytes, not after each: the loop wants the interpreter now."""
        self._uncounted_groups += 1
        self._uncounted_bytes += sum([waiting.batch.size for waiting in group])
        due = self._uncounted_bytes * COUNTS_PER_CHECKPOINT >= self._settings.checkpoint_bytes
        if due or self._uncounted_groups >= COUNT_GROUPS:
            self._uncounted_groups = self._uncounted_bytes = 0
            self._checkpoint()

    def _checkpoint(self) -> None:
        """Copy the log into the file once it grew by `checkpoint_bytes`."""
        size = self._log_bytes()
        if size < self._log_base:
            self._log_base = 0
        if size <= self._log_base + self._settings.checkpoint_bytes:
            return
        with ExitStack() as quiet:
            if size > QUIET_FACTOR * self._settings.checkpoint_bytes:
                for pause in self._pauses:
                    quiet.enter_context(pause)
            try:
                self._copy_log()
            except Exception:  # noqa: BLE001 - nobody waits for this; what lasts, the next commit meets too
                self._drop()
                return
        self._log_base = size

    def _copy_log(self) -> None:
        connection = self._connected()
        if self._checkpointer is None:
            self._checkpointer = open_connection(self._settings)
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        finally:
            self._abandon(connection)

    def _log_bytes(self) -> int:
        try:
            return self._log.stat().st_size
        except OSError:
            return 0


def _perform(connection: Connection, decision: Decision, *, stamping: bool) -> None:
    delete_ranges(connection, decision.ranges)
    rows = decision.rows
    deleted = [key for key, row in rows.items() if row is None]
    delete_rows(connection, sorted(deleted))
    written = {key: row for key, row in rows.items() if row is not None} if deleted else rows
    upsert_rows(connection, cast("dict[bytes, bytes]", written))
    if stamping:
        write_stamp(connection, decision.stamp)


def _failed(group: list[Waiting], failure: CelluleError) -> Decision:
    """Fail all, each caller with an error of its own: one object in many tasks mixes their tracebacks."""
    return Decision(outcomes=[_copied(failure) for _ in group])


def _copied(error: CelluleError) -> CelluleError:
    copy = type(error)(error.code, error.template, hint=error.hint, **error.fields)
    copy.__cause__ = error.__cause__
    return copy
