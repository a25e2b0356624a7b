"""The data folder: one process owns it; the lock ends with the process, so a restart is immediate.

    <folder>/cellule.db     the SQLite file with everything durable
    <folder>/lock           locked by the owner, and names it: {"host", "pid", "since_ns"}, empty when free
    <folder>/scratch-*      spilled cells of the running owner; worthless afterwards

A process that does not own the folder tries again every half second. An owner looks, twice a second and
before it acknowledges or answers anything, whether the lock and the files of the database are still those of
the path: where somebody removed or replaced them, its claim is over.

Rejected: a lease in the database. After a crash everybody would have to wait for it to end.
Rejected: POSIX locks. A process loses one when it closes any other file of that path.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID
from weakref import WeakSet

from cellule.errors import Rejected, Unavailable
from cellule.host.limits import FOLDER_FINE_NS, FOLDER_GRAIN_FINE_S, FOLDER_GRAIN_S, FOLDER_LOOK_S
from cellule.host.own.ownership import Claim, SessionInfo, node_closed
from cellule.sources import Clock, Entropy, uuid7

_log = logging.getLogger("cellule.host")
_held: WeakSet[FolderLock] = WeakSet()
Look = tuple[int, int, int, int] | None
"""Which folder it is, and when names in it changed last; None where there is none."""


class FolderLock:
    """An exclusive lock on a data folder, held by an open file."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "lock")
        self._file: int | None = None

    @property
    def is_held(self) -> bool:
        """Tell whether this process owns the folder."""
        return self._file is not None

    def acquire(self, since_ns: int = 0) -> bool:
        """Try to own the folder; False where another process does."""
        if self._file is not None:
            return True
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise folder_error(Path(self.path).parent, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except OSError as error:
            os.close(file)
            raise folder_error(Path(self.path).parent, error) from error
        self._file = file
        if not self.is_in_place():  # it was removed after it was opened
            self.abandon()
            return False
        _held.add(self)
        named = {"host": socket.gethostname(), "pid": os.getpid(), "since_ns": since_ns}
        with suppress(OSError):  # the name is for messages; a full disk must not keep the owner out
            os.truncate(file, 0)
            os.pwrite(file, json.dumps(named).encode() + b"\n", 0)
        return True

    def is_in_place(self) -> bool:
        """Tell whether the file held is the one that others would lock."""
        return self._file is not None and _identity(self.path) == _identity(self._file)

    def owner(self) -> SessionInfo | None:
        """Which living process wrote its name into the lock; for messages only."""
        try:
            named: Any = json.loads(Path(self.path).read_text())
            found = SessionInfo(str(named["host"]), int(named["pid"]), int(named["since_ns"]), owns=True)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return found if found.host != socket.gethostname() or _is_running(found.pid) else None

    def release(self) -> None:
        """Give the folder up."""
        if self._file is not None:
            with suppress(OSError):
                os.truncate(self._file, 0)  # nobody owns the folder now; after a crash the name stays
            self.abandon()

    def abandon(self) -> None:
        """Close the file and leave its contents: it is another's, or another process still holds it."""
        _held.discard(self)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class FolderClaim:
    """The folder is this process's as long as its lock and its files are those of the path."""

    def __init__(self, node: UUID, is_in_place: Callable[[], bool], lost: Callable[[], None]) -> None:
        self.node = node
        self.witness: Mapping[bytes, bytes] = {}
        self._is_in_place = is_in_place
        self._lost = lost
        self._is_over = False

    def is_valid(self) -> bool:
        """See `Claim`; it looks at the path each time, which takes a microsecond or two."""
        if not self._is_over and not self._is_in_place():
            self._is_over = True
            self._lost()
        return not self._is_over


class FolderOwnership:
    """Owns a folder when its lock is free. `files` are what must stay in place; they exist."""

    def __init__(
        self, folder: Path, files: Sequence[Path], clock: Clock, entropy: Entropy, *, contends: bool = True
    ) -> None:
        self._lock = FolderLock(folder)
        self._clock = clock
        self._entropy = entropy
        self.contends = contends
        self._files = {str(file): _identity(str(file)) for file in files}
        self._folders = {str(folder), *(str(file.parent) for file in files)}
        self._seen: Sequence[Look] = ()  # how the folders looked last, and since when
        self._seen_ns = 0
        self._trusted: Sequence[Look] | None = None  # how they look while everything is in place
        self._look = asyncio.Event()
        self.claim: Claim | None = None
        self._is_over = False

    @asynccontextmanager
    async def contending(self, changed: Callable[[], None]) -> AsyncIterator[None]:
        """See `Ownership`."""
        if not self.contends:
            yield
            self._is_over = True
            return
        self._try()
        looking = asyncio.create_task(self._keep_looking(changed), name="folder lock")
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
            self.claim, self._is_over = None, True
            if self._lock.is_in_place():
                self._lock.release()
            else:
                self._lock.abandon()

    def check_store(self) -> None:
        """See `Ownership`."""
        if (replaced := self._replaced()) is not None and self._is_over:
            raise node_closed()  # the last one who leaves a database removes its log
        if replaced is not None:
            raise Unavailable(
                "host.folder_replaced", "{file} was removed or replaced under this node", file=replaced,
                hint="Close this node and open the folder again.",
            )  # fmt: skip

    async def sessions(self) -> list[SessionInfo]:
        """See `Ownership`: the owner, if there is one."""
        found = self._lock.owner()
        return [] if found is None else [found]

    async def _keep_looking(self, changed: Callable[[], None]) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(FOLDER_LOOK_S):
                    await self._look.wait()
            self._look.clear()
            self._trusted = None  # there are file systems that tell no times
            before = self.claim
            if before is not None and not before.is_valid():
                _log.error(
                    "%s was removed or replaced: this node stops working on it",
                    self._replaced() or self._lock.path,
                )
                self._lock.abandon()
                self.claim = None
            with suppress(Unavailable, Rejected):  # the folder itself may be gone
                self._try()
            if self.claim is not before:
                changed()

    def _try(self) -> None:
        if self.claim is not None or self._replaced() is not None:
            return
        if not self._lock.acquire(self._clock.now_ns()):
            return
        node = uuid7(self._clock.now_ns(), self._entropy.bytes(10))
        self.claim = FolderClaim(node, self._is_in_place, self._look.set)

    def _is_in_place(self) -> bool:
        """Look at the times of the folders, which tell of every change of a name; if they did at all files.

        Two changes within the grain of a file system's times look like one: only later looks are trusted.
        """
        looks = [_look(folder) for folder in self._folders]
        if looks == self._trusted and self._lock.is_held:
            return True
        is_in_place = self._lock.is_in_place() and self._replaced() is None
        now_ns = self._clock.monotonic_ns()
        if looks != self._seen:
            self._seen, self._seen_ns = looks, now_ns
        elif is_in_place and now_ns - self._seen_ns >= _grain_s(looks) * 1e9:
            self._trusted = looks
        return is_in_place

    def _replaced(self) -> str | None:
        """The first file that is not the one of its path any more."""
        return next((file for file, known in self._files.items() if _identity(file) != known), None)


def make_folder(folder: Path) -> None:
    """Make the data folder if it is missing, for this user alone; its name, and those above, are durable."""
    try:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        for each in missing:
            _sync(each.parent)
    except OSError as error:
        raise folder_error(folder, error) from error


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def keep_private(folder: Path | None) -> None:
    """Let nobody but this user read the files of a data folder that was just made."""
    for path in folder.iterdir() if folder is not None else ():
        with suppress(FileNotFoundError):
            if path.is_file():
                path.chmod(0o600)


def folder_error(folder: Path, error: OSError) -> Rejected | Unavailable:
    """An error of the file system as one of ours."""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        return Rejected(
            "host.folder", "the data folder {folder} cannot be used: {why}",
            folder=str(folder), why=error.strerror, hint="Choose a folder this process may write to.",
        )  # fmt: skip
    return Unavailable(
        "host.folder_unavailable", "the data folder {folder}: {why}", folder=str(folder), why=error.strerror
    )


def _identity(file: str | int) -> tuple[int, int] | None:
    """Which file it is, whatever its name; None where there is none."""
    try:
        found = os.stat(file)  # noqa: PTH116 - a text, because this is asked for each acknowledgement
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _grain_s(looks: Sequence[Look]) -> float:
    """How far apart two changes lie whose times surely differ; whole times may come from a coarse clock."""
    is_fine = all(look is not None and look[2] % FOLDER_FINE_NS for look in looks)
    return FOLDER_GRAIN_FINE_S if is_fine else FOLDER_GRAIN_S


def _look(folder: str) -> Look:
    try:
        found = os.stat(folder)  # noqa: PTH116 - as above
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def _is_running(pid: int) -> bool:
    """Tell whether a process of that number lives on this machine."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _let_go_in_child() -> None:
    """A forked child has the file too, and would keep the folder locked after its parent's end."""
    for lock in list(_held):
        lock.abandon()


os.register_at_fork(after_in_child=_let_go_in_child)
