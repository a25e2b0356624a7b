"""Disks that fail and disks that lose power, under SQLite, through `apsw`.

`FailingDisk` fails the n-th durable operation, so that a test can fail each in turn. `PowerDisk` dies at the
n-th sync and then tells what a machine could find after the power came back. Both are SQLite file systems
over the real one, so locks and shared memory are real. Needs `apsw`; nothing else imports it.

What `PowerDisk` assumes of a disk is written in `docs/formats/sqlite.md`: a sync makes the bytes of a file
last; the first sync of an opened log or journal, and a delete that asks for it, make the names in the folder
last; what was not synced survives in any subset of its 512-byte sectors; no write touches bytes beside it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import apsw

SECTOR_BYTES = 512
LASTING_FILES = (
    apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
)  # fmt: skip
SYNCS_FOLDER = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


@dataclass(frozen=True, slots=True)
class Operation:
    """A durable operation: write, truncate, sync or delete."""

    kind: str
    name: str
    offset: int = 0
    size: int = 0


class Disk(apsw.VFS):
    """A file system whose durable operations are asked for permission first; `close` unregisters it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.lock = threading.RLock()

    def connect(self, path: str) -> apsw.Connection:
        """Open a database on this disk."""
        return apsw.Connection(path, vfs=self.name)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        """Open a file; only those that outlive a process are of interest."""
        if not flags[0] & LASTING_FILES or name is None:
            return apsw.VFSFile("", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        new = not Path(path).exists()
        file = DiskFile(self, path, name, flags)
        if new:
            self.created(Path(path).name)
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        """Delete a file."""
        with self.lock:
            self.before(Operation("delete", Path(filename).name))
            super().xDelete(filename, syncdir)
            self.deleted(Path(filename).name, lasting=bool(syncdir))

    def before(self, operation: Operation) -> None:
        """Called before each durable operation; raises to make it fail."""

    def created(self, name: str) -> None:
        """Called after a file came into being."""

    def deleted(self, name: str, *, lasting: bool) -> None:
        """Called after a file was deleted."""

    def wrote(self, name: str, data: bytes, offset: int) -> None:
        """Called after bytes were written."""

    def truncated(self, name: str, size: int) -> None:
        """Called after a file was cut."""

    def synced(self, name: str, *, folder: bool) -> None:
        """Called after a file was synced, and its folder too if so."""

    def excepthook(self, *_: object) -> bool:
        """SQLite ignores some failures on purpose; so do we."""
        return True


class DiskFile(apsw.VFSFile):
    """A file of a `Disk`."""

    def __init__(self, disk: Disk, path: str, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._path = Path(path)
        self._folder = bool(flags[0] & SYNCS_FOLDER)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        """Write bytes."""
        with self._disk.lock:
            data = bytes(data)
            try:
                self._disk.before(Operation("write", self._path.name, offset, len(data)))
            except Torn as torn:
                super().xWrite(data[: len(data) // 2], offset)
                raise torn.error from None
            super().xWrite(data, offset)
            self._disk.wrote(self._path.name, data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        """Cut the file."""
        with self._disk.lock:
            self._disk.before(Operation("truncate", self._path.name, newsize))
            super().xTruncate(newsize)
            self._disk.truncated(self._path.name, newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Make all that was written last."""
        with self._disk.lock:
            self._disk.before(Operation("sync", self._path.name))
            super().xSync(flags)
            self._disk.synced(self._path.name, folder=self._folder)
            self._folder = False

    def excepthook(self, *_: object) -> bool:
        """SQLite ignores some failures on purpose; so do we."""
        return True


class Torn(Exception):
    """Half of a write reaches the disk before it fails."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class FailingDisk(Disk):
    """Fails the `fail_at`-th durable operation: with `io`, `full`, `torn`, or `lasting` from then on.

    `count` is how many operations were asked for, `failed` are those that failed.
    """

    def __init__(self, name: str, fail_at: int, kind: str) -> None:
        super().__init__(name)
        self.count = 0
        self.failed: list[Operation] = []
        self._fail_at = fail_at
        self._kind = kind

    def heal(self) -> None:
        """Fail no more."""
        with self.lock:
            self._fail_at = 0

    def before(self, operation: Operation) -> None:
        """Fail if it is this operation's turn."""
        self.count += 1
        due = self.count == self._fail_at or (self._kind == "lasting" and self.count > self._fail_at)
        if not self._fail_at or not due:
            return
        self.failed.append(operation)
        error = _failure(operation, full=self._kind == "full")
        raise Torn(error) if self._kind == "torn" and operation.kind == "write" else error


@dataclass(slots=True)
class Inode:
    """The bytes of one file: what is safe, and what was done since, in order."""

    safe: bytes = b""
    pending: list[tuple[str, int, bytes]] = field(default_factory=list)

    def after(self, keep: Callable[[], bool]) -> bytes:
        """Return the bytes after a loss of power, where `keep` says which sectors survived."""
        content = bytearray(self.safe)
        for operation, offset, data in self.pending:
            if operation == "truncate":
                if keep():
                    del content[offset:]
                continue
            for start, piece in _sectors(offset, data):
                if keep():
                    content.extend(bytes(max(0, start - len(content))))
                    content[start : start + len(piece)] = piece
        return bytes(content)


class PowerDisk(Disk):
    """Loses power at its `fail_at`-th sync: that one and all later fail, and only `image` is left."""

    def __init__(self, name: str, fail_at: int) -> None:
        super().__init__(name)
        self.syncs = 0
        self.dead = False
        self._fail_at = fail_at
        self._live: dict[str, Inode] = {}
        self._safe: dict[str, Inode] = {}
        self._names: list[tuple[str, Inode | None]] = []

    def image(self, chance: float, seed: int) -> dict[str, bytes]:
        """Return the files found afterwards: each thing not yet safe survives with probability `chance`."""
        random = Random(seed)
        names = dict(self._safe)
        for name, inode in self._names[: sum(random.random() < chance for _ in self._names)]:
            if inode is None:
                names.pop(name, None)
            else:
                names[name] = inode
        return {name: inode.after(lambda: random.random() < chance) for name, inode in names.items()}

    def before(self, operation: Operation) -> None:
        """Die at the chosen sync; a dead disk does nothing."""
        if operation.kind == "sync":
            self.syncs += 1
            self.dead = self.dead or self.syncs == self._fail_at
        if self.dead:
            raise _failure(operation, full=False)

    def created(self, name: str) -> None:
        """Remember a new file, whose name is not yet safe."""
        with self.lock:
            if not self.dead:
                self._name(name, Inode())

    def deleted(self, name: str, *, lasting: bool) -> None:
        """Remember that a name went away."""
        self._name(name, None)
        if lasting:
            self._settle_names()

    def wrote(self, name: str, data: bytes, offset: int) -> None:
        """Remember a write that is not yet safe."""
        self._live[name].pending.append(("write", offset, data))

    def truncated(self, name: str, size: int) -> None:
        """Remember a cut that is not yet safe."""
        self._live[name].pending.append(("truncate", size, b""))

    def synced(self, name: str, *, folder: bool) -> None:
        """Everything done to this file is safe now."""
        inode = self._live[name]
        inode.safe = inode.after(lambda: True)
        inode.pending.clear()
        if folder:
            self._settle_names()

    def _name(self, name: str, inode: Inode | None) -> None:
        self._names.append((name, inode))
        if inode is None:
            self._live.pop(name, None)
        else:
            self._live[name] = inode

    def _settle_names(self) -> None:
        self._names.clear()
        self._safe = dict(self._live)


def _failure(operation: Operation, *, full: bool) -> Exception:
    codes = {
        "write": apsw.SQLITE_FULL if full else apsw.SQLITE_IOERR_WRITE,
        "sync": apsw.SQLITE_IOERR_FSYNC,
        "truncate": apsw.SQLITE_IOERR_TRUNCATE,
        "delete": apsw.SQLITE_IOERR_DELETE,
    }
    return apsw.exception_for(codes[operation.kind])


def _sectors(offset: int, data: bytes) -> list[tuple[int, bytes]]:
    """Cut a write at the disk's sector boundaries."""
    pieces = []
    start = 0
    while start < len(data):
        end = min(len(data), start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES)
        pieces.append((offset + start, data[start:end]))
        start = end
    return pieces
